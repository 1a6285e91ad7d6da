"""What a sweep consists of: environments × agents × settings × seeds, each run with a name of its own, all checked."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import product
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from constrained_maxent.agents.settings import PGPSettings
from constrained_maxent.errors import ConstrainedMaxentError, InvalidRun, InvalidSetting
from constrained_maxent.runs.environments import completed
from constrained_maxent.runs.run_folder import OWN_AGENT, RunFolder, file_name
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.types import check_count, check_seed, is_number

_KEYS = ("environment", "agent", "seeds", "settings", "grid", "list")
_AXES = ("environment", "agent")
"""Keys that say what is run, and may stand among the settings that vary as well."""
_JSON = ("penalty", "env_kwargs", "objective")
"""Settings that the command line takes as a JSON object; here a table does."""
_LISTS = ("state", "cells", "periodic", "hidden_sizes")
"""Settings of which there may be several; here one needs no brackets."""
_OF_PGP = tuple(entry.name for entry in fields(PGPSettings))
_OF_RUNS = tuple(entry.name for entry in fields(TrainSettings) if entry.name not in ("agent", "seed"))
_LONGEST = 40
"""Letters of a value in a name; longer ones are cut, and told apart by a digest."""


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        name: of its folder.
        env_id: of its environment.
        settings: of the run, completed; of a third party's agent those of environment, problem and run.
        agent: "pgp", or a third party's, such as "sb3.PPO".
        arguments: of a third party's agent, by its own names.
        compiled: whether the compiled engine does it.
    """

    name: str
    env_id: str
    settings: TrainSettings
    agent: str = OWN_AGENT
    arguments: Mapping[str, Any] = field(default_factory=dict)
    compiled: bool = False

    def __post_init__(self) -> None:
        if self.settings.record is not None:  # runs that share it would destroy each other's
            raise InvalidSetting("record: a data set is of one training, cmaxent train ENV_ID --record NAME")

    def config(self) -> dict[str, Any]:
        """The content of its ``config.json``."""
        content = self.settings.to_json()
        if self.agent == OWN_AGENT:
            return {"env_id": self.env_id, **({"compiled": True} if self.compiled else {}), "settings": content}
        return {"env_id": self.env_id, "agent": self.agent, "settings": content | {"agent": dict(self.arguments)}}

    def require_same(self, folder: RunFolder) -> None:
        """Raise ``InvalidRun`` unless the run in a folder is this one."""
        there, here = folder.read_config(), json.loads(json.dumps(self.config()))
        settings = there.get("settings")
        if isinstance(settings, dict) and here["settings"]["state"] is None:
            here["settings"]["state"] = settings.get("state")  # found in the environment when the run began
        # What an older version did not write down is what is usual.
        if not (differences := _differences(here, there)):
            return
        raise InvalidRun(
            f"{folder.path} holds a run of other settings ({', '.join(differences)}): it stays as it is. "
            "Remove it, or take another --out."
        )


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep.

    Raises:
        InvalidSetting: no runs.
    """

    runs: tuple[PlannedRun, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise InvalidSetting("The sweep has no runs: give at least one seed, and no empty list.")

    @classmethod
    def read(cls, path: str | PathLike[str], *, compiled: bool = False) -> Self:
        """The plan that a TOML file describes, see :meth:`of`.

        Raises:
            InvalidSetting: it is no TOML, or what it says makes no sense; all that is wrong is told at once.
            OSError: it cannot be read.
        """
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:  # no TOML, or not even text
            raise InvalidSetting(f"{path} is not TOML: {error}.") from error
        return cls.of(content, compiled=compiled, source=str(path))

    @classmethod
    def of(cls, content: Mapping[str, Any], *, compiled: bool = False, source: str = "The sweep") -> Self:
        """The plan of a description.

        Args:
            content: ``environment``, an id or a list; ``agent``, "pgp" if not given, or a list; ``seeds``, a number of
                them, from 0, or a list, 1 if not given; ``settings``, what all runs share, by the names of
                ``TrainSettings`` and of the agent's own; ``grid``, lists of values, of which all combinations are run;
                ``list``, tables of settings that go together, each of which is run. Where ``list`` and ``grid`` are
                both given, each table is run with each combination. Both may vary environment and agent, too.
            compiled: whether the compiled engine does the runs.
            source: what is named in errors.

        Raises:
            InvalidSetting: unknown names, values out of range, runs that occur twice; all of them are told at once.

        >>> plan = SweepPlan.of({"environment": "FrozenLake-PGP-v0", "seeds": 2, "grid": {"beta": [0.1, 1.0]}})
        >>> [run.name for run in plan.runs]
        ['beta=0.1,seed=0', 'beta=0.1,seed=1', 'beta=1.0,seed=0', 'beta=1.0,seed=1']
        """
        wrong = [_unknown(name, _KEYS, "the sweep") for name in content if name not in _KEYS]
        fixed, grid, tables = content.get("settings", {}), content.get("grid", {}), content.get("list", [{}])
        axes = [(name, content[name]) for name in _AXES if isinstance(content.get(name), list)]
        if not (isinstance(fixed, Mapping) and isinstance(grid, Mapping) and _are_tables(tables)):
            wrong.append("settings and grid are tables ([settings], [grid]), and list is one of tables ([[list]])")
            fixed, grid, tables = {}, {}, [{}]
        axes += grid.items()
        for name, values in axes:
            if not isinstance(values, list) or not values:
                wrong.append(f"{name} = {values!r} varies: it must be a list of at least one value")
        axes = [(name, values) for name, values in axes if isinstance(values, list) and values]
        given = {name: content[name] for name in _AXES if name in content and not isinstance(content[name], list)}
        seeds: Sequence[int] = []
        try:
            seeds = _seeds(content.get("seeds", 1))
        except InvalidSetting as error:
            wrong.append(str(error))
        runs = []
        for table, *values in product(tables, *(values for _, values in axes)):
            varied = {name: value for (name, _), value in zip(axes, values, strict=True)}
            if twice := sorted((varied.keys() & table.keys()) | ((varied.keys() | table.keys()) & fixed.keys())):
                wrong.append(f"{', '.join(twice)}: given twice, in two of settings, grid and list")
            label = varied | table
            try:
                base = _run({**given, **fixed, **label}, compiled=compiled)
            except (ConstrainedMaxentError, ImportError) as error:
                place = f" ({_name(label)})" if label else ""
                wrong.extend(f"{line}{place}" for line in str(error).split("\n"))
                continue
            for seed in seeds:
                name = _name({**label, "seed": seed})
                runs.append(replace(base, name=name, settings=replace(base.settings, seed=seed)))
        names = [run.name for run in runs]
        if twice := sorted({name for name in names if names.count(name) > 1}) if len({*names}) < len(names) else []:
            wrong.append(f"these names of runs occur twice: {'; '.join(twice)}")
        if wrong:
            told = [line if line.endswith((".", "?")) else f"{line}." for line in dict.fromkeys(wrong)]
            raise InvalidSetting("\n".join([f"{source} makes no sense:", *(f"- {line}" for line in told)]))
        return cls(tuple(runs))

    @classmethod
    def over_seeds(cls, env_id: str, settings: TrainSettings, seeds: int) -> Self:
        """The same run of PGP with seeds from 0.

        Raises:
            InvalidSetting: fewer than one seed, or an unknown id.
        """
        complete = completed(env_id, settings)
        return cls(
            tuple(
                PlannedRun(name=_name({"seed": seed}), env_id=env_id, settings=replace(complete, seed=seed))
                for seed in range(check_count("seeds", seeds))
            )
        )


def _run(given: Mapping[str, Any], *, compiled: bool) -> PlannedRun:
    """The run of these keys and settings, without a name. Raises InvalidSetting, with a line for each fault."""
    env_id, agent = given.get("environment"), given.get("agent", OWN_AGENT)
    if not isinstance(env_id, str) or not env_id:
        raise InvalidSetting('environment must be a registered id, such as "FrozenLake-PGP-v0", or a list of them')
    if not isinstance(agent, str):
        raise InvalidSetting(f'agent = {agent!r} must be a name, such as "pgp" or "sb3.PPO", or a list of them')
    settings = {name: _plain(name, value) for name, value in given.items() if name not in _AXES}
    own = _OF_PGP if agent == OWN_AGENT else _arguments_of(agent)
    wrong = [_unknown(name, (*_OF_RUNS, *own), agent) for name in settings if name not in (*_OF_RUNS, *own)]
    wrong += [line for name, value in settings.items() if (line := _no_choice(name, value)) is not None]
    if wrong:
        raise InvalidSetting("\n".join(wrong))
    of_runs = {name: value for name, value in settings.items() if name in _OF_RUNS}
    of_agent = {name: value for name, value in settings.items() if name not in _OF_RUNS}
    if agent != OWN_AGENT:
        from constrained_maxent.runs.sweeps.third_party import checked

        if compiled:
            raise InvalidSetting(f"--compiled knows PGP on tables, and not {agent}")
        complete = checked(env_id, TrainSettings(**of_runs))
        return PlannedRun(name="", env_id=env_id, settings=complete, agent=agent, arguments=of_agent)
    complete = completed(env_id, TrainSettings(**of_runs, agent=PGPSettings(**of_agent)))
    if compiled:
        from constrained_maxent.runs.sweeps.compiled import require_counterpart

        require_counterpart(env_id, complete)
    return PlannedRun(name="", env_id=env_id, settings=complete, compiled=compiled)


@cache
def _arguments_of(agent: str) -> tuple[str, ...]:
    from constrained_maxent.runs.sweeps.third_party import arguments_of

    return arguments_of(agent)


def _plain(name: str, value: Any) -> Any:
    """A value of TOML as the settings take it."""
    if name in _JSON and isinstance(value, Mapping):
        return json.dumps(value)
    if name in _LISTS and isinstance(value, (str, int)):
        return (value,)
    return tuple(value) if isinstance(value, list) and name in (*_OF_RUNS, *_OF_PGP) else value


@cache
def _choices() -> dict[str, tuple[Any, ...]]:
    """Settings that are one of a few words."""
    hints = get_type_hints(TrainSettings) | get_type_hints(PGPSettings)
    parts = {name: [hint] if get_origin(hint) is Literal else get_args(hint) for name, hint in hints.items()}
    return {
        name: tuple(word for kind in kinds for word in get_args(kind))
        for name, kinds in parts.items()
        if kinds and all(get_origin(kind) is Literal or kind is NoneType for kind in kinds)
    }


def _no_choice(name: str, value: Any) -> str | None:
    words = _choices().get(name)
    return None if words is None or value in words else f"{name} = {value!r} must be one of {', '.join(words)}"


def _unknown(name: str, known: Iterable[str], whose: str) -> str:
    if name == "seed":
        return "seed: the seeds stand beside environment, seeds = 10 or seeds = [3, 4]"
    similar = difflib.get_close_matches(name, list(known), n=1)
    return f"{name}: there is no such setting of {whose}" + (f", did you mean {similar[0]}?" if similar else "")


def _seeds(given: Any) -> Sequence[int]:
    if isinstance(given, list):
        return [check_seed("seeds", seed) for seed in given]
    return range(check_count("seeds", given))


def _are_tables(tables: Any) -> bool:
    return isinstance(tables, list) and bool(tables) and all(isinstance(table, Mapping) for table in tables)


def _name(varied: Mapping[str, Any]) -> str:
    """The name of a run among others: what varies, in the plan's order."""
    return ",".join(f"{name}={_short(value)}" if name not in _AXES else _short(value) for name, value in varied.items())


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else str(value) if is_number(value) else json.dumps(value, default=str)
    safe = re.sub(r"[^\w.+-]+", "-", file_name(text)).strip("-") or "-"
    # What is cut may be what tells two of them apart.
    return safe if len(safe) <= _LONGEST else f"{safe[:_LONGEST]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _differences(here: Any, there: Any, place: str = "") -> list[str]:
    """Where two JSON objects differ, in words."""
    if not (isinstance(here, dict) and isinstance(there, dict)):
        return [] if here == there else [f"{place} is {there!r} there, and {here!r} is asked for"]
    return [
        line
        for name in dict.fromkeys([*here, *there])
        for line in _differences(here.get(name), there.get(name), name if name != "settings" else place)
    ]
