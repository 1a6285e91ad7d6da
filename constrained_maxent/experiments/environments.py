"""Makes the environment of a run from its id and settings."""

from __future__ import annotations

import difflib
from typing import Any

import gymnasium as gym

from constrained_maxent.errors import InvalidSetting, MissingTracker
from constrained_maxent.experiments.settings import TrainSettings
from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain, find_tracker


def make_environment(env_id: str, settings: TrainSettings) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The vector environment of a run; one that is not wrapped yet is wrapped with the entropy objective and its cost.

    Raises:
        InvalidSetting: unknown id, or arguments that the environment does not take.
    """
    try:
        spec = gym.spec(env_id)
    except (gym.error.Error, ImportError) as error:
        similar = difflib.get_close_matches(env_id, gym.registry, n=3, cutoff=0.5)
        hint = f" Did you mean {', '.join(similar)}?" if similar else " gymnasium.pprint_registry() lists all."
        raise InvalidSetting(f"There is no environment {env_id!r}.{hint}") from error
    kwargs = settings.environment_kwargs()
    names = ("pairing", "episodes_per_batch", "steps_per_batch", "discount", "scale")
    stack = {name: getattr(settings, name) for name in names if getattr(settings, name) is not None}
    penalty = {name: getattr(settings, name) for name in ("preset", "beta", "limit", "memory")}
    penalty = {name: value for name, value in penalty.items() if value is not None}
    try:
        if "-PGP-" in spec.id:
            if settings.cost is not None:
                raise InvalidSetting(f"{env_id} brings its own cost: leave out --cost.")
            return gym.make_vec(env_id, num_envs=settings.num_envs, **kwargs, **stack, **penalty)
        bare = gym.make_vec(env_id, num_envs=settings.num_envs, **kwargs)
    except TypeError as error:
        raise InvalidSetting(f"{env_id} does not take these arguments: {error}") from error
    return _wrap(bare, settings, stack)


def _wrap(
    bare: gym.vector.VectorEnv[Any, Any, Any], settings: TrainSettings, stack: dict[str, Any]
) -> gym.vector.VectorEnv[Any, Any, Any]:
    try:
        find_tracker(bare)
    except MissingTracker:
        pass
    else:
        return bare
    if settings.preset is not None:
        raise InvalidSetting("preset belongs to -PGP- environments: give beta, limit and the others one by one.")
    if settings.steps_per_batch is None:
        stack.setdefault("episodes_per_batch", max(8, settings.num_envs))
    key = settings.cost or ("cost" if _reports_cost(bare) else None)
    if key is None and (settings.beta is not None or settings.limit is not None):
        raise InvalidSetting("This environment reports no info['cost']: name the key that carries it with --cost.")
    constraints = {}
    if key is not None:
        limit = 0.0 if settings.limit is None else settings.limit
        beta = 1.0 if settings.beta is None else settings.beta
        constraints["cost"] = Constraint(LinearCost(key, limit=limit), Quadratic(beta))
    wrapped: gym.vector.VectorEnv[Any, Any, Any] = constrain(
        bare, constraints=constraints, estimator=Counts(memory=settings.memory or 0.0), **stack
    )
    return wrapped


def _reports_cost(env: gym.vector.VectorEnv[Any, Any, Any]) -> bool:
    env.reset(seed=0)
    env.action_space.seed(0)
    return "cost" in env.step(env.action_space.sample())[4]
