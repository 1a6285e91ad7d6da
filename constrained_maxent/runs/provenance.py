"""Where figures and data come from, as plain data: the problem, the versions, the command."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib.metadata import version
from typing import Any

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.runs.environments import completed
from constrained_maxent.runs.settings import PROBLEM, TrainSettings
from constrained_maxent.spaces import Environment
from constrained_maxent.tracker import find_tracker


def versions(*others: str) -> dict[str, str]:
    """Of Python and of the packages that figures depend on."""
    packages = ("constrained-maxent", "gymnasium", "numpy", "torch", *others)
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def described(settings: TrainSettings) -> dict[str, Any]:
    """What of the settings is another data set's if it differs."""
    content = settings.to_json()
    return {name: content[name] for name in PROBLEM if content[name] is not None}


def metadata(stack: Environment, **rest: Any) -> dict[str, Any]:
    """What a data set says of itself, as plain data."""
    tracker = find_tracker(stack)
    problem = tracker.problem
    return {
        "problem": {
            "objective": _plain(problem.objective),
            "constraints": {name: _plain(c.functional) for name, c in problem.constraints.items()},
            "discount": tracker.weighting.discount,
            "horizon": tracker.weighting.horizon,
            "scale": tracker.weighting.scale,
            "estimator": repr(tracker.estimator),
        },
        "alignment": "infos/state has a row for each observation; infos/cost... one for each action, charged for it",
        "versions": versions("minari", "h5py"),
        "command": shlex.join(sys.argv),
        **rest,
    }


def differing(env_id: str, settings: TrainSettings) -> Iterator[tuple[str, Any]]:
    """The settings that are not what ``cmaxent train`` takes anyway, by name, the agent's last."""
    try:
        usual = replace(completed(env_id, TrainSettings(preset=settings.preset)), preset=None)
    except InvalidSetting:  # it is not registered here
        usual = TrainSettings()
    pairs: list[tuple[Any, Any]] = [(settings, usual), (settings.agent, usual.agent)]
    for given, default in pairs:
        for entry in fields(given):
            value = getattr(given, entry.name)
            if entry.name != "agent" and value not in (None, getattr(default, entry.name)):
                yield entry.name, value


def train_command(env_id: str, settings: TrainSettings) -> str:
    """The command line that trains with these settings, without those that it takes anyway."""
    options = [word for name, value in differing(env_id, settings) for word in _option(name, value)]
    return shlex.join(["cmaxent", "train", env_id, *options])


def _option(name: str, value: Any) -> list[str]:
    """An option as the command line reads it."""
    option = f"--{name.replace('_', '-')}"
    values = [str(entry) for entry in (value if isinstance(value, tuple) else (value,))]
    # A number below 0 would pass for an option.
    is_negative = len(values) == 1 and values[0].startswith("-")
    return [f"{option}={values[0]}"] if is_negative else [option, *values]


def _plain(functional: Any) -> Any:
    if functional is None:
        return None
    content: dict[str, Any] = {"kind": type(functional).__name__}
    for entry in fields(functional):
        if entry.init and not entry.name.startswith("_"):
            value = getattr(functional, entry.name)
            is_plain = value is None or isinstance(value, (bool, int, float, str))
            content[entry.name] = value if is_plain else repr(value)[:200]
    return content
