"""The entropy of λ as the objective."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from constrained_maxent.functionals import Entropy
from constrained_maxent.functionals.entropy import Over
from constrained_maxent.wrappers.kinds import require_scalar
from constrained_maxent.wrappers.terms import find_tracker


class EntropyObjective(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Maximize :math:`H(\lambda)` [nats].

    Its part of the pseudo-reward, ``info["pseudo_reward_objective"]``, is :math:`\partial H/\partial\lambda(s,a)`.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        over: ``"state-action"`` or ``"state"``, see :class:`~constrained_maxent.functionals.Entropy`.
        smoothing: σ ≥ 0, in units of λ; usual: 1e-6 for masses of cells, and 1e-300 for densities.

    Raises:
        InvalidSetting: a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: there is an objective already.

    >>> from constrained_maxent.wrappers import TrackOccupancy
    >>> env = TrackOccupancy(gym.make("FrozenLake-v1"), episodes_per_batch=8)
    >>> EntropyObjective(env, over="state").tracker.problem.objective.over
    'state'
    """

    def __init__(self, env: gym.Env[Any, Any], *, over: Over = "state-action", smoothing: float | None = None) -> None:
        RecordConstructorArgs.__init__(self, over=over, smoothing=smoothing)
        require_scalar(env, "EntropyObjective")
        gym.Wrapper.__init__(self, env)
        self.tracker = find_tracker(env)
        self.tracker.set_objective(Entropy(over=over, smoothing=smoothing))
