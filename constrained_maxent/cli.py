"""``cmaxent``: train, evaluate and plot from the command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from gymnasium.error import DependencyNotInstalled
from rich.console import Console
from rich.table import Table

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

    env_id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV_ID")] = ""
    """Any registered id, for example FrozenLake-PGP-v0. Not with --resume."""
    settings: tyro.conf.OmitArgPrefixes[TrainSettings]
    """Settings of the run."""
    out: Path | None = None
    """Run folder. Default: runs/<id>-seed<seed>."""
    overwrite: bool = False
    """Replace a run that is in the folder."""
    resume: Path | None = None
    """Continue the run in this folder from its last checkpoint, to --iterations if that is given."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> int:
        """The exit code."""
        if self.resume is not None:
            result = self._resume(RunFolder(self.resume))
        else:
            if not self.env_id:
                raise InvalidSetting("Which environment? cmaxent train ENV_ID, for example FrozenLake-PGP-v0.")
            folder = RunFolder(self.out or default_folder(self.env_id, self.settings.seed))
            # A wrong id or option must not leave a folder behind.
            make_environment(self.env_id, self.settings).close()
            folder.create(overwrite=self.overwrite)
            result = train(self.env_id, self.settings, folder, progress_bar=not self.quiet)
        figures = draw_run(result.folder)
        _print_result(result, figures)
        return INTERRUPTED if result.interrupted else 0

    def _resume(self, folder: RunFolder) -> Result:
        if self.env_id or self.out is not None or self.overwrite:
            raise InvalidSetting(
                "--resume takes environment and folder from the run: leave out ENV_ID, --out and --overwrite."
            )
        default = TrainSettings()
        given = [
            name
            for name, value in self.settings.to_json().items()
            if name != "iterations" and value != default.to_json()[name]
        ]
        if given:
            raise InvalidSetting(f"--resume takes its settings from the run: leave out {', '.join(given)}.")
        iterations = None if self.settings.iterations == default.iterations else self.settings.iterations
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

    def run(self) -> int:
        """The exit code."""
        folder = RunFolder(self.run_folder)
        env_id, settings = load_config(folder)
        env = make_environment(env_id, settings)
        agent = load_agent(folder, env)
        problem = exact_problem(env)
        exact = problem.evaluate(agent.policy_table()) if problem is not None and agent.is_tabular else None
        rollouts = evaluate_rollouts(env, agent, n_episodes=self.episodes, seed=self.seed)
        table = Table(title=f"{env_id}, iteration {agent.iteration}")
        for heading in ("", f"{self.episodes} fresh episodes", *(["exact"] if exact else [])):
            table.add_column(heading, justify="right" if heading else "left")
        rows: list[tuple[str, str, str]] = []
        if rollouts.objective is not None:
            rows.append(("entropy (nats)", f"{rollouts.objective:.4f}", _number(exact.objective if exact else None)))
        for name, estimate in rollouts.constraints.items():
            rows.append((f"{name} - limit", str(estimate), _number(exact.constraints[name] if exact else None)))
        rows.append(("episode length (steps)", str(rollouts.length), ""))
        for row in rows:
            table.add_row(*row[: 3 if exact else 2])
        _console.print(table)
        env.close()
        return 0


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw the figures of a run again: curves, and occupancy with policy arrows on grids."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""

    def run(self) -> int:
        """The exit code."""
        for path in draw_run(RunFolder(self.run_folder)):
            _console.print(str(path), soft_wrap=True)
        return 0


def main(arguments: list[str] | None = None) -> int:
    """Entry point of ``cmaxent``.

    Args:
        arguments: command line without the program's name; ``sys.argv`` if not given.

    Returns:
        0 if all went well, 2 for wrong input, 130 after Ctrl-C.
    """
    command = tyro.extras.subcommand_cli_from_dict(
        {"train": Train, "evaluate": Evaluate, "plot": Plot},
        prog="cmaxent",
        description="Constrained maximum-entropy exploration.",
        args=arguments,
    )
    try:
        code: int = command.run()
    except (ConstrainedMaxentError, FileNotFoundError, DependencyNotInstalled) as error:
        _errors.print(f"cmaxent: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        _errors.print("cmaxent: interrupted; the last checkpoint is usable.", style="red")
        return INTERRUPTED
    return code


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _print_result(result: Result, figures: list[Path]) -> None:
    table = Table(
        title=f"{result.summary['env_id']}, {result.summary['iterations']} iterations, {result.summary['status']}"
    )
    table.add_column("")
    exact = result.final is not None
    estimate: Mapping[str, Any] = result.summary["estimate"]
    columns: list[tuple[str, Mapping[str, Any]]] = [("last batch", estimate)] if estimate else []
    if exact:
        columns += [("exact", result.summary["exact"]), ("uniform policy, exact", result.summary["uniform_policy"])]
    for heading, _ in columns:
        table.add_column(heading, justify="right")
    if any(values["objective"] is not None for _, values in columns):
        table.add_row("entropy (nats)", *(_number(values["objective"]) for _, values in columns))
    for name in columns[0][1]["constraints"] if columns else ():
        table.add_row(f"{name} - limit", *(_number(values["constraints"][name]) for _, values in columns))
    _console.print(table)
    for path in (result.folder.summary_path, *figures):
        _console.print(str(path), soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
