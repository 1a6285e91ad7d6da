"""``cmaxent reproduce``: the paper's experiments again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from constrained_maxent.cli.reproduce_control import ReproduceControl
from constrained_maxent.cli.reproduce_grid import ReproduceGrid


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run the paper's experiments, all or in parts; write tables and figures."""

    what: Annotated[
        Annotated[ReproduceGrid, tyro.conf.subcommand(name="grid")]
        | Annotated[ReproduceControl, tyro.conf.subcommand(name="control")],
        tyro.conf.arg(name=""),
    ]
    """Which of them."""

    def run(self, given: frozenset[str]) -> int:
        """The exit code."""
        return self.what.run(given)
