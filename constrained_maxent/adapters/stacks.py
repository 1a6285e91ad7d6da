"""What all adapters ask of a stack before they hand it to other people's agents."""

from __future__ import annotations

from typing import Any

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers.declarations import DeclaresReward
from constrained_maxent.wrappers.layers import Tracking


def require_live_rewards(env: Any, library: str) -> None:
    """Raise ``InvalidSetting`` unless whoever learns from the rewards as they arrive learns the stack's problem.

    Args:
        env: a stack with ``TrackOccupancy`` in it; ``MissingTracker`` is raised without.
        library: whose agents learn, for the message.
    """
    pairing = find_tracker(env).pairing
    if pairing != "previous":
        raise InvalidSetting(
            f"pairing={pairing!r}: {library} learns from rewards as they arrive, which are right with "
            'pairing="previous" only.'
        )
    if not any(isinstance(layer, DeclaresReward) for layer in layers_of(env)):
        raise InvalidSetting(
            "The rewards are the environment's own, so the agent would maximize these: put "
            "wrappers.vector.PseudoReward on top, as constrain() does."
        )


def tracking_of(env: Any) -> Any:
    """The ``TrackOccupancy`` of a stack, scalar or vector. Raises MissingTracker: there is none."""
    find_tracker(env)
    return next(layer for layer in layers_of(env) if isinstance(layer, Tracking))


def layers_of(env: Any) -> list[Any]:
    """The layers of an environment, from the outermost to the bare one."""
    layers = [env]
    while (inner := getattr(layers[-1], "__dict__", {}).get("env")) is not None:
        layers.append(inner)
    return layers
