"""Single observations are told from batches, and actions have the form that environments take."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Tuple

from constrained_maxent.agents.acting import as_batch, choose, is_single, one_action
from constrained_maxent.agents.policies import TabularSoftmax


@pytest.mark.parametrize(
    ("space", "single", "batch"),
    [
        (Discrete(3), 1, np.array([1, 2])),
        (Discrete(3), np.int64(1), [1]),
        (Discrete(3), np.array(1), (0, 2)),
        (Box(-1.0, 1.0, (2,)), [0.0, 5.0], [[0.0, 5.0]]),
        (Box(-1.0, 1.0, ()), 0.5, [0.5]),
        (MultiDiscrete([2, 3]), np.array([1, 1]), np.array([[1, 1]])),
        (MultiBinary(2), np.array([1, 1]), np.array([[1, 1]])),
        (Tuple((Discrete(2), Box(-1.0, 1.0, (2,)))), (1, [0.0, 0.0]), (np.array([1]), np.array([[0.0, 0.0]]))),
    ],
)
def test_is_single(space, single, batch):
    assert is_single(space, single)
    assert not is_single(space, batch)


def test_one_action():
    assert type(one_action(Discrete(3), np.array([2]))) is int
    action = one_action(Box(-1.0, 1.0, ()), np.array([0.5], dtype=np.float32))
    assert (action.shape, action.dtype, action.item()) == ((), np.float32, 0.5)


def test_rows_of_one_and_of_several():
    space = Tuple((Discrete(2), Discrete(5)))
    one, single = as_batch(space, (1, 3))
    assert (one.tolist(), single) == ([[1, 3]], True)
    several, single = as_batch(space, (np.array([1, 0]), np.array([3, 4])))
    assert (several.tolist(), single) == ([[1, 3], [0, 4]], False)


def test_the_most_probable_action_or_a_sample():
    policy = TabularSoftmax(Discrete(1), Discrete(2, start=5))
    with torch.no_grad():
        policy.theta.copy_(torch.tensor([[0.0, np.log(3.0)]]))  # probabilities 1/4 and 3/4
    policy.changed()
    rows = np.zeros(4000, dtype=np.int64)
    assert set(choose(policy, rows, None).tolist()) == {6}
    # Of 4000 samples a share of 3/4 has a standard error of 0.007.
    assert np.mean(choose(policy, rows, np.random.default_rng(0)) == 6) == pytest.approx(0.75, abs=0.035)
