"""What the compiled engine is told of a functional: a sum of terms, each a table and a function of λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from constrained_maxent.types import FloatArray

TermKind = Literal["entropy", "linear", "divergence", "distance", "elementwise"]


@dataclass(frozen=True, eq=False, kw_only=True)
class EngineTerm:
    r"""One summand of a functional on a finite space; a functional is :math:`F(\lambda) = \sum_j w_j\,T_j(\lambda)`.

    With masses :math:`m_i` and the table's entries :math:`e_i`, :math:`T` is

    ================= ===========================================================
    ``"entropy"``     :math:`-\sum_i m_i \log(m_i + \sigma)`
    ``"linear"``      :math:`\sum_i m_i e_i`
    ``"divergence"``  :math:`\sum_i m_i (\log(m_i + \sigma) - \log(e_i + \sigma))`
    ``"distance"``    :math:`\big(\sum_i (m_i - e_i)^2\big)^{1/2}`
    ``"elementwise"`` :math:`\sum_i f(m_i, e_i)`, of functions of one's own
    ================= ===========================================================

    Args:
        kind: which of them.
        weight: w.
        table: e, ``(n_states, n_actions)``; zeros if not given.
        smoothing: σ.
        over_states: whether the masses are those of states, d(s), instead of λ(s, a); for ``"entropy"`` and
            ``"elementwise"``, which then takes no table.
        value, slope: of ``"elementwise"``: f and ∂f/∂m, Python functions of two numbers ``(mass, entry)`` that Numba
            can compile.
    """

    kind: TermKind
    weight: float = 1.0
    table: FloatArray | None = None
    smoothing: float = 0.0
    over_states: bool = False
    value: Callable[[float, float], float] | None = None
    slope: Callable[[float, float], float] | None = None
