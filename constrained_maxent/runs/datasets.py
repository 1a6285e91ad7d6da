"""What the episodes of a data set show. What ``cmaxent evaluate --dataset`` does."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import gymnasium as gym

from constrained_maxent.adapters import minari
from constrained_maxent.errors import InvalidDataset, InvalidSetting
from constrained_maxent.evaluation import RolloutEvaluation, evaluate_batch
from constrained_maxent.runs.evaluation import SEED, make_evaluation_environment
from constrained_maxent.runs.settings import TrainSettings


def evaluate_dataset(
    dataset: str,
    env_id: str | None = None,
    settings: TrainSettings | None = None,
    *,
    n_episodes: int | None = None,
    seed: int = SEED,
) -> RolloutEvaluation:
    """Measure episodes of a Minari data set: mass and length, entropy, coverage, costs and constraints, with intervals.

    The environment is made to learn what its problem is, and the episodes are only read.

    Args:
        dataset: its name.
        env_id: the environment that it is of; by default the one that the data set names.
        settings: of that environment: what λ̂ is over, the cost and its limit, as in training. A data set that this
            package has made has those that it was collected with.
        n_episodes: the first so many; by default all.
        seed: of the intervals.

    Raises:
        InvalidDataset: there is no such data set, it does not say what it is of, or it is of something else.
        InvalidSetting: settings for a data set that has its own, or an environment that is not registered.
        MissingCost, MissingState, InvalidData: see :func:`constrained_maxent.adapters.minari.batch`.
        gymnasium.error.DependencyNotInstalled: without Minari, or what the environment needs.
    """
    data = minari.open_dataset(dataset)
    if env_id is None:
        about = data.storage.metadata.get(minari.OURS)
        if about is not None and settings is not None:
            raise InvalidSetting(
                f"The data set {dataset!r} has the settings that it was collected with: leave others out, or give "
                "env_id (--env-id) with them."
            )
        if about is not None:
            env_id, settings = about["source"]["env_id"], TrainSettings.from_json(about["source"]["settings"])
        else:
            env_id, settings = _named_by(data, settings or TrainSettings())
    with closing(make_evaluation_environment(env_id, settings or TrainSettings(), 1)) as env:
        found = evaluate_batch(env, minari.batch(data, env, n_episodes=n_episodes), seed=seed)
    # What is done about a policy that breaks a limit is not done about what was seen.
    return replace(found, limits=tuple(replace(verdict, remedy="") for verdict in found.limits))


def _named_by(data: Any, settings: TrainSettings) -> tuple[str, TrainSettings]:
    """The environment that somebody's data set names, with its arguments and its time limit."""
    if data.env_spec is None:
        raise InvalidDataset(f"The data set {data.id!r} does not say what it is of: give env_id (--env-id).")
    spec = data.env_spec
    kwargs = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    registered = gym.registry.get(spec.id)
    if registered is None or registered.max_episode_steps != spec.max_episode_steps:
        kwargs["max_episode_steps"] = -1 if spec.max_episode_steps is None else spec.max_episode_steps
    return spec.id, replace(settings, env_kwargs=json.dumps(kwargs | settings.environment_kwargs()))
