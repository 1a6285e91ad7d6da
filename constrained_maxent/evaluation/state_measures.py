"""What is worth measuring about the states of an environment: a grid to cover, events, units."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.evaluation.spread import Coverage, Grid, state_entropy
from constrained_maxent.evaluation.statistics import Estimate, bootstrap_mean, bootstrap_ratio
from constrained_maxent.occupancy.gaussians import fold
from constrained_maxent.spaces import Environment
from constrained_maxent.types import Batch, FloatArray, check_count, check_seed

Event = Callable[[FloatArray], NDArray[np.bool_]]
"""Whether something is the case in each of ``n`` states ``(n, n_coordinates)``: bool ``(n,)``."""


@dataclass(frozen=True, kw_only=True)
class StateMeasures:
    """How the states of an environment are measured.

    Args:
        grid: whose coverage is counted, over all coordinates of the state.
        events: by name; the share of steps in which each is the case.
        units: of the coordinates.
        periodic: coordinates that are angles in radians; ``None``: those of the occupancy estimator. Grid and events
            get them in [-π, π).
        coverage_steps: how many of the fresh steps coverage looks at, since it grows with their number: drawn at
            random without replacement, and besides in a row. Where there are fewer, all.
    """

    grid: Grid | None = None
    events: Mapping[str, Event] = field(default_factory=dict)
    units: Sequence[str] = ()
    periodic: Sequence[int] | None = None
    coverage_steps: int = 8192

    def __post_init__(self) -> None:
        check_count("coverage_steps", self.coverage_steps)


@dataclass(frozen=True)
class StateEvaluation:
    """The states that a policy visited, measured.

    Attributes:
        entropy: of the state at a random step [nats], see :func:`~constrained_maxent.evaluation.state_entropy`.
        units: of the coordinates; empty where unknown.
        coverage: of the grid, by steps drawn from all episodes; ``None`` without one.
        coverage_in_a_row: share of the grid's cells that as many steps visit as they come, episode after episode: less
            than when they are drawn from more episodes. Mean over as many such rows as there are, with a 95 % interval.
        events: share of steps in which each is the case, with a 95 % interval over episodes.
    """

    entropy: Estimate
    units: Sequence[str]
    coverage: Coverage | None
    coverage_in_a_row: Estimate | None
    events: Mapping[str, Estimate]

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The evaluation that ``dataclasses.asdict`` described."""
        coverage, in_a_row = content["coverage"], content["coverage_in_a_row"]
        return cls(
            entropy=Estimate(**content["entropy"]),
            units=tuple(content["units"]),
            coverage=None if coverage is None else Coverage(**coverage),
            coverage_in_a_row=None if in_a_row is None else Estimate(**in_a_row),
            events={name: Estimate(**share) for name, share in content["events"].items()},
        )

    def figures(self) -> dict[str, Estimate]:
        """Everything measured, by the names that tables have."""
        figures = {"state entropy (nats)": self.entropy}
        if self.coverage is not None:
            figures["grid cells visited, share"] = Estimate.exactly(self.coverage.share)
            assert self.coverage_in_a_row is not None, "both or none"
            figures["grid cells visited in a row, share"] = self.coverage_in_a_row
            figures["effective grid cells, share"] = Estimate.exactly(self.coverage.effective)
            figures["outside the grid, share of steps"] = Estimate.exactly(self.coverage.outside)
        return figures | {f"{name}, share of steps": share for name, share in self.events.items()}


def evaluate_states(
    batch: Batch,
    measures: StateMeasures,
    *,
    periodic: Sequence[int] = (),
    counted: Sequence[int] | None = None,
    seed: int,
) -> StateEvaluation:
    """Measure the states of whole episodes, or their observations where a batch has no states.

    ``periodic`` are its angles where the measures do not name them; ``counted`` is as in ``state_entropy``;
    ``seed`` is of draws and intervals.

    Raises:
        InvalidData: grid or events do not fit the states.
        InvalidSetting: an angle that is not a coordinate of the state.
    """
    states = _states_of(batch).astype(np.float64)
    angles = list(periodic if measures.periodic is None else measures.periodic)
    if angles and max(angles) >= states.shape[1]:
        raise InvalidSetting(f"periodic={tuple(angles)}: states have only {states.shape[1]} coordinates, from 0.")
    states[:, angles] = fold(states[:, angles])
    coverage = in_a_row = None
    if measures.grid is not None:
        n_steps = min(measures.coverage_steps, len(states))
        drawn = np.random.default_rng((check_seed("seed", seed), 1)).choice(len(states), n_steps, replace=False)
        coverage = measures.grid.coverage(states[drawn])
        starts = range(0, len(states) - n_steps + 1, n_steps)
        shares = [measures.grid.coverage(states[start : start + n_steps]).share for start in starts]
        in_a_row = bootstrap_mean(shares, seed=seed)
    entropy = state_entropy(batch.split(states), periodic=angles, counted=counted, seed=seed)
    events = {name: _share(name, event, states, batch, seed) for name, event in measures.events.items()}
    return StateEvaluation(entropy, tuple(measures.units), coverage, in_a_row, events)


