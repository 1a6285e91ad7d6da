"""A MuJoCo model as environments see it: states, functions of states, controls, and time in steps."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.types import FloatArray, as_array, is_number, require_finite


def unusable(package: str, error: Exception) -> DependencyNotInstalled:
    """Why a package cannot be imported: it is missing, or it does not like the backend that MUJOCO_GL names."""
    backend = os.environ.get("MUJOCO_GL", "").strip()
    is_missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package
    if backend and not is_missing:
        return DependencyNotInstalled(
            f"{package} cannot be imported with MUJOCO_GL={backend} ({type(error).__name__}: {error}): unset "
            "MUJOCO_GL, or set it to what is installed here, egl, glfw or osmesa; MUJOCO_GL=off does without OpenGL."
        )
    install = 'run `pip install "mujoco>=3.3,<4" "dm_control>=1.0.30"`'
    return DependencyNotInstalled(f"{package} cannot be imported ({error}): {install}.")


try:
    import mujoco as mujoco  # other modules take it from here
    from mujoco import rollout as rollout
# At a backend that is unknown or not installed: RuntimeError, AttributeError, OSError, ...
except Exception as error:
    raise unusable("mujoco", error) from error


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MujocoStates:
    """What MuJoCo knows of some copies of a model: read-only views, valid until their next step.

    Attributes:
        qpos: generalized positions, ``(n, nq)``.
        qvel: generalized velocities, ``(n, nv)``.
        act: activations of actuators that have a state of their own, ``(n, na)``.
        time: since the start of each episode, ``(n,)`` [s].
    """

    qpos: FloatArray
    qvel: FloatArray
    act: FloatArray
    time: FloatArray


ObservationFunction = Callable[[MujocoStates], ArrayLike]
"""Observations of ``n`` states, ``(n, ...)``."""
StartFunction = Callable[[np.random.Generator], tuple[ArrayLike, ArrayLike]]
"""A first state: positions ``(nq,)`` and velocities ``(nv,)``."""
CostFunction = Callable[[MujocoStates, FloatArray], "ArrayLike | Mapping[str, ArrayLike]"]
"""Costs ``(n,)`` of ``n`` states and the controls ``(n, nu)`` chosen there; or several entries of info by name."""
RewardFunction = Callable[[MujocoStates, FloatArray, MujocoStates], ArrayLike]
"""Rewards ``(n,)`` of states, controls and next states."""
StateFunction = Callable[[MujocoStates], "ArrayLike | Mapping[str, ArrayLike]"]
"""Physical states ``(n, dimensions)``, over which a density can be fitted; or several entries of info by name."""
TerminationFunction = Callable[[MujocoStates], ArrayLike]
"""Whether entering each of ``n`` states ends the episode, bool ``(n,)``."""


def as_model(model: Any) -> Any:
    """The ``mujoco.MjModel`` itself, or that of a dm_control ``Physics``."""
    if not isinstance(model, mujoco.MjModel):
        model = getattr(getattr(model, "model", None), "ptr", None)
    if not isinstance(model, mujoco.MjModel):
        raise InvalidSetting("model must be a mujoco.MjModel or a dm_control Physics.")
    return model


def positions_and_velocities(states: MujocoStates) -> FloatArray:
    """The state of a model without angles: ``(n, nq + nv)``."""
    return np.concatenate((states.qpos, states.qvel), axis=1)


def folded(angles: FloatArray) -> FloatArray:
    """Angles in (−π, π].

    >>> folded(np.array([0.5, -np.pi, 1.5 * np.pi])) / np.pi
    array([ 0.15915494,  1.        , -0.5       ])
    """
    turns = np.ceil((angles - np.pi) / (2.0 * np.pi))
    nearest: FloatArray = np.minimum(angles - 2.0 * np.pi * turns, np.pi)
    return nearest


def control_space(model: Any) -> gym.spaces.Box:
    """The controls of a model, float32 ``(nu,)``, within the range where they have one."""
    limited = as_model(model).actuator_ctrllimited.astype(bool)
    low, high = as_model(model).actuator_ctrlrange.T.astype(np.float32)
    return gym.spaces.Box(np.where(limited, low, np.float32(-np.inf)), np.where(limited, high, np.float32(np.inf)))


def horizon_steps(time_limit: float | None, timestep: float) -> int | None:
    """The step in which a time limit is reached; ``InvalidSetting`` if it is less than one step, or infinite.

    >>> horizon_steps(10.0, 0.01)
    1000
    """
    if time_limit is None:
        return None
    if not (is_number(time_limit) and timestep <= time_limit < math.inf):
        raise InvalidSetting(f"time_limit={time_limit!r} must be at least one step of {timestep:g} s, or None (never).")
    return math.ceil(time_limit / timestep - 1e-6)


def checked_length(name: str, value: float) -> float:
    """A length; ``InvalidSetting`` if it is not positive and finite."""
    if not (is_number(value) and 0.0 < value < math.inf):
        raise InvalidSetting(f"{name}={value!r} must be a positive length [m].")
    return value


def checked_state(name: str, values: Any, shape: tuple[int, ...]) -> FloatArray:
    """Positions or velocities as float64 of the given shape; else ``InvalidData``, ``NonFiniteValue`` for NaN."""
    array = as_array(name, values, np.float64)
    if array.shape != shape:
        raise InvalidData(f"{name} must have shape {shape}, not {array.shape}.")
    require_finite(name, array)
    return array


def given_state(
    options: dict[str, Any] | None, qpos_shape: tuple[int, ...], qvel_shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray] | None:
    """The first state that ``reset(options=...)`` gives, checked; ``InvalidSetting`` for half of one."""
    given = (options or {}).keys() & {"qpos", "qvel"}
    if not options or not given:
        return None
    if len(given) == 1:
        raise InvalidSetting('A first state needs both options["qpos"] and options["qvel"].')
    return checked_state("qpos", options["qpos"], qpos_shape), checked_state("qvel", options["qvel"], qvel_shape)


def checked_controls(actions: Any, shape: tuple[int, ...]) -> FloatArray:
    """Actions as float64 controls; ``InvalidSetting`` if they are no numbers of the shape, ``NonFiniteValue`` for NaN.

    MuJoCo itself clips what is beyond its range, and would take NaN for 0.
    """
    try:
        controls = np.asarray(actions, dtype=np.float64)
    except (TypeError, ValueError):
        controls = np.empty(0)
    if controls.shape != shape:
        raise InvalidSetting(f"Actions must be numbers of shape {shape}, not {actions!r}.")
    if not np.isfinite(controls).all():
        raise NonFiniteValue(f"Actions must be finite, not {actions!r}: has the policy diverged?")
    return controls
