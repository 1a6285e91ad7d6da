"""Tianshou's PPO on the grid: its collector steps the copies of one vector stack, which share one occupancy estimate.

Tianshou's own vector environments, ``DummyVectorEnv`` and the others, hold a stack each, with an estimate each; so
``Copies`` hands it the copies of ours. Exact values of the learnt policy are printed.

    python examples/tianshou_ppo.py
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from torch.distributions import Categorical

import constrained_maxent as cmx
from constrained_maxent.adapters.horizon import TerminalHorizon

HORIZON, EPOCHS = 25, 4


class Copies:
    """What a collector asks of a vector environment that it resets itself and whose copies are all stepped at once."""

    is_async = False

    def __init__(self, env: gym.vector.VectorEnv) -> None:
        if env.metadata["autoreset_mode"] is not AutoresetMode.DISABLED:
            raise ValueError("Tianshou resets copies itself: make the environment with autoreset_mode='Disabled'.")
        self.env, self.action_space = env, env.single_action_space

    def __len__(self) -> int:
        return self.env.num_envs

    def reset(self, env_id: Any = None, **options: Any) -> tuple[Any, Any]:
        if env_id is None:
            observations, _ = self.env.reset(**options)
            return observations, np.array([{}] * len(self))
        mask = np.isin(np.arange(len(self)), env_id)
        observations, _ = self.env.reset(options={"reset_mask": mask})
        return observations[env_id], np.array([{}] * len(env_id))

    def step(self, actions: Any, env_id: Any) -> tuple[Any, ...]:
        *result, infos = self.env.step(actions)  # the report of a batch is in infos, and in the tracker
        return *result, np.array([{"pseudo_reward": reward} for reward in infos["pseudo_reward"]])


class Network(torch.nn.Sequential):
    """Scores of a state's actions, or its value; as Tianshou calls it."""

    def __init__(self, n_outputs: int) -> None:
        super().__init__(torch.nn.Linear(36, 64), torch.nn.Tanh(), torch.nn.Linear(64, n_outputs))
        torch.nn.init.orthogonal_(self[0].weight, 2.0**0.5)  # one-hot states hardly differ by PyTorch's usual weights
        torch.nn.init.orthogonal_(self[2].weight, 0.01)

    def forward(self, observations: Any, state: Any = None, info: Any = None) -> Any:
        outputs = super().forward(torch.nn.functional.one_hot(torch.as_tensor(observations), 36).float())
        return outputs if outputs.shape[1] == 1 else (outputs, state)


def train(env: gym.vector.VectorEnv | gym.Env, total_timesteps: int = 400_000, seed: int = 0) -> np.ndarray:
    """π(a|s) as a table."""
    torch.manual_seed(seed)
    cmx.wrappers.find_tracker(env).announce(timesteps=total_timesteps)
    is_vector = isinstance(env, gym.vector.VectorEnv)
    copies = (
        Copies(TerminalHorizon(env))
        if is_vector
        else DummyVectorEnv([lambda: cmx.wrappers.SteadyInfo(env, missing=0.0)])
    )
    rollout, actor = len(copies) * HORIZON, Network(4)
    algorithm = PPO(
        policy=ProbabilisticActorPolicy(
            actor=actor,
            dist_fn=lambda scores: Categorical(logits=scores),
            action_space=gym.spaces.Discrete(4),
            action_scaling=False,
            action_bound_method=None,
        ),
        critic=Network(1),
        optim=AdamOptimizerFactory(lr=1e-3).with_lr_scheduler_factory(
            LRSchedulerFactoryLinear(1, total_timesteps, rollout)
        ),
        ent_coef=0.0,  # entropy is the objective already
        max_grad_norm=0.5,
    )
    collector = Collector(algorithm, copies, VectorReplayBuffer(rollout, len(copies)))
    collector.reset(gym_reset_kwargs={"seed": seed})
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=total_timesteps,
            collection_step_num_env_steps=rollout,
            batch_size=rollout,
            update_step_num_repetitions=EPOCHS,
            show_progress=False,
            verbose=False,
        )
    )
    with torch.no_grad():
        return actor(np.arange(36))[0].softmax(1).double().numpy()


if __name__ == "__main__":
    lake = gym.make_vec("FrozenLake-PGP-v0", num_envs=16, preset="ppo", autoreset_mode="Disabled")
    table = train(lake)
    exact = cmx.evaluation.ExactProblem.from_env(lake).evaluate(table / table.sum(axis=1, keepdims=True))
    print(f"exactly: objective {exact.objective:.2f} nats, cost - limit {exact.constraints['cost']:+.2f}")
