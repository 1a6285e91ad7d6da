"""``cmaxent plot`` and ``certify``: what is done with a run that is there."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from constrained_maxent.cli.console import console, number
from constrained_maxent.errors import InvalidRun
from constrained_maxent.evaluation import exact_problem
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.figures import draw_run
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.training import load_agent, load_config


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw the figures of a run again: curves, and what the policy does on lakes, cartpole and point mass."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""

    def run(self, given: frozenset[str]) -> int:
        """The exit code."""
        for path in draw_run(RunFolder(self.run_folder)):
            console.print(str(path), soft_wrap=True)
        return 0


@dataclass(frozen=True, kw_only=True)
class Certify:
    """Hold the last policy of a run against the global optimum, and write the certificate into summary.json."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run in a finite environment with known dynamics."""

    def run(self, given: frozenset[str]) -> int:
        """The exit code."""
        folder = RunFolder(self.run_folder)
        env_id, settings = load_config(folder)
        summary = folder.read_summary()
        with closing(make_environment(env_id, settings)) as env:
            agent = load_agent(folder, env)
            problem = exact_problem(env)
        if problem is None or not agent.is_tabular:
            raise InvalidRun(
                f"{folder.path} cannot be certified: that takes a tabular policy, and an environment whose dynamics "
                "and costs are known."
            )
        # Imported late: the convex solver would slow down every other command.
        from constrained_maxent.evaluation.optimum import certificate

        found = certificate(problem, agent.policy_table())
        folder.write_json(folder.summary_path, {**summary, "certificate": found.to_json()})
        table = Table("", "", title=f"{env_id}, iteration {agent.iteration}")
        table.add_row("entropy (nats)", number(found.value))
        table.add_row("optimum" + (", time-dependent" if found.is_time_dependent else ""), number(found.optimum))
        table.add_row("gap", number(found.gap))
        for name, violation in found.constraints.items():
            table.add_row(f"{name} - limit", number(violation))
            table.add_row(f"multiplier of {name}", number(found.multipliers[name]))
        table.add_row("(ε, ε)-optimal for ε =", number(found.epsilon))
        table.add_row("no policy is above", number(found.dual_bound))
        table.add_row("strong duality", "observed" if found.strong_duality else "not observed")
        table.add_row("Slater's margin", f"{found.slater_margin:.4g}")
        console.print(table)
        if found.is_time_dependent:
            console.print("At a finite horizon the optimum may depend on time: an upper bound for stationary policies.")
        console.print(str(folder.summary_path), soft_wrap=True)
        return 0
