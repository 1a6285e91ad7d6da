"""How a policy takes a batch: one step or epochs of minibatches, kinds of steps, and the average of its iterates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.swa_utils import AveragedModel

from constrained_maxent.agents.policies import Policy, TabularSoftmax
from constrained_maxent.agents.rollouts import Rollout
from constrained_maxent.agents.settings import Hyperparameters
from constrained_maxent.errors import NonFiniteValue
from constrained_maxent.tracker import Tracker
from constrained_maxent.types import FloatArray


def update_policy(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    *,
    settings: Hyperparameters,
    rows: NDArray[Any],
    raw: NDArray[Any],
    factor_t: FloatArray,
    rng: np.random.Generator,
    center: Sequence[torch.Tensor] = (),
) -> float:
    r"""Climb :math:`\sum_t f_t \log\pi(a_t|s_t)`, or its surrogate that stays near the policy which acted.

    With several epochs or minibatches the batch's own policy is soon left behind; then the surrogate of Schulman et al.
    2017 (eq. 7), :math:`\sum_t \min(\rho_t f_t, \mathrm{clip}(\rho_t, 1-\epsilon, 1+\epsilon) f_t)` with the ratio
    :math:`\rho_t` of new to old probability, has the same gradient at first and none where it went too far.

    Args:
        policy, optimizer: what to change, and how.
        settings: epochs, minibatches, ε and largest norm.
        rows: observations, ``(n, ...)``.
        raw: raw actions, ``(n, ...)``.
        factor_t: :math:`f_t`, the weighted advantages, ``(n,)``.
        rng: shuffles.
        center: of the proximal term (paper, Algorithm 2): parameters that every gradient pulls back to, in their
            order. Without it there is no such term.

    Returns:
        Norm of the first gradient, before clipping.

    Raises:
        NonFiniteValue: a gradient is not finite; that step is not taken.
    """
    n_steps = len(rows)
    size = settings.minibatch_size or n_steps
    if settings.epochs == 1 and size >= n_steps:
        optimizer.zero_grad()
        policy.ascend(rows, raw, factor_t)
        return _step(policy, optimizer, settings, center)
    with torch.no_grad():
        old_t = policy.log_prob(rows, raw)
    first_norm = math.nan
    for _ in range(settings.epochs):
        order = rng.permutation(n_steps)
        # Parts of about equal size: a small rest would take as large a step as the others.
        for chosen in np.array_split(order, math.ceil(n_steps / size)):
            ratio = (policy.log_prob(rows[chosen], raw[chosen]) - old_t[torch.as_tensor(chosen)]).exp()
            # Scaled up, so that each minibatch's gradient estimates that of the whole batch.
            factor = torch.as_tensor(factor_t[chosen] * (n_steps / len(chosen)), dtype=ratio.dtype, device=ratio.device)
            clipped = ratio.clamp(1.0 - settings.clip_range, 1.0 + settings.clip_range)
            optimizer.zero_grad()
            (-torch.minimum(ratio * factor, clipped * factor).sum()).backward()  # type: ignore[no-untyped-call]
            norm = _step(policy, optimizer, settings, center)
            first_norm = norm if math.isnan(first_norm) else first_norm
    return first_norm


def _step(
    policy: Policy, optimizer: torch.optim.Optimizer, settings: Hyperparameters, center: Sequence[torch.Tensor]
) -> float:
    """One step of the optimizer, projected; the norm of its gradient."""
    if center:
        # Optimizers step down: the gradient of ρ̂/2 |θ - center|² is added.
        with torch.no_grad():
            for parameter, home in zip(policy.parameters(), center, strict=True):
                assert parameter.grad is not None
                parameter.grad += settings.proximal_weight * (parameter - home)
    norm = float(torch.nn.utils.clip_grad_norm_(policy.parameters(), settings.max_gradient_norm))
    if not math.isfinite(norm):
        raise NonFiniteValue("The gradient is not finite: lower the learning rate, or bound the pseudo-rewards.")
    optimizer.step()
    radius = settings.projection_radius
    if math.isfinite(radius):
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.clamp_(-radius, radius)
    policy.changed()
    return norm


class NaturalGradient(torch.optim.Optimizer):
    r"""Natural gradient steps of a softmax table (Kakade, 2001), state by state:
    :math:`\theta_s \leftarrow \theta_s + \eta\,(F_s + \delta I)^{-1} g_s`.

    The Fisher matrix is :math:`F_s = d(s)\,(\mathrm{diag}\,\pi_s - \pi_s\pi_s^\top)`; in closed form, see
    :mod:`constrained_maxent.engine.steps`, whose compiled step this one calls.

    Args:
        policy: the table.
        tracker: of the wrappers, whose λ̂ tells d; where it is over other states, the batch's own steps tell it.
        lr: η, in units of advantages [1 / nats].
        damping: δ > 0 as a share of the mass of a full-length episode.

    Attributes:
        visits: d(s), state marginal of λ̂, ``(n_states,)``, by ``before_batch`` and ``after_batch``.
    """

    def __init__(self, policy: TabularSoftmax, tracker: Tracker, *, lr: float, damping: float) -> None:
        # Imported late: the compiler takes half a second, and no other step needs it.
        from constrained_maxent.engine.steps import natural_table_step

        super().__init__(policy.parameters(), {"lr": lr})
        self.policy = policy
        self._tracker = tracker
        self._early: FloatArray | None = None
        self._step = natural_table_step
        self._damping = damping
        self.visits: FloatArray = np.zeros(len(policy.theta))

    def before_batch(self) -> None:
        """To be called before every batch: with "previous" its rewards belong to the estimate from before it."""
        self._early = estimated_visits(self._tracker, self.policy) if self._tracker.pairing == "previous" else None

    def after_batch(self, rollout: Rollout) -> None:
        """To be called with the batch that the next step climbs."""
        is_early = self._tracker.pairing == "previous"
        visits = self._early if is_early else estimated_visits(self._tracker, self.policy)
        self.visits = self._sampled_visits(rollout) if visits is None else visits

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step. PyTorch's gradients point down: the one to climb is their negative."""
        damping = self._damping * float(self._tracker.weighting.full_mass)
        for group in self.param_groups:
            for theta in group["params"]:
                table, gradient = theta.detach().cpu().numpy().copy(), -theta.grad.cpu().numpy()
                self._step(table, gradient, self.visits, damping, float(group["lr"]))
                with torch.no_grad():
                    theta.copy_(torch.from_numpy(table))

    def _sampled_visits(self, rollout: Rollout) -> FloatArray:
        """d(s) from a batch's own steps, ``(n_states,)``."""
        states = self.policy.state_numbers(rollout.rows)
        return np.bincount(states, rollout.weights, len(self.policy.theta)).astype(np.float64) / rollout.n_episodes


