"""What is refused before an expert is trained."""

import math
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.adapters.sb3.expert import ExpertSettings, check_rollouts
from constrained_maxent.errors import InvalidSetting, MissingState


class Line(gym.Env):
    """A walk over the plane that reports its first coordinate."""

    observation_space = action_space = gym.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)

    def __init__(self, horizon=10):
        self.horizon = horizon

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {"place": np.zeros(1)}

    def step(self, action):
        return np.array(action), 1.0, False, False, {"place": np.array(action[:1], dtype=np.float64)}


@pytest.fixture
def small():
    return SimpleNamespace(Line=Line)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("timesteps", (0, 4000, 1.5, True, "8", None)),
        ("seed", (-1, 2**32, 0.0)),
        ("hidden_sizes", ((), (8, 0), (8, 1.5), "88", 8, None)),
        *((name, (0, -1.0, math.nan, math.inf, "1")) for name in ("learning_rate", "updates_per_step")),
        ("discount", (-0.1, 1.1, math.nan, "1")),
    ],
)
def test_settings(name, values):
    for value in values:
        with pytest.raises(InvalidSetting, match=f"{name}="):
            ExpertSettings(**{name: value})


def test_the_bounds_themselves_are_settings():
    ExpertSettings(timesteps=np.int64(4001), seed=2**32 - 1, hidden_sizes=[1], discount=1)
    ExpertSettings(discount=0.0)


def test_rollouts(small):
    good = {"state": "place", "periodic": (), "n_episodes": 1}
    check_rollouts(small.Line(), **good)
    check_rollouts(small.Line(), **good | {"periodic": (0,)})
    check_rollouts(small.Line(), state=None, periodic=(1,), n_episodes=1)
    check_rollouts(small.Line(), state=lambda observation: observation[:1], periodic=(0,), n_episodes=1)
    for wrong, error, message in (
        ({"periodic": (1,)}, InvalidSetting, "periodic="),
        ({"state": "nowhere"}, MissingState, "nowhere"),
        ({"state": 3}, InvalidSetting, "state=3"),
        ({"n_episodes": 0}, InvalidSetting, "n_episodes=0"),
    ):
        with pytest.raises(error, match=message):
            check_rollouts(small.Line(), **good | wrong)
    with pytest.raises(InvalidSetting, match="limit"):
        check_rollouts(small.Line(horizon=None), **good)


def test_an_episode_of_one_step_is_enough(small, monkeypatch):
    """A second step would be one after the end, which environments need not survive."""
    step, taken = small.Line.step, []

    def only_once(self, action):
        taken.append(action)
        assert len(taken) == 1
        return step(self, action)

    monkeypatch.setattr(small.Line, "step", only_once)
    check_rollouts(small.Line(), state="place", periodic=(), n_episodes=1)
    assert len(taken) == 1


def test_the_state_must_be_there_on_every_step(small, monkeypatch):
    step = small.Line.step
    monkeypatch.setattr(small.Line, "step", lambda self, action: (*step(self, action)[:4], {}))
    with pytest.raises(MissingState, match="place"):
        check_rollouts(small.Line(), state="place", periodic=(), n_episodes=1)
