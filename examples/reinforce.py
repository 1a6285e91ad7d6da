"""An agent of one's own: REINFORCE on pseudo-rewards, with a softmax table, in NumPy.

The wrappers say when a batch is complete and what its steps earned; a ``Collector`` steps the environment until then
and hands over a ``Rollout``. What is left to the agent is its policy and how it climbs.

    python examples/reinforce.py
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from scipy.special import softmax

import constrained_maxent as cmx


class SoftmaxTable:
    """π(a|s) as a table: what a ``Collector`` needs of a policy that acts on finite observations."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.theta = np.zeros((n_states, n_actions))

    def sample(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        cumulative = softmax(self.theta[rows], axis=1).cumsum(axis=1)
        return (cumulative[:, :-1] <= rng.random((len(rows), 1))).sum(axis=1)

    def to_env(self, raw: np.ndarray) -> np.ndarray:
        return raw

    def gradient(self, rollout: cmx.agents.Rollout) -> np.ndarray:
        """Σ_t (Σ_{k≥t} w_k r_k) ∇log π(a_t|s_t) per episode: the policy gradient of Algorithm 1."""
        factors, bounds = np.zeros_like(self.theta), np.cumsum(rollout.lengths)[:-1]
        for states, actions, earned in zip(
            *(
                np.split(column, bounds)
                for column in (rollout.rows, rollout.actions, rollout.weights * rollout.rewards)
            ),
            strict=True,
        ):
            np.add.at(factors, (states, actions), earned[::-1].cumsum()[::-1])
        policy = softmax(self.theta, axis=1)
        return (factors - policy * factors.sum(axis=1, keepdims=True)) / rollout.n_episodes


def train(env: gym.Env | gym.vector.VectorEnv, *, iterations: int, learning_rate: float, seed: int) -> SoftmaxTable:
    collector, rng = cmx.agents.Collector(env), np.random.default_rng(seed)
    collector.tracker.announce(iterations=iterations)
    policy = SoftmaxTable(collector.observation_space.n, collector.action_space.n)
    for iteration in range(iterations):
        collector.restart(seed=cmx.seeds.derived_seed(seed, iteration))
        policy.theta += learning_rate * policy.gradient(collector.collect(policy, rng))
    return policy


if __name__ == "__main__":
    lake = gym.make_vec("FrozenLake-PGP-v0", num_envs=8, preset="paper")
    learnt = train(lake, iterations=5000, learning_rate=0.01, seed=0)
    exact = cmx.evaluation.ExactProblem.from_env(lake)
    for name, value in (
        ("uniform", exact.evaluate_uniform()),
        ("learnt", exact.evaluate(softmax(learnt.theta, axis=1))),
    ):
        print(f"{name}: entropy {value.objective:.2f} nats, cost - limit {value.constraints['cost']:+.2f}")
