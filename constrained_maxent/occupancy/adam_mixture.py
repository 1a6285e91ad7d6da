r"""The paper's state density: a mixture of diagonal Gaussians that follows the policy by steps of Adam.

Paper, *Occupancy Measure Estimate* (eq. :math:`\hat d^\pi`-Est), after Barakat et al., *Scalable general-utility RL*.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.continuous import check_positive
from constrained_maxent.occupancy.gaussian_mixture import MixtureEstimator
from constrained_maxent.occupancy.gaussians import PERIOD, Gaussians
from constrained_maxent.occupancy.samples import Frame, drawn_by_weight
from constrained_maxent.types import FloatArray, IntArray, check_count

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Adam's usual constants (Kingma and Ba 2015)."""


@dataclass(kw_only=True, eq=False, repr=False)
class AdamGaussianMixture(MixtureEstimator):
    r"""Softmax weights, means and log standard deviations, kept from fit to fit and moved by Adam.

    Each fit takes ``n_steps`` steps up the mean log-likelihood of minibatches drawn from the state buffer by weight.
    Angles are treated as by :class:`~constrained_maxent.occupancy.GaussianMixture`; in the fit, sums over turns go from
    -1 to 1. A coordinate of the first batch whose spread is below the least σ or ten times the largest, or that lies a
    thousand spreads from 0, is fitted in units of its standard deviation; all others as they are, as in the paper.

    Args:
        n_components: number of components.
        n_steps: steps of Adam a fit.
        batch_size: samples of one step.
        learning_rate: of Adam.
        log_std_bounds: least and largest log σ.
        over, periodic, counted, buffer_size, memory, seed: as in ``ContinuousEstimator``. The
            paper's buffer has 200,000 steps.

    Attributes:
        mixture_: the components, before wrapping.
    """

    n_components: int = 16
    n_steps: int = 200
    batch_size: int = 512
    learning_rate: float = 3e-4
    log_std_bounds: tuple[float, float] = (-5.0, 2.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_components", "n_steps", "batch_size"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        bounds = self.log_std_bounds
        if len(bounds) != 2 or not -np.inf < bounds[0] < bounds[1] < np.inf:
            raise InvalidSetting(f"log_std_bounds={bounds!r} must be a pair, the lower one first.")
        self._parameters: FloatArray
        self._moments: FloatArray
        self._n_updates: int
        self._frame: Frame

    def forget(self) -> None:
        super().forget()
        for name in ("_parameters", "_moments", "_n_updates", "_frame"):
            self.__dict__.pop(name, None)

    def size(self, n_features: int) -> int:
        return 2 * self.n_components * n_features**2  # covariances and their roots

    def learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        if not hasattr(self, "_parameters"):
            self._begin(rows, weights, rng)
        rows = self._frame.standardized(rows)
        chosen = drawn_by_weight(weights, (self.n_steps, self.batch_size), rng)
        LikelihoodAscent(
            self._parameters,
            self._moments,
            angles=self._angles,
            learning_rate=self.learning_rate,
            log_std_bounds=self.log_std_bounds,
        ).climb(rows, chosen, self._n_updates)
        self._n_updates += self.n_steps
        self.show(self._fitted())

    def _begin(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        """Means at samples, σ = 1, equal weights."""
        self._frame = self._frame_of(rows, weights)
        rows = self._frame.standardized(rows)
        k, n_features = self.n_components, rows.shape[1]
        chosen = rng.choice(len(rows), size=k, p=weights / weights.sum())
        parameters = np.zeros((k, 1 + 2 * n_features))
        parameters[:, 1 : 1 + n_features] = rows[chosen]
        parameters[:, 1 + n_features :] = np.clip(0.0, *self.log_std_bounds)
        self._parameters, self._moments = parameters, np.zeros((2, *parameters.shape))
        self._n_updates = 0

    def _frame_of(self, rows: FloatArray, weights: FloatArray) -> Frame:
        """The coordinates as they are, but for those that σ could not follow or rounding would spoil."""
        frame = Frame.of(rows, weights, self._angles)
        low, high = np.exp(self.log_std_bounds)
        varies = np.ptp(rows, axis=0) > 0.0
        out = varies & ((frame.scale < low) | (frame.scale > 10.0 * high))
        out |= varies & (np.abs(frame.center) > 1e3 * frame.scale)
        out[self._angles] = False
        return Frame(np.where(out, frame.center, 0.0), np.where(out, frame.scale, 1.0))

    def _fitted(self) -> Gaussians:
        parameters = self._parameters
        n_features = (parameters.shape[1] - 1) // 2
        weights = np.exp(parameters[:, 0] - parameters[:, 0].max())
        covariances = np.exp(2.0 * parameters[:, 1 + n_features :])[:, :, None] * np.eye(n_features)
        fitted = Gaussians(weights / weights.sum(), parameters[:, 1 : 1 + n_features].copy(), covariances)
        return fitted.moved(self._frame.center, self._frame.scale)

    def model(self) -> dict[str, Any]:
        parameters, moments = self._parameters.copy(), self._moments.copy()
        frame = {"center": self._frame.center.copy(), "scale": self._frame.scale.copy()}
        return {"parameters": parameters, "moments": moments, "n_updates": self._n_updates, **frame}

    def restore(self, model: Mapping[str, Any]) -> None:
        self._parameters = np.array(model["parameters"], np.float64)
        self._moments = np.array(model["moments"], np.float64)
        self._n_updates = int(model["n_updates"])
        n_features = (self._parameters.shape[1] - 1) // 2
        center, scale = model.get("center", np.zeros(n_features)), model.get("scale", np.ones(n_features))
        self._frame = Frame(np.array(center, np.float64), np.array(scale, np.float64))
        self.show(self._fitted())


def turns_of(periodic: Sequence[int], n_features: int) -> FloatArray:
    """Shifts by -1, 0 and 1 turns in every periodic feature, ``(n_turns, n_features)``."""
    turns = np.zeros((3 ** len(periodic), n_features))
    turns[:, list(periodic)] = PERIOD * np.array(list(itertools.product((-1, 0, 1), repeat=len(periodic))))
    return turns


class LikelihoodAscent:
    """Takes steps of Adam up the likelihood of a diagonal mixture; its parameters and moments change in place.

    The arrays are so small that calls cost more than arithmetic: the gradient is written out, and views are made once.

    Args:
        parameters: logits, means and log σ side by side, ``(n_components, 1 + 2·n_features)``.
        moments: Adam's two, ``(2, n_components, 1 + 2·n_features)``.
        angles: the features that stay within [-π, π); there each component is summed over turns.
        learning_rate, log_std_bounds: as in :class:`AdamGaussianMixture`.
    """

    def __init__(
        self,
        parameters: FloatArray,
        moments: FloatArray,
        *,
        angles: Sequence[int],
        learning_rate: float,
        log_std_bounds: tuple[float, float],
    ) -> None:
        d = (parameters.shape[1] - 1) // 2
        self._parameters, (self._first, self._second) = parameters, moments
        self._logits, self._means, self._log_std = parameters[:, 0], parameters[:, 1 : 1 + d], parameters[:, 1 + d :]
        self._angles = [parameters[:, 1 + i] for i in angles]
        self._turns = turns_of(angles, d)
        self._learning_rate = learning_rate
        self._bounds = log_std_bounds

    def climb(self, rows: FloatArray, chosen: IntArray, n_updates: int) -> None:
        """One step for each of the minibatches ``chosen``, ``(n_steps, batch_size)``, of rows ``(n, n_features)``."""
        (_, size), d = chosen.shape, rows.shape[1]
        drawn = np.empty((size, d))
        monomials = np.ones((2 * d + 1, size))
        for n_done, batch in enumerate(chosen, start=n_updates + 1):
            # Indices were drawn within range; clipping spares NumPy a copy for the case that they are not.
            np.take(rows, batch, axis=0, out=drawn, mode="clip")
            monomials[d : 2 * d] = drawn.T
            np.multiply(monomials[d : 2 * d], monomials[d : 2 * d], out=monomials[:d])
            self._step(self.gradient(monomials), n_done)

    def gradient(self, monomials: FloatArray) -> FloatArray:
        r"""Gradient of the mean log-likelihood, each component summed over its shifts; of the parameters' shape.

        With the shares :math:`r_{ikj}` of component *k*, shifted by :math:`t_j`, in sample *i*:

        .. math:: \partial_{\alpha_k} = \bar r_k - \mathrm{softmax}(\alpha)_k, \qquad
           \partial_{m_k} = \overline{r_k (x - t - m_k)} / \sigma_k^2, \qquad
           \partial_{\log\sigma_k} = \overline{r_k (x - t - m_k)^2} / \sigma_k^2 - \bar r_k

        Args:
            monomials: x², x and 1 one above the other, ``(2·n_features + 1, n)``.
        """
        turns, logits, log_std = self._turns, self._logits, self._log_std
        k, (n_turns, d) = len(logits), turns.shape
        weights = np.exp(logits - np.maximum.reduce(logits))
        weights /= np.add.reduce(weights)
        precisions = np.exp(-2.0 * log_std)
        shifted = self._means[:, None] + turns
        coefficients = np.empty((k, n_turns, 2 * d + 1))
        coefficients[:, :, :d] = (-0.5 * precisions)[:, None]
        linear = np.multiply(precisions[:, None], shifted, out=coefficients[:, :, d : 2 * d])
        # Constants that are the same for all components fall out of the shares.
        constant = (logits - np.add.reduce(log_std, axis=1))[:, None]
        np.subtract(constant, 0.5 * np.add.reduce(linear * shifted, axis=2), out=coefficients[:, :, 2 * d])
        raised = coefficients.reshape(k * n_turns, 2 * d + 1) @ monomials
        raised -= np.maximum.reduce(raised, axis=0)
        np.exp(raised, out=raised)
        # The shares' normalization goes with the few monomials of a sample instead of its many images.
        divided = monomials / (np.add.reduce(raised, axis=0) * monomials.shape[1])
        sums = (raised @ divided.T).reshape(k, n_turns, 2 * d + 1)
        second, first, share = sums[:, :, :d], sums[:, :, d : 2 * d], sums[:, :, 2 * d :]
        moved = share * shifted
        total = np.add.reduce(share, axis=1)
        gradient = np.empty_like(self._parameters)
        np.subtract(total[:, 0], weights, out=gradient[:, 0])
        np.multiply(np.add.reduce(first - moved, axis=1), precisions, out=gradient[:, 1 : 1 + d])
        square = np.add.reduce(second + shifted * (moved - 2.0 * first), axis=1)
        np.subtract(square * precisions, total, out=gradient[:, 1 + d :])
        return gradient

    def _step(self, gradient: FloatArray, n_done: int) -> None:
        first, second = self._first, self._second
        first += (1.0 - BETAS[0]) * (gradient - first)
        second *= BETAS[1]
        second += (1.0 - BETAS[1]) * (gradient * gradient)
        divisor = np.sqrt(second)
        divisor /= math.sqrt(1.0 - BETAS[1] ** n_done)
        divisor += EPSILON
        # Upwards: the likelihood is maximized.
        self._parameters += first / divisor * (self._learning_rate / (1.0 - BETAS[0] ** n_done))
        np.clip(self._log_std, *self._bounds, out=self._log_std)
        for angle in self._angles:
            angle += math.pi
            np.remainder(angle, PERIOD, out=angle)
            angle -= math.pi
