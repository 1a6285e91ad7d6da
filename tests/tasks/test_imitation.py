"""PointMass-PGP-v0 with a limit: the constraint, its reference, and what Gymnasium wants of the environment."""

import pickle

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent  # noqa: F401  (registers the ids)
from constrained_maxent.agents import PGP
from constrained_maxent.envs import PointMass
from constrained_maxent.errors import DamagedReference, InvalidSetting
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.penalties import Quadratic
from constrained_maxent.references import Reference, shipped
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.testing import check_constrained_env
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import Points

pytestmark = pytest.mark.filterwarnings("ignore::constrained_maxent.errors.UnplannedRun")

POINT_MASS = "PointMass-PGP-v0"
SMALL = {"steps_per_batch": 60, "estimator": GaussianMixture(n_components=2), "time_limit": 0.5, "limit": 20.0}


def constraint_of(env):
    return find_tracker(env).problem.constraints["imitation"]


def test_the_constraint():
    constraint = constraint_of(gym.make(POINT_MASS, limit=20.0, beta=3.0))
    assert (constraint.functional.limit, constraint.penalty) == (20.0, Quadratic(3.0))
    assert constraint.functional.reference is shipped("PointMass-v0")
    assert constraint_of(gym.make(POINT_MASS, limit=2.0, preset="paper")).penalty == Quadratic(10.0)
    assert "imitation" not in find_tracker(gym.make(POINT_MASS)).problem.constraints


@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_a_distance_is_not_negative(kind):
    make = gym.make if kind == "scalar" else gym.make_vec
    with pytest.raises(InvalidSetting, match="limit"):
        make(POINT_MASS, limit=-1)
    assert constraint_of(make(POINT_MASS, limit=0)).functional.limit == 0


@pytest.mark.parametrize(
    "part", [{"beta": 3.0}, {"penalty": Quadratic(3.0)}, {"reference": "nowhere.npz"}, {"reference": 0}]
)
def test_parts_of_a_constraint_need_its_limit(part):
    (name,) = part
    with pytest.raises(InvalidSetting, match=f"{name}="):
        gym.make(POINT_MASS, **part)


def test_the_command_line_has_the_limit():
    env = make_environment(POINT_MASS, TrainSettings(limit=20.0, beta=3.0, num_envs=2))
    constraint = constraint_of(env)
    assert (constraint.functional.limit, constraint.penalty) == (20.0, Quadratic(3.0))


def test_a_reference_of_ones_own(tmp_path):
    mine = Reference(shipped("PointMass-v0").states)
    mine.save(tmp_path / "mine.npz")
    for given in (mine, tmp_path / "mine.npz", str(tmp_path / "mine.npz")):
        functional = constraint_of(gym.make(POINT_MASS, limit=2.0, reference=given)).functional
        assert (functional.over, functional.reference.policy) == ("state", None)


def test_any_function_can_be_imitated():
    def everywhere_alike(points):
        return np.ones_like(points.density)

    assert constraint_of(gym.make(POINT_MASS, limit=2.0, reference=everywhere_alike)).functional.reference is (
        everywhere_alike
    )


def test_refuses(tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"")
    with pytest.raises(DamagedReference):
        gym.make(POINT_MASS, limit=2.0, reference=tmp_path / "broken.npz")
    with pytest.raises(FileNotFoundError):
        gym.make(POINT_MASS, limit=2.0, reference="nowhere.npz")
    for no_file in (5, {}, b"nowhere.npz"):
        with pytest.raises(InvalidSetting, match="reference"):
            gym.make(POINT_MASS, limit=2.0, reference=no_file)
    for wrong in (float("nan"), "20"):
        with pytest.raises(InvalidSetting, match="limit"):
            gym.make(POINT_MASS, limit=wrong)


@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_an_agent_is_told_its_distance(kind):
    env = gym.make(POINT_MASS, **SMALL) if kind == "scalar" else gym.make_vec(POINT_MASS, num_envs=4, **SMALL)
    reports = []
    PGP(env, seed=0, hidden_sizes=(8,)).learn(
        iterations=2, callback=lambda agent, report: reports.append(report.constraints["imitation"])
    )
    # The first policy is nowhere near the expert's: more than 5 nats.
    assert np.isfinite(reports).all()
    assert reports[0] + 20.0 > 5.0


def test_keeps_the_contract():
    check_constrained_env(gym.make(POINT_MASS, **SMALL), n_batches=1)


def test_spec_and_pickle():
    settings = {"steps_per_batch": 60, "time_limit": 0.5, "limit": 20.0, "preset": "paper"}
    env = gym.make(POINT_MASS, **settings)
    for again in (gym.make(env.spec), gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))):
        assert str(again) == str(env)
        assert constraint_of(again).functional.limit == 20.0
    mine = Reference(shipped("PointMass-v0").states)
    given = gym.make(POINT_MASS, reference=mine, **settings)
    assert constraint_of(gym.make(given.spec)).functional.reference is mine
    twin = pickle.loads(pickle.dumps(env))
    assert constraint_of(twin).penalty == Quadratic(10.0)


def test_the_shipped_expert_reaches_the_target_and_its_density_knows_where_it_rests():
    reference, env, rng = shipped("PointMass-v0"), PointMass(), np.random.default_rng(0)
    observation, info = env.reset(seed=12345)
    total, states, truncated = 0.0, [], False
    while not truncated:
        states.append(info["state"])
        observation, reward, _, truncated, info = env.step(reference.act(observation[None], rng)[0])
        total += reward
    assert total > 500.0
    states = np.array(states[500:])
    rest = np.zeros((500, 2))
    points = Points(density=np.ones(500), state_density=np.ones(500), states=states, observations=states,
                    actions=rest, is_over_actions=False)  # fmt: skip
    uniform = 1.0 / (0.58**2 * 1.0)  # over the table and speeds of ±½ m/s
    assert np.log(reference(points)).mean() > np.log(uniform)
