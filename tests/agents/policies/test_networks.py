"""Normalized observations against NumPy's mean and variance over all rows."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple, flatten

from constrained_maxent.agents.policies import Features
from constrained_maxent.spaces import as_row


def box(n, dtype=np.float64):
    return Box(-np.inf, np.inf, (n,), dtype=dtype)


def seen(features, rows):
    return features(torch.as_tensor(rows)).numpy()


@pytest.mark.parametrize(
    "cuts", [[], [1], [499], [250], [1, 2, 3, 400], [0, 100, 100, 500], list(range(1, 500))], ids=str
)
def test_mean_and_variance_of_all_rows_however_they_are_split(cuts):
    rows = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 300.0, 1e-4] + [0.0, 1e5, -2.0]
    features = Features(box(3), normalize=True)
    for part in np.split(rows, cuts):
        features.observe(part)
    assert features.count == 500
    np.testing.assert_allclose(features.mean, rows.mean(axis=0), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(features.variance, rows.var(axis=0), rtol=1e-9)
    expected = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    assert np.abs(expected).max() < 10.0
    np.testing.assert_allclose(seen(features, rows), expected, rtol=1e-5, atol=1e-6)


def test_parts_of_different_distributions():
    """The means of the parts differ by far more than each part varies."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(shift, 0.1, size=(n, 1)) for shift, n in [(0.0, 1_000), (50.0, 10), (-20.0, 300)]]
    features = Features(box(1), normalize=True)
    for part in parts:
        features.observe(part)
    rows = np.concatenate(parts)
    np.testing.assert_allclose(features.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(features.variance, rows.var(axis=0), rtol=1e-12)


def test_float32_far_from_0():
    """Sums of squares in float32 would leave nothing of a deviation of 1 around 100,000."""
    rows = (1e5 + np.random.default_rng(0).normal(size=(4_000, 1))).astype(np.float32)
    features = Features(box(1, np.float32), normalize=True)
    for part in np.split(rows, 40):
        features.observe(part)
    exact = rows.astype(np.float64)
    np.testing.assert_allclose(features.variance, exact.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(seen(features, rows), (exact - exact.mean()) / exact.std(), atol=1e-5)


def test_before_any_row_only_clipped():
    rows = np.array([[0.5, -3.0], [9.0, -70.0]])
    np.testing.assert_array_equal(seen(Features(box(2), normalize=True), rows), [[0.5, -3.0], [9.0, -10.0]])


def test_clipped_at_ten_deviations():
    features = Features(box(1), normalize=True)
    features.observe(np.array([[4.0], [6.0]]))  # mean 5, deviation 1
    rows = np.array([[5.0], [14.5], [15.5], [1e30], [-4.5], [-5.5], [-1e30]])
    np.testing.assert_allclose(seen(features, rows)[:, 0], [0.0, 9.5, 10.0, 10.0, -9.5, -10.0, -10.0], rtol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 0.1, -7.0, 1e3 + 0.1, 123_456_789.123, 1.6e9 + 0.3])
def test_constant_columns_become_0_however_often_their_mean_is_rounded(constant):
    features, rng = Features(box(2), normalize=True), np.random.default_rng(0)
    for _ in range(50):
        rows = np.full((int(rng.integers(1, 3_000)), 2), constant)
        rows[:, 1] = rng.normal(size=len(rows))
        features.observe(rows)
    np.testing.assert_allclose(seen(features, rows)[:, 0], 0.0, atol=1e-4)
    # a small step from it is seen as it is
    assert seen(features, np.array([[constant + 1.0, 0.0]]))[0, 0] == pytest.approx(1.0, abs=1e-4)


def test_a_single_row():
    features = Features(box(2), normalize=True)
    features.observe(np.array([[3.0, -4.0]]))
    np.testing.assert_allclose(seen(features, np.array([[3.0, -4.0], [3.5, -4.0]])), [[0.0, 0.0], [0.5, 0.0]])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_shapes_and_dtypes(dtype):
    rows = np.random.default_rng(0).integers(0, 255, size=(30, 2, 3)).astype(dtype)
    features = Features(Box(0, 255, (2, 3), dtype=dtype), normalize=True)
    features.observe(rows)
    flat = rows.reshape(30, 6).astype(np.float64)
    values = features(torch.as_tensor(rows))
    assert (values.shape, values.dtype) == ((30, 6), torch.float32)
    np.testing.assert_allclose(values, (flat - flat.mean(axis=0)) / flat.std(axis=0), atol=1e-5)


def test_rows_are_left_alone():
    rows = np.random.default_rng(0).normal(size=(5, 2))
    before, features = rows.copy(), Features(box(2), normalize=True)
    features.observe(rows)
    seen(features, rows)
    np.testing.assert_array_equal(rows, before)


def test_off():
    features, rows = Features(box(2)), np.array([[3.0, -400.0]])
    features.observe(rows)
    assert features.state_dict() == {}
    np.testing.assert_array_equal(seen(features, rows), rows)


@pytest.mark.parametrize(
    ("space", "rows", "one_hot"),
    [
        (Discrete(3, start=1), [1, 3], [[1, 0, 0], [0, 0, 1]]),
        (MultiDiscrete([2, 3]), [[1, 2], [0, 0]], [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]]),
        (MultiBinary(2), [[1, 0], [1, 1]], [[0, 1, 1, 0], [0, 1, 0, 1]]),
    ],
)
def test_finite_spaces_stay_one_hot(space, rows, one_hot):
    features = Features(space, normalize=True)
    features.observe(np.array(rows))
    assert features.state_dict() == {}
    assert seen(features, np.array(rows)).tolist() == one_hot


def test_statistics_are_part_of_the_state():
    rows = np.random.default_rng(0).normal(5.0, 3.0, size=(20, 2))
    one, other = Features(box(2), normalize=True), Features(box(2), normalize=True)
    one.observe(rows)
    other.load_state_dict(one.state_dict())
    for features in (one, other):
        features.observe(2.0 * rows)
    np.testing.assert_array_equal(seen(one, rows), seen(other, rows))
    assert other.count == 40


NESTED = Dict(
    b=Box(-9, 9, (2, 2), np.float64),
    a=Discrete(3, start=-1),
    c=Tuple((MultiDiscrete([2, 3]), Box(-9, 9, (), np.float64))),
)


def test_parts_side_by_side_as_gymnasium_flattens_them():
    NESTED.seed(0)
    elements = [NESTED.sample() for _ in range(20)]
    rows = np.array([as_row(NESTED, element) for element in elements])
    expected = np.array([flatten(NESTED, element) for element in elements])
    features = Features(NESTED)
    assert features.size == expected.shape[1]
    assert not features.is_flat
    np.testing.assert_allclose(seen(features, rows), expected, rtol=1e-6)


def test_only_numbers_of_boxes_are_normalized():
    NESTED.seed(0)
    rows = np.array([as_row(NESTED, NESTED.sample()) for _ in range(200)])
    features = Features(NESTED, normalize=True)
    features.observe(rows)
    numbers = rows[:, [0, 1, 2, 3, 7]]
    expected = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    np.testing.assert_allclose(seen(features, rows)[:, [0, 1, 2, 3, 12]], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(seen(features, rows)[:, 4:12], seen(Features(NESTED), rows)[:, 4:12])
