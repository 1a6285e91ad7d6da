"""Policies of tasks, learnt from a data set alone, and what they do in the environment."""

from __future__ import annotations

import os
import subprocess
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from constrained_maxent.reproduction.explore_then_learn import offline
from constrained_maxent.reproduction.explore_then_learn.data import Episodes
from constrained_maxent.reproduction.explore_then_learn.tasks import Reward, World
from constrained_maxent.types import FloatArray

HIDDEN = 128
"""Of both layers of each network."""

EPISODES = 20
"""Fresh ones that a policy is measured in."""

FRESH_SEED = 10_000


def require_d3rlpy(python: Path) -> None:
    """Raise ``DependencyNotInstalled`` unless that Python has d3rlpy and h5py."""
    try:
        subprocess.run([python, "-I", "-c", "import d3rlpy, h5py"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = error.stderr.strip().splitlines()[-1] if isinstance(error, subprocess.CalledProcessError) else error
        raise DependencyNotInstalled(
            f"{python} is no Python with d3rlpy ({reason}). d3rlpy takes another Gymnasium than this package, and so "
            "an environment of its own: run `python3 -m venv d3rlpy-venv && d3rlpy-venv/bin/pip install d3rlpy==2.8.1` "
            "and give --python d3rlpy-venv/bin/python."
        ) from error


def relabelled(episodes: Episodes, reward: Reward) -> FloatArray:
    """The rewards of all steps, one episode after the other: of the observations that they led to, ``(n,)``."""
    return np.concatenate([reward(observations[1:]) for observations in episodes.observations])


def learn(world: World, episodes: Episodes, folder: Path, *, python: Path, steps: int, seed: int) -> None:
    """Learn each task from the episodes, and write ``<task>.pt``.

    Raises:
        RuntimeError: d3rlpy failed; with what it said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rewards = folder / "rewards.npz"
    tasks: dict[str, Any] = {name: relabelled(episodes, reward) for name, reward in world.tasks.items()}
    np.savez(rewards, episodes=np.array(episodes.numbers), **tasks)
    numbers = {"--hidden": HIDDEN, "--steps": steps, "--seed": seed}
    options = [str(word) for option in numbers.items() for word in option]
    # Apart from this package's environment: -I hears no PYTHONPATH.
    done = subprocess.run(
        [python, "-I", offline.__file__, episodes.file, rewards, folder, *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    rewards.unlink()
    if done.returncode:
        raise RuntimeError(f"d3rlpy failed:\n{done.stderr.strip()[-2000:]}")


def measured_return(world: World, task: str, policy: Path) -> dict[str, float]:
    """Fresh episodes of a policy: the mean reward of a step, how episodes differ in it, and what it costs."""
    with warnings.catch_warnings():
        # PyTorch has other plans, but TorchScript is what d3rlpy writes.
        warnings.filterwarnings("ignore", "`torch.jit.load` is", DeprecationWarning)
        act: Any = torch.jit.load(str(policy))  # type: ignore[no-untyped-call]
    rewards: list[FloatArray] = []
    costs: list[NDArray[Any]] = []
    env = gym.make_vec(world.env_id, num_envs=EPISODES, threads=1, **world.arguments)
    with closing(env), torch.no_grad():
        observations, _ = env.reset(seed=FRESH_SEED)
        is_over = np.zeros(EPISODES, dtype=bool)
        while not is_over.any():  # all of them last as long
            actions = act(torch.as_tensor(observations, dtype=torch.float32)).numpy()
            observations, _, terminated, truncated, infos = env.step(actions)
            rewards.append(world.tasks[task](observations.astype(np.float64)))
            costs.append(np.asarray(infos["cost"], dtype=np.float64))
            is_over = terminated | truncated
    returns = np.mean(rewards, axis=0)
    return {
        "return": float(returns.mean()),
        "spread": float(returns.std(ddof=1)),
        "share": float((np.array(costs) > 0.0).mean()),
        "cost": float(np.mean(costs)),
    }
