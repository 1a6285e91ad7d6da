"""The global optimum of a wrapped environment's own problem, and certificates against it."""

from __future__ import annotations

from numpy.typing import ArrayLike

from constrained_maxent.evaluation.exact import ExactProblem
from constrained_maxent.oracle import Certificate, Solution, certify, solve
from constrained_maxent.penalties import Quadratic

QUICK_VARIABLES = 20_000
"""Up to this many variables of the convex program the optimum takes seconds, and training ends with a certificate."""


def optimum(problem: ExactProblem, *, constrained: bool = True, beta: float | None = None) -> Solution:
    """The best that any policy can do.

    Args:
        problem: read off a wrapped environment.
        constrained: whether the constraints hold; without them one sees what they cost.
        beta: penalize the constraints by β[R]₊² instead of enforcing them.

    Raises:
        InfeasibleProblem: no policy satisfies the constraints.
        InvalidSetting: a constraint has no convex formulation, such as ``Autograd``.
    """
    constraints = problem.constraints if constrained else {}
    penalties = {} if beta is None else {name: Quadratic(beta) for name in constraints}
    return solve(problem.mdp, problem.objective, constraints, penalties=penalties, scale=problem.scale)


def certificate(problem: ExactProblem, policy: ArrayLike) -> Certificate:
    """Hold a policy table ``(n_states, n_actions)`` against the optimum; raises what ``optimum`` raises."""
    return certify(
        problem.mdp, policy, objective=problem.objective, constraints=problem.constraints, scale=problem.scale
    )


def n_variables(problem: ExactProblem) -> int:
    """Variables of the convex program: reachable state-action pairs, times the horizon if it is finite."""
    pairs = int(problem.mdp.reachable.sum()) * problem.mdp.n_actions
    return pairs * (problem.mdp.horizon or 1)
