"""A state for pictures: what a fixed random convolutional network makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.spaces.pictures import CHANNELS, LARGEST_SIDE, has_channels_first
from constrained_maxent.types import FloatArray, check_count, check_seed

_MOST_FEATURES = 64


@dataclass(frozen=True, kw_only=True)
class RandomEncoder:
    """A function of a picture that ``TrackOccupancy(state=)`` takes: few numbers, near each other for like pictures.

    Convolutions of 3 by 3 with stride 2 and ReLU, of 16 and then 32 channels, until the sides are at most 8, and a
    linear layer; all weights are Gaussian, and never learn. Densities that look at distances, such as
    :class:`~constrained_maxent.occupancy.NearestNeighbors`, tell by it where an agent has been (Seo et al. 2021, "State
    Entropy Maximization with Random Encoders for Efficient Exploration"; without their normalization of the layer,
    which puts all features on a sphere, where nothing has a density).

    Args:
        n_features: coordinates of the state, at most 64.
        seed: of the weights, which depend on it and on the shape of the pictures alone.

    Raises:
        InvalidSetting: arguments out of range.
        InvalidData: when called with what is no picture, ``(H, W)``, ``(H, W, C)`` or ``(C, H, W)``, or a stack of
            frames of the last two.

    >>> encoder = RandomEncoder(n_features=3, seed=1)
    >>> picture = np.zeros((84, 84, 3), dtype=np.uint8)
    >>> encoder(picture).shape, bool((encoder(picture) == encoder(picture.copy())).all())
    ((3,), True)
    """

    n_features: int = _MOST_FEATURES
    seed: int = 0
    _layers: dict[tuple[int, ...], list[NDArray[np.float32]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if check_count("n_features", self.n_features) > _MOST_FEATURES:
            raise InvalidSetting(f"n_features={self.n_features} must be at most {_MOST_FEATURES}.")
        check_seed("seed", self.seed)

    def __call__(self, picture: Any) -> FloatArray:
        """The features of one picture, ``(n_features,)``; those of ``uint8`` count as from 0 to 1."""
        x = np.asarray(picture)
        if x.dtype.kind not in "fiub" or x.ndim not in (2, 3, 4) or not x.size:
            raise InvalidData(
                f"RandomEncoder takes one picture, (H, W), (H, W, C) or (C, H, W), or a stack of them, not shape "
                f"{x.shape} of {x.dtype}: of a dictionary give it a part, "
                "state=lambda observation: encoder(observation['image'])."
            )
        x = np.concatenate([_channels_last(frame) for frame in (x if x.ndim == 4 else x[None])], axis=2)
        scaled = x.astype(np.float32) / np.float32(255.0 if x.dtype == np.uint8 else 1.0)
        *convolutions, last = self._weights(scaled.shape)
        for weights in convolutions:
            padded = np.pad(scaled, ((1, 1), (1, 1), (0, 0)))
            windows = sliding_window_view(padded, (3, 3), axis=(0, 1))[::2, ::2]  # (h, w, channels, 3, 3)
            h, w = windows.shape[:2]
            scaled = np.maximum(windows.reshape(h * w, -1) @ weights, 0.0).reshape(h, w, -1)
        features: FloatArray = (scaled.reshape(-1) @ last).astype(np.float64)
        return features

    def _weights(self, shape: tuple[int, ...]) -> list[NDArray[np.float32]]:
        """One matrix for each layer; they keep the variance of what passes through (He et al. 2015)."""
        if shape not in self._layers:
            rng = np.random.default_rng((self.seed, *shape))
            height, width, channels = shape
            layers: list[NDArray[np.float32]] = []
            while not layers or max(height, width) > LARGEST_SIDE:
                out = CHANNELS[min(len(layers), 1)]
                layers.append(_gaussian(rng, 9 * channels, out, gain=2.0))
                height, width, channels = (height + 1) // 2, (width + 1) // 2, out
            layers.append(_gaussian(rng, height * width * channels, self.n_features, gain=1.0))
            self._layers[shape] = layers
        return self._layers[shape]

    def __getstate__(self) -> dict[str, Any]:
        return {"n_features": self.n_features, "seed": self.seed, "_layers": {}}


def _channels_last(frame: NDArray[Any]) -> NDArray[Any]:
    if frame.ndim == 2:
        return frame[:, :, None]
    return np.moveaxis(frame, 0, 2) if has_channels_first(frame.shape) else frame


def _gaussian(rng: np.random.Generator, n_in: int, n_out: int, *, gain: float) -> NDArray[np.float32]:
    return (rng.standard_normal((n_in, n_out)) * math.sqrt(gain / n_in)).astype(np.float32)
