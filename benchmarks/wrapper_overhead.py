"""What the wrapper stack costs per step, beside the bare environment in the same run.

    python benchmarks/wrapper_overhead.py

Bare and wrapped environments take turns, so that whatever else the machine does hits both alike; each figure is the
median over rounds. Actions are drawn before the clock starts. Batch ends (fit, evaluation, rewards) are included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np

BARE, WRAPPED = "constrained_maxent:SafeFrozenLake-v0", "constrained_maxent:FrozenLake-PGP-v0"
SCALAR_TARGET, VECTOR_TARGET = 10.0, 1.0  # µs of overhead per environment step (counts)


def scalar_round(env: gym.Env[Any, Any], actions: list[int]) -> float:
    env.reset(seed=0)
    begun = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return (time.perf_counter() - begun) / len(actions) * 1e6


def vector_round(env: gym.vector.VectorEnv[Any, Any, Any], actions: Any) -> float:
    env.reset(seed=0)
    begun = time.perf_counter()
    for row in actions:
        env.step(row)
    return (time.perf_counter() - begun) / actions.size * 1e6


def compare(
    name: str, target: float, rounds: int, run: Callable[[Any, Any], float], envs: list[Any], actions: Any
) -> None:
    times = [[run(env, actions) for env in envs] for _ in range(rounds)]
    bare, wrapped = (median(column) for column in zip(*times, strict=True))
    overhead = median(after - before for before, after in times)
    print(
        f"{name:34}{bare:9.3f} µs{wrapped:9.3f} µs{wrapped / bare:8.2f} ×{overhead:9.3f} µs"
        f"   target ≤ {target:g} µs: {'met' if overhead <= target else 'MISSED'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=10_000, help="steps of a scalar round; a vector round has 1/10")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    actions = rng.integers(4, size=options.steps).tolist()
    rows = rng.integers(4, size=(options.steps // 10, 256))
    print(f"{'per environment step':34}{'bare':>12}{'wrapped':>12}{'ratio':>10}{'overhead':>12}")
    for pairing in ("same", "previous"):
        scalar = [gym.make(BARE), gym.make(WRAPPED, pairing=pairing)]
        compare(f"scalar, counts, {pairing}", SCALAR_TARGET, options.rounds, scalar_round, scalar, actions)
        vector = [gym.make_vec(BARE, num_envs=256), gym.make_vec(WRAPPED, num_envs=256, pairing=pairing)]
        compare(f"vector of 256, counts, {pairing}", VECTOR_TARGET, options.rounds, vector_round, vector, rows)


if __name__ == "__main__":
    main()
