"""``cmaxent train``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from constrained_maxent import runs
from constrained_maxent.cli.console import (
    cells_in_words,
    console,
    figures_table,
    number,
    objective_label,
    print_paths,
    print_table,
    say,
)
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.runs.run_folder import RunFolder, default_folder, file_name
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.startup import INTERRUPTED


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train PGP on an environment and write a run folder: config, metrics, checkpoint, summary, figures.

    "Usual": where the environment suggests nothing; each -PGP- id brings values of its own.
    """

    env_id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV_ID", help_behavior_hint="")] = ""
    """Any registered id, for example FrozenLake-PGP-v0; module:id imports a module first. Not with --resume."""
    settings: TrainSettings
    """Settings of the run."""
    seeds: int | None = None
    """Instead of one run so many, with seeds from 0, side by side; --out is the folder of this sweep then, by default
    runs/<id>-seeds."""
    out: Path | None = None
    """Run folder. Default: runs/<id>-seed<seed>."""
    resume: Path | None = None
    """Continue the run in this folder from its last checkpoint, to --iterations if that is given."""
    extend: bool = False
    """With --resume and more --iterations: schedules end there, instead of where the run was planned to end."""
    overwrite: bool = False
    """Replace a run that is in the folder."""
    quiet: bool = False
    """No progress bar."""

    GROUPS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "environment": ("env_kwargs", "state", "cells", "periodic"),
        "batch and estimate": (*("episodes_per_batch", "steps_per_batch", "pairing", "discount", "scale", "memory"),),
        "problem": ("objective", "constraint", "cost", "penalty"),
        "agent": (
            *("policy", "hidden_sizes", "device"),
            *("optimizer", "final_learning_rate", "damping", "max_gradient_norm", "averaging"),
            *("proximal_weight", "inner_iterations", "projection_radius"),
            *("return_discount", "baseline", "gae_lambda", "normalize_advantages", "normalize_observations"),
            *("epochs", "minibatch_size", "clip_range"),
            *("critic_learning_rate", "critic_steps", "critic_batch_size"),
        ),
        "run": (
            "overwrite",
            "extend",
            "record",
            "log_every",
            "evaluate_every",
            "checkpoint_every",
            "checkpoint_minutes",
        ),
    }
    """Options by title. The usual ones are of no group: they come first."""

    def run(self, given: frozenset[str]) -> int:
        if self.seeds is not None:
            return self._over_seeds(self.seeds, given)
        result = self._train() if self.resume is None else self._resume(RunFolder(self.resume), given)
        _print_result(result)
        try:
            figures = runs.draw_run(result.folder)
        except ImportError as error:  # the training is done all the same
            figures = []
            say(f"No figures: {error}.")
        print_paths(result.folder.summary_path, *figures)
        if not result.interrupted:
            return 0
        console.print(f"Interrupted. To go on: cmaxent train --resume {result.folder.path}", soft_wrap=True)
        return INTERRUPTED

    def _over_seeds(self, seeds: int, given: frozenset[str]) -> int:
        from constrained_maxent.cli.sweep import run_sweep

        if other := [f"--{name}" for name in ("seed", "resume", "extend", "overwrite", "record") if name in given]:
            raise InvalidSetting(
                f"--seeds begins runs with seeds from 0, and goes on with them: leave out {', '.join(other)}."
            )
        self._require_env_id()
        plan = runs.SweepPlan.over_seeds(self.env_id, self.settings, seeds)
        return run_sweep(plan, self.out or Path("runs") / f"{file_name(self.env_id)}-seeds", quiet=self.quiet)

    def _require_env_id(self) -> None:
        if not self.env_id:
            raise InvalidSetting("Which environment? cmaxent train ENV_ID, for example FrozenLake-PGP-v0.")

    def _train(self) -> runs.Result:
        if self.extend:
            raise InvalidSetting("extend goes with --resume: a new run plans its schedules for its --iterations.")
        self._require_env_id()
        folder = RunFolder(self.out or default_folder(self.env_id, self.settings.seed))
        return runs.train(self.env_id, self.settings, folder, overwrite=self.overwrite, progress_bar=not self.quiet)

    def _resume(self, folder: RunFolder, given: frozenset[str]) -> runs.Result:
        superfluous = [self.env_id] if self.env_id else []
        superfluous += [f"--{name}" for name in sorted(given - {"resume", "iterations", "extend", "quiet"})]
        if superfluous:
            raise InvalidSetting(
                f"--resume takes environment, settings and folder from the run: leave out {', '.join(superfluous)}."
            )
        iterations = self.settings.iterations if "iterations" in given else None
        return runs.resume(folder, iterations=iterations, extend=self.extend, progress_bar=not self.quiet)


def _print_result(result: runs.Result) -> None:
    summary = result.summary
    last = summary["estimate"]
    alone = _alone(last)
    # A plug-in estimate of few episodes is low: an estimate that remembers is another figure.
    columns: dict[str, Mapping[str, Any]] = (
        {"last batch": alone} if alone.items() <= last.items() else {"estimate": last, "last batch": alone}
    )
    lengths = {"last batch": last["episode_length"]}
    if summary["exact"] is not None:
        columns |= {"exact": summary["exact"], "uniform policy, exact": summary["uniform_policy"]}
    elif (first := result.first_batch) is not None and summary["iterations"] > 1:
        columns["first batch, nearly uniform"] = _alone(first)
        lengths["first batch, nearly uniform"] = first["episode_length"]
    table = figures_table(f"{summary['env_id']}, {summary['iterations']} iterations, {summary['status']}", "", *columns)
    if summary["estimate"]["objective"] is not None:
        label = objective_label(summary["settings"]["objective"])
        table.add_row(label, *(number(values["objective"]) for values in columns.values()))
        table.add_row("mass of λ", *(number(values["mass"]) for values in columns.values()))
    table.add_row("episode length (steps)", *(number(lengths.get(name), 1) for name in columns))
    for name in summary["estimate"]["constraints"]:
        table.add_row(f"{name} - limit", *(number(values["constraints"][name]) for values in columns.values()))
    if result.certificate is not None:
        found = result.certificate
        table.add_section()
        optimum = "optimum" + (" (time-dependent)" if found.is_time_dependent else "")
        for row, value in ((optimum, found.optimum), ("(ε, ε)-optimal for ε =", found.epsilon)):
            table.add_row(row, *(number(value) if name == "exact" else "" for name in columns))
    print_table(table)
    for sentence in result.limits:
        say(sentence)
    for line in cells_in_words(summary["cell_sizes"]):
        say(line)
    if result.lacks_cost:
        say("No info['cost']: trained without a constraint; name the key with --cost.")
    if result.no_certificate is not None:
        say(f"No certificate. {result.no_certificate}")


def _alone(batch: Mapping[str, Any]) -> dict[str, Any]:
    """What a batch is worth alone, without what λ̂ remembers."""
    return {name: batch[f"{name}_fresh"] for name in ("objective", "constraints", "mass")}
