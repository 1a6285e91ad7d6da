"""What the oracle answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from constrained_maxent.types import FloatArray


@dataclass(frozen=True, eq=False)
class Solution:
    """The global optimum of a constrained problem over all occupancy measures.

    Attributes:
        status: ``"optimal"``, or ``"inaccurate"`` if the solver stopped at a looser tolerance: look at ``gap``.
        value: objective at the optimum [nats for entropies], of ``occupancy``, exactly.
        penalised_value: value minus penalties; equal to ``value`` in a problem without penalties.
        occupancy: λ*, ``(n_states, n_actions)``; exactly that of ``policy``.
        policy: π*, ``(n_states, n_actions)`` at infinite horizon; ``(horizon, n_states, n_actions)`` at a finite one;
            uniform where λ* has no mass.
        constraints: R of each constraint, at ``occupancy``.
        multipliers: ν* of each constraint that is not penalised, and the slope ℒ' of those that are.
        dual_bound: no occupancy has a larger (penalised) value; holds whatever the solver did.
        primal_residual: how far the program's own λ is from being an occupancy and from the constraints (largest).
        dual_residual: how far ν* is from complementary slackness, Σ ν*·|R|.
        seconds: time of the solve.
        is_time_dependent: the policy depends on time, so that ``value`` is only an upper bound for stationary policies.
    """

    status: str
    value: float
    penalised_value: float
    occupancy: FloatArray
    policy: FloatArray
    constraints: Mapping[str, float]
    multipliers: Mapping[str, float]
    dual_bound: float
    primal_residual: float
    dual_residual: float
    seconds: float
    is_time_dependent: bool

    @property
    def gap(self) -> float:
        """Duality gap: how much better than ``penalised_value`` any occupancy could be."""
        return self.dual_bound - self.penalised_value
