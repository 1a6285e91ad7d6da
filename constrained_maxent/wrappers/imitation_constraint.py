"""Closeness to a reference occupancy: an expert, a prior, a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike

from constrained_maxent.penalties import Penalty
from constrained_maxent.wrappers.terms import Divergence, as_penalty, find_tracker, imitation, penalty_config


class ImitationConstraint(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Keep a distance to a reference below ``limit``.

    It is :math:`\mathrm{KL}(\lambda\|\lambda_{\mathrm{ref}})` [nats] or :math:`\|\lambda-\lambda_{\mathrm{ref}}\|_2`.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        reference: λ_ref, a table ``(n_states, n_actions)`` of the tracker's scale.
        limit: in nats for ``"kl"``, in units of λ for ``"l2"``.
        penalty: how it is enforced.
        divergence: ``"kl"`` or ``"l2"``.
        name: its name in ``info``.

    Raises:
        InvalidData: the reference has another size.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: the name is taken.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        reference: ArrayLike,
        *,
        limit: float,
        penalty: Penalty | Mapping[str, Any],
        divergence: Divergence = "kl",
        name: str = "imitation",
    ) -> None:
        RecordConstructorArgs.__init__(
            self, reference=reference, limit=limit, penalty=penalty_config(penalty), divergence=divergence, name=name
        )
        gym.Wrapper.__init__(self, env)
        self.tracker = find_tracker(env)
        self.tracker.add_constraint(name, imitation(reference, divergence, limit), as_penalty(penalty))
