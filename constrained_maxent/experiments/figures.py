"""Draws the figures of a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.agents import PGP
from constrained_maxent.agents.rollouts import Environment
from constrained_maxent.errors import InvalidRun
from constrained_maxent.evaluation import exact_problem
from constrained_maxent.evaluation.exact import with_dynamics
from constrained_maxent.experiments.environments import make_environment
from constrained_maxent.experiments.run_folder import RunFolder
from constrained_maxent.experiments.training import load_agent, load_config
from constrained_maxent.types import FloatArray
from constrained_maxent.wrappers import find_tracker

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_run(folder: RunFolder) -> list[Path]:
    """Write ``training.png`` and, for a tabular policy on a lake, ``occupancy.png`` into the folder.

    Returns:
        The files written.

    Raises:
        InvalidRun, DamagedCheckpoint, CheckpointMismatch: the folder does not hold a run that can be drawn.
    """
    env_id, settings = load_config(folder)
    metrics = folder.read_metrics()
    with closing(make_environment(env_id, settings)) as env:
        agent = load_agent(folder, env)
        limits = {name: c.functional.limit for name, c in find_tracker(env).problem.constraints.items()}
        try:
            figures = {folder.training_figure_path: _training(metrics, limits, _references(folder), title=env_id)}
        except KeyError as error:
            raise InvalidRun(f"{folder.metrics_path} is damaged: it has no column {error}.") from error
        occupancy = _occupancy(agent, title=f"{env_id}, iteration {agent.iteration}")
        if occupancy is not None:
            figures[folder.occupancy_figure_path] = occupancy
    for path, figure in figures.items():
        figure.savefig(path)
    return list(figures)


def _references(folder: RunFolder) -> dict[str, float]:
    """The optimum, if the run was certified."""
    certificate = folder.read_summary().get("certificate") if folder.summary_path.exists() else None
    if not certificate:
        return {}
    label = "optimum, time-dependent" if certificate["is_time_dependent"] else "optimum"
    return {label: float(certificate["optimum"])}


def _training(
    metrics: Mapping[str, FloatArray], limits: Mapping[str, float], references: Mapping[str, float], *, title: str
) -> Figure:
    # Imported late, like below: Matplotlib would slow down every command that draws nothing.
    from constrained_maxent.reporting import training_figure

    objective, measured = metrics["objective"], ~np.isnan(metrics["exact_objective"])
    return training_figure(
        metrics["iteration"],
        objective,
        {name: metrics[f"constraint_{name}"] + limit for name, limit in limits.items()},
        limits=limits,
        exact_iterations=metrics["iteration"][measured],
        exact_objective=metrics["exact_objective"][measured] if measured.any() else None,
        exact_constraints={
            name: metrics[f"exact_constraint_{name}"][measured] + limit for name, limit in limits.items()
        }
        if measured.any()
        else None,
        references=references,
        title=title,
    )


def _occupancy(agent: PGP, *, title: str) -> Figure | None:
    from constrained_maxent.reporting import grid_occupancy_figure

    problem = exact_problem(agent.env)
    if problem is None or not agent.is_tabular:
        return None
    desc = lake_of(agent.env, problem.mdp.n_states)
    if desc is None:
        return None
    policy = agent.policy_table()
    return grid_occupancy_figure(desc, problem.evaluate(policy).occupancy, policy, title=title)


def lake_of(env: Environment, n_states: int) -> NDArray[np.bytes_] | None:
    """The map of an environment if it is a lake: letters S, F, H and G, one for each state."""
    # Other environments have a desc as well: Taxi's shows its streets.
    desc = np.asarray(getattr(with_dynamics(env).unwrapped, "desc", []))
    return desc if desc.size == n_states and np.isin(desc, [b"S", b"F", b"H", b"G"]).all() else None
