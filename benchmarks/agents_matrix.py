"""Which agents of which libraries run on which form of a stack, and what Stable-Baselines3 pays for ours.

    python benchmarks/agents_matrix.py [--only tianshou skrl] [--without-throughput]

Each cell trains PPO on the grid for a few batches, by the library's own collector and update. Where the pairing of a
library and a form is refused, the cell says by which error, that of a worker process included. Prints Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

import constrained_maxent as cmx
from constrained_maxent.errors import SeparateEstimates

BARE, STACK = "SafeFrozenLake-v0", "FrozenLake-PGP-v0"
N_COPIES, STEPS = 4, 800
SETTINGS: dict[str, Any] = {"pairing": "previous", "episodes_per_batch": N_COPIES}


def example(name: str) -> Any:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def scalar() -> gym.Env:
    return gym.make(f"constrained_maxent:{STACK}", **SETTINGS)  # a worker may not have imported it


def vector(mode: AutoresetMode) -> gym.vector.VectorEnv:
    return gym.make_vec(STACK, num_envs=N_COPIES, autoreset_mode=mode, **SETTINGS)


def processes(mode: AutoresetMode) -> gym.vector.VectorEnv:
    """One stack around copies in processes of their own."""
    cost = cmx.problem.Constraint(cmx.functionals.LinearCost("cost", limit=0.0), cmx.penalties.Quadratic(0.01))
    env = AsyncVectorEnv([lambda: gym.make(BARE)] * N_COPIES, autoreset_mode=mode)
    return cmx.wrappers.constrain(env, constraints={"cost": cost}, scale="truncated", **SETTINGS)


def stacks_in_processes(mode: AutoresetMode) -> gym.vector.VectorEnv:
    return AsyncVectorEnv([scalar] * N_COPIES, autoreset_mode=mode)


# How each library learns, given a stack.


def pgp(env: Any) -> None:
    cmx.agents.PGP(env, seed=0).learn(total_timesteps=STEPS)


def single_file(env: Any) -> None:
    ppo = example("ppo")
    ppo.train(env, ppo.Settings(total_timesteps=STEPS), log_every=10**9)


def stable_baselines(env: Any) -> None:
    from stable_baselines3 import PPO

    is_vector = isinstance(env, gym.vector.VectorEnv)
    PPO("MlpPolicy", cmx.adapters.sb3.VecEnv(env) if is_vector else env, n_steps=50, batch_size=50).learn(STEPS)


def stable_baselines_processes(_: AutoresetMode) -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import SubprocVecEnv

    PPO("MlpPolicy", SubprocVecEnv([scalar] * N_COPIES), n_steps=50, batch_size=50).learn(STEPS)


def tianshou(env: Any) -> None:
    example("tianshou_ppo").train(env, STEPS)


def tianshou_processes(_: AutoresetMode) -> None:
    from tianshou.env import SubprocVectorEnv

    SubprocVectorEnv([scalar] * N_COPIES).reset()


def skrl(env: Any) -> None:
    example("skrl_ppo").train(env, STEPS)


def torchrl(env: Any) -> None:
    example("torchrl_ppo").train(env, STEPS)


def torchrl_processes(_: AutoresetMode) -> None:
    from torchrl.envs import GymWrapper, ParallelEnv

    ParallelEnv(N_COPIES, lambda: GymWrapper(scalar())).reset()


def rllib(make: Callable[[], Any]) -> int:
    """Batches closed by the algorithm's own runner, which makes its environment itself."""
    from constrained_maxent.adapters import rllib

    config = rllib.config(lambda _: make(), num_env_runners=0, num_envs_per_env_runner=N_COPIES, timesteps=STEPS)
    algorithm = config.build_algo()
    for _ in range(4):
        figures = algorithm.train()["occupancy"]
    algorithm.stop()
    return int(figures["iteration"]) + 1


def rllib_processes(_: AutoresetMode) -> None:
    """RLlib's own way: a scalar stack in each of two runners."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.tune.registry import register_env

    # RLlib has no network of its own for Discrete observations.
    register_env("a stack in each runner", lambda _: gym.wrappers.FlattenObservation(scalar()))
    config = PPOConfig().environment("a stack in each runner").env_runners(num_env_runners=2)
    algorithm = config.env_runners(num_cpus_per_env_runner=0.5).build_algo()
    algorithm.train()


NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED

LIBRARIES: dict[str, tuple[str, Callable[[Any], Any], AutoresetMode, Callable[[AutoresetMode], None] | None]] = {
    "PGP": ("torch", pgp, NEXT_STEP, None),
    "examples/ppo.py": ("torch", single_file, NEXT_STEP, None),
    "Stable-Baselines3": ("stable_baselines3", stable_baselines, SAME_STEP, stable_baselines_processes),
    "RLlib": ("ray", rllib, NEXT_STEP, rllib_processes),
    "Tianshou": ("tianshou", tianshou, DISABLED, tianshou_processes),
    "skrl": ("skrl", skrl, SAME_STEP, None),
    "TorchRL": ("torchrl", torchrl, DISABLED, torchrl_processes),
}
"""By name: the module, how it learns, the mode that it is best given, and its own processes, if not Gymnasium's."""


