"""``cmaxent collect``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from constrained_maxent import runs
from constrained_maxent.cli.console import print_evaluation, say
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class Collect:
    """Step the last policy of a run on fresh episodes, and keep what it saw as a Minari data set.

    Killed and called again it goes on; with more --steps the data set grows.
    """

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help_behavior_hint="")]
    """Folder of a run; with --uniform, a folder or the id of an environment."""
    steps: int
    """At least so many, in whole episodes."""
    dataset: str
    """Name of the data set, such as cartpole/safe-v0."""
    uniform: bool = False
    """Actions that are drawn alike, instead of the policy's."""
    num_envs: int | None = None
    """Copies of the environment that are stepped at once; 64 if not given, or as many as there are episodes."""
    seed: int = 0
    """Seed of episodes and actions."""
    limit: float | None = None
    """With the id of an environment: the limit that its cost is held against."""
    cost: str | None = None
    """With the id of an environment: key of info that carries the cost."""
    state: tuple[str, ...] | None = None
    """With the id of an environment: the state that is stored beside observations, as in cmaxent train."""
    cells: tuple[int, ...] | None = None
    """With the id of an environment: of a state that is a cell, as in cmaxent train."""
    periodic: tuple[int, ...] | None = None
    """With the id of an environment: coordinates of the state that are angles, as in cmaxent train."""
    env_kwargs: str = "{}"
    """With the id of an environment: its arguments, as a JSON object."""
    quiet: bool = False
    """No progress bar."""

    def run(self, given: frozenset[str]) -> int:
        is_run = Path(self.run_folder).is_dir()
        own = {"limit", "cost", "state", "cells", "periodic", "env-kwargs"} & given
        if is_run and own:
            raise InvalidSetting(
                f"A run has settings of its own: leave out {', '.join(f'--{name}' for name in sorted(own))}."
            )
        if not is_run and not self.uniform:
            raise InvalidSetting(f"{self.run_folder} is no folder of a run. For an environment's id give --uniform.")
        env_id, settings = (
            self.run_folder,
            TrainSettings(
                limit=self.limit,
                cost=self.cost,
                state=self.state,
                cells=self.cells,
                periodic=self.periodic,
                env_kwargs=self.env_kwargs,
            ),
        )
        if is_run and self.uniform:
            env_id, settings = runs.load_config(RunFolder(self.run_folder))
        found = runs.collect(
            RunFolder(self.run_folder) if is_run and not self.uniform else env_id,
            self.dataset,
            steps=self.steps,
            settings=settings if self.uniform else None,
            num_envs=self.num_envs,
            seed=self.seed,
            progress_bar=not self.quiet,
        )
        print_evaluation(f"{found.dataset}, {found.steps} steps", found.evaluation)
        if found.void:
            say(f"{found.void} episodes ended in a physics error, and are left out.")
        say(f'minari.load_dataset("{found.dataset}") reads it.')
        return 0
