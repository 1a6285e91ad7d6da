r"""How fast functionals of :math:`\lambda` and their gradients can change (paper Assumption ``ass:Lsmoothness``).

All bounds hold over non-negative tables of the given mass: the estimates :math:`\hat\lambda` lie there too, and they
are not occupancy measures themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle.theory.arithmetic import check_counts, check_nonnegative, check_positive, divide, product


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalConstants:
    r"""Bounds on the gradient of a functional *G* of λ, and on its change (paper Assumption ``ass:Lsmoothness``).

    The paper gives one set for the entropy and the constraint together; here each has its own. It has no ``ell_2``, and
    takes :math:`\ell_\lambda` for it (see :func:`penalized_constants`).

    Args:
        ell: :math:`\ell_\lambda \ge \|\nabla G\|_\infty` [unit of G per unit of λ].
        ell_2: :math:`\|\nabla G\|_2`, the Lipschitz constant of G in the Euclidean norm [same].
        L: :math:`L_\lambda \ge \|\nabla G(\lambda)-\nabla G(\lambda')\|_\infty / \|\lambda-\lambda'\|_2`; the usual
            smoothness constant, Euclidean above and below, is such a bound [unit of G per unit of λ²].
        L_inf: :math:`L_{\lambda,\infty} \ge \|\nabla G(\lambda)-\nabla G(\lambda')\|_\infty / \|\lambda-\lambda'\|_1`.
    """

    ell: float
    ell_2: float
    L: float
    L_inf: float

    def __post_init__(self) -> None:
        check_nonnegative(ell=self.ell, ell_2=self.ell_2, L=self.L, L_inf=self.L_inf)

    def rescaled(self, factor: float) -> FunctionalConstants:
        r"""Constants of :math:`\lambda \mapsto G(\mathrm{factor} \cdot \lambda)`.

        With *factor* :math:`1-\gamma`, a functional of the ``normalized`` occupancy becomes one of the ``truncated``
        occupancy, which the paper's proofs use. Values and multipliers stay as they are.

        >>> FunctionalConstants(ell=1.0, ell_2=2.0, L=3.0, L_inf=4.0).rescaled(0.5)
        FunctionalConstants(ell=0.5, ell_2=1.0, L=0.75, L_inf=1.0)
        """
        check_positive(factor=factor)
        return FunctionalConstants(
            ell=product(factor, self.ell),
            ell_2=product(factor, self.ell_2),
            L=product(factor, factor, self.L),
            L_inf=product(factor, factor, self.L_inf),
        )


def entropy_constants(sigma: float, *, n_cells: int, mass: float = 1.0) -> FunctionalConstants:
    r"""Constants of :math:`-\sum \lambda\log(\lambda+\sigma)`, the functional ``Entropy(smoothing=sigma)``.

    Its derivatives in one entry, :math:`-\log(\lambda+\sigma) - \lambda/(\lambda+\sigma)` and
    :math:`-1/(\lambda+\sigma) - \sigma/(\lambda+\sigma)^2`, are monotone, so both are bounded at the ends of
    [0, mass]; at 0 they are :math:`-\log\sigma` and :math:`-2/\sigma`.

    Theorem ``lem:FinalComplexityDirectSoftmax`` of the paper takes :math:`L_\lambda = O(1/\epsilon)` from a lower bound
    of λ instead of smoothing. An estimate :math:`\hat\lambda` is 0 in every cell that was not visited, and needs σ.

    Args:
        sigma: smoothing σ > 0, in units of λ.
        n_cells: number of state-action pairs.
        mass: largest mass of λ: 1 at scale ``normalized``, 1/(1−γ) at ``truncated``.

    >>> entropy_constants(0.5, n_cells=4).L
    4.0
    """
    check_counts(n_cells=n_cells)
    check_positive(sigma=sigma, mass=mass)
    ell = max(abs(math.log(x + sigma) + x / (x + sigma)) for x in (0.0, mass))
    curvature = 2.0 * divide(1.0, sigma)
    return FunctionalConstants(ell=ell, ell_2=math.sqrt(n_cells) * ell, L=curvature, L_inf=curvature)


def linear_constants(cost: ArrayLike) -> FunctionalConstants:
    r"""Constants of :math:`\langle c,\lambda\rangle` for a table *c* of any shape, which is the gradient everywhere.

    >>> linear_constants([[3.0, -4.0]])
    FunctionalConstants(ell=4.0, ell_2=5.0, L=0.0, L_inf=0.0)
    """
    table = _cost_table(cost)
    largest = float(np.abs(table).max())
    # Scaled before squaring, which would overflow from 1e154 on.
    norm = largest * float(np.linalg.norm(table / largest)) if largest > 0.0 else 0.0
    return FunctionalConstants(ell=largest, ell_2=norm, L=0.0, L_inf=0.0)


def linear_max(cost: ArrayLike, *, limit: float = 0.0, mass: float = 1.0) -> float:
    r""":math:`R_{\max} = \max|\langle c,\lambda\rangle - \mathrm{limit}|` over λ ≥ 0 of mass up to *mass* [cost].

    Paper Lemma ``lem:AppendixSmoothnessBoundedGradientsPenaltyLambda``. Smaller masses count because episodes that end
    early have them.

    >>> linear_max([[50.0, -0.001]], limit=2.0)
    48.0
    """
    table = _cost_table(cost)
    check_positive(mass=mass)
    if not math.isfinite(limit):
        raise InvalidSetting(f"limit={limit!r} must be a finite number.")
    extremes = (mass * max(float(table.max()), 0.0), mass * min(float(table.min()), 0.0))
    return max(abs(extreme - limit) for extreme in extremes)


def penalized_constants(
    objective: FunctionalConstants, constraint: FunctionalConstants, *, beta: float, constraint_max: float
) -> FunctionalConstants:
    r"""Constants of :math:`P(\lambda) = -H(\lambda) + \beta[R(\lambda)]_+^2` (Lemma
    ``lem:AppendixSmoothnessBoundedGradientsPenaltyLambda``).

    .. math:: \ell_P = \ell_H + 2\beta R_{\max}\ell_R, \qquad
              L_P = L_H + 2\beta(R_{\max} L_R + \ell_R\,\ell_{R,2}), \qquad
              L_{P,\infty} = L_{H,\infty} + 2\beta(R_{\max} L_{R,\infty} + \ell_R^2).

    Departures from the paper: (1) its :math:`\ell_P` has the diameter :math:`D_\Theta` of the parameters where
    :math:`[R]_+ \le R_{\max}` is needed; (2) its :math:`L_P` bounds :math:`|R(\lambda)-R(\lambda')|` by
    :math:`\ell_R\|\lambda-\lambda'\|_2`, true of the Euclidean norm of the gradient and not of its largest entry;
    (3) its :math:`L_{P,\infty}` has :math:`\beta R_{\max}\ell_\lambda` where the product rule gives
    :math:`2\beta R_{\max}L_{\lambda,\infty}`.

    Args:
        objective: constants of −H (the same as of H).
        constraint: constants of R.
        beta: β ≥ 0 of the penalty :math:`\beta[R]_+^2`.
        constraint_max: bound :math:`R_{\max}` of :math:`|R(\lambda)|`.
    """
    check_nonnegative(beta=beta, constraint_max=constraint_max)
    return FunctionalConstants(
        ell=objective.ell + product(2.0, beta, constraint_max, constraint.ell),
        ell_2=objective.ell_2 + product(2.0, beta, constraint_max, constraint.ell_2),
        L=objective.L
        + product(2.0, beta, constraint_max, constraint.L)
        + product(2.0, beta, constraint.ell, constraint.ell_2),
        L_inf=objective.L_inf
        + product(2.0, beta, constraint_max, constraint.L_inf)
        + product(2.0, beta, constraint.ell, constraint.ell),
    )


def _cost_table(cost: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(cost, dtype=np.float64)
    if not table.size or not np.isfinite(table).all():
        raise InvalidSetting("cost must be a table with at least one entry, and all its entries finite.")
    return table
