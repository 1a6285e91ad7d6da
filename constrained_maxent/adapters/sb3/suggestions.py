"""What a stack suggests to its agent, by the names that Stable-Baselines3 has for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained_maxent.schedules import Geometric
from constrained_maxent.tracker import Tracker

_SAME_MEANING = {
    "gae_lambda": "gae_lambda",
    "epochs": "n_epochs",
    "clip_range": "clip_range",
    "max_gradient_norm": "max_grad_norm",
    "normalize_advantages": "normalize_advantage",
}
"""Names in ``PGPSettings`` and in Stable-Baselines3's PPO."""
_RATES = ("learning_rate", "final_learning_rate")

_LINEAR = 15.0
"""How much larger the steps of a policy without hidden layers are. A step of Adam changes a network of one-hot states
far more than a table: measured on the grid, where one rate serves both badly."""


@dataclass(frozen=True)
class GeometricRate:
    """A learning rate as Stable-Baselines3 asks for it: by the share of the training that is left."""

    start: float
    end: float

    def __call__(self, progress_remaining: float) -> float:
        return Geometric(self.start, self.end).at(1.0 - progress_remaining)


def ppo_arguments(tracker: Tracker, num_envs: int, net_arch: Sequence[int] | None = None) -> dict[str, Any]:
    """Arguments of ``PPO``, and of what takes the same, from ``tracker.suggestions`` and the size of its batches.

    A rollout is a batch, as far as the length of a batch is known, so that each update has rewards of one estimate.
    Nothing is said of what nothing suggests.
    """
    given = tracker.suggestions
    suggested = None if (sizes := given.get("hidden_sizes")) is None else list(sizes)
    net_arch = suggested if net_arch is None else list(net_arch)
    arguments = {theirs: given[ours] for ours, theirs in _SAME_MEANING.items() if given.get(ours) is not None}
    arguments["gamma"] = tracker.return_discount
    if "learning_rate" in given and given.get("optimizer", "adam") == "adam":  # others have steps of other units
        factor = _LINEAR if net_arch == [] and suggested != [] else 1.0
        start, end = (factor * given.get(name, given["learning_rate"]) for name in _RATES)
        arguments["learning_rate"] = start if start == end else GeometricRate(start, end)
    if net_arch is not None:
        arguments["policy_kwargs"] = {"net_arch": list(net_arch)}
    if tracker.steps_of_full_batch is not None:
        n_steps = max(1, round(tracker.steps_of_full_batch / num_envs))
        arguments["n_steps"] = n_steps
        arguments["batch_size"] = _minibatch(n_steps * num_envs, given)
    return arguments


def _minibatch(rollout: int, given: Mapping[str, Any]) -> int:
    """The suggested size, or the next smaller one that divides the rollout; the rollout where there is none near."""
    size = min(given.get("minibatch_size") or rollout, rollout)
    divisor = next(n for n in range(size, 0, -1) if rollout % n == 0)
    return divisor if 2 * divisor > size else rollout
