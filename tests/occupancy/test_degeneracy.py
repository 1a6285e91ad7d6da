"""What makes densities mean little: found where it is made on purpose, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

from constrained_maxent.occupancy import AdamGaussianMixture, GaussianMixture
from constrained_maxent.occupancy.degeneracy import dependent, recurring
from constrained_maxent.types import Batch

pytestmark = pytest.mark.fault

RNG = np.random.default_rng(0)
N = 2000
Z = RNG.normal(size=(N, 4))


@pytest.mark.parametrize(
    ("values", "is_found"),
    [
        (RNG.integers(0, 10, N), True),
        (np.where(RNG.random(N) < 0.3, 0.0, Z[:, 0]), True),
        (np.clip(Z[:, 0], -0.5, 0.5), True),
        (1e-160 * Z[:, 0], True),
        (Z[:, 0].astype(np.float32), False),
        (Z[:, 0].astype(np.float16), False),
        (np.clip(Z[:, 0], -2.0, 2.0), False),  # 2 % at either end
        (np.repeat(Z[: N // 10, 0], 10), False),  # of 200 episodes, or of a slower sensor
        (RNG.standard_t(2, N), False),
    ],
)
def test_values_that_recur(values: Any, is_found: bool) -> None:
    assert recurring(np.asarray(values, dtype=np.float64)[:, None]).tolist() == [is_found]


def quaternions() -> Any:
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


ANGLE = RNG.uniform(-np.pi, np.pi, N)
CIRCLE = np.stack((np.cos(ANGLE), np.sin(ANGLE)), axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (np.concatenate((Z, 3.0 * Z[:, :1] - 7.0), axis=1), [0, 4]),
        (np.concatenate((Z, Z[:, 1:3].sum(axis=1, keepdims=True)), axis=1).astype(np.float32), [1, 2, 4]),
        (np.concatenate((Z[:, :1], CIRCLE), axis=1), [1, 2]),
        (np.concatenate((Z[:, :1], 5.0 * CIRCLE + 1.0), axis=1), [1, 2]),
        (np.concatenate((Z[:, :2], quaternions()), axis=1), [2, 3, 4, 5]),
        (Z, []),
        (np.exp(3.0 * Z), []),
        (np.concatenate((Z[:, :1], Z[:, :1] + 1e-3 * Z[:, 1:2]), axis=1), []),
        (np.where(np.arange(N)[:, None] == 5, 1e9, Z), []),
        (CIRCLE[:, :1] ** 3, []),
        (Z[:6], []),
    ],
)
def test_coordinates_that_follow_from_others(rows: Any, found: list[int]) -> None:
    assert dependent(np.asarray(rows, dtype=np.float64)) == found


def test_angles_are_no_coordinates_of_curves() -> None:
    assert dependent(np.stack((ANGLE, ANGLE), axis=1), periodic=(0,)) == []


def doubt(estimator: Any, states: Any) -> str | None:
    n, d = states.shape
    batch = Batch(observations=states, actions=np.zeros((n, 1)), lengths=[n])
    found: str | None = estimator.bind(Box(-np.inf, np.inf, (d,)), Box(-1.0, 1.0, (1,))).fit(batch).doubt
    return found


def test_words() -> None:
    assert doubt(GaussianMixture(), Z) is None
    assert "coordinate 1 of the state, coordinate 2 of the state: one follows" in str(
        doubt(GaussianMixture(), np.concatenate((Z[:, :1], CIRCLE), axis=1))
    )
    # λ̂ of the paper begins with σ = 1, and cannot be wider than 7.4: a fifth of exp(3 z) lies above 12.
    assert "nats below independent Gaussians" in str(doubt(AdamGaussianMixture(n_steps=5), np.exp(3.0 * Z[:, :1])))
    assert doubt(AdamGaussianMixture(n_steps=5), Z) is None


@pytest.mark.parametrize(
    ("d", "n", "options", "is_named"),
    [(60, 300, {}, True), (60, 300, {"covariance": "low-rank"}, False), (12, 300, {}, False)],
)
def test_full_covariances_need_samples(d: int, n: int, options: Any, is_named: bool) -> None:
    # Of 60 coordinates a mean and a covariance are 1890 numbers; 16 components have 19 samples each.
    found = doubt(GaussianMixture(max_iter=1, **options), np.random.default_rng(0).normal(size=(n, d)))
    assert ("60 coordinates has 1890 numbers, and 19 samples" in str(found)) == is_named
