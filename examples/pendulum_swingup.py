"""Vectorize another task of dm_control: `MujocoVectorEnv` asks for its model and a few functions of its states.

    python examples/pendulum_swingup.py

The pendulum's torque is too weak to lift it at once. Random torques hardly ever bring it up; a policy that always
pushes the way it is going does, and pays for the speed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np
from dm_control.suite import pendulum
from numpy.typing import NDArray

from constrained_maxent.envs import MujocoStates, MujocoVectorEnv

SPEED_LIMIT = 6.0  # [rad/s]
UPRIGHT = np.cos(np.deg2rad(8))  # what dm_control rewards


def observation(states: MujocoStates) -> NDArray[np.float64]:
    """Cosine and sine of the angle (0 is up), and its velocity: dm_control's own observation."""
    angle = states.qpos[:, 0]
    return np.stack([np.cos(angle), np.sin(angle), states.qvel[:, 0]], axis=1)


def reward(states: MujocoStates, controls: NDArray[np.float64], next_states: MujocoStates) -> NDArray[np.float64]:
    """1 when the pendulum has come up."""
    return (np.cos(next_states.qpos[:, 0]) >= UPRIGHT).astype(float)


def cost(states: MujocoStates, controls: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much the pendulum is too fast [rad/s]."""
    return np.maximum(np.abs(states.qvel[:, 0]) - SPEED_LIMIT, 0.0)


def start(generator: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At rest, at any angle."""
    return generator.uniform(-np.pi, np.pi, size=1), np.zeros(1)


def make(num_envs: int) -> MujocoVectorEnv:
    physics = pendulum.Physics.from_xml_string(*pendulum.get_model_and_assets())
    return MujocoVectorEnv(
        physics,
        num_envs,
        observation=observation,
        observation_space=gym.spaces.Box(-np.inf, np.inf, (3,), dtype=np.float32),
        start=start,
        reward=reward,
        cost=cost,
        time_limit=20.0,
    )


def run(
    env: MujocoVectorEnv, policy: Callable[[NDArray[np.float32]], NDArray[np.float64]], steps: int
) -> tuple[float, float]:
    """Mean reward and mean cost of a policy."""
    observations, _ = env.reset(seed=0)
    total_reward = total_cost = n = 0.0
    for _ in range(steps):
        observations, rewards, _, _, infos = env.step(policy(observations))
        # Where a call only resets a copy after its episode, there is no cost: `infos["_cost"]` is False.
        n += np.count_nonzero(infos["_cost"])
        total_reward += rewards.sum()
        total_cost += infos["cost"].sum()
    return total_reward / n, total_cost / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    env = make(options.num_envs)
    generator = np.random.default_rng(0)
    policies = {
        "random torques": lambda observations: generator.uniform(-1.0, 1.0, size=(env.num_envs, 1)),
        "push the way it goes": lambda observations: np.sign(observations[:, 2:]),
    }
    for name, policy in policies.items():
        begun = time.perf_counter()
        mean_reward, mean_cost = run(env, policy, options.steps)
        speed = options.steps * env.num_envs / (time.perf_counter() - begun)
        print(f"{name:22} upright {mean_reward:6.1%}  cost {mean_cost:6.3f} rad/s  {speed:9,.0f} steps/s")
    env.close()


if __name__ == "__main__":
    main()
