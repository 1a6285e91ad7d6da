"""What was asked of a run: its problem in symbols and in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from constrained_maxent.agents import PGP
from constrained_maxent.evaluation.statistics import as_given
from constrained_maxent.occupancy import Scale
from constrained_maxent.reporting.page import Block, Facts, Formulas, Words
from constrained_maxent.runs.pictures import unit_of
from constrained_maxent.spaces import Environment
from constrained_maxent.tracker import Pairing, Tracker, find_tracker

_SCALES: dict[Scale, str] = {
    "normalized": "mass 1 where episodes last the whole horizon",
    "truncated": "expected discounted steps of an episode",
}
_PAIRINGS: dict[Pairing, str] = {
    "same": "each batch is rewarded by the estimate fitted to it",
    "split": "the second half of a batch is rewarded by the estimate fitted to its first half",
    "previous": "each batch is rewarded by the estimate of the batch before",
}


def problem_blocks(env: Environment, agent: PGP | None) -> list[Block]:
    """The problem of a stack; prices are those of the agent's checkpoint, if there is one, else the first ones."""
    tracker = find_tracker(env)
    problem, scale = tracker.problem, tracker.weighting.scale
    lines: list[tuple[str, str, str]] = []
    goal = "0" if problem.objective is None else problem.objective.formula
    if problem.objective is not None:
        lines.append(("maximize", goal, problem.objective.label))
    for name, constraint in problem.constraints.items():
        functional = constraint.functional
        unit = unit_of(functional, scale)
        meaning = name if unit is None else f"{name} [{unit}]"
        line = f"{functional.formula} ≤ {as_given(functional.limit)}"
        lines.append(("subject to" if lines and lines[-1][0] == "maximize" else "and", line, meaning))
    if problem.constraints:
        total = "ℒ(R)" if len(problem.constraints) == 1 else "Σ ℒ(R)"
        lines.append(("by climbing", f"{goal} − {total}", "R: value − limit of the constraint, kept where R ≤ 0"))
    blocks: list[Block] = [Formulas(lines)]
    if not problem.constraints:
        blocks.append(Words("There is no constraint."))
    facts = {"λ": _occupancy(tracker)}
    for name, constraint in problem.constraints.items():
        when = "as it ended" if agent is not None else "as it began"
        many = f"ℒ of {name}" if len(problem.constraints) > 1 else "penalty ℒ"
        facts[many] = f"ℒ(R) = {_plain(constraint.penalty.formula)}, {_short(repr(constraint.penalty))} {when}"
    facts["estimate λ̂"] = f"{_short(repr(tracker.estimator))}; {_PAIRINGS[tracker.pairing]}"
    facts["a batch"] = _batch(tracker)
    return [*blocks, Facts(facts)]


def _occupancy(tracker: Tracker) -> str:
    shape, weighting = tracker.estimator.table_shape(), tracker.weighting
    of = "observations" if tracker.is_over_observations else "states made of observations"
    what = (
        f"a density of actions and of {of}" if shape is None else f"a table of {shape[0]} states × {shape[1]} actions"
    )
    end = "without a time limit" if weighting.horizon is None else f"horizon {weighting.horizon} steps"
    words = f"occupancy measure, {what}; γ = {as_given(weighting.discount)}, {end}, scale {weighting.scale}"
    return f"{words} ({_SCALES[weighting.scale]})"


def _batch(tracker: Tracker) -> str:
    if tracker.steps_per_batch is not None:
        return f"{tracker.steps_per_batch} steps, of fragments of episodes"
    return f"{tracker.episodes_per_batch} whole episodes"


def _short(words: str) -> str:
    """The words with no more digits of their numbers than anybody reads."""
    return re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.4g}", words)


def _plain(formula: str) -> str:
    return formula.replace("R_max", "largest R")


def learner_facts(agent: PGP) -> Mapping[str, Any]:
    """What the agent ran with, by the names of its settings."""
    policy = "a table" if agent.is_tabular else f"a network ({type(agent.policy).__name__})"
    return {"policy": policy, **vars(agent.hyperparameters)}
