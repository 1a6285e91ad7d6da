"""What a reference asks of its policy π_ref, and any function as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedPolicy
from constrained_maxent.types import FloatArray, as_array


@runtime_checkable
class ReferencePolicy(Protocol):
    """π_ref(a|s)."""

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        """Log π_ref [nats], ``(n,)``, of the environment's own actions ``(n, ...)``; a density over ``Box`` actions."""

    def act(self, observations: NDArray[Any], rng: np.random.Generator, *, deterministic: bool = False) -> NDArray[Any]:
        """Actions of the environment, ``(n, ...)``."""


@dataclass(frozen=True, eq=False)
class CallablePolicy:
    """A policy of the user's own functions. It pickles if they do, and cannot be saved.

    Args:
        log_probs: ``(observations, actions) -> (n,)`` [nats], of rows ``(n, ...)`` each.
        action: one observation to one action, drawn from π_ref; needed to roll it out only.

    Raises:
        InvalidSetting: not functions.
    """

    log_probs: Callable[[NDArray[Any], NDArray[Any]], Any]
    action: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if not callable(self.log_probs) or not (self.action is None or callable(self.action)):
            raise InvalidSetting("A policy is log_prob(observations, actions) and act(observation), both functions.")

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        log_probs = as_array("log_prob(observations, actions)", self.log_probs(observations, actions), np.float64)
        if log_probs.shape != (len(observations),):
            raise InvalidData(
                f"log_prob of the reference must return shape ({len(observations)},), got {log_probs.shape}."
            )
        if np.isnan(log_probs).any():
            raise InvalidData("log_prob of the reference returned NaN.")
        return log_probs

    def act(self, observations: NDArray[Any], rng: np.random.Generator, *, deterministic: bool = False) -> NDArray[Any]:
        if self.action is None:
            raise UnsupportedPolicy("This reference knows log-probabilities only: give act= to roll it out.")
        return np.array([self.action(observation) for observation in observations])
