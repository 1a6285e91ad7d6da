"""The contract of an occupancy estimator: fit a batch, then tell λ̂ anywhere. scikit-learn's manners."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import gymnasium as gym
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, NotFitted, UnsupportedSpace
from constrained_maxent.schedules import Geometric, Schedule, value_at
from constrained_maxent.types import Batch, FloatArray, IntArray, Measure, Points, is_number


class OccupancyEstimator(ABC):
    """An estimate λ̂ of the occupancy measure, refitted at the end of every batch.

    The constructor only stores its arguments, each under its own name. ``bind`` tells the spaces, ``fit`` learns; what
    it learnt has names that end in an underscore. λ̂(s, a) = ``mass_`` · exp(``log_prob``): the density integrates to
    1, the mass says how much of a full-length episode there is. Write an estimator of your own by implementing the
    abstract methods, and check it with :func:`constrained_maxent.testing.check_estimator`. Over finite spaces it also
    implements ``table_shape`` and ``encode``; if λ̂ is a whole table, ``is_dense`` and ``cell`` too; and ``fresh`` if it
    remembers earlier batches.

    Attributes:
        mass_: total mass of λ̂.
        expected_costs_: ⟨c, λ̂⟩ of each recorded cost, by name.
        periodic: coordinates of the state that are angles in radians; none by default.
    """

    mass_: float
    expected_costs_: dict[str, float]
    periodic: Sequence[int] = ()
    is_bound: bool = False

    @abstractmethod
    def bind(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> Self:
        """Prepare for the spaces of one (sub-)environment, forget everything learnt, and return the estimator itself.

        Raises:
            UnsupportedSpace: this estimator cannot handle the space.
        """

    @abstractmethod
    def fit(self, batch: Batch, *, progress: float = 0.0) -> Self:
        r"""Estimate λ from a batch (paper eq. :math:`\lambda^{\mathrm{MC}}_H`-Est), and return the estimator itself.

        ``progress`` is the share of the run that was over when the batch began, from 0 to 1: where schedules stand.
        """

    @abstractmethod
    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        """Logarithm of λ̂ / mass_, ``(n,)``, at observations and actions ``(n, ...)``; -inf where nothing was seen.

        Raises:
            NotFitted: before the first ``fit``.
        """

    @abstractmethod
    def points(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        costs: Mapping[str, FloatArray] | None = None,
        *,
        states: NDArray[Any] | None = None,
        log_probs: FloatArray | None = None,
    ) -> Points:
        """λ̂ at the given places, as functionals want it.

        Args:
            observations, actions: the places, ``(n, ...)``.
            costs: what was charged there, by name, ``(n,)``.
            states: the states there, ``(n, ...)``, where batches have them; given only then.
            log_probs: log π(a|s) there, ``(n,)``, where it is known; given only then.

        Raises:
            NotFitted: before the first ``fit``.
        """

    @abstractmethod
    def measure(self) -> Measure:
        """The estimate as a whole, as functionals want it.

        Raises:
            NotFitted: before the first ``fit``.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What was learnt: numbers, strings and NumPy arrays only."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned. Call ``bind`` before.

        Raises:
            InvalidData: the state is of another estimator or other spaces. Nothing is changed then.
        """

    def live_state(self) -> dict[str, Any]:
        """As much of ``state_dict`` as tells λ̂ at given places: for ``load_state_dict`` of one that need not learn."""
        return self.state_dict()

    def points_of(self, batch: Batch) -> Points:
        """λ̂ at every step of a batch."""
        known = {"states": batch.states, "log_probs": batch.log_probs}
        given = {name: column for name, column in known.items() if column is not None}
        return self.points(batch.observations, batch.actions, batch.costs, **given)

    def share_beyond(self, points: Points) -> float:
        """Share of places that lie so far from all samples that λ̂ does not tell how far; none by default."""
        return 0.0

    @property
    def doubt(self) -> str | None:
        """Why the latest estimate means little, and what to do, as a sentence; ``None``: no reason is known."""
        return None

    @property
    def notice(self) -> str | None:
        """What the latest estimate does besides what its name says, as a sentence to be said once."""
        return None

    @property
    def counts_few(self) -> tuple[int, ...]:
        """Coordinates of the state that a density counts, as they take few values."""
        return ()

    def count_as(self, other: OccupancyEstimator) -> None:
        """Let a first fit count the coordinates that another estimate counts, so that both compare."""

    def get_params(self) -> dict[str, Any]:
        """The constructor's arguments: by default the attributes of their names."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def fresh(self) -> Self:
        """An unfitted estimator of the same kind whose λ̂ is always that of the last batch alone."""
        return type(self)(**self.get_params())

    @property
    def remembers(self) -> bool:
        """Whether λ̂ holds earlier batches too, so that ``fresh()`` says another thing."""
        return False

    @property
    def is_dense(self) -> bool:
        """Whether λ̂ is a table over all cells, so that ``cell`` and ``encode`` number its entries."""
        return False

    def table_shape(self) -> tuple[int, int] | None:
        """(n_states, n_actions) of finite spaces, ``None`` elsewhere."""
        return None

    def encode(self, observations: NDArray[Any], actions: NDArray[Any]) -> IntArray:
        """Cell numbers s·|A| + a, ``(n,)``, of the rows of steps; finite spaces only."""
        raise UnsupportedSpace(f"{type(self).__name__} has no cells.")

    def cell(self, observation: Any, action: Any) -> int:
        """Number s·|A| + a of one step's cell; dense estimates only."""
        raise UnsupportedSpace(f"{type(self).__name__} has no cells.")

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "mass_")

    def require_bound(self) -> None:
        """Raise ``NotFitted`` unless ``bind`` has set ``is_bound``."""
        if not self.is_bound:
            raise NotFitted(
                f"{type(self).__name__} does not know the spaces: call bind(observation_space, action_space) first."
            )

    def require_fit(self) -> None:
        """Raise ``NotFitted`` unless there is an estimate."""
        if not self.is_fitted:
            raise NotFitted(f"{type(self).__name__} has no estimate yet: call fit(batch) first.")

    def remember_costs(self, batch: Batch, memory: float = 0.0) -> None:
        """Set ``expected_costs_`` from a batch, keeping the share ``memory`` of what it was, as λ̂ itself does."""
        fresh = {name: float(batch.weights @ cost) / batch.n_episodes for name, cost in batch.costs.items()}
        known = getattr(self, "expected_costs_", {})
        self.expected_costs_ = {
            name: memory * known[name] + (1.0 - memory) * new if name in known else new for name, new in fresh.items()
        }

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({arguments})"


def require_keys(state: Mapping[str, Any], *names: str) -> None:
    """Raise ``InvalidData`` unless the state of an estimator has these entries."""
    if missing := set(names) - state.keys():
        raise InvalidData(f"This state of {state['kind']} lacks {', '.join(sorted(missing))}.")


def check_memory(memory: Schedule) -> None:
    """Raise ``InvalidSetting`` unless memory, or both ends of its schedule, lie in [0, 1)."""
    for value in (memory.start, memory.end) if isinstance(memory, Geometric) else (memory,):
        if not (is_number(value) and 0.0 <= value < 1.0):
            raise InvalidSetting(f"memory={value!r} must lie in [0, 1): the share of the old estimate that is kept.")


def fresh_share(memory: Schedule) -> Schedule:
    """1 - memory, the weight of the new batch in λ̂: what a schedule of the memory is geometric in."""
    if isinstance(memory, Geometric):
        return Geometric(1.0 - memory.start, 1.0 - memory.end)
    return 1.0 - memory


def memory_at(memory: Schedule, progress: float) -> float:
    """Share of the old estimate that a fit keeps where this share of the run is over."""
    return 1.0 - value_at(fresh_share(memory), progress) if isinstance(memory, Geometric) else memory
