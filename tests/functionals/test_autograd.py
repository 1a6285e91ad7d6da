"""Functions of the user's own, differentiated by PyTorch, against derivatives written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from constrained_maxent.errors import InvalidData, NonFiniteValue, UnsupportedSpace
from constrained_maxent.functionals import Autograd
from constrained_maxent.types import Measure, Points

TABLE = np.array([[0.5, 0.25], [0.0, 0.25]])


def test_value_and_derivative_by_hand() -> None:
    squares = Autograd(lambda occupancy: (occupancy**2).sum(), limit=0.1)
    assert squares(TABLE) == 0.375
    assert type(squares(TABLE)) is float
    assert squares.gradient(TABLE).tolist() == [[1.0, 0.5], [0.0, 0.5]]
    assert squares.limit == 0.1


def test_works_in_float64() -> None:
    seen: list[torch.dtype] = []
    Autograd(lambda occupancy: seen.append(occupancy.dtype) or occupancy.sum())(TABLE)
    assert seen == [torch.float64]


def test_a_tensor_of_one_entry_is_a_scalar() -> None:
    largest = Autograd(lambda occupancy: occupancy.sum(dim=1).max().reshape(1))
    assert largest(TABLE) == 0.75
    assert largest.gradient(TABLE).tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_the_function_cannot_change_the_occupancy() -> None:
    table = TABLE.copy()
    Autograd(lambda occupancy: occupancy.detach().mul_(0.0).sum() + occupancy.sum())(table)
    np.testing.assert_array_equal(table, TABLE)


@pytest.mark.parametrize(
    "function",
    [
        lambda occupancy: 1.0,
        lambda occupancy: occupancy,
        lambda occupancy: occupancy.detach().numpy().sum(),
        lambda occupancy: None,
    ],
)
def test_refuses_what_is_not_a_scalar_tensor(function: Any) -> None:
    for use in (Autograd(function), Autograd(function).gradient):
        with pytest.raises(InvalidData, match="must return a scalar tensor"):
            use(TABLE)


@pytest.mark.parametrize(
    "function",
    [
        lambda occupancy: torch.tensor(1.0),
        lambda occupancy: occupancy.detach().sum(),
        lambda occupancy: torch.ones(2, requires_grad=True).sum(),
    ],
    ids=["constant", "detached", "another tensor"],
)
def test_refuses_to_differentiate_what_does_not_depend_on_the_occupancy(function: Any) -> None:
    with pytest.raises(InvalidData, match="must depend on λ"):
        Autograd(function).gradient(TABLE)


def test_refuses_a_value_that_is_not_finite() -> None:
    with pytest.raises(NonFiniteValue, match="returned nan"):
        Autograd(lambda occupancy: (occupancy * occupancy.log()).sum())(TABLE)
    with pytest.raises(NonFiniteValue, match="returned inf"):
        Autograd(lambda occupancy: (1 / occupancy).sum())(TABLE)


def test_refuses_a_gradient_that_is_not_finite() -> None:
    roots = Autograd(lambda occupancy: occupancy.sqrt().sum())
    assert roots(TABLE) == pytest.approx(np.sqrt(TABLE).sum())
    with pytest.raises(NonFiniteValue, match=r"gradient.*smooth it"):
        roots.gradient(TABLE)


def test_needs_all_cells() -> None:
    points = Points(density=np.ones(1), state_density=np.ones(1), cells=np.array([1]))
    samples = Points(density=np.ones(3), state_density=np.ones(3))
    for measure in (Measure(points=points, weights=np.ones(1)), Measure(points=samples, weights=np.ones(3))):
        with pytest.raises(UnsupportedSpace, match="λ on all cells"):
            Autograd(torch.sum)(measure)
