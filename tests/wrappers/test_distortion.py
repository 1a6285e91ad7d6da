"""Layers below that normalize, delay or stack are named where somebody sees their work, and nowhere else."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers as layers
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from constrained_maxent.errors import DistortingLayer
from constrained_maxent.functionals import Entropy, LinearCost, Reward
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain


def by_function(observation: Any, action: Any, next_observation: Any) -> float:
    return 1.0


def some(observation: Any) -> Any:
    return np.ravel(observation)[:2]


class Walk(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Discrete(2)
    horizon = 20

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, dtype=np.float32), {"state": np.zeros(2), "cost": 0.0}

    def step(self, action: Any) -> Any:
        now = self.np_random.normal(size=2).astype(np.float32)
        return now, 0.0, False, False, {"state": now, "cost": 0.0}


def stack(env: Any, *, objective: Any = None, cost: Any = "cost", state: Any = None) -> Any:
    limits = {"cost": Constraint(LinearCost(cost, limit=0.5), Quadratic(beta=1.0))}
    estimator = GaussianMixture(n_components=1)
    return constrain(
        env,
        objective or Entropy(over="state"),
        limits,
        estimator=estimator,
        state=state,
        steps_per_batch=8,
        discount=1.0,
    )


class NormalizedObs(gym.ObservationWrapper[Any, Any, Any]):
    """Somebody's own."""

    def observation(self, observation: Any) -> Any:
        return observation


class DelayedActions(gym.Wrapper[Any, Any, Any, Any]):
    """Somebody's own."""


class StackBlocks(gym.Wrapper[Any, Any, Any, Any]):
    """A task, and no stack of frames."""


class NormalizeActions(gym.Wrapper[Any, Any, Any, Any]):
    """Bounds that are known."""


def frozen(env: Any) -> Any:
    env = layers.NormalizeObservation(env)
    env.update_running_mean = False
    return env


normalized = layers.NormalizeObservation
delayed = lambda env: layers.DelayObservation(env, 2)  # noqa: E731
stacked = lambda env: layers.FrameStackObservation(env, 2)  # noqa: E731
sticky = lambda env: layers.StickyAction(env, 0.5)  # noqa: E731
STATE = "the state that λ̂ is over"


@pytest.mark.parametrize(
    ("below", "declared", "words"),
    [
        (normalized, {}, f"NormalizeObservation.*normalizes observations.*for {STATE}"),
        (normalized, {"state": some}, f"for {STATE}"),
        (normalized, {"state": "state", "cost": by_function}, "for cost functions"),
        (normalized, {"cost": by_function}, f"for {STATE} and cost functions"),
        (normalized, {"objective": Reward(), "cost": by_function}, "for cost functions"),
        (delayed, {}, "DelayObservation.*delays observations"),
        (stacked, {}, "FrameStackObservation.*stacks observations"),
        (stacked, {"state": some, "cost": by_function}, "for cost functions"),
        (sticky, {"cost": by_function}, "StickyAction.*delays actions"),
        (DelayedActions, {"cost": by_function}, "DelayedActions.*delays actions"),
        (
            layers.NormalizeReward,
            {"objective": Reward()},
            "NormalizeReward.*normalizes rewards.*functional of the reward",
        ),
        (NormalizedObs, {}, "NormalizedObs.*normalizes observations"),
        (lambda env: layers.TimeLimit(normalized(env), 30), {}, "NormalizeObservation"),
    ],
)
def test_named(below: Any, declared: Any, words: str) -> None:
    env = stack(below(Walk()), **declared)
    with pytest.warns(DistortingLayer, match=words) as caught:
        env.reset(seed=0)
    assert len(caught) == 1
    env.reset()  # once


@pytest.mark.parametrize(
    ("below", "declared"),
    [
        (normalized, {"state": "state"}),
        (normalized, {"objective": Reward()}),
        (frozen, {}),
        (delayed, {"state": "state"}),
        (stacked, {"state": some}),
        (sticky, {}),
        (layers.NormalizeReward, {"cost": by_function}),
        (NormalizeActions, {"cost": by_function}),
        (StackBlocks, {"cost": by_function}),
        (lambda env: layers.TransformReward(env, float), {"objective": Reward()}),
        (layers.RecordEpisodeStatistics, {"cost": by_function}),
    ],
)
def test_nobody_sees_it(below: Any, declared: Any) -> None:
    stack(below(Walk()), **declared).reset(seed=0)


def test_above_it_is_nobodys_business() -> None:
    layers.NormalizeObservation(stack(Walk(), cost=by_function)).reset(seed=0)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_around_the_copies_of_a_vector(kind: Any) -> None:
    env = stack(kind([lambda: layers.DelayObservation(Walk(), 2)] * 2))
    try:
        with pytest.warns(DistortingLayer, match="DelayObservation"):
            env.reset(seed=0)
    finally:
        env.close()


def test_around_a_vector() -> None:
    env = stack(layers.vector.NormalizeObservation(SyncVectorEnv([Walk] * 2)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env.reset(seed=0)
    assert [warning.category for warning in caught] == [DistortingLayer]
