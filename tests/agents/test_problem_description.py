"""What a checkpoint says of the terms of its problem: equal ones alike, others not."""

import numpy as np

from constrained_maxent.agents.problem_description import describe_part
from constrained_maxent.functionals import MixtureDistance
from constrained_maxent.occupancy import Gaussians, Mixture


def test_references_are_told_apart():
    first, same, other = (
        Mixture(Gaussians(np.ones(1), np.full((1, 1), mean), np.ones((1, 1, 1)))) for mean in (0.0, 0.0, 0.5)
    )
    told = [describe_part(MixtureDistance(states, limit=1.0)) for states in (first, same, other)]
    assert told[0] == told[1] != told[2]
