"""Runs that are to be compared: read from their folders, grouped by environment and method, and named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from constrained_maxent.errors import InvalidRun
from constrained_maxent.runs.reading import Run, read_run
from constrained_maxent.runs.run_folder import FAILURES, SWEEP, RunFolder


def read_runs(paths: Sequence[str | os.PathLike[str]]) -> tuple[list[Run], list[str]]:
    """The runs in these folders, and what to know of what is missing among them, in sentences.

    Args:
        paths: run folders, and sweep folders, which stand for the runs in them. What is named twice is read once.

    Raises:
        InvalidRun: no paths; something else than a run or a sweep; a sweep without runs; damaged files.
    """
    found: dict[Path, Run] = {}
    notes: list[str] = []
    for path in map(Path, paths):
        folders = [path]
        if (path / SWEEP).exists():
            folders = sorted(entry for entry in path.iterdir() if (entry / "config.json").exists())
            there = {entry.name for entry in folders}
            failed = sorted({file.stem for file in (path / FAILURES).glob("*.json")} - there)
            if absent := sorted(_planned(path / SWEEP) - there - set(failed)):
                notes.append(f"Of the sweep {path} these have not begun: {', '.join(absent)}.")
            if failed:
                notes.append(
                    f"Of the sweep {path} {len(failed)} run{'s' * (len(failed) > 1)} failed and "
                    f"{'are' if len(failed) > 1 else 'is'} missing ({', '.join(failed)}): what is left may be better "
                    "than all would be."
                )
            if not folders:
                raise InvalidRun(f"The sweep {path} holds no run yet.")
        for folder in folders:
            if (place := folder.resolve()) not in found:
                found[place] = read_run(RunFolder(folder))
    if not found:
        raise InvalidRun("Nothing to compare: name run folders, or the folder of a sweep.")
    return list(found.values()), notes


def _planned(file: Path) -> set[str]:
    """Names of the runs that a sweep is to have, as far as its file tells."""
    with suppress(OSError, ValueError, AttributeError, TypeError):
        return set(json.loads(file.read_text(encoding="utf-8")).get("runs", ()))
    return set()


def by_method(runs: Iterable[Run]) -> tuple[dict[str, dict[str, list[Run]]], list[str]]:
    """The runs of each environment by method, in the order of their seeds, and what to know of the groups.

    Runs are of one method if their agents and settings agree apart from the seed, and from what only says how much is
    written down. A method is named by the settings in which it differs from others of the same agent in an environment,
    such as ``beta=0.001``, or by its agent. Across environments methods are one if they are named alike.

    Raises:
        InvalidRun: two runs of one method, environment and seed; runs of one environment that are of different
            problems.
    """
    groups, naming = named(runs)
    for methods in groups.values():
        everyone = [run for group in methods.values() for run in group]
        _require_one_problem(everyone)
        for label, group in methods.items():
            for one, other in pairwise(group):
                if one.seed == other.seed:
                    raise InvalidRun(
                        f"{one.path} and {other.path} are the same run twice: {one.env_id}, {label}, seed {one.seed}. "
                        "Leave one of them out."
                    )
    return groups, _notes(groups, naming)


def named(runs: Iterable[Run]) -> tuple[dict[str, dict[str, list[Run]]], dict[str, list[str]]]:
    """The runs of each environment by method, in the order of their seeds, whatever they are; and of each agent the
    names of the settings that tell its methods apart.
    """
    runs = list(runs)
    agents = list(dict.fromkeys(run.agent for run in runs))
    naming = {agent: _differing(run for run in runs if run.agent == agent) for agent in agents}
    groups: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        names = [f"{name}={_shown(run.settings.get(name))}" for name in naming[run.agent]]
        label = ", ".join([run.agent, *names] if len(agents) > 1 or not names else names)
        groups.setdefault(run.env_id, {}).setdefault(label, []).append(run)
    for methods in groups.values():
        for group in methods.values():
            group.sort(key=lambda run: run.seed)
    return groups, naming


def _differing(runs: Iterable[Run]) -> list[str]:
    """Settings that differ between runs of one environment, in their order."""
    by_environment: dict[str, list[Run]] = {}
    for run in runs:
        by_environment.setdefault(run.env_id, []).append(run)
    names = list(dict.fromkeys(name for group in by_environment.values() for run in group for name in run.settings))
    return [name for name in names if any(_differs(name, group) for group in by_environment.values())]


def _differs(name: str, runs: Sequence[Run]) -> bool:
    return any(run.settings.get(name) != runs[0].settings.get(name) for run in runs)


def _shown(value: Any) -> str:
    """A setting in a label."""
    if value is None:
        return "unset"
    if isinstance(value, dict):
        rest = [f"{name}={_shown(entry)}" for name, entry in value.items() if name != "kind"]
        return f"{value['kind']}({', '.join(rest)})" if "kind" in value else json.dumps(value)
    return str(value)


def _require_one_problem(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        # What only one of two summaries tells is not held against the other.
        differing = [
            name for name in first.problem.keys() & run.problem.keys() if first.problem[name] != run.problem[name]
        ]
        if differing:
            one, other = (
                ", ".join(f"{name}={_shown(each.problem[name])}" for name in sorted(differing)) for each in (first, run)
            )
            raise InvalidRun(
                f"{first.path} and {run.path} are of different problems, {one} and {other}: their values do not "
                "compare. Compare runs of one problem."
            )


def _notes(groups: Mapping[str, Mapping[str, Sequence[Run]]], naming: Mapping[str, Sequence[str]]) -> list[str]:
    notes = []
    labels = list(dict.fromkeys(label for methods in groups.values() for label in methods))
    for env_id, methods in groups.items():
        if missing := [label for label in labels if label not in methods]:
            notes.append(f"{env_id} has no runs of {'; '.join(missing)}.")
    for agent, names in naming.items():
        firsts = {
            env_id: next((run for group in methods.values() for run in group if run.agent == agent), None)
            for env_id, methods in groups.items()
        }
        trained = [run for run in firsts.values() if run is not None]
        every = dict.fromkeys(name for run in trained for name in run.settings)
        if others := [name for name in every if name not in names and _differs(name, trained)]:
            notes.append(f"Between environments {agent} also differs in {', '.join(others)}.")
    return notes
