r"""The paper's state density: a mixture of diagonal Gaussians that follows the policy by steps of Adam.

Paper, *Occupancy Measure Estimate* (eq. :math:`\hat d^\pi`-Est), after Barakat et al., *Scalable general-utility RL*.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.continuous import Domain, Frame, check_positive
from constrained_maxent.occupancy.gaussians import PERIOD, Gaussians
from constrained_maxent.occupancy.likelihood_ascent import BETAS, EPSILON, LikelihoodAscent
from constrained_maxent.occupancy.mixture_estimator import MixtureEstimator
from constrained_maxent.occupancy.samples import drawn_by_weight
from constrained_maxent.schedules import Schedule
from constrained_maxent.types import FloatArray, IntArray, check_count


class AdamGaussianMixture(MixtureEstimator):
    r"""Softmax weights, means and log standard deviations, kept from fit to fit and moved by Adam.

    Each fit takes ``n_steps`` steps up the mean log-likelihood of minibatches drawn from the state buffer by weight.
    The gradient is written out, which is several times faster than automatic differentiation. Angles as in
    :class:`~constrained_maxent.occupancy.GaussianMixture`; in the fit, sums over turns go from -1 to 1.

    Args:
        n_components: number of components.
        n_steps: steps of Adam a fit.
        batch_size: samples of one step.
        learning_rate: of Adam.
        log_std_bounds: least and largest log σ.
        standardize: learn in coordinates of mean 0 and variance 1 in the first batch, instead of the state's own.
        device: where the steps are computed: ``"cpu"`` by NumPy, others by PyTorch.
        over, periodic, buffer_size, memory, seed: see
            :class:`~constrained_maxent.occupancy.continuous.ContinuousEstimator`. The paper's buffer has 200,000 steps.

    Attributes:
        mass_: total mass of λ̂.
        expected_costs_: ⟨c, λ̂⟩ of each recorded cost.
        mixture_: the components, before wrapping.
    """

    def __init__(
        self,
        *,
        n_components: int = 16,
        n_steps: int = 200,
        batch_size: int = 512,
        learning_rate: float = 3e-4,
        log_std_bounds: tuple[float, float] = (-5.0, 2.0),
        standardize: bool = False,
        device: str = "cpu",
        over: Domain = "state",
        periodic: Sequence[int] = (),
        buffer_size: int | None = None,
        memory: Schedule = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(over=over, periodic=periodic, buffer_size=buffer_size, memory=memory, seed=seed)
        for name, value in {"n_components": n_components, "n_steps": n_steps, "batch_size": batch_size}.items():
            check_count(name, value)
        check_positive("learning_rate", learning_rate)
        if len(log_std_bounds) != 2 or not -np.inf < log_std_bounds[0] < log_std_bounds[1] < np.inf:
            raise InvalidSetting(f"log_std_bounds={log_std_bounds!r} must be a pair, the lower one first.")
        self.n_components = n_components
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.log_std_bounds = log_std_bounds
        self.standardize = standardize
        self.device = device
        self._frame: Frame
        self._parameters: torch.Tensor
        self._moments: torch.Tensor
        self._n_updates: int

    def _forget(self) -> None:
        super()._forget()
        for name in ("_frame", "_parameters", "_moments", "_n_updates"):
            self.__dict__.pop(name, None)

    def _learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        if not hasattr(self, "_parameters"):
            self._begin(rows, weights, rng)
        samples = self._frame.standardized(rows) if self.standardize else rows
        chosen = drawn_by_weight(weights, (self.n_steps, self.batch_size), rng)
        if self._parameters.device.type == "cpu":
            self._climb(samples, chosen)
        else:
            with torch.no_grad():
                self._adam(self._tensor(samples), torch.as_tensor(chosen, device=self.device))
        self._n_updates += self.n_steps
        self._show(self._fitted())

    def _begin(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        """Means at samples, σ = 1, equal weights."""
        k, n_features = self.n_components, rows.shape[1]
        self._frame = (
            Frame.of(rows, weights, self._angles)
            if self.standardize
            else Frame(np.zeros(n_features), np.ones(n_features))
        )
        chosen = rng.choice(len(rows), size=k, p=weights / weights.sum())
        parameters = np.zeros((k, 1 + 2 * n_features))
        parameters[:, 1 : 1 + n_features] = self._frame.standardized(rows)[chosen]
        parameters[:, 1 + n_features :] = np.clip(0.0, *self.log_std_bounds)
        try:
            self._parameters = self._tensor(parameters)
        except (RuntimeError, AssertionError) as error:
            raise InvalidSetting(f"device={self.device!r} cannot be used here ({error}): take 'cpu'.") from error
        self._moments = torch.zeros(2, *self._parameters.shape, dtype=torch.float64, device=self.device)
        self._n_updates = 0

    def _climb(self, samples: FloatArray, chosen: IntArray) -> None:
        """Adam on the processor."""
        LikelihoodAscent(
            self._parameters.numpy(),
            self._moments.numpy(),
            turns_of(self._angles, samples.shape[1]),
            angles=self._angles,
            learning_rate=self.learning_rate,
            log_std_bounds=self.log_std_bounds,
        ).climb(samples, chosen, self._n_updates)

    def _adam(self, samples: torch.Tensor, chosen: torch.Tensor) -> None:
        """The same steps on other devices."""
        n_features = samples.shape[1]
        monomials = torch.cat((samples * samples, samples, torch.ones_like(samples[:, :1])), dim=1)
        turns = self._tensor(turns_of(self._angles, n_features))
        # The tensors are so small that what a step costs is the number of calls: views are made once.
        parameters, (first, second) = self._parameters, self._moments
        log_std = parameters[:, 1 + n_features :]
        angles = [parameters[:, 1 + i] for i in self._angles]
        for n_done, batch in enumerate(chosen, start=self._n_updates + 1):
            gradient = log_likelihood_gradient(parameters, monomials.index_select(0, batch), turns)
            first.lerp_(gradient, 1.0 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1.0 - BETAS[1])
            correction = math.sqrt(1.0 - BETAS[1] ** n_done)
            step = self.learning_rate / (1.0 - BETAS[0] ** n_done)
            # Upwards: the likelihood is maximized.
            parameters.addcdiv_(first, second.sqrt().div_(correction).add_(EPSILON), value=step)
            log_std.clamp_(*self.log_std_bounds)
            for angle in angles:
                angle.add_(math.pi).remainder_(PERIOD).sub_(math.pi)

    def _fitted(self) -> Gaussians:
        """The parameters as components in the state's own coordinates."""
        parameters = self._parameters.cpu().numpy()
        n_features = (parameters.shape[1] - 1) // 2
        weights = np.exp(parameters[:, 0] - parameters[:, 0].max())
        covariances = np.exp(2.0 * parameters[:, 1 + n_features :])[:, :, None] * np.eye(n_features)
        inside = Gaussians(weights / weights.sum(), parameters[:, 1 : 1 + n_features].copy(), covariances)
        return inside.moved(self._frame.center, self._frame.scale)

    def _tensor(self, values: FloatArray) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.float64, device=self.device)

    def _model(self) -> dict[str, Any]:
        return {
            "parameters": self._parameters.cpu().numpy().copy(),
            "moments": self._moments.cpu().numpy().copy(),
            "n_updates": self._n_updates,
            "center": self._frame.center,
            "scale": self._frame.scale,
        }

    def _restore(self, model: Mapping[str, Any]) -> None:
        self._frame = Frame(np.array(model["center"], np.float64), np.array(model["scale"], np.float64))
        self._parameters = self._tensor(np.array(model["parameters"], np.float64))
        self._moments = self._tensor(np.array(model["moments"], np.float64))
        self._n_updates = int(model["n_updates"])
        self._show(self._fitted())


