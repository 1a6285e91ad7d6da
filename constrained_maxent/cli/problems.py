"""``cmaxent solve`` and ``plan``: what is known of a problem before any training."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.table import Column, Table

from constrained_maxent.cli.console import (
    console,
    digits,
    figures_table,
    number,
    objective_label,
    print_paths,
    print_table,
    say,
)
from constrained_maxent.errors import InvalidSetting, RedundantObservation
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.evaluation.statistics import as_given
from constrained_maxent.occupancy import Scale
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.pictures import lake_of
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.summary import TIME_DEPENDENT


@dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """Which problem: an environment and its constraint."""

    env_id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV_ID")]
    """Any registered id of a finite environment with known dynamics, for example SafeFrozenLake-v0."""
    horizon: Literal["environment", "infinite"] = "environment"
    """The time limit of the environment, or none."""
    limit: float | None = None
    """Budget of the cost."""
    discount: float | None = None
    """γ of the occupancy."""
    scale: Scale | None = None
    """Scale of the occupancy: "normalized" or "truncated"."""
    cost: str | None = None
    """Key of info that carries the cost; "cost" if it is there."""
    objective: str | None = None
    """module:Name of a functional of your own to maximize instead of the entropy."""
    constraint: str | None = None
    """module:Name of a functional of your own to keep below its limit."""
    env_kwargs: str = "{}"
    """Further arguments of the environment, as a JSON object."""

    def read(self) -> tuple[ExactProblem, NDArray[np.bytes_] | None]:
        """The exact problem, and the map if the environment is a lake."""
        settings = {name: value for name, value in vars(self).items() if name not in ("env_id", "horizon")}
        with warnings.catch_warnings():  # of densities, which are not solved
            warnings.simplefilter("ignore", RedundantObservation)
            made = make_environment(self.env_id, TrainSettings(num_envs=1, **settings))
        with closing(made) as env:
            problem = ExactProblem.from_env(env)
            desc = lake_of(env, problem.mdp.n_states)
        if self.horizon == "infinite":
            problem = replace(problem, mdp=replace(problem.mdp, horizon=None))
        return problem, desc


@dataclass(frozen=True, kw_only=True)
class Solve:
    """Find the global optimum of a problem: without constraints, with them, and with penalties instead."""

    problem: ProblemOptions
    """The problem."""
    betas: tuple[float, ...] = ()
    """Also solve with the constraints penalized by these β."""
    figure: Path | None = None
    """Draw the constrained optimum's occupancy here (maps of lakes only)."""

    def run(self, given: frozenset[str]) -> int:
        problem, desc = self.problem.read()
        if self.figure is not None and desc is None:
            raise InvalidSetting(f"{self.problem.env_id} is not a lake with a map: leave out --figure.")
        if self.betas and not problem.constraints:
            raise InvalidSetting(
                f"{self.problem.env_id} has no constraint to penalize: leave out --betas, or give --cost."
            )
        if self.figure is not None:
            from constrained_maxent.reporting.style import check_figure_path

            check_figure_path(self.figure)
        best = problem.optimum()
        solutions = {"without constraints": problem.optimum(constrained=False), "with constraints": best}
        solutions |= {f"penalized, β = {as_given(beta)}": problem.optimum(beta=beta) for beta in self.betas}
        title = f"{self.problem.env_id}, {problem.scale}, discount {as_given(problem.mdp.discount)}"
        names = list(problem.constraints)
        headings = [
            objective_label(self.problem.objective),
            *(f"{name} - limit" for name in names),
            *(f"ν* of {name}" for name in names),
        ]
        table = figures_table(title, "", *headings, "gap ≤", "seconds")
        for label, solution in solutions.items():
            values = problem.values(solution.occupancy)
            table.add_row(
                label if solution.status == "optimal" else f"{label} ({solution.status})",
                number(solution.value),
                *(number(values[name], digits(problem.constraints[name].limit)) for name in names),
                *(number(solution.multipliers.get(name), 5) for name in names),
                f"{max(solution.gap, 0.0):.1e}",
                f"{solution.seconds:.2f}",
            )
        print_table(table)
        if best.is_time_dependent:
            say(TIME_DEPENDENT)
        if self.figure is not None and desc is not None:
            from constrained_maxent.reporting import grid_occupancy_figure
            from constrained_maxent.reporting.style import save_figure

            mass = best.occupancy.sum(axis=1, keepdims=True)
            # The policy that a map can show: the share of each action, over all time steps.
            uniform = np.full_like(best.occupancy, 1.0 / problem.mdp.n_actions)
            policy = np.divide(best.occupancy, mass, out=uniform, where=np.broadcast_to(mass > 0.0, uniform.shape))
            figure = grid_occupancy_figure(
                desc, best.occupancy, policy, scale=problem.scale, title=f"{self.problem.env_id}, optimum"
            )
            print_paths(save_figure(figure, self.figure))
        return 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Print what the paper's worst-case analysis asks for to reach an accuracy, beside what practice uses."""

    problem: ProblemOptions
    """The problem; with one linear constraint."""
    epsilon: float
    """Wanted accuracy of entropy [nats] and violation."""
    radius: float = 5.0
    """R of the parameters' range [-R, R]."""
    smoothing: float = 1e-6
    """σ of the entropy."""

    def run(self, given: frozenset[str]) -> int:
        from constrained_maxent.oracle import theory

        problem, _ = self.problem.read()
        linear = [constraint for constraint in problem.constraints.values() if constraint.curvature == "affine"]
        if len(problem.constraints) != 1 or not linear:
            raise InvalidSetting(
                f"plan needs exactly one linear constraint; here are {len(problem.constraints)}, {len(linear)} of them "
                "linear."
            )
        mdp, mass = problem.mdp, problem.mdp.weighting(problem.scale).full_mass
        cost = linear[0].coefficients(mdp.n_states, mdp.n_actions)
        limit = linear[0].limit - linear[0](np.zeros_like(cost))
        constants = theory.ProblemConstants(
            discount=mdp.discount,
            n_states=mdp.n_states,
            n_actions=mdp.n_actions,
            radius=self.radius,
            initial_min=float(mdp.initial.min()),
            objective=theory.entropy_constants(self.smoothing, n_cells=mdp.n_states * mdp.n_actions, mass=mass),
            constraint=theory.linear_constants(cost),
            constraint_max=theory.linear_max(cost, limit=limit, mass=mass),
            scale=problem.scale,
            horizon=mdp.horizon,
        )
        (multiplier,) = problem.optimum().multipliers.values()
        planned = theory.plan(constants, self.epsilon, multiplier)
        figures = (Column(heading, justify="right") for heading in ("worst case", "practice"))
        table = Table("", *figures, "meaning", title=f"{self.problem.env_id}, ε = {as_given(self.epsilon)}")
        for row in planned.to_rows():
            table.add_row(row.symbol, f"{row.value:.4g}", PRACTICE.get(row.symbol, ""), row.meaning)
        print_table(table)
        console.print(
            "Worst cases: enough for every problem with these constants, too large by orders of magnitude for this "
            "one. 'practice' is what the paper's grid study used."
        )
        if mdp.initial.min() == 0.0:
            console.print(
                "Some states have no probability at the start: then the analysis bounds nothing; counts are infinite."
            )
        return 0


PRACTICE = {"β(ε)": "0.005", "η": "0.01", "H": "25", "B": "8", "N": "15000"}
"""The settings of the paper's grid study."""
