"""PPO in a single file, in the manner of CleanRL: many copies, and one occupancy estimate that makes their rewards.

Nothing in it is special to constrained exploration but three things: a rollout ends where a batch does, so that all its
rewards come from one estimate; steps count where ``infos["pseudo_reward_ready"]`` says so; and what is logged is
``infos["batch"]``, as the return of an episode, measured by an estimate that moves, means nothing by itself.

    python examples/ppo.py                                  # FrozenLake-PGP-v0, a minute
    python examples/ppo.py --env-id SafeCartpole-PGP-v0 --num-envs 64 --total-timesteps 490000
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Categorical, Independent, Normal

import constrained_maxent as cmx
from constrained_maxent.adapters.horizon import TerminalHorizon


@dataclass
class Settings:
    """Hyperparameters. The environment suggests its own, by ``suggestions`` of ``TrackOccupancy``."""

    total_timesteps: int = 400_000
    """Steps of all copies together."""
    seed: int = 0
    """Of environment, networks and actions."""
    return_discount: float = 0.99
    """γ of the returns."""
    learning_rate: float = 1e-3
    """Adam's step size at the beginning."""
    final_learning_rate: float = 1e-4
    """The same at the end, reached geometrically."""
    gae_lambda: float = 0.95
    """λ of generalized advantage estimation."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatch_size: int = 0
    """Steps of each gradient; 0 for the whole rollout."""
    clip_range: float = 0.2
    """How far from 1 the ratio of new to old probability still gains."""
    value_coefficient: float = 0.5
    """Weight of the critic's loss."""
    max_gradient_norm: float = 0.5
    """Largest norm of a gradient."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Units of each hidden layer."""

    @classmethod
    def suggested(cls, tracker: cmx.tracker.Tracker, **given: Any) -> Settings:
        """What is given goes before what the environment suggests, and that before the defaults."""
        known = {name: value for name, value in tracker.suggestions.items() if name in cls.__dataclass_fields__}
        return cls(**{"return_discount": tracker.return_discount} | known | given)


