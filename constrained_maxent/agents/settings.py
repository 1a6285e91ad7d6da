"""What can be set about PGP. The command line is made from this class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from constrained_maxent.errors import InvalidSetting

PolicyKind = Literal["auto", "tabular", "mlp"]
OptimizerKind = Literal["auto", "sgd", "adam"]
Baseline = Literal["none", "batch-mean", "critic"]


@dataclass(frozen=True, kw_only=True)
class PGPSettings:
    """Hyperparameters of PGP. ``None`` and ``"auto"`` stand for the usual choice of the kind of policy."""

    policy: PolicyKind = "auto"
    """A softmax table, or networks. "auto": a table where observations are finite and actions Discrete."""
    learning_rate: float | None = None
    """Step size η. Default: 0.01 for a table, 3e-4 for networks (the paper's)."""
    optimizer: OptimizerKind = "auto"
    """"auto": plain gradient steps for a table (Algorithm 1), Adam for networks."""
    projection_radius: float | None = None
    """R of the projection of θ onto [-R, R] after each step; tables only. Default: none."""
    return_discount: float | None = None
    """γ of the returns. Default: that of the occupancy, which makes the gradient exactly the paper's."""
    baseline: Baseline = "none"
    """What is subtracted from returns: nothing (Algorithm 1), the batch's mean at the same time step, or a critic."""
    max_gradient_norm: float | None = None
    """Largest norm of a gradient. Default: none for a table, 1.0 for networks."""
    hidden_sizes: tuple[int, ...] = (256, 256)
    """Units of each hidden layer of the networks."""
    critic_learning_rate: float = 3e-4
    """Adam's step size for the critic."""
    critic_steps: int = 10
    """Gradient steps of the critic for each batch."""
    critic_batch_size: int = 512
    """Samples of each of them."""
    device: str = "cpu"
    """PyTorch device of policy and critic."""

    def __post_init__(self) -> None:
        for name, kinds in (("policy", PolicyKind), ("optimizer", OptimizerKind), ("baseline", Baseline)):
            if getattr(self, name) not in get_args(kinds):
                raise InvalidSetting(f"{name}={getattr(self, name)!r} must be one of {', '.join(get_args(kinds))}.")
        for name in ("learning_rate", "projection_radius", "max_gradient_norm", "critic_learning_rate"):
            value = getattr(self, name)
            may_be_left_out = name != "critic_learning_rate" and value is None
            if not (may_be_left_out or (_is_number(value) and 0.0 < value < math.inf)):
                raise InvalidSetting(f"{name}={value!r} must be a finite number above 0.")
        discount = self.return_discount
        if not (discount is None or (_is_number(discount) and 0.0 < discount <= 1.0)):
            raise InvalidSetting(f"return_discount={discount!r} must lie in (0, 1].")
        for name in ("critic_steps", "critic_batch_size"):
            if not _is_count(getattr(self, name)):
                raise InvalidSetting(f"{name}={getattr(self, name)!r} must be a whole number of at least 1.")
        sizes = self.hidden_sizes
        if not isinstance(sizes, (tuple, list)) or not all(map(_is_count, sizes)):
            raise InvalidSetting(f"hidden_sizes={sizes!r} must be whole numbers of at least 1, such as (256, 256).")
        # JSON has no tuples; equal settings must compare equal after a round trip.
        object.__setattr__(self, "hidden_sizes", tuple(sizes))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
