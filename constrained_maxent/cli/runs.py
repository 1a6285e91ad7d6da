"""``cmaxent evaluate``, ``plot``, ``video``, ``report`` and ``certify``: what is done with runs that are there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

import constrained_maxent as cmx
from constrained_maxent import runs
from constrained_maxent.cli.console import (
    cells_in_words,
    console,
    digits,
    figures_table,
    number,
    objective_label,
    print_evaluation,
    print_paths,
    print_table,
    say,
)
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.runs.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate the last policies of runs on fresh episodes, and exactly where the environment is finite and known.

    Several runs of one environment also get their mean, with its interval over runs.
    """

    run_folders: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")
    ] = ()
    """Folder of a run. Its evaluation.json is written anew."""
    dataset: str | None = None
    """Instead of runs: a Minari data set, whose episodes are measured as they are."""
    env_id: str | None = None
    """With --dataset: the environment that it is of, where it does not say so, or is to be measured as another."""
    state: tuple[str, ...] | None = None
    """With --dataset: what λ̂ is over, as in cmaxent train."""
    cells: tuple[int, ...] | None = None
    """With --dataset: of a state that is a cell, as in cmaxent train."""
    periodic: tuple[int, ...] | None = None
    """With --dataset: coordinates of the state that are angles, as in cmaxent train."""
    cost: str | None = None
    """With --dataset: key of infos that carries the cost; "cost" if it is there."""
    limit: float | None = None
    """With --dataset: what the cost is held against."""
    env_kwargs: str = "{}"
    """With --dataset: arguments of the environment, as a JSON object."""
    episodes: int | None = None
    """Fresh episodes to roll out; 20 if not given, or 100 where observations are finite. With --dataset: the first so
    many only."""
    seed: int = 1_000_000
    """Seed of the rollouts, and of intervals."""

    def run(self, given: frozenset[str]) -> int:
        if self.dataset is not None:
            return self._dataset(self.dataset, given)
        if lonely := sorted({"env-id", "state", "cells", "periodic", "cost", "limit", "env-kwargs"} & given):
            raise InvalidSetting(f"{', '.join(f'--{name}' for name in lonely)}: only with --dataset.")
        if not self.run_folders:
            raise InvalidSetting("Which run? cmaxent evaluate RUN, the folder of a training run.")
        # A run that is named twice counts once: it would make the interval over runs narrower.
        paths = tuple({path.resolve(): path for path in self.run_folders}.values())
        folders = [RunFolder(path) for path in paths]
        found = [runs.evaluate(folder, n_episodes=self.episodes, seed=self.seed) for folder in folders]
        print_table(_one(found[0]) if len(found) == 1 else _several(paths, found))
        for folder, evaluation in zip(folders, found, strict=True):
            for verdict in evaluation.limits:
                say(f"{folder.path.name}: {verdict}" if len(found) > 1 else str(verdict))
        for line in dict.fromkeys(note for evaluation in found for note in _notes(evaluation)):
            say(line)
        print_paths(*(folder.evaluation_path for folder in folders))
        return 0

    def _dataset(self, name: str, given: frozenset[str]) -> int:
        if self.run_folders:
            raise InvalidSetting("Runs or --dataset: give one of them.")
        settings = None
        if {"state", "cells", "periodic", "cost", "limit", "env-kwargs"} & given:
            settings = runs.TrainSettings(
                state=self.state,
                cells=self.cells,
                periodic=self.periodic,
                cost=self.cost,
                limit=self.limit,
                env_kwargs=self.env_kwargs,
            )
        found = runs.evaluate_dataset(name, self.env_id, settings, n_episodes=self.episodes, seed=self.seed)
        print_evaluation(name, found)
        return 0


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw the figures of a run again: curves, and what the policy does on lakes, cartpole and point mass."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""

    def run(self, given: frozenset[str]) -> int:
        print_paths(*runs.draw_run(RunFolder(self.run_folder)))
        return 0


