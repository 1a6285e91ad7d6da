"""Constrained exploration of three of Gymnasium's control environments: entropy of chosen coordinates, one cost each.

    python examples/gymnasium_control.py Pendulum-v1

The coordinates are a function of the observation, never a redundant observation itself: cosine and sine of one angle
lie on a curve and have no density. Prints what fresh episodes of the untrained and of the trained policy show: entropy
of the state at a random step H(d), by nearest neighbors, and of the occupancy H(λ), by the mixture, which is what is
maximized [nats]; the share of costly steps less the limit; visited cells of a fixed grid; steps of an episode.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import constrained_maxent as cmx
from constrained_maxent.evaluation import Grid, RolloutEvaluation, StateMeasures, evaluate_rollouts

Observation = NDArray[Any]


def pendulum_state(observation: Observation) -> NDArray[np.float64]:
    """Angle (0 is up) and angular velocity, out of cosine, sine and angular velocity."""
    cosine, sine, velocity = observation
    return np.array([math.atan2(sine, cosine), velocity])


def spins_fast(observation: Observation, action: Any, next_observation: Observation) -> float:
    return float(abs(observation[2]) > 4.0)


def car_state(observation: Observation) -> Observation:
    """Position in tenths and velocity in hundredths.

    Here an episode ends early, at the goal, and leaves mass below 1: λ = m·d, H(λ) = m·(H(d) - log m). In the
    observation's own units, H(d) is negative, and the agent would do best to end every episode soon.
    """
    return observation / np.array([0.1, 0.01])


def is_far_left(observation: Observation, action: Any, next_observation: Observation) -> float:
    return float(observation[0] < -1.0)


def cheetah_state(observation: Observation) -> Observation:
    """Height of the torso, its pitch and its forward velocity, out of 17 numbers."""
    return observation[[0, 1, 8]]


def runs_fast(observation: Observation, action: Any, next_observation: Observation) -> float:
    return float(abs(observation[8]) > 1.0)


@dataclass(frozen=True)
class Task:
    """What is explored, and within which limit.

    Attributes:
        env_id: of Gymnasium.
        state: the coordinates whose entropy counts, of one observation.
        periodic: those that are angles.
        units: of the coordinates.
        grid: whose cells are counted.
        cost: 1 in a bad step, else 0.
        limit: share of bad steps that is allowed.
        buffer_size: states that λ̂ is fitted to: those of the last batches.
        episodes: of a batch; they run side by side.
        iterations: batches of a full run.
    """

    env_id: str
    state: Callable[[Observation], Observation]
    periodic: tuple[int, ...]
    units: str
    grid: Grid
    cost: Callable[[Observation, Any, Observation], float]
    limit: float
    buffer_size: int
    episodes: int
    iterations: int


TASKS = {
    task.env_id: task
    for task in (
        Task(
            "Pendulum-v1",
            pendulum_state,
            periodic=(0,),
            units="rad, rad/s",
            grid=Grid((-math.pi, -8.0), (math.pi, 8.0), (24, 24)),
            cost=spins_fast,
            limit=0.05,
            buffer_size=16_384,
            episodes=40,
            iterations=60,
        ),
        Task(
            "MountainCarContinuous-v0",
            car_state,
            periodic=(),
            units="position / 0.1, velocity / 0.01",
            grid=Grid((-12.0, -7.0), (6.0, 7.0), (24, 24)),
            cost=is_far_left,
            limit=0.02,
            # One batch: with more, the policy goes where earlier ones were not, and leaves where it is.
            buffer_size=8_192,
            episodes=8,
            iterations=60,
        ),
        Task(
            "HalfCheetah-v5",
            cheetah_state,
            periodic=(1,),
            units="m, rad, m/s",
            grid=Grid((-0.7, -math.pi, -4.0), (0.7, math.pi, 4.0), (8, 12, 12)),
            cost=runs_fast,
            limit=0.05,
            buffer_size=16_384,
            episodes=8,
            iterations=60,
        ),
    )
}


def make(task: Task, *, constrained: bool = True) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The environment in its wrappers. Without the constraint its cost is still recorded, at a penalty of 0."""
    # Its price finds itself: nobody has to know how much entropy a costly step is worth. A limit alone would do, given
    # more batches: in sixty, a rate that grows keeps it.
    priced = cmx.penalties.AdaptiveLagrangian(3.0, 60.0, largest_violation=0.0)
    penalty = priced if constrained else cmx.penalties.Quadratic(beta=0.0)
    kit = cmx.wrappers.vector
    env = gym.make_vec(task.env_id, num_envs=task.episodes)
    env = kit.TrackOccupancy(
        env,
        cmx.occupancy.GaussianMixture(n_components=16, periodic=task.periodic, buffer_size=task.buffer_size),
        state=task.state,
        episodes_per_batch=task.episodes,
        discount=1.0,  # all states that are visited count alike; the returns have a discount of their own
    )
    env = kit.EntropyObjective(env, over="state")
    env = kit.CostConstraint(env, task.cost, limit=task.limit, penalty=penalty)
    return kit.PseudoReward(env)


def train(
    task: Task,
    *,
    seed: int,
    iterations: int,
    constrained: bool = True,
    n_episodes: int = 40,
    progress_bar: bool = False,
) -> tuple[RolloutEvaluation, RolloutEvaluation]:
    """What fresh episodes of the untrained and of the trained policy show."""
    env = make(task, constrained=constrained)
    agent = cmx.agents.PGP(
        env,
        seed=seed,
        return_discount=0.99,
        learning_rate=1e-3,
        final_learning_rate=1e-4,
        averaging=0.9,  # the last iterate alone swings from batch to batch
    )
    measures = StateMeasures(grid=task.grid)
    before = evaluate_rollouts(env, agent, n_episodes=n_episodes, seed=1_000_000, measures=measures)
    agent.learn(iterations=iterations, progress_bar=progress_bar)
    after = evaluate_rollouts(env, agent, n_episodes=n_episodes, seed=2_000_000, measures=measures)
    env.close()
    return before, after


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env_id", choices=sorted(TASKS), nargs="?", default="Pendulum-v1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, help="as many as the task says, unless given")
    parser.add_argument("--free", action="store_true", help="without the constraint, for comparison")
    options = parser.parse_args(arguments)
    task = TASKS[options.env_id]
    iterations = task.iterations if options.iterations is None else options.iterations
    begun = time.perf_counter()
    before, after = train(
        task, seed=options.seed, iterations=iterations, constrained=not options.free, progress_bar=True
    )
    limit = "no limit" if options.free else f"limit {task.limit:g}"
    print(f"{task.env_id}, {limit} per step, {iterations} iterations, {time.perf_counter() - begun:.0f} s")
    print(
        f"{'policy':10}{'H(d)':>8}{'H(λ)':>8}{'cost - limit':>14}{'cells':>8}{'steps':>7}   coordinates: {task.units}"
    )
    for name, evaluation in (("untrained", before), ("trained", after)):
        states = evaluation.states
        assert states is not None
        assert states.coverage is not None
        cost = evaluation.constraints["cost"]
        assert evaluation.objective is not None
        print(
            f"{name:10}{states.entropy.mean:8.3f}{evaluation.objective.mean:8.3f}{cost.mean:14.4f}"
            f"{states.coverage.share:8.1%}{evaluation.length.mean:7.0f}"
        )


if __name__ == "__main__":
    main()
