"""Named settings of the -PGP- environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.penalties import Penalty, Quadratic
from constrained_maxent.types import check_count
from constrained_maxent.wrappers.declarations import as_penalty

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


def penalty_of(
    usual: Penalty, *, beta: float | None = None, penalty: Penalty | Mapping[str, Any] | None = None
) -> Penalty:
    """What enforces a constraint: the penalty given, a constant β of the quadratic one, or the preset's usual one.

    Raises:
        InvalidSetting: both are given, or values out of range.
    """
    if beta is not None and penalty is not None:
        raise InvalidSetting("beta= is that of a quadratic penalty: give it or penalty=, not both.")
    if penalty is not None:
        return as_penalty(penalty)
    return usual if beta is None else Quadratic(beta)
