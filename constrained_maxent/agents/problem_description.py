"""What the numbers of a checkpoint mean, as text: how λ weighs steps, and the terms of the problem."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from constrained_maxent.agents.rollouts import Environment, find_tracker
from constrained_maxent.functionals import Functional

_DECIMALS = 9  # of tables: what differs by less is rounding, on another machine

WEIGHTING = ("discount", "scale")


def describe_weighting(env: Environment) -> dict[str, str]:
    """The units of λ̂, of pseudo-rewards and of multipliers; nothing without an occupancy.

    The horizon is left out: a policy may be played for longer than it was trained.
    """
    tracker = find_tracker(env)
    if tracker is None:
        return {}
    return {"discount": repr(tracker.weighting.discount), "scale": tracker.weighting.scale}


def describe_terms(env: Environment) -> dict[str, str]:
    """Functional, limit and penalty of each term by name. Functions of a user are not told from one another."""
    tracker = find_tracker(env)
    if tracker is None:
        return {}
    problem, costs = tracker.problem, _cost_tables(env)
    terms = {} if problem.objective is None else {"objective": _functional(problem.objective)}
    for name, constraint in problem.constraints.items():
        source = tracker.cost_sources.get(getattr(constraint.functional, "cost", None))
        table = costs.get(source) if isinstance(source, str) else None
        charged = "" if table is None else f", a cost of {_plain(np.asarray(table))}"
        terms[name] = f"{_functional(constraint.functional)}{charged}, with {constraint.penalty!r}"
    return terms


def _functional(functional: Functional) -> str:
    given = [entry for entry in fields(functional) if entry.init] if is_dataclass(functional) else []
    told = (f"{entry.name}={_plain(getattr(functional, entry.name))}" for entry in given)
    return f"{type(functional).__name__}({', '.join(told)})"


def _plain(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str, np.integer, np.floating)):
        return repr(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        table = np.asarray(value, dtype=np.float64)
        digest = hashlib.sha256((np.round(table, _DECIMALS) + 0.0).tobytes()).hexdigest()
        return f"table {table.shape} {digest[:8]}"
    return type(value).__name__


def _cost_tables(env: Environment) -> dict[str, Any]:
    """Costs that the bare environment charges by table, where it publishes them."""
    bare = env.unwrapped
    bare = getattr(bare, "envs", [bare])[0]
    tables: dict[str, Any] = getattr(bare.unwrapped, "cost_tables", {})
    return tables
