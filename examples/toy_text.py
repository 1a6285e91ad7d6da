"""Constrained exploration of three of Gymnasium's own environments, each wrapped in a few lines.

    python examples/toy_text.py FrozenLake-v1

Prints the exact entropy and constraint value of the trained policy beside those of the uniform policy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

import constrained_maxent as cmx
from constrained_maxent.evaluation import ExactEvaluation, ExactProblem


def enters_hole(state: int, action: int, next_state: int) -> float:
    """FrozenLake, 4×4 map: the step ends in one of the four holes."""
    return float(next_state in (5, 7, 11, 12))


def moves_nobody(state: int, action: int, next_state: int) -> float:
    """Taxi: a pick-up (4) or drop-off (5) that is not possible here, so that nothing changes."""
    return float(action >= 4 and next_state == state)


def falls_off_cliff(state: int, action: int, next_state: int) -> float:
    """CliffWalking: down from the row above the cliff, or right from the start."""
    return float((25 <= state <= 34 and action == 2) or (state == 36 and action == 1))


@dataclass(frozen=True)
class Task:
    """An environment and the budget of its cost, in cost per step."""

    env_id: str
    cost: Callable[[Any, Any, Any], float]
    limit: float
    learning_rate: float
    env_kwargs: dict[str, Any] = field(default_factory=dict)


TAXI = "Taxi-v3" if "Taxi-v3" in gym.registry else "Taxi-v4"  # Gymnasium 1.3 replaced version 3
TASKS = {
    task.env_id: task
    for task in (
        Task("FrozenLake-v1", enters_hole, limit=0.005, learning_rate=0.03),
        Task(TAXI, moves_nobody, limit=0.02, learning_rate=0.1),
        # CliffWalking has no time limit of its own.
        Task(
            "CliffWalking-v1", falls_off_cliff, limit=0.005, learning_rate=0.03, env_kwargs={"max_episode_steps": 100}
        ),
    )
}


def train(
    task: Task, *, seed: int, iterations: int, progress_bar: bool = False
) -> tuple[ExactEvaluation, ExactEvaluation]:
    """Exact evaluations of the uniform policy and of the trained one."""
    # The limit is enough: its price, in nats for each unit of cost, finds itself.
    budget = cmx.problem.Constraint(cmx.functionals.LinearCost(task.cost, limit=task.limit))
    env = gym.make_vec(task.env_id, num_envs=32, **task.env_kwargs)
    env = cmx.wrappers.constrain(
        env, constraints={"cost": budget}, estimator=cmx.occupancy.Counts(memory=0.9), episodes_per_batch=32
    )
    agent = cmx.agents.PGP(env, seed=seed, optimizer="adam", learning_rate=task.learning_rate, baseline="batch-mean")
    agent.learn(iterations=iterations, progress_bar=progress_bar)
    problem = ExactProblem.from_env(env)
    env.close()
    return problem.evaluate_uniform(), problem.evaluate(agent.policy_table())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env_id", choices=sorted(TASKS), nargs="?", default="FrozenLake-v1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=1000)
    options = parser.parse_args(arguments)
    task = TASKS[options.env_id]
    begun = time.perf_counter()
    uniform, trained = train(task, seed=options.seed, iterations=options.iterations, progress_bar=True)
    print(f"{task.env_id}, limit {task.limit:g} per step, {time.perf_counter() - begun:.0f} s")
    print(f"{'policy':10}{'entropy (nats)':>16}{'cost - limit':>14}")
    for name, evaluation in (("uniform", uniform), ("trained", trained)):
        print(f"{name:10}{evaluation.objective:16.4f}{evaluation.constraints['cost']:14.5f}")
    print(f"{'allowed':26}{0.05 * uniform.constraints['cost']:14.5f}   (5 % of the uniform policy's excess)")


if __name__ == "__main__":
    main()
