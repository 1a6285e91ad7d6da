"""Networks of policies and critics, and how they see observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from constrained_maxent.agents.policies.pictures import PictureEncoder
from constrained_maxent.agents.policies.policy import Policy, to_array
from constrained_maxent.errors import InvalidSetting, UnsupportedSpace
from constrained_maxent.spaces import components, leaves, width
from constrained_maxent.spaces.pictures import is_picture
from constrained_maxent.types import FloatArray

LARGEST_INPUT = 1_000_000
"""Most inputs of a network; a finite space has one for each value of each component."""

LARGEST_NORMALIZED = 10.0
"""Normalized observations are clipped here: one outlier would drive the network far from all that it has learnt."""


class _Numbers(NamedTuple):
    """Columns of rows that are inputs themselves, and where their statistics are."""

    columns: slice
    statistics: slice


class _Cells(NamedTuple):
    """Columns of rows with whole numbers, one-hot each."""

    columns: slice
    starts: list[int]
    sizes: list[int]


class _Picture(NamedTuple):
    """Columns of rows that an encoder sees, by its number."""

    columns: slice
    encoder: int


class Features(nn.Module):
    """Observations as network input: ``Box`` flattened, finite spaces one-hot by component, pictures encoded.

    ``Tuple`` and ``Dict`` are their parts side by side, in the order of ``gymnasium.spaces.flatten``. Pictures go
    through a :class:`~constrained_maxent.agents.policies.pictures.PictureEncoder`, which learns with the network.

    Args:
        space: of the observations.
        normalize: whether the numbers of ``Box`` observations that are no pictures are shifted and scaled to mean 0 and
            variance 1 over all rows that ``observe`` was given, and clipped to ±10. The statistics are buffers: part of
            every checkpoint.

    Raises:
        UnsupportedSpace: a part without numbers, or more than ``LARGEST_INPUT`` inputs.
    """

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, space: gym.Space[Any], *, normalize: bool = False) -> None:
        super().__init__()
        self._parts: list[_Numbers | _Cells | _Picture] = []
        self.encoders = nn.ModuleList()
        at = self._n_numbers = self.size = 0
        for _, leaf in leaves(space):
            columns = slice(at, at := at + width(leaf))
            if is_picture(leaf):
                encoder = PictureEncoder(leaf.shape or ())
                self._parts.append(_Picture(columns, len(self.encoders)))
                self.encoders.append(encoder)
                self.size += encoder.size
            elif isinstance(leaf, gym.spaces.Box):
                n = width(leaf)
                self._parts.append(_Numbers(columns, slice(self._n_numbers, self._n_numbers + n)))
                self._n_numbers += n
                self.size += n
            else:
                starts, sizes = components(leaf)
                self._parts.append(_Cells(columns, starts, sizes))
                self.size += sum(sizes)
        if self.size > LARGEST_INPUT:
            raise UnsupportedSpace(
                f"{space} would be {self.size:,} inputs of a network: describe the observation more coarsely, or as a "
                "MultiDiscrete of small components."
            )
        self._normalizes = normalize and self._n_numbers > 0
        if self._normalizes:
            self.register_buffer("count", torch.zeros((), dtype=torch.float64))
            self.register_buffer("mean", torch.zeros(self._n_numbers, dtype=torch.float64))
            self.register_buffer("variance", torch.ones(self._n_numbers, dtype=torch.float64))

    def observe(self, rows: NDArray[Any]) -> None:
        """Merge mean and variance of more rows, ``(n, ...)`` (Chan, Golub and LeVeque 1979)."""
        if not (self._normalizes and len(rows)):
            return
        flat = torch.as_tensor(rows, device=self.mean.device).reshape(len(rows), -1)
        if not self.is_flat:
            numbers = [flat[:, part.columns] for part in self._parts if isinstance(part, _Numbers)]
            flat = torch.cat(numbers, dim=1)
        flat = flat.double()
        fresh_mean, fresh_variance = flat.mean(dim=0), flat.var(dim=0, unbiased=False)
        share = len(rows) / (float(self.count) + len(rows))
        difference = fresh_mean - self.mean
        spread = share * (1.0 - share) * difference**2
        self.variance.copy_((1.0 - share) * self.variance + share * fresh_variance + spread)
        self.mean += share * difference
        self.count += len(rows)

    @property
    def is_flat(self) -> bool:
        """Whether these are the numbers of ``Box`` spaces as they are."""
        return self.size == self._n_numbers

    def _scale(self) -> torch.Tensor:
        # What is constant, but for the rounding of its mean, stays as it is, shifted to 0.
        varies = self.variance > 1e-16 + 1e-24 * self.mean**2
        return torch.where(varies, self.variance, 1.0).rsqrt()

    def normalization(self) -> tuple[FloatArray, FloatArray] | None:
        """Center c and scale z, ``(size,)`` each: inputs become (x - c)·z. ``None`` where inputs stay as they are."""
        return (to_array(self.mean), to_array(self._scale())) if self._normalizes else None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        # Of len() a program that is written out would know the value here: torch.export.
        flat = rows.reshape(rows.shape[0], -1)
        if self.is_flat:
            return self._numbers(flat, slice(None))
        inputs: list[torch.Tensor] = []
        for part in self._parts:
            own = flat[:, part.columns]
            if isinstance(part, _Numbers):
                inputs.append(self._numbers(own, part.statistics))
            elif isinstance(part, _Picture):
                inputs.append(self.encoders[part.encoder](own))
            else:
                digits = own.long() - torch.as_tensor(part.starts, device=rows.device)
                inputs += [functional.one_hot(digits[:, i], n).to(torch.float32) for i, n in enumerate(part.sizes)]
        return inputs[0] if len(inputs) == 1 else torch.cat(inputs, dim=1)

    def _numbers(self, flat: torch.Tensor, statistics: slice) -> torch.Tensor:
        if self._normalizes:
            centered = (flat - self.mean[statistics]) * self._scale()[statistics]
            flat = centered.clamp(-LARGEST_NORMALIZED, LARGEST_NORMALIZED)
        return flat.to(torch.float32)


def mlp(n_inputs: int, hidden_sizes: Sequence[int], n_outputs: int) -> nn.Sequential:
    """A network with ReLU between its layers; the last layer starts near 0: the first policy is nearly uniform."""
    layers: list[nn.Module] = []
    size = n_inputs
    for hidden in hidden_sizes:
        # In place: nothing needs what comes before, and fresh memory for large batches costs as much as the arithmetic.
        layers += [nn.Linear(size, hidden), nn.ReLU(inplace=True)]
        size = hidden
    return nn.Sequential(*layers, _last(size, n_outputs))


def _last(n_features: int, n_outputs: int) -> nn.Linear:
    last = nn.Linear(n_features, n_outputs)
    nn.init.normal_(last.weight, std=0.01)
    nn.init.zeros_(last.bias)
    return last


Network = Callable[[int], nn.Module]
"""Makes a network of one's own for a number of inputs: a module from ``(n, n_inputs)`` to ``(n, n_features)``."""


