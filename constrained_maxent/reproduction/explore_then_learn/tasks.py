"""The worlds in which data are collected, and for each three tasks that their collection knows nothing of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from constrained_maxent.envs.mujoco_model import folded
from constrained_maxent.reproduction import WorldName
from constrained_maxent.types import FloatArray

Reward = Callable[[FloatArray], FloatArray]
"""Of the observations that steps led to, ``(..., n)``: one number for each, 1 for the best that there are."""


@dataclass(frozen=True, kw_only=True)
class World:
    """One environment.

    Attributes:
        env_id: of the environment itself.
        explored_id: of the stack that explores it.
        arguments: of both.
        tasks: their rewards, by name.
    """

    env_id: str
    explored_id: str
    arguments: Mapping[str, Any]
    tasks: Mapping[str, Reward]


def near(deviation: FloatArray, tenth: float) -> FloatArray:
    r"""1 where nothing deviates, falling like a Gaussian to a tenth at ``tenth``, as dm_control's tolerances do.

    >>> near(np.array([0.0, 0.5, -0.5]), 0.5)
    array([1. , 0.1, 0.1])
    """
    return np.power(0.1, np.square(deviation / tenth))


# Of the cartpole: x, cos ω, sin ω, and both velocities; ω is 0 when the pole is up.


def swing_up(observations: FloatArray) -> FloatArray:
    """The pole is up, slow, and at x = 0: dm_control's product, with more weight on where the cart is."""
    x, cosine, speed = observations[..., 0], observations[..., 1], observations[..., 4]
    return 0.5 * (1.0 + cosine) * near(x, 1.0) * 0.5 * (1.0 + near(speed, 5.0))


def stay_aside(observations: FloatArray) -> FloatArray:
    """The cart is at x = 1 m, and the pole hangs down."""
    return 0.5 * (1.0 - observations[..., 1]) * near(observations[..., 0] - 1.0, 0.5)


def keep_turning(observations: FloatArray) -> FloatArray:
    """The pole turns by 10 rad/s or more, whichever way."""
    return np.minimum(np.abs(observations[..., 4]) / 10.0, 1.0)


# Of the half cheetah: x, height and pitch of the torso, six joints, and the velocities of all.


def walk_forward(observations: FloatArray) -> FloatArray:
    """The torso moves at 0.6 m/s, three quarters of what is allowed; one that stands earns a tenth."""
    return near(observations[..., 9] - 0.6, 0.6)


def walk_backward(observations: FloatArray) -> FloatArray:
    """The same backward."""
    return near(observations[..., 9] + 0.6, 0.6)


def rear_up(observations: FloatArray) -> FloatArray:
    """The nose is up by 45°: the pitch is positive where it is down."""
    return near(folded(observations[..., 2] + math.pi / 4.0), math.pi / 4.0)


WORLDS: Mapping[WorldName, World] = {
    "cartpole": World(
        env_id="SafeCartpole-v0",
        explored_id="SafeCartpole-PGP-v0",
        arguments={"slider_limit": 1.5},
        tasks={"swing up": swing_up, "stay at 1 m": stay_aside, "keep turning": keep_turning},
    ),
    "half-cheetah": World(
        env_id="SafeHalfCheetah-v0",
        explored_id="SafeHalfCheetah-PGP-v0",
        # As the stack has it: exploration is of places, too.
        arguments={"costs": ["speed"], "exclude_current_positions_from_observation": False},
        tasks={"walk forward": walk_forward, "walk backward": walk_backward, "rear up": rear_up},
    ),
}
