"""The named settings of the -PGP- ids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from constrained_maxent.functionals.entropy import Over
from constrained_maxent.occupancy import Scale
from constrained_maxent.penalties import AdaptiveLagrangian, Penalty, Quadratic, QuadraticContinuation
from constrained_maxent.schedules import Geometric
from constrained_maxent.tracker import Pairing

PresetName = Literal["default", "paper", "ppo"]
"""What measures best with ``PGP``; what the paper's text has; what suits other people's agents."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings of a stack that belong together. Schedules in them run over the progress of the training.

    Attributes:
        iterations, num_envs: batches of a training and sub-environments, recommended; what the command line takes.
        steps_per_batch: size of a batch where the episodes would be fewer than the copies, or have no end.
        over, smoothing: of the entropy; σ is in units of λ̂.
        estimator: plain data that describes it.
        pairing: which estimate goes with which reward.
        normalize_reward: whether the reward that agents get is divided by a running scale.
        limit: of the task's constraint; ``None`` for a task that has one only where a limit is given.
        agent: hyperparameters by their names in ``PGPSettings``: what the stack suggests to ``PGP``, and by adapters to
            others.
    """

    iterations: int
    num_envs: int
    episodes_per_batch: int | None = None
    steps_per_batch: int | None = None
    discount: float
    scale: Scale
    over: Over = "state-action"
    smoothing: float
    estimator: Mapping[str, Any]
    pairing: Pairing = "same"
    normalize_reward: bool = False
    limit: float | None = 0.0
    penalty: Penalty
    agent: Mapping[str, Any] = field(default_factory=dict)


# The paper weighs all states of an episode alike: the occupancy's discount is 1. What is rarer than σ
# [1/(m·m/s·rad·rad/s·N), or the like] is an outlier's, and earns no more for it.
_CONTROL: dict[str, Any] = {"discount": 1.0, "scale": "normalized", "smoothing": 1e-6}

# Whole episodes and a buffer of two batches: the pseudo-reward is that of the policy as it is now.
_CONTROL_DEFAULT_STACK: dict[str, Any] = _CONTROL | {
    "num_envs": 8,
    "episodes_per_batch": 8,
    "steps_per_batch": 8192,
    "estimator": {"kind": "GaussianMixture", "n_components": 16, "buffer_size": 16_000},
}

_CONTROL_DEFAULT: dict[str, Any] = _CONTROL_DEFAULT_STACK | {
    # Iterates swing between over-exploring and over-obeying: what is shown is their average.
    "agent": {
        "return_discount": 0.99,
        "learning_rate": 1e-3,
        "final_learning_rate": 3e-5,
        "averaging": 0.9,
        "hidden_sizes": [128, 128],
    },
}

_CONTROL_PPO: dict[str, Any] = {
    "return_discount": 0.99,
    "learning_rate": 1e-3,
    "final_learning_rate": 3e-5,
    "gae_lambda": 1.0,
    "epochs": 4,
    "minibatch_size": 1024,
    "clip_range": 0.2,
    "max_gradient_norm": 10.0,
    "normalize_observations": True,
    "hidden_sizes": [128, 128],
}

# The paper's table of training parameters.
_CONTROL_PAPER: dict[str, Any] = _CONTROL | {
    "num_envs": 32,
    "steps_per_batch": 4096,
    "estimator": {"kind": "AdamGaussianMixture", "n_components": 16, "buffer_size": 200_000},
    "penalty": Quadratic(10.0),
    "agent": {
        "return_discount": 0.99,
        "baseline": "critic",
        "gae_lambda": 1.0,
        "normalize_advantages": False,
        "normalize_observations": False,
        "epochs": 1,
        "minibatch_size": 0,
        "clip_range": math.inf,
        "learning_rate": 3e-4,
        "max_gradient_norm": 1.0,
        "averaging": 0.0,
        "hidden_sizes": [256, 256],
        "critic_learning_rate": 3e-4,
        "critic_steps": 10,
        "critic_batch_size": 512,
    },
}

# The entropy of where the torso is and how it is turned; a tenth of the steps may break each threshold. The unit of a
# violation is the spread of such a cost, as soon as it is known.
_WALKER: dict[str, Any] = {"iterations": 60, "limit": 0.1, "over": "state"}
_WALKER_PRESETS: dict[PresetName, Preset] = {
    "default": Preset(
        **_WALKER, penalty=AdaptiveLagrangian(3.0, 60.0), **_CONTROL_DEFAULT | {"episodes_per_batch": 80}
    ),
    "ppo": Preset(
        **_WALKER,
        penalty=AdaptiveLagrangian(0.3, 100.0),
        pairing="previous",
        normalize_reward=True,
        agent=_CONTROL_PPO,
        **_CONTROL_DEFAULT_STACK | {"episodes_per_batch": 80},
    ),
}

# Batches of 400 steps, and an estimate that remembers more and more.
_GRID: dict[str, Any] = {
    "num_envs": 16,
    "episodes_per_batch": 16,
    "discount": 0.99,
    "scale": "truncated",
    "smoothing": 1e-5,
    "estimator": {"kind": "Counts", "memory": Geometric(0.7, 0.97)},
}

PRESETS: Mapping[str, Mapping[PresetName, Preset]] = {
    "FrozenLake-PGP-v0": {
        # Natural steps that shrink, and a penalty that grows.
        "default": Preset(
            iterations=10_000,
            **_GRID,
            penalty=QuadraticContinuation(0.005, 40.0),
            agent={
                "optimizer": "natural",
                "damping": 0.001,
                "learning_rate": 0.005,
                "final_learning_rate": 0.0003,
                "baseline": "batch-mean",
            },
        ),
        # Algorithm 1 as its authors ran it.
        "paper": Preset(
            iterations=15_000,
            num_envs=8,
            episodes_per_batch=8,
            discount=0.99,
            scale="truncated",
            smoothing=1e-6,
            estimator={"kind": "Counts"},
            penalty=Quadratic(0.005),
        ),
        # A thousand batches: price and memory move no faster than the agent learns. Whole returns, as a critic lags
        # behind rewards that change; four passes of one minibatch, at a rate that shrinks a hundredfold.
        "ppo": Preset(
            iterations=1000,
            **_GRID,
            penalty=QuadraticContinuation(0.02, 1.5),
            pairing="previous",
            normalize_reward=True,
            agent={
                "optimizer": "adam",
                "baseline": "critic",
                "learning_rate": 2e-3,
                "final_learning_rate": 2e-5,
                "gae_lambda": 1.0,
                "epochs": 4,
                "minibatch_size": 0,
                "clip_range": 0.2,
                "max_gradient_norm": 10.0,
                "hidden_sizes": [64, 64],
            },
        ),
    },
    "SafeCartpole-PGP-v0": {
        # Little price at first: an agent that is punished before it has seen anything stays where it is. Where the rail
        # hardly lets a cart pass the limit, the largest violation is a hundredth of a millimetre: with that as its
        # unit, the penalty would shake the policy for nothing. So a millimetre, at scale "normalized".
        "default": Preset(
            iterations=60, penalty=AdaptiveLagrangian(3.0, 60.0, largest_violation=1e-3), **_CONTROL_DEFAULT
        ),
        # Less price at first than for PGP, and a centimeter as the least violation that counts as one: a price that is
        # ahead of the agent ends its exploration.
        "ppo": Preset(
            iterations=60,
            penalty=AdaptiveLagrangian(0.3, 100.0, largest_violation=1e-2),
            pairing="previous",
            normalize_reward=True,
            agent=_CONTROL_PPO,
            **_CONTROL_DEFAULT_STACK,
        ),
        "paper": Preset(iterations=2000, **_CONTROL_PAPER),
    },
    "PointMass-PGP-v0": {
        # The largest violation is the unit: KL divergences have a natural one.
        "default": Preset(
            iterations=150,
            limit=None,
            penalty=AdaptiveLagrangian(3.0, 60.0, largest_violation=0.0),
            **_CONTROL_DEFAULT,
        ),
        "ppo": Preset(
            iterations=150,
            limit=None,
            penalty=AdaptiveLagrangian(1.0, 30.0, largest_violation=0.0),
            pairing="previous",
            normalize_reward=True,
            agent=_CONTROL_PPO,
            **_CONTROL_DEFAULT_STACK,
        ),
        "paper": Preset(iterations=1000, limit=None, **_CONTROL_PAPER),
    },
    "SafeHalfCheetah-PGP-v0": _WALKER_PRESETS,
    "SafeAnt-PGP-v0": _WALKER_PRESETS,
    "SafeHumanoid-PGP-v0": _WALKER_PRESETS,
}
"""By id and name."""
