"""Draws the figures of a run folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from constrained_maxent.evaluation import exact_problem
from constrained_maxent.experiments.environments import make_environment
from constrained_maxent.experiments.run_folder import RunFolder
from constrained_maxent.experiments.training import load_agent, load_config
from constrained_maxent.reporting import grid_occupancy_figure, training_figure
from constrained_maxent.wrappers import find_tracker


def draw_run(folder: RunFolder) -> list[Path]:
    """Write ``training.png`` and, on grids, ``occupancy.png`` into the folder.

    Returns:
        The files written.

    Raises:
        InvalidRun, DamagedCheckpoint, CheckpointMismatch: the folder does not hold a run that can be drawn.
    """
    env_id, settings = load_config(folder)
    metrics = folder.read_metrics()
    env = make_environment(env_id, settings)
    try:
        agent = load_agent(folder, env)
        limits = {name: c.functional.limit for name, c in find_tracker(env).problem.constraints.items()}
        measured = ~np.isnan(metrics["exact_objective"])
        figure = training_figure(
            metrics["iteration"],
            metrics["objective"],
            {name: metrics[f"constraint_{name}"] + limit for name, limit in limits.items()},
            limits=limits,
            exact_iterations=metrics["iteration"][measured],
            exact_objective=metrics["exact_objective"][measured],
            exact_constraints={
                name: metrics[f"exact_constraint_{name}"][measured] + limit for name, limit in limits.items()
            },
            title=env_id,
        )
        written = [folder.path / "training.png"]
        figure.savefig(written[0])
        problem = exact_problem(env)
        desc = getattr(env.unwrapped, "desc", None)
        if problem is not None and agent.is_tabular and desc is not None:
            policy = agent.policy_table()
            figure = grid_occupancy_figure(
                desc, problem.evaluate(policy).occupancy, policy, title=f"{env_id}, iteration {agent.iteration}"
            )
            written.append(folder.path / "occupancy.png")
            figure.savefig(written[1])
    finally:
        env.close()
    return written
