"""``cmaxent check``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from typing import Annotated, Any

import gymnasium as gym
import tyro
from rich.table import Table

from constrained_maxent import occupancy
from constrained_maxent.adapters.stacks import layers_of, tracking_of
from constrained_maxent.cli.console import console, print_table
from constrained_maxent.errors import InvalidSetting, MissingTracker
from constrained_maxent.runs.coordinates import Coordinates
from constrained_maxent.runs.environments import make_scalar, wrap
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.testing import Finding, check_constrained_env, examine
from constrained_maxent.testing.examination import reported_cost
from constrained_maxent.tracker import find_tracker

_MARKS = {"right": "ok", "note": "note", "wrong": "WRONG"}


@dataclass(frozen=True, kw_only=True)
class Check:
    """Look at an environment of your own by random actions, alone and inside its stack, and say what to write.

    It exits with 1 if something is wrong.
    """

    env_id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV_ID", help_behavior_hint="")]
    """Any registered id; module:id imports a module first."""
    state: tuple[str, ...] | None = None
    """What λ̂ is over, as cmaxent train takes it."""
    cells: tuple[int, ...] | None = None
    """Of a state that is a cell: how many each can be."""
    periodic: tuple[int, ...] | None = None
    """Coordinates of the state that are angles in radians."""
    cost: str | None = None
    """Key of info that carries the cost, or "terminated"; "cost" if it is there."""
    limit: float | None = None
    """Limit of the cost; 0 if not given."""
    env_kwargs: str = "{}"
    """Further arguments of the environment, as a JSON object."""
    steps: int = 1000
    """Random steps, alone and of each batch."""
    seed: int = 0
    """Of resets and actions."""

    def run(self, given: frozenset[str]) -> int:
        if self.steps < 2:
            raise InvalidSetting(f"steps={self.steps} must be at least 2, as there are two copies.")
        settings = self._settings(steps_per_batch=self.steps)
        kwargs = settings.environment_kwargs()

        def make() -> gym.Env[Any, Any]:
            return make_scalar(self.env_id, kwargs, cost=self.cost)

        stack: Any = None

        def wrapped(copies: Any) -> Any:
            nonlocal stack
            stack = wrap(copies, settings)
            find_tracker(stack).announce(iterations=100)
            return stack

        if (found := _of_own_stack(make)) is None:
            cost = self.cost if self.cost is not None else reported_cost(make)
            found = examine(make, wrapped, cost=cost, n_steps=self.steps, seed=self.seed)
        table = Table("", "", "what was found", title=self.env_id)
        for finding in found:
            table.add_row(finding.about, _MARKS[finding.verdict], finding.text)
        print_table(table)
        if stack is not None:
            self._say_what_to_write(stack)
        return 1 if any(finding.verdict == "wrong" for finding in found) else 0

    def _settings(self, **more: Any) -> TrainSettings:
        names = {field.name for field in fields(TrainSettings)}
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name in names}
        return TrainSettings(num_envs=2, **own, **more)

    def _say_what_to_write(self, stack: Any) -> None:
        options = [
            f" --{name.replace('_', '-')} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"
            for name, value in ((name, getattr(self, name)) for name in ("state", "cells", "periodic", "cost", "limit"))
            if value is not None
        ]
        options += [f" --env-kwargs '{self.env_kwargs}'"] if self.env_kwargs != "{}" else []
        lines = ["To train on it:", "", f"    cmaxent train {self.env_id}{''.join(options)}", "", "In Python:", ""]
        lines += [f"    {line}" for line in code(self.env_id, self.env_kwargs, stack)]
        for line in lines:
            console.print(line, soft_wrap=True, highlight=False)


def _of_own_stack(make: Any) -> list[Finding] | None:
    """What is found of an environment that brings its own stack; ``None`` if it brings none."""
    with closing(make()) as env:
        try:
            find_tracker(env)
        except MissingTracker:
            return None
        try:
            check_constrained_env(env)
        except Exception as error:  # of the environment's own too: it is what is asked
            return [Finding("stack", "wrong", f"{type(error).__name__}: {error}")]
    return [Finding("stack", "right", "it brings its own: batches, rewards and resets are as they must be.")]


def code(env_id: str, env_kwargs: str, stack: Any) -> list[str]:
    """Lines of Python that make a stack as it is, but with as many steps in a batch as usual."""
    tracking = tracking_of(stack)._saved_kwargs
    tracker = find_tracker(stack)
    kept = ("estimator", "state", "cells", "discount", "horizon")
    arguments = {name: tracking[name] for name in kept if tracking.get(name) is not None}
    resolution = getattr(tracker.problem.objective, "resolution", None)
    made = f"{env_id!r}, num_envs=8, vectorization_mode='sync', wrappers=wrappers"
    made += "" if env_kwargs == "{}" else f", **{json.loads(env_kwargs)}"
    space = getattr(tracking["state"], "space", None)
    lines = [
        "import gymnasium as gym",
        "import constrained_maxent as cmx",
        "import constrained_maxent.runs.coordinates" if isinstance(tracking["state"], Coordinates) else "",
        f"wrappers = [{', '.join(_copy_wrappers(stack))}]",
        f"env = gym.make_vec({made})",
        *(["space = env.single_observation_space"] if space is not None else []),
        "env = cmx.wrappers.constrain(",
        "    env,",
        f"    cmx.functionals.Entropy({'' if resolution is None else f'resolution={resolution}'}),",
        "    {",
    ]
    for name, constraint in tracker.problem.constraints.items():
        limit = constraint.functional.limit
        (source,) = tracker.sources.values()  # this command asks of one cost
        penalty = type(constraint.penalty).__name__
        lines.append(
            f'        "{name}": cmx.problem.Constraint(cmx.functionals.LinearCost("{source}", limit={limit}), '
            f"cmx.penalties.{penalty}()),"
        )
    lines += ["    },", "    steps_per_batch=8192,"]
    lines += [f"    {name}={_written(value)}," for name, value in arguments.items()]
    return [*lines, ")", "agent = cmx.agents.PGP(env, seed=0).learn(iterations=20)"]


def _written(value: Any) -> str:
    """An argument of ``TrackOccupancy`` as one writes it, with what is not its default."""
    if isinstance(value, Mapping) and "kind" in value:
        known = inspect.signature(getattr(occupancy, value["kind"])).parameters
        given = {name: tuple(v) if isinstance(v, list) else v for name, v in value.items() if name in known}
        listed = ", ".join(f"{name}={v!r}" for name, v in given.items() if v != known[name].default)
        return f"cmx.occupancy.{value['kind']}({listed})"
    if isinstance(value, Coordinates):
        return f"cmx.runs.coordinates.Coordinates({value.entries!r}{'' if value.space is None else ', space'})"
    return getattr(value, "__qualname__", repr(value)) if callable(value) else repr(value)


def _copy_wrappers(stack: Any) -> list[str]:
    names = {"DmControlTask": "cmx.adapters.dm_control.DmControlTask"}
    names |= {"TerminationCost": "cmx.adapters.costs.TerminationCost", "FloatInfo": "cmx.wrappers.FloatInfo"}
    inside = [type(layer).__name__ for layer in layers_of(stack.unwrapped.envs[0])]
    return [names[name] for name in reversed(inside) if name in names]
