"""Pictures: which spaces hold them, and where their channels are."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

_LEAST_SIDE = 16
"""Smaller arrays are no pictures, and each of their numbers is an input."""

LARGEST_SIDE = 8
"""Convolutions of stride 2 halve a picture until its sides are at most this."""

CHANNELS = (16, 32)
"""Of the first convolution, and of those after it."""


def is_picture(space: gym.Space[Any]) -> bool:
    """Whether this is a ``Box`` of ``uint8``, ``(H, W)``, ``(H, W, C)`` or ``(C, H, W)``, of at least 16 by 16; or a
    stack of frames in color, with the number of frames before that.
    """
    if not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3, 4):
        return False
    return min(layout(space.shape)[1:]) >= _LEAST_SIDE


def layout(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width of a picture; of a stack, the channels of all frames."""
    if len(shape) == 2:
        return 1, *shape
    if len(shape) == 4:
        channels, height, width = layout(shape[1:])
        return shape[0] * channels, height, width
    return shape if has_channels_first(shape) else (shape[2], shape[0], shape[1])  # type: ignore[return-value]


def has_channels_first(shape: tuple[int, ...]) -> bool:
    """Whether a picture is ``(C, H, W)``: there are fewer channels than columns, or rows."""
    return len(shape) == 3 and shape[0] < shape[2]
