"""Episodes of a reference policy, as a batch that estimators can be fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import gymnasium as gym
import numpy as np

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.occupancy import Scale, Weighting
from constrained_maxent.references.policies import ReferencePolicy
from constrained_maxent.seeds import REFERENCE, derived_seed
from constrained_maxent.spaces import as_row
from constrained_maxent.types import Batch, FloatArray, Trajectory, check_count, check_seed
from constrained_maxent.wrappers.layers import VOID
from constrained_maxent.wrappers.states import StateReader, StateSource

_MOST_VOID = 10
"""Episodes that may end in a physics error, for each one that is asked for."""


class RolloutSettings(TypedDict, total=False):
    """Settings of :meth:`~constrained_maxent.references.Reference.from_rollouts`, which explains them."""

    n_episodes: int
    state: StateSource | None
    periodic: Sequence[int]
    n_components: int
    discount: float
    scale: Scale
    horizon: int | None
    seed: int


class Rollouts(NamedTuple):
    """The steps of rolled-out episodes, and the sums of the environment's rewards, ``(n_episodes,)``."""

    batch: Batch
    returns: FloatArray


def roll_out(
    policy: ReferencePolicy,
    env: gym.Env[Any, Any],
    *,
    n_episodes: int,
    weighting: Weighting,
    state: StateSource | None = None,
    seed: int = 0,
) -> Rollouts:
    """Roll out whole episodes; those that end in a physics error are void and repeated.

    What ``state`` names are the batch's states, see ``TrackOccupancy``; by default the observations. The seed is that
    of environment and actions.

    Raises:
        InvalidSetting: not a scalar environment, or no episodes.
        MissingState: ``info`` lacks the state.
    """
    check_scalar(env)
    n_episodes, seed = check_count("n_episodes", n_episodes), check_seed("seed", seed)
    reader = None if state is None else StateReader(state, env.observation_space)
    rng = np.random.default_rng(seed)
    trajectories: list[Trajectory] = []
    returns: list[float] = []
    # Not the seed itself: environment and policy would draw the same numbers.
    first = derived_seed(seed, 0, REFERENCE)
    for episode in range(_MOST_VOID * n_episodes):
        trajectory, earned = _episode(policy, env, rng, weighting, reader, seed=first if episode == 0 else None)
        if trajectory is not None:
            trajectories.append(trajectory)
            returns.append(earned)
        if len(trajectories) == n_episodes:
            return Rollouts(Batch.from_trajectories(trajectories), np.array(returns))
    raise InvalidData("Nearly every episode of the reference policy ended in a physics error.")


def check_scalar(env: object) -> None:
    """Raise ``InvalidSetting`` unless it is a scalar environment."""
    if isinstance(env, gym.vector.VectorEnv):
        raise InvalidSetting(f"{env} is a vector environment: give a scalar one, such as gym.make('PointMass-v0').")
    if not isinstance(env, gym.Env):
        raise InvalidSetting(f"env={env!r} must be a scalar environment, such as gym.make('PointMass-v0').")


def _episode(
    policy: ReferencePolicy,
    env: gym.Env[Any, Any],
    rng: np.random.Generator,
    weighting: Weighting,
    reader: StateReader | None,
    *,
    seed: int | None,
) -> tuple[Trajectory | None, float]:
    observation, info = env.reset(seed=seed)
    observations, actions, states, earned = [], [], [], 0.0
    terminated = truncated = False
    while not (terminated or truncated):
        row = np.asarray(as_row(env.observation_space, observation))
        states.append(row.reshape(-1) if reader is None else reader.one(observation, info))
        action = policy.act(row[None], rng)[0]
        observations.append(row)
        actions.append(as_row(env.action_space, action))
        observation, reward, terminated, truncated, info = env.step(action)
        earned += float(reward)
    if info.get(VOID):
        return None, 0.0
    return Trajectory(
        observations=np.array(observations),
        actions=np.array(actions),
        weights=weighting.weights(np.arange(len(actions))),
        states=np.array(states),
        terminated=bool(terminated),
        truncated=bool(truncated),
    ), earned
