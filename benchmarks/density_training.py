"""What training with each density reaches in many coordinates: HalfCheetah (17) and Ant (27), the entropy of the state.

    python benchmarks/density_training.py HalfCheetah-v5 --densities "16 full Gaussians" --iterations 20

The yardstick is that of fresh episodes of the last policy by nearest neighbors of other episodes, in the coordinates as
they are, the same for all and for uniformly random actions. Episodes have 500 steps and do not end early.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import gymnasium as gym
import torch
from densities import DENSITIES  # of this folder

import constrained_maxent as cmx

SETTINGS: dict[str, dict[str, Any]] = {
    "HalfCheetah-v5": {},
    "Ant-v5": {"terminate_when_unhealthy": False, "include_cfrc_ext_in_observation": False},
}


def stack(name: str, density: str, copies: int) -> gym.vector.VectorEnv[Any, Any, Any]:
    env = gym.make_vec(name, num_envs=copies, vectorization_mode="sync", max_episode_steps=500, **SETTINGS[name])
    return cmx.wrappers.constrain(
        env,
        cmx.functionals.Entropy(over="state"),
        estimator=DENSITIES[density](),
        episodes_per_batch=copies,
        discount=1.0,
    )


def entropy_of(env: Any, agent: Any, episodes: int) -> str:
    return str(cmx.evaluation.evaluate_rollouts(env, agent, n_episodes=episodes, seed=99).states.entropy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=list(SETTINGS))
    parser.add_argument("--densities", nargs="+", choices=list(DENSITIES), default=list(DENSITIES))
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--copies", type=int, default=16, help="of 500 steps a batch each")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    env = stack(options.env, "neighbors, k = 4", options.copies)
    uniform = cmx.evaluation.UniformActions(env, seed=options.seed)
    print(f"{options.env}, uniformly random actions: {entropy_of(env, uniform, options.copies)} nats", flush=True)
    for density in options.densities:
        env = stack(options.env, density, options.copies)
        agent = cmx.agents.PGP(env, seed=options.seed, return_discount=0.99, averaging=0.9)
        begun = time.process_time()
        agent.learn(iterations=options.iterations)
        seconds = time.process_time() - begun
        reached = entropy_of(env, agent, options.copies)
        print(f"{density}: {reached} nats after {agent.timesteps} steps, {seconds:.0f} s", flush=True)
        env.close()


if __name__ == "__main__":
    main()
