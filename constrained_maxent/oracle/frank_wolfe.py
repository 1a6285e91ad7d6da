r"""Maximum entropy by Frank–Wolfe with a planning oracle (Hazan et al., 2019), with constraints as penalties.

.. math:: \pi_k = \arg\max_\pi \langle \nabla f(\lambda_k), \lambda^\pi \rangle, \qquad
          \lambda_{k+1} = (1 - \eta_k)\,\lambda_k + \eta_k\,\lambda^{\pi_k}, \qquad
          f(\lambda) = F(\lambda) - \sum_i \mathcal L_i(R_i(\lambda)).

:math:`\nabla f` is the pseudo-reward of Algorithm 1. What comes out is a mixture of policies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.random import Generator

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, Functional, KLDivergence
from constrained_maxent.occupancy import Scale
from constrained_maxent.oracle.mixture_policy import MixturePolicy
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint, Problem
from constrained_maxent.types import FloatArray, check_count, is_number

StepRule = Literal["line-search", "open-loop"]

_LINE_SEARCH_STEPS = 50
_LEAST_IMPROVEMENT = 1e-12  # relative to the size of the values, in policy iteration


@dataclass(frozen=True, eq=False, repr=False)
class FrankWolfeResult:
    """What came out.

    Attributes:
        mixture: the policies and their weights.
        occupancy: of the mixture, exact, ``(n_states, n_actions)``.
        objective, constraints: F and R by name, there, with the functionals' own smoothing.
        gaps: the Frank–Wolfe gap of each iteration [nats], ``(n,)``: with exact densities no policy, and no mixture,
            has an f that is higher than that iterate's by more; with sampled ones an estimate, which can be negative.
        transitions: steps sampled in the MDP; 0 with exact densities.
    """

    mixture: MixturePolicy
    occupancy: FloatArray
    objective: float
    constraints: Mapping[str, float]
    gaps: FloatArray
    transitions: int

    def __repr__(self) -> str:
        return (
            f"FrankWolfeResult(a mixture of {len(self.mixture)} policies, objective {self.objective:.4f}, "
            f"gap {self.gaps[-1]:.2g})"
        )


def frank_wolfe(
    mdp: TabularMDP,
    objective: Functional | None = None,
    constraints: Mapping[str, Constraint] | None = None,
    *,
    scale: Scale = "normalized",
    iterations: int = 500,
    tolerance: float = 0.0,
    steps: StepRule = "line-search",
    episodes: int | None = None,
    seed: int = 0,
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
        tolerance: stop where the gap is at most this [nats]. With sampled densities the gap is an estimate, whose noise
            would end most runs at once: there 0 means never.
        steps: the best step on the line, or :math:`\eta_k = 2/(k+2)`.
        episodes: sampled from each new policy to estimate its λ; ``None`` for exact ones.
        seed: of the sampling.

    Raises:
        InvalidSetting: a number out of range, something else than an MDP or a constraint, another penalty, a smoothing
            of 0, or sampling without a horizon.
        InvalidData: a functional's table has another size than the MDP.

    >>> from constrained_maxent.oracle import TabularMDP
    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> frank_wolfe(mdp, iterations=100)  # the optimum is 1.284
    FrankWolfeResult(a mixture of 3 policies, objective 1.2839, gap 0)
    """
    if not isinstance(mdp, TabularMDP):
        raise InvalidSetting(f"mdp= is a {type(mdp).__name__}, not a TabularMDP: TabularMDP.from_env(env, discount=0.99).")
    problem = _problem_of(mdp, Entropy() if objective is None else objective, constraints or {})
    _check(mdp, iterations=iterations, tolerance=tolerance, steps=steps, episodes=episodes)
    rng, transitions = np.random.default_rng(check_count("seed", seed, least=0)), 0

    def density(policy: FloatArray) -> FloatArray:
        nonlocal transitions
        if episodes is None:
            return mdp.occupancy(policy, scale=scale)
        estimate, taken = _sampled_occupancy(mdp, policy, scale, episodes, rng)
        transitions += taken
        return estimate

    shape = (mdp.n_states, mdp.n_actions)
    uniform: FloatArray = np.full(shape if mdp.horizon is None else (mdp.horizon, *shape), 1.0 / mdp.n_actions)
    policies, weights = [uniform], np.ones(1)
    occupancy = density(uniform)
    gaps: list[float] = []
    for k in range(iterations):
        slope = _slope(problem, occupancy)
        policy = plan(mdp, slope, scale=scale)
        vertex = density(policy)
        gap = float((slope * (vertex - occupancy)).sum())
        gaps.append(gap if episodes is not None else max(gap, 0.0))  # below 0 by rounding only, if exact
        if gap <= tolerance and (episodes is None or tolerance > 0.0):
            break
        step = _best_step(problem, occupancy, vertex) if steps == "line-search" else 2.0 / (k + 2.0)
        weights = np.append((1.0 - step) * weights, step)
        policies.append(policy)
        occupancy = (1.0 - step) * occupancy + step * vertex
    mixture = _merged(policies, weights)
    exact = _mean_occupancy(mdp, mixture, scale)
    evaluation = problem.evaluate(exact)
    assert evaluation.objective is not None
    return FrankWolfeResult(
        mixture, exact, evaluation.objective, evaluation.constraints, np.array(gaps), int(transitions)
    )


