"""Frank–Wolfe on the grid: a planner that knows the dynamics, and mixtures of policies."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from constrained_maxent.agents import frank_wolfe
from constrained_maxent.errors import InvalidRun
from constrained_maxent.functionals import Entropy
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.reproduction.grid.sweep import World
from constrained_maxent.reproduction.grid.tables import read_table, write_table
from constrained_maxent.reproduction.grid.worlds import OCCUPANCY, place_of

BETA, EPISODES = 1.0, 200


@dataclass(frozen=True)
class MixturePoint:
    """A mixture of policies, which is not a single policy, evaluated exactly.

    Attributes:
        densities: ``"exact"``, or ``"sampled"`` from episodes of each new policy.
        beta: of the quadratic penalty.
        episodes: sampled from each new policy; 0 for exact densities.
        seed: of the sampling.
        iterations: as many as were allowed; fewer are done once nothing is gained.
        policies: how many the mixture has, each dependent on time.
        transitions: sampled for the densities; planning takes none, as it knows the dynamics.
        entropy: of its occupancy [nats].
        value: its cost or distance.
        gap: the last Frank–Wolfe gap [nats].
    """

    densities: str
    beta: float
    episodes: int
    seed: int
    iterations: int
    policies: int
    transitions: int
    entropy: float
    value: float
    gap: float


def frank_wolfe_course(world: World, path: Path, *, iterations: int, seed: int = 0) -> list[MixturePoint]:
    """Mixtures along a run with exact and with sampled densities, each of twice as many iterations as the one before.

    A run with fewer iterations is the beginning of a longer one, as nothing but the seed is random.

    Args:
        world: where.
        path: of the table: it is read if these runs are in it, else written anew.
        iterations: of the last points.
        seed: of the sampling.
    """
    at = [iterations // 2**k for k in range(iterations.bit_length())][::-1]
    wanted = [(densities, episodes, k) for densities, episodes in (("exact", 0), ("sampled", EPISODES)) for k in at]
    with suppress(InvalidRun):  # it is missing, damaged or of another kind: seconds to compute
        points = read_table(path, MixturePoint)
        if [(p.densities, p.episodes, p.iterations, p.beta, p.seed) for p in points] == [
            (*point, BETA, seed) for point in wanted
        ]:
            return points
    points = [_point(world, densities, episodes, k, seed) for densities, episodes, k in wanted]
    write_table(path, points)
    return points


def _point(world: World, densities: str, episodes: int, iterations: int, seed: int) -> MixturePoint:
    place = place_of(world)
    result = frank_wolfe(
        place.mdp,
        constraints={"constraint": Constraint(place.functional, Quadratic(BETA))},
        scale=OCCUPANCY,
        iterations=iterations,
        episodes=episodes or None,
        seed=seed,
    )
    return MixturePoint(
        densities=densities,
        beta=BETA,
        episodes=episodes,
        seed=seed,
        iterations=iterations,
        policies=len(result.mixture),
        transitions=result.transitions,
        entropy=Entropy(smoothing=0.0).value(result.occupancy),
        value=place.functional.value(result.occupancy),
        gap=float(result.gaps[-1]),
    )
