"""The functionals of tables in compiled form: what they are at λ̂, and their derivatives in its cells.

Formulas and conventions are those of :mod:`constrained_maxent.functionals`; tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from constrained_maxent.engine.compiled import inner
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost
from constrained_maxent.functionals.base import cell_smoothing
from constrained_maxent.types import FloatArray, IntArray

NONE, ENTROPY, STATE_ENTROPY, LINEAR, KL, L2 = range(6)


class Terms(NamedTuple):
    """Objective and constraints of a run; the objective is number 0.

    Attributes:
        kinds: ``(n_terms,)``; ``NONE`` for an objective that is not there.
        tables: a cost, a reference, or the logarithm of a smoothed reference, ``(n_terms, n_cells)``.
        smoothing: σ, ``(n_terms,)``.
        limits: ``(n_terms,)``.
    """

    kinds: IntArray
    tables: FloatArray
    smoothing: FloatArray
    limits: FloatArray


def terms_of(functionals: Sequence[Functional | None], n_states: int, n_actions: int) -> Terms:
    """The compiled form of functionals, the objective first.

    Raises:
        InvalidSetting: a kind that the engine does not know, a cost without table, or a smoothing of 0.
        InvalidData: a table of another size than the MDP.
    """
    count = len(functionals)
    terms = Terms(
        kinds=np.zeros(count, dtype=np.int64),
        tables=np.zeros((count, n_states * n_actions)),
        smoothing=np.zeros(count),
        limits=np.zeros(count),
    )
    for i, functional in enumerate(functionals):
        if functional is None:
            continue
        functional.check(n_states, n_actions)
        terms.limits[i] = functional.limit
        kind, table, smoothing = _describe(functional)
        terms.kinds[i], terms.smoothing[i] = kind, smoothing
        if table is not None:
            terms.tables[i] = table.reshape(-1)
    return terms


def _describe(functional: Functional) -> tuple[int, FloatArray | None, float]:
    if isinstance(functional, (Entropy, KLDivergence)) and functional.smoothing == 0.0:
        raise InvalidSetting(
            f"smoothing=0 makes the pseudo-reward of {type(functional).__name__} infinite in cells never seen: "
            "give a smoothing above 0."
        )
    match functional:
        case Entropy():
            kind = ENTROPY if functional.over == "state-action" else STATE_ENTROPY
            return kind, None, cell_smoothing(functional.smoothing)
        case LinearCost():
            if functional.table is None:
                raise InvalidSetting(
                    f"The engine needs the table of the cost {functional.cost!r}: LinearCost(mdp.tabulate(cost))."
                )
            return LINEAR, functional.table, 0.0
        case KLDivergence():
            sigma = cell_smoothing(functional.smoothing)
            return KL, np.log(functional.table + sigma), sigma
        case L2Distance():
            return L2, functional.table, 0.0
    raise InvalidSetting(
        f"The engine has no compiled form of {type(functional).__name__}: it knows Entropy, LinearCost, KLDivergence "
        "and L2Distance. agents.PGP takes any functional."
    )


@inner
def value(terms: Terms, i: int, occupancy: FloatArray, state_occupancy: FloatArray) -> float:
    """F(λ̂) of term i; ``occupancy`` is flat, ``(n_cells,)``, ``state_occupancy`` its marginal, ``(n_states,)``."""
    kind, sigma, table = terms.kinds[i], terms.smoothing[i], terms.tables[i]
    total = 0.0
    if kind == ENTROPY:
        for mass in occupancy:
            if mass > 0.0:
                total -= mass * math.log(mass + sigma)
    elif kind == STATE_ENTROPY:
        for mass in state_occupancy:
            if mass > 0.0:
                total -= mass * math.log(mass + sigma)
    elif kind == LINEAR:
        for cell in range(len(occupancy)):
            total += occupancy[cell] * table[cell]
    elif kind == KL:
        for cell in range(len(occupancy)):
            if occupancy[cell] > 0.0:
                total += occupancy[cell] * (math.log(occupancy[cell] + sigma) - table[cell])
    elif kind == L2:
        for cell in range(len(occupancy)):
            total += (occupancy[cell] - table[cell]) ** 2
        total = math.sqrt(total)
    return total


@inner
def derivative(kind: int, mass: float, sigma: float, entry: float, value_i: float) -> float:
    """∂F/∂λ in one cell.

    Args:
        kind: of the functional.
        mass: λ̂ of the cell, or of its state for ``STATE_ENTROPY``.
        sigma: σ.
        entry: of the term's table in the cell.
        value_i: F(λ̂), which only the distance asks for.
    """
    if kind == LINEAR:
        return entry
    if kind == L2:
        return (mass - entry) / value_i if value_i > 0.0 else 0.0
    slope = math.log(mass + sigma) + mass / (mass + sigma)
    return slope - entry if kind == KL else -slope


@inner
def marginal(occupancy: FloatArray, n_actions: int, out: FloatArray) -> None:
    """The state marginal of a flat table, ``(n_states,)``."""
    for state in range(len(out)):
        total = 0.0
        for action in range(n_actions):
            total += occupancy[state * n_actions + action]
        out[state] = total
