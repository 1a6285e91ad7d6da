"""What the numbers of a checkpoint mean, as text: how λ weighs steps, and the terms of the problem."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from constrained_maxent.agents.rollouts import Environment, find_tracker

_DECIMALS = 9  # of tables: what differs by less is rounding, on another machine

WEIGHTING = ("discount", "scale")
"""What :func:`describe_weighting` tells of."""


def describe_weighting(env: Environment) -> dict[str, str]:
    """The units of λ̂, of pseudo-rewards and of multipliers; nothing without an occupancy.

    The horizon is left out: a policy may be played for longer than it was trained.
    """
    tracker = find_tracker(env)
    if tracker is None:
        return {}
    return {"discount": _plain(tracker.weighting.discount), "scale": tracker.weighting.scale}


def describe_terms(env: Environment) -> dict[str, str]:
    """Functional, limit and penalty of each term by name. Functions of a user are not told from one another."""
    tracker = find_tracker(env)
    if tracker is None:
        return {}
    problem, costs = tracker.problem, _cost_tables(env)
    terms = {} if problem.objective is None else {"objective": describe_part(problem.objective)}
    for name, constraint in problem.constraints.items():
        cost = getattr(constraint.functional, "cost", None)
        source = tracker.cost_sources.get(cost) if isinstance(cost, str) else None
        table = costs.get(source) if isinstance(source, str) else None
        charged = "" if table is None else f", a cost of {_plain(np.asarray(table))}"
        terms[name] = f"{describe_part(constraint.functional)}{charged}, with {describe_part(constraint.penalty)}"
    return terms


def describe_part(part: Any) -> str:
    """A functional, a penalty, or what they are made of: name of the class and what it was made from."""
    given = [entry for entry in fields(part) if entry.init] if is_dataclass(part) else []
    told = (f"{entry.name}={_plain(getattr(part, entry.name))}" for entry in given)
    return f"{type(part).__name__}({', '.join(told)})"


def _plain(value: Any) -> str:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return repr(float(value))  # 1 is 1.0
    if value is None or isinstance(value, (bool, np.bool_, str)):
        return repr(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return _sequence(value)
    if is_dataclass(value):
        # A reference is large: its digest tells it from another.
        return f"{type(value).__name__} {_digest(describe_part(value).encode())}"
    return type(value).__name__


def _sequence(values: Any) -> str:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return f"[{', '.join(map(_plain, values))}]"
    return f"table {table.shape} {_digest((np.round(table, _DECIMALS) + 0.0).tobytes())}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


def _cost_tables(env: Environment) -> dict[str, Any]:
    """Costs that the bare environment charges by table, where it publishes them."""
    bare = env.unwrapped
    bare = getattr(bare, "envs", [bare])[0]
    tables: dict[str, Any] = getattr(bare.unwrapped, "cost_tables", {})
    return tables
