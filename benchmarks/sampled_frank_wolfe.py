"""Frank–Wolfe from rollouts on the paper's grid: its mixture of policies, evaluated exactly.

    python benchmarks/sampled_frank_wolfe.py --policies 40

Prints the number of policies, the transitions, and the mixture's entropy and cost.
"""

from __future__ import annotations

import argparse

import gymnasium as gym

from constrained_maxent.agents import FrankWolfe
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.functionals import Entropy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=int, default=40)
    parser.add_argument("--planning-batches", type=int, default=50)
    parser.add_argument("--beta", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    settings = {"preset": "paper", "episodes_per_batch": 16, "beta": options.beta}
    env = gym.make_vec("constrained_maxent:FrozenLake-PGP-v0", num_envs=16, **settings)
    agent = FrankWolfe(env, planning_batches=options.planning_batches, seed=options.seed)
    agent.learn(options.policies, progress_bar=True)
    exact, mixture = ExactProblem.from_env(env), agent.mixture()
    pairs = zip(mixture.weights, mixture.policies, strict=True)
    occupancy = sum(weight * exact.mdp.occupancy(policy, scale=exact.scale) for weight, policy in pairs)
    entropy, cost = Entropy(smoothing=0.0).value(occupancy), exact.constraints["cost"].value(occupancy)
    print(f"{len(mixture)} policies, {agent.timesteps:,} transitions: {entropy:.3f} nats at a cost of {cost:.3f}")


if __name__ == "__main__":
    main()