def turns_of(periodic: Sequence[int], n_features: int) -> FloatArray:
    """Shifts by -1, 0 and 1 turns in every periodic feature, ``(n_turns, n_features)``."""
    turns = np.zeros((3 ** len(periodic), n_features))
    turns[:, list(periodic)] = PERIOD * np.array(list(itertools.product((-1, 0, 1), repeat=len(periodic))))
    return turns


def log_likelihood_gradient(parameters: torch.Tensor, monomials: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    r"""Gradient of the mean log-likelihood of a diagonal mixture, each component summed over its shifts.

    With the shares :math:`r_{ikj}` of component *k*, shifted by :math:`t_j`, in sample *i*:

    .. math:: \partial_{\alpha_k} = \bar r_k - \mathrm{softmax}(\alpha)_k, \qquad
       \partial_{m_k} = \overline{r_k (x - t - m_k)} / \sigma_k^2, \qquad
       \partial_{\log\sigma_k} = \overline{r_k (x - t - m_k)^2} / \sigma_k^2 - \bar r_k

    Args:
        parameters: logits α, means m and log σ side by side, ``(n_components, 1 + 2·n_features)``.
        monomials: x², x and 1 side by side, ``(n, 2·n_features + 1)``.
        turns: the shifts t, ``(n_turns, n_features)``.

    Returns:
        A tensor like the parameters.
    """
    (k, _), (n_turns, d) = parameters.shape, turns.shape
    logits, means, log_std = parameters[:, :1], parameters[:, 1 : 1 + d], parameters[:, 1 + d :]
    weights = torch.softmax(logits, dim=0)
    precisions = torch.exp(-2.0 * log_std)
    shifted = means[:, None] + turns
    linear = precisions[:, None] * shifted
    # Constants, the same for all components, fall out of the shares: the weights' own normalization, and d/2·log 2π.
    constant = (logits - log_std.sum(dim=1, keepdim=True))[:, None] - 0.5 * (linear * shifted).sum(dim=2, keepdim=True)
    quadratic = (-0.5 * precisions)[:, None].expand(k, n_turns, d)
    coefficients = torch.cat((quadratic, linear, constant), dim=2).reshape(k * n_turns, 2 * d + 1)
    logs = monomials @ coefficients.T
    raised = logs.sub_(logs.amax(dim=1, keepdim=True)).exp_()
    # The shares' normalization goes with the few monomials of a sample instead of its many images.
    divided = monomials / (raised.sum(dim=1, keepdim=True) * monomials.shape[0])
    sums = (divided.T @ raised).T.reshape(k, n_turns, 2 * d + 1)
    second, first, share = sums[:, :, :d], sums[:, :, d : 2 * d], sums[:, :, 2 * d :]
    moved = share * shifted
    away = (first - moved).sum(dim=1)
    square = (second + shifted * (moved - 2.0 * first)).sum(dim=1)
    total = share.sum(dim=1)
    return torch.cat((total - weights, away * precisions, square * precisions - total), dim=1)
