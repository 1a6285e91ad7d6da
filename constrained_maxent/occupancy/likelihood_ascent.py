"""Adam up the likelihood of a diagonal mixture, in NumPy: its arrays are so small that calls cost more than arithmetic.

The same steps as those of :mod:`~constrained_maxent.occupancy.adam_mixture`, which takes them on other devices: a call
of NumPy costs a fraction of one of PyTorch, and no threads wait for each other between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from constrained_maxent.occupancy.gaussians import PERIOD
from constrained_maxent.types import FloatArray, IntArray

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Adam's usual constants (Kingma and Ba 2015)."""


class LikelihoodAscent:
    """Takes steps of Adam with parameters and moments, which change in place.

    Args:
        parameters: logits, means and log σ side by side, ``(n_components, 1 + 2·n_features)``.
        moments: Adam's two, ``(2, n_components, 1 + 2·n_features)``.
        turns: the shifts that each component is summed over, ``(n_turns, n_features)``.
        angles: the features that stay within [-π, π).
        learning_rate: of Adam.
        log_std_bounds: least and largest log σ.
    """

    def __init__(
        self,
        parameters: FloatArray,
        moments: FloatArray,
        turns: FloatArray,
        *,
        angles: Sequence[int],
        learning_rate: float,
        log_std_bounds: tuple[float, float],
    ) -> None:
        d = turns.shape[1]
        self._parameters, (self._first, self._second) = parameters, moments
        self._logits, self._means, self._log_std = parameters[:, 0], parameters[:, 1 : 1 + d], parameters[:, 1 + d :]
        self._angles = [parameters[:, 1 + i] for i in angles]
        self._turns = turns
        self._learning_rate = learning_rate
        self._bounds = log_std_bounds

    def climb(self, rows: FloatArray, chosen: IntArray, n_updates: int) -> None:
        """One step for each minibatch.

        Args:
            rows: samples, ``(n, n_features)``.
            chosen: which of them each step takes, ``(n_steps, batch_size)``.
            n_updates: steps taken before.
        """
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
        """Gradient of the mean log-likelihood; see
        :func:`~constrained_maxent.occupancy.adam_mixture.log_likelihood_gradient`.

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
