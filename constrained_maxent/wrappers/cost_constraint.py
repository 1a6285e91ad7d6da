"""A budget for a cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike

from constrained_maxent.functionals import LinearCost
from constrained_maxent.functionals.linear import CostFunction
from constrained_maxent.penalties import Penalty
from constrained_maxent.wrappers.kinds import require_scalar
from constrained_maxent.wrappers.terms import as_penalty, find_tracker, penalty_config


class CostConstraint(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Keep :math:`\langle c,\lambda\rangle \le` ``limit``.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        cost: the key of ``info`` that carries c(s_t, a_t); or a function ``(observation, action, next_observation) ->
            float`` of what ``TrackOccupancy`` sees; or a table ``(n_states, n_actions)``. Positive means bad.
        limit: the budget: cost per step at scale ``normalized``, discounted cost per episode at ``truncated``.
        penalty: how it is enforced, for example ``penalties.Quadratic(beta=10.0)``.
        name: its name in ``info``.

    Raises:
        InvalidSetting: a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: the name is taken.

    >>> from constrained_maxent.penalties import Quadratic
    >>> from constrained_maxent.wrappers import TrackOccupancy
    >>> env = TrackOccupancy(gym.make("FrozenLake-v1"), episodes_per_batch=8)
    >>> env = CostConstraint(env, cost=lambda s, a, s_next: float(s == 5), limit=0.01, penalty=Quadratic(beta=10.0))
    >>> env.tracker.problem.term_names
    ('cost',)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        cost: str | CostFunction | ArrayLike = "cost",
        *,
        limit: float,
        penalty: Penalty | Mapping[str, Any],
        name: str = "cost",
    ) -> None:
        RecordConstructorArgs.__init__(self, cost=cost, limit=limit, penalty=penalty_config(penalty), name=name)
        require_scalar(env, "CostConstraint")
        gym.Wrapper.__init__(self, env)
        self.tracker = find_tracker(env)
        self.tracker.add_constraint(name, LinearCost(cost, limit=limit), as_penalty(penalty))
