"""The worlds of the grid study: exact dynamics, the constrained quantity, exact values of policies, and optima."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.errors import InfeasibleProblem
from constrained_maxent.functionals import Entropy, Functional, L2Distance, LinearCost
from constrained_maxent.occupancy import Scale
from constrained_maxent.oracle import TabularMDP, best_stationary, solve
from constrained_maxent.reproduction.grid.studies import TEXT, Conventions, WorldName
from constrained_maxent.types import FloatArray

DISCOUNT, HORIZON = 0.99, 25
OCCUPANCY: Scale = "truncated"
HOLE_COSTS: dict[WorldName, float] = {"holes": 50.0, "relaxed": 2.0}
BASE_COST, LARGER_BASE_COST = -0.001, -0.1
"""Outside of holes: the text's, and the authors'."""

DOWN, RIGHT = 1, 2
ENTROPY = Entropy(smoothing=0.0)
_OPEN = ("SFFFFF", *["FFFFFF"] * 4, "FFFFFG")

BEST_STATIONARY = 34.5415
"""Entropy of the best stationary policy at zero cost, as ``stationary_optimum`` finds it in some seconds [nats]."""

UNCONSTRAINED_COST = 123.87
"""Cost of the best stationary policy without the constraint, as ``unconstrained_violation`` finds it."""


class World(NamedTuple):
    """The paper's 6×6 grid in one of its variants: map, dynamics, and the constrained quantity at limit 0."""

    desc: NDArray[np.bytes_]
    mdp: TabularMDP
    functional: Functional

    def measure(self, policies: FloatArray) -> FloatArray:
        """Exact entropy [nats] and constrained quantity, ``(n, 2)``, of policies, ``(n, n_states, n_actions)``."""
        tables = self.occupancies(policies)
        return np.array([[ENTROPY(table), self.functional(table)] for table in tables])

    def mass_in_holes(self, policies: FloatArray) -> FloatArray:
        """Exact occupancy of the holes, ``(n,)``, of policies, ``(n, n_states, n_actions)``."""
        mass: FloatArray = self.occupancies(policies)[:, self.desc.ravel() == b"H"].sum(axis=(1, 2))
        return mass

    def occupancies(self, policies: FloatArray) -> FloatArray:
        """Exact λ of policies, both ``(n, n_states, n_actions)``.

        All side by side: ``mdp.occupancy`` of one policy costs more than the arithmetic for so small an MDP.
        """
        count, n_states, _ = policies.shape
        occupancies = np.zeros((count, policies[0].size))
        states = np.broadcast_to(self.mdp.initial, (count, n_states))
        for weight in self.mdp.weighting(OCCUPANCY).weights(np.arange(HORIZON)):
            cells = (states[:, :, None] * policies).reshape(count, -1)
            occupancies += weight * cells
            states = cells @ self.mdp.transition
        return occupancies.reshape(policies.shape)


def world_of(name: WorldName, conventions: Conventions = TEXT) -> World:
    """The world of this name, with the cost of such conventions."""
    is_open = name == "open"
    base_cost = LARGER_BASE_COST if conventions.larger_base_cost else BASE_COST
    env = (
        SafeFrozenLake(desc=list(_OPEN)) if is_open else SafeFrozenLake(hole_cost=HOLE_COSTS[name], base_cost=base_cost)
    )
    mdp = TabularMDP.from_env(env, discount=DISCOUNT, horizon=HORIZON)
    if is_open:
        return World(env.desc, mdp, L2Distance(mdp.occupancy(reference_policy(), scale=OCCUPANCY)))
    costs = entering_costs(env) if conventions.cost_on_entering else env.cost_tables["cost"]
    return World(env.desc, mdp, LinearCost(costs))


def entering_costs(env: SafeFrozenLake) -> FloatArray:
    """The mean cost of the tile that an action leads to, a hole to a hole included, ``(n_states, n_actions)``.

    The environment charges the tile that a step leaves. By this table the start costs nothing, and the last step of an
    episode costs what it enters.
    """
    costs: FloatArray = env.tables.costs[env.tables.successors].mean(axis=-1)
    return costs


def reference_policy() -> FloatArray:
    """Five times right, then five times down, ``(36, 4)``."""
    policy = np.zeros((6, 6, 4))
    policy[:, :5, RIGHT] = 1.0
    policy[:, 5, DOWN] = 1.0
    return policy.reshape(36, 4)


@cache
def optimum(name: WorldName, limit: float, *, constrained: bool = True) -> float | None:
    """Entropy that no policy exceeds, time-dependent ones included [nats]; ``None`` if no policy keeps the limit."""
    world = world_of(name)
    constraints = {"constraint": world.functional.with_limit(limit)} if constrained else {}
    try:
        return float(solve(world.mdp, constraints=constraints, scale=OCCUPANCY).value)
    except InfeasibleProblem:
        return None


@cache
def stationary_optimum(name: WorldName, limit: float, *, constrained: bool = True) -> float:
    """Entropy of the best stationary policy that exact gradients find from two starts [nats]; takes seconds."""
    world = world_of(name)
    constraints = {"constraint": world.functional.with_limit(limit)} if constrained else {}
    return best_stationary(world.mdp, constraints=constraints, scale=OCCUPANCY, starts=2)[0].value


@cache
def unconstrained_violation(name: WorldName) -> float:
    """Violation of the best stationary policy without the constraint, at limit 0; takes a second."""
    world = world_of(name)
    best = best_stationary(world.mdp, constraints={}, scale=OCCUPANCY, starts=1)[0]
    return max(float(world.measure(best.policy[None])[0, 1]), 0.0)
