"""Frank–Wolfe on the grid: a planner that knows the dynamics, and mixtures of policies."""

from __future__ import annotations

from dataclasses import dataclass

from constrained_maxent.agents import frank_wolfe
from constrained_maxent.experiments.grid.sweep import World
from constrained_maxent.experiments.grid.worlds import OCCUPANCY, place_of
from constrained_maxent.functionals import Entropy
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint

BETA, EPISODES = 1.0, 200


@dataclass(frozen=True)
class MixturePoint:
    """A mixture of policies, which is not a single policy, evaluated exactly.

    Attributes:
        densities: ``"exact"``, or ``"sampled"`` from episodes of each new policy.
        policies: how many it has, each dependent on time.
        transitions: sampled for the densities; planning takes none, as it knows the dynamics.
        entropy: of its occupancy [nats].
        value: its cost or distance.
        gap: the last Frank–Wolfe gap [nats].
    """

    densities: str
    policies: int
    transitions: int
    entropy: float
    value: float
    gap: float


def frank_wolfe_points(world: World, *, iterations: int, seed: int = 0) -> list[MixturePoint]:
    """With exact and with sampled densities."""
    place = place_of(world)
    points = []
    for densities, episodes in (("exact", None), ("sampled", EPISODES)):
        result = frank_wolfe(
            place.mdp,
            constraints={"constraint": Constraint(place.functional, Quadratic(BETA))},
            scale=OCCUPANCY,
            iterations=iterations,
            episodes=episodes,
            seed=seed,
        )
        points.append(
            MixturePoint(
                densities,
                len(result.mixture),
                result.transitions,
                Entropy(smoothing=0.0).value(result.occupancy),
                place.functional.value(result.occupancy),
                float(result.gaps[-1]),
            )
        )
    return points
