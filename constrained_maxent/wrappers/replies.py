"""What an environment answers to ``reset`` and ``step``, checked where it is not what Gymnasium says."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from traceback import walk_tb
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import DuplicateName, InvalidData
from constrained_maxent.types import FloatArray, require_finite

_STEP = "Gymnasium's step() returns five values (observation, reward, terminated, truncated, info)"
_RESET = "Gymnasium's reset() returns two values (observation, info)"
_OF_REPLIES = (TypeError, ValueError, AttributeError, OverflowError)
_OLD = "wrap an environment of the old Gym, for example by shimmy.GymV21CompatibilityV0(env=...)"


_BETWEEN = (
    *(str(Path(gym.__file__).parent / room) for room in ("vector", "wrappers", "utils")),
    str(Path(np.__file__).parent),
    functools.__file__,  # by which they choose what suits a space
)


def explained(error: BaseException) -> BaseException:
    """What to raise in the place of an error from ``env.step`` or ``env.reset``.

    Replies that are not what Gymnasium says fail in its own layers, with words about unpacking and stacking: those get
    a name. What an environment itself raises stays as it is.
    """
    frames = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)][1:]
    if isinstance(error, _OF_REPLIES) and frames and all(frame.startswith(_BETWEEN) for frame in frames):
        named = InvalidData(
            f"A reply of the environment is not what Gymnasium's layers expect ({error}). {_STEP}; in vectors the "
            "copies report numbers of one type, such as float."
        )
        named.__cause__ = error
        return named
    return error


def five(reply: Any) -> tuple[Any, Any, Any, Any, Any]:
    """What ``step`` returned. Raises InvalidData: not five values."""
    if isinstance(reply, (tuple, list)) and len(reply) == 5:
        return reply  # type: ignore[return-value]
    if isinstance(reply, (tuple, list)) and len(reply) == 6:
        raise InvalidData(
            f"{_STEP}, this environment six, as Safety-Gymnasium's do: put adapters.costs.CostInStep around the bare "
            "environment, which reports the third of them in info['cost']."
        )
    raise InvalidData(f"{_STEP}, this environment {_count(reply)}: {_OLD}.")


def checked_reset(reply: Any) -> tuple[Any, dict[str, Any]]:
    """What ``reset`` returned, with a copy of the info. Raises InvalidData: not two values, or no info."""
    if isinstance(reply, (tuple, list)) and len(reply) == 2:
        return reply[0], copied_info(reply[1])
    raise InvalidData(f"{_RESET}, this environment {_count(reply)}: {_OLD}.")


def _count(reply: Any) -> str:
    return f"returned {len(reply)}" if isinstance(reply, (tuple, list)) else f"a {type(reply).__name__}"


def copied_info(info: Any) -> dict[str, Any]:
    """A copy to write into: the environment may use its own again.

    Raises:
        InvalidData: no dictionary.
        DuplicateName: it carries what a batch is reported by.
    """
    if not isinstance(info, Mapping):
        remedy = "; DictInfoToList belongs above TrackOccupancy" if isinstance(info, list) else ""
        raise InvalidData(f"info must be a dictionary, got {info!r:.200}{remedy}.")
    if "batch" in info:
        raise DuplicateName(
            "The environment reports info['batch'] of its own, where TrackOccupancy says that a batch is complete: put "
            "a wrapper below it that gives this entry another name. One TrackOccupancy above another does not work."
        )
    return dict(info)


def with_pseudo_reward(info: Any) -> dict[str, Any]:
    """A copy of an info that has passed through layers above ``TrackOccupancy``. Raises InvalidData: none is left."""
    if isinstance(info, Mapping) and "pseudo_reward" in info:
        return dict(info)
    raise InvalidData(
        "A layer between TrackOccupancy and PseudoReward has taken info['pseudo_reward'] away, as DictInfoToList does: "
        "put it above PseudoReward."
    )


def flag(name: str, value: Any) -> bool:
    """A truth value, given as such, as 0 or 1, or as an array of one of these. Raises InvalidData: something else."""
    if value is True or value is False:
        return value
    array = np.asarray(value)
    if array.size == 1 and array.dtype.kind in "biu" and array.item() in (0, 1):
        return bool(array.item())
    raise InvalidData(f"{name} must be True or False, got {value!r}.")


def rewards_of(values: Any, num_envs: int) -> FloatArray:
    """One reward for each sub-environment, ``(num_envs,)``, in a copy.

    Raises:
        InvalidData: something else.
        NonFiniteValue: NaN or infinite.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"Rewards must be one number per sub-environment, got {values!r}.") from error
    if array.shape != (num_envs,):
        raise InvalidData(f"Rewards must be of shape ({num_envs},), got shape {array.shape}.")
    require_finite("The environment's rewards", array)
    return array


def flags(name: str, values: Any, num_envs: int) -> NDArray[np.bool_]:
    """One truth value for each sub-environment, ``(num_envs,)``, in a copy; checked like ``flag``."""
    array = np.array(values)
    is_bool = array.dtype.kind == "b" or (array.dtype.kind in "iu" and bool(np.isin(array, (0, 1)).all()))
    if array.shape != (num_envs,) or not is_bool:
        raise InvalidData(f"{name} must be True or False for each of {num_envs} sub-environments, got {values!r}.")
    return array.astype(np.bool_)
