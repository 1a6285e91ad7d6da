"""Off-policy agents of Stable-Baselines3 on Pendulum, with rewards computed anew and without, beside PPO and PGP.

    python benchmarks/off_policy.py --steps 30000 --seeds 0 1

Every agent takes the same number of steps of eight copies, in batches of eight episodes, and maximizes the entropy of
angle and angular velocity while at most 5 % of the steps may spin faster than 4 rad/s. Printed is what 64 fresh
episodes of the last policy show: the entropy of the state at a random step, by nearest neighbors, and that of λ̂ [nats];
the share of fast steps; visited cells of 24 x 24; and the time of the training [s].
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO, SAC

import constrained_maxent as cmx
from constrained_maxent.adapters import sb3
from constrained_maxent.evaluation import Grid, StateMeasures, evaluate_rollouts

COPIES = 8
LIMIT = 0.05
MEASURES = StateMeasures(grid=Grid((-math.pi, -8.0), (math.pi, 8.0), (24, 24)))
NETWORKS = {"net_arch": [64, 64]}
AGENTS = ("random", "PGP", "PPO", "SAC", "TQC", "SAC, stale rewards", "TQC, stale rewards")


def angle(observation: Any) -> tuple[float, float]:
    return math.atan2(observation[1], observation[0]), observation[2]


def spins_fast(observation: Any, action: Any, next_observation: Any) -> float:
    return float(abs(observation[2]) > 4.0)


def make(*, is_live: bool) -> Any:
    env = gym.make_vec("Pendulum-v1", num_envs=COPIES, vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})
    return cmx.wrappers.constrain(
        env,
        cmx.functionals.Entropy(over="state"),
        {
            "fast": cmx.problem.Constraint(
                cmx.functionals.LinearCost(spins_fast, limit=LIMIT),
                cmx.penalties.AdaptiveLagrangian(3.0, 60.0, largest_violation=0.0),
            )
        },
        estimator=cmx.occupancy.GaussianMixture(n_components=16, periodic=(0,), buffer_size=8000),
        state=angle,
        episodes_per_batch=COPIES,
        discount=1.0,
        pairing="previous" if is_live else "same",
        normalize_reward=is_live,
    )


def train(kind: str, steps: int, seed: int) -> tuple[Any, Any]:
    """The environment and an agent that was trained on it."""
    if kind in ("random", "PGP"):
        env = make(is_live=False)
        # So few batches an average of iterates would lag behind.
        rates = {"learning_rate": 1e-3, "final_learning_rate": 3e-5}
        agent = cmx.agents.PGP(env, seed=seed, averaging=0.0, hidden_sizes=(64, 64), **rates)
        return env, agent if kind == "random" else agent.learn(total_timesteps=steps)
    venv = sb3.VecEnv(make(is_live=True))
    common: dict[str, Any] = {"seed": seed, "device": "cpu", "policy_kwargs": dict(NETWORKS)}
    if kind == "PPO":
        model: Any = PPO(
            "MlpPolicy", venv, n_steps=200, batch_size=400, n_epochs=10, learning_rate=1e-3, gamma=0.99, **common
        )
    else:
        algorithm, _, stale = kind.partition(", ")
        if algorithm == "SAC":
            chosen: Any = SAC
        else:
            from sb3_contrib import TQC as chosen
        model = chosen(
            "MlpPolicy",
            venv,
            learning_starts=1600,
            learning_rate=1e-3,
            gamma=0.99,
            buffer_size=steps,
            train_freq=1,
            gradient_steps=2,
            replay_buffer_class=None if stale else sb3.OccupancyReplayBuffer,
            **common,
        )
    model.learn(steps, callback=sb3.OccupancyCallback(verbose=0))
    return venv.env, sb3.as_agent(model, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=AGENTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", cmx.errors.StaleRewards)  # it is what is compared
    print("| agent | seed | H(d) (nats) | H(λ̂) (nats) | fast steps | cells | time (s) |\n| --- |" + " ---: |" * 6)
    for seed in options.seeds:
        for kind in options.agents:
            np.random.seed(seed)  # noqa: NPY002  # by which Stable-Baselines3 samples
            begun = time.perf_counter()
            env, agent = train(kind, options.steps, seed)
            took = time.perf_counter() - begun
            fresh = evaluate_rollouts(env, agent, n_episodes=64, seed=1000 + seed, measures=MEASURES)
            figures = fresh.figures()
            cells = next(value for name, value in figures.items() if name.startswith("grid cells visited, share"))
            cost = next(value for name, value in figures.items() if name.endswith("mean per step"))
            print(
                f"| {kind} | {seed} | {figures['state entropy (nats)'].mean:.2f} | {fresh.objective.mean:.2f} "
                f"| {cost.mean:.3f} | {cells.mean:.0%} | {took:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
