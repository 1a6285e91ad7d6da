"""Who acts on a training environment, and what λ̂ can know of that: log π, or a warning that there is none."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.adapters.sb3.evaluator import stack_of
from constrained_maxent.adapters.sb3.policies import is_greedy, policy_log_prob
from constrained_maxent.adapters.sb3.vec_env import VecEnv, seen_by
from constrained_maxent.adapters.stacks import tracking_of
from constrained_maxent.errors import InvalidSetting, NoActionEntropy, UnsupportedPolicy
from constrained_maxent.functionals import Functional
from constrained_maxent.spaces import are_alike, as_rows
from constrained_maxent.tracker import LogProb, find_tracker
from constrained_maxent.types import FloatArray


def log_prob_of_training(model: Any) -> LogProb | None:
    """Log π of what a model does while it learns, where λ̂ takes it; its first steps may be uniformly random.

    ``None`` where nobody asks for it or somebody else says it, and where it is not known: the warning
    ``NoActionEntropy`` says so if the objective is over states and actions.
    """
    tracker = find_tracker(stack_of(model))
    over_actions = _is_over_actions(tracker.problem.objective)
    if is_greedy(model):
        if over_actions:
            warnings.warn(
                f"{type(model).__name__} is greedy: its actions have no entropy but that of its exploration, and the "
                'objective is one over="state-action", which it can hardly raise. Take EntropyObjective(env, '
                'over="state"), or an agent with a stochastic policy, such as PPO or SAC.',
                NoActionEntropy,
                stacklevel=2,
            )
        return None
    if not tracker.takes_log_prob or tracker.knows_log_prob:
        return None
    try:
        _require_seen(model)
        return _of_training(model, policy_log_prob(model))
    except (UnsupportedPolicy, InvalidSetting) as error:
        if over_actions:
            warnings.warn(
                f'{error} So log π is not known, and the objective, over="state-action", is that of states alone: say '
                'so by EntropyObjective(env, over="state"), or give TrackOccupancy(policy_log_prob=).',
                NoActionEntropy,
                stacklevel=2,
            )
        return None


def _is_over_actions(functional: Functional | None) -> bool:
    parts = [part for _, part in getattr(functional, "parts", ((1.0, functional),))]
    return any(getattr(part, "over", None) == "state-action" for part in parts)


def _require_seen(model: Any) -> None:
    """Raise ``InvalidSetting`` unless the model acts on what λ̂ records, and does what it records."""
    venv = model.get_env().unwrapped
    if not isinstance(venv, VecEnv):
        raise InvalidSetting("Only a VecEnv of this package hears who acts: VecEnv(id) or VecEnv(gym.make_vec(...)).")
    layer = tracking_of(venv.env)
    seen, space = seen_by(model), layer.single_observation_space
    is_same = seen is venv._seen and are_alike(space, venv.observation_space)
    if (
        not is_same
        or not np.array_equal(as_rows(space, seen), layer.latest_rows())
        or not are_alike(layer.single_action_space, model.action_space)
    ):
        raise InvalidSetting(
            "Layers above TrackOccupancy change what the model sees or does (VecNormalize may, right below the model): "
            "put them below it."
        )


def _of_training(model: Any, of_policy: LogProb) -> LogProb:
    """With the uniform actions by which off-policy algorithms begin."""
    if not hasattr(model, "learning_starts"):
        return of_policy
    space = model.action_space
    uniform = -float(np.log(np.float64(space.high) - space.low).sum()) if hasattr(space, "low") else -math.log(space.n)

    def log_prob(observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        if model.num_timesteps < model.learning_starts:
            return np.full(len(actions), uniform)
        return np.asarray(of_policy(observations, actions))

    return log_prob
