"""Makes the environment of a run from its id and settings."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import replace
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import DependencyNotInstalled

from constrained_maxent.errors import ConstrainedMaxentError, InvalidSetting, MissingTracker
from constrained_maxent.experiments import control, frozen_lake
from constrained_maxent.experiments.settings import TrainSettings
from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain, find_tracker

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]

TRACKING = ("pairing", "episodes_per_batch", "steps_per_batch", "discount", "scale")
TERMS = ("preset", "beta", "limit", "memory")

PRESETS = {
    "FrozenLake-PGP-v0": frozen_lake.PRESETS,
    "SafeCartpole-PGP-v0": control.CARTPOLE_PRESETS,
    "PointMass-PGP-v0": control.POINT_MASS_PRESETS,
}
"""Presets by id; each says for how many batches and sub-environments it is made."""

_USUAL = {"iterations": 1000, "num_envs": 8}
"""Where no preset says it."""


def completed(env_id: str, settings: TrainSettings) -> TrainSettings:
    """The settings with what they leave to the preset: number of batches, length of its schedules, sub-environments.

    Raises:
        InvalidSetting: unknown id.
    """
    usual = _USUAL | PRESETS.get(_find(env_id).id, {}).get(settings.preset or "default", {})
    iterations = settings.iterations or usual["iterations"]
    return replace(
        settings,
        iterations=iterations,
        schedule_iterations=settings.schedule_iterations or iterations,
        num_envs=settings.num_envs or usual["num_envs"],
    )


def make_environment(env_id: str, settings: TrainSettings) -> VectorEnv:
    """The vector environment of a run; one that is not wrapped yet is wrapped with the entropy objective and its cost.

    Raises:
        InvalidSetting: unknown id, or arguments that the environment does not take.
        UnsupportedSpace: its spaces cannot be counted.
        gymnasium.error.DependencyNotInstalled: the environment needs a package that is missing.
    """
    settings = completed(env_id, settings)
    tracking, terms = _given(settings, TRACKING), _given(settings, TERMS)
    if "-PGP-" in _find(env_id).id:
        if settings.cost is not None:
            raise InvalidSetting(f"{env_id} brings its own cost: leave out --cost.")
        return _make(env_id, settings, iterations=settings.schedule_iterations, **tracking, **terms)
    bare = _make(env_id, settings)
    try:
        if not _is_wrapped(bare):
            return _wrap(bare, settings, tracking)
        given = [*tracking, *terms, *_given(settings, ("cost",))]
        if given:
            raise InvalidSetting(f"{env_id} brings its own wrappers: leave out {', '.join(given)}.")
    except BaseException:
        bare.close()
        raise
    return bare


def _given(settings: TrainSettings, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in names if getattr(settings, name) is not None}


def _find(env_id: str) -> EnvSpec:
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        return gym.spec(name)
    except (ImportError, TypeError, ValueError) as error:  # a module that is missing, or no name of one
        raise InvalidSetting(
            f"{module!r}, which should register {name}, cannot be imported: {error}. Modules in a folder that is not "
            "installed are found by PYTHONPATH=folder."
        ) from error
    except gym.error.Error as error:
        similar = difflib.get_close_matches(name, gym.registry, n=3)
        hint = f"Did you mean {', '.join(similar)}?" if similar else "gymnasium.pprint_registry() lists all."
        raise InvalidSetting(f"There is no environment {env_id!r}. {hint}") from error


def _make(env_id: str, settings: TrainSettings, **stack: Any) -> VectorEnv:
    kwargs = settings.environment_kwargs()
    if twice := sorted(kwargs.keys() & {*stack, "num_envs"}):
        raise InvalidSetting(f"env-kwargs must not set {', '.join(twice)}: these are settings of their own.")
    try:
        return gym.make_vec(env_id, num_envs=settings.num_envs or 1, **kwargs, **stack)
    except (ConstrainedMaxentError, DependencyNotInstalled):
        raise
    except (TypeError, ValueError, LookupError, AssertionError, gym.error.Error) as error:
        # What constructors raise at arguments that they do not like.
        raise InvalidSetting(
            f"{env_id} cannot be made with env-kwargs={settings.env_kwargs}: {type(error).__name__}: {error}"
        ) from error


def _is_wrapped(env: VectorEnv) -> bool:
    try:
        find_tracker(env)
    except MissingTracker:
        return False
    return True


def _wrap(bare: VectorEnv, settings: TrainSettings, tracking: dict[str, Any]) -> VectorEnv:
    if settings.preset is not None:
        raise InvalidSetting("preset belongs to -PGP- environments: give beta, limit and the others one by one.")
    if settings.steps_per_batch is None:
        tracking = {"episodes_per_batch": max(8, settings.num_envs or 1), **tracking}
    estimator = Counts(memory=settings.memory or 0.0)
    # Tells which spaces it cannot count before the environment is stepped.
    estimator.bind(bare.single_observation_space, bare.single_action_space)
    constraints = {}
    key = _cost_key(bare, settings)
    if key is not None:
        limit = 0.0 if settings.limit is None else settings.limit
        beta = 1.0 if settings.beta is None else settings.beta
        constraints["cost"] = Constraint(LinearCost(key, limit=limit), Quadratic(beta))
    wrapped: VectorEnv = constrain(bare, constraints=constraints, estimator=estimator, **tracking)
    return wrapped


def _cost_key(env: VectorEnv, settings: TrainSettings) -> str | None:
    """The key of info that carries the cost, found out by one step; ``None`` for a run without a constraint."""
    env.reset(seed=0)
    env.action_space.seed(0)
    info = env.step(env.action_space.sample())[4]
    key = settings.cost or "cost"
    if key in info:
        return key
    if settings.cost is None and settings.beta is None and settings.limit is None:
        return None
    reported = ", ".join(sorted(name for name in info if not name.startswith("_"))) or "nothing"
    raise InvalidSetting(
        f"This environment reports no info[{key!r}] (it reports: {reported}): name the key that carries the cost "
        "with --cost, or leave out --cost, --beta and --limit to explore without a constraint."
    )
