"""λ̂ over a state: nothing else of an observation is asked for, and cells are counted; values by hand."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, GraphInstance, MultiDiscrete, OneOf, Sequence, Text, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent.errors import (
    InvalidData,
    InvalidSetting,
    MissingState,
    NonFiniteValue,
    UnknownProcess,
    UnsupportedSpace,
)
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.functionals import Entropy, KLDivergence
from constrained_maxent.occupancy import Counts, GaussianMixture
from constrained_maxent.testing import check_constrained_env
from constrained_maxent.wrappers import TrackOccupancy, constrain, find_tracker

LENGTH = 4
WORD = Text(5)
IMAGE = Box(0, 255, (32, 32, 3), np.uint8)
MODES = [None, *AutoresetMode]


def _graph(time: int) -> GraphInstance:
    return GraphInstance(np.full((time + 1, 1), time, np.float32), None, None)


OBSERVATIONS: dict[str, tuple[gym.Space[Any], Any, Any]] = {
    "Box": (Box(-9, 9, (2,)), lambda t: np.array([t, np.nan], np.float32), lambda o: o[0]),
    "Discrete": (Discrete(9), lambda t: t, lambda o: o),
    "Dict": (Dict(at=Box(0, 9, (1,)), word=WORD), lambda t: {"at": np.full(1, t), "word": "a"}, lambda o: o["at"][0]),
    "Tuple": (Tuple((WORD, Discrete(9))), lambda t: ("b", t), lambda o: o[1]),
    "Text": (WORD, lambda t: "a" * (t + 1), lambda o: len(o) - 1),
    "Graph": (Graph(Box(0, 9, (1,)), None), _graph, lambda o: len(o.nodes) - 1),
    "Sequence": (Sequence(Discrete(3)), lambda t: (0,) * t, len),
    "OneOf": (OneOf((Discrete(9), WORD)), lambda t: (0, t), lambda o: o[1]),
    "a picture": (IMAGE, lambda t: np.full((32, 32, 3), t, np.uint8), lambda o: o[0, 0, 0]),
}
"""By name: the space, the observation at time t, and t back from it."""


class Clock(gym.Env[Any, Any]):
    """Episodes of four steps; ``info`` says the time too."""

    horizon = LENGTH

    def __init__(self, space: gym.Space[Any], observe: Any, action_space: gym.Space[Any] | None = None) -> None:
        self.observation_space, self._observe = space, observe
        self.action_space = Discrete(2) if action_space is None else action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._observe(0), {"time": (0, 1)}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self._observe(self.time), 0.0, False, self.time == LENGTH, {"time": (self.time, 1)}


def stack(make: Any, mode: AutoresetMode | None, objective: Any = None, **tracking: Any) -> Any:
    env = make() if mode is None else SyncVectorEnv([make, make], autoreset_mode=mode)
    return constrain(env, objective, **({"episodes_per_batch": 2, "discount": 1.0} | tracking))


def play(env: Any, n_steps: int = 12) -> Any:
    """Actions 0 until batches have ended; what λ̂ is made of then."""
    tracker = find_tracker(env)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(n_steps):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        done = np.atleast_1d(np.logical_or(terminated, truncated))
        if isinstance(env, gym.Env):
            if done[0]:
                env.reset()
        elif done.any() and env.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            env.reset(options={"reset_mask": done})
    assert tracker.iteration > 0
    return tracker


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", OBSERVATIONS)
class TestWhateverIsObserved:
    def test_a_function_is_all_that_is_asked(self, name: str, mode: Any) -> None:
        space, observe, time_of = OBSERVATIONS[name]
        tracker = play(
            stack(
                lambda: Clock(space, observe),
                mode,
                Entropy(over="state", smoothing=1e-9),
                estimator=GaussianMixture(n_components=1),
                state=lambda observation: (float(time_of(observation)), 1.0 + time_of(observation) ** 2),
            )
        )
        batch = tracker.last_batch
        assert batch.states.tolist() == [[t, 1 + t**2] for t in range(LENGTH)] * 2
        assert batch.observations.shape == (2 * LENGTH, 0)
        # The mean of 0, 1, 2, 3, and of 1, 2, 5, 10.
        assert tracker.estimator.mixture_.means[0] == pytest.approx([1.5, 4.5])

    def test_cells_are_counted(self, name: str, mode: Any) -> None:
        space, observe, time_of = OBSERVATIONS[name]
        tracker = play(
            stack(
                lambda: Clock(space, observe, Box(-1, 1, (1,))),
                mode,
                state=lambda observation: (time_of(observation) // 2, 1),
                cells=(3, 2),
            )
        )
        # Two of four steps in cell (0, 1), which is number 1, and two in (1, 1), number 3; actions are not counted.
        assert tracker.estimator.occupancy_[:, 0].tolist() == [0.0, 0.5, 0.0, 0.5, 0.0, 0.0]
        assert tracker.last_report.objective == pytest.approx(np.log(2.0), abs=1e-5)


class TestSources:
    SPACE = Dict(a=Discrete(5), b=Dict(x=Box(0, 9, (2,)), word=WORD), c=MultiDiscrete([5, 7]))

    @staticmethod
    def observe(t: int) -> Any:
        return {"a": t, "b": {"x": np.array([t, 2 * t]), "word": "a"}, "c": np.array([t, 6 - t])}

    def make(self) -> Any:
        return Clock(self.SPACE, self.observe)

    @pytest.mark.parametrize("mode", MODES, ids=str)
    def test_keys(self, mode: Any) -> None:
        tracker = play(stack(self.make, mode, estimator=GaussianMixture(n_components=1), state=("b.x", "a")))
        assert tracker.last_batch.states.tolist() == [[t, 2 * t, t] for t in range(LENGTH)] * 2

    @pytest.mark.parametrize("mode", MODES, ids=str)
    def test_keys_of_finite_parts_need_no_cells(self, mode: Any) -> None:
        tracker = play(stack(self.make, mode, state=["a"]))
        assert tracker.estimator.occupancy_.sum(axis=1).tolist() == [0.25, 0.25, 0.25, 0.25, 0.0]
        tracker = play(stack(self.make, mode, state=["c", "a"]))
        assert np.flatnonzero(tracker.estimator.occupancy_.sum(axis=1)).tolist() == sorted(
            np.ravel_multi_index((t, 6 - t, t), (5, 7, 5)) for t in range(LENGTH)
        )

    @pytest.mark.parametrize("mode", MODES, ids=str)
    def test_coordinates(self, mode: Any) -> None:
        make = lambda: Clock(Box(-9, 9, (3,)), lambda t: np.array([t, np.inf, -t]))  # noqa: E731
        tracker = play(stack(make, mode, estimator=GaussianMixture(n_components=1), state=[2, 0]))
        assert tracker.last_batch.states.tolist() == [[-t, t] for t in range(LENGTH)] * 2

    @pytest.mark.parametrize("mode", MODES, ids=str)
    def test_a_cell_in_info_or_of_whole_numbers_in_a_box(self, mode: Any) -> None:
        right = [0.0, 0.25] * LENGTH + [0.0, 0.0]
        found = play(stack(self.make, mode, state="time", cells=(5, 2))).estimator.occupancy_.sum(axis=1)
        assert found.tolist() == right
        make = lambda: Clock(Box(0, 9, (2,), np.int64), lambda t: np.array([t, 1]))  # noqa: E731
        assert play(stack(make, mode, state=[0, 1], cells=(5, 2))).estimator.occupancy_.sum(axis=1).tolist() == right

    def test_one_number_is_a_cell(self) -> None:
        tracker = play(stack(self.make, None, state=lambda o: np.floor(o["b"]["x"][1] / 3.0), cells=3))
        assert tracker.estimator.occupancy_.sum(axis=1).tolist() == [0.5, 0.25, 0.25]  # of 0, 2, 4 and 6

    @pytest.mark.parametrize("mode", [None, AutoresetMode.SAME_STEP], ids=str)
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_live_rewards_are_those_handed_over(self, mode: Any, pairing: str) -> None:
        env = stack(self.make, mode, state=["a"], pairing=pairing, episodes_per_batch=4)
        check_constrained_env(env, n_batches=3)

    def test_it_comes_back_from_its_spec(self) -> None:
        env = TrackOccupancy(gym.make("Pendulum-v1"), state=(0, 2), cells=(3, 4), episodes_per_batch=2)
        again = gym.make(gym.envs.registration.EnvSpec.from_json(json.loads(json.dumps(env.spec.to_json()))))
        assert again.spec == env.spec
        assert find_tracker(again).estimator.table_shape() == (12, 1)


class TestRefuses:
    PARTS = Dict(a=Discrete(5), word=WORD)

    def wrap(self, space: Any, *, action_space: Any = None, **tracking: Any) -> Any:
        return stack(lambda: Clock(space, lambda t: space.sample(), action_space), None, **tracking)

    @pytest.mark.parametrize("source", [3, (), {"a"}, [0.5], [None]])
    def test_what_names_no_state(self, source: Any) -> None:
        with pytest.raises(InvalidSetting, match="state"):
            self.wrap(Discrete(3), state=source)

    @pytest.mark.parametrize("cells", [0, (3, 0), 2.5, "3", (), True])
    def test_what_is_no_number_of_cells(self, cells: Any) -> None:
        with pytest.raises(InvalidSetting, match="cells="):
            self.wrap(Discrete(3), state=lambda o: o, cells=cells)

    def test_cells_of_no_state(self) -> None:
        with pytest.raises(InvalidSetting, match="give that too"):
            self.wrap(Discrete(3), cells=3)

    def test_counts_of_a_state_whose_cells_nobody_knows(self) -> None:
        with pytest.raises(UnsupportedSpace, match=r"cells=\(12, 8\)"):
            self.wrap(Discrete(3), state=lambda o: o)

    def test_an_observation_without_numbers_says_what_to_write(self) -> None:
        with pytest.raises(UnsupportedSpace, match=r"state=\('a',\)"):
            self.wrap(self.PARTS)
        for space in (WORD, Dict(word=WORD)):
            with pytest.raises(UnsupportedSpace, match=r"over: a function .* state=lambda observation"):
                self.wrap(space)

    def test_actions_without_numbers(self) -> None:
        with pytest.raises(UnsupportedSpace, match="The actions are Text"):
            self.wrap(Discrete(3), action_space=WORD, state=lambda o: o, cells=3)

    @pytest.mark.parametrize("mode", [None, AutoresetMode.NEXT_STEP], ids=str)
    @pytest.mark.parametrize(
        ("cell", "message"),
        [
            ((0, 2), "cells= says how many"),
            ((-1, 0), "cells= says how many"),
            ((0.5, 0), "a cell"),
            ((0, 0, 0), "has 2 numbers"),
            ("a", "a cell"),
        ],
    )
    def test_no_cell(self, cell: Any, message: str, mode: Any) -> None:
        env = stack(lambda: Clock(WORD, lambda t: "a"), mode, state=lambda o: cell, cells=(3, 2))
        with pytest.raises(InvalidData, match=message):
            play(env)

    def test_log_probabilities_of_what_has_no_numbers(self) -> None:
        space = Dict(word=WORD)
        env = self.wrap(space, state=lambda o: [1.0], estimator=GaussianMixture(n_components=1))
        env.reset()
        with (
            find_tracker(env).acting(log_prob=lambda rows, actions: np.zeros(len(rows))),
            pytest.raises(UnsupportedSpace, match="Text"),
        ):
            env.step(0)

    def test_a_functional_that_looks_at_observations_without_numbers(self) -> None:
        def look(points: Any) -> Any:
            return points.density

        env = self.wrap(
            WORD, state=lambda o: [1.0], estimator=GaussianMixture(n_components=1), objective=-KLDivergence(look)
        )
        with pytest.raises(UnsupportedSpace, match="Text"):
            env.reset()

    @pytest.mark.parametrize("mode", [None, AutoresetMode.NEXT_STEP], ids=str)
    def test_a_coordinate_that_is_no_number(self, mode: Any) -> None:
        make = lambda: Clock(Box(-9, 9, (2,)), lambda t: np.array([0.0, np.nan if t == 2 else t]))  # noqa: E731
        env = stack(make, mode, estimator=GaussianMixture(n_components=1), state=[1])
        with pytest.raises(NonFiniteValue, match=r"\[1\]"):
            play(env)

    def test_a_key_that_info_lacks(self) -> None:
        with pytest.raises(MissingState, match="'place'"):
            play(self.wrap(WORD, state="place", cells=3))

    def test_exact_values_of_another_state(self) -> None:
        env = constrain(gym.make("SafeFrozenLake-v0"), state=lambda o: o // 6, cells=6, episodes_per_batch=2)
        with pytest.raises(UnknownProcess, match="state="):
            ExactProblem.from_env(env)
        same = constrain(gym.make("SafeFrozenLake-v0"), state=lambda o: 35 - o, cells=36, episodes_per_batch=2)
        with pytest.raises(UnknownProcess, match="state="):
            ExactProblem.from_env(same)


class TestLogProbabilities:
    @pytest.mark.parametrize("mode", MODES, ids=str)
    def test_an_agent_says_them_after_the_first_reset(self, mode: Any) -> None:
        """Of the observation before the step, though the environment uses its buffer again."""
        buffer = np.zeros(1)

        def observe(t: int) -> Any:
            buffer[:] = t
            return buffer

        env = stack(
            lambda: Clock(Box(-9, 9, (1,), np.float64), observe),
            mode,
            estimator=GaussianMixture(n_components=1),
            state=lambda o: [1.0, o[0]],
        )
        tracker = find_tracker(env)
        env.reset(seed=0)
        with tracker.acting(log_prob=lambda rows, actions: -10.0 - rows[:, 0]):
            for _ in range(LENGTH):
                env.step(0 if mode is None else np.zeros(2, dtype=int))
            if mode is None or mode is AutoresetMode.DISABLED:
                env.reset(**({} if mode is None else {"options": {"reset_mask": np.ones(2, dtype=bool)}}))
            for _ in range(LENGTH):
                if tracker.iteration == 0:
                    env.step(0 if mode is None else np.zeros(2, dtype=int))
        assert tracker.last_batch.log_probs.tolist() == [-10.0 - t for t in range(LENGTH)] * 2


def test_counts_of_states_beside_actions_in_a_box() -> None:
    env = stack(lambda: Clock(Discrete(5), lambda t: t, Box(-1, 1, (2,))), None)
    tracker = play(env)
    assert isinstance(tracker.estimator, Counts)
    assert tracker.estimator.occupancy_.tolist() == [[0.25], [0.25], [0.25], [0.25], [0.0]]
    assert not tracker.estimator.points_of(tracker.last_batch).is_over_actions


def test_a_key_of_the_observation_is_asked_for_in_a_list():
    env = gym.Env()
    env.observation_space, env.action_space = Dict(position=Box(-1.0, 1.0, (2,))), Discrete(2)
    env.reset = lambda **_: ({"position": np.zeros(2)}, {})
    tracked = TrackOccupancy(env, GaussianMixture(), state="position", episodes_per_batch=1)
    with pytest.raises(MissingState, match=r"go in a list, such as state=\['position'\]"):
        tracked.reset()
