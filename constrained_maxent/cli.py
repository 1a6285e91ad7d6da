"""``cmaxent``: train, evaluate and plot from the command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import tyro
from gymnasium.error import DependencyNotInstalled
from rich.console import Console
from rich.table import Table
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from constrained_maxent.errors import ConstrainedMaxentError, InvalidSetting
from constrained_maxent.evaluation import evaluate_rollouts, exact_problem
from constrained_maxent.experiments.environments import make_environment
from constrained_maxent.experiments.figures import draw_run
from constrained_maxent.experiments.run_folder import RunFolder
from constrained_maxent.experiments.settings import TrainSettings
from constrained_maxent.experiments.training import Result, default_folder, load_agent, load_config, resume, train

INTERRUPTED = 130
"""Exit code of a process that Ctrl-C ended, as shells have it."""

_console = Console()
_errors = Console(stderr=True)


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train PGP on an environment and write a run folder: config, metrics, checkpoint, summary, figures."""

    env_id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV_ID", help_behavior_hint="")] = ""
    """Any registered id, for example FrozenLake-PGP-v0; module:id imports a module first. Not with --resume."""
    settings: Annotated[TrainSettings, tyro.conf.arg(name="")]
    """Settings of the run."""
    out: Path | None = None
    """Run folder. Default: runs/<id>-seed<seed>."""
    overwrite: bool = False
    """Replace a run that is in the folder."""
    resume: Path | None = None
    """Continue the run in this folder from its last checkpoint, to --iterations if that is given."""
    quiet: bool = False
    """No progress bar."""

    def run(self, given: frozenset[str]) -> int:
        """Do it.

        Args:
            given: names of the options on the command line.

        Returns:
            The exit code.
        """
        result = self._train() if self.resume is None else self._resume(RunFolder(self.resume), given)
        _print_result(result, draw_run(result.folder))
        if not result.interrupted:
            return 0
        _console.print(f"Interrupted. To go on: cmaxent train --resume {result.folder.path}", soft_wrap=True)
        return INTERRUPTED

    def _train(self) -> Result:
        if not self.env_id:
            raise InvalidSetting("Which environment? cmaxent train ENV_ID, for example FrozenLake-PGP-v0.")
        folder = RunFolder(self.out or default_folder(self.env_id, self.settings.seed))
        return train(self.env_id, self.settings, folder, overwrite=self.overwrite, progress_bar=not self.quiet)

    def _resume(self, folder: RunFolder, given: frozenset[str]) -> Result:
        superfluous = [f"--{name}" for name in sorted(given - {"resume", "iterations", "quiet"})]
        if self.env_id:
            superfluous.insert(0, self.env_id)
        if superfluous:
            raise InvalidSetting(
                f"--resume takes environment, settings and folder from the run: leave out {', '.join(superfluous)}."
            )
        iterations = self.settings.iterations if "iterations" in given else None
        return resume(folder, iterations=iterations, progress_bar=not self.quiet)


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate the last policy of a run on fresh episodes, and exactly where the environment is finite and known."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    episodes: int = 100
    """Fresh episodes to roll out."""
    seed: int = 1_000_000
    """Seed of the rollouts."""

    def run(self, given: frozenset[str]) -> int:
        """The exit code."""
        folder = RunFolder(self.run_folder)
        env_id, settings = load_config(folder)
        # Whole episodes, also after a training on batches of steps.
        with closing(make_environment(env_id, replace(settings, steps_per_batch=None))) as env:
            agent = load_agent(folder, env)
            problem = exact_problem(env)
            exact = problem.evaluate(agent.policy_table()) if problem is not None and agent.is_tabular else None
            rollouts = evaluate_rollouts(env, agent, n_episodes=self.episodes, seed=self.seed)
        table = Table(title=f"{env_id}, iteration {agent.iteration}")
        for heading in ("", f"{rollouts.n_episodes} fresh episodes", *(["exact"] if exact else [])):
            table.add_column(heading, justify="right" if heading else "left")
        rows: list[tuple[str, str, str]] = []
        if rollouts.objective is not None:
            rows.append(("entropy (nats)", f"{rollouts.objective:.4f}", _number(exact.objective if exact else None)))
        for name, estimate in rollouts.constraints.items():
            rows.append((f"{name} - limit", str(estimate), _number(exact.constraints[name] if exact else None)))
        rows.append(("episode length (steps)", str(rollouts.length), ""))
        for row in rows:
            table.add_row(*row[: len(table.columns)])
        _console.print(table)
        return 0


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw the figures of a run again: curves, and occupancy with policy arrows on lakes."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""

    def run(self, given: frozenset[str]) -> int:
        """The exit code."""
        for path in draw_run(RunFolder(self.run_folder)):
            _console.print(str(path), soft_wrap=True)
        return 0


Command = (
    Annotated[Train, tyro.conf.subcommand(name="train")]
    | Annotated[Evaluate, tyro.conf.subcommand(name="evaluate")]
    | Annotated[Plot, tyro.conf.subcommand(name="plot")]
)

_registry = ConstructorRegistry()


@_registry.primitive_rule
def _unset(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[None] | None:
    """How help shows that an option has no value: "unset", which cannot be typed, as leaving the option out says it."""
    if info.type is not type(None):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="",
        instance_from_str=lambda _: None,
        is_instance=lambda value: value is None,
        str_from_instance=lambda _: ["unset"],
        choices=(),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``cmaxent``.

    Args:
        arguments: command line without the program's name; ``sys.argv`` if not given.

    Returns:
        0 if all went well, 2 for wrong input, 130 after Ctrl-C.

    Raises:
        SystemExit: with code 0 after help was printed, with 2 at options that do not exist or cannot be read.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments) == ["--version"]:
        _console.print(f"cmaxent {version('constrained-maxent')}", highlight=False)
        return 0
    try:
        command: Train | Evaluate | Plot = tyro.cli(
            Command,
            prog="cmaxent",
            description="Constrained maximum-entropy exploration. cmaxent --version prints the version.",
            args=arguments,
            config=(tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff),
            registry=_registry,
        )
        return command.run(_names(arguments))
    except (ConstrainedMaxentError, OSError, DependencyNotInstalled) as error:
        _errors.print(f"cmaxent: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        _errors.print("cmaxent: interrupted.", style="red")
        return INTERRUPTED


def _names(arguments: Sequence[str]) -> frozenset[str]:
    """Names of the options among arguments, as help spells them."""
    options = (argument.split("=", 1)[0] for argument in arguments if argument.startswith("--"))
    return frozenset(option.removeprefix("--").replace("_", "-") for option in options)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _print_result(result: Result, figures: list[Path]) -> None:
    summary = result.summary
    table = Table(title=f"{summary['env_id']}, {summary['iterations']} iterations, {summary['status']}")
    columns: dict[str, Mapping[str, Any]] = {"last batch": summary["estimate"]}
    if result.final is not None:
        columns |= {"exact": summary["exact"], "uniform policy, exact": summary["uniform_policy"]}
    table.add_column("")
    for heading in columns:
        table.add_column(heading, justify="right")
    if summary["estimate"]["objective"] is not None:
        table.add_row("entropy (nats)", *(_number(values["objective"]) for values in columns.values()))
    for name in summary["estimate"]["constraints"]:
        table.add_row(f"{name} - limit", *(_number(values["constraints"][name]) for values in columns.values()))
    _console.print(table)
    for path in (result.folder.summary_path, *figures):
        _console.print(str(path), soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
