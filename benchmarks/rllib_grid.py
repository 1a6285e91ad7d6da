"""RLlib's PPO on the grid over one λ̂, evaluated exactly; with ``--kill`` a runner gets SIGKILL in the middle.

    python benchmarks/rllib_grid.py --runners 2 --copies 8
    python benchmarks/rllib_grid.py --runners 1 --copies 16
    python benchmarks/rllib_grid.py --runners 2 --copies 8 --kill

Settings are those of the preset ``"ppo"``.
"""

from __future__ import annotations

import argparse
import os
import signal
import time

import gymnasium as gym
import ray

import constrained_maxent as cmx


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runners", 2), ("copies", 8), ("seed", 0), ("timesteps", 400_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--kill", action="store_true")
    given = parser.parse_args()

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    config = cmx.adapters.rllib.config(
        "FrozenLake-PGP-v0",
        preset="ppo",
        num_env_runners=given.runners,
        num_envs_per_env_runner=given.copies,
        timesteps=given.timesteps,
    )
    config.env_runners(num_cpus_per_env_runner=0.5).debugging(seed=given.seed)
    algorithm = config.build_algo()
    exact = cmx.evaluation.ExactProblem.from_env(gym.make("FrozenLake-PGP-v0"))
    agent, begun, steps, victim = cmx.adapters.rllib.as_agent(algorithm), time.perf_counter(), 0, None
    while steps < given.timesteps:
        result = algorithm.train()
        steps = int(result["num_env_steps_sampled_lifetime"])
        if given.kill and victim is None and steps >= given.timesteps / 2:
            runners = algorithm.env_runner_group
            victim = runners.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)[0]
            os.kill(victim, signal.SIGKILL)
            print(f"killed a runner after {steps} steps", flush=True)
        if result["training_iteration"] % 100 == 0 or steps >= given.timesteps:
            value, log = exact.evaluate(agent.policy_table()), result["occupancy"]
            print(
                f"{steps} steps, {time.perf_counter() - begun:.0f} s: exact {value.objective:.2f} nats, cost "
                f"{value.constraints['cost']:.2f}; log {log['objective']:.2f}, {log['constraints']['cost']:.2f}; "
                f"{algorithm.env_runner_group.num_healthy_remote_workers()} runners",
                flush=True,
            )
    algorithm.stop()


if __name__ == "__main__":
    main()
