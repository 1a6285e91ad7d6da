"""Copies of an environment that each bring an occupancy estimate of their own are found out: no agent can follow many.

A stack does not know its siblings; but who steps it stands on the call stack.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import warnings
from types import FrameType

from constrained_maxent.errors import SeparateEstimates

_MANAGERS = (
    "agilerl.vector.",
    "gymnasium.vector.",
    "stable_baselines3.common.vec_env.",
    "supersuit.",
    "tianshou.env.",
    "torchrl.envs.",
)
"""Where other people's code steps copies of an environment."""

_COUNTS = ("num_envs", "env_num", "num_workers")
"""What they call the number of copies."""

_INTERLEAVED = 200
"""So many steps in a row with steps of another stack in between are no coincidence."""

_REMEDY = (
    "each with an occupancy estimate and a price of its limits of its own, and an agent that learns from all of them "
    "solves none of their problems. Put one stack around the copies: wrappers.constrain(gym.make_vec(...)), for the "
    "ids of this package gym.make_vec(id, num_envs=...) without vectorization_mode; for Stable-Baselines3 "
    "adapters.sb3.VecEnv(...), for RLlib adapters.rllib.config(...)."
)


def require_one_estimate(*, is_vector: bool) -> None:
    """Raise ``SeparateEstimates`` where the stack that calls this is one of several that one agent learns from.

    A vector stack is one for all its copies, but runners in several processes may have one each. Of copies in processes
    of their own the first cannot know that there are others; the second can.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _runners(frame) > 1 or (not is_vector and _copies(frame) > 1):
            where = frame.f_globals.get("__name__")
            raise SeparateEstimates(f"Whoever resets this stack ({where}) steps several such copies, {_REMEDY}")
        frame = frame.f_back


def _runners(frame: FrameType) -> int:
    """How many runners of RLlib learn from stacks as that in whose runner a frame is."""
    owner = frame.f_locals.get("self")
    is_runner = any(kind.__module__.startswith("ray.rllib.env.") for kind in type(owner).__mro__)
    config = getattr(owner, "config", None) if is_runner else None
    return 1 if getattr(config, "in_evaluation", True) else int(getattr(config, "num_env_runners", 1))


def _copies(frame: FrameType) -> int:
    """How many copies of an environment are stepped by what runs in a frame, as far as that is known."""
    owner = frame.f_locals.get("self")
    if owner is not None:
        if not any(kind.__module__.startswith(_MANAGERS) for kind in type(owner).__mro__):
            return 1
        counts = [getattr(owner, name, 1) for name in _COUNTS]
        return max(count if isinstance(count, int) else 1 for count in counts)
    if multiprocessing.parent_process() is None or not frame.f_globals.get("__name__", "").startswith(_MANAGERS):
        return 1
    # The function that a worker runs: it is told its number, or is its parent's so-and-so-many-th child.
    number: int = multiprocessing.current_process()._identity[-1]
    index = frame.f_locals.get("index", number - 1)
    return index + 1 if isinstance(index, int) else 1


class TurnWatch:
    """Warns, once, of a stack that takes turns with another of the same kind: copies in a loop of someone's own.

    Args:
        kind: of the environment.
    """

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._in_turns = 0

    def stepped(self) -> None:
        """The stack is stepped."""
        before = _turns.latest
        if before is self:
            self._in_turns = 0
            return
        _turns.latest = self
        self._in_turns += 1
        if self._in_turns == _INTERLEAVED and before is not None and before._kind is self._kind:
            warnings.warn(
                f"Two stacks around {self._kind.__name__} are stepped in turns, {_REMEDY}",
                SeparateEstimates,
                stacklevel=4,
            )


class _Turns(threading.local):
    """Which stack was stepped last in each thread: those of different threads come in between by chance."""

    latest: TurnWatch | None = None


_turns = _Turns()
