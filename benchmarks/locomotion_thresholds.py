"""How often exploration without limits breaks the walking robots' default thresholds.

    python benchmarks/locomotion_thresholds.py                     # uniform actions
    python benchmarks/locomotion_thresholds.py --iterations 15     # and what PGP explores, of 8000 steps each

The thresholds are chosen so that either breaks each in 20 to 40 % of its steps, if one number can do that. Beside the
shares stand the thresholds that would be broken in 40, 30 and 20 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.agents import PGP
from constrained_maxent.envs.locomotion import ANT, HALF_CHEETAH, HUMANOID, UNITS, Robot, measured

ROBOTS = {"HalfCheetah": HALF_CHEETAH, "Ant": ANT, "Humanoid": HUMANOID}
COPIES = 64  # each plays one episode


def episodes(name: str, robot: Robot, act: Callable[[NDArray[Any]], NDArray[Any]]) -> dict[str, NDArray[np.float64]]:
    """What costs, at all steps of fresh episodes."""
    env: Any = gym.make_vec(
        f"Safe{name}-v0", num_envs=COPIES, costs=list(UNITS), exclude_current_positions_from_observation=False
    ).unwrapped
    observations, _ = env.reset(seed=1)
    rows = []
    for _ in range(env.horizon):
        rows.append(measured(env.states, robot=robot))
        observations, *_ = env.step(act(observations))
    env.close()
    return {key: np.concatenate([row[key] for row in rows]) for key in UNITS}


def report(title: str, robot: Robot, found: dict[str, NDArray[np.float64]]) -> None:
    print(title)
    for key, values in found.items():
        low = key == "height"
        limit = robot.limits[key]
        share = np.mean(values < limit if low else values > limit)
        others = np.quantile(values, [0.4, 0.3, 0.2] if low else [0.6, 0.7, 0.8])
        listed = ", ".join(f"{value:.2f}" for value in others)
        print(f"  {key:8}{limit:6.2f} {UNITS[key]:5}{share:7.1%} of steps; 40, 30, 20 % at {listed}", flush=True)


def measure(name: str, *, iterations: int, seed: int) -> None:
    robot, generator = ROBOTS[name], np.random.default_rng(seed)
    env: Any = gym.make_vec(f"Safe{name}-PGP-v0", num_envs=8, limit=1.0)  # a share of steps, which is at most 1
    low, high = env.single_action_space.low, env.single_action_space.high
    uniform = episodes(name, robot, lambda _: generator.uniform(low, high, (COPIES, len(low))))
    report(f"{name}, uniform", robot, uniform)
    if iterations:
        agent = PGP(env, seed=seed).learn(iterations=iterations)
        explored = episodes(name, robot, lambda observations: agent.predict(observations)[0])
        report(f"{name}, {agent.timesteps:,} steps of PGP", robot, explored)
    env.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", nargs="+", default=list(ROBOTS), choices=list(ROBOTS))
    parser.add_argument("--iterations", type=int, default=0, help="of a training without limits")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.robot:
        measure(name, iterations=options.iterations, seed=options.seed)


if __name__ == "__main__":
    main()
