"""PGP on the paper's grid at the paper's settings: last policy of each seed, evaluated exactly.

    python benchmarks/grid_seeds.py --beta 0.005 --seeds 10

Runs the seeds in parallel processes and prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import mean, stdev

import gymnasium as gym
import torch

from constrained_maxent.agents import PGP
from constrained_maxent.evaluation import ExactProblem


def last_policy(seed: int, *, beta: float, iterations: int) -> tuple[float, float]:
    """Exact entropy [nats] and cost of the policy that one run ends with."""
    torch.set_num_threads(1)
    env = gym.make_vec("constrained_maxent:FrozenLake-PGP-v0", num_envs=8, preset="paper", beta=beta)
    agent = PGP(env, seed=seed).learn(iterations=iterations)
    evaluation = ExactProblem.from_env(env).evaluate(agent.policy_table())
    assert evaluation.objective is not None
    return evaluation.objective, evaluation.constraints["cost"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beta", type=float, default=0.005)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=15_000)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    begun = time.perf_counter()
    with ProcessPoolExecutor(options.processes) as pool:
        run = partial(last_policy, beta=options.beta, iterations=options.iterations)
        results = list(pool.map(run, range(options.seeds)))
    print(f"| seed | entropy | cost |  (beta = {options.beta:g}, {time.perf_counter() - begun:.0f} s)")
    print("| --- | --- | --- |")
    for seed, (entropy, cost) in enumerate(results):
        print(f"| {seed} | {entropy:.3f} | {cost:.3f} |")
    if len(results) > 1:
        spread = [f"{mean(column):.3f} ± {stdev(column):.3f}" for column in zip(*results, strict=True)]
        print(f"| mean ± std | {' | '.join(spread)} |")


if __name__ == "__main__":
    main()
