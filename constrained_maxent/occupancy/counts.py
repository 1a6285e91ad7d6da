"""Discounted visit counts: the occupancy estimate of finite spaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.occupancy.base import OccupancyEstimator, check_memory, memory_at, require_keys
from constrained_maxent.schedules import Schedule
from constrained_maxent.spaces import FiniteSpace, is_finite
from constrained_maxent.types import Batch, FloatArray, IntArray, Measure, Points, is_number, require_finite

DENSE_CELLS = 1_000_000
"""Up to this many state-action pairs λ̂ is a dense table (8 MB); above, only the visited cells are kept."""

_NEGLIGIBLE = 1e-12


class Counts(OccupancyEstimator):
    r"""Counts of (s, a), each step weighted by w_t: :math:`\hat\lambda = \frac1B\sum_b\sum_t w_t\,\delta_{s_t,a_t}`.

    For ``Discrete``, ``MultiDiscrete``, ``MultiBinary``, and ``Tuple`` and ``Dict`` of them, as state and as action.
    Actions that cannot be counted, as those of a ``Box``, are left out: λ̂ is then one of states alone, a table with one
    column. Above
    ``DENSE_CELLS`` state-action pairs only visited cells are stored, and a remembered cell is dropped once it has faded
    below 1e-12 of the largest.

    Args:
        memory: share of the old estimate that each fit keeps, in [0, 1): λ̂ ← memory·λ̂ + (1-memory)·λ̂(batch). 0, the
            default, forgets; 0.9 averages over about ten batches, which lowers the variance and lags behind the policy.
            A :class:`~constrained_maxent.schedules.Geometric` is geometric in 1-memory, the weight of the new batch.
        smoothing: share of the mass that is spread evenly over all cells, in [0, 1); above ``DENSE_CELLS`` only 0.

    Attributes:
        occupancy_: λ̂ as a table ``(n_states, n_actions)``; dense estimates only.

    >>> space = gym.spaces.Discrete(2)
    >>> batch = Batch(observations=np.array([0, 0, 1, 0]), actions=np.array([1, 1, 0, 0]), lengths=np.array([2, 2]))
    >>> Counts().bind(space, space).fit(batch).occupancy_
    array([[0.5, 1. ],
           [0.5, 0. ]])
    """

    def __init__(self, *, memory: Schedule = 0.0, smoothing: float = 0.0) -> None:
        check_memory(memory)
        if not (is_number(smoothing) and 0.0 <= smoothing < 1.0):
            raise InvalidSetting(f"smoothing={smoothing!r} must lie in [0, 1): the share spread evenly over all cells.")
        self.memory = memory
        self.smoothing = smoothing
        self._cells: IntArray
        self._values: FloatArray

    def fresh(self) -> Self:
        return type(self)(**self.get_params() | {"memory": 0.0})

    @property
    def remembers(self) -> bool:
        return self.memory != 0.0

    def bind(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> Self:
        self.states = FiniteSpace(observation_space)
        self._counts_actions = is_finite(action_space)
        self.actions = FiniteSpace(action_space if self._counts_actions else gym.spaces.Discrete(1))
        self.n_cells = self.states.n * self.actions.n
        if self.n_cells > 2**62:
            raise UnsupportedSpace(f"{self.n_cells:.3g} state-action pairs are more than can be numbered.")
        if self.smoothing and not self.is_dense:
            raise InvalidSetting(
                f"smoothing={self.smoothing!r} spreads mass over all of {self.n_cells:,} cells, more than the "
                f"{DENSE_CELLS:,} of a dense table: take smoothing=0 here. Entropy and KLDivergence have their own."
            )
        self.is_bound = True
        self._forget()
        return self

    def _forget(self) -> None:
        for name in ("mass_", "expected_costs_", "_cells", "_values"):
            self.__dict__.pop(name, None)

    @property
    def is_dense(self) -> bool:
        return self.n_cells <= DENSE_CELLS

    def table_shape(self) -> tuple[int, int]:
        self.require_bound()
        return self.states.n, self.actions.n

    def cell(self, observation: Any, action: Any) -> int:
        number = self.states.encode_one(observation)
        return number * self.actions.n + self.actions.encode_one(action) if self._counts_actions else number

    def encode(self, observations: NDArray[Any], actions: NDArray[Any]) -> IntArray:
        self.require_bound()
        numbers = self.states.encode(observations)
        return numbers * self.actions.n + self.actions.encode(actions) if self._counts_actions else numbers

    def fit(self, batch: Batch, *, progress: float = 0.0) -> Self:
        cells = self.encode(batch.places, batch.actions)
        weights = batch.weights / batch.n_episodes
        memory = memory_at(self.memory, progress) if self.is_fitted else 0.0
        if self.is_dense:
            fresh = np.bincount(cells, weights, self.n_cells).astype(np.float64, copy=False)
            self._values = memory * self._values + (1.0 - memory) * fresh if memory else fresh
        else:
            if not memory:
                self._cells, self._values = cells[:0], weights[:0]
            merged, inverse = np.unique(np.concatenate((self._cells, cells)), return_inverse=True)
            values = np.concatenate((memory * self._values, (1.0 - memory) * weights))
            sums = np.bincount(inverse, values).astype(np.float64)
            # Old cells fade geometrically; without a floor the support would grow for ever.
            kept = sums > _NEGLIGIBLE * sums.max()
            self._cells, self._values = merged[kept], sums[kept]
        self.remember_costs(batch, memory)
        self.mass_ = float(self._values.sum())
        return self

    @property
    def occupancy_(self) -> FloatArray:
        self.require_fit()
        if not self.is_dense:
            raise UnsupportedSpace(
                f"λ̂ is sparse: {self.n_cells:,} cells exceed {DENSE_CELLS:,}. Use measure() or points()."
            )
        values = self._values
        if self.smoothing:
            values = (1.0 - self.smoothing) * values + self.smoothing * self.mass_ / self.n_cells
        return values.reshape(self.states.n, self.actions.n)

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        self.require_fit()
        density = self.points(observations, actions).density
        with np.errstate(divide="ignore"):
            # Weights far into an episode may underflow, so that the mass itself is 0.
            return np.log(density / self.mass_ if self.mass_ > 0.0 else density)

    def points(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        costs: Mapping[str, FloatArray] | None = None,
        *,
        states: NDArray[Any] | None = None,
        log_probs: FloatArray | None = None,
    ) -> Points:
        return self.points_at(self.encode(observations if states is None else states, actions), costs)

    def points_at(self, cells: IntArray, costs: Mapping[str, FloatArray] | None = None) -> Points:
        """λ̂ at cells given by number, ``(n,)``."""
        self.require_fit()
        n_actions = self.actions.n
        if self.is_dense:
            table = self.occupancy_
            density, states = table.reshape(-1)[cells], table.sum(axis=1)[cells // n_actions]
        else:
            visited, inverse = np.unique(self._cells // n_actions, return_inverse=True)
            sums = np.bincount(inverse, self._values, len(visited)).astype(np.float64)
            density, states = _at(self._cells, self._values, cells), _at(visited, sums, cells // n_actions)
        return Points(
            density=density,
            state_density=states,
            cells=cells,
            costs=dict(costs or {}),
            is_over_actions=self._counts_actions,
        )

    def measure(self) -> Measure:
        self.require_fit()
        if self.is_dense:
            return Measure.from_table(self.occupancy_, self.expected_costs_)
        points = self.points_at(self._cells)
        return Measure(points=points, weights=points.density, expected_costs=self.expected_costs_)

    def state_dict(self) -> dict[str, Any]:
        self.require_bound()
        if not self.is_fitted:
            return {"kind": "Counts", "n_cells": self.n_cells}
        state = {"kind": "Counts", "n_cells": self.n_cells, "values": self._values.copy(), "mass": self.mass_}
        cells = {} if self.is_dense else {"cells": self._cells.copy()}
        return state | cells | {"expected_costs": dict(self.expected_costs_)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.require_bound()
        if state.get("kind") != "Counts" or state.get("n_cells") != self.n_cells:
            raise InvalidData(
                f"This state holds {state.get('kind')} of {state.get('n_cells')} cells, "
                f"here are Counts of {self.n_cells}."
            )
        if "values" not in state:
            self._forget()
            return
        require_keys(state, "mass", "expected_costs", *(() if self.is_dense else ("cells",)))
        cells = None if self.is_dense else np.array(state["cells"], dtype=np.int64)
        values = np.array(state["values"], dtype=np.float64)
        if values.shape != ((self.n_cells,) if cells is None else cells.shape):
            raise InvalidData(f"This state of Counts has values of shape {values.shape}, which does not fit its cells.")
        require_finite("values", values)
        self._values = values
        if cells is not None:
            self._cells = cells
        self.mass_ = float(state["mass"])
        self.expected_costs_ = {name: float(cost) for name, cost in state["expected_costs"].items()}


def _at(keys: IntArray, values: FloatArray, wanted: IntArray) -> FloatArray:
    """Values of sorted keys at the wanted keys, 0 where a key is absent."""
    if not len(keys):
        return np.zeros(len(wanted))
    positions = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[positions] == wanted, values[positions], 0.0)
