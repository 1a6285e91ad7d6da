"""What the objective and constraint wrappers, scalar and vector, declare to the tracker below them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal, get_args

import gymnasium as gym
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidSetting, MissingTracker
from constrained_maxent.functionals import Functional, KLDivergence, L2Distance, MixtureDistance
from constrained_maxent.functionals.entropy import Over
from constrained_maxent.penalties import Penalty, is_known_kind, penalty_from_config
from constrained_maxent.tracker import Tracker
from constrained_maxent.types import FloatArray, Points

Divergence = Literal["kl", "l2"]

ImitationReference = ArrayLike | Callable[[Points], FloatArray] | Mapping[str, Any]
"""λ_ref: a table ``(n_states, n_actions)``; what tells it at points, such as a ``references.Reference``; or plain data
``{"entry_point": "module:function", "kwargs": {...}}``, the function that makes one of these."""


def find_tracker(env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> Tracker:
    """The tracker of the nearest ``TrackOccupancy`` in a stack of wrappers.

    Raises:
        MissingTracker: there is none.
    """
    layer: Any = env
    while not isinstance(tracker := layer.__dict__.get("tracker"), Tracker):
        if not isinstance(layer, (gym.Wrapper, gym.vector.VectorWrapper)):
            raise MissingTracker(f"There is no TrackOccupancy in {env}: wrap env = TrackOccupancy(env, ...) first.")
        layer = layer.env
    return tracker


def as_penalty(penalty: Penalty | Mapping[str, Any]) -> Penalty:
    """A penalty as it is, or from its plain data."""
    if isinstance(penalty, Penalty):
        return penalty
    if isinstance(penalty, Mapping):
        return penalty_from_config(penalty)
    raise InvalidSetting(f"penalty={penalty!r} must be a Penalty, such as penalties.Quadratic(beta=10.0).")


def penalty_config(penalty: Penalty | Mapping[str, Any]) -> Penalty | dict[str, Any]:
    """Plain data of the package's own penalties, so that a spec can be written as JSON; a user's own stays itself."""
    known = as_penalty(penalty)
    return known.to_config() if is_known_kind(known) else known


def imitation(reference: ImitationReference, divergence: Divergence, limit: float) -> Functional:
    """The functional of an imitation constraint.

    Raises:
        InvalidSetting: unknown divergence, or ``"l2"`` to a function that is not a mixture.
        InvalidData: a table that is not one.
    """
    if divergence not in get_args(Divergence):
        raise InvalidSetting(f"divergence={divergence!r} must be one of {', '.join(get_args(Divergence))}.")
    if isinstance(reference, Mapping):
        reference = _made(reference)
    if not callable(reference):
        return (KLDivergence if divergence == "kl" else L2Distance)(reference, limit=limit)
    if divergence == "kl":
        over: Over = getattr(reference, "over", "state-action")
        return KLDivergence(reference, limit=limit, over=over)
    states = getattr(reference, "states", None)
    if states is None:
        raise InvalidSetting("divergence='l2' needs a reference whose states are a mixture: a references.Reference.")
    return MixtureDistance(states, limit=limit)


def _made(config: Mapping[str, Any]) -> ArrayLike | Callable[[Points], FloatArray]:
    """What an entry point makes; as strings, they let layers above be named without being imported here."""
    try:
        module, _, name = config["entry_point"].partition(":")
        make = attrgetter(name)(import_module(module))
    except (KeyError, AttributeError, ImportError, ValueError) as error:
        raise InvalidSetting(
            f"reference={dict(config)!r} must be {{'entry_point': 'module:function', 'kwargs': {{...}}}} ({error!r})."
        ) from error
    made: ArrayLike | Callable[[Points], FloatArray] = make(**config.get("kwargs", {}))
    return made
