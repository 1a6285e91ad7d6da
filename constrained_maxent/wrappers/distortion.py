"""Layers that change what λ̂, costs or agents are meant to see, below ``TrackOccupancy`` and above: named, once."""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import ExitStack, closing
from types import FrameType
from typing import Any, NamedTuple

import gymnasium as gym

from constrained_maxent.errors import DistortingLayer, InvalidSetting
from constrained_maxent.functionals.base import OWN_REWARD
from constrained_maxent.occupancy.horizon import inner_of, repeats_of
from constrained_maxent.tracker import Tracker

_KINDS = (
    ("normali[sz]e", "normalizes", "by statistics that move, so that the same number means another thing later on"),
    ("delay|latency|sticky", "delays", "so that they are not those of the step that they are counted with"),
    (r"(frame|obs\w*)stack|stack(ed|ing)?(frame|obs)", "stacks", "so that each has those of several steps in it"),
)
"""What layers are called, Gymnasium's and others'; what they do, and why that matters."""


_SUBJECTS = (("reward|return", "rewards"), ("action", "actions"))

_WRAPPERS = (gym.Wrapper, gym.vector.VectorWrapper)


class Distortion(NamedTuple):
    """A layer by its class's name, what it does, to observations, actions or rewards, and why that matters."""

    name: str
    does: str
    to: str
    why: str


def distortions(env: Any) -> list[Distortion]:
    """The layers of an environment, scalar or vector, that normalize, delay or stack; of copies those of the first."""
    found: list[Distortion] = []
    with ExitStack() as probes:
        layer = env
        while layer is not None:
            found += _distortion(layer)
            if isinstance(layer, gym.vector.SyncVectorEnv):
                layer = layer.envs[0]
            elif isinstance(layer, gym.vector.AsyncVectorEnv):
                # The sub-environments live in other processes; a copy here can be looked at.
                layer = probes.enter_context(closing(layer.env_fns[0]()))
            else:
                layer = inner_of(layer)
    return found


def _distortion(layer: Any) -> list[Distortion]:
    if not isinstance(layer, _WRAPPERS) or getattr(layer, "update_running_mean", True) is False:
        return []  # statistics that stand still make a fixed map
    names = [kind.__name__ for kind in type(layer).__mro__ if issubclass(kind, _WRAPPERS)]
    for name in names:
        for pattern, does, why in _KINDS:
            if not re.search(pattern, name, re.IGNORECASE):
                continue
            to = next((to for part, to in _SUBJECTS if re.search(part, name, re.IGNORECASE)), "observations")
            # Actions that are normalized are rescaled to bounds that are known, once and for all.
            return [] if (does, to) == ("normalizes", "actions") else [Distortion(names[0], does, to, why)]
    return []


def warn_of_distortions(env: Any, tracker: Tracker, state: Any) -> None:
    """Warn, once each, of layers whose work is seen by what is declared.

    Args:
        env: what ``TrackOccupancy`` is around.
        tracker: its tracker, with the declarations.
        state: what λ̂ is over, as ``TrackOccupancy`` takes it.
    """
    sources, problem = tracker.sources.values(), tracker.problem
    functionals = [constraint.functional for constraint in problem.constraints.values()]
    functionals += [] if problem.objective is None else [problem.objective]
    has_density = any(functional.curvature != "affine" for functional in functionals)
    by_functions = ["cost functions"] if any(map(callable, sources)) else []
    for name, does, to, why in distortions(env):
        # A function of one's own knows what it takes of a stack.
        of_state = has_density and not (isinstance(state, str) or (does == "stacks" and callable(state)))
        seen = {
            "observations": [*(["the state that λ̂ is over"] if of_state else []), *by_functions],
            "actions": by_functions,
            "rewards": ["a functional of the reward"] if OWN_REWARD in sources else [],
        }[to]
        if seen:
            warnings.warn(
                f"{name}, below TrackOccupancy, {does} {to}, {why}. So they are for {' and '.join(seen)}. Put {name} "
                "above TrackOccupancy, where agents see the same of it, or take what is meant from info, by its key. "
                "If this is meant, filter this warning, DistortingLayer.",
                DistortingLayer,
                stacklevel=6,
            )


def check_layers_above(stack: Any) -> None:
    """Look at the layers through which a stack is being reset: those above it stand on the call stack, and only there.

    Raises:
        InvalidSetting: one takes several steps of the stack in one.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        layer = frame.f_locals.get("self")
        frame = frame.f_back
        if not isinstance(layer, _WRAPPERS) or layer is stack or not _holds(layer, stack):
            continue
        name = type(layer).__name__
        if (repeats := repeats_of(layer)) > 1:
            raise InvalidSetting(
                f"One step of {name} is {repeats} steps of the TrackOccupancy in it, which an agent knows nothing of: "
                "layers that repeat actions or skip frames belong below TrackOccupancy."
            )
        if name == "ClipReward":
            warnings.warn(
                "ClipReward, above TrackOccupancy, cuts pseudo-rewards, and whoever learns from them solves another "
                "problem: leave it out, or give PseudoReward normalize=True.",
                DistortingLayer,
                stacklevel=4,
            )


def _holds(layer: Any, stack: Any) -> bool:
    while layer is not None and layer is not stack:
        layer = inner_of(layer)
    return layer is stack
