"""A run folder, read: what its files say, without its environment; third parties' runs included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from constrained_maxent.errors import InvalidRun
from constrained_maxent.evaluation import LimitVerdict
from constrained_maxent.runs.run_folder import OWN_AGENT, RunFolder
from constrained_maxent.runs.settings import PROBLEM, WRITTEN
from constrained_maxent.tasks.presets import PRESETS
from constrained_maxent.types import FloatArray


@dataclass(frozen=True, eq=False)
class Run:
    """A run folder, read by :func:`read_run`.

    Attributes:
        folder: where it is.
        config: the content of its config.json.
        summary: that of its summary.json; empty while it is not finished, or after it was killed.
    """

    folder: RunFolder
    config: Mapping[str, Any]
    summary: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """Of its folder."""
        return self.folder.path

    @property
    def env_id(self) -> str:
        """What was trained in."""
        return str(self.config["env_id"])

    @property
    def seed(self) -> int:
        """Of the training."""
        return int(self.config["settings"]["seed"])

    @property
    def is_ours(self) -> bool:
        """Whether this package's own agent learnt, or the compiled engine in its place."""
        return bool(self.config.get("agent", OWN_AGENT) == OWN_AGENT)

    @property
    def agent(self) -> str:
        """Who learnt; the compiled engine, which draws other random numbers, is another."""
        name = OWN_AGENT.upper() if self.is_ours else str(self.config["agent"])
        return f"{name}, compiled" if self.config.get("compiled", False) else name

    @cached_property
    def settings(self) -> dict[str, Any]:
        """But for the seed and for what is written down, by name; those of the agent beside those of the run.

        Objects in JSON are parsed.
        """
        given = self.config["settings"]
        return _flat({name: value for name, value in given.items() if name not in ("seed", *WRITTEN)})

    @cached_property
    def evaluation(self) -> dict[str, Any] | None:
        """Its evaluation.json, if there is one. Raises InvalidRun if it is damaged."""
        if not self.folder.evaluation_path.exists():
            return None
        content = self.folder.read_evaluation()
        if not isinstance(content.get("rollouts"), dict):
            raise InvalidRun(
                f"{self.folder.evaluation_path} is damaged: remove it, and cmaxent evaluate {self.path} writes it anew."
            )
        return content

    @cached_property
    def metrics(self) -> dict[str, FloatArray]:
        """The columns of its metrics.csv. Raises InvalidRun if there are none."""
        return self.folder.read_metrics()

    def told(self, name: str) -> Any:
        """What its summary says under that name. Raises InvalidRun if it says nothing."""
        if name not in self.summary:
            raise InvalidRun(f"{self.folder.summary_path} is missing or has no {name}.")
        return self.summary[name]

    @property
    def verdicts(self) -> tuple[LimitVerdict, ...]:
        """Whether each limit was kept at the end of the training, as far as its summary tells."""
        return tuple(map(LimitVerdict.from_json, self.summary.get("limits") or ()))

    @cached_property
    def limits(self) -> dict[str, float]:
        """By constraint, as far as its summary tells."""
        # Of any version of this package: what else a verdict has is not asked for.
        return {str(verdict["name"]): float(verdict["limit"]) for verdict in self.summary.get("limits") or ()}

    @cached_property
    def problem(self) -> dict[str, Any]:
        """The settings that say what is stepped and measured; those of its preset where they are left out."""
        known = {name: self.settings.get(name) for name in PROBLEM if name != "preset"}
        presets = PRESETS.get(self.env_id.rpartition(":")[2], {})
        preset = presets.get(self.settings.get("preset") or "default")
        for name in ("limit", "discount", "scale"):
            if known[name] is None and preset is not None:
                known[name] = getattr(preset, name)
        return {**known, "limits": self.limits} if self.limits else known


def read_run(folder: RunFolder) -> Run:
    """The run in a folder. Raises InvalidRun if there is none, or its files are damaged."""
    config = folder.read_config()
    if not isinstance(config["settings"].get("seed"), int):
        raise InvalidRun(f"{folder.config_path} must have a whole number as seed in its settings.")
    return Run(folder, config, folder.read_summary() if folder.summary_path.exists() else {})


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings inside settings beside the others, by their own names; objects of the command line as such."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, str) and value.startswith("{"):
            with suppress(ValueError):
                value = json.loads(value)
            flat[name] = value
        elif isinstance(value, dict):
            inner = _flat(value)
            flat |= {f"{name}.{key}" if key in flat or key in settings else key: entry for key, entry in inner.items()}
        else:
            flat[name] = value
    return flat
