"""Trains the expert of a reference: soft actor-critic of Stable-Baselines3 on the environment's own reward."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.adapters.sb3 import require_stable_baselines
from constrained_maxent.adapters.sb3.agents import network_of
from constrained_maxent.errors import InvalidSetting, MissingTracker, UnsupportedPolicy
from constrained_maxent.occupancy import GaussianMixture, Weighting
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.references.gaussian_network import GaussianNetwork
from constrained_maxent.references.policies import CallablePolicy
from constrained_maxent.references.reference import Reference
from constrained_maxent.references.rollouts import check_scalar, roll_out
from constrained_maxent.spaces import as_row
from constrained_maxent.types import check_count, check_seed, is_number
from constrained_maxent.wrappers import find_tracker
from constrained_maxent.wrappers.states import StateReader, StateSource

TRAINING: dict[str, dict[str, Any]] = {
    # The reward is 0 nearly everywhere. Actions held for 0.1 s explore the table, and short episodes begin at many
    # places; what is learnt is a function of the state, and acts in every step of the environment itself.
    "PointMass-v0": {"frame_skip": 5, "time_limit": 4.0},
}
"""Arguments of environments that make them easier to learn, and are used in training only."""

_NUM_ENVS = 8
"""Training environments."""

LEARNING_STARTS = 4000
"""Steps with uniform actions, all together, before the first gradient step."""

_LARGEST_SEED = 2**32 - 1
"""What NumPy's generator of old takes, which Stable-Baselines3 seeds."""


@dataclass(frozen=True, kw_only=True)
class ExpertSettings:
    """Hyperparameters of soft actor-critic; the defaults are what trained the reference that comes with the package.

    Args:
        timesteps: steps of the training environments, all together; the first 4000 only explore.
        updates_per_step: gradient steps for each step of a training environment.
        hidden_sizes: units of each layer of policy and critics.
        learning_rate, discount, seed: as Stable-Baselines3 has them.

    Raises:
        InvalidSetting: out of range.
    """

    timesteps: int = 100_000
    updates_per_step: float = 0.5
    hidden_sizes: tuple[int, ...] = (64, 64)
    learning_rate: float = 1e-3
    discount: float = 0.98
    seed: int = 0

    def __post_init__(self) -> None:
        if check_count("timesteps", self.timesteps) <= LEARNING_STARTS:
            raise InvalidSetting(
                f"timesteps={self.timesteps!r}: the first {LEARNING_STARTS} steps are uniformly random, and learning "
                "begins after them: an expert takes tens of thousands."
            )
        if check_seed("seed", self.seed) > _LARGEST_SEED:
            raise InvalidSetting(f"seed={self.seed!r} must be at most {_LARGEST_SEED}.")
        if not isinstance(self.hidden_sizes, Sequence) or isinstance(self.hidden_sizes, str) or not self.hidden_sizes:
            raise InvalidSetting(f"hidden_sizes={self.hidden_sizes!r} must be the sizes of one layer or more.")
        for size in self.hidden_sizes:
            check_count("hidden_sizes", size)
        for name in ("updates_per_step", "learning_rate"):
            value = getattr(self, name)
            if not (is_number(value) and 0.0 < value < math.inf):
                raise InvalidSetting(f"{name}={value!r} must be a positive number.")
        if not (is_number(self.discount) and 0.0 <= self.discount <= 1.0):
            raise InvalidSetting(f"discount={self.discount!r} must lie in [0, 1].")


