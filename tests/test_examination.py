"""What is found of environments of one's own: each fault by its name, and nothing where all is well."""

from __future__ import annotations

import itertools
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.testing import check_constrained_env, examine
from constrained_maxent.wrappers import constrain


class Own(gym.Env[Any, Any]):
    """A walk of 20 steps in the plane that costs 1 on the right; each fault is an argument."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), dtype=np.float64)
    action_space = gym.spaces.Discrete(2)
    drawn = np.random.default_rng(0)

    def __init__(self, fault: str = "", horizon: int = 20) -> None:
        self.fault, self.horizon = fault, horizon
        self.shown = np.zeros(2)
        if fault == "pickling":
            self.lock = lambda: 0

    def _shown(self) -> Any:
        if self.fault == "nan" and self.time == 7:
            return np.array([np.nan, 0.0])
        if self.fault == "buffer":
            self.shown[:] = self.place
            return self.shown
        if self.fault == "shape":
            return self.place[None]
        return self.place.copy()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        self.place = (self.drawn if self.fault == "seeds" else self.np_random).normal(size=2)
        return self._shown(), {}

    def step(self, action: Any) -> Any:
        cost: Any = float(self.place[0] > 0.0)
        self.time += 1
        self.place += self.np_random.normal(size=2)
        if self.fault == "raises" and self.time == 9:
            raise RuntimeError("a valve is stuck")
        info = {"cost": int(cost) if self.fault == "integers" else cost}
        if self.fault == "odd info":
            info |= {"words": np.array(["a"]), "nan": np.nan, "rng": self.np_random, "more": {"x": [1, object()]}}
        if self.fault == "missing" and self.time == 20:
            info = {}
        over = self.time == 20 or (self.fault == "cut" and self.time == 15)
        return self._shown(), 0.0, False, over, info


def findings(fault: str = "", *, horizon: int = 20, limit: float = 0.0) -> dict[str, Any]:
    def wrap(copies: Any) -> Any:
        limits = {"cost": Constraint(LinearCost("cost", limit=limit), Quadratic(beta=1.0))}
        return constrain(
            copies,
            constraints=limits,
            estimator=GaussianMixture(n_components=1),
            steps_per_batch=80,
            discount=1.0,
        )

    found = examine(lambda: Own(fault, horizon), wrap, cost="cost", n_steps=100)
    return {finding.about: finding for finding in found}


def test_all_is_well() -> None:
    found = findings()
    assert {finding.verdict for finding in found.values()} == {"right"}
    assert list(found)[:5] == ["spaces", "cost", "time limit", "seeds", "pickling"]
    assert "the time limit is 20 steps" in found["time limit"].text
    assert {"objective", "limit of cost", "speed", "stack, NEXT_STEP", "stack, SAME_STEP"} < found.keys()


@pytest.mark.parametrize(
    ("fault", "about", "verdict", "words"),
    [
        ("nan", "numbers", "wrong", "an observation"),
        ("missing", "cost", "wrong", "missing on 5 of 100 steps"),
        ("integers", "cost", "note", "of type int"),
        ("seeds", "seeds", "wrong", r"reset\(seed=\) does not reach"),
        ("pickling", "pickling", "note", "cannot be pickled"),
        ("shape", "spaces", "note", r"float64 of shape \(1, 2\)"),
        ("cut", "time limit", "note", "truncated after 15"),
        ("raises", "stepped", "wrong", "a valve is stuck"),
        ("buffer", "last steps", "note", r"reset\(\) changes the observation that"),
        ("buffer", "ReusedObservation", "note", "SAME_STEP resets overwrite"),
    ],
)
def test_faults(fault: str, about: str, verdict: str, words: str) -> None:
    finding = findings(fault)[about]
    assert finding.verdict == verdict
    assert re.search(words, finding.text)


def test_infos_may_hold_anything() -> None:
    assert "last steps" not in findings("odd info")
    assert "stepped" not in findings("odd info")


def test_an_episode_that_is_longer_than_its_limit() -> None:
    found = findings(horizon=12)
    assert found["time limit"].verdict == "wrong"
    assert "horizon=" in found["stack, NEXT_STEP"].text


def test_a_limit_that_random_actions_keep() -> None:
    assert findings(limit=2.0)["limit of cost"].verdict == "note"


class TestCheckConstrainedEnv:
    def test_what_is_wrong(self) -> None:
        with pytest.raises(AssertionError, match=r"cost: info\['cost'\] is missing on"):
            check_constrained_env(Own("missing"))

    def test_a_cost_and_a_state_of_ones_own(self) -> None:
        numbers = itertools.count()

        def far(observation: Any, action: Any, following: Any) -> float:
            return float(next(numbers) >= 0 and abs(observation[1]) > 1.0)

        check_constrained_env(Own(), cost=far, state=[1])
        assert next(numbers) > 600
