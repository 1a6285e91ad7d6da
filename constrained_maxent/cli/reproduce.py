"""``cmaxent reproduce``: the paper's experiments again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from constrained_maxent.cli.console import console
from constrained_maxent.reproduction import (
    AgentStudyName,
    ControlStudyName,
    Effort,
    GridStudyName,
    MepolTaskName,
    WorldName,
)
from constrained_maxent.startup import INTERRUPTED


@dataclass(frozen=True, kw_only=True)
class ReproduceGrid:
    """The paper's grid study, or parts of it: write tables and figures, and say which claims hold."""

    only: tuple[GridStudyName, ...] = ()
    """These studies only. Default: all."""
    scale: Effort = "paper"
    """"smoke": seconds, to see that it works. "paper": 15,000 iterations, 10 seeds."""
    out: Path | None = None
    """Folder of the results. Default: runs/grid-<scale>. Finished studies in it are not run again."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        # Imported late, as what follows loads the engine and the solvers: help is to come at once.
        from constrained_maxent.cli.studies import reproduce_grid

        folder = self.out or Path("runs") / f"grid-{self.scale}"
        reproduce_grid(self.only, self.scale, folder, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class ReproduceControl:
    """Cartpole and point mass over seeds: train, evaluate the last policies on fresh episodes, write tables, curves."""

    only: tuple[ControlStudyName, ...] = ()
    """These studies only. Default: all."""
    seeds: int | None = None
    """Seeds of each setting. Default: the study's own number."""
    iterations: int | None = None
    """Batches of each run. Default: those of the presets."""
    workers: int = 2
    """Runs at a time."""
    out: Path = Path("runs/control")
    """Folder of the results. Finished runs in it are not done again."""
    quiet: bool = False
    """Do not say which runs are done."""

    def run(self) -> None:
        from constrained_maxent.cli.studies import reproduce_control

        how = {"seeds": self.seeds, "iterations": self.iterations}
        reproduce_control(self.only, self.out, **how, workers=self.workers, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class ReproduceAgents:
    """Agents of Stable-Baselines3 as suggested, over seeds: train, evaluate the last policies, write tables."""

    only: tuple[AgentStudyName, ...] = ()
    """These studies only. Default: all."""
    seeds: int | None = None
    """Seeds of each case, from 0. Default: the study's own number."""
    workers: int = 1
    """Runs at a time."""
    out: Path = Path("runs/agents")
    """Folder of the results. Finished runs in it are not done again."""
    quiet: bool = False
    """Do not say which runs are done."""

    def run(self) -> None:
        from constrained_maxent.cli.studies import reproduce_agents

        reproduce_agents(self.only, self.out, seeds=self.seeds, workers=self.workers, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class ReproduceMepol:
    """MEPOL's tasks (Mutti et al. 2021) by its yardstick, without and with a limit: train, write tables and curves."""

    only: tuple[MepolTaskName, ...] = ()
    """These tasks only. Default: all."""
    seeds: int | None = None
    """Seeds of each case, from 0. Default: the task's own number."""
    batches: int | None = None
    """Of each run. Default: the task's own number."""
    workers: int = 1
    """Runs at a time."""
    out: Path = Path("runs/mepol")
    """Folder of the results. Finished runs in it are not done again."""
    quiet: bool = False
    """Do not say which runs are done."""

    def run(self) -> None:
        from constrained_maxent.cli.studies import reproduce_mepol

        how = {"seeds": self.seeds, "batches": self.batches}
        reproduce_mepol(self.only, self.out, **how, workers=self.workers, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class ReproduceExploreThenLearn:
    """Data sets of uniform actions and of exploration without and with a limit, and what is learnt from each alone:
    tasks, offline, and models of the dynamics; write tables and figures.
    """

    only: tuple[WorldName, ...] = ()
    """In these environments only. Default: all."""
    python: Path = Path("d3rlpy-venv/bin/python")
    """A Python with d3rlpy 2.8.1, which learns the tasks: it takes another Gymnasium, and so an environment of its
    own."""
    seeds: int = 5
    """Seeds of each data set, from 1: how to learn was tried on 0."""
    steps: int = 200_000
    """Of each data set."""
    gradient_steps: int = 20_000
    """Of each task's policy."""
    iterations: int | None = None
    """Batches of each exploration. Default: those of the presets."""
    workers: int = 1
    """Runs at a time."""
    out: Path = Path("runs/explore-then-learn")
    """Folder of the results. Finished runs in it are not done again."""
    quiet: bool = False
    """Do not say which runs are done."""

    def run(self) -> None:
        from constrained_maxent.cli.studies import reproduce_explore_then_learn

        how = {name: getattr(self, name) for name in ("python", "seeds", "steps", "gradient_steps", "iterations")}
        reproduce_explore_then_learn(self.only, self.out, **how, workers=self.workers, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run the paper's experiments, all or in parts; write tables and figures."""

    what: Annotated[
        Annotated[ReproduceGrid, tyro.conf.subcommand(name="grid")]
        | Annotated[ReproduceControl, tyro.conf.subcommand(name="control")]
        | Annotated[ReproduceAgents, tyro.conf.subcommand(name="agents")]
        | Annotated[ReproduceMepol, tyro.conf.subcommand(name="mepol")]
        | Annotated[ReproduceExploreThenLearn, tyro.conf.subcommand(name="explore-then-learn")],
        tyro.conf.arg(name=""),
    ]
    """Which of them."""

    def run(self, given: frozenset[str]) -> int:
        import polars  # noqa: F401  # before anything is trained: its tables are written last

        try:
            self.what.run()
        except KeyboardInterrupt:
            console.print("Interrupted. The same command goes on from here.")
            return INTERRUPTED
        return 0