def network(n_inputs: int, hidden_sizes: tuple[int, ...], n_outputs: int, gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in hidden_sizes:
        layers += [_orthogonal(nn.Linear(n_inputs, size), np.sqrt(2.0)), nn.Tanh()]
        n_inputs = size
    return nn.Sequential(*layers, _orthogonal(nn.Linear(n_inputs, n_outputs), gain))


def _orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    """Actor and critic: a softmax over ``Discrete`` actions, or a Gaussian whose draws are cut to the ``Box``."""

    def __init__(self, observation_space: gym.Space, action_space: gym.Space, hidden_sizes: tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(observation_space, (Box, Discrete)) or not isinstance(action_space, (Box, Discrete)):
            raise TypeError(f"{observation_space} or {action_space} is neither Box nor Discrete: flatten it first.")
        self.observation_space, self.action_space = observation_space, action_space
        n_inputs = gym.spaces.flatdim(observation_space)
        self.actor = network(n_inputs, hidden_sizes, gym.spaces.flatdim(action_space), gain=0.01)
        self.critic = network(n_inputs, hidden_sizes, 1, gain=1.0)
        if isinstance(action_space, Box):
            self.log_std = nn.Parameter(torch.zeros(gym.spaces.flatdim(action_space)))

    def encoded(self, observations: Any) -> torch.Tensor:
        """Inputs of the networks, ``(n, n_inputs)``."""
        if isinstance(space := self.observation_space, Discrete):
            return nn.functional.one_hot(torch.as_tensor(observations - space.start), int(space.n)).float()
        return torch.as_tensor(np.asarray(observations, dtype=np.float32)).flatten(1)

    def policy(self, inputs: torch.Tensor) -> Categorical | Independent:
        outputs = self.actor(inputs)
        if isinstance(self.action_space, Discrete):
            return Categorical(logits=outputs)
        return Independent(Normal(outputs, self.log_std.exp()), 1)

    def value(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.critic(inputs).squeeze(-1)

    def to_env(self, actions: torch.Tensor) -> Any:
        """Actions as the environment takes them."""
        if isinstance(space := self.action_space, Discrete):
            return actions.numpy() + space.start
        return np.clip(actions.numpy().reshape(-1, *space.shape), space.low, space.high).astype(space.dtype)

    @torch.no_grad()
    def policy_table(self) -> np.ndarray:
        """π(a|s) over finite spaces, ``(n_states, n_actions)``."""
        probabilities = self.policy(torch.eye(int(self.observation_space.n))).probs.double()
        return (probabilities / probabilities.sum(1, keepdim=True)).numpy()

    @torch.no_grad()
    def predict(self, observations: Any, *, deterministic: bool = False) -> tuple[Any, None]:
        """Actions for the observations of a vector environment: what ``evaluate_rollouts`` asks for."""
        policy = self.policy(self.encoded(observations))
        return self.to_env(policy.mode if deterministic else policy.sample()), None


def train(env: gym.vector.VectorEnv, settings: Settings, *, log_every: int = 100) -> Agent:
    """Train on a vector stack with ``PseudoReward`` and ``pairing="previous"``, in any autoreset mode."""
    tracker, mode = cmx.wrappers.find_tracker(env), env.metadata["autoreset_mode"]
    if tracker.pairing != "previous":
        raise ValueError("Rewards have to be live: make the environment with pairing='previous'.")
    tracker.announce(timesteps=settings.total_timesteps)
    env = TerminalHorizon(env)  # which a finite discounted problem ends with: nothing to bootstrap from
    torch.manual_seed(settings.seed)
    agent = Agent(env.single_observation_space, env.single_action_space, settings.hidden_sizes)
    optimizer = torch.optim.Adam(agent.parameters(), lr=settings.learning_rate, eps=1e-5)
    decay = settings.final_learning_rate / settings.learning_rate

    batches: list[Mapping[str, Any]] = []
    observations, _ = env.reset(seed=settings.seed)
    while tracker.timesteps < settings.total_timesteps:
        optimizer.param_groups[0]["lr"] = settings.learning_rate * decay**tracker.progress
        rows, batch = [], None
        while batch is None:
            before = agent.encoded(observations)
            with torch.no_grad():
                policy = agent.policy(before)
                actions = policy.sample()
                log_probs = policy.log_prob(actions)
            observations, rewards, terminated, truncated, infos = env.step(agent.to_env(actions))
            batch, done, after = infos.get("batch"), terminated | truncated, observations
            if done.any() and mode is AutoresetMode.SAME_STEP:
                after = np.array([infos["final_obs"][i] if done[i] else observations[i] for i in range(len(done))])
            elif done.any() and mode is AutoresetMode.DISABLED:
                observations, reset_infos = env.reset(options={"reset_mask": done})
                batch = reset_infos.get("batch", batch)
            columns = before, actions, log_probs, agent.encoded(after), rewards, terminated, done
            rows.append([torch.as_tensor(column) for column in (*columns, infos["pseudo_reward_ready"])])
        update(agent, optimizer, settings, *(torch.stack(column) for column in zip(*rows, strict=True)))
        batches.append(batch)
        if len(batches) == log_every:
            report(batches, tracker.timesteps)
            batches.clear()
    return agent


def update(
    agent: Agent,
    optimizer: torch.optim.Optimizer,
    settings: Settings,
    inputs: torch.Tensor,
    actions: torch.Tensor,
    log_probs: torch.Tensor,
    next_inputs: torch.Tensor,
    rewards: torch.Tensor,
    terminated: torch.Tensor,
    done: torch.Tensor,
    ready: torch.Tensor,
) -> None:
    """One update on a rollout, ``(n_steps, num_envs, ...)`` each, by the steps that are ready.

    Not ready are calls that only reset a copy, and the first batch, for which there is no estimate yet.
    """
    if not ready.any():
        return
    with torch.no_grad():
        values, next_values = agent.value(inputs), agent.value(next_inputs)
    errors = rewards.float() + settings.return_discount * next_values * ~terminated - values
    advantages = discounted_sums(errors, done, settings.return_discount * settings.gae_lambda)
    returns = (advantages + values)[ready]
    inputs, actions, log_probs, advantages = (column[ready] for column in (inputs, actions, log_probs, advantages))
    for _ in range(settings.epochs):
        for chosen in torch.randperm(len(inputs)).split(settings.minibatch_size or len(inputs)):
            gains = advantages[chosen]
            gains = (gains - gains.mean()) / (gains.std(correction=0) + 1e-8)
            ratio = (agent.policy(inputs[chosen]).log_prob(actions[chosen]) - log_probs[chosen]).exp()
            clipped = ratio.clamp(1.0 - settings.clip_range, 1.0 + settings.clip_range)
            policy_loss = -torch.minimum(ratio * gains, clipped * gains).mean()
            value_loss = (agent.value(inputs[chosen]) - returns[chosen]).square().mean()
            optimizer.zero_grad()
            (policy_loss + settings.value_coefficient * value_loss).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), settings.max_gradient_norm)
            optimizer.step()


def discounted_sums(terms: torch.Tensor, done: torch.Tensor, discount: float) -> torch.Tensor:
    """Of each step, the sum of the terms from it to the end of its episode, ``(n_steps, num_envs)``."""
    sums, later = torch.zeros_like(terms), torch.zeros_like(terms[0])
    for t in reversed(range(len(terms))):
        sums[t] = later = terms[t] + discount * ~done[t] * later
    return sums


def report(batches: list[Mapping[str, Any]], timesteps: int) -> None:
    """What λ̂ says, which remembers earlier policies, and what the mean batch shows by itself, whose entropy is low."""
    last = batches[-1]
    parts = [("objective", last["objective"], [batch["objective_fresh"] for batch in batches])]
    for name, excess in last["constraints"].items():
        fresh = [batch["constraints_fresh"][name] for batch in batches]
        parts.append((f"{name} - limit, at a price of {last['multipliers'][name]:.2g},", excess, fresh))
    text = "; ".join(f"{name} {value:.3f} (alone {np.mean(fresh):.3f})" for name, value, fresh in parts)
    print(f"{timesteps:8} steps: {text}", flush=True)


def main(env_id: str = "FrozenLake-PGP-v0", num_envs: int = 16, total_timesteps: int = 400_000, seed: int = 0) -> None:
    """Train on a -PGP- id and evaluate; environments of your own are wrapped by hand and given to ``train``."""
    env = make(env_id, num_envs)
    tracker = cmx.wrappers.find_tracker(env)
    agent = train(env, Settings.suggested(tracker, total_timesteps=total_timesteps, seed=seed))
    fresh = cmx.evaluation.evaluate_rollouts(make(env_id, 64, episodes_per_batch=64), agent, n_episodes=256, seed=seed)
    for name, estimate in fresh.figures().items():
        print(f"{name:40} {estimate}")
    if isinstance(env.single_observation_space, Discrete):
        exact = cmx.evaluation.ExactProblem.from_env(env).evaluate(agent.policy_table())
        print(f"exactly: objective {exact.objective:.3f}, {exact.constraints}")


def make(env_id: str, num_envs: int, **settings: Any) -> gym.vector.VectorEnv:
    return gym.make_vec(env_id, num_envs=num_envs, preset="ppo", **settings)


if __name__ == "__main__":
    tyro.cli(main)
