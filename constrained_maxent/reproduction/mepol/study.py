"""Trainings on the tasks of MEPOL, with curves by its yardstick against steps and processor seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from scipy.spatial import KDTree
from scipy.special import digamma, gammaln

from constrained_maxent.agents import PGP
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import NearestNeighbors
from constrained_maxent.problem import Constraint
from constrained_maxent.reproduction import MepolTaskName
from constrained_maxent.reproduction.measured_once import measured_once
from constrained_maxent.reproduction.mepol.tasks import TASKS, Task, VectorEnv
from constrained_maxent.types import FloatArray
from constrained_maxent.wrappers import constrain

EPISODES, EPISODES_IN_CELLS = 100, 40
"""Fresh ones of the yardstick, and those whose cells are counted."""

POINTS = 8
"""Of a curve."""

FRESH_SEED = 10_000

Case = Literal["no limit", "limit"]


@dataclass(frozen=True, kw_only=True)
class MepolRun:
    """One training."""

    task: MepolTaskName
    case: Case
    batches: int
    seed: int

    @property
    def name(self) -> str:
        """In tables."""
        return f"{self.task}, {self.case}, seed {self.seed}"


def run_study(
    name: MepolTaskName,
    folder: Path,
    *,
    seeds: int | None = None,
    batches: int | None = None,
    workers: int = 1,
    progress: Callable[[str], None] = lambda label: None,
) -> pl.DataFrame:
    """Train and measure; what is finished in the folder is not done again.

    Args:
        name: which task.
        folder: of the results; a file for each run below it.
        seeds: how many, from 0; by default the task's own number.
        batches: of each training; by default the task's own number.
        workers: runs at a time, each in a process of its own.
        progress: called with the name of every run that is done.

    Returns:
        One row for each point of each run's curve.

    Raises:
        InvalidSetting: no seeds, or fewer than one worker.
        InvalidRun: a file in the folder is of other settings.
    """
    task = TASKS[name]
    cases: tuple[Case, ...] = ("no limit", "limit")
    runs = [
        MepolRun(task=name, case=case, batches=batches or task.batches, seed=seed)
        for case in cases
        for seed in range(task.seeds if seeds is None else seeds)
    ]
    found = measured_once(runs, measure, folder, name=lambda run: run.name, workers=workers, progress=progress)
    rows = [
        {"task": name, "case": run.case, "seed": run.seed} | point
        for run, measured in zip(runs, found, strict=True)
        for point in measured["curve"]
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def measure(run: MepolRun) -> dict[str, Any]:
    """Train, and look at fresh episodes on the way; their time does not count."""
    task = TASKS[run.task]
    cost = LinearCost(task.cost, limit=task.limit)
    env = constrain(
        task.make(task.copies),
        Entropy(over="state"),
        {"cost": Constraint(cost)} if run.case == "limit" else {},
        estimator=NearestNeighbors(periodic=task.periodic),
        state=task.explored,
        episodes_per_batch=task.copies,
        discount=1.0,
    )
    agent = PGP(env, seed=run.seed)
    with closing(env), closing(task.make(EPISODES)) as fresh:
        fresh.action_space.seed(FRESH_SEED)
        uniform = fresh_figures(task, fresh, lambda rows: fresh.action_space.sample())
        curve = [{"steps": 0, "seconds": 0.0} | uniform]
        seconds, done = 0.0, 0
        for stop in np.linspace(0, run.batches, min(POINTS, run.batches + 1)).astype(int)[1:].tolist():
            begun = time.process_time()
            agent.learn(iterations=stop - done, planned=run.batches)
            seconds, done = seconds + time.process_time() - begun, stop
            figures = fresh_figures(task, fresh, lambda rows: agent.predict(rows)[0])
            curve.append({"steps": agent.timesteps, "seconds": round(seconds, 1)} | figures)
    return {"curve": curve}


def fresh_figures(task: Task, env: VectorEnv, act: Callable[[Any], Any]) -> dict[str, float]:
    """What one episode of each copy shows."""
    observations, _ = env.reset(seed=FRESH_SEED)
    states, costs = [], []
    running = np.ones(env.num_envs, dtype=bool)
    while running.all():
        actions = act(observations)
        before = observations.copy()
        observations, _, terminated, truncated, infos = env.step(actions.astype(env.action_space.dtype))
        running &= ~(terminated | truncated)
        costs.append(
            infos[task.cost]
            if isinstance(task.cost, str)
            else [task.cost(*step) for step in zip(before, actions, observations, strict=True)]
        )
        if running.all():  # after the last step vectors may show the next episode's first observation
            states.append(task.states(observations.astype(np.float64)))
    episodes = np.stack(states, axis=1)
    figures = {
        "entropy": entropy_by_neighbors(episodes.reshape(-1, episodes.shape[-1]), task.neighbors),
        "cost": float(np.mean(costs)),
    }
    if (grid := task.grid) is not None:
        place = episodes[..., : len(grid.cells)]
        figures["entropy of the place"] = entropy_by_neighbors(place.reshape(-1, place.shape[-1]), task.neighbors)
        figures["cells"] = grid.coverage(place[:EPISODES_IN_CELLS].reshape(-1, place.shape[-1])).share
    return {name: round(value, 4) for name, value in figures.items()}


def entropy_by_neighbors(states: FloatArray, k: int) -> float:
    """Kozachenko and Leonenko's estimate of raw coordinates ``(n, d)`` [nats], which is MEPOL's yardstick.

    A step's own episode is not left out, so that it is lower than
    :func:`~constrained_maxent.evaluation.state_entropy`.
    """
    n, d = states.shape
    radius = KDTree(states).query(states, [k + 1])[0][:, 0]
    log_ball = 0.5 * d * math.log(math.pi) - gammaln(0.5 * d + 1.0)
    # Of states that recur: the least volume that MEPOL's code knows.
    log_volume = np.maximum(log_ball + d * np.log(np.maximum(radius, 1e-300)), math.log(1e-15))
    return float(np.mean(log_volume) + math.log(n) - digamma(k))
