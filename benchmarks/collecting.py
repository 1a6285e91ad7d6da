"""How fast episodes become a data set, beside stepping the same policy without keeping anything.

    python benchmarks/collecting.py                # 128,000 steps a round more than the shorter collection
    python benchmarks/collecting.py --env-id SafeHalfCheetah-PGP-v0 --steps 64000

Each figure is a difference between a long and a short collection, so that what is done once (making environments,
loading the policy) drops out. The evaluation that goes into the metadata is timed by itself, as it runs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from constrained_maxent import runs
from constrained_maxent.adapters import minari
from constrained_maxent.agents.pytorch import threads_for
from constrained_maxent.runs import collecting
from constrained_maxent.runs.environments import make_copies
from constrained_maxent.runs.evaluation import make_evaluation_environment
from constrained_maxent.runs.training import load_config

COPIES = 64


def seconds(task: Callable[[], object]) -> float:
    begun = time.perf_counter()
    task()
    return time.perf_counter() - begun


def stepping(folder: runs.RunFolder, steps: int) -> float:
    """Seconds of so many steps of the policy, with episodes begun anew as they end."""
    env_id, settings = load_config(folder)
    stack = make_evaluation_environment(env_id, settings, 1)
    agent = runs.load_agent(folder, stack)
    with closing(make_copies(env_id, settings, COPIES)) as env, closing(stack):
        observations, _ = env.reset(seed=0)

        def step_all() -> None:
            nonlocal observations
            for _ in range(steps // COPIES):
                actions, _ = agent.predict(observations, deterministic=False)
                observations, _, terminated, truncated, _ = env.step(actions)
                done = terminated | truncated
                if done.any():
                    seeds = np.arange(COPIES).tolist()
                    observations, _ = env.reset(seed=seeds, options={"reset_mask": done})

        return seconds(step_all)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-id", default="SafeCartpole-PGP-v0")
    parser.add_argument("--steps", type=int, default=128_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    n, short = options.steps, COPIES * 1000
    ratios = []
    evaluating: list[float] = []

    def timed(task: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                return task(*given, **named)
            finally:
                evaluating.append(time.perf_counter() - begun)

        return run

    collecting.evaluate_batch, minari.batch = timed(collecting.evaluate_batch), timed(minari.batch)
    with tempfile.TemporaryDirectory() as place, threads_for(0):
        os.environ["MINARI_DATASETS_PATH"] = f"{place}/datasets"
        folder = runs.train(
            options.env_id, runs.TrainSettings(iterations=1), runs.RunFolder(Path(place) / "run")
        ).folder
        runs.collect(folder, "warm/up-v0", steps=short, num_envs=COPIES)  # what is loaded once belongs to no round
        for i in range(options.rounds):
            taken = {}
            for what, steps in (("short", short), ("long", short + n)):
                evaluating.clear()
                name = f"round{i}/{what}-v0"
                whole = seconds(lambda name=name, steps=steps: runs.collect(folder, name, steps=steps, num_envs=COPIES))
                taken[what] = whole - sum(evaluating), sum(evaluating)
            bare = stepping(folder, n)
            alone, evaluated = (taken["long"][k] - taken["short"][k] for k in (0, 1))
            ratios.append(bare / alone)
            print(
                f"{n:,} steps: {bare:.2f} s stepped alone, {alone:.2f} s collected "
                f"({ratios[-1]:.2f} of the speed), {evaluated:.2f} s evaluated",
                flush=True,
            )
    print(f"median {median(ratios):.2f} of the speed of stepping (aim: 0.8)")


if __name__ == "__main__":
    main()