def train_expert(
    make_env: Callable[[], gym.Env[Any, Any]],
    settings: ExpertSettings,
    *,
    progress: Callable[[int, float], None],
) -> tuple[GaussianNetwork, float]:
    """Train on the reward of the environments, and return the policy and how long that took [s].

    ``progress`` is called now and then with the steps done and the mean reward of the last 1000 steps.

    Raises:
        gymnasium.error.DependencyNotInstalled: without Stable-Baselines3.
        InvalidSetting: actions that are not in a ``Box``, or without bounds.
        UnsupportedPolicy: observations or actions of which no reference can be made. Nothing is trained then.
    """
    require_stable_baselines()
    from stable_baselines3 import SAC
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv

    window = max(1, 1000 // _NUM_ENVS)
    every = max(1, settings.timesteps // _NUM_ENVS // 20)

    class Report(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.rewards: list[float] = []

        def _on_step(self) -> bool:
            self.rewards.append(float(np.mean(self.locals["rewards"])))
            if self.n_calls % every == 0:
                progress(self.num_timesteps, float(np.mean(self.rewards[-window:])))
            return True

    envs = DummyVecEnv([make_env] * _NUM_ENVS)
    try:
        if not (isinstance(envs.action_space, gym.spaces.Box) and envs.action_space.is_bounded()):
            raise InvalidSetting(
                f"Soft actor-critic needs actions in a Box and bounds of the actions, not {envs.action_space}."
            )
        _check_observations(envs.observation_space)
        model = SAC(
            "MlpPolicy",
            envs,
            learning_rate=settings.learning_rate,
            batch_size=256,
            gamma=settings.discount,
            learning_starts=LEARNING_STARTS,
            train_freq=1,
            gradient_steps=max(1, round(settings.updates_per_step * _NUM_ENVS)),
            ent_coef="auto_0.1",
            policy_kwargs={"net_arch": list(settings.hidden_sizes)},
            seed=settings.seed,
            device="cpu",
        )
        network_of(model)  # what it refuses, it refuses before the training
        begun = time.perf_counter()
        model.learn(settings.timesteps, callback=Report())
        return network_of(model), time.perf_counter() - begun
    finally:
        envs.close()


def _check_observations(space: gym.Space[Any]) -> None:
    if not isinstance(space, gym.spaces.Box):
        raise UnsupportedPolicy(f"A reference needs observations in a Box, not {space}.")


def check_rollouts(
    env: gym.Env[Any, Any], *, state: StateSource | None, periodic: Sequence[int], n_episodes: int
) -> None:
    """Find out by one step whether ``reference_of`` will be able to do its part, before anything is trained.

    Raises:
        InvalidSetting: an environment that estimates an occupancy already, or whose episodes have no last step; angles
            that are no coordinates of the state, or no episodes.
        UnsupportedPolicy: observations that are not in a ``Box``.
        MissingState: ``info`` lacks the state.
        InvalidData: the state is not made of numbers.
    """
    check_scalar(env)
    check_count("n_episodes", n_episodes)
    reader = None if state is None else StateReader(state, env.observation_space)
    with suppress(MissingTracker):
        find_tracker(env)
        raise InvalidSetting(
            "This environment brings wrappers that estimate an occupancy, as the -PGP- ids do: an expert is trained on "
            "the bare one."
        )
    if find_horizon(env) is None:
        raise InvalidSetting("Episodes of this environment have no last step: give it a time limit.")
    _check_observations(env.observation_space)
    GaussianMixture(periodic=tuple(periodic))  # refuses what cannot be coordinates

    def check(observation: Any, info: dict[str, Any]) -> None:
        row = np.asarray(as_row(env.observation_space, observation)).reshape(-1)
        n_states = len(row) if reader is None else len(reader.one(observation, info))
        if max(periodic, default=-1) >= n_states:
            raise InvalidSetting(f"periodic={tuple(periodic)!r}: the state has only {n_states} coordinates, from 0.")

    check(*env.reset(seed=0))
    env.action_space.seed(0)
    observation, *_, info = env.step(env.action_space.sample())
    check(observation, info)


def reference_of(
    network: GaussianNetwork,
    env: gym.Env[Any, Any],
    *,
    state: StateSource | None,
    periodic: Sequence[int],
    n_episodes: int,
    seed: int,
    about: Mapping[str, Any],
) -> Reference:
    """The expert's occupancy, with its return and that of uniformly random actions beside it.

    Both are rolled out for ``n_episodes``; ``about`` is what else is to be known of the reference.
    """
    reference = Reference.from_rollouts(network, env, state=state, periodic=periodic, n_episodes=n_episodes, seed=seed)
    env.action_space.seed(seed)
    uniform = CallablePolicy(lambda rows, actions: np.zeros(len(rows)), lambda row: env.action_space.sample())
    weighting = Weighting(1.0, find_horizon(env))
    random = roll_out(uniform, env, n_episodes=n_episodes, weighting=weighting, seed=seed)
    found = {**reference.about, "mean_return_of_random_actions": float(random.returns.mean()), **about}
    return replace(reference, about=found)
