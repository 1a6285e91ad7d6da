"""Schedules in compiled form."""

from __future__ import annotations

import math
from typing import NamedTuple

from constrained_maxent.engine.compiled import inner
from constrained_maxent.schedules import Geometric, Schedule


class Course(NamedTuple):
    """A schedule in compiled form: start, logarithm of end / start, and length."""

    start: float
    log_ratio: float
    iterations: float


def course_of(schedule: Schedule) -> Course:
    """The compiled form."""
    if isinstance(schedule, Geometric):
        return Course(float(schedule.start), math.log(schedule.end / schedule.start), float(schedule.iterations))
    return Course(float(schedule), 0.0, 1.0)


@inner
def course_at(course: Course, iteration: int) -> float:
    """The value in the batch that comes after so many iterations."""
    if course.log_ratio == 0.0:
        return course.start
    return course.start * math.exp(min(iteration / course.iterations, 1.0) * course.log_ratio)
