"""SafeHalfCheetah-PGP-v0, SafeAnt-PGP-v0 and SafeHumanoid-PGP-v0."""

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.adapters.sb3 import VecEnv
from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.evaluation.state_measures import STATE_MEASURES
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.tasks import PRESETS
from constrained_maxent.testing import check_constrained_env
from constrained_maxent.tracker import find_tracker

pytestmark = pytest.mark.filterwarnings("ignore::constrained_maxent.errors.UnplannedRun")

ANGLES = {"HalfCheetah": (2,), "Ant": (3, 5), "Humanoid": (3, 5)}
SMALL = {"episodes_per_batch": 2, "estimator": GaussianMixture(n_components=2), "time_limit": 0.6}


@pytest.mark.parametrize("name", ANGLES)
def test_explores_where_the_torso_is(name):
    env = gym.make_vec(f"Safe{name}-PGP-v0", num_envs=8)
    tracker = find_tracker(env)
    assert tuple(tracker.estimator.periodic) == ANGLES[name]
    assert (tracker.weighting.discount, tracker.weighting.horizon) == (1.0, 100)
    assert tracker.problem.objective.over == "state"
    assert tracker.steps_of_full_batch == 80 * 100
    limits = {name: constraint.functional.limit for name, constraint in tracker.problem.constraints.items()}
    assert limits == {"speed": 0.1, "tilt": 0.1}
    observations, infos = env.reset(seed=0)
    x_and_z = [0, 1] if name == "HalfCheetah" else [0, 1, 2]
    np.testing.assert_array_equal(observations[:, x_and_z], infos["torso"][:, x_and_z])
    for stack in ("-v0", "-PGP-v0"):
        assert STATE_MEASURES[f"Safe{name}{stack}"].periodic == ANGLES[name]
    assert len(STATE_MEASURES[f"Safe{name}-PGP-v0"].units) == infos["torso"].shape[1]


def test_a_constraint_is_the_share_of_steps_above_a_threshold():
    settings = {"costs": ("height", "speed"), "speed_limit": 0.2, "height_limit": 0.69, "limit": 0.25}
    env = gym.make("SafeAnt-PGP-v0", **SMALL, **settings)
    assert list(find_tracker(env).problem.constraints) == ["height", "speed"]
    env.reset(seed=0)
    env.action_space.seed(0)
    costs, batch = [], None
    while batch is None:
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        costs.append((info["cost_height"], info["cost_speed"]))
        batch = info.get("batch")
        if terminated or truncated:
            env.reset()
    shares = np.mean(costs, axis=0)
    assert len(costs) == 2 * 12
    assert (shares > 0.0).all()
    assert (shares < 1.0).all()
    assert list(batch["constraints"].values()) == pytest.approx(shares - 0.25)


@pytest.mark.parametrize("name", ANGLES)
def test_keeps_the_contract(name):
    check_constrained_env(gym.make(f"Safe{name}-PGP-v0", **SMALL), n_batches=2)
    check_constrained_env(gym.make_vec(f"Safe{name}-PGP-v0", num_envs=2, **SMALL), n_batches=2)


def test_can_be_learnt_and_made_again():
    env = gym.make_vec("SafeHalfCheetah-PGP-v0", num_envs=2, time_limit=0.6, episodes_per_batch=4)
    PGP(env, seed=0, hidden_sizes=(16,)).learn(iterations=2)
    assert find_tracker(env).iteration == 2
    assert set(find_tracker(env).last_report.constraints) == {"speed", "tilt"}
    again = gym.make_vec(env.spec)
    assert again.single_observation_space == env.single_observation_space
    assert find_tracker(again).problem.term_names == find_tracker(env).problem.term_names


def test_agents_that_update_on_their_own_schedule():
    settings = SMALL | {"estimator": GaussianMixture(n_components=1), "episodes_per_batch": 8}
    venv = VecEnv("SafeAnt-PGP-v0", num_envs=2, **settings)
    tracker = find_tracker(venv.env)
    assert tracker.pairing == "previous"
    assert tracker.suggestions == PRESETS["SafeAnt-PGP-v0"]["ppo"].agent
    venv.reset()
    generator = np.random.default_rng(0)
    while tracker.iteration < 2:
        _, rewards, _, _ = venv.step(generator.uniform(-1.0, 1.0, (2, 8)).astype(np.float32))
    assert (rewards != 0.0).all()


def test_what_a_walker_does_not_have():
    with pytest.raises(InvalidSetting, match="reference="):
        gym.make("SafeAnt-PGP-v0", reference="expert.npz")
    with pytest.raises(InvalidSetting, match="preset"):
        gym.make("SafeAnt-PGP-v0", preset="paper")