def estimated_visits(tracker: Tracker, policy: TabularSoftmax) -> FloatArray | None:
    """The state marginal of the wrappers' λ̂, ``(n_states,)``; ``None`` where they have none over these states."""
    n_states, n_actions = policy.theta.shape
    estimator = tracker.estimator
    if not (estimator.is_fitted and tracker.is_over_observations and estimator.table_shape() == (n_states, n_actions)):
        return None
    measure = tracker.estimator.measure()
    if measure.points.cells is None:
        marginal: FloatArray = measure.weights.sum(axis=1)
        return marginal
    return np.bincount(measure.points.cells // n_actions, measure.weights, n_states).astype(np.float64)


class PolicyAverage:
    r"""An exponential average of a policy's iterates, which follows a learner that moves (Polyak and Juditsky, 1992):
    :math:`\bar\theta \leftarrow d_n \bar\theta + (1 - d_n)\,\theta`, with :math:`d_n = \min(d, n/(n+1))`.

    The iterates of stochastic gradients swing around where they are heading; their mean swings less. At first it is the
    plain mean of the iterates so far. Normalizations of observations are those of the last iterate.

    Args:
        policy: the learner; the average is a copy of it.
        decay: d, in (0, 1).
    """

    def __init__(self, policy: Policy, decay: float) -> None:
        def averaged(mean: torch.Tensor, new: torch.Tensor, n: torch.Tensor | int) -> torch.Tensor:
            return torch.lerp(mean, new, max(1.0 - decay, 1.0 / (int(n) + 1)))

        self._model = AveragedModel(policy, avg_fn=averaged)

    @property
    def policy(self) -> Policy:
        """The policy at the mean of the parameters."""
        return cast(Policy, self._model.module)

    def update(self, policy: Policy) -> None:
        """Take the learner's parameters into the average."""
        self._model.update_parameters(policy)
        self.policy.changed()

    def state_dict(self) -> dict[str, Any]:
        return self._model.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._model.load_state_dict(state)
        self.policy.changed()
