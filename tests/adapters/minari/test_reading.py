"""A data set is measured by what a stack asks for now, and not by what was asked for when it was collected."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent import runs
from constrained_maxent.adapters.minari import batch
from constrained_maxent.errors import HorizonMismatch, MissingState
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
