"""``constrain``: the usual stack of wrappers in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.problem import Constraint, Problem
from constrained_maxent.wrappers import declarations, vector
from constrained_maxent.wrappers.track_occupancy import TrackOccupancy


def constrain(
    env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
    objective: Functional | None = None,
    constraints: Mapping[str, Constraint] | None = None,
    *,
    replace_reward: bool = True,
    normalize_reward: bool = False,
    **tracking: Any,
) -> Any:
    """``TrackOccupancy``, the objective, the constraints and ``PseudoReward`` around an environment, scalar or vector.

    Args:
        env: the environment; what comes back is of the same kind.
        objective: what to maximize, concave; ``Entropy()`` if not given.
        constraints: by name, each a functional with its limit and the penalty that enforces it.
        replace_reward: whether the reward becomes the pseudo-reward; ``info["pseudo_reward"]`` is there in any case.
        normalize_reward: whether that reward is divided by a running scale, see
            :class:`~constrained_maxent.wrappers.PseudoReward`.
        tracking: arguments of :class:`~constrained_maxent.wrappers.TrackOccupancy`: ``estimator``, the size of a batch
            and the others.

    Returns:
        The wrapped environment.

    Raises:
        InvalidSetting: an objective that is no functional, a constraint without its penalty, a name that is none, or a
            normalized reward that does not replace the environment's.
        InvalidSetting, UnsupportedSpace, DuplicateName, InvalidData: from the wrappers.

    >>> from constrained_maxent.functionals import LinearCost
    >>> from constrained_maxent.penalties import Quadratic
    >>> hole = Constraint(LinearCost(lambda s, a, s_next: float(s in (5, 7, 11, 12)), limit=0.0), Quadratic(beta=1.0))
    >>> constrain(gym.make("FrozenLake-v1"), constraints={"hole": hole}, episodes_per_batch=8)  # doctest: +ELLIPSIS
    <PseudoReward<ConvexConstraint<Objective<TrackOccupancy<TimeLimit<...
    """
    # The twins of a wrapper take the same arguments, so one stack serves both.
    if normalize_reward and not replace_reward:
        raise InvalidSetting("normalize_reward=True is of the reward that replaces the environment's: replace_reward.")
    is_vector = isinstance(env, gym.vector.VectorEnv)
    kit: Any = vector if is_vector else declarations
    Problem.of(objective, constraints or {})  # checks the parts and their names
    stack = (vector.TrackOccupancy if is_vector else TrackOccupancy)(env, **tracking)
    stack = kit.Objective(stack, Entropy() if objective is None else objective)
    for name, constraint in (constraints or {}).items():
        stack = kit.ConvexConstraint(stack, constraint.functional, penalty=constraint.penalty, name=name)
    return kit.PseudoReward(stack, normalize=normalize_reward) if replace_reward else stack
