"""When the end of an episode is one of the problem's, and not of a mere time limit: one answer for all agents."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.occupancy import Weighting


def ends_problem(weighting: Weighting, lengths: ArrayLike) -> NDArray[np.bool_]:
    """Whether episodes that were truncated at these lengths [steps] have reached the end of the problem itself.

    A finite discounted problem, such as the grid's 25 steps, ends with its horizon: nothing is earned after it, and an
    agent that bootstraps there is paid for what never happens. Where the occupancy weighs all steps alike (discount 1)
    a time limit only cuts an episode short, and so does an end before the horizon; then agents bootstrap from the last
    observation. Episodes that were terminated need no answer.

    Args:
        weighting: the occupancy's, ``tracker.weighting``.
        lengths: of the episodes that were truncated, any shape.

    >>> ends_problem(Weighting(discount=0.99, horizon=25), [24, 25]).tolist()
    [False, True]
    >>> ends_problem(Weighting(discount=1.0, horizon=25), 25).tolist()
    False
    """
    reached = np.asarray(lengths) == weighting.horizon if weighting.horizon is not None else np.zeros_like(lengths)
    return np.asarray(reached & (weighting.discount < 1.0), dtype=np.bool_)
