r"""A Gaussian policy as plain arrays, evaluated in NumPy: copied from a network, or cloned from recorded actions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedPolicy, UnsupportedSpace
from constrained_maxent.types import FloatArray, check_seed

# PyTorch, and policies that are made of it, are imported where they are used: references are known without them.

_OTHERWISE = "take Reference.from_policy with its log-probabilities"

Activation = Literal["identity", "relu", "tanh", "clip"]

_BATCH_SIZE, _LEARNING_RATE = 256, 1e-3
"""Of behavior cloning."""


def _clip(values: Any) -> Any:
    from constrained_maxent.agents.policies import LARGEST_NORMALIZED

    return np.clip(values, -LARGEST_NORMALIZED, LARGEST_NORMALIZED)


_FUNCTIONS: dict[Activation, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "clip": _clip,
}


@dataclass(frozen=True, eq=False)
class Layer:
    """``activation(x @ weights + bias)``.

    Args:
        weights: ``(n_inputs, n_outputs)``, float32.
        bias: ``(n_outputs,)``, float32.
        activation: ``"identity"``, ``"relu"``, ``"tanh"`` or ``"clip"``, to the range of normalized observations.
    """

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    activation: Activation = "identity"

    def __post_init__(self) -> None:
        if self.activation not in get_args(Activation):
            raise InvalidSetting(f"activation={self.activation!r} must be one of {', '.join(get_args(Activation))}.")
        if self.weights.ndim != 2 or self.bias.shape != self.weights.shape[1:]:
            raise InvalidData(f"Weights of shape {self.weights.shape} and bias of shape {self.bias.shape} do not fit.")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.bias).all()):
            raise InvalidData("The weights of a layer must be finite.")

    def __call__(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        outputs: NDArray[np.float32] = _FUNCTIONS[self.activation](inputs @ self.weights + self.bias)
        return outputs


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianNetwork:
    r""":math:`u \sim \mathcal N(\mu(s), \sigma(s))`, the action *u* itself or squashed into a ``Box``.

    The network is computed in float32, as it was trained, the density in float64. Recorded actions are squashed, and
    float32 rounding puts some on their bounds; they are taken to lie 1e-6 of the half-width inside, see
    :meth:`~constrained_maxent.agents.policies.Squashing.to_reals`. Without squashing, actions are clipped to the box
    when acting, see :func:`log_prob_of_clipped`.

    Args:
        trunk: layers before both heads.
        mean, log_std: the heads' layers, on the trunk's outputs.
        low, high: the action box, one-dimensional.
        log_std_bounds: to which log σ is clipped.
        is_squashed: whether *u* is squashed.

    Raises:
        InvalidData: layers that do not fit together.
    """

    trunk: Sequence[Layer]
    mean: Sequence[Layer]
    log_std: Sequence[Layer]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    log_std_bounds: tuple[float, float]
    is_squashed: bool = True
    _squashing: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from constrained_maxent.agents.policies import Squashing

        if self.low.shape != self.high.shape or self.low.ndim != 1:
            raise InvalidData(f"low {self.low.shape} and high {self.high.shape} must be vectors of one length.")
        for head in (self.mean, self.log_std):
            layers = [*self.trunk, *head]
            if not head or any(
                before.weights.shape[1] != after.weights.shape[0] for before, after in itertools.pairwise(layers)
            ):
                raise InvalidData("The layers of the network do not fit together.")
            if layers[-1].weights.shape[1] != len(self.low):
                raise InvalidData(f"The network gives {layers[-1].weights.shape[1]} actions, the box {len(self.low)}.")
        box = gym.spaces.Box(self.low.astype(np.float32), self.high.astype(np.float32))
        object.__setattr__(self, "_squashing", Squashing(box))

    @classmethod
    def from_policy(cls, policy: Any) -> GaussianNetwork:
        """A copy of this package's own policy for ``Box`` actions, an ``agents.policies.GaussianMLP``.

        Raises:
            UnsupportedPolicy: another kind of policy.
        """
        from constrained_maxent.agents.policies import LOG_STD_BOUNDS, GaussianMLP

        if type(policy) is not GaussianMLP:
            raise UnsupportedPolicy(f"{type(policy).__name__} is no Gaussian network over Box actions: {_OTHERWISE}.")
        shape, (low, high) = policy.squashing.shape, policy.squashing.bounds
        if len(shape) != 1:
            raise UnsupportedPolicy(f"Actions of shape {shape} are not supported: flatten them by a wrapper.")
        if not policy.features.is_flat:
            raise UnsupportedPolicy(f"A network of one-hot observations cannot be stored: {_OTHERWISE}.")
        trunk: tuple[Layer, ...] = ()
        if (normalization := policy.features.normalization()) is not None:
            center, scale = normalization
            trunk = (Layer(np.diag(scale).astype(np.float32), (-center * scale).astype(np.float32), "clip"),)
        return cls(
            trunk=trunk,
            mean=layers_of(policy.mean),
            log_std=layers_of(policy.log_std),
            low=low.astype(np.float32),
            high=high.astype(np.float32),
            log_std_bounds=LOG_STD_BOUNDS,
        )

    @property
    def n_inputs(self) -> int:
        """Numbers of an observation."""
        return int([*self.trunk, *self.mean][0].weights.shape[0])

    def require_box(self, action_space: gym.Space[Any]) -> None:
        """Raise ``UnsupportedSpace`` unless it acts in this ``Box``, bounds included."""
        bounds = (action_space.low, action_space.high) if isinstance(action_space, gym.spaces.Box) else ()
        own = (self.low, self.high)
        if not bounds or bounds[0].shape != self.low.shape or not np.allclose(bounds, own, rtol=1e-5):
            raise UnsupportedSpace(
                f"The policy has actions from {self.low} to {self.high}, and here they are in {action_space}: rescale "
                "them, for example by gymnasium.wrappers.RescaleAction, as in its training."
            )

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        """Log π(a|s) [nats], ``(n,)``, of actions ``(n, n_actions)`` as the environment gets them."""
        import torch

        mean, log_std = self._gaussian(observations)
        if np.shape(actions) != mean.shape:
            raise InvalidData(f"The reference has actions of shape {mean.shape[1:]}, got {np.shape(actions)[1:]}.")
        if not self.is_squashed:
            return log_prob_of_clipped(actions, mean, log_std, self.low, self.high)
        u = self._squashing.to_reals(actions)
        log_prob: FloatArray = self._squashing.log_prob(*map(torch.from_numpy, (u, mean, log_std))).numpy()
        return log_prob

    def act(self, observations: NDArray[Any], rng: np.random.Generator, *, deterministic: bool = False) -> NDArray[Any]:
        """Actions of the environment, ``(n, n_actions)``, drawn from π or, ``deterministic``, of the mean *u*."""
        mean, log_std = self._gaussian(observations)
        u = mean if deterministic else mean + np.exp(log_std) * rng.standard_normal(mean.shape)
        return self._squashing.to_box(u) if self.is_squashed else np.clip(u, self.low, self.high).astype(np.float32)

    def _gaussian(self, observations: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        inputs = np.asarray(observations, dtype=np.float32)
        inputs = inputs.reshape(len(inputs), -1)
        if inputs.shape[1] != self.n_inputs:
            raise InvalidData(f"The reference's observations have {self.n_inputs} numbers, here are {inputs.shape[1]}.")
        trunk = _through(self.trunk, inputs)
        mean, log_std = (_through(head, trunk).astype(np.float64) for head in (self.mean, self.log_std))
        return mean, np.clip(log_std, *self.log_std_bounds)


def log_prob_of_clipped(
    actions: NDArray[Any], mean: FloatArray, log_std: FloatArray, low: NDArray[Any], high: NDArray[Any]
) -> FloatArray:
    """Log π [nats], ``(n,)``, of actions ``(n, n_actions)`` of a Gaussian that is clipped to ``[low, high]``.

    Inside it is a density. A bound has a mass, that of all that lies beyond it, so λ̂ is a density of the coordinates
    inside and a mass of those on their bounds, and its entropy is that of such a mixture. Where both bounds are the
    same number, that mass is 1.
    """
    u = np.asarray(actions, dtype=np.float64)
    z = (u - mean) / np.exp(log_std)
    log_prob = -0.5 * z**2 - log_std - 0.5 * math.log(2.0 * math.pi)
    log_prob = np.where(u <= low, log_ndtr(z), np.where(u >= high, log_ndtr(-z), log_prob))
    log_prob = np.where(low == high, 0.0, log_prob)
    total: FloatArray = log_prob.sum(axis=1)
    return total


def _through(layers: Sequence[Layer], values: NDArray[np.float32]) -> NDArray[np.float32]:
    return reduce(lambda x, layer: layer(x), layers, values)


def layers_of(module: Any) -> tuple[Layer, ...]:
    """The layers of a PyTorch network of linear layers with ReLU or tanh.

    Raises:
        UnsupportedPolicy: there is something else in it.
    """
    from torch import nn

    activations: dict[type, Activation] = {nn.Identity: "identity", nn.ReLU: "relu", nn.Tanh: "tanh"}
    layers: list[Layer] = []
    for part in module if isinstance(module, nn.Sequential) else [module]:
        if isinstance(part, nn.Linear):
            weights, bias = part.weight.detach().cpu().numpy(), part.bias.detach().cpu().numpy()
            layers.append(Layer(np.ascontiguousarray(weights.T, dtype=np.float32), np.array(bias, dtype=np.float32)))
        elif type(part) in activations and layers and layers[-1].activation == "identity":
            layers[-1] = Layer(layers[-1].weights, layers[-1].bias, activations[type(part)])
        else:
            raise UnsupportedPolicy(
                f"A network with {type(part).__name__} cannot be stored, linear layers with ReLU or tanh can: "
                f"{_OTHERWISE}."
            )
    return tuple(layers)


def clone(
    observations: NDArray[Any],
    actions: NDArray[Any],
    action_space: gym.Space[Any],
    *,
    hidden_sizes: Sequence[int] = (64, 64),
    n_steps: int = 3000,
    seed: int = 0,
) -> GaussianNetwork:
    """The network of greatest likelihood for recorded steps (behavior cloning): Adam up the mean log π(a|s).

    Args:
        observations, actions: as the environment gave and got them, ``(n, ...)`` and ``(n, n_actions)``.
        action_space: a ``Box``.
        hidden_sizes: of the two networks, for mean and log σ.
        n_steps: of Adam.
        seed: of the networks and the minibatches.

    Raises:
        UnsupportedSpace: not a ``Box``.
        InvalidData: actions outside it, or of another shape.
    """
    import torch

    from constrained_maxent.agents.policies import GaussianMLP
    from constrained_maxent.agents.pytorch import usual_numbers

    if not isinstance(action_space, gym.spaces.Box):
        raise UnsupportedSpace(f"Behavior cloning fits a Gaussian: it needs actions in a Box, not {action_space}.")
    if actions.shape[1:] != action_space.shape:
        raise InvalidData(f"Actions have shape {actions.shape[1:]}, those of {action_space} {action_space.shape}.")
    if (actions < action_space.low - 1e-6).any() or (actions > action_space.high + 1e-6).any():
        raise InvalidData(f"Recorded actions lie outside {action_space}: clip them to what the environment did.")
    rng = np.random.default_rng(check_seed("seed", seed))
    rows = observations.reshape(len(observations), -1)
    box = gym.spaces.Box(-np.inf, np.inf, rows.shape[1:])
    with usual_numbers(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = GaussianMLP(box, action_space, hidden_sizes, normalize=True)
        policy.observe(rows)
        raw = policy.squashing.to_reals(actions)
        optimizer = torch.optim.Adam(policy.parameters())
        for step in range(n_steps):
            for group in optimizer.param_groups:  # down to a tenth, so that the last minibatches do not show
                group["lr"] = _LEARNING_RATE * (1.0 - 0.9 * step / n_steps)
            chosen = rng.integers(len(rows), size=min(_BATCH_SIZE, len(rows)))
            loss = -policy.log_prob(rows[chosen], raw[chosen]).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return GaussianNetwork.from_policy(policy)