def network(n_inputs: int, hidden: Sequence[int] | Network, n_outputs: int) -> nn.Sequential:
    """A network of these hidden layers, or one of the user's own with a last layer that starts near 0.

    Raises:
        InvalidSetting: what is made is no module of that kind, or gives a row other features at another time or in
            another batch, as with dropout, batch normalization or a memory: then π(a|s) is no function of s.
    """
    if not callable(hidden):
        return mlp(n_inputs, hidden, n_outputs)
    made = hidden(n_inputs)
    if not isinstance(made, nn.Module):
        raise InvalidSetting(f"network= made a {type(made).__name__}: it must make a torch.nn.Module.")
    return nn.Sequential(made, _last(_n_features(made, n_inputs), n_outputs))


def _n_features(made: nn.Module, n_inputs: int) -> int:
    # Of a generator of its own: networks that follow start as they would without this look.
    rows = torch.randn(3, n_inputs, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        try:
            once, alone = made(rows), torch.cat([made(row[None]) for row in rows])
        except Exception as error:
            raise InvalidSetting(
                f"network= cannot take {n_inputs} inputs, of several rows and of one ({error}): it maps "
                "(n, n_inputs) to (n, n_features) for any n, without batch normalization or a memory."
            ) from error
        if not isinstance(once, torch.Tensor) or once.ndim != 2 or len(once) != 3 or once.dtype != torch.float32:
            raise InvalidSetting("network= must map (n, n_inputs) to (n, n_features), in float32.")
        if not (torch.equal(once, made(rows)) and torch.allclose(once, alone, rtol=1e-3, atol=1e-5)):
            raise InvalidSetting(
                "network= gives a row other features at another time, or in another batch: leave out dropout, batch "
                "normalization and memory. π(a|s) must be a function of s."
            )
    return once.shape[1]


class NetworkPolicy(Policy):
    """What policies of networks share: features of the observations, normalized if wanted.

    Args:
        observation_space: of one (sub-)environment.
        normalize: see :class:`Features`.
    """

    def __init__(self, observation_space: gym.Space[Any], *, normalize: bool) -> None:
        super().__init__()
        self.features = Features(observation_space, normalize=normalize)

    def observe(self, rows: NDArray[Any]) -> None:
        self.features.observe(rows)
