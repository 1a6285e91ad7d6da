r"""Mixtures of policies, one of which is drawn for each episode, and how Frank–Wolfe finds the best one.

Maximum entropy by a planning oracle (Hazan et al., 2019), with constraints as penalties:

.. math:: \pi_k = \arg\max_\pi \langle \nabla f(\lambda_k), \lambda^\pi \rangle, \qquad
          \lambda_{k+1} = (1 - \eta_k)\,\lambda_k + \eta_k\,\lambda^{\pi_k}, \qquad
          f(\lambda) = F(\lambda) - \sum_i \mathcal L_i(R_i(\lambda)).

:math:`\nabla f` is the pseudo-reward of Algorithm 1. What comes out is a mixture of policies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.planning import plan
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint, Problem
from constrained_maxent.types import FloatArray, as_array, check_count, is_number, require_finite

_TOLERANCE = 1e-6
_LINE_SEARCH_STEPS = 50


@dataclass(frozen=True, eq=False)
class MixturePolicy:
    r"""Policies and how often each is drawn; **not a single policy**.

    Its occupancy is the mean of theirs, :math:`\lambda = \sum_i w_i \lambda^{\pi_i}`. No table π(a|s) acts like it
    within a finite horizon: the draw at the episode's start is remembered until its end.

    Args:
        policies: tables π(a|s), ``(n_states, n_actions)``, or one per time step, ``(horizon, n_states, n_actions)``.
        weights: probability of each, ``(n_policies,)``; they sum to 1.

    Raises:
        InvalidData: no policies, different shapes, or rows or weights that are not distributions.
        NonFiniteValue: an entry is NaN or infinite.

    >>> left, right = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> mixture = MixturePolicy([left, right], [0.5, 0.5])
    >>> mixture.draw(np.random.default_rng(0)).tolist()  # what acts until the episode ends
    [[0.0, 1.0]]
    """

    policies: tuple[FloatArray, ...]
    weights: FloatArray

    def __init__(self, policies: ArrayLike, weights: ArrayLike) -> None:
        tables = as_array("policies", policies, np.float64)
        shares = as_array("weights", weights, np.float64)
        if tables.ndim not in (3, 4) or not tables.size:
            raise InvalidData(
                f"policies have shape {tables.shape}: give at least one table (n_states, n_actions), or "
                "(horizon, n_states, n_actions), all of one shape."
            )
        if shares.shape != (len(tables),):
            raise InvalidData(f"weights have shape {shares.shape}, but there are {len(tables)} policies.")
        for name, table in (("policies", tables), ("weights", shares)):
            require_finite(name, table)
            if (table < 0.0).any() or np.abs(table.sum(axis=-1) - 1.0).max() > _TOLERANCE:
                raise InvalidData(f"{name} must be at least 0 and sum to 1 over their last axis.")
        object.__setattr__(self, "policies", tuple(tables))
        object.__setattr__(self, "weights", shares)

    def __len__(self) -> int:
        return len(self.policies)

    def draw(self, rng: Generator) -> FloatArray:
        """Draw the policy of one episode, a table as it was given."""
        return self.policies[int(rng.choice(len(self.policies), p=self.weights / self.weights.sum()))]


def members(policy: ArrayLike | MixturePolicy) -> Iterator[tuple[float, FloatArray]]:
    r"""Weight and table of each policy that may act; a single policy has weight 1.

    As whole episodes belong to one of them, :math:`\lambda = \sum_i w_i \lambda^{\pi_i}`.

    Raises:
        InvalidData: the policy is no array of numbers.
    """
    if not isinstance(policy, MixturePolicy):
        yield 1.0, as_array("policy", policy, np.float64)
        return
    for weight, table in zip(policy.weights / policy.weights.sum(), policy.policies, strict=True):
        yield float(weight), table


@dataclass(frozen=True, eq=False)
class FrankWolfeResult:
    """A mixture of policies, and what it reaches.

    Attributes:
        mixture: the policies and their weights.
        occupancy: of the mixture, exact, ``(n_states, n_actions)``.
        objective, constraints: F and R by name, there, with the functionals' own smoothing.
        gaps: the Frank–Wolfe gap of each iteration [nats], ``(n,)``: no policy, and no mixture, has an f that is higher
            than that iterate's by more.
    """

    mixture: MixturePolicy
    occupancy: FloatArray
    objective: float
    constraints: Mapping[str, float]
    gaps: FloatArray


def frank_wolfe(
    mdp: TabularMDP,
    objective: Functional | None = None,
    constraints: Mapping[str, Constraint] | None = None,
    *,
    scale: Scale = "normalized",
    iterations: int = 500,
    tolerance: float = 0.0,
) -> FrankWolfeResult:
    r"""Frank–Wolfe from the uniform policy, on a finite MDP that is known.

    The planner is exact: policy iteration at infinite horizon, backward induction at a finite one, where its policies
    depend on time. So a mixture can have more entropy than any stationary policy within a finite horizon.

    Args:
        mdp: dynamics, discount and horizon.
        objective: F, concave, to be maximized; ``Entropy()`` if not given.
        constraints: R ≤ 0 by name, each with a ``Quadratic`` penalty, whose β leaves a violation.
        scale: of λ; limits and β are in its units.
        iterations: at most, at least 1.
        tolerance: stop where the gap is at most this [nats].

    Raises:
        InvalidSetting: a number out of range, something else than an MDP or a constraint, another penalty, or a
            smoothing of 0.
        InvalidData: a functional's table has another size than the MDP.
        MissingCost: a cost or reward that is observed step by step has no table here.

    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> result = frank_wolfe(mdp, iterations=100)  # the optimum is 1.284
    >>> len(result.mixture), round(result.objective, 4)
    (3, 1.2839)
    """
    if not isinstance(mdp, TabularMDP):
        raise InvalidSetting(
            f"mdp is a {type(mdp).__name__}, not a TabularMDP. From an environment that publishes its dynamics: "
            "TabularMDP.from_env(env, discount=0.99, horizon=100)."
        )
    check_count("iterations", iterations)
    if not (is_number(tolerance) and 0.0 <= tolerance < math.inf):
        raise InvalidSetting(f"tolerance={tolerance!r} must be a finite number of at least 0.")
    problem = _problem_of(mdp, Entropy() if objective is None else objective, constraints or {})

    shape = mdp.shape if mdp.horizon is None else (mdp.horizon, *mdp.shape)
    uniform: FloatArray = np.full(shape, 1.0 / mdp.n_actions)
    policies, weights = [uniform], np.ones(1)
    occupancy = mdp.occupancy(uniform, scale=scale)
    gaps: list[float] = []
    for _ in range(iterations):
        slope = _slope(problem, occupancy)
        policy = plan(mdp, slope, scale=scale)
        vertex = mdp.occupancy(policy, scale=scale)
        gaps.append(max(float((slope * (vertex - occupancy)).sum()), 0.0))  # below 0 by rounding only
        if gaps[-1] <= tolerance:
            break
        step = _best_step(problem, occupancy, vertex)
        weights = np.append((1.0 - step) * weights, step)
        policies.append(policy)
        occupancy = (1.0 - step) * occupancy + step * vertex
    mixture = _merged(policies, weights)
    exact: FloatArray = np.zeros(mdp.shape)
    for weight, policy in zip(mixture.weights, mixture.policies, strict=True):
        exact += weight * mdp.occupancy(policy, scale=scale)
    evaluation = problem.evaluate(exact)
    assert evaluation.objective is not None
    return FrankWolfeResult(mixture, exact, evaluation.objective, evaluation.constraints, np.array(gaps))


def _slope(problem: Problem, occupancy: FloatArray) -> FloatArray:
    """∇f, the pseudo-reward."""
    rewards = problem.reward_function(occupancy, problem.evaluate(occupancy))
    parts = rewards.at_cells(np.arange(occupancy.size), {})
    return sum(parts.values(), np.zeros(occupancy.size)).reshape(occupancy.shape)


def _best_step(problem: Problem, occupancy: FloatArray, vertex: FloatArray) -> float:
    """The highest point of f between the two, by bisection on its slope, which falls."""
    low, high, towards = 0.0, 1.0, vertex - occupancy
    for _ in range(_LINE_SEARCH_STEPS):
        middle = (low + high) / 2.0
        if float((_slope(problem, occupancy + middle * towards) * towards).sum()) > 0.0:
            low = middle
        else:
            high = middle
    return low


def _merged(policies: list[FloatArray], weights: FloatArray) -> MixturePolicy:
    """Equal policies as one, those of weight 0 left out."""
    tables = {policy.tobytes(): policy for policy, weight in zip(policies, weights, strict=True) if weight > 0.0}
    shares = dict.fromkeys(tables, 0.0)
    for policy, weight in zip(policies, weights, strict=True):
        if weight > 0.0:
            shares[policy.tobytes()] += float(weight)
    return MixturePolicy(np.array(list(tables.values())), np.array(list(shares.values())) / sum(shares.values()))


def _problem_of(mdp: TabularMDP, objective: Functional, constraints: Mapping[str, Constraint]) -> Problem:
    given, problem = Problem.of(objective, constraints), Problem(_trainable(mdp, objective))
    for name, constraint in given.constraints.items():
        if not isinstance(constraint.penalty, Quadratic):
            raise InvalidSetting(
                f"The penalty of {name!r} is {type(constraint.penalty).__name__}: Frank–Wolfe needs a fixed and "
                "smooth one, Quadratic(beta)."
            )
        problem.add_constraint(name, Constraint(_trainable(mdp, constraint.functional), constraint.penalty))
    return problem


def _trainable(mdp: TabularMDP, functional: Functional) -> Functional:
    functional.check(*mdp.shape)
    functional.require_trainable()
    return mdp.with_tables(functional)
