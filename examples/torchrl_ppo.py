"""TorchRL's parts, put together to PPO, on the grid: it takes a vector stack whose episodes it resets itself.

Its estimator of advantages does not bootstrap after ``terminated``: hence ``TerminalHorizon``. All copies share one
occupancy estimate. Exact values of the learnt policy are printed.

    python examples/torchrl_ppo.py
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from tensordict.nn import TensorDictModule
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import constrained_maxent as cmx
from constrained_maxent.adapters.horizon import TerminalHorizon

HORIZON, EPOCHS = 25, 4


class Network(torch.nn.Sequential):
    """Scores of a state's actions, or its value."""

    def __init__(self, n_outputs: int) -> None:
        super().__init__(torch.nn.Linear(36, 64), torch.nn.Tanh(), torch.nn.Linear(64, n_outputs))
        torch.nn.init.orthogonal_(self[0].weight, 2.0**0.5)  # one-hot states hardly differ by PyTorch's usual weights
        torch.nn.init.orthogonal_(self[2].weight, 0.01)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.nn.functional.one_hot(states, 36).float())


def train(stack: gym.vector.VectorEnv | gym.Env, total_timesteps: int = 400_000, seed: int = 0) -> np.ndarray:
    """π(a|s) as a table."""
    torch.manual_seed(seed)
    cmx.wrappers.find_tracker(stack).announce(timesteps=total_timesteps)
    is_vector = isinstance(stack, gym.vector.VectorEnv)
    env = GymWrapper(TerminalHorizon(stack) if is_vector else stack, categorical_action_encoding=True)
    env.set_seed(seed)
    network = Network(4)
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(Network(1), in_keys=["observation"])
    advantages = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic, entropy_bonus=False, normalize_advantage=True, critic_coeff=0.5)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    rollout_size = env.batch_size.numel() * HORIZON
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1 ** (rollout_size / total_timesteps))
    collector = Collector(env, actor, frames_per_batch=rollout_size, total_frames=total_timesteps)
    for rollout in collector:
        with torch.no_grad():
            advantages(rollout)
        for _ in range(EPOCHS):
            losses = loss(rollout.reshape(-1))
            optimizer.zero_grad()
            (losses["loss_objective"] + losses["loss_critic"]).backward()
            torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimizer.step()
        decay.step()
    with torch.no_grad():
        return network(torch.arange(36)).softmax(1).double().numpy()


if __name__ == "__main__":
    lake = gym.make_vec("FrozenLake-PGP-v0", num_envs=16, preset="ppo", autoreset_mode="Disabled")
    table = train(lake)
    exact = cmx.evaluation.ExactProblem.from_env(lake).evaluate(table / table.sum(axis=1, keepdims=True))
    print(f"exactly: objective {exact.objective:.2f} nats, cost - limit {exact.constraints['cost']:+.2f}")
