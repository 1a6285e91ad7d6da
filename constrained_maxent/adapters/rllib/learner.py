"""PPO's learner with a limit of the divergence, which RLlib's has as a penalty only."""

from __future__ import annotations

import math
from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.columns import Columns

MAX_DIVERGENCE = "max_divergence"
"""Where ``config.learner_config_dict`` has the limit [nats]; none without it."""


class Learner(PPOTorchLearner):  # type: ignore[misc]  # of a library without types
    """Passes over a batch end where the policy has moved further from the one that acted than ``max_divergence`` says.

    As with ``target_kl`` of Stable-Baselines3: the step that would go on from there is not taken, and the estimate is
    the mean of ρ - 1 - log ρ, for ratios ρ of new to old probability.
    """

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        super().before_gradient_based_update(timesteps=timesteps)
        self._is_over, self._divergence, self._latest = False, 0.0, None

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> Any:
        if MAX_DIVERGENCE in config.learner_config_dict:
            with torch.no_grad():
                policy = self.module[module_id].unwrapped().get_train_action_dist_cls()
                log_probs = policy.from_logits(fwd_out[Columns.ACTION_DIST_INPUTS]).logp(batch[Columns.ACTIONS])
                log_ratios = log_probs - batch[Columns.ACTION_LOGP]
                if Columns.LOSS_MASK in batch:  # RLlib adds a step to each episode, which is none
                    log_ratios = log_ratios[batch[Columns.LOSS_MASK]]
                self._divergence = float((log_ratios.exp() - 1.0 - log_ratios).mean())
        return super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)

    def apply_gradients(self, gradients_dict: Any) -> None:
        self._is_over = self._divergence > self.config.learner_config_dict.get(MAX_DIVERGENCE, math.inf)
        if not self._is_over:
            super().apply_gradients(gradients_dict)

    def _update(self, batch: dict[str, Any]) -> Any:
        if not self._is_over:
            self._latest = super()._update(batch)
        return self._latest
