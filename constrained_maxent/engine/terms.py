"""Functionals in compiled form, as sums of terms: what they are at λ̂, and the pseudo-reward of its cells.

Formulas are those of :class:`~constrained_maxent.functionals.terms.EngineTerm`; tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from constrained_maxent.engine.compiled import UserFunction, call_through, compile_user_function, inner
from constrained_maxent.engine.sampling import Flags
from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.functionals import Functional
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, IntArray, is_number, require_finite

_KINDS = ("entropy", "linear", "divergence", "distance", "elementwise")
ENTROPY, LINEAR, DIVERGENCE, DISTANCE, ELEMENTWISE = range(5)


class Terms(NamedTuple):
    """Objective and constraints of a run: the functionals, of which the objective is number 0, and their terms.

    Attributes:
        has_objective: 0 or 1.
        limits: of the functionals, ``(n_functionals,)``.
        owners: the functional that each term belongs to, ``(n_terms,)``, as the next three.
        kinds, weights, smoothing: which formula, w, and σ.
        tables: e, or the logarithm of a smoothed reference, ``(n_terms, n_cells)``.
        over_states: whether masses are those of states, ``(n_terms,)``.
        addresses: of f and ∂f/∂m, where they are the user's, ``(n_terms, 2)``.
    """

    has_objective: int
    limits: FloatArray
    owners: IntArray
    kinds: IntArray
    weights: FloatArray
    tables: FloatArray
    smoothing: FloatArray
    over_states: IntArray
    addresses: IntArray


def terms_of(
    functionals: Sequence[Functional | None], n_states: int, n_actions: int
) -> tuple[Terms, tuple[UserFunction, ...]]:
    """The compiled form of functionals, the objective first; and the functions of users' that it points to.

    Raises:
        UnsupportedFunctional: a functional that does not say how it is a sum of terms.
        InvalidSetting: a term that makes no sense, or a smoothing of 0.
        InvalidData: a table of another size than the MDP.
    """
    of_each = [_checked_terms(functional, n_states, n_actions) for functional in functionals]
    all_terms, functions = list(chain.from_iterable(of_each)), list[UserFunction]()
    terms = Terms(
        has_objective=int(functionals[0] is not None),
        limits=np.array([0.0 if functional is None else functional.limit for functional in functionals]),
        owners=np.repeat(np.arange(len(of_each)), [len(terms) for terms in of_each]),
        kinds=np.array([_KINDS.index(term.kind) for term in all_terms], dtype=np.int64),
        weights=np.array([term.weight for term in all_terms], dtype=np.float64),
        tables=np.zeros((len(all_terms), n_states * n_actions)),
        smoothing=np.array([term.smoothing for term in all_terms], dtype=np.float64),
        over_states=np.array([term.over_states for term in all_terms], dtype=np.int64),
        addresses=np.zeros((len(all_terms), 2), dtype=np.int64),
    )
    for j, term in enumerate(all_terms):
        if term.table is not None:
            terms.tables[j] = term.table.reshape(-1)
        if term.kind == "divergence":
            terms.tables[j] = np.log(terms.tables[j] + term.smoothing)
        if term.value is not None and term.slope is not None:
            pair = compile_user_function("value", term.value), compile_user_function("slope", term.slope)
            terms.addresses[j] = [function.code.address for function in pair]
            functions += pair
    return terms, tuple(functions)


def _checked_terms(functional: Functional | None, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
    terms = () if functional is None else tuple(functional.engine_terms(n_states, n_actions))
    name = type(functional).__name__
    for term in terms:
        if term.kind not in _KINDS:
            raise InvalidSetting(f"kind={term.kind!r} of a term of {name} must be one of {', '.join(_KINDS)}.")
        if not (is_number(term.weight) and math.isfinite(term.weight)):
            raise InvalidSetting(f"weight={term.weight!r} of a term of {name} must be a finite number.")
        if term.kind in ("entropy", "divergence") and not term.smoothing > 0.0:
            raise InvalidSetting(
                f"smoothing={term.smoothing!r} of {name} must be above 0: in cells never seen, the pseudo-reward would "
                "be infinite."
            )
        if [term.value is not None, term.slope is not None] != [term.kind == "elementwise"] * 2:
            raise InvalidSetting(f"value= and slope= of a term of {name}: kind='elementwise' needs both, others none.")
        if term.over_states and (term.kind not in ("entropy", "elementwise") or term.table is not None):
            raise InvalidSetting(f"over_states=True in {name} takes 'entropy' or 'elementwise', and no table.")
        if term.table is not None:
            if term.table.shape != (n_states, n_actions):
                raise InvalidData(
                    f"The table of {name} has shape {term.table.shape}, but the MDP has {n_states} states and "
                    f"{n_actions} actions: give a table of shape {(n_states, n_actions)}."
                )
            require_finite(f"The table of {name}", term.table)
    return terms


@inner
def measure(
    terms: Terms,
    occupancy: FloatArray,
    state_occupancy: FloatArray,
    with_objective: bool,
    parts: FloatArray,
    values: FloatArray,
) -> None:
    """Evaluate T(λ̂) of every term into ``parts``, F(λ̂) of the objective and R(λ̂) of the constraints into ``values``.

    ``state_occupancy`` receives the state marginal where a term asks for it. Of an objective without
    ``with_objective``, only those terms are evaluated whose value the derivative needs; where there is none, its value
    stays.
    """
    for j in range(len(parts)):
        if terms.over_states[j]:
            marginal(occupancy, len(occupancy) // len(state_occupancy), state_occupancy)
            break
    for i in range(1 - terms.has_objective, len(values)):
        values[i] = 0.0
    for j in range(len(parts)):
        owner = terms.owners[j]
        if owner > 0 or with_objective or terms.kinds[j] == DISTANCE:
            if terms.over_states[j]:
                parts[j] = value(terms, j, state_occupancy)
            else:
                parts[j] = value(terms, j, occupancy)
            values[owner] += terms.weights[j] * parts[j]
    for i in range(1, len(values)):
        values[i] -= terms.limits[i]


@inner
def value(terms: Terms, j: int, masses: FloatArray) -> float:
    """T(λ̂) of term j; ``masses`` are those of cells, ``(n_cells,)``, or of states, ``(n_states,)``."""
    kind, sigma, table = terms.kinds[j], terms.smoothing[j], terms.tables[j]
    total = 0.0
    if kind == ENTROPY:
        for mass in masses:
            if mass > 0.0:
                total -= mass * math.log(mass + sigma)
    elif kind == LINEAR:
        for cell in range(len(masses)):
            total += masses[cell] * table[cell]
    elif kind == DIVERGENCE:
        for cell in range(len(masses)):
            if masses[cell] > 0.0:
                total += masses[cell] * (math.log(masses[cell] + sigma) - table[cell])
    elif kind == DISTANCE:
        for cell in range(len(masses)):
            total += (masses[cell] - table[cell]) ** 2
        total = math.sqrt(total)
    else:
        address = terms.addresses[j, 0]
        for cell in range(len(masses)):
            total += call_through(address, masses[cell], table[cell])
    return total


@inner
def derivative(kind: int, mass: float, sigma: float, entry: float, part: float) -> float:
    """∂T/∂λ in one cell, of all kinds but functions of the user's; ``part`` is T(λ̂), which the distance asks for."""
    if kind == LINEAR:
        return entry
    if kind == DISTANCE:
        return (mass - entry) / part if part > 0.0 else 0.0
    slope = math.log(mass + sigma) + mass / (mass + sigma)
    return slope - entry if kind == DIVERGENCE else -slope