@dataclass(frozen=True, kw_only=True)
class Certify:
    """Hold the last policy of a run against the global optimum, and write the certificate into summary.json."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run in a finite environment with known dynamics."""

    def run(self, given: frozenset[str]) -> int:
        from constrained_maxent.evaluation.rollouts import constraint_figure
        from constrained_maxent.runs.summary import TIME_DEPENDENT, certificate_rows

        folder = RunFolder(self.run_folder)
        env_id, settings = runs.load_config(folder)
        summary = folder.read_summary()
        with closing(runs.make_environment(env_id, settings)) as env:
            agent = runs.load_agent(folder, env)
            problem, reason = cmx.evaluation.exact_problem(env)
        if problem is None or not agent.is_tabular:
            needed = "That takes a tabular policy, and an environment whose dynamics and costs are known."
            raise InvalidRun(f"{folder.path} cannot be certified. {reason or needed}")
        if (reason := runs.contradiction(folder)) is not None:
            raise InvalidRun(
                f"{folder.path} cannot be certified: the environment does something else than it publishes. {reason}"
            )
        found = problem.certify(agent.policy_table())
        folder.write_json(folder.summary_path, {**summary, "certificate": found.to_json(), "no_certificate": None})
        table = figures_table(f"{env_id}, iteration {agent.iteration}", "", "")
        limits = {constraint_figure(name): constraint.limit for name, constraint in problem.constraints.items()}
        for name, value in certificate_rows(found.to_json(), objective_label(settings.objective)):
            table.add_row(name, value if isinstance(value, str) else number(value, digits(limits.get(name, 0.0))))
        print_table(table)
        if found.is_time_dependent:
            say(TIME_DEPENDENT)
        print_paths(folder.summary_path)
        return 0


@dataclass(frozen=True, kw_only=True)
class Video:
    """Film fresh episodes of a run's policy as MP4, with the path of the pole's tip or of the point mass."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    seconds: float = 10.0
    """Length of the film; it shows true speed."""
    seed: int = 0
    """Seed of environment and actions."""
    out: Path | None = None
    """The file. Default: video.mp4 in the run folder."""
    fps: int = 25
    """Images for each second."""

    def run(self, given: frozenset[str]) -> int:
        folder = RunFolder(self.run_folder)
        film = runs.record_video(folder, seconds=self.seconds, seed=self.seed, path=self.out, fps=self.fps)
        painter = "the environment itself" if film.painter == "environment" else film.painter
        # Libraries end their reasons in different ways.
        because = f", as MuJoCo cannot draw here. {film.reason}" if film.reason else "."
        console.print(f"{film.n_frames} images, drawn by {painter}{because}", highlight=False)
        print_paths(film.path)
        return 0


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write all that a run or a sweep tells into one HTML file, with its figures and a short film inside."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|SWEEP")]
    """Folder of a run; or of a sweep, which has a sweep.json and its runs in folders."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The file. Default: report.html in the folder."""

    def run(self, given: frozenset[str]) -> int:
        print_paths(runs.write_report(self.folder, self.out))
        return 0


def _one(found: runs.RunEvaluation) -> Table:
    from constrained_maxent.evaluation.rollouts import constraint_figure

    rollouts, exact = found.rollouts, found.exact
    headings = [f"{rollouts.n_episodes} fresh episodes", *(["exact"] if exact is not None else [])]
    table = figures_table(f"{found.env_id}, iteration {found.iteration}", "", *headings)
    known: dict[str, float | None] = {}
    if exact is not None:
        known = {rollouts.label: exact.objective}
        known |= {constraint_figure(constraint): value for constraint, value in exact.constraints.items()}
    for name, estimate in rollouts.figures().items():
        table.add_row(name, str(estimate), *([number(known.get(name))] if exact is not None else []))
    return table


def _several(paths: tuple[Path, ...], found: list[runs.RunEvaluation]) -> Table:
    figures: list[Mapping[str, cmx.evaluation.Estimate]] = [evaluation.rollouts.figures() for evaluation in found]
    same = len({evaluation.env_id for evaluation in found}) == 1
    table = Table("", title=f"{found[0].env_id}, fresh episodes" if same else "Fresh episodes")
    for path in paths:
        table.add_column(str(path), justify="right")
    mean = cmx.evaluation.over_seeds(figures) if same else {}
    if same:
        table.add_column(f"mean of {len(found)} runs", justify="right")
    for name in dict.fromkeys(name for figure in figures for name in figure):
        columns = [number(figure[name].mean) if name in figure else "" for figure in figures]
        table.add_row(name, *columns, *([str(mean[name]) if name in mean else ""] if same else []))
    return table


def _notes(found: runs.RunEvaluation) -> list[str]:
    """Why there are no exact values, if one might expect some; uniform actions, to compare; units and measures."""
    figures = found.uniform.figures()
    compared = (found.uniform.label, "mass of λ", "episode length (steps)", "state entropy (nats)")
    uniform = ", ".join(f"{name} {number(figures[name].mean)}" for name in compared if name in figures)
    states = found.rollouts.states
    notes = [] if found.no_exact is None else [f"{found.env_id}: no exact values. {found.no_exact}"]
    notes += [f"{found.env_id}, uniform actions: {uniform}.", *cells_in_words(found.rollouts.cell_sizes)]
    if states is None:
        return notes
    if states.units:
        notes.append(f"{found.env_id}: the state entropy is that of a density per {'·'.join(states.units)}.")
    if states.coverage is not None:
        notes.append(f"{found.env_id}: grid cells are counted in {states.coverage.n_states:,} steps.")
    return notes
