"""skrl's PPO on the grid: its wrapper takes a vector stack as it is, whose copies share one occupancy estimate.

skrl takes what follows an end as the same episode's unless ``terminated`` says so: hence ``TerminalHorizon``, and the
autoreset mode in which no call of ``step`` is spent on a reset. Exact values of the learnt policy are printed.

    python examples/skrl_ppo.py
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed

import constrained_maxent as cmx
from constrained_maxent.adapters.horizon import TerminalHorizon

HORIZON, EPOCHS = 25, 4


def network(n_outputs: int) -> torch.nn.Sequential:
    layers = torch.nn.Linear(36, 64), torch.nn.Tanh(), torch.nn.Linear(64, n_outputs)
    torch.nn.init.orthogonal_(layers[0].weight, 2.0**0.5)  # one-hot states hardly differ by PyTorch's usual weights
    torch.nn.init.orthogonal_(layers[2].weight, 0.01)
    return torch.nn.Sequential(*layers)


def inputs(given: dict[str, Any]) -> torch.Tensor:
    return torch.nn.functional.one_hot(given["observations"].long().squeeze(-1), 36).float()


class Policy(CategoricalMixin, Model):
    """A softmax over actions."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self, unnormalized_log_prob=True)
        self.network = network(4)

    def compute(self, given: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        return self.network(inputs(given)), {}


class Value(DeterministicMixin, Model):
    """The critic."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.network = network(1)

    def compute(self, given: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        return self.network(inputs(given)), {}


def train(stack: gym.vector.VectorEnv | gym.Env, total_timesteps: int = 400_000, seed: int = 0) -> np.ndarray:
    """π(a|s) as a table."""
    is_vector = isinstance(stack, gym.vector.VectorEnv)
    if is_vector and stack.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
        raise ValueError("skrl resets nothing and learns from every call: take autoreset_mode='SameStep'.")
    set_seed(seed)
    cmx.wrappers.find_tracker(stack).announce(timesteps=total_timesteps)
    env = wrap_env(TerminalHorizon(stack) if is_vector else stack, wrapper="gymnasium", verbose=False)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    models = {"policy": Policy(**spaces), "value": Value(**spaces)}
    agent = PPO(
        models=models,
        memory=RandomMemory(memory_size=HORIZON, num_envs=env.num_envs, device=env.device),
        cfg=PPO_CFG(
            rollouts=HORIZON,
            learning_epochs=EPOCHS,
            mini_batches=1,
            learning_rate=1e-3,
            learning_rate_scheduler=torch.optim.lr_scheduler.ExponentialLR,
            learning_rate_scheduler_kwargs={"gamma": 0.1 ** (env.num_envs * HORIZON / total_timesteps / EPOCHS)},
            value_clip=0.0,
            value_loss_scale=0.5,
            experiment={"write_interval": 0, "checkpoint_interval": 0},
        ),
        **spaces,
    )
    # Not headless, it would call("render") the copies, which only Gymnasium's own vector environments know.
    trainer = {"timesteps": total_timesteps // env.num_envs, "headless": True, "disable_progressbar": True}
    SequentialTrainer(env=env, agents=agent, cfg=trainer).train()
    with torch.no_grad():
        return models["policy"].network(torch.eye(36)).softmax(1).double().numpy()


if __name__ == "__main__":
    lake = gym.make_vec("FrozenLake-PGP-v0", num_envs=16, preset="ppo", autoreset_mode="SameStep")
    table = train(lake)
    exact = cmx.evaluation.ExactProblem.from_env(lake).evaluate(table / table.sum(axis=1, keepdims=True))
    print(f"exactly: objective {exact.objective:.2f} nats, cost - limit {exact.constraints['cost']:+.2f}")
