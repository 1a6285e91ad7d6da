"""``cmaxent check``: what was found as a table, and what to write, which runs as it stands."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest


class Broken(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, dtype=np.float32), {}

    def step(self, action: Any) -> Any:
        return np.full(2, np.nan, dtype=np.float32), 0.0, False, False, {}


@pytest.fixture
def broken() -> Any:
    gym.register("Broken-v0", Broken, disable_env_checker=True)
    yield
    del gym.registry["Broken-v0"]


def written(out: str) -> str:
    """The lines of Python."""
    block = out.partition("In Python:")[2]
    return "\n".join(line.removeprefix("    ") for line in block.strip("\n").split("\n"))


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (["FrozenLake-v1"], "cmaxent train FrozenLake-v1"),
        (
            ["Pendulum-v1", "--state", "0:1", "2", "--cost", "terminated", "--limit", "0.5"],
            "cmaxent train Pendulum-v1 --state 0:1 2 --cost terminated --limit 0.5",
        ),
    ],
)
def test_all_is_well(cmaxent: Any, options: list[str], command: str) -> None:
    code, out, _ = cmaxent("check", *options, "--steps", "40")
    assert code == 0
    assert "WRONG" not in out
    assert command in out
    program = written(out).replace("8192", "16")
    made: dict[str, Any] = {}
    exec(program.rpartition("\nagent")[0], made)
    env = made["env"]
    env.reset(seed=0)
    while (report := env.tracker.last_report) is None:
        env.step(env.action_space.sample())
    assert np.isfinite(report.objective)


def test_what_is_wrong(cmaxent: Any, broken: Any) -> None:
    code, out, _ = cmaxent("check", "Broken-v0", "--steps", "40")
    assert code == 1
    assert "WRONG" in out
    assert "NaN or infinite" in out


def test_a_stack_of_its_own(cmaxent: Any) -> None:
    code, out, _ = cmaxent("check", "FrozenLake-PGP-v0", "--env-kwargs", '{"iterations": 2}')
    assert code == 0
    assert "it brings its own" in out
