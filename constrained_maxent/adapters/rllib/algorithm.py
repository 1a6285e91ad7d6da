"""RLlib's PPO with the leader that all its runners follow: it is made, asked, saved and ended with the algorithm."""

from __future__ import annotations

import warnings
from typing import Any
from uuid import uuid4

import ray
from ray.rllib.algorithms.ppo import PPO as RllibPPO

from constrained_maxent import errors
from constrained_maxent.adapters.rllib.runners import LeaderActor
from constrained_maxent.adapters.rllib.stacks import make_stack
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.tracker import find_tracker

OCCUPANCY = "occupancy"
"""Where results have the figures of the latest batch, and states what the leader has learnt."""


class PPO(RllibPPO):  # type: ignore[misc]  # of a library without types
    """PPO of RLlib over one λ̂: what ``config(...).build_algo()`` returns.

    The result of ``train`` has ``occupancy``, with the figures of the latest batch that ``info["batch"]`` has
    elsewhere: ``objective``, ``constraints``, ``multipliers`` and others. Checkpoints hold what has been learnt of λ̂.
    """

    config: Any

    @classmethod
    def get_default_config(cls) -> Any:
        from constrained_maxent.adapters.rllib.configuration import PPOConfig

        return PPOConfig()

    def setup(self, config: Any) -> None:
        """Make the leader, then all that RLlib makes."""
        own = self.config.copy(copy_frozen=False)
        own.leader = f"{OCCUPANCY}-{uuid4().hex}"
        stack = make_stack(own)
        tracker = find_tracker(stack)
        if own.timesteps is not None:
            tracker.announce(timesteps=own.timesteps)
        _require_room(tracker, own)
        # It has no processor of its own: while it fits, runners wait for the learner.
        self._n_warned = 0
        self._leader = ray.remote(LeaderActor).options(name=own.leader, num_cpus=0).remote(tracker)
        stack.close()
        own.freeze()
        self.config = own
        super().setup(config)

    def training_step(self) -> None:
        try:
            super().training_step()
        finally:  # what failed has a name here, where RLlib has a RuntimeError or nothing
            self._tell_faults()
        self.metrics.log_dict(ray.get(self._leader.report.remote()), key=OCCUPANCY, window=1)

    def _tell_faults(self) -> None:
        error, warned = ray.get(self._leader.faults.remote())
        for category, message in warned[self._n_warned :]:
            warnings.warn(message, getattr(errors, category), stacklevel=2)
        self._n_warned = len(warned)
        if error is not None:
            raise error

    def evaluate(self, parallel_train_future: Any = None) -> Any:
        if self.eval_env_runner_group is None:
            raise InvalidSetting(
                "evaluate() would take the runners that learn: config.evaluation(evaluation_interval=...) makes more, "
                "and evaluation.evaluate_rollouts(env, as_agent(algo), ...) says what a policy does on fresh episodes."
            )
        return super().evaluate(parallel_train_future)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> Any:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(OCCUPANCY, components, not_components):
            state[OCCUPANCY] = ray.get(self._leader.state_dict.remote())
        return state

    def set_state(self, state: Any) -> None:
        super().set_state(state)
        if OCCUPANCY in state:
            ray.get(self._leader.load_state_dict.remote(state[OCCUPANCY]))

    def cleanup(self) -> None:
        super().cleanup()
        ray.kill(self._leader)


def _require_room(tracker: Any, config: Any) -> None:
    """Raise ``InvalidSetting`` where the copies of all runners are more than a batch has episodes, or steps."""
    copies = max(1, config.num_env_runners) * config.num_envs_per_env_runner
    name = "steps_per_batch" if tracker.episodes_per_batch is None else "episodes_per_batch"
    if (size := getattr(tracker, name)) < copies:
        raise InvalidSetting(
            f"{name}={size} is that of all runners together, which have {copies} copies: take at least as many."
        )
