"""The preset for agents that update on their own schedule: what it says to stacks, to ``PGP`` and to others."""

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.agents import PGP
from constrained_maxent.tasks import PRESETS
from constrained_maxent.tracker import find_tracker

IDS = ["FrozenLake-PGP-v0", "SafeCartpole-PGP-v0", "PointMass-PGP-v0"]


@pytest.mark.parametrize(
    ("env_id", "settings"), [(IDS[0], {}), (IDS[1], {"num_envs": 2}), (IDS[2], {}), (IDS[2], {"limit": 5.0})]
)
def test_rewards_are_live_and_of_one_scale(env_id, settings):
    make = gym.make_vec if "num_envs" in settings else gym.make
    tracker = find_tracker(make(env_id, preset="ppo", **settings))
    assert tracker.pairing == "previous"
    assert tracker.state_dict()["reward_scale"] == {"variance": 0.0, "weight": 0.0}
    assert tracker.suggestions == PRESETS[env_id]["ppo"].agent


@pytest.mark.parametrize("env_id", IDS)
def test_what_is_given_goes_before_it(env_id):
    tracker = find_tracker(gym.make(env_id, preset="ppo", pairing="same", normalize_reward=False))
    assert tracker.pairing == "same"
    assert tracker.state_dict()["reward_scale"] is None


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("env_id", IDS)
def test_the_other_presets_are_for_pgp(env_id, preset):
    tracker = find_tracker(gym.make(env_id, preset=preset))
    assert tracker.pairing == "same"
    assert tracker.state_dict()["reward_scale"] is None


def test_rewards_of_the_grid_keep_their_size_while_the_price_grows():
    """Uniformly random actions: what a critic would have to tell has about the deviation 1 in every batch."""
    env = gym.make_vec("FrozenLake-PGP-v0", num_envs=16, preset="ppo", autoreset_mode="SameStep")
    tracker = find_tracker(env)
    tracker.announce(iterations=100)
    env.reset(seed=0)
    rng, deviations, totals = np.random.default_rng(0), [], np.zeros(16)
    while tracker.iteration < 100:
        seen, infos = [], {}
        while "batch" not in infos:
            _, rewards, terminated, truncated, infos = env.step(rng.integers(4, size=16))
            seen.append(totals := rewards + 0.99 * totals)
            totals = totals * ~(terminated | truncated)
        deviations.append(np.std(seen))
    assert deviations[0] == 0.0  # before the first estimate
    assert 0.5 < min(deviations[1:]) < max(deviations[1:]) < 2.5
    assert tracker.reward_scale > 100.0


@pytest.mark.parametrize("env_id", IDS)
def test_pgp_takes_its_suggestions(env_id):
    chosen = PGP(gym.make(env_id, preset="ppo")).hyperparameters
    suggested = PRESETS[env_id]["ppo"].agent
    assert {name: getattr(chosen, name) for name in suggested} == suggested | {
        "hidden_sizes": tuple(suggested["hidden_sizes"])
    }


@pytest.mark.parametrize("policy", ["tabular", "mlp"])
def test_pgp_learns_under_it_as_well(policy):
    env = gym.make_vec(IDS[0], num_envs=16, preset="ppo")
    assert PGP(env, policy=policy, seed=0).learn(iterations=3).iteration == 3
