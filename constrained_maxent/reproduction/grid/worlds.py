"""The worlds of the grid study: exact dynamics, and the constrained quantity."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from constrained_maxent.engine import RunSettings
from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.functionals import Entropy, Functional, L2Distance, LinearCost
from constrained_maxent.occupancy import Scale
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.problem import Constraint
from constrained_maxent.reproduction.grid.methods import options_of, penalty_of
from constrained_maxent.reproduction.grid.sweep import Setting, Study, World
from constrained_maxent.types import FloatArray

DISCOUNT, HORIZON = 0.99, 25
OCCUPANCY: Scale = "truncated"
HOLE_COSTS: dict[World, float] = {"holes": 50.0, "relaxed": 2.0}
DOWN, RIGHT = 1, 2
_ENTROPY = Entropy(smoothing=0.0)
_OPEN = ["SFFFFF", *["FFFFFF"] * 4, "FFFFFG"]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a study takes place.

    Attributes:
        desc: its map, rows of letters.
        mdp: its dynamics.
        functional: the constrained quantity, at limit 0.
    """

    desc: tuple[str, ...]
    mdp: TabularMDP
    functional: Functional

    def at_limit(self, limit: float) -> Functional:
        """The constrained quantity with its limit."""
        return replace(self.functional, limit=limit)

    def measure(self, policy: FloatArray) -> tuple[float, float]:
        """Entropy [nats] and constrained quantity of a policy table, exactly and without smoothing."""
        occupancy = self.mdp.occupancy(policy, scale=OCCUPANCY)
        return _ENTROPY.value(occupancy), self.functional.value(occupancy)

    def measure_all(self, policies: FloatArray) -> FloatArray:
        """The same for many policies side by side: ``(n, n_states, n_actions)`` to ``(n, 2)``.

        What ``mdp.occupancy`` does for one, which costs more than the arithmetic for so small an MDP.
        """
        count, n_states, n_actions = policies.shape
        occupancies = np.zeros((count, n_states * n_actions))
        states = np.broadcast_to(self.mdp.initial, (count, n_states))
        for weight in self.mdp.weighting(OCCUPANCY).weights(np.arange(HORIZON)):
            cells = (states[:, :, None] * policies).reshape(count, -1)
            occupancies += weight * cells
            states = cells @ self.mdp.transition
        tables = occupancies.reshape(policies.shape)
        return np.array([[_ENTROPY.value(table), self.functional.value(table)] for table in tables]).reshape(-1, 2)

    def run_settings(self, study: Study, setting: Setting, seed: int) -> RunSettings:
        """What the engine is to do for one setting and seed."""
        return RunSettings(
            seed=seed,
            constraints={study.constraint: Constraint(self.at_limit(setting.limit), penalty_of(setting))},
            episodes_per_batch=setting.episodes_per_batch,
            **options_of(setting),
        )


def place_of(world: World) -> Place:
    """The paper's 6×6 grid in one of its variants."""
    if world == "open":
        mdp = _mdp(SafeFrozenLake(desc=_OPEN, horizon=HORIZON))
        return Place(tuple(_OPEN), mdp, L2Distance(mdp.occupancy(reference_policy(), scale=OCCUPANCY)))
    env = SafeFrozenLake(hole_cost=HOLE_COSTS[world], horizon=HORIZON)
    return Place(tuple("".join(row) for row in env.desc.astype(str)), _mdp(env), LinearCost(env.cost_tables["cost"]))


def reference_policy() -> FloatArray:
    """Five times right, then five times down, ``(36, 4)``."""
    policy = np.zeros((6, 6, 4))
    policy[:, :5, RIGHT] = 1.0
    policy[:, 5, DOWN] = 1.0
    return policy.reshape(36, 4)


def _mdp(env: SafeFrozenLake) -> TabularMDP:
    return TabularMDP.from_env(env, discount=DISCOUNT, horizon=HORIZON)
