"""What is recorded is what was stepped, whatever the first rows look like."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from constrained_maxent.adapters.minari import Episode, Recording, recording
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.wrappers.states import StateReader

STEPS = 4


class Line(gym.vector.VectorEnv[Any, Any, Any]):
    """One copy that walks from 0 by its action, in episodes of ``STEPS``; observed in whole numbers after a reset."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}

    def __init__(self, dtype: Any = np.float32) -> None:
        self.num_envs = 1
        self.single_observation_space = gym.spaces.Box(-9, 9, (1,), dtype)
        self.single_action_space = gym.spaces.Box(-1.0, 1.0, (1,))
        self.observation_space = gym.spaces.Box(-9, 9, (1, 1), dtype)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1, 1))

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.time, self.at = 0, 0.0
        return np.zeros((1, 1), np.int64), {"place": np.zeros((1, 1), np.int64)}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.time += 1
        self.at += float(action[0, 0])
        ends = np.array([self.time == STEPS])
        infos = {"place": np.array([[self.at]]), **self.costs()}
        return np.array([[self.at]]), np.array([self.at]), ends, np.zeros(1, bool), infos

    def costs(self) -> Mapping[str, Any]:
        return {}


def record(env: Line, actions: list[Any], *, reader: StateReader | None = None, **sources: str) -> list[Episode]:
    """What is handed over as these actions are taken, in as many episodes as they make."""
    found: list[Episode | None] = []
    recorder = Recording(env, lambda copy, episode: found.append(episode), sources=sources, reader=reader)
    for t, action in enumerate(actions):
        if t % STEPS == 0:
            recorder.reset()
        recorder.step(np.array([[action]]))
    return [episode for episode in found if episode is not None]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])  # the last is wrong about what is observed
def test_whole_numbers_at_first_cut_nothing(dtype: Any) -> None:
    env = Line(dtype)
    reader = StateReader(lambda observation: observation[0], env.single_observation_space)
    (episode,) = record(env, [0, 0.5, 0.25, 0.5], reader=reader)
    places = [[0.0], [0.0], [0.5], [0.75], [1.25]]
    np.testing.assert_array_equal(episode.columns["actions"], [[0.0], [0.5], [0.25], [0.5]])
    np.testing.assert_array_equal(episode.columns["observations"], places)
    np.testing.assert_array_equal(episode.columns["infos/state"], places)
    np.testing.assert_array_equal(episode.columns["rewards"], [0.0, 0.5, 0.75, 1.25])
    assert episode.columns["actions"].dtype == np.float32
    assert episode.columns["observations"].dtype == (np.float64 if dtype == np.int64 else dtype)


def test_states_that_are_whole_numbers_at_first_are_not_cut() -> None:
    env = Line()
    (episode,) = record(env, [1, 0.5, 0.25, 0.5], reader=StateReader("place", env.single_observation_space))
    np.testing.assert_array_equal(episode.columns["infos/place"], [[0.0], [1.0], [1.5], [1.75], [2.25]])


class Reporting(Line):
    """It reports ``cost_far`` beyond 1 only, ``cost_near`` never, and texts, which are no costs."""

    def costs(self) -> Mapping[str, Any]:
        costs = {"cost_far": np.array([self.at]), "_cost_far": np.array([self.at > 1.0])}
        return costs | {"cost_name": np.array(["far"]), "cost_far/er": np.array([1.0])}


def test_a_cost_that_nobody_watches_is_there_from_its_first_report_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_MOST_CALLS", 2)  # the episode's first half is cut off before
    near, far = record(Reporting(), [0.5, 0, 0, 0, 0.5, 0.5, 0, 0.25])
    assert "infos/cost_far" not in near.columns
    np.testing.assert_array_equal(far.columns["infos/cost_far"], [np.nan, np.nan, np.nan, 1.25])
    assert {name for name in far.columns if name.startswith("infos/")} == {"infos/cost_far"}


def test_names_that_cannot_be_columns_are_refused() -> None:
    env = Line()
    with pytest.raises(InvalidSetting, match="'metrics/cost' cannot be recorded"):
        record(env, [], **{"metrics/cost": "metrics/cost"})
    with pytest.raises(InvalidSetting, match="'where/x' cannot be recorded"):
        record(env, [], reader=StateReader("where/x", env.single_observation_space))
    with pytest.raises(InvalidSetting, match="'state' cannot be recorded"):  # that of the coordinates has this name
        record(env, [], reader=StateReader([0], env.single_observation_space), state="state")


def test_state_and_cost_of_one_key_are_one_column() -> None:
    env = Line()
    (episode,) = record(
        env, [1, 0.5, 0.25, 0.5], reader=StateReader("place", env.single_observation_space), place="place"
    )
    np.testing.assert_array_equal(episode.columns["infos/place"], [[0.0], [1.0], [1.5], [1.75], [2.25]])
