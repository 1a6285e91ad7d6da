"""Pictures as network input: a small convolutional encoder."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

_LEAST_SIDE = 16
"""Smaller arrays are no pictures, and each of their numbers is an input."""

_LARGEST_SIDE = 8
"""Convolutions halve a picture until its sides are at most this."""

_CHANNELS = (16, 32)
"""Of the first convolution, and of those after it."""


def is_picture(space: gym.Space[Any]) -> bool:
    """Whether this is a ``Box`` of ``uint8``, ``(H, W)``, ``(H, W, C)`` or ``(C, H, W)``, of at least 16 by 16."""
    if not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
        return False
    return min(_layout(space.shape)[1:]) >= _LEAST_SIDE


def _layout(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width; there are fewer channels than columns, or rows."""
    if len(shape) == 2:
        return 1, *shape
    return shape if shape[0] < shape[2] else (shape[2], shape[0], shape[1])  # type: ignore[return-value]


class PictureEncoder(nn.Module):
    """Convolutions of 3 by 3 with stride 2 and ReLU, of 16 channels and then 32, until the sides are at most 8.

    Args:
        shape: of the pictures, ``(H, W)``, ``(H, W, C)`` or ``(C, H, W)``.

    Attributes:
        size: number of outputs.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._shape = shape
        channels, height, width = _layout(shape)
        self._is_last = len(shape) == 3 and shape[0] >= shape[2]
        layers: list[nn.Module] = []
        while max(height, width) > _LARGEST_SIDE:
            out = _CHANNELS[min(len(layers) // 2, 1)]
            layers += [nn.Conv2d(channels, out, 3, stride=2, padding=1), nn.ReLU(inplace=True)]
            channels, height, width = out, (height + 1) // 2, (width + 1) // 2
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.size = channels * height * width

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Outputs ``(n, size)`` of pictures ``(n, H·W·C)`` with numbers from 0 to 255."""
        pictures = rows.reshape(len(rows), *self._shape).to(torch.float32) / 255.0
        if self._is_last:
            pictures = pictures.permute(0, 3, 1, 2)
        elif len(self._shape) == 2:
            pictures = pictures[:, None]
        encoded: torch.Tensor = self.layers(pictures)
        return encoded
