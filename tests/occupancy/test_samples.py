"""Draws by weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from constrained_maxent.occupancy.samples import drawn_by_weight


class Fixed:
    """Stands for a generator whose numbers are known."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = np.array(numbers)

    def random(self, shape: tuple[int, ...]) -> Any:
        return self.numbers.reshape(shape)


@pytest.mark.parametrize("weight", [1.0, 0.3, 1e-300])
def test_equal_weights_share_the_line_equally(weight: float) -> None:
    rng: Any = Fixed(0.0, 0.19, 0.21, 0.5, 0.81, np.nextafter(1.0, 0.0))
    assert drawn_by_weight(np.full(5, weight), (2, 3), rng).tolist() == [[0, 0, 1], [2, 4, 4]]


def test_other_weights_by_their_share() -> None:
    rng: Any = Fixed(0.0, 0.24, 0.26, 0.99)  # parts of 1/4, 0 and 3/4
    assert drawn_by_weight(np.array([1.0, 0.0, 3.0]), (4,), rng).tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 4.0, 1.0]])
def test_frequencies_are_those_of_independent_draws(weights: list[float]) -> None:
    drawn = drawn_by_weight(np.array(weights), (200, 100), np.random.default_rng(0))
    share = np.array(weights) / sum(weights)
    counts = (drawn[:, :, None] == np.arange(4)).sum(axis=1)
    # Standard error of the mean of 20,000 draws at most 0.0035, of a variance of 200 samples about a tenth.
    np.testing.assert_allclose(counts.mean(axis=0) / 100, share, atol=0.015)
    np.testing.assert_allclose(counts.var(axis=0), 100 * share * (1.0 - share), rtol=0.4)
