r"""States some of whose coordinates take few values, such as contacts and flags: categories, with a density in each.

.. math:: \hat d(s) = P(c)\,\hat d_c(x)

for the category *c*, the values of those coordinates, with its share of the weight, and a density of the others, *x*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from constrained_maxent.occupancy.degeneracy import LEAST_SAMPLES
from constrained_maxent.occupancy.samples import RESOLVED, ROUNDING, SMALLEST
from constrained_maxent.types import FloatArray, IntArray

MOST_VALUES = 16
"""A coordinate with more values is no category."""

MOST_DENSITIES = 16
"""Each is a fit of its own, which takes its time."""

_LOOKED_AT = 1024
"""Samples that tell of most coordinates that they take many values."""


class Density(Protocol):
    """What a category needs of a ``ContinuousEstimator``."""

    trajectories: IntArray

    def learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None: ...
    def model(self) -> dict[str, Any]: ...
    def restore(self, model: Mapping[str, Any]) -> None: ...


Ask = Callable[[Any, FloatArray], FloatArray | None]
"""A question to a density at rows of what is measured, ``(n,)``."""


def rounding(column: FloatArray) -> float:
    """Up to which numbers of a coordinate are the same."""
    return max(RESOLVED * float(column.std()), ROUNDING * float(np.abs(column).max()), SMALLEST)


def values_of(column: FloatArray) -> FloatArray:
    """The distinct values of a coordinate ``(n,)``, in order, up to rounding."""
    ordered = np.unique(column)
    values: FloatArray = ordered[np.diff(ordered, prepend=-np.inf) > rounding(column)]
    return values


def few_valued(rows: FloatArray, lengths: Sequence[int]) -> list[int]:
    """Coordinates of samples ``(n, n_features)`` that take few values, constants included.

    What stays as it is throughout an episode and differs between nearly all of them, such as the place of a goal, takes
    few values only as there are few episodes, and is not among them.

    Args:
        lengths: of the trajectories that the samples are, in order [steps].
    """
    if len(rows) < LEAST_SAMPLES:
        return []
    some, most = rows[:: -(-len(rows) // _LOOKED_AT)], min(MOST_VALUES, len(rows) // 8)
    within = np.ones(len(rows) - 1, dtype=bool)
    within[np.cumsum(lengths)[:-1] - 1] = False
    found = []
    for i, column in enumerate(rows.T):
        if len(values_of(some[:, i])) > most or (n_values := len(values_of(column))) > most:
            continue
        changes = (np.abs(np.diff(column)) > rounding(column)) & within
        if n_values == 1 or changes.any() or 2 * n_values <= len(lengths):
            found.append(i)
    return found


class Mixed:
    """Counts of categories, and densities of the other coordinates within them.

    A category with fewer than 64 samples, or beyond the 16 most frequent, has no density of its own: all such share
    one, of all samples where they are too few together. Of one that was never seen the others are as in all categories
    together, and its share is that of less than one sample.

    Args:
        columns: the coordinates that are counted.
        new_density: makes the density of a category that has such a share of the samples when it is first seen.
    """

    def __init__(self, columns: Sequence[int], new_density: Callable[[float], Density]) -> None:
        self.columns, self.new_density = list(columns), new_density
        self.values: list[FloatArray] = []
        self.rounding: list[float] = []
        self.shares: dict[bytes, tuple[float, bytes]] = {}
        """Log-share of each category, and the name of its density."""
        self.densities: dict[bytes, Density] = {}
        self.sizes: dict[bytes, float] = {}
        """Shares that densities were made for."""
        self.log_weights: dict[bytes, float] = {}
        """Log-share of all categories that use a density."""

    @property
    def constant(self) -> list[int]:
        """Those of the coordinates that have had one value only."""
        return [column for column, values in zip(self.columns, self.values, strict=True) if len(values) == 1]

    def _names(self, rows: FloatArray) -> list[bytes]:
        """The category of each row, by name; a value never seen is in the names of no samples."""
        known = np.empty((len(rows), len(self.columns)))
        for j, (column, values) in enumerate(zip(self.columns, self.values, strict=True)):
            place = np.searchsorted(values, rows[:, column]).clip(1, max(len(values) - 1, 1))
            lower, upper = values[place - 1], values[np.minimum(place, len(values) - 1)]
            near = np.where(rows[:, column] - lower <= upper - rows[:, column], place - 1, place)
            near = np.minimum(near, len(values) - 1)
            known[:, j] = np.where(np.abs(rows[:, column] - values[near]) <= self.rounding[j], values[near], np.nan)
        return [row.tobytes() for row in known]

    def _measured(self, rows: FloatArray) -> FloatArray:
        return np.delete(rows, self.columns, axis=1)

    def learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator, trajectories: IntArray) -> None:
        counted = [rows[:, column] for column in self.columns]
        self.values, self.rounding = [values_of(c) for c in counted], [rounding(c) for c in counted]
        measured, total, before = self._measured(rows), weights.sum(), self.densities
        self.shares, self.densities, self.log_weights = {}, {}, {}
        groups: dict[bytes, IntArray] = {}
        sizes: dict[bytes, float] = {}
        rare: list[IntArray] = []
        found = self._by_name(rows)
        frequent = sorted(found, key=lambda name: -len(found[name]))[:MOST_DENSITIES]
        for name, index in found.items():
            is_rare = len(index) < LEAST_SAMPLES or name not in frequent
            self.shares[name] = math.log(weights[index].sum() / total), b"" if is_rare else name
            if is_rare:
                rare.append(index)
            else:
                groups[name] = index
        if rare:
            together = np.sort(np.concatenate(rare))
            groups[b""] = together if len(together) >= LEAST_SAMPLES else np.arange(len(rows))
        for name, index in groups.items():
            self.log_weights[name] = math.log(weights[index].sum() / total)
            if measured.shape[1]:
                sizes[name] = self.sizes.get(name, len(index) / len(rows))
                density = before.get(name) or self.new_density(sizes[name])
                density.trajectories = trajectories[index]
                density.learn(measured[index], weights[index], rng)
                self.densities[name] = density
        self.sizes = sizes
        self._log_unseen = -math.log(len(rows) + 1.0)

    def log_density(self, rows: FloatArray, ask: Ask) -> FloatArray:
        """Logarithm of the density, ``(n,)``; ``ask`` is for that of a category."""
        measured, found = self._measured(rows), np.full(len(rows), np.nan)
        for name, index in self._by_name(rows).items():
            known = self.shares.get(name)
            if known is not None:
                found[index] = known[0] + self._within(known[1], measured[index], ask)
                continue
            parts = [log + self._within(own, measured[index], ask) for own, log in self.log_weights.items()]
            everywhere = np.logaddexp.reduce(parts) - np.logaddexp.reduce(list(self.log_weights.values()))
            found[index] = self._log_unseen + everywhere
        return found

    def _within(self, name: bytes, measured: FloatArray, ask: Ask) -> FloatArray:
        answer = ask(self.densities[name], measured) if measured.shape[1] else None
        return np.zeros(len(measured)) if answer is None else answer

    def influence(self, rows: FloatArray, ask: Ask) -> FloatArray:
        """What ``ask`` says within the category of each row, 1 where it is ``None``."""
        measured, found = self._measured(rows), np.ones(len(rows))
        for name, index in self._by_name(rows).items():
            own = self.shares.get(name, (0.0, b""))[1]
            is_asked = own in self.densities and measured.shape[1] > 0
            answer = ask(self.densities[own], measured[index]) if is_asked else None
            if answer is not None:
                found[index] = answer
        return found

    def _by_name(self, rows: FloatArray) -> dict[bytes, IntArray]:
        names = self._names(rows)
        if len(set(names)) == 1:
            return {names[0]: np.arange(len(rows))}
        found: dict[bytes, list[int]] = {}
        for i, name in enumerate(names):
            found.setdefault(name, []).append(i)
        return {name: np.array(index) for name, index in found.items()}

    def model(self) -> dict[str, Any]:
        """What was learnt, in numbers and arrays; nothing, if learning again from the samples gives the same."""
        models = {name: density.model() for name, density in self.densities.items()}
        if not models or not all(models.values()):
            return {}
        names = list(models)
        return {
            "names": np.array([np.frombuffer(name) for name in self.shares]),
            "log_shares": np.array([share for share, _ in self.shares.values()]),
            "densities": np.array([names.index(own) for _, own in self.shares.values()]),
            "log_weights": np.array([self.log_weights[name] for name in names]),
            "sizes": np.array([self.sizes[name] for name in names]),
            "log_unseen": self._log_unseen,
            "shared": names.index(b"") if b"" in models else -1,
            "rounding": np.array(self.rounding),
            "models": {str(i): models[name] for i, name in enumerate(names)},
        }

    def restore(self, model: Mapping[str, Any]) -> None:
        """Put back what ``model`` returned."""
        rows = np.array(model["names"], dtype=np.float64)
        names = [row.tobytes() for row in rows]
        self.values, self.rounding = [np.unique(column) for column in rows.T], list(map(float, model["rounding"]))
        uses = np.array(model["densities"]).tolist()
        shared = int(model["shared"])  # by those too rare for one of their own
        own = {use: b"" if use == shared else name for name, use in zip(names, uses, strict=True)}
        shares = np.array(model["log_shares"]).tolist()
        self.shares = {name: (share, own[use]) for name, share, use in zip(names, shares, uses, strict=True)}
        self.densities, self.log_weights, self.sizes = {}, {}, {}
        for i, name in own.items():
            self.sizes[name] = float(model["sizes"][i])
            self.densities[name] = self.new_density(self.sizes[name])
            self.densities[name].restore(model["models"][str(i)])
            self.log_weights[name] = float(model["log_weights"][i])
        self._log_unseen = float(model["log_unseen"])

    def notice(self) -> str:
        """What is counted, as a sentence."""
        constant = self.constant
        varied = [column for column in self.columns if column not in constant]
        said = []
        if varied:
            said.append(
                f"{_listed(varied)} of the state {_verb(varied, 'take')} few values, such as contacts or flags: they "
                "are counted, and λ̂ is a density of the others within each of their combinations."
            )
        if constant:
            said.append(f"{_listed(constant)} of the state {_verb(constant, 'do')} not change, and count for nothing.")
        return " ".join(said)


def _listed(columns: Sequence[int]) -> str:
    more = f" and {len(columns) - 8} more" if len(columns) > 8 else ""
    return f"Coordinate{'s' if len(columns) > 1 else ''} {', '.join(map(str, columns[:8]))}{more}"


def _verb(columns: Sequence[int], verb: str) -> str:
    return verb if len(columns) > 1 else {"take": "takes", "do": "does"}[verb]
