"""Pictures as network input: a small convolutional encoder."""

from __future__ import annotations

import torch
from torch import nn

from constrained_maxent.spaces.pictures import CHANNELS, LARGEST_SIDE, has_channels_first, layout


class PictureEncoder(nn.Module):
    """Convolutions of 3 by 3 with stride 2 and ReLU, of 16 channels and then 32, until the sides are at most 8.

    Args:
        shape: of the pictures, ``(H, W)``, ``(H, W, C)`` or ``(C, H, W)``; or of stacks of frames of the last two.

    Attributes:
        size: number of outputs.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._frame = shape[-3:] if len(shape) == 4 else shape
        self._layout = channels, height, width = layout(shape)
        self._is_last = len(self._frame) == 3 and not has_channels_first(self._frame)
        layers: list[nn.Module] = []
        while max(height, width) > LARGEST_SIDE:
            out = CHANNELS[min(len(layers) // 2, 1)]
            layers += [nn.Conv2d(channels, out, 3, stride=2, padding=1), nn.ReLU(inplace=True)]
            channels, height, width = out, (height + 1) // 2, (width + 1) // 2
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.size = channels * height * width

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Outputs ``(n, size)`` of pictures ``(n, H·W·C)`` with numbers from 0 to 255."""
        frames = rows.reshape(-1, *self._frame).to(torch.float32) / 255.0
        if self._is_last:
            frames = frames.permute(0, 3, 1, 2)
        encoded: torch.Tensor = self.layers(frames.reshape(rows.shape[0], *self._layout))
        return encoded
