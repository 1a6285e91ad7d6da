"""The paper's imitation experiment: the point mass stays near an expert's occupancy."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

import gymnasium as gym

from constrained_maxent import wrappers
from constrained_maxent.penalties import Penalty
from constrained_maxent.references import Reference


def imitate(
    env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
    *,
    r_max: float,
    penalty: Penalty,
    reference: Reference | str | PathLike[str] | None,
) -> Any:
    r"""Add :math:`\mathrm{KL}(\lambda\|\lambda_{\mathrm{ref}}) \le r_{\max}` (name ``imitation``) and ``PseudoReward``.

    Args:
        env: a stack of ``TrackOccupancy`` and an objective around the point mass, scalar or vector.
        r_max: the limit [nats].
        penalty: how it is enforced.
        reference: itself, or its file; ``None`` for the one that comes with the package.

    Raises:
        InvalidSetting: values out of range.
        DamagedReference: the file cannot be read.
    """
    kit: Any = wrappers.vector if isinstance(env, gym.vector.VectorEnv) else wrappers
    # Plain data, so that the environment's spec can be written as JSON.
    given: Any = reference
    if reference is None:
        given = {"entry_point": "constrained_maxent.references:shipped", "kwargs": {"env_id": "PointMass-v0"}}
    elif not isinstance(reference, Reference):
        given = {"entry_point": "constrained_maxent.references:Reference.load", "kwargs": {"path": fspath(reference)}}
    stack = kit.ImitationConstraint(env, given, limit=r_max, penalty=penalty, name="imitation")
    return kit.PseudoReward(stack)
