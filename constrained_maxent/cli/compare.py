"""``cmaxent compare``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from constrained_maxent import runs
from constrained_maxent.cli.console import figures_table, print_paths, print_table, say
from constrained_maxent.errors import UnevenRuns
from constrained_maxent.runs.comparing.files import lines_of, tables


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare methods over seeds and environments: means, interquartile means, intervals, differences, curves.

    Runs whose settings agree but for the seed are of one method. The method of the first run is the baseline.
    """

    paths: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN|SWEEP [RUN|SWEEP ...]", help_behavior_hint=""),
    ] = ()
    """Folders of runs, and of sweeps, for all the runs in them."""
    at: Literal["steps", "seconds"] | None = None
    """Where the shortest run of an environment ended, by steps or by the clock: values that all runs had there, and
    curves over them. Default: what the last policies are worth, and curves over steps."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder for comparison.csv, .md, .tex and .png, and comparison-curves.csv. Default: nothing is written."""

    def run(self, given: frozenset[str]) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnevenRuns)  # the notes say it
            found = runs.compare(self.paths, at=self.at)
        for title, rows in tables(found):
            headings, *entries = lines_of(rows, found.baseline)
            table = figures_table(title, *headings)
            for entry in entries:
                table.add_row(*entry)
            print_table(table)
        say(f"Values: {found.source}. Intervals: 95 %, stratified bootstrap over seeds.")
        for note in found.notes:
            say(note)
        if self.out is not None:
            print_paths(*runs.write_comparison(found, self.out))
        return 0
