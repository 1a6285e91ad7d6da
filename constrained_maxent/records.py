"""What a tracker tells: what batches ended with, how far constraints were broken, and what it hands to a leader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.types import Batch, FloatArray


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a batch ended with. ``info["batch"]`` has the same, by the same names.

    Attributes:
        iteration: number of the batch, from 0.
        episodes: trajectories in it.
        steps: steps in it.
        episode_count: whole episodes that they stand for.
        objective: F(λ̂); ``None`` without an objective, or without an estimate yet.
        constraints: R(λ̂) by name; satisfied where ≤ 0.
        multipliers: ℒ'(R) by name.
        objective_fresh, constraints_fresh: the same of the episodes of this batch alone. They differ where λ̂ remembers
            earlier batches (or was fitted to half of this one): an average over past policies hides that the present
            one is bad. A plug-in estimate: of few episodes the entropy is low.
        penalty: Σ ℒ(R).
        discount: γ of the occupancy.
        pseudo_rewards: of each trajectory, ``(n_steps,)``.
        weights: w_t of each trajectory's steps, ``(n_steps,)``.
        ready: of each trajectory, whether its pseudo-rewards belong to the gradient of the policy that acted.
        sub_environments: where each trajectory ran.
        started_ago: for each trajectory, how many calls of ``step`` before the last one its first action was taken.
        whole_episodes: whether the trajectories are whole episodes, and not fragments.
    """

    iteration: int
    episodes: int
    steps: int
    episode_count: float
    objective: float | None
    constraints: Mapping[str, float]
    objective_fresh: float | None
    constraints_fresh: Mapping[str, float]
    multipliers: Mapping[str, float]
    penalty: float
    discount: float
    pseudo_rewards: list[FloatArray]
    weights: list[FloatArray]
    ready: list[bool]
    sub_environments: list[int]
    started_ago: list[int]
    whole_episodes: bool

    def to_info(self) -> dict[str, Any]:
        """Plain data, as ``info["batch"]`` carries it; lists and mappings are copies, and the arrays read-only."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value.copy() if isinstance(value, (list, dict)) else value for name, value in content.items()}


@dataclass(frozen=True, kw_only=True)
class Violations:
    """How far a constraint was broken while an agent learnt, by each batch alone.

    Attributes:
        total: Σ [R]₊ over batches, in the units of R: what learning has cost.
        worst: the largest R of a batch; ``-inf`` before the first.
        worst_iteration: which batch that was, from 0.
        steps: steps of batches with R > 0.
    """

    total: float = 0.0
    worst: float = -math.inf
    worst_iteration: int = 0
    steps: int = 0

    def after(self, violation: float, *, steps: int, iteration: int) -> Violations:
        """With one batch more."""
        is_worst = violation > self.worst
        return Violations(
            total=self.total + max(violation, 0.0),
            worst=violation if is_worst else self.worst,
            worst_iteration=iteration if is_worst else self.worst_iteration,
            steps=self.steps + (steps if violation > 0.0 else 0),
        )


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """The share of a batch that one tracker hands to the one that it follows, in as few bytes as will do.

    Attributes:
        columns: of the batch by name, as ``Batch`` takes them, but for weights, which follow from the times, and for
            observations that nobody looks at beside the states.
        narrowed: those that were int64 and are of the smallest type that holds their numbers.
        sub_environments, started_ago: as in :class:`Report`, of the follower's own copies.
        version: of the λ̂ that gave the rewards meanwhile.
        follower: number of the tracker that hands it in.
    """

    columns: Mapping[str, Any]
    narrowed: frozenset[str]
    sub_environments: list[int]
    started_ago: list[int]
    version: int
    follower: int

    @classmethod
    def of(cls, batch: Batch, *, sees_places: bool, **rest: Any) -> Self:
        """The fragment of a batch.

        Args:
            batch: the same.
            sees_places: whether somebody looks at observations, although there are states.
            rest: the attributes that a batch does not know.
        """
        unneeded = {"weights", "episodes"} | (set() if sees_places or batch.states is None else {"observations"})
        columns = {name: getattr(batch, name) for name in batch.__dataclass_fields__ if name not in unneeded}
        columns = {name: column for name, column in columns.items() if column is not None}
        wide = {name: column for name, column in columns.items() if getattr(column, "dtype", None) == np.int64}
        return cls(
            columns=columns | {name: _narrowed(column) for name, column in wide.items()},
            narrowed=frozenset(wide),
            **rest,
        )

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self.started_ago)

    @property
    def n_steps(self) -> int:
        """Number of steps of all trajectories."""
        return int(self.columns["lengths"].sum())

    def column(self, name: str) -> NDArray[Any]:
        """A column as the batch had it; in the place of observations that nobody looks at are the states."""
        column: NDArray[Any] = self.columns.get(name, self.columns.get("states"))
        return column.astype(np.int64) if name in self.narrowed else column


def _narrowed(column: NDArray[np.int64]) -> NDArray[Any]:
    low, high = int(column.min()), int(column.max())
    return column.astype(np.min_scalar_type(high if low >= 0 else min(low, -high - 1)))


class Leads(Protocol):
    """Whom trackers follow, in this process or another: the rewards of many, of one λ̂."""

    def hand_in(self, fragment: Fragment, /) -> None:
        """Take a share of a batch."""

    def newest(self, version: int, /) -> tuple[int, Mapping[str, Any]] | None:
        """``Tracker.live_state`` with its version; ``None`` if that is the one given. Versions begin at 0."""