def plan(mdp: TabularMDP, reward: FloatArray, *, scale: Scale = "normalized") -> FloatArray:
    """A deterministic policy that maximizes ⟨r, λ⟩.

    Args:
        mdp: dynamics, discount and horizon.
        reward: ``(n_states, n_actions)``.
        scale: of λ.

    Returns:
        One-hot rows: ``(n_states, n_actions)`` at infinite horizon, else ``(horizon, n_states, n_actions)``.
    """
    if mdp.horizon is None:
        return _policy_iteration(mdp, reward)
    policy = np.zeros((mdp.horizon, *reward.shape))
    value = np.zeros(mdp.n_states)
    # Weights stand inside the values, w_t Q_t = w_t r + T w_{t+1} V_{t+1}: none is divided by another.
    for t, weight in reversed(list(enumerate(mdp.weighting(scale).weights(np.arange(mdp.horizon))))):
        action_value = weight * reward + (mdp.transition @ value).reshape(reward.shape)
        policy[t] = _greedy(action_value)
        value = action_value.max(axis=1)
    return policy


def _policy_iteration(mdp: TabularMDP, reward: FloatArray) -> FloatArray:
    policy = _greedy(reward)
    while True:
        value = mdp.state_values(policy, reward)
        action_value = reward + mdp.discount * (mdp.transition @ value).reshape(reward.shape)
        best = action_value.max(axis=1)
        # Only where it gains more than rounding: equal actions would change places for ever.
        gains = best - value > _LEAST_IMPROVEMENT * max(1.0, float(np.abs(value).max()))
        if not gains.any():
            return policy
        policy = np.where(gains[:, None], _greedy(action_value), policy)


def _greedy(action_value: FloatArray) -> FloatArray:
    policy: FloatArray = np.eye(action_value.shape[1])[action_value.argmax(axis=1)]
    return policy


def _slope(problem: Problem, occupancy: FloatArray) -> FloatArray:
    """∇f, the pseudo-reward."""
    pseudo_reward = problem.pseudo_reward(occupancy, problem.evaluate(occupancy))
    parts = pseudo_reward.at_cells(np.arange(occupancy.size), {})
    return sum(parts.values(), np.zeros(occupancy.size)).reshape(occupancy.shape)


def _best_step(problem: Problem, occupancy: FloatArray, vertex: FloatArray) -> float:
    """The highest point of f between the two, by bisection on its slope, which falls: 0 if it does from the start."""
    low, high, towards = 0.0, 1.0, vertex - occupancy
    for _ in range(_LINE_SEARCH_STEPS):
        middle = (low + high) / 2.0
        if float((_slope(problem, occupancy + middle * towards) * towards).sum()) > 0.0:
            low = middle
        else:
            high = middle
    return low


