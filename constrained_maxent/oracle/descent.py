r"""Exact-gradient penalty methods on the softmax table: PGP (Algorithm 1) and IPPPM (Algorithm 2) without sampling.

Both minimize :math:`P(\theta)` of :class:`~constrained_maxent.oracle.exact_gradient.SoftmaxProblem` and return their
last iterate; nothing is averaged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle.descent_result import DescentResult, History, Status, check_guarantees
from constrained_maxent.oracle.exact_gradient import SoftmaxPoint, SoftmaxProblem
from constrained_maxent.oracle.solution import Solution, fixed_penalties
from constrained_maxent.oracle.step_sizes import BacktrackingStep, DiminishingStep, StepRule, iterates, slope
from constrained_maxent.oracle.theory.arithmetic import check_positive
from constrained_maxent.penalties import Exact
from constrained_maxent.types import FloatArray, as_array


def descend(
    problem: SoftmaxProblem,
    *,
    steps: StepRule | None = None,
    iterations: int = 1000,
    tolerance: float = 0.0,
    radius: float = np.inf,
    start: ArrayLike | None = None,
    reference: Solution | None = None,
    epsilon: float = 1e-3,
) -> DescentResult:
    r"""PGP on exact gradients: :math:`\theta_{k+1} = \mathrm{proj}_\Theta[\theta_k - \eta_k\nabla P(\theta_k)]`.

    The paper's Algorithm 1 with :math:`\hat\lambda = \lambda` and no variance; with an ``Exact`` penalty the
    sub-gradient method.

    Args:
        problem: P, with ``Quadratic`` or ``Exact`` penalties.
        steps: of η; by default a line search, and :math:`3/\sqrt{1+k/300}` if any penalty is ``Exact``, for λ of
            mass 1. Much larger ones saturate the softmax at once, and its gradient vanishes there.
        iterations: at most.
        tolerance: stop where the norm of the gradient is at most this.
        radius: R of :math:`\Theta = [-R, R]^{S \times A}`; ``inf`` for no projection.
        start: first θ, ``(n_states, n_actions)``; zeros, the uniform policy, if not given.
        reference: the constrained optimum, for gaps and guarantees.
        epsilon: ε for which a quadratic β must suffice in ``guarantees``.

    Raises:
        InvalidSetting: another penalty, a line search for an exact one, a reference with other constraints, or a
            number out of range.
        InvalidData: ``start`` has another shape.

    >>> from constrained_maxent.oracle import TabularMDP
    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> result = descend(SoftmaxProblem(mdp), tolerance=1e-6)
    >>> result.status, round(result.last.objective, 3)
    ('stationary', 1.284)
    """
    if steps is None:
        steps = BacktrackingStep() if _is_smooth(problem) else DiminishingStep(3.0, delay=300.0)
    _check(problem, steps, radius, reference, iterations=iterations, tolerance=tolerance)
    run = _Run(problem, reference, epsilon)
    status: Status = "stalled"
    for k, point in enumerate(iterates(run.evaluate, run.evaluate(_start(problem, start, radius)), steps, radius)):
        run.record(point)
        if slope(point, radius) <= tolerance:
            status = "stationary"
        elif k >= iterations:
            status = "exhausted"
        else:
            continue
        break
    return run.result(status)


def proximal_point(
    problem: SoftmaxProblem,
    *,
    rho: float,
    steps: StepRule | None = None,
    iterations: int = 1000,
    inner_iterations: int = 50,
    inner_tolerance: float = 1e-8,
    tolerance: float = 0.0,
    radius: float = np.inf,
    start: ArrayLike | None = None,
    reference: Solution | None = None,
    epsilon: float = 1e-3,
) -> DescentResult:
    r"""IPPPM on exact gradients: the paper's Algorithm 2 (eq. ``IPPPM``).

    .. math:: \theta_{k+1} \approx \arg\min_{\theta\in\Theta} \varphi_k(\theta), \qquad
              \varphi_k(\theta) = P(\theta) + \frac{\hat\rho}{2}\|\theta - \theta_k\|^2.

    If *P* is :math:`\hat\rho/2`-weakly convex, as the paper's choice :math:`\hat\rho = 2\rho_\varphi` makes it, then
    :math:`\varphi_k - \min\varphi_k \le \|g\|^2/\hat\rho` for every sub-gradient *g*: the inner solver stops where
    that is at most ``inner_tolerance``. It starts at :math:`\theta_k` and hands over its lowest iterate, so
    :math:`P(\theta_{k+1}) \le P(\theta_k)`.

    Args:
        rho: :math:`\hat\rho > 0` [nats].
        steps: of the inner solver; by default a line search, and :math:`4/(\hat\rho(t+2))` (the sub-gradient method
            for strongly convex functions) if any penalty is ``Exact``.
        iterations: outer ones, at most.
        inner_iterations: :math:`T_{in}`, for each outer one at most.
        inner_tolerance: :math:`\epsilon_{in}` [nats].
        tolerance: stop where :math:`\hat\rho\|\theta_{k+1}-\theta_k\|`, the norm of the gradient of the Moreau
            envelope, is at most this and the inner problem is solved.
        problem, radius, start, reference, epsilon: as in :func:`descend`, whose errors it has too.
    """
    check_positive(rho=rho)
    if steps is None:
        steps = BacktrackingStep() if _is_smooth(problem) else DiminishingStep(2.0 / rho, delay=2.0, power=1.0)
    _check(problem, steps, radius, reference, iterations=iterations, tolerance=tolerance)
    _check_numbers(inner_iterations=inner_iterations, inner_tolerance=inner_tolerance)
    run = _Run(problem, reference, epsilon)
    center = run.evaluate(_start(problem, start, radius))
    run.record(center)
    status: Status = "exhausted"
    for _ in range(iterations):
        lifted = partial(_lift, run.evaluate, center=center.theta, rho=rho)
        inner, is_solved = _lowest(lifted, center, steps, radius, inner_iterations, np.sqrt(rho * inner_tolerance))
        moved = rho * float(np.linalg.norm(inner.theta - center.theta))
        center = inner.point
        run.record(center)
        if is_solved and moved <= tolerance:
            status = "stationary"
            break
    return run.result(status)


@dataclass(frozen=True, eq=False)
class _Lifted:
    """φ_k at one point."""

    point: SoftmaxPoint
    value: float
    gradient: FloatArray

    @property
    def theta(self) -> FloatArray:
        return self.point.theta


def _lift(
    evaluate: Callable[[FloatArray], SoftmaxPoint], theta: FloatArray, *, center: FloatArray, rho: float
) -> _Lifted:
    point, moved = evaluate(theta), theta - center
    return _Lifted(point, point.value + rho / 2.0 * float(np.sum(moved**2)), point.gradient + rho * moved)


def _lowest(
    function: Callable[[FloatArray], _Lifted],
    center: SoftmaxPoint,
    steps: StepRule,
    radius: float,
    iterations: int,
    tolerance: float,
) -> tuple[_Lifted, bool]:
    """The lowest iterate of φ_k, and whether an iterate met the tolerance; the search starts, and may stay, at θ_k."""
    lowest = start = _Lifted(center, center.value, center.gradient)
    for iterate in islice(iterates(function, start, steps, radius), iterations + 1):
        if iterate.value <= lowest.value:
            lowest = iterate
        if slope(iterate, radius) <= tolerance:
            return lowest, True
    return lowest, False


class _Run:
    """Evaluations counted and timed, the figures of every iterate, and the whole of the last."""

    def __init__(self, problem: SoftmaxProblem, reference: Solution | None, epsilon: float) -> None:
        self._problem, self._reference, self._epsilon = problem, reference, epsilon
        self._penalties = fixed_penalties(problem.penalties)
        self._begun, self._evaluations = time.perf_counter(), 0
        self._rows: list[tuple[float, ...]] = []

    def evaluate(self, theta: FloatArray) -> SoftmaxPoint:
        self._evaluations += 1
        return self._problem.evaluate(theta)

    def record(self, point: SoftmaxPoint) -> None:
        seconds = time.perf_counter() - self._begun
        residuals = [point.constraints[name] for name in self._penalties]
        self._rows.append((self._evaluations, seconds, point.objective, point.penalty, *residuals))
        self._last = point

    def result(self, status: Status) -> DescentResult:
        evaluations, seconds, objective, penalty, *residuals = np.array(self._rows).T
        reference = self._reference
        guarantees = None
        if reference is not None:
            guarantees = check_guarantees(self._last, self._penalties, reference, epsilon=self._epsilon)
        history = History(
            objective=objective,
            penalty=penalty,
            constraints=dict(zip(self._penalties, residuals, strict=True)),
            evaluations=evaluations.astype(np.int64),
            seconds=seconds,
            optimum=None if reference is None else reference.value,
        )
        return DescentResult(status, self._last, history, guarantees)


def _is_smooth(problem: SoftmaxProblem) -> bool:
    return not any(isinstance(penalty, Exact) for penalty in problem.penalties.values())


def _start(problem: SoftmaxProblem, start: ArrayLike | None, radius: float) -> FloatArray:
    theta = np.zeros(problem.shape) if start is None else as_array("start", start, np.float64)
    return np.clip(theta, -radius, radius)


def _check(
    problem: SoftmaxProblem, steps: StepRule, radius: float, reference: Solution | None, **numbers: float
) -> None:
    if isinstance(steps, BacktrackingStep) and not _is_smooth(problem):
        raise InvalidSetting("A line search gets stuck at the kink of an exact penalty: take DiminishingStep.")
    if not radius > 0.0:
        raise InvalidSetting(f"radius={radius!r} must be above 0.")
    _check_numbers(**numbers)
    if reference is None:
        return
    if reference.constraints.keys() != problem.penalties.keys():
        raise InvalidSetting(
            f"The reference was solved with the constraints {', '.join(reference.constraints) or 'none'}, "
            f"not with {', '.join(problem.penalties) or 'none'}."
        )
    if reference.problem.penalties:
        raise InvalidSetting("The reference is the optimum of a penalized problem: solve without penalties=.")
    if reference.problem.equalities:
        raise InvalidSetting("The reference has equality constraints, which no penalty here is for.")
    if reference.problem.scale != problem.scale:
        raise InvalidSetting(f"The reference is at scale {reference.problem.scale}, the problem at {problem.scale}.")


def _check_numbers(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0.0 <= number < np.inf:
            raise InvalidSetting(f"{name}={number!r} must be a finite number of at least 0.")
