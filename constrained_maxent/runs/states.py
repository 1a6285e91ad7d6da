"""Which state a run is over: what ``--state`` and ``--cells`` say, or what random steps show; and its estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.agents.settings import is_table
from constrained_maxent.errors import InvalidSetting, RedundantObservation, UnsupportedSpace
from constrained_maxent.evaluation.state_measures import STATE_MEASURES
from constrained_maxent.occupancy import Counts, GaussianMixture
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.runs.coordinates import Coordinates, circles, copies, is_coordinate, without_redundancy
from constrained_maxent.runs.imports import imported
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.spaces import Selection, as_rows, is_finite, row_space, width, with_numbers
from constrained_maxent.wrappers.states import StateReader, StateSource

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]

_STEPS = 8192  # of a batch where observations are continuous
_MOST_COORDINATES = 64  # more would fill full covariances with more numbers than a batch has steps
_FOR_TABLES = {"optimizer": "adam", "learning_rate": 0.05, "baseline": "batch-mean"}
"""Algorithm 1's plain step of 0.01 moves a table by little in some hundred batches of short episodes."""


def given_state(settings: TrainSettings, space: gym.Space[Any]) -> StateSource | None:
    """What ``settings.state`` says of observations in a space, as ``TrackOccupancy`` takes it; ``None``: nothing.

    Raises:
        InvalidSetting: it names what there is not.
        UnsupportedSpace: it names what has no numbers.
    """
    entries = settings.state
    if entries is None:
        return None
    if any(map(is_coordinate, entries)) or not entries:
        state = Coordinates(entries, None if isinstance(space, gym.spaces.Box) else space)
        state.check(width(space))
        numbers = [int(entry) for entry in entries if entry.isdecimal()]
        if len(numbers) < len(entries) or not is_finite(Selection(space, numbers).space):
            return state
        return numbers
    if len(entries) == 1 and ":" in (path := entries[0]):
        function = imported("state", path, example="my_states:position")
        if isinstance(function, type):  # such as constrained_maxent.wrappers:RandomEncoder
            function = function()
        if not callable(function):
            raise InvalidSetting(f"state={path!r} is a {type(function).__name__}, and no function of an observation.")
        return function  # type: ignore[no-any-return]
    if len(entries) == 1 and not (isinstance(space, gym.spaces.Dict) and entries[0].split(".")[0] in space.spaces):
        return entries[0]
    return list(entries)


def is_counted(settings: TrainSettings, source: StateSource | None, space: gym.Space[Any]) -> bool:
    """Whether the states of such observations are cells, and no coordinates of a density.

    Raises:
        InvalidSetting: cells of no state, or angles of cells.
        UnsupportedSpace: nothing is said of observations without numbers.
    """
    if source is not None:
        counted = is_finite(StateReader(source, space, settings.cells).space)
    elif settings.cells is not None:
        raise InvalidSetting("--cells says how many cells --state has: give that too.")
    else:
        try:
            counted = is_finite(row_space(space))
        except UnsupportedSpace as error:
            numbers = with_numbers(space)
            keys = list(numbers.spaces) if isinstance(numbers, gym.spaces.Dict) and numbers != space else []
            listed = f"keys of the observation that have numbers ({', '.join(keys)}), " if keys else ""
            raise UnsupportedSpace(
                f"The observations are {space}: {error} Or say by --state what λ̂ is over: {listed}a key of info, or "
                "module:function of the observation, with --cells where that gives cells."
            ) from error
    if counted and settings.periodic is not None:
        raise InvalidSetting("--periodic: cells have no angles, only coordinates of densities are.")
    return counted


def over_cells(bare: VectorEnv, settings: TrainSettings, source: StateSource | None) -> dict[str, Any]:
    """Arguments of ``constrain`` for states that are cells.

    Raises:
        UnsupportedSpace: cells that cannot be numbered.
    """
    estimator = Counts(memory=settings.memory or 0.0)
    space = bare.single_observation_space
    estimator.bind(
        space if source is None else StateReader(source, space, settings.cells).space, bare.single_action_space
    )
    chosen: dict[str, Any] = {"estimator": estimator, "state": source, "cells": settings.cells}
    if is_table(space, bare.single_action_space, kind="auto"):
        chosen["suggestions"] = _FOR_TABLES
    if settings.steps_per_batch is not None:
        return chosen
    if settings.episodes_per_batch is None and find_horizon(bare) is None:  # episodes may have no end
        return chosen | {"steps_per_batch": max(_STEPS, settings.num_envs or 1)}
    return chosen | {"episodes_per_batch": max(8, settings.num_envs or 1)}


def over_density(
    bare: VectorEnv,
    settings: TrainSettings,
    source: StateSource | None,
    observations: Sequence[Any],
    infos: Mapping[str, Any],
    *,
    needs_density: bool,
) -> dict[str, Any]:
    """Arguments of ``constrain`` for states that are coordinates.

    Args:
        bare: the environment.
        settings: of the run.
        source: what they say of the state.
        observations, infos: of some steps, and of the first of them.
        needs_density: whether anybody asks how dense states are; if not, redundancy does no harm.

    Raises:
        InvalidSetting: the observation has too many coordinates for a density of all.
    """
    angles = settings.periodic or ()
    if source is None and "state" in infos:
        source = "state"
        if settings.periodic is None and bare.spec is not None and bare.spec.id in STATE_MEASURES:
            angles = tuple(STATE_MEASURES[bare.spec.id].periodic or ())
    elif source is None:
        source = _without_redundancy(bare.single_observation_space, observations, warns=needs_density)
    if isinstance(source, Coordinates):
        angles = tuple(sorted({*angles, *source.angles}))
    estimator = GaussianMixture(n_components=16, periodic=angles, memory=settings.memory or 0.0, buffer_size=2 * _STEPS)
    chosen: dict[str, Any] = {"estimator": estimator, "state": source}
    if settings.episodes_per_batch is None:
        chosen["steps_per_batch"] = max(_STEPS, settings.num_envs or 1)
    if find_horizon(bare) is not None:
        chosen["discount"] = 1.0  # all states that are visited count alike
    return chosen


def _without_redundancy(space: gym.Space[Any], observations: Sequence[Any], *, warns: bool) -> Coordinates | None:
    """The coordinates that say something new; ``None``: all of them."""
    if (n_coordinates := width(space)) > _MOST_COORDINATES:
        raise InvalidSetting(
            f"The observation has {n_coordinates} coordinates, too many for a density of all: choose some by --state, "
            "for example --state 0 2."
        )
    rows = np.concatenate([as_rows(space, values).reshape(-1, n_coordinates) for values in observations])
    rows = rows.astype(np.float64)
    same = copies(rows)
    left_out = [i for i, _ in same]
    pairs = [pair for pair in circles(rows) if not set(pair) & set(left_out)]
    if not pairs and not same:
        return None
    state = without_redundancy(n_coordinates, pairs, left_out)
    if not isinstance(space, gym.spaces.Box):
        state = replace(state, space=space)
    if warns:
        listed = " and ".join(f"{i}, {j}" for i, j in pairs)
        found = [f"Coordinates {listed} of the observation look like cosine and sine of an angle"] if pairs else []
        if same:
            equal = ", ".join(f"{i} of {j}" for i, j in same[:5]) + (" and others" if len(same) > 5 else "")
            found.append(f"some coordinates are copies of others ({equal})")
        warnings.warn(
            f"{', and '.join(found)}; together they have no density: the state is taken to be --state "
            f"{' '.join(state.entries)}. Give --state to choose.",
            RedundantObservation,
            stacklevel=2,
        )
    return state