@inner
def pseudo_rewards(
    terms: Terms,
    slopes: FloatArray,
    parts: FloatArray,
    occupancy: FloatArray,
    state_occupancy: FloatArray,
    used: Flags,
    n_actions: int,
    rewards: FloatArray,
) -> None:
    """The pseudo-reward ∂F/∂λ - Σ ℒ'(R) ∂R/∂λ of the used cells into ``rewards``, from the slopes and parts."""
    kinds, tables, smoothing, over_states = terms.kinds, terms.tables, terms.smoothing, terms.over_states
    rewards[:] = 0.0
    for j in range(len(kinds)):
        owner = terms.owners[j]
        weight = terms.weights[j] if owner == 0 else -slopes[owner] * terms.weights[j]
        if weight == 0.0:
            continue
        # Once for all cells: the compiler does not know that the rewards are other numbers.
        kind, sigma, part, of_states = kinds[j], smoothing[j], parts[j], over_states[j] != 0
        if kind == ELEMENTWISE:
            address = terms.addresses[j, 1]
            for cell in range(len(rewards)):
                if used[cell]:
                    mass = state_occupancy[cell // n_actions] if of_states else occupancy[cell]
                    rewards[cell] += weight * call_through(address, mass, tables[j, cell])
            continue
        for cell in range(len(rewards)):
            if used[cell]:
                mass = state_occupancy[cell // n_actions] if of_states else occupancy[cell]
                rewards[cell] += weight * derivative(kind, mass, sigma, tables[j, cell], part)


@inner
def spread(
    terms: Terms,
    owner: int,
    parts: FloatArray,
    occupancy: FloatArray,
    state_occupancy: FloatArray,
    weights: FloatArray,
    slopes: FloatArray,
) -> float:
    """Standard deviation of ∂R/∂λ under ``weights``, times their sum: what ``Penalty.with_spread`` takes.

    ``slopes``, ``(n_cells,)``, is scratch.
    """
    n_actions = len(occupancy) // len(state_occupancy)
    total, mean, largest, squares = 0.0, 0.0, 0.0, 0.0
    for cell in range(len(weights)):
        if weights[cell] > 0.0:
            slopes[cell] = 0.0
            for j in range(len(terms.kinds)):
                if terms.owners[j] == owner:
                    mass = state_occupancy[cell // n_actions] if terms.over_states[j] != 0 else occupancy[cell]
                    if terms.kinds[j] == ELEMENTWISE:
                        part = call_through(terms.addresses[j, 1], mass, terms.tables[j, cell])
                    else:
                        part = derivative(terms.kinds[j], mass, terms.smoothing[j], terms.tables[j, cell], parts[j])
                    slopes[cell] += terms.weights[j] * part
            total += weights[cell]
            mean += weights[cell] * slopes[cell]
            largest = max(largest, abs(slopes[cell]))
    if total == 0.0:
        return 0.0
    mean /= total
    for cell in range(len(weights)):
        if weights[cell] > 0.0:
            squares += weights[cell] * (slopes[cell] - mean) ** 2
    deviation = math.sqrt(squares / total)
    # Equal numbers differ by rounding.
    return deviation * total if deviation > 1e-12 * largest else 0.0


@inner
def marginal(occupancy: FloatArray, n_actions: int, out: FloatArray) -> None:
    """The state marginal of a flat table into ``out``."""
    for state in range(len(out)):
        total = 0.0
        for action in range(n_actions):
            total += occupancy[state * n_actions + action]
        out[state] = total
