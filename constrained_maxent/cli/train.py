"""``cmaxent train``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from constrained_maxent.cli.console import INTERRUPTED, console, number
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.runs.figures import draw_run
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.training import Result, default_folder, resume, train


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train PGP on an environment and write a run folder: config, metrics, checkpoint, summary, figures.

    "Usual": where the environment suggests nothing; each -PGP- id brings values of its own.
    """

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
        console.print(f"Interrupted. To go on: cmaxent train --resume {result.folder.path}", soft_wrap=True)
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
        table.add_row("entropy (nats)", *(number(values["objective"]) for values in columns.values()))
    for name in summary["estimate"]["constraints"]:
        table.add_row(f"{name} - limit", *(number(values["constraints"][name]) for values in columns.values()))
    if result.certificate is not None:
        found = result.certificate
        table.add_section()
        table.add_row("optimum" + (" (time-dependent)" if found.is_time_dependent else ""), "", number(found.optimum))
        table.add_row("(ε, ε)-optimal for ε =", "", number(found.epsilon))
    console.print(table)
    if result.lacks_cost:
        console.print(
            "No info['cost']: trained without a constraint; name the key with --cost.", markup=False, highlight=False
        )
    if result.no_certificate is not None:
        console.print(f"No certificate. {result.no_certificate}", markup=False, highlight=False)
    for path in (result.folder.summary_path, *figures):
        console.print(str(path), soft_wrap=True)
