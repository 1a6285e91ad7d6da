"""The preset for agents that update on their own schedule: what it says to stacks, to ``PGP`` and to others."""

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.agents import PGP
from constrained_maxent.tasks import PRESETS
from constrained_maxent.tracker import find_tracker

IDS = ["FrozenLake-PGP-v0", "SafeCartpole-PGP-v0", "PointMass-PGP-v0"]


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("settings", [{}, {"limit": 5.0}])
def test_rewards_are_live_and_of_one_scale(env_id, settings):
    for num_envs in (None, 2):
        kind = gym.make if num_envs is None else lambda *args, **kwargs: gym.make_vec(*args, num_envs=2, **kwargs)
        tracker = find_tracker(kind(env_id, preset="ppo", **settings))
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
    tracker.announce(iterations=30)
    env.reset(seed=0)
    rng, deviations, totals = np.random.default_rng(0), [], np.zeros(16)
    while tracker.iteration < 30:
        seen = []
        while "batch" not in (step := env.step(rng.integers(4, size=16)))[4]:
            totals = step[1] + 0.99 * totals * ~(step[2] | step[3])
            seen.append(totals)
        deviations.append(np.std(seen))
    assert deviations[0] == 0.0  # before the first estimate
    assert 0.3 < min(deviations[1:]) < max(deviations[1:]) < 3.0
    assert tracker.reward_scale > 100.0


@pytest.mark.parametrize("env_id", IDS)
def test_pgp_learns_under_it_as_well(env_id):
    small = {} if env_id == IDS[0] else {"time_limit": 0.2, "steps_per_batch": 64}
    agent = PGP(gym.make_vec(env_id, num_envs=2, preset="ppo", **small), seed=0).learn(iterations=3)
    assert agent.hyperparameters.learning_rate == PRESETS[env_id]["ppo"].agent["learning_rate"]
    assert agent.hyperparameters.max_divergence == PRESETS[env_id]["ppo"].agent.get("max_divergence", np.inf)
