"""What the episodes of a data set show. What ``cmaxent evaluate --dataset`` does."""

from __future__ import annotations

import json
import warnings
from contextlib import closing
from dataclasses import replace
from typing import Any

import gymnasium as gym

from constrained_maxent.adapters import minari
from constrained_maxent.adapters.costs import TERMINATED
from constrained_maxent.errors import DistortingLayer, InvalidDataset, InvalidSetting
from constrained_maxent.evaluation import RolloutEvaluation, evaluate_batch
from constrained_maxent.runs.environments import find_spec
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
        settings: of that environment: what λ̂ is over, the cost and its limit, as in training; the cost is one that the
            data set's infos have. A data set that this package has made has those that it was collected with.
        n_episodes: the first so many; by default all.
        seed: of the intervals.

    Raises:
        InvalidDataset: there is no such data set, it does not say what it is of, or it is of something else.
        InvalidSetting: settings for a data set that has its own, or an environment that is not registered.
        MissingCost, MissingState, InvalidData: see :func:`constrained_maxent.adapters.minari.batch`.
        gymnasium.error.DependencyNotInstalled: without Minari, or what the environment needs.

    The warning ``DistortingLayer`` names the wrappers that somebody's data set was collected through: they are not
    made again.
    """
    data = minari.open_dataset(dataset)
    reported: set[str] | None = {
        key for episode in minari.episodes_of(data, data.episode_indices[:1]) for key in episode.infos or {}
    }
    if env_id is None:
        about = data.storage.metadata.get(minari.OURS)
        if about is not None and settings is not None:
            raise InvalidSetting(
                f"The data set {dataset!r} has the settings that it was collected with: leave others out, or give "
                "env_id (--env-id) with them."
            )
        if about is not None:
            env_id, settings = about["source"]["env_id"], TrainSettings.from_json(about["source"]["settings"])
            reported = None  # the environment itself is known to report what it did
        else:
            env_id, settings = _named_by(data, settings or TrainSettings())
        _require_registered(env_id)
    settings = settings or TrainSettings()
    if reported is not None and settings.cost == TERMINATED:
        reported.add(TERMINATED)
    with closing(make_evaluation_environment(env_id, settings, 1, reported=reported)) as env:
        found = evaluate_batch(env, minari.batch(data, env, n_episodes=n_episodes), seed=seed)
    # What is done about a policy that breaks a limit is not done about what was seen.
    return replace(found, limits=tuple(replace(verdict, remedy="") for verdict in found.limits))


def _named_by(data: Any, settings: TrainSettings) -> tuple[str, TrainSettings]:
    """The environment that somebody's data set names, with its arguments and its time limit."""
    if data.env_spec is None:
        raise InvalidDataset(f"The data set {data.id!r} does not say what it is of: give env_id (--env-id).")
    spec = data.env_spec
    if spec.additional_wrappers:
        names = ", ".join(wrapper.name for wrapper in spec.additional_wrappers)
        warnings.warn(
            f"The data set {data.id!r} was collected through {names}, and {spec.id} is made without: what is measured "
            "is what they made of it. If that is meant, filter this warning, DistortingLayer; else give env_id "
            "(--env-id) of an environment that has them.",
            DistortingLayer,
            stacklevel=3,
        )
    kwargs = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    registered = gym.registry.get(spec.id)
    if registered is None or registered.max_episode_steps != spec.max_episode_steps:
        kwargs["max_episode_steps"] = -1 if spec.max_episode_steps is None else spec.max_episode_steps
    return spec.id, replace(settings, env_kwargs=json.dumps(kwargs | settings.environment_kwargs()))


def _require_registered(env_id: str) -> None:
    try:
        find_spec(env_id)
    except InvalidSetting as error:
        name = env_id.rpartition(":")[2]
        raise InvalidSetting(
            f'The data set is of {name!r}: {error} If a module of yours registers it, give env_id="module:{name}" '
            f"(--env-id module:{name}), and its settings with it."
        ) from error
