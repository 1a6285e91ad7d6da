"""How fast the vector engine steps SafeCartpole, beside MuJoCo's open-loop rollout and dm_control through Shimmy.

    python benchmarks/mujoco_vector.py

All three step dm_control's own model by the same random actions, in turns, so that whatever else the machine does hits
all alike. Open loop, MuJoCo is handed the actions of a whole round at once and returns bare states: nobody could choose
an action by what was observed. Closed loop, every step returns observations, rewards, costs and infos. Each speed and
ratio is the median over rounds; the threads are as many in both loops.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from dm_control import suite
from mujoco import MjData, rollout
from numpy.typing import NDArray
from shimmy import DmControlCompatibilityV0

from constrained_maxent.envs import SafeCartpole, SafeCartpoleVector

OPEN_LOOP_TARGET, SHIMMY_TARGET = 0.70, 15.0


def open_loop(env: SafeCartpoleVector, actions: NDArray[np.float64]) -> Callable[[], None]:
    """MuJoCo's rollout of ``actions`` (n_steps, n, nu), with memory of its own for the results."""
    n_steps, n, _ = actions.shape
    states = env.states
    initial = np.concatenate([np.zeros((n, 1)), states.qpos, states.qvel], axis=1)
    control = np.ascontiguousarray(actions.swapaxes(0, 1))
    results, sensors = np.empty((n, n_steps, initial.shape[1])), np.empty((n, n_steps, 0))
    pool = rollout.Rollout(nthread=0 if env.threads == 1 else env.threads)
    model = suite.load("cartpole", "swingup").physics.model.ptr
    models, scratch = [model] * n, [MjData(model) for _ in range(env.threads)]

    def run() -> None:
        pool.rollout(
            models, scratch, initial, control, nstep=n_steps, skip_checks=True, state=results, sensordata=sensors
        )

    return run


def closed_loop(env: SafeCartpoleVector, actions: NDArray[np.float64]) -> Callable[[], None]:
    def run() -> None:
        for row in actions:
            env.step(row)

    return run


def scalar_loop(env: SafeCartpole | DmControlCompatibilityV0, actions: NDArray[np.float64]) -> Callable[[], None]:
    env.reset(seed=0)

    def run() -> None:
        for action in actions:
            *_, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200, help="steps of each environment in a round")
    parser.add_argument("--scalar-steps", type=int, default=1000, help="the same for a single environment")
    parser.add_argument("--threads", type=int, help="one per core unless given")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()

    env = SafeCartpoleVector(options.num_envs, threads=options.threads)
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    actions = generator.uniform(-1.0, 1.0, size=(options.steps, options.num_envs, 1))
    single = generator.uniform(-1.0, 1.0, size=(options.scalar_steps, 1))
    contenders = {
        "MuJoCo, open loop": (open_loop(env, actions), options.steps * options.num_envs),
        "SafeCartpoleVector, closed loop": (closed_loop(env, actions), options.steps * options.num_envs),
        "SafeCartpole": (scalar_loop(SafeCartpole(), single), options.scalar_steps),
        "dm_control through Shimmy": (
            scalar_loop(DmControlCompatibilityV0(suite.load("cartpole", "swingup")), single),
            options.scalar_steps,
        ),
    }
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name, (run, n_steps) in contenders.items():
            begun = time.perf_counter()
            run()
            speeds[name].append(n_steps / (time.perf_counter() - begun))

    print(f"{options.num_envs} environments, {env.threads} threads, median of {options.rounds} rounds")
    for name, values in speeds.items():
        print(f"{name:34}{median(values):12,.0f} steps/s")
    bare, vector, _, shimmy = speeds.values()
    for name, divisor, target in (
        ("vector / open loop", bare, OPEN_LOOP_TARGET),
        ("vector / Shimmy", shimmy, SHIMMY_TARGET),
    ):
        ratio = median(a / b for a, b in zip(vector, divisor, strict=True))
        print(f"{name:34}{ratio:12.2f} ×   target ≥ {target:g} ×: {'met' if ratio >= target else 'MISSED'}")


if __name__ == "__main__":
    main()