def _share(name: str, event: Event, states: FloatArray, batch: Batch, seed: int) -> Estimate:
    happened = np.asarray(event(states))
    if happened.shape != (len(states),) or happened.dtype != np.bool_:
        raise InvalidData(
            f"The event {name!r} must give one truth value per state, shape ({len(states)},), got "
            f"{happened.dtype} of shape {happened.shape}."
        )
    return bootstrap_ratio([part.sum() for part in batch.split(happened)], batch.lengths, seed=seed)


def pole_is_up(states: FloatArray) -> NDArray[np.bool_]:
    """Whether cos ω > 0.9 in cartpole states [x, ẋ, ω, ω̇], ``(n, 4)``: within 26° of standing upright."""
    up: NDArray[np.bool_] = np.cos(states[:, 2]) > 0.9
    return up


CARTPOLE = StateMeasures(
    grid=Grid((-2.0, -6.0, -math.pi, -15.0), (2.0, 6.0, math.pi, 15.0), (8, 8, 12, 12)),
    events={"pole up": pole_is_up},
    units=("m", "m/s", "rad", "rad/s"),
    periodic=(2,),
)
"""For :class:`~constrained_maxent.envs.SafeCartpole`, states [x, ẋ, ω, ω̇]."""

POINT_MASS = StateMeasures(
    # The table ends at ±0.29 m; full force reaches 0.1 m/s.
    grid=Grid((-0.3, -0.3, -0.12, -0.12), (0.3, 0.3, 0.12, 0.12), (12, 12, 8, 8)),
    units=("m", "m", "m/s", "m/s"),
    periodic=(),
)
"""For :class:`~constrained_maxent.envs.PointMass`, states [x, y, ẋ, ẏ]."""

_IN_THE_PLANE, _IN_SPACE = (2,), (3, 5)
"""The angles of a torso that are periodic: its pitch in the plane, else yaw and roll."""

STATE_MEASURES: dict[str, StateMeasures] = {
    "SafeCartpole-v0": CARTPOLE,
    "SafeCartpole-PGP-v0": CARTPOLE,
    "PointMass-v0": POINT_MASS,
    "PointMass-PGP-v0": POINT_MASS,
    "SafeHalfCheetah-v0": StateMeasures(periodic=_IN_THE_PLANE),
    "SafeHalfCheetah-PGP-v0": StateMeasures(units=("m", "m", "rad"), periodic=_IN_THE_PLANE),
    "SafeAnt-v0": StateMeasures(periodic=_IN_SPACE),
    "SafeAnt-PGP-v0": StateMeasures(units=("m", "m", "m", "rad", "rad", "rad"), periodic=_IN_SPACE),
    "SafeHumanoid-v0": StateMeasures(periodic=_IN_SPACE),
    "SafeHumanoid-PGP-v0": StateMeasures(units=("m", "m", "m", "rad", "rad", "rad"), periodic=_IN_SPACE),
}
"""By environment id, for states as ``info["state"]`` has them. Add those of your own environments."""


def measures_of(env: Environment, batch: Batch | None = None) -> StateMeasures:
    """What to measure of an environment: by its id, or only the entropy where that, or a batch's state, is another."""
    known = StateMeasures() if env.spec is None else STATE_MEASURES.get(env.spec.id, StateMeasures())
    is_known = known.grid is None or batch is None or _states_of(batch).shape[1] == len(known.grid.cells)
    return known if is_known else StateMeasures()


def _states_of(batch: Batch) -> NDArray[Any]:
    """States, or observations where a batch has none, ``(n_steps, n_coordinates)``."""
    rows = batch.places
    return rows.reshape(batch.n_steps, -1)