def _sampled_occupancy(
    mdp: TabularMDP, policy: FloatArray, scale: Scale, episodes: int, rng: Generator
) -> tuple[FloatArray, int]:
    """Mean discounted visits of so many episodes, and their steps."""
    assert mdp.horizon is not None
    visits, taken = np.zeros(mdp.n_states * mdp.n_actions), 0
    states = rng.choice(mdp.n_states, size=episodes, p=mdp.initial / mdp.initial.sum())
    for t, weight in enumerate(mdp.weighting(scale).weights(np.arange(mdp.horizon))):
        actions = _drawn(policy[t][states], rng)
        cells = states * mdp.n_actions + actions
        np.add.at(visits, cells, weight / episodes)
        taken += len(cells)
        # What a row lacks of 1 is the probability of ending: such episodes land one past the last state.
        states = _drawn(mdp.transition[cells].toarray(), rng)
        states = states[states < mdp.n_states]
        if not len(states):
            break
    return visits.reshape(mdp.n_states, mdp.n_actions), taken


def _drawn(probabilities: FloatArray, rng: Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    sums = np.cumsum(probabilities, axis=1)
    sums[np.abs(sums - 1.0) < 1e-9] = 1.0  # rounding is no ending
    drawn: np.ndarray[tuple[int], np.dtype[np.int64]] = (sums <= rng.random(len(sums))[:, None]).sum(axis=1)
    return drawn


def _merged(policies: list[FloatArray], weights: FloatArray) -> MixturePolicy:
    """Equal policies as one, those of weight 0 left out."""
    shares: dict[bytes, float] = {}
    tables: dict[bytes, FloatArray] = {}
    for policy, weight in zip(policies, weights, strict=True):
        if weight > 0.0:
            key = policy.tobytes()
            shares[key] = shares.get(key, 0.0) + float(weight)
            tables[key] = policy
    total = sum(shares.values())
    return MixturePolicy(np.array(list(tables.values())), np.array(list(shares.values())) / total)


def _mean_occupancy(mdp: TabularMDP, mixture: MixturePolicy, scale: Scale) -> FloatArray:
    mean: FloatArray = np.zeros((mdp.n_states, mdp.n_actions))
    for weight, policy in zip(mixture.weights, mixture.policies, strict=True):
        mean += weight * mdp.occupancy(policy, scale=scale)
    return mean


def _problem_of(mdp: TabularMDP, objective: Functional, constraints: Mapping[str, Constraint]) -> Problem:
    problem = Problem.of(objective, constraints)
    for name, constraint in problem.constraints.items():
        if not isinstance(constraint.penalty, Quadratic):
            raise InvalidSetting(
                f"The penalty of {name!r} is {type(constraint.penalty).__name__}: Frank–Wolfe needs a fixed and "
                "smooth one, Quadratic(beta)."
            )
    for functional in (objective, *(constraint.functional for constraint in constraints.values())):
        functional.check(mdp.n_states, mdp.n_actions)
        if isinstance(functional, (Entropy, KLDivergence)) and functional.smoothing == 0.0:
            raise InvalidSetting(
                f"smoothing=0 makes the pseudo-reward of {type(functional).__name__} infinite in cells never seen: "
                "give a smoothing above 0."
            )
    return problem


def _check(mdp: TabularMDP, *, iterations: int, tolerance: float, steps: str, episodes: int | None) -> None:
    check_count("iterations", iterations)
    if not (is_number(tolerance) and 0.0 <= tolerance < math.inf):
        raise InvalidSetting(f"tolerance={tolerance!r} must be a finite number of at least 0.")
    if steps not in get_args(StepRule):
        raise InvalidSetting(f"steps={steps!r} must be one of {', '.join(get_args(StepRule))}.")
    if episodes is None:
        return
    check_count("episodes", episodes)
    if mdp.horizon is None:
        raise InvalidSetting(
            "Sampling needs a horizon, or an episode might never end: dataclasses.replace(mdp, horizon=500)."
        )
