"""What RLlib's PPO is configured with: what the stack suggests, by RLlib's names, to be changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig as RllibPPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

from constrained_maxent.adapters.rllib.algorithm import PPO
from constrained_maxent.adapters.rllib.runners import EnvRunner
from constrained_maxent.adapters.rllib.stacks import make_stack
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.schedules import Geometric
from constrained_maxent.tasks.presets import PRESETS
from constrained_maxent.tracker import Tracker, find_tracker
from constrained_maxent.types import check_count

_SAME_MEANING = {
    "gae_lambda": "lambda_",
    "epochs": "num_epochs",
    "clip_range": "clip_param",
    "max_gradient_norm": "grad_clip",
}
"""Names in ``PGPSettings`` and in ``PPOConfig.training``."""

_PIECES = 32
"""RLlib's schedules are linear between points: so many of them follow a geometric one to 0.2 % of a tenth."""


class PPOConfig(RllibPPOConfig):  # type: ignore[misc]  # of a library without types
    """RLlib's ``PPOConfig`` for :class:`~constrained_maxent.adapters.rllib.PPO`.

    Attributes:
        timesteps: planned length of the run, steps of all copies; there progress, and schedules, reach 1.
        leader: name of the actor that all runners follow; the algorithm gives it.
    """

    def __init__(self, algo_class: Any = None) -> None:
        self.timesteps: int | None = None
        self.leader: str | None = None
        super().__init__(algo_class=algo_class or PPO)


def config(
    env: str | Callable[[Mapping[str, Any]], gym.vector.VectorEnv[Any, Any, Any]],
    *,
    num_env_runners: int = 2,
    num_envs_per_env_runner: int = 8,
    timesteps: int | None = None,
    **env_config: Any,
) -> PPOConfig:
    """A configuration of PPO whose runners share one λ̂; change it as any other, then ``build_algo()``.

    Ray starts on this machine, unless ``ray.init(address=...)`` was called before.

    Args:
        env: an id that ``gym.make_vec`` makes a stack of, as the -PGP- ids are; or a function of RLlib's
            ``env_config`` that returns a vector stack of ``env_config["num_envs"]`` copies. The size of its batches is
            that of all runners together.
        num_env_runners: processes that step environments; 0 for none but the algorithm's own.
        num_envs_per_env_runner: copies in each.
        timesteps: planned length of the run, steps of all copies: the learning rate and the schedules of the problem
            end there.
        env_config: arguments of ``gym.make_vec`` for the id, such as ``preset="ppo"`` or ``limit=``; what the function
            gets.

    Returns:
        What RLlib takes, with the hyperparameters that the stack suggests, as far as it suggests any.

    Raises:
        MissingTracker, InvalidSetting: as :func:`~constrained_maxent.adapters.rllib.stacks.make_stack`; arguments out
            of range.
    """
    made = PPOConfig()
    if timesteps is not None:
        made.timesteps = check_count("timesteps", timesteps)
    if callable(env):
        name = f"{getattr(env, '__module__', '')}.{getattr(env, '__qualname__', type(env).__name__)}"
        register_env(name, env)
    else:
        name = env
        if gym.spec(env).id in PRESETS:
            env_config.setdefault("pairing", "previous")
    made.environment(name, env_config=env_config)
    made.env_runners(
        env_runner_cls=EnvRunner,
        num_env_runners=check_count("num_env_runners", num_env_runners, least=0),
        num_envs_per_env_runner=check_count("num_envs_per_env_runner", num_envs_per_env_runner),
    )
    stack = make_stack(made)
    try:
        _suggest(made, find_tracker(stack), stack.single_observation_space)
    finally:
        stack.close()
    return made


def _suggest(made: PPOConfig, tracker: Tracker, observations: gym.Space[Any]) -> None:
    given = tracker.suggestions
    training = {theirs: given[ours] for ours, theirs in _SAME_MEANING.items() if given.get(ours) is not None}
    if training.get("grad_clip") == math.inf:
        training["grad_clip"] = None
    # Returns of λ̂ have a size of their own; a loss that is cut off has no gradient.
    training |= {"gamma": tracker.return_discount, "use_kl_loss": False, "vf_clip_param": math.inf}
    if "learning_rate" in given and given.get("optimizer", "adam") == "adam":  # others have steps of other units
        training["lr"] = _rate(given["learning_rate"], given.get("final_learning_rate"), made.timesteps)
    if tracker.steps_of_full_batch is not None:
        # One iteration of PPO is one batch.
        training["train_batch_size_per_learner"] = tracker.steps_of_full_batch
        minibatch = given.get("minibatch_size") or tracker.steps_of_full_batch
        training["minibatch_size"] = minibatch if minibatch < tracker.steps_of_full_batch else None
    made.training(**training)
    made.rl_module(model_config=_model(given.get("hidden_sizes")))
    if not isinstance(observations, gym.spaces.Box):
        made.env_runners(env_to_module_connector=_flattened)


def _model(hidden_sizes: Sequence[int] | None) -> DefaultModelConfig:
    """Networks that begin at a policy near the uniform one and, of one-hot observations, know states apart.

    With PyTorch's usual weights neither is so: biases then outweigh what tells states apart, and policies swing.
    """
    sizes: dict[str, Any] = {} if hidden_sizes is None else {"fcnet_hiddens": list(hidden_sizes)}
    if sizes.get("fcnet_hiddens") == []:  # RLlib has no network without a hidden layer: one that is linear is as good
        sizes = {"fcnet_hiddens": [64], "fcnet_activation": "linear"}
    return DefaultModelConfig(
        fcnet_kernel_initializer="orthogonal_",
        fcnet_kernel_initializer_kwargs={"gain": math.sqrt(2.0)},
        fcnet_bias_initializer="zeros_",
        head_fcnet_kernel_initializer="orthogonal_",
        head_fcnet_kernel_initializer_kwargs={"gain": 0.01},
        head_fcnet_bias_initializer="zeros_",
        vf_share_layers=False,
        **sizes,
    )


def _flattened(*_: Any, **__: Any) -> Any:
    """Finite observations as networks take them, one coordinate for each value."""
    return FlattenObservations()


def _rate(start: float, end: float | None, timesteps: int | None) -> float | list[list[float]]:
    if end is None:
        return start
    if timesteps is None:
        raise InvalidSetting("The learning rate that is suggested ends with the run: give timesteps=, its length.")
    rate = Geometric(start, end)
    return [[round(timesteps * i / _PIECES), rate.at(i / _PIECES)] for i in range(_PIECES + 1)]
