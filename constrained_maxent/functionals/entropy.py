"""Functionals of a smoothed logarithm of λ, and the entropy of the occupancy measure, the paper's objective."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from scipy.special import xlogy

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals.base import Functional
from constrained_maxent.functionals.convex import ConicOccupancy, Curvature, Majorant
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, Measure, Points, is_number

if TYPE_CHECKING:  # Slow to load, and only the convex solver needs it.
    import cvxpy as cp

Over = Literal["state-action", "state"]


CELL_SMOOTHING = 1e-6
"""Usual σ where λ is the mass of cells: the pseudo-reward of a cell never seen is 13.8 nats."""

DENSITY_SMOOTHING = 1e-300
"""Usual σ where λ is a density. How large that is depends on units, so that σ may only keep logarithms finite: where λ
underflows, they are 690 nats."""

SMALLEST, LARGEST = 1e-285, 1e300
"""Densities beyond these are read from their logarithms."""

Resolution = float | Sequence[float]
"""The size of a cell: of each coordinate, or one share of the standard deviations of the first batch."""


@dataclass(frozen=True, eq=False)
class Smoothed(Functional):
    """A functional of log(λ + σ); its arguments are explained at :class:`Entropy`."""

    _: KW_ONLY
    over: Over = "state-action"
    smoothing: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over not in get_args(Over):
            raise InvalidSetting(f"over={self.over!r} must be one of {', '.join(get_args(Over))}.")
        if self.smoothing is not None and not (is_number(self.smoothing) and 0.0 <= self.smoothing < np.inf):
            raise InvalidSetting(f"smoothing={self.smoothing!r} must be a finite number of at least 0.")

    def density(self, points: Points) -> FloatArray:
        return points.density if self.over == "state-action" else points.state_density

    def logs(self, points: Points) -> FloatArray | None:
        """Log λ where float64 does not hold λ itself at some of the points."""
        return points.log_density if self.over == "state-action" else points.log_state_density

    def influenced(self, share: FloatArray, points: Points) -> FloatArray:
        """What an estimate's own derivative adds to that of λ log λ: 1, but for the smoothing and for samples."""
        influence = points.influence if self.over == "state-action" else points.state_influence
        return share if influence is None else share * influence

    def log_smoothed(self, points: Points, log_volume: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Log(λ v + σ) for cells of volume v, and λ v / (λ v + σ), also where float64 does not hold λ."""
        mass, known, sigma = self.density(points), self.logs(points), self.sigma(of_cells=points.are_cells)
        logs = known
        if log_volume != 0.0:
            with np.errstate(divide="ignore", over="ignore"):
                logs = (np.log(mass) if known is None else known) + log_volume
                mass = np.exp(logs)
        smoothed = mass + sigma
        with np.errstate(divide="ignore"):
            log_smoothed = np.log(smoothed)
        share = np.divide(mass, smoothed, out=np.ones_like(smoothed), where=smoothed > 0.0)
        if logs is None or not (is_lost := (mass < SMALLEST) | (mass > LARGEST)).any():
            return log_smoothed, share
        # The usual σ of densities only keeps logarithms finite, and those that are known are.
        is_free = (self.smoothing is None and known is not None) or sigma == 0.0
        kept = logs if is_free else np.logaddexp(logs, math.log(sigma))
        rest = np.exp(np.minimum(logs - kept, 0.0)) if not is_free else np.ones_like(share)
        return np.where(is_lost, kept, log_smoothed), np.where(is_lost, rest, share)

    def sigma(self, *, of_cells: bool) -> float:
        """σ as given, or what is usual for masses of cells or for densities."""
        if self.smoothing is not None:
            return float(self.smoothing)
        return CELL_SMOOTHING if of_cells else DENSITY_SMOOTHING

    def require_trainable(self) -> None:
        if self.smoothing == 0.0:
            raise InvalidSetting(
                f"smoothing=0 makes the pseudo-reward of {type(self).__name__} infinite in cells never seen: give a "
                "smoothing above 0."
            )

    def exact(self) -> Functional:
        return replace(self, smoothing=0.0)


@dataclass(frozen=True, eq=False)
class Entropy(Smoothed):
    r""":math:`H(\lambda) = -\sum_{s,a} \lambda \log(\lambda + \sigma)` [nats] (paper eq. CME).

    :math:`\lambda` need not sum to 1: the formula is applied to the masses as they are. The smoothing σ keeps the
    pseudo-reward of a cell never seen at :math:`-\log\sigma` instead of infinity, and changes the value by at most
    σ times the number of cells; ``smoothing=0`` is the entropy itself, for exact occupancies. Of a density, in
    continuous spaces, σ cuts off all rewards above :math:`-\log\sigma`, whatever the units of the state.

    The entropy of a density depends on the units of the state, by a constant where λ has mass 1. Where episodes end
    early the mass is m < 1, and :math:`H(\lambda) = m\,(H(d) - \log m)`: the units then say what a step of life is
    worth. ``resolution`` says it instead: with cells of volume v, as small as what is told apart,

    .. math:: H(\lambda) = -\int \lambda\,\log(\lambda\,v + \sigma),

    as in finite spaces, where a step is worth about log(1/share) for each coordinate.

    Args:
        over: ``"state-action"``, or ``"state"`` for the entropy of the state marginal :math:`d(s)=\sum_a\lambda(s,a)`.
        smoothing: σ ≥ 0, in units of λ, or with ``resolution`` in masses of its cells; usual: 1e-6 for masses of cells
            in finite spaces, and 1e-300 for densities.
        resolution: for densities: the size of a cell in each coordinate of the state and then, over
            ``"state-action"``, of the action, in their units; actions that are not in a ``Box`` have none. Or one
            number, a share of the standard deviations of states and actions in the first batch, weighted as λ, of an
            angle about its mean direction; a coordinate that is constant there counts as if its deviation were 1. What
            λ̂ counts, as it takes few values, has no size.

    Raises:
        InvalidSetting: unknown ``over``, a negative smoothing, or sizes that are not positive numbers; on evaluation
            sizes for a finite space, or of another number of coordinates.

    >>> round(Entropy(smoothing=0.0)([[0.5, 0.0], [0.25, 0.25]]), 4)  # 1.5 log 2
    1.0397
    """

    resolution: Resolution | None = None
    cell_sizes: tuple[float, ...] | None = field(init=False, default=None)
    """In each coordinate, where they are known: with a share, from the first batch on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.resolution
        if given is None:
            return
        is_list = isinstance(given, Sequence | np.ndarray) and getattr(given, "ndim", 1) == 1
        numbers: Any = list(given) if is_list else [given]  # type: ignore[arg-type]
        if not numbers or not all(is_number(size) and 0.0 < size < 1e300 for size in numbers):
            raise InvalidSetting(
                f"resolution={given!r} must be the size of a cell in each coordinate, positive numbers, or one number: "
                "a share of the standard deviations of the first batch, such as 0.01."
            )
        plain = tuple(float(size) for size in numbers)
        object.__setattr__(self, "resolution", plain if is_list else plain[0])
        object.__setattr__(self, "cell_sizes", plain if is_list else None)

    def with_sizes(self, sizes: Sequence[float] | None) -> Self:
        """The same entropy with cells of these sizes; ``None``: not known yet."""
        changed = copy.copy(self)
        object.__setattr__(changed, "cell_sizes", None if sizes is None else tuple(float(size) for size in sizes))
        return changed

    def exact(self) -> Functional:
        return replace(self, smoothing=0.0).with_sizes(self.cell_sizes)

    def check(self, n_states: int, n_actions: int) -> None:
        self._require_no_cells_of_its_own()

    def _require_no_cells_of_its_own(self) -> None:
        if self.resolution is not None:
            raise InvalidSetting(
                f"resolution={self.resolution!r} is for densities: the cells of a finite space have their size already."
            )

    def resolved(self, measure: Measure, periodic: Sequence[int] = ()) -> Self:
        if not isinstance(self.resolution, float) or self.cell_sizes is not None:
            self._log_volume(measure.points)  # names sizes that do not fit
            return self
        states, actions = _coordinates(measure.points)
        spread = _spread(states, measure.weights, periodic)
        if actions is not None and self.over == "state-action":
            spread = np.concatenate((spread, _spread(actions, measure.weights, ())))
        return self.with_sizes((self.resolution * spread).tolist())

    def state_dict(self) -> dict[str, Any]:
        is_share = is_number(self.resolution) and self.cell_sizes is not None
        return {"share": self.resolution, "sizes": list(self.cell_sizes or ())} if is_share else {}

    def with_state(self, state: Mapping[str, Any]) -> Functional:
        if not state:
            return self.with_sizes(None) if is_number(self.resolution) else self
        if state["share"] != self.resolution:
            raise InvalidSetting(
                f"it has cells of {state['share']:g} standard deviations, here is resolution={self.resolution!r}"
            )
        return self.with_sizes(state["sizes"])

    @property
    def is_settled(self) -> bool:
        return self.resolution is None or self.cell_sizes is not None

    def rewards_ends(self, measure: Measure) -> float | None:
        mass = float(measure.weights.sum())
        if measure.points.are_cells or not mass > 0.0:
            return None
        entropy = self.value(measure) / mass + math.log(mass)
        return entropy if entropy < 0.0 else None

    def _log_volume(self, points: Points) -> float:
        """Logarithm of a cell's volume, 0 without cells."""
        if self.resolution is None:
            return 0.0
        if points.are_cells:
            self._require_no_cells_of_its_own()
        if self.cell_sizes is None:
            raise InvalidSetting(
                f"resolution={self.resolution!r} is a share of the standard deviations of a first batch, and there was "
                "none yet: resolved(measure) says them, or give the size of a cell in each coordinate."
            )
        states, actions = _coordinates(points)
        n_states = states.shape[1]
        n_actions = actions.shape[1] if actions is not None and self.over == "state-action" else 0
        needed = n_states + (n_actions if points.is_over_actions else 0)
        if len(self.cell_sizes) not in (needed, n_states + n_actions):
            also = f" and {n_actions} of the action" if needed > n_states else ""
            raise InvalidSetting(
                f"resolution= has {len(self.cell_sizes)} sizes, here are {n_states} coordinates of the state{also}: "
                "give one size for each."
            )
        return sum(math.log(size) for i, size in enumerate(self.cell_sizes[:needed]) if i not in points.counted)

    def _is_plain(self, points: Points) -> bool:
        return self.resolution is None and self.logs(points) is None

    def value(self, measure: Measure) -> float:
        points = measure.points
        if self._is_plain(points):
            # xlogy(w, 0) = 0 where w = 0; with sigma = 0 an unvisited cell adds nothing, as it should.
            return -float(np.sum(xlogy(measure.weights, self.density(points) + self.sigma(of_cells=points.are_cells))))
        log_smoothed, _ = self.log_smoothed(points, self._log_volume(points))
        return -float(np.sum(measure.weights * np.where(measure.weights > 0.0, log_smoothed, 0.0)))

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        density, sigma = self.density(points), self.sigma(of_cells=points.are_cells)
        if sigma > 0.0 and self._is_plain(points):
            smoothed = density + sigma
            smooth: FloatArray = -np.log(smoothed) - self.influenced(density / smoothed, points)
            return smooth
        # At an empty cell without smoothing: the derivative of -x log x at 0 is +inf.
        log_smoothed, share = self.log_smoothed(points, self._log_volume(points))
        return -log_smoothed - self.influenced(share, points)

    def integrand(self, measure: Measure, points: Points) -> FloatArray:
        if self._is_plain(points):
            smoothed = self.density(points) + self.sigma(of_cells=points.are_cells)
            f: FloatArray = -xlogy(np.sign(smoothed), smoothed)  # 0 in empty cells without smoothing
            return f
        log_smoothed, _ = self.log_smoothed(points, self._log_volume(points))
        return -np.where(np.isneginf(log_smoothed), 0.0, log_smoothed)

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        self._require_no_cells_of_its_own()
        return [EngineTerm(kind="entropy", smoothing=self.sigma(of_cells=True), over_states=self.over == "state")]

    @property
    def label(self) -> str:
        return "entropy (nats)"

    @property
    def sees_places(self) -> bool:
        return False

    @property
    def sees_samples(self) -> bool:
        return False

    @property
    def formula(self) -> str:
        return "H(λ)" if self.over == "state-action" else "H(d)"

    @property
    def curvature(self) -> Curvature:
        return "concave"

    def conic(self, occupancy: ConicOccupancy) -> cp.Expression:
        import cvxpy as cp

        self._require_no_cells_of_its_own()
        density = occupancy.scaled if self.over == "state-action" else occupancy.by_state @ occupancy.scaled
        # -u x log(u x) = u (-x log x) - u log u · x
        return occupancy.unit * cp.sum(cp.entr(density) - math.log(occupancy.unit) * density)

    def majorant(self, factor: float, occupancy: FloatArray, subgradients: Mapping[int, FloatArray]) -> Majorant:
        self._require_no_cells_of_its_own()
        temperatures = (0.0, factor) if self.over == "state" else (factor, 0.0)
        return Majorant(0.0, np.zeros(occupancy.shape), *temperatures)


def _coordinates(points: Points) -> tuple[FloatArray, FloatArray | None]:
    """States ``(n, n_states)`` of a density's points, and actions ``(n, n_actions)`` where they are real numbers."""
    states, actions = points.observations if points.states is None else points.states, points.actions
    if states is None:
        raise InvalidSetting("resolution= needs points that say their states, as those of densities do.")
    n = len(states)
    if actions is None or np.asarray(actions).dtype.kind != "f":
        return np.asarray(states, dtype=np.float64).reshape(n, -1), None
    return np.asarray(states, dtype=np.float64).reshape(n, -1), np.asarray(actions, dtype=np.float64).reshape(n, -1)


def _spread(rows: FloatArray, weights: FloatArray, angles: Sequence[int]) -> FloatArray:
    """Standard deviations of weighted rows, of angles about their mean direction; 1 where they are constant."""
    share = weights / weights.sum() if weights.sum() > 0.0 else np.full(len(rows), 1.0 / len(rows))
    center = share @ rows
    difference = rows - center
    for angle in angles:
        turned = np.exp(1j * rows[:, angle])
        difference[:, angle] = np.angle(turned * np.conj(share @ turned))
    difference -= share @ difference
    spread = np.sqrt(share @ difference**2)
    constant = spread <= 64.0 * np.finfo(np.float64).eps * np.abs(rows).max(axis=0)
    return np.where(constant, 1.0, spread)
