"""What can be set about PGP. The command line is made from this class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import gymnasium as gym

from constrained_maxent.errors import InvalidSetting, UnsupportedSpace
from constrained_maxent.occupancy.counts import DENSE_CELLS
from constrained_maxent.spaces import FiniteSpace
from constrained_maxent.types import is_number

PolicyKind = Literal["auto", "tabular", "mlp"]
Optimizer = Literal["sgd", "natural", "adam"]
Baseline = Literal["none", "batch-mean", "critic"]

STEADY_BATCHES, LEAST_RATE = 20, 0.1
"""After how many batches the usual step size of networks begins to shrink, and to which share: short runs are not
slowed, and long ones settle."""


@dataclass(frozen=True, kw_only=True)
class PGPSettings:
    """Hyperparameters of PGP. What is left out (``None``) the environment may suggest, by ``suggestions`` of
    ``TrackOccupancy``, as the -PGP- ids do; "Usual" is what is taken where it suggests nothing.
    """

    policy: PolicyKind = "auto"
    """A softmax table, or networks. "auto": a table where observations are finite and actions Discrete."""
    learning_rate: float | None = None
    """Step size η. Usual: 0.01 for a table (the paper's); for networks 3e-4, and from batch 20 on 20 / t of it in batch
    t, but at least a tenth."""
    final_learning_rate: float | None = None
    """η at the planned end of the run, reached geometrically. Usual: what the environment suggests; else
    the learning rate, where that is given."""
    optimizer: Optimizer | None = None
    """Plain gradient steps, the natural gradient (tables only), or Adam. Usual: "sgd" for a table (Algorithm 1), "adam"
    for networks."""
    damping: float | None = None
    """δ of the natural gradient, as a share of the mass of a full-length episode: it bounds the steps in states that λ̂
    hardly knows. Usual: 0.01."""
    proximal_weight: float | None = None
    """ρ̂ of the proximal point method (Algorithm 2): a pull of ρ̂ (θ - center) back to a center [nats]. Usual: 0."""
    inner_iterations: int | None = None
    """T_in, batches until that center moves to where θ is. Usual: 50."""
    averaging: float | None = None
    """Decay of the exponential average of iterates, in [0, 1). That average is the policy that predicts and is
    evaluated; the last iterate collects the batches. Usual: 0.9 for networks, whose iterates swing; 0 for a table."""
    projection_radius: float | None = None
    """R of the projection of θ onto [-R, R] after each step; tables only. Usual: none, inf."""
    return_discount: float | None = None
    """γ of the returns. Usual: that of the occupancy, which makes the gradient exactly the paper's; for networks 0.99
    where the occupancy's is 1."""
    baseline: Baseline | None = None
    """What is subtracted from returns: nothing (Algorithm 1; usual for a table), the batch's mean at the same time
    step, or a critic (usual for networks)."""
    gae_lambda: float | None = None
    """λ of generalized advantage estimation, with a critic; 1 takes whole returns. Usual: 0.95."""
    normalize_advantages: bool | None = None
    """Whether a batch's advantages are given mean 0 and variance 1. Usual: for networks."""
    normalize_observations: bool | None = None
    """Whether networks see observations at running mean 0 and variance 1. Usual: yes; tables have no use for it."""
    epochs: int | None = None
    """Passes over each batch. Usual: 1 for a table, 4 for networks."""
    minibatch_size: int | None = None
    """Steps of each gradient; 0 for the whole batch. Usual: 0 for a table, 1024 for networks."""
    clip_range: float | None = None
    """How far from 1 the ratio of new to old probability still gains; inf for no limit. Usual: 0.2 for networks."""
    max_gradient_norm: float | None = None
    """Largest norm of a gradient. Usual: none, inf, for a table, 1.0 for networks."""
    hidden_sizes: tuple[int, ...] | None = None
    """Units of each hidden layer of the networks. Usual: (256, 256)."""
    critic_learning_rate: float | None = None
    """Adam's step size for the critic. Usual: 1e-3."""
    critic_steps: int | None = None
    """Gradient steps of the critic for each batch. Usual: 40."""
    critic_batch_size: int | None = None
    """Samples of each of them. Usual: 512."""
    device: str = "cpu"
    """PyTorch device of policy and critic."""

    def __post_init__(self) -> None:
        # As plain data also where it was a torch.device.
        object.__setattr__(self, "device", str(self.device))
        for name, kinds in (("policy", PolicyKind), ("optimizer", Optimizer), ("baseline", Baseline)):
            value = getattr(self, name)
            if value not in get_args(kinds) and (value is not None or name == "policy"):
                raise InvalidSetting(f"{name}={value!r} must be one of {', '.join(get_args(kinds))}.")
        for name in ("learning_rate", "final_learning_rate", "damping", "critic_learning_rate"):
            self._require(name, lambda value: is_number(value) and 0.0 < value < math.inf, "a finite number above 0")
        self._require(
            "proximal_weight",
            lambda value: is_number(value) and 0.0 <= value < math.inf,
            "a finite number of at least 0",
        )
        for name in ("projection_radius", "max_gradient_norm", "clip_range"):
            self._require(name, lambda value: is_number(value) and value > 0.0, "a number above 0; inf for no limit")
        self._require("return_discount", lambda value: is_number(value) and 0.0 < value <= 1.0, "in (0, 1]")
        self._require("averaging", lambda value: is_number(value) and 0.0 <= value < 1.0, "in [0, 1)")
        self._require("gae_lambda", lambda value: is_number(value) and 0.0 <= value <= 1.0, "in [0, 1]")
        for name in ("critic_steps", "critic_batch_size", "epochs", "inner_iterations"):
            self._require(name, _is_count, "a whole number of at least 1")
        self._require("minibatch_size", lambda value: _is_count(value, least=0), "a whole number of at least 0")
        for name in ("normalize_advantages", "normalize_observations"):
            self._require(name, lambda value: isinstance(value, bool), "True or False")
        sizes = self.hidden_sizes
        if sizes is not None:
            if not isinstance(sizes, (tuple, list)) or not all(map(_is_count, sizes)):
                raise InvalidSetting(f"hidden_sizes={sizes!r} must be whole numbers of at least 1, such as (256, 256).")
            # JSON has no tuples; equal settings must compare equal after a round trip.
            object.__setattr__(self, "hidden_sizes", tuple(sizes))

    def _require(self, name: str, holds: Any, what: str) -> None:
        value = getattr(self, name)
        if value is not None and not holds(value):
            raise InvalidSetting(f"{name}={value!r} must be {what}.")

    def given(self) -> dict[str, Any]:
        """What is not left out, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """What PGP runs with: :class:`PGPSettings` without gaps. The values here are the usual ones for networks."""

    learning_rate: float = 3e-4
    final_learning_rate: float | None = None  # it shrinks with the number of batches
    optimizer: Optimizer = "adam"
    damping: float = 0.01
    proximal_weight: float = 0.0
    inner_iterations: int = 50
    averaging: float = 0.9
    projection_radius: float = math.inf
    return_discount: float | None = None
    baseline: Baseline = "critic"
    gae_lambda: float = 0.95
    normalize_advantages: bool = True
    normalize_observations: bool = True
    epochs: int = 4
    minibatch_size: int = 1024
    clip_range: float = 0.2
    max_gradient_norm: float = 1.0
    hidden_sizes: tuple[int, ...] = (256, 256)
    critic_learning_rate: float = 1e-3
    critic_steps: int = 40
    critic_batch_size: int = 512


_USUAL_FOR_TABLES: dict[str, Any] = {
    "learning_rate": 0.01,
    "optimizer": "sgd",
    "averaging": 0.0,
    "baseline": "none",
    "normalize_advantages": False,
    "normalize_observations": False,
    "epochs": 1,
    "minibatch_size": 0,
    "clip_range": math.inf,
    "max_gradient_norm": math.inf,
}


def is_table(observation_space: gym.Space[Any], action_space: gym.Space[Any], *, kind: PolicyKind) -> bool:
    """Whether ``make_policy`` makes a table; "auto": where its parameters are few."""
    if kind != "auto" or not isinstance(action_space, gym.spaces.Discrete):
        return kind == "tabular"
    try:
        return FiniteSpace(observation_space).n * int(action_space.n) <= DENSE_CELLS
    except UnsupportedSpace:
        return False


def suggested(suggestions: Mapping[str, Any]) -> dict[str, Any]:
    """What an environment suggests, checked.

    Raises:
        InvalidSetting: a name or a value that PGP does not know. Kind of policy and device are the user's choice.
    """
    if unknown := suggestions.keys() - {entry.name for entry in fields(Hyperparameters)}:
        raise InvalidSetting(f"The environment's suggestions have unknown names: {', '.join(sorted(unknown))}.")
    return PGPSettings(**suggestions).given()


def complete(settings: PGPSettings, suggestions: Mapping[str, Any], *, is_table: bool) -> Hyperparameters:
    """What is given goes before what the environment suggests, and that before the usual choice.

    Raises:
        InvalidSetting: settings that do not fit together.
    """
    known = (_USUAL_FOR_TABLES if is_table else {}) | suggested(suggestions) | settings.given()
    if "learning_rate" in known:  # whoever names a rate, and no other for the end, means that one
        known.setdefault("final_learning_rate", known["learning_rate"])
    names = {entry.name for entry in fields(Hyperparameters)}
    hyperparameters = Hyperparameters(**{name: value for name, value in known.items() if name in names})
    if math.isfinite(hyperparameters.projection_radius) and not is_table:
        raise InvalidSetting("projection_radius is for tabular policies.")
    if hyperparameters.optimizer == "natural" and not is_table:
        raise InvalidSetting(
            "optimizer='natural' is for tabular policies, whose Fisher matrix has a closed form: take 'adam' for "
            "networks."
        )
    return hyperparameters


def _is_count(value: object, *, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
