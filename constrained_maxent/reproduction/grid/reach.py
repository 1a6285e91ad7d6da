"""How many transitions a method needs to come, and stay, close to the optimum in both entropy and constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from constrained_maxent.reproduction.grid.analysis import Course

SHARES = (0.05, 0.01)
"""Within 5 %, and 1 %."""


@dataclass(frozen=True)
class Reach:
    """When a setting is within a share of the optimum.

    Attributes:
        method: of the setting.
        share: entropy at most this share below ``optimum``, violation at most this share of ``scale``.
        transitions: from which on every seed is, at every evaluated policy until the end, mean over seeds;
            infinite where that never begins.
    """

    method: str
    share: float
    transitions: float


def reaches(found: Sequence[Course], *, optimum: float, scale: float) -> list[Reach]:
    """For every setting and share.

    Args:
        found: settings over their iterations.
        optimum: entropy of the best stationary policy that keeps the limit [nats].
        scale: the violation of which shares are taken: that of the best policy without the constraint.
    """
    return [
        Reach(course.first.method, share, _first(course, optimum * (1.0 - share), share * scale))
        for course in found
        for share in SHARES
    ]


def _first(course: Course, least: float, most: float) -> float:
    # Comparisons with NaN are false: a seed that stopped is never within.
    within = (course.entropy >= least) & (course.value - course.first.limit <= most)
    outside = np.flatnonzero(~within.all(axis=0))
    start = int(outside[-1]) + 1 if outside.size else 0
    return float(course.transitions[start]) if start < len(course.transitions) else float("inf")
