"""How fast the vector engine steps, beside MuJoCo's open-loop rollout and what else steps the same models.

    python benchmarks/mujoco_vector.py
    python benchmarks/mujoco_vector.py --model HalfCheetah Ant Humanoid --num-envs 64 --steps 40

The cartpole stands beside dm_control through Shimmy, Gymnasium's robots beside Gymnasium's own ``SyncVectorEnv``. All
step the same model from the same states by the same random actions, in turns, so that whatever else the machine does
hits all alike. Open loop, MuJoCo is handed the actions of a whole round at once and returns bare states: nobody could
choose an action by what was observed. Closed loop, every step returns observations, rewards, costs and infos. Each
speed and ratio is the median over rounds; the threads are as many in both loops. Beside other work, look at the
processor's time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from dm_control import suite
from mujoco import MjData, MjModel, rollout
from numpy.typing import NDArray
from shimmy import DmControlCompatibilityV0

from constrained_maxent.envs import MujocoVectorEnv, SafeCartpole, SafeCartpoleVector

OPEN_LOOP_TARGET, SHIMMY_TARGET, SYNC_TARGET = 0.70, 15.0, 1.5
ROBOTS = ("HalfCheetah", "Ant", "Humanoid")
FRAME_SKIP = 5  # of the robots
OPEN, CLOSED, SYNC = "MuJoCo, open loop", "vector, closed loop", "Gymnasium's SyncVectorEnv"
SYNC_COPIES = 8  # it steps one after the other, however many


class Contender(NamedTuple):
    """What runs a round, how many steps that is, and what is reset before it, untimed."""

    run: Callable[[], None]
    n_steps: int
    env: gym.vector.VectorEnv | None = None


Race = tuple[dict[str, Contender], dict[str, tuple[str, float]]]
"""Contenders by name; and by title, which one the vector is held against, and the target."""


def open_loop(
    env: MujocoVectorEnv, model: MjModel, actions: NDArray[np.float64], frame_skip: int
) -> Callable[[], None]:
    """MuJoCo's rollout of ``actions`` (n_steps, n, nu), with memory of its own for the results."""
    n = env.num_envs
    states = env.states
    initial = np.concatenate([np.zeros((n, 1)), states.qpos, states.qvel], axis=1)
    control = np.repeat(np.ascontiguousarray(actions.swapaxes(0, 1)), frame_skip, axis=1)
    n_steps = control.shape[1]
    results, sensors = np.empty((n, n_steps, initial.shape[1])), np.empty((n, n_steps, 0))
    pool = rollout.Rollout(nthread=0 if env.threads == 1 else env.threads)
    models, scratch = [model] * n, [MjData(model) for _ in range(env.threads)]

    def run() -> None:
        pool.rollout(
            models, scratch, initial, control, nstep=n_steps, skip_checks=True, state=results, sensordata=sensors
        )

    return run


def closed_loop(env: gym.vector.VectorEnv, actions: NDArray[np.float64]) -> Callable[[], None]:
    def run() -> None:
        for row in actions:
            env.step(row)

    return run


def scalar_loop(env: gym.Env, actions: NDArray[np.float64]) -> Callable[[], None]:
    env.reset(seed=0)

    def run() -> None:
        for action in actions:
            *_, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return run


def cartpole(options: argparse.Namespace) -> Race:
    env = SafeCartpoleVector(options.num_envs, threads=options.threads)
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    actions = generator.uniform(-1.0, 1.0, size=(options.steps, options.num_envs, 1))
    single = generator.uniform(-1.0, 1.0, size=(options.scalar_steps, 1))
    model = suite.load("cartpole", "swingup").physics.model.ptr
    shimmy = DmControlCompatibilityV0(suite.load("cartpole", "swingup"))
    n_steps = options.steps * options.num_envs
    contenders = {
        OPEN: Contender(open_loop(env, model, actions, 1), n_steps),
        CLOSED: Contender(closed_loop(env, actions), n_steps, env),
        "SafeCartpole": Contender(scalar_loop(SafeCartpole(), single), options.scalar_steps),
        "dm_control through Shimmy": Contender(scalar_loop(shimmy, single), options.scalar_steps),
    }
    return contenders, {
        "vector / open loop": (OPEN, OPEN_LOOP_TARGET),
        "vector / Shimmy": ("dm_control through Shimmy", SHIMMY_TARGET),
    }


def robot(name: str, options: argparse.Namespace) -> Race:
    env = gym.make_vec(f"Safe{name}-v0", num_envs=options.num_envs, threads=options.threads)
    env.reset(seed=0)
    # Episodes do not end in either: what a fallen robot costs in simulation, it costs both.
    leave_out = {} if name == "HalfCheetah" else {"terminate_when_unhealthy": False}
    theirs = gym.make_vec(f"{name}-v5", num_envs=SYNC_COPIES, vectorization_mode="sync", **leave_out)
    env.action_space.seed(0)
    actions = np.stack([env.action_space.sample() for _ in range(options.steps)]).astype(np.float64)
    model = gym.make(f"{name}-v5").unwrapped.model
    n_steps = options.steps * options.num_envs
    few = actions[:, :SYNC_COPIES].astype(np.float32)
    contenders = {
        OPEN: Contender(open_loop(env.unwrapped, model, actions, FRAME_SKIP), n_steps),
        CLOSED: Contender(closed_loop(env, actions), n_steps, env),
        SYNC: Contender(closed_loop(theirs, few), options.steps * SYNC_COPIES, theirs),
    }
    return contenders, {
        "vector / open loop": (OPEN, OPEN_LOOP_TARGET),
        "vector / SyncVectorEnv": (SYNC, SYNC_TARGET),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=["cartpole"], choices=["cartpole", *ROBOTS])
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200, help="steps of each environment in a round")
    parser.add_argument("--scalar-steps", type=int, default=1000, help="the same for a single environment")
    parser.add_argument("--threads", type=int, help="one per core unless given")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for name in options.model:
        contenders, comparisons = cartpole(options) if name == "cartpole" else robot(name, options)
        speeds: dict[str, list[float]] = {contender: [] for contender in contenders}
        busy: dict[str, list[float]] = {contender: [] for contender in contenders}
        for _ in range(options.rounds):
            for contender, (run, n_steps, env) in contenders.items():
                if env is not None:
                    env.reset(seed=0)
                begun, used = time.perf_counter(), time.process_time()
                run()
                busy[contender].append((time.process_time() - used) / n_steps)
                speeds[contender].append(n_steps / (time.perf_counter() - begun))

        print(f"{name}: {options.num_envs} environments, median of {options.rounds} rounds")
        for contender, values in speeds.items():
            used = 1e6 * median(busy[contender])
            print(f"{contender:34}{median(values):12,.0f} steps/s{used:10.1f} µs of a processor")
        for title, (divisor, target) in comparisons.items():
            ratio = median(a / b for a, b in zip(speeds[CLOSED], speeds[divisor], strict=True))
            print(f"{title:34}{ratio:12.2f} ×   target ≥ {target:g} ×: {'met' if ratio >= target else 'MISSED'}")


if __name__ == "__main__":
    main()
