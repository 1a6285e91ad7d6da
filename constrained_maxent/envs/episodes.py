"""What environments share: which copies a reset starts, which may be stepped, and when there is something to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.spaces import Environment


def as_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """The mode, given as such or by its value. Raises InvalidSetting: there is no such mode."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        modes = ", ".join(known.value for known in AutoresetMode)
        raise InvalidSetting(f"autoreset_mode={mode!r} must be one of {modes}.") from None


def reset_mask(options: dict[str, Any] | None, num_envs: int, *, started: bool) -> NDArray[np.bool_]:
    """The copies that ``reset(options=...)`` starts, ``(num_envs,)``: all, or those of ``options["reset_mask"]``.

    Raises:
        InvalidSetting: the mask is not a bool array of that shape with a True in it.
        gymnasium.error.ResetNeeded: a mask in the very first reset, when not all copies have ``started``.
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
    """Raise ``gymnasium.error.ResetNeeded`` before the first reset, or if a copy has ended that nothing resets."""
    if not started:
        raise ResetNeeded("No episode is running: call reset() before step().")
    if mode is AutoresetMode.DISABLED and ended.any():
        raise ResetNeeded(
            f"The episodes of copies {np.flatnonzero(ended).tolist()} have ended and autoreset is disabled: "
            'call reset(options={"reset_mask": terminated | truncated}) before the next step().'
        )


def check_render_mode(render_mode: str | None, modes: Sequence[str]) -> None:
    """Raise ``InvalidSetting`` for an unknown mode."""
    if render_mode is not None and render_mode not in modes:
        raise InvalidSetting(f"render_mode={render_mode!r} must be None or one of {', '.join(modes)}.")


def can_render(env: Environment, *, started: bool) -> bool:
    """Whether there is a mode to draw in; a warning if not. Raises ResetNeeded: nothing has ``started``."""
    if not started:
        raise ResetNeeded("There is nothing to draw yet: call reset() before render().")
    if env.render_mode is None:
        gym.logger.warn(f"Nothing is drawn without a render_mode: pass one of {env.metadata['render_modes']}.")
    return env.render_mode is not None
