"""Models of dynamics that are known."""

import numpy as np
import pytest

from constrained_maxent.reproduction.explore_then_learn import models
from constrained_maxent.reproduction.explore_then_learn.data import Episodes
from constrained_maxent.reproduction.explore_then_learn.models import Ensemble, Steps, model_errors, split


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(models, "STEPS", 300)
    monkeypatch.setattr(models, "WIDTH", 32)


def episodes(n, *, scale=1.0, noise=0.0, seed=0):
    """Of x' = x + 0.1 (y, -x) + (0, a) / 2, starting somewhere; a step costs where x > 0."""
    rng = np.random.default_rng(seed)
    observations, actions, costs = [], [], []
    for _ in range(n):
        rows, acts = [scale * rng.normal(size=2)], rng.uniform(-1.0, 1.0, (50, 1))
        for (a,) in acts:
            x, y = rows[-1]
            rows.append(np.array([x + 0.1 * y, y - 0.1 * x + 0.5 * a]) + noise * rng.normal(size=2))
        observations.append(np.array(rows))
        actions.append(acts)
        costs.append((observations[-1][:-1, 0] > 0.0).astype(float))
    return Episodes(None, tuple(range(n)), tuple(observations), tuple(actions), tuple(costs))


def test_a_linear_system_is_learnt():
    model = Ensemble(Steps.of([episodes(20)]), seed=0)
    found = model.predict(np.array([[1.0, 0.5, 1.0], [0.0, 0.0, -1.0]]))
    np.testing.assert_allclose(found, [[0.05, 0.4], [0.0, -0.5]], atol=0.03)


def test_errors_are_in_units_of_what_changes():
    """All in one place: of noise of one standard deviation, no more than the mean change can be known."""
    rng = np.random.default_rng(0)
    walk = [rng.normal(size=(51, 2)).cumsum(axis=0) * [1.0, 100.0] for _ in range(40)]
    noise = Episodes(None, tuple(range(40)), tuple(walk), (np.zeros((50, 1)),) * 40, (np.zeros(50),) * 40)
    known, held_out = split(noise, seed=0)
    assert sorted(known.numbers + held_out.numbers) == list(range(40))
    assert len(held_out.numbers) == 4
    found = model_errors(known, [held_out], seed=0)
    assert found["error"] == found["error within"] == pytest.approx(1.0, abs=0.15)


def test_errors_grow_with_the_distance_from_the_data():
    known, near, far = episodes(20), episodes(5, seed=1), episodes(5, scale=10.0, seed=2)
    found = model_errors(known, [near, far], seed=0)
    shares = [value for name, value in found.items() if name.startswith("share")]
    assert sum(shares) == pytest.approx(1.0)
    assert found["error from 0 to 0.05"] < 0.1 < found["error from 1"]
    within = np.concatenate([*near.costs, *far.costs]) <= 0.0
    assert 0.2 < within.mean() < 0.8  # so that both kinds of steps are there
    assert found["error within"] != found["error"]
