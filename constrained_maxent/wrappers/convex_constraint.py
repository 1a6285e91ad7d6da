"""Any convex functional as a constraint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from constrained_maxent.functionals import Functional
from constrained_maxent.penalties import Penalty
from constrained_maxent.wrappers.kinds import require_scalar
from constrained_maxent.wrappers.terms import as_penalty, find_tracker, penalty_config


class ConvexConstraint(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Keep :math:`F(\lambda) \le` the functional's ``limit``.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        functional: F, for example ``functionals.Autograd(lambda occupancy: (occupancy**2).sum(), limit=0.1)``.
        penalty: how it is enforced.
        name: its name in ``info``.

    Raises:
        InvalidData: the functional has another size.
        InvalidSetting: a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: the name is taken.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        functional: Functional,
        *,
        penalty: Penalty | Mapping[str, Any],
        name: str = "convex",
    ) -> None:
        RecordConstructorArgs.__init__(self, functional=functional, penalty=penalty_config(penalty), name=name)
        require_scalar(env, "ConvexConstraint")
        gym.Wrapper.__init__(self, env)
        self.tracker = find_tracker(env)
        self.tracker.add_constraint(name, functional, as_penalty(penalty))
