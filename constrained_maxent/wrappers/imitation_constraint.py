"""Closeness to a reference occupancy: an expert, a prior, a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from constrained_maxent.penalties import Penalty
from constrained_maxent.wrappers.kinds import require_scalar
from constrained_maxent.wrappers.terms import (
    Divergence,
    ImitationReference,
    as_penalty,
    find_tracker,
    imitation,
    penalty_config,
)


class ImitationConstraint(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Keep a distance to a reference below ``limit``.

    It is :math:`\mathrm{KL}(\lambda\|\lambda_{\mathrm{ref}})` [nats] or :math:`\|\lambda-\lambda_{\mathrm{ref}}\|_2`.
    Between densities the latter is that of the state marginals, in closed form, and λ̂ must be a mixture of Gaussians.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        reference: λ_ref of the tracker's scale: a table ``(n_states, n_actions)``, or for densities a
            :class:`~constrained_maxent.references.Reference`, or any function that gives λ_ref at
            :class:`~constrained_maxent.types.Points` (``"kl"`` only). Where the environment's spec is to be written as
            JSON, plain data that names a function to make it:
            ``{"entry_point": "constrained_maxent.references:Reference.load", "kwargs": {"path": ...}}``.
        limit: in nats for ``"kl"``; for ``"l2"`` in units of λ, or 1 / √volume of the state.
        penalty: how it is enforced.
        divergence: ``"kl"`` or ``"l2"``.
        name: its name in ``info``.

    Raises:
        InvalidData: the reference has another size.
        InvalidSetting: ``"l2"`` to a function that is not a mixture, or a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: the name is taken.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        reference: ImitationReference,
        *,
        limit: float,
        penalty: Penalty | Mapping[str, Any],
        divergence: Divergence = "kl",
        name: str = "imitation",
    ) -> None:
        RecordConstructorArgs.__init__(
            self, reference=reference, limit=limit, penalty=penalty_config(penalty), divergence=divergence, name=name
        )
        require_scalar(env, "ImitationConstraint")
        gym.Wrapper.__init__(self, env)
        self.tracker = find_tracker(env)
        self.tracker.add_constraint(name, imitation(reference, divergence, limit), as_penalty(penalty))
