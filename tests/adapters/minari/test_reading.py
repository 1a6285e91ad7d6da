"""A data set is measured by what a stack asks for now, and not by what was asked for when it was collected."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent as cmx
from constrained_maxent import runs
from constrained_maxent.adapters.minari import batch
from constrained_maxent.errors import (
    DistortingLayer,
    HorizonMismatch,
    InvalidData,
    InvalidDataset,
    InvalidSetting,
    MissingCost,
    MissingState,
    NonFiniteValue,
)
from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain

minari = pytest.importorskip("minari")
pytestmark = pytest.mark.usefixtures("datasets")


def test_another_state_and_another_cost_of_the_same_name() -> None:
    settings = runs.TrainSettings(state=("0:1", "2"), env_kwargs='{"max_episode_steps": 20}')
    runs.collect("Pendulum-v1", "pendulum/uniform-v0", steps=40, settings=settings, num_envs=2)
    stack = constrain(
        gym.make_vec("Pendulum-v1", num_envs=1, max_episode_steps=20),
        constraints={"effort": Constraint(LinearCost(lambda observation, action, after: abs(after[2]), limit=0.0))},
        estimator=GaussianMixture(n_components=1),
        state=[2],
        episodes_per_batch=1,
        discount=1.0,
    )
    found = batch("pendulum/uniform-v0", stack)
    episodes = list(minari.load_dataset("pendulum/uniform-v0"))
    speeds = np.concatenate([episode.observations[:-1, 2] for episode in episodes])
    np.testing.assert_array_equal(found.states, speeds[:, None])
    after = np.concatenate([episode.observations[1:, 2] for episode in episodes])
    np.testing.assert_array_equal(found.costs["effort()"], np.abs(after))


def test_ends_as_a_cost_and_episodes_that_are_cut() -> None:
    settings = runs.TrainSettings(env_kwargs='{"max_episode_steps": 16}')
    runs.collect("CartPole-v1", "pole/uniform-v0", steps=160, settings=settings, num_envs=2)
    episodes = list(minari.load_dataset("pole/uniform-v0"))
    ends = sum(bool(episode.terminations[-1]) for episode in episodes)
    found = runs.evaluate_dataset(
        "pole/uniform-v0", "CartPole-v1", runs.TrainSettings(cost="terminated", env_kwargs=settings.env_kwargs)
    )
    assert 0 < ends < len(episodes)
    assert found.costs["terminated"].mean.mean == pytest.approx(ends / sum(map(len, episodes)))
    with pytest.warns(HorizonMismatch, match=f"{len(episodes) - ends} of {len(episodes)} .* before the horizon of 500"):
        runs.evaluate_dataset("pole/uniform-v0", "CartPole-v1")
    settings = runs.TrainSettings(env_kwargs='{"max_episode_steps": 5}')
    runs.collect("MountainCar-v0", "car/uniform-v0", steps=10, settings=settings, num_envs=2)
    endless = runs.TrainSettings(env_kwargs='{"max_episode_steps": -1}')
    with pytest.warns(HorizonMismatch, match=r"2 of 2 .* before they ended"):
        runs.evaluate_dataset("car/uniform-v0", "MountainCar-v0", endless)


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("MountainCarContinuous-v0", '{"max_episode_steps": 5, "goal_velocity": 0.1}'),
        ("FrozenLake-PGP-v0", '{"horizon": 5}'),
        ("SafeCartpole-PGP-v0", '{"time_limit": 0.1, "over": "state"}'),
        ("SafeHalfCheetah-PGP-v0", '{"time_limit": 0.5}'),
    ],
)
def test_the_environment_that_it_names_is_that_which_was_stepped(env_id: str, kwargs: str) -> None:
    runs.collect(env_id, "some/uniform-v0", steps=5, settings=runs.TrainSettings(env_kwargs=kwargs), num_envs=1)
    data = minari.load_dataset("some/uniform-v0")
    env = data.recover_environment()
    assert env.observation_space == data.observation_space
    (seed,) = {found["seed"] for found in data.storage.get_episode_metadata(data.episode_indices[:1])}
    episode = data[0]
    env.reset(seed=int(seed))
    for t, action in enumerate(episode.actions):
        observation, *_, truncated, _ = env.step(action)
        np.testing.assert_allclose(observation, episode.observations[t + 1], atol=1e-6)
    assert truncated
    env.close()


class Forgetful(gym.Env[Any, Any]):
    """It says where it is, but not at the end."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.time = 0
        return np.zeros(1, np.float32), {"place": np.zeros(1)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        info = {} if self.time == 5 else {"place": np.full(1, float(self.time))}
        return np.full(1, self.time, np.float32), 0.0, self.time == 5, False, info


def test_a_state_that_is_missing_at_the_end_is_not_0() -> None:
    gym.register("Forgetful-v0", entry_point=Forgetful, max_episode_steps=9)
    settings = runs.TrainSettings(state=("place",))
    with pytest.raises(MissingState, match="place"):
        runs.collect("Forgetful-v0", "some/forgetful-v0", steps=10, settings=settings, num_envs=2)
    del gym.registry["Forgetful-v0"]


class Fenced(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """What somebody has put around the environment that a data set names."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)


def theirs(infos: Any, env: gym.Env[Any, Any] | None = None, name: str = "car/theirs-v0") -> Any:
    """A data set of somebody's, of one episode of two steps."""
    buffer = minari.data_collector.EpisodeBuffer(
        id=0,
        observations=np.array([[-0.5, 0.0], [-0.4, 0.01], [-0.3, 0.02]], np.float32),
        actions=np.array([[0.5], [0.25]], np.float32),
        rewards=np.zeros(2),
        terminations=np.zeros(2, bool),
        truncations=np.array([False, True]),
        infos=infos,
    )
    about = {"code_permalink": "https://example.org", "author": "me", "author_email": "me@example.org"}
    made = env or gym.make("MountainCarContinuous-v0", max_episode_steps=2)
    about |= {"algorithm_name": "none", "description": "two steps", "eval_env": made.spec}  # else it warns
    return minari.create_dataset_from_buffers(name, [buffer], env=made.spec, **about)


def test_a_cost_is_one_that_the_data_have() -> None:
    """The environment reports none."""
    theirs({"cost": np.array([1.0, 3.0]), "crash": np.array([9.0, 0.0, 1.0])})
    found = runs.evaluate_dataset("car/theirs-v0")
    assert found.constraints["cost"].mean == found.costs["cost"].mean.mean == 2.0
    found = runs.evaluate_dataset("car/theirs-v0", settings=runs.TrainSettings(cost="crash", limit=0.25))
    assert found.constraints["cost"].mean == 0.25  # the first entry is that of a reset
    with pytest.raises(InvalidSetting, match=r"data set reports no info\['danger'\] \(it reports: cost, crash\)"):
        runs.evaluate_dataset("car/theirs-v0", settings=runs.TrainSettings(cost="danger"))


def test_data_without_the_cost_of_their_environment_are_measured_without_it() -> None:
    gym.register("Costly-v0", entry_point=f"{__name__}:Costly", max_episode_steps=2)
    theirs(None, gym.make("Costly-v0"))
    assert runs.evaluate_dataset("car/theirs-v0").costs == {}
    with pytest.raises(InvalidSetting, match="data set reports no"):
        runs.evaluate_dataset("car/theirs-v0", settings=runs.TrainSettings(limit=1.0))
    del gym.registry["Costly-v0"]
    with pytest.raises(InvalidSetting, match="--env-id module:Costly-v0"):
        runs.evaluate_dataset("car/theirs-v0")


class Costly(gym.Env[Any, Any]):
    """It reports a cost in the spaces of MountainCarContinuous."""

    def __init__(self) -> None:
        car = gym.make("MountainCarContinuous-v0")
        self.observation_space, self.action_space = car.observation_space, car.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.array([-0.5, 0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([-0.5, 0.0], np.float32), 0.0, False, False, {"cost": 1.0}


def test_wrappers_that_are_not_made_again_are_named() -> None:
    theirs(None, Fenced(gym.make("MountainCarContinuous-v0", max_episode_steps=2)))
    with pytest.warns(DistortingLayer, match="through Fenced, and MountainCarContinuous-v0 is made without"):
        runs.evaluate_dataset("car/theirs-v0")


@pytest.mark.parametrize(
    ("cost", "error"),
    [
        (["high", "low"], InvalidData),
        ({"left": np.zeros(2)}, InvalidData),
        (np.zeros(4), InvalidData),
        (np.array([0.0, np.nan]), NonFiniteValue),
    ],
)
def test_costs_that_are_none_are_named_with_their_episode(cost: Any, error: type[Exception]) -> None:
    theirs({"cost": cost})
    with pytest.raises(error, match=r"^Episode 0: (infos|costs)\['cost'\]"):
        runs.evaluate_dataset("car/theirs-v0")


def test_what_is_no_data_set_is_named(datasets: Path) -> None:
    stack = cmx.wrappers.constrain(
        gym.make_vec("MountainCarContinuous-v0", num_envs=1, max_episode_steps=2),
        constraints={"cost": Constraint(LinearCost("cost", limit=0.0))},
        estimator=GaussianMixture(n_components=1),
        episodes_per_batch=1,
    )
    with pytest.raises(InvalidSetting, match="dataset=42"):
        batch(42, stack)
    with pytest.raises(MissingCost, match="'cost'"):
        batch(theirs(None), stack)
    file = datasets / "car" / "theirs-v0" / "data" / "main_data.hdf5"
    data = minari.load_dataset("car/theirs-v0")
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InvalidDataset, match="episodes of 'car/theirs-v0' cannot be read"):
        batch(data, stack)
    file.unlink()
    with pytest.raises(InvalidDataset, match="'car/theirs-v0' cannot be read"):
        batch("car/theirs-v0", stack)
