"""The paper's imitation experiment: the point mass stays near an expert's occupancy."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

import gymnasium as gym

from constrained_maxent import wrappers
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.penalties import Penalty
from constrained_maxent.references import Reference
from constrained_maxent.types import is_number


def distance_limit(limit: float | None, r_max: float | None, **parts: Any) -> float | None:
    """The limit of an imitation constraint, given by one of its two names; ``None`` if there is no constraint.

    Args:
        limit: the name that all environments share.
        r_max: the paper's.
        parts: what else the constraint is made of, by name; ``None`` where not given.

    Raises:
        InvalidSetting: both are given; neither is, but another part; or no policy can keep it.
    """
    if limit is not None and r_max is not None:
        raise InvalidSetting(f"limit={limit!r} and r_max={r_max!r} are one thing by two names: give one of them.")
    limit = r_max if limit is None else limit
    given = ", ".join(f"{name}=" for name, value in parts.items() if value is not None)
    if limit is None and given:
        raise InvalidSetting(
            f"{given} without a limit does nothing: give limit= as well (--limit on the command line; the paper's "
            "r_max), the largest KL divergence from the reference [nats], or leave it out."
        )
    if limit is not None and is_number(limit) and limit < 0.0:
        raise InvalidSetting(f"limit={limit!r}: a KL divergence is at least 0, so no policy can keep it.")
    return limit


def imitate(
    env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
    *,
    limit: float,
    penalty: Penalty,
    reference: Reference | str | PathLike[str] | None,
) -> Any:
    r"""Add :math:`\mathrm{KL}(\lambda\|\lambda_{\mathrm{ref}}) \le` limit (name ``imitation``) and ``PseudoReward``.

    Args:
        env: a stack of ``TrackOccupancy`` and an objective around the point mass, scalar or vector.
        limit: the paper's :math:`r_{\max}` [nats].
        penalty: how it is enforced.
        reference: itself, or its file; ``None`` for the one that comes with the package.

    Raises:
        InvalidSetting: values out of range.
        FileNotFoundError: there is no such file.
        DamagedReference: the file cannot be read.
        InvalidData: the reference has other angles than the estimator.
    """
    kit: Any = wrappers.vector if isinstance(env, gym.vector.VectorEnv) else wrappers
    # Plain data, so that the environment's spec can be written as JSON.
    given: Any = reference
    if reference is None:
        given = {"entry_point": "constrained_maxent.references:shipped", "kwargs": {"env_id": "PointMass-v0"}}
    elif not isinstance(reference, Reference | str | PathLike):
        raise InvalidSetting(f"reference={reference!r} must be a references.Reference, or its file.")
    elif not isinstance(reference, Reference):
        given = {"entry_point": "constrained_maxent.references:Reference.load", "kwargs": {"path": fspath(reference)}}
    stack = kit.ImitationConstraint(env, given, limit=limit, penalty=penalty, name="imitation")
    return kit.PseudoReward(stack)
