"""Settings: they survive JSON, and those that make no sense are refused by name."""

import json
from dataclasses import replace

import pytest

from constrained_maxent.agents import PGPSettings
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.runs.settings import TrainSettings

EVERYTHING = TrainSettings(
    iterations=7,
    seed=3,
    num_envs=2,
    preset="paper",
    pairing="split",
    beta=0.1,
    limit=-2.0,
    episodes_per_batch=16,
    discount=0.5,
    scale="normalized",
    memory=0.9,
    objective="mine:Own",
    constraint="mine:Other",
    cost="c",
    env_kwargs='{"horizon": 50}',
    agent=PGPSettings(learning_rate=0.1, baseline="critic", hidden_sizes=(8, 4)),
    log_every=1,
    evaluate_every=2,
    checkpoint_every=3,
)


@pytest.mark.parametrize("settings", [TrainSettings(), EVERYTHING])
def test_json_round_trip(settings):
    assert TrainSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_settings_that_json_lacks_take_their_defaults():
    assert TrainSettings.from_json({"seed": 4}) == TrainSettings(seed=4)


@pytest.mark.parametrize("name", ["iterations", "num_envs", "log_every", "evaluate_every", "checkpoint_every", "seed"])
@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True])
def test_whole_numbers(name, value):
    if value is None and name in ("iterations", "num_envs"):
        pytest.skip("left to the preset")
    with pytest.raises(InvalidSetting, match=f"{name.replace('_', '-')}={value!r} must be a whole number"):
        TrainSettings(**{name: value})


def test_the_least():
    TrainSettings(seed=0, iterations=1)
    with pytest.raises(InvalidSetting, match="iterations=0 must be a whole number of at least 1"):
        TrainSettings(iterations=0)


@pytest.mark.parametrize("name", ["beta", "limit", "discount", "memory"])
@pytest.mark.parametrize("value", ["1", True, [0.5]])
def test_numbers(name, value):
    with pytest.raises(InvalidSetting, match=f"{name}=.* must be a number"):
        TrainSettings(**{name: value})


def test_environment_kwargs():
    assert EVERYTHING.environment_kwargs() == {"horizon": 50}
    assert TrainSettings().environment_kwargs() == {}
    with pytest.raises(InvalidSetting, match=r"env-kwargs='\{horizon: 50\}' is not JSON"):
        replace(EVERYTHING, env_kwargs="{horizon: 50}")
    with pytest.raises(InvalidSetting, match=r"env-kwargs='\[50\]' must be a JSON object"):
        replace(EVERYTHING, env_kwargs="[50]")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"iterationen": 5}, "do not exist: iterationen"),
        ({"iterations": "many"}, "make no sense: iterations='many'"),
        ({"env_kwargs": 5}, "make no sense"),
        ({"agent": {"impetus": 0.9}}, "make no sense: .*impetus"),
        ({"agent": {"learning_rate": -1.0}}, "make no sense: learning_rate=-1.0"),
        ({"agent": {"learning_rate": "high"}}, "make no sense"),
        ({"agent": {"hidden_sizes": 3}}, "make no sense"),
        ({"agent": None}, "make no sense"),
    ],
)
def test_a_config_that_was_tampered_with(content, reason):
    with pytest.raises(InvalidRun, match=f"config.json has settings that {reason}"):
        TrainSettings.from_json(content)
