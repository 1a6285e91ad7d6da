"""Functionals as plain data and back."""

import json

import numpy as np
import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, L2Distance, LinearCost, Reward
from constrained_maxent.functionals.config import functional_config, functional_from_config
from constrained_maxent.types import Measure

TABLE = np.array([[0.5, 0.1], [0.3, 0.1]])


@pytest.mark.parametrize(
    ("functional", "value"),
    [
        (Entropy(over="state", smoothing=0.0), -0.6 * np.log(0.6) - 0.4 * np.log(0.4)),
        (LinearCost("heat", limit=2.0), 7.0),
        (Reward(), 5.0),
        (Reward("bonus"), 3.0),
        (2.0 * Reward() - LinearCost("heat") + Reward("bonus"), 2.0 * 5.0 - 7.0 + 3.0),
    ],
)
def test_round_trip_by_json(functional, value):
    """The same functional by the values of both at one measure, worked out by hand."""
    config = functional_config(functional)
    made = functional_from_config(json.loads(json.dumps(config)))
    measure = Measure.from_table(TABLE, {"heat": 7.0, "reward()": 5.0, "bonus": 3.0})
    assert made(measure) == pytest.approx(value)
    assert functional(measure) == pytest.approx(value)
    assert functional_config(made) == config
    assert made.limit == functional.limit


@pytest.mark.parametrize("functional", [L2Distance(TABLE), Entropy() + LinearCost(TABLE), Reward(lambda s, a, n: 1.0)])
def test_tables_and_functions_stay_themselves(functional):
    assert functional_config(functional) is functional
    assert functional_from_config(functional) is functional


@pytest.mark.parametrize(
    "config", [{}, {"kind": "Functional"}, {"kind": "Entropy", "under": 1}, "Entropy", {"kind": "OwnReward"}]
)
def test_refused(config):
    with pytest.raises(InvalidSetting, match="functional="):
        functional_from_config(config)