def outcome(learn: Callable[[Any], Any], make: Callable[[], Any]) -> str:
    """What a cell says: whether batches were closed and learnt from, or by which error the pairing is refused."""
    env = None
    with warnings.catch_warnings(record=True) as caught, what_workers_say() as said:
        warnings.simplefilter("always")
        try:
            if learn is rllib:
                n_batches = rllib(make)
            else:
                env = make()
                learn(env)
                n_batches = cmx.wrappers.find_tracker(env).iteration
        except Exception as error:
            # A worker process tells its error in words, if at all.
            is_ours = any(SeparateEstimates.__name__ in text for text in (str(error), *said()))
            return f"refused: `{SeparateEstimates.__name__ if is_ours else type(error).__name__}`"
        else:
            # RLlib starts runners that were refused again and again.
            if n_batches == 0 and any(SeparateEstimates.__name__ in text for text in said()):
                return f"refused: `{SeparateEstimates.__name__}`"
        finally:
            if env is not None:
                env.close()
    if any(issubclass(warning.category, SeparateEstimates) for warning in caught):
        return f"warns: `{SeparateEstimates.__name__}`"
    return "works" if n_batches >= 3 else f"FAILS: {n_batches} batches"


@contextmanager
def what_workers_say() -> Iterator[Callable[[], list[str]]]:
    """Standard error of this process and its children, by lines."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)

        def said() -> list[str]:
            time.sleep(0.5)  # until a worker that dies has said why
            file.seek(0)
            return file.read().decode(errors="replace").splitlines()

        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def row(name: str) -> list[str]:
    _, learn, best, own_processes = LIBRARIES[name]
    cells = ["—" if name == "examples/ppo.py" else outcome(learn, scalar)]
    cells += [outcome(learn, lambda mode=mode: vector(mode)) for mode in AutoresetMode]
    cells.append(outcome(learn, lambda: processes(best)))
    if own_processes is None:
        cells.append(outcome(learn, lambda: stacks_in_processes(best)))
    else:
        cells.append(outcome(lambda _: own_processes(best), lambda: vector(best)))
    return cells


def throughput(env_ids: dict[str, str], num_envs: int, steps: int, rounds: int) -> None:
    """Steps per second of processor time of Stable-Baselines3 over our ``VecEnv`` and over its own of bare copies.

    They take turns, and processor time is what else the machine does to neither.
    """
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    heads = [f"{run}{of}" for run in ("steps: ", "PPO: ") for of in ("DummyVecEnv of bare copies", "VecEnv", "ratio")]
    print(f"\n| {num_envs} copies, steps per processor second | {' | '.join(heads)} |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for bare, stack in env_ids.items():
        venvs = [
            DummyVecEnv([lambda bare=bare: gym.make(bare)] * num_envs),
            cmx.adapters.sb3.VecEnv(stack, num_envs=num_envs, iterations=10**6),
        ]
        models = [PPO("MlpPolicy", venv, n_steps=128, batch_size=1024, n_epochs=4, device="cpu") for venv in venvs]
        for venv in venvs:
            venv.reset()
        cells = []
        for run in (_random_steps, _learn):
            times = [
                [run(venv, model, steps) for venv, model in zip(venvs, models, strict=True)] for _ in range(rounds)
            ]
            theirs, ours = (median(column) for column in zip(*times, strict=True))
            ratio = median(own / other for other, own in times)
            cells += [f"{theirs:,.0f}", f"{ours:,.0f}", f"{ratio:.1f}"]
        print(f"| `{stack}` | {' | '.join(cells)} |", flush=True)


def _random_steps(venv: Any, _: Any, steps: int) -> float:
    actions = [np.stack([venv.action_space.sample() for _ in range(venv.num_envs)]) for _ in range(100)]
    begun = time.process_time()
    for i in range(steps // venv.num_envs):
        venv.step(actions[i % 100])
    return steps / (time.process_time() - begun)


def _learn(_: Any, model: Any, steps: int) -> float:
    begun = time.process_time()
    model.learn(steps, reset_num_timesteps=False)
    return steps / (time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*LIBRARIES, "throughput"], default=[*LIBRARIES, "throughput"])
    parser.add_argument("--steps", type=int, default=20_480, help="of each round of the throughput")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    heads = ["scalar", *(mode.name for mode in AutoresetMode), "copies in processes", "a stack in each process"]
    print(f"| library | {' | '.join(heads)} |")
    print(f"| --- |{' --- |' * len(heads)}")
    for name in LIBRARIES:
        if name in options.only:
            installed = find_spec(LIBRARIES[name][0]) is not None
            if installed and name == "RLlib":
                import ray

                ray.init(num_cpus=N_COPIES)  # beforehand: that Ray cannot start here says nothing of a form
            cells = row(name) if installed else ["not installed"] * len(heads)
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    if "throughput" in options.only and find_spec("stable_baselines3") is not None:
        control = {"SafeCartpole-v0": "SafeCartpole-PGP-v0"}
        throughput({BARE: STACK} | control, 16, options.steps, options.rounds)


if __name__ == "__main__":
    main()
