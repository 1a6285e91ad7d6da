"""Models of the dynamics from a data set alone, and how wrong they are about states of all data sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree

from constrained_maxent.reproduction.explore_then_learn.data import Episodes
from constrained_maxent.seeds import derived_seed
from constrained_maxent.types import FloatArray

NETWORKS, WIDTH = 5, 128
STEPS, BATCH = 4000, 256
"""Of minibatches."""

EDGES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, math.inf)
"""Bounds of the distances from the data."""

_SHARE = 0.1
_MOST = 20_000

_SPLIT, _FIT, _DRAW = 2, 3, 4
"""Places of seeds."""


@dataclass(frozen=True)
class Steps:
    """What a model learns from: observations and actions before a step, and how observations change in it.

    Attributes:
        inputs: ``(n, d + m)``.
        changes: ``(n, d)``.
        costs: ``(n,)``, of the states before.
    """

    inputs: FloatArray
    changes: FloatArray
    costs: FloatArray

    @classmethod
    def of(cls, parts: Sequence[Episodes]) -> Steps:
        """All steps of all episodes."""
        observations, actions, costs = (
            [array for part in parts for array in getattr(part, name)] for name in ("observations", "actions", "costs")
        )
        rows = zip(observations, actions, strict=True)
        return cls(
            np.concatenate([np.concatenate([before[:-1], action], axis=1) for before, action in rows]),
            np.concatenate([np.diff(array, axis=0) for array in observations]),
            np.concatenate(costs),
        )

    def __getitem__(self, rows: NDArray[Any]) -> Steps:
        return Steps(self.inputs[rows], self.changes[rows], self.costs[rows])


def split(episodes: Episodes, seed: int) -> tuple[Episodes, Episodes]:
    """Nine tenths to learn from, and a tenth, at least one episode, that is held out."""
    order = np.random.default_rng(derived_seed(seed, _SPLIT)).permutation(len(episodes.numbers)).tolist()
    n = max(round(_SHARE * len(order)), 1)
    return episodes[order[n:]], episodes[order[:n]]


class Ensemble:
    """Networks of one hidden size, each from a start of its own; their mean predicts how observations change.

    Args:
        steps: to learn from.
        seed: of first weights and minibatches.
    """

    def __init__(self, steps: Steps, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(derived_seed(seed, _FIT))
        self._shift, self._scale = steps.inputs.mean(axis=0), steps.inputs.std(axis=0) + 1e-8
        self._mean, self._unit = steps.changes.mean(axis=0), steps.changes.std(axis=0) + 1e-8
        sizes = [steps.inputs.shape[1], WIDTH, WIDTH, steps.changes.shape[1]]
        self._layers = []
        for n, m in itertools.pairwise(sizes):
            bound = 1.0 / math.sqrt(n)  # PyTorch's own for linear layers
            drawn = [torch.rand(NETWORKS, *shape, generator=generator) for shape in ((n, m), (1, m))]
            self._layers.append([((2.0 * values - 1.0) * bound).requires_grad_() for values in drawn])
        targets = torch.as_tensor((steps.changes - self._mean) / self._unit).float()
        self._fit(self._inputs(steps.inputs), targets, generator)
        for values in itertools.chain(*self._layers):
            values.requires_grad_(False)

    def _inputs(self, inputs: FloatArray) -> torch.Tensor:
        return torch.as_tensor((inputs - self._shift) / self._scale).float()

    def _fit(self, inputs: torch.Tensor, targets: torch.Tensor, generator: torch.Generator) -> None:
        optimizer = torch.optim.Adam(list(itertools.chain(*self._layers)), lr=1e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        for _ in range(STEPS):
            rows = torch.randint(len(inputs), (NETWORKS, BATCH), generator=generator)
            loss = (self._forward(inputs[rows]) - targets[rows]).square().mean(dim=(1, 2)).sum()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()

    def _forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Of inputs ``(NETWORKS, n, d)``, in units of the data."""
        for weights, bias in self._layers[:-1]:
            inputs = torch.nn.functional.silu(torch.baddbmm(bias, inputs, weights))
        weights, bias = self._layers[-1]
        return torch.baddbmm(bias, inputs, weights)

    def predict(self, inputs: FloatArray) -> FloatArray:
        """How observations change, ``(n, d)``, of observations with actions ``(n, d + m)``."""
        rows = self._inputs(inputs).expand(NETWORKS, -1, -1)
        changes: FloatArray = self._forward(rows).mean(dim=0).double().numpy() * self._unit + self._mean
        return changes


def model_errors(own: Episodes, held_out: Sequence[Episodes], *, seed: int) -> dict[str, float | None]:
    """A model of the steps of ``own``, on what was held out of all data sets.

    Errors are root mean squares over steps and coordinates, each coordinate in the standard deviation of its change in
    what was held out: 1 is what the mean change would err by. Distances are those to the nearest observation to learn
    from, each coordinate in the standard deviation of what was held out.

    Returns:
        ``error``; ``error within`` steps that cost nothing; ``error from a to b``, of steps so far from the data, where
        there are any; ``share from a to b`` of them.
    """
    known, steps = Steps.of([own]), Steps.of(held_out)
    model = Ensemble(known, seed=seed)
    unit, size = steps.changes.std(axis=0) + 1e-8, steps.changes.shape[1]
    scale = steps.inputs[:, :size].std(axis=0) + 1e-8
    rows = np.random.default_rng(derived_seed(seed, _DRAW)).permutation(len(steps.costs))[:_MOST]
    steps = steps[rows]
    squares = np.square((model.predict(steps.inputs) - steps.changes) / unit).mean(axis=1)
    tree = KDTree(known.inputs[:, :size] / scale)
    distances = tree.query(steps.inputs[:, :size] / scale)[0]

    def error(mask: NDArray[Any]) -> float | None:
        return float(np.sqrt(squares[mask].mean())) if mask.any() else None

    found = {"error": error(np.ones(len(squares), dtype=bool)), "error within": error(steps.costs <= 0.0)}
    for low, high in itertools.pairwise(EDGES):
        inside = (distances >= low) & (distances < high)
        found |= {f"error {span(low, high)}": error(inside), f"share {span(low, high)}": float(inside.mean())}
    return found


def span(low: float, high: float) -> str:
    """A range of distances in words."""
    return f"from {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
