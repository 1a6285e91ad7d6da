"""Where the time of a SafeCartpole training iteration goes, for both presets.

    python benchmarks/control_training.py

Trains on the vector engine until the density's buffer is full, then times iterations and their parts: simulation (the
MuJoCo engine with observations and costs), density (fit, evaluation, pseudo-rewards), acting (the policy's samples and
their log π), update (policy and critic), and the rest (records, wrappers, cutting a batch into trajectories). Each
figure is the median over iterations. The target is the paper's 2000 iterations in 8 minutes.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

import gymnasium as gym
import torch

import constrained_maxent as cmx

TARGET = 8 * 60 / 2000  # [s] an iteration of 4096 steps, preset "paper"
PARTS = ("simulation", "density", "acting", "update")


class Clock:
    """Sums up the time spent in methods, by part. No timed method may call another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def watch(self, part: str, owner: Any, *methods: str) -> None:
        for name in methods:
            setattr(owner, name, self._timed(part, getattr(owner, name)))

    def _timed(self, part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self.seconds[part] += time.perf_counter() - begun

        return timed


def profile(preset: str, *, steps: int, num_envs: int, iterations: int, seed: int) -> dict[str, float]:
    """Median seconds of an iteration, ``"total"``, and of its parts."""
    env = gym.make_vec("SafeCartpole-PGP-v0", num_envs=num_envs, preset=preset, steps_per_batch=steps)
    agent = cmx.agents.PGP(env, seed=seed)
    tracker = cmx.wrappers.find_tracker(env)
    clock = Clock()
    clock.watch("simulation", env.unwrapped, "step")
    clock.watch("density", tracker, "close", "points")
    clock.watch("acting", agent.learner, "sample_with_log_prob", "to_env")
    clock.watch("update", agent, "_update")
    filling = 1 + -(-tracker.estimator.buffer_size // steps)
    agent.learn(iterations=filling, planned=filling + iterations)
    rows: list[dict[str, float]] = []
    begun = time.perf_counter()

    def record(*_: Any) -> None:
        nonlocal begun
        now = time.perf_counter()
        rows.append({"total": now - begun, **clock.seconds})
        clock.seconds.clear()
        begun = now

    clock.seconds.clear()
    begun = time.perf_counter()
    agent.learn(iterations=iterations, callback=record)
    env.close()
    result = {name: median(row[name] for row in rows) for name in ("total", *PARTS)}
    result["rest"] = median(row["total"] - sum(row[part] for part in PARTS) for row in rows)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", choices=("paper", "default"), default=["paper", "default"])
    parser.add_argument("--steps", nargs="+", type=int, default=[4096, 8192], help="steps of an iteration")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=20, help="iterations that are timed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{options.num_envs} environments, {torch.get_num_threads()} torch threads, median of {options.iterations}")
    print(f"{'preset':10}{'steps':>7}{'s/iteration':>13}" + "".join(f"{part:>12}" for part in (*PARTS, "rest")))
    for preset in options.presets:
        for steps in options.steps:
            seconds = profile(
                preset, steps=steps, num_envs=options.num_envs, iterations=options.iterations, seed=options.seed
            )
            shares = "".join(f"{seconds[part] / seconds['total']:12.0%}" for part in (*PARTS, "rest"))
            line = f"{preset:10}{steps:7}{seconds['total']:13.3f}{shares}"
            if preset == "paper" and steps == 4096:
                line += f"   target ≤ {TARGET:g} s: {'met' if seconds['total'] <= TARGET else 'MISSED'}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
