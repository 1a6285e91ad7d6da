"""Tasks of dm_control in Shimmy's adapter: what a seed reaches, and an unstable simulation."""

# ruff: noqa: NPY002  # it is the global generator that dm_control draws from
from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of a machine without a display
    import shimmy  # noqa: F401  # registers its ids
    from dm_control.rl.control import PhysicsError

from constrained_maxent.adapters.dm_control import DmControlTask
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.horizon import find_horizon


def numbers(observation: Any) -> list[float]:
    return np.concatenate([np.ravel(part) for part in observation.values()]).tolist()


def walk(env: Any, seed: int, n_steps: int = 3) -> list[Any]:
    seen = [env.reset(seed=seed)[0]]
    seen += [env.step(np.full(env.action_space.shape, 0.5))[0] for _ in range(n_steps)]
    return [*seen, env.reset()[0]]


class Elsewhere(gym.Env[Any, Any]):
    """Draws from NumPy's global generator as it is made, at resets and in steps, as dm_control's mazes do."""

    env_type = "composer"
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Box(-1.0, 1.0, ())

    def __init__(self) -> None:
        self.layout = np.random.uniform()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.array([self.layout, np.random.uniform()]), {}

    def step(self, action: Any) -> Any:
        return np.array([self.layout, np.random.uniform()]), 0.0, False, False, {}


@pytest.fixture(scope="module", autouse=True)
def elsewhere() -> Iterator[None]:
    gym.register("dm_control/Elsewhere-v0", Elsewhere, nondeterministic=True, disable_env_checker=True)
    yield
    del gym.registry["dm_control/Elsewhere-v0"]


class TestSeeds:
    @pytest.mark.parametrize("task", ["pendulum-swingup", "lqr-lqr_2_1"])
    def test_two_environments_are_the_same_under_the_same_seed(self, task: str) -> None:
        one, other = (DmControlTask(gym.make(f"dm_control/{task}-v0")) for _ in range(2))
        first, second, third = walk(one, 7), walk(other, 7), walk(one, 8)
        assert list(map(numbers, first)) == list(map(numbers, second))
        assert numbers(first[0]) != numbers(third[0])

    def test_upstream_draws_the_model_of_lqr_anew_for_each_copy(self) -> None:
        """Without which nothing is left to do here."""
        one, other = (gym.make("dm_control/lqr-lqr_2_1-v0").unwrapped.physics.model for _ in range(2))  # type: ignore[attr-defined]
        assert one.jnt_stiffness.tolist() != other.jnt_stiffness.tolist()

    def test_a_model_of_lqr_that_was_asked_for(self) -> None:
        bare = gym.make("dm_control/lqr-lqr_2_1-v0", task_kwargs={"random": 3})
        expected = bare.unwrapped.physics.model.jnt_stiffness.tolist()  # type: ignore[attr-defined]
        model = DmControlTask(bare).unwrapped.physics.model  # type: ignore[attr-defined]
        assert model.jnt_stiffness.tolist() == expected

    def test_what_is_drawn_from_the_global_generator(self) -> None:
        one, other = (DmControlTask(gym.make("dm_control/Elsewhere-v0")) for _ in range(2))
        first, second = walk(one, 7), walk(other, 7)
        assert np.array(first).tolist() == np.array(second).tolist()
        assert len({row[1] for row in np.array(first).tolist()}) == 5
        assert np.array(walk(one, 7)).tolist() == np.array(first).tolist()
        assert walk(one, 8)[0][0] != first[0][0]

    def test_the_global_generator_is_put_back(self) -> None:
        env = DmControlTask(gym.make("dm_control/Elsewhere-v0"))
        np.random.seed(3)
        expected = np.random.RandomState(3).uniform(size=2).tolist()
        walk(env, 7)
        assert np.random.uniform(size=2).tolist() == expected

    def test_a_seed_of_more_than_32_bits(self) -> None:
        env = DmControlTask(gym.make("dm_control/pendulum-swingup-v0"))
        assert numbers(env.reset(seed=2**40)[0]) != numbers(env.reset(seed=2**40 + 1)[0])

    def test_a_generator_below_a_wrapper_of_dm_controls(self) -> None:
        class Inner:
            _random_state, reset, step = None, print, print

        class Outer:
            reset = step = print

            def __init__(self) -> None:
                self._env = Inner()

        bare = Elsewhere()
        bare._env = outer = Outer()  # type: ignore[attr-defined]
        DmControlTask(bare).reset(seed=7)
        drawn: Any = outer._env._random_state
        assert drawn.uniform() == np.random.RandomState(7).uniform()

    def test_copies_in_a_vector(self) -> None:
        env = gym.make_vec("dm_control/lqr-lqr_2_1-v0", 2, "sync", wrappers=[DmControlTask])
        first, _ = env.reset(seed=[4, 4])
        for _ in range(3):
            observations, *_ = env.step(np.full((2, 1), 0.5))
        for part in (*first.values(), *observations.values()):
            assert part[0].tolist() == part[1].tolist()


class TestUnstable:
    def test_it_ends_the_episode_and_counts_for_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        env = DmControlTask(gym.make("dm_control/pendulum-swingup-v0"))
        first, _ = env.reset(seed=0)

        def diverge(*_: Any) -> None:
            raise PhysicsError("unstable")

        with monkeypatch.context() as patch:
            patch.setattr(env.unwrapped.task, "before_step", diverge)  # type: ignore[attr-defined]
            last, reward, terminated, truncated, info = env.step(np.zeros(1))
        assert numbers(last) == numbers(first)
        assert (reward, terminated, truncated, info) == (0.0, False, True, {"physics_error": True})
        env.reset()
        assert not env.step(np.zeros(1))[3]


def test_the_horizon_is_found() -> None:
    env = DmControlTask(gym.make("dm_control/pendulum-swingup-v0"))  # 20 s of 0.02 s
    assert find_horizon(env) == 1000
    assert find_horizon(gym.make("dm_control/pendulum-swingup-v0", task_kwargs={"time_limit": 3})) == 150


def test_other_environments_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="no task of dm_control"):
        DmControlTask(gym.make("CartPole-v1"))
    with pytest.raises(InvalidSetting, match="DmControlTask"):
        DmControlTask(gym.make_vec("CartPole-v1", 2, "sync"))  # type: ignore[arg-type]
