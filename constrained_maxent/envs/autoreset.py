"""What vector environments share about starting episodes: which copies a reset starts, which may be stepped."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidSetting


def as_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """The mode, given as such or by its value. Raises InvalidSetting: there is no such mode."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        modes = ", ".join(known.value for known in AutoresetMode)
        raise InvalidSetting(f"autoreset_mode={mode!r} must be one of {modes}.") from None


def reset_mask(options: dict[str, Any] | None, num_envs: int, *, started: bool) -> NDArray[np.bool_]:
    """The copies that ``reset(options=...)`` starts, ``(num_envs,)``: all, or those of ``options["reset_mask"]``.

    Args:
        options: of the reset.
        num_envs: number of copies.
        started: whether every copy has been reset before.

    Raises:
        InvalidSetting: the mask is not a bool array of that shape with a True in it.
        gymnasium.error.ResetNeeded: a mask in the very first reset.
    """
    if options is None or "reset_mask" not in options:
        return np.ones(num_envs, dtype=np.bool_)
    mask = np.asarray(options["reset_mask"])
    if mask.shape != (num_envs,) or mask.dtype != np.bool_ or not mask.any():
        raise InvalidSetting(
            f"reset_mask must be a bool array of shape ({num_envs},) with at least one True, not {mask!r}."
        )
    if not started:
        raise ResetNeeded("The first reset() must start every copy: call it without a reset_mask.")
    return mask


def require_running(ended: NDArray[np.bool_], *, started: bool, mode: AutoresetMode) -> None:
    """Raise ``gymnasium.error.ResetNeeded`` if copies cannot be stepped.

    Args:
        ended: copies whose episode is over, ``(num_envs,)``.
        started: whether every copy has been reset before.
        mode: how copies are reset.
    """
    if not started:
        raise ResetNeeded("No episode is running: call reset() before step().")
    if mode is AutoresetMode.DISABLED and ended.any():
        raise ResetNeeded(
            f"The episodes of copies {np.flatnonzero(ended).tolist()} have ended and autoreset is disabled: "
            'call reset(options={"reset_mask": terminated | truncated}) before the next step().'
        )
