"""Any density of scikit-learn's kind as an occupancy estimate."""

from __future__ import annotations

import inspect
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from constrained_maxent.errors import InvalidSetting, NonFiniteValue
from constrained_maxent.occupancy.continuous import ContinuousEstimator
from constrained_maxent.occupancy.gaussians import PERIOD
from constrained_maxent.occupancy.samples import Frame, resampled
from constrained_maxent.types import FloatArray


@dataclass(eq=False, repr=False)
class FromScikitLearn(ContinuousEstimator):
    r"""A density with ``fit`` and ``score_samples``: ``KernelDensity``, ``BayesianGaussianMixture``, or your own.

    It is cloned for each fit and sees coordinates of mean 0 and variance 1 (angles: radians in [-π, π)). Discount
    weights are handed over if its ``fit`` takes ``sample_weight``; else samples are drawn by weight. A ``random_state``
    left open is set from the seed. Of an angle the density is summed over turns, :math:`\sum_j p(s + 2\pi j)`, j from
    -1 to 1: that integrates to 1 over one turn up to the mass that *p*, which saw angles in [-π, π), has beyond ±3π.

    Args:
        density: the estimator, unfitted.
        over, periodic, counted, buffer_size, memory, seed: as in ``ContinuousEstimator``.

    >>> from sklearn.neighbors import KernelDensity
    >>> FromScikitLearn(KernelDensity(bandwidth=0.2), periodic=(1,)).periodic
    (1,)
    """

    density: Any = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        lacking = [name for name in ("fit", "score_samples", "get_params") if not hasattr(self.density, name)]
        if lacking:
            raise InvalidSetting(
                f"density={self.density!r} lacks {', '.join(lacking)}: it must be a scikit-learn density."
            )

    def learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        self._frame = Frame.of(rows, weights, self._angles)
        z = self._frame.standardized(rows)
        self._fitted = self._clone_of(z, weights, rng)
        if self.over == "state-action":
            self._fitted_states = self._clone_of(z[:, : self._n_states], weights, rng)

    def _clone_of(self, z: FloatArray, weights: FloatArray, rng: np.random.Generator) -> Any:
        from sklearn.base import clone

        model = clone(self.density)
        if model.get_params().get("random_state", 0) is None:
            model.set_params(random_state=int(rng.integers(2**31)))
        arguments = {}
        if weights.min() < weights.max():
            if "sample_weight" in inspect.signature(model.fit).parameters:
                arguments = {"sample_weight": weights / weights.mean()}
            else:
                z = z[resampled(weights, len(z), rng)]
        try:
            return model.fit(z, **arguments)
        except ValueError as error:
            raise InvalidSetting(f"{model} cannot be fitted to {len(z)} samples: {error}") from error

    def _score(self, model: Any, z: FloatArray) -> FloatArray:
        total = np.full(len(z), -np.inf)
        for turns in itertools.product((0, -1, 1), repeat=len(self._angles)):
            shifted = z
            if any(turns):
                shifted = z.copy()
                shifted[:, self._angles] += PERIOD * np.array(turns)
            scores = np.asarray(model.score_samples(shifted), dtype=np.float64)
            if np.isnan(scores).any():
                raise NonFiniteValue(f"{model} gives a density that is not a number.")
            total = np.logaddexp(total, scores)
        return total

    def log_density(self, rows: FloatArray) -> FloatArray:
        return self._score(self._fitted, self._frame.standardized(rows)) - self._frame.log_volume

    def log_state_density(self, states: FloatArray) -> FloatArray:
        center, scale = self._frame.center[: self._n_states], self._frame.scale[: self._n_states]
        return self._score(self._fitted_states, (states - center) / scale) - math.log(float(np.prod(scale)))
