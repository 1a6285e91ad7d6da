"""Named settings of the -PGP- environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import check_count

Preset = Literal["default", "paper"]


def settings_of(presets: Mapping[str, Mapping[str, Any]], name: str, *, iterations: int | None) -> dict[str, Any]:
    """The settings of a preset, for a run of so many batches or of as many as the preset is made for.

    Raises:
        InvalidSetting: unknown name, or no whole number of batches.
    """
    if name not in presets:
        raise InvalidSetting(f"preset={name!r} must be one of {', '.join(presets)}.")
    settings = dict(presets[name])
    if iterations is not None:
        check_count("iterations", iterations)
        settings["iterations"] = iterations
    return settings
