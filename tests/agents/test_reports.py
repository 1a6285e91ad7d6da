"""The progress bar: what it shows, and that it shows nothing when it is off."""

import gymnasium as gym
import pytest

from constrained_maxent.agents import PGP
from constrained_maxent.agents.reports import Progress


def test_shows_entropy_constraints_and_count(capsys):
    with Progress(4, label="entropy", enabled=True) as progress:
        for done in range(1, 5):
            progress.update(done, objective=12.3456, constraints={"cost": -0.5, "kl": 2.0})
    shown = capsys.readouterr().out
    assert "entropy 12.346" in shown
    assert "cost -0.5" in shown
    assert "kl +2" in shown
    assert "4/4" in shown


def test_without_objective(capsys):
    with Progress(1, enabled=True) as progress:
        progress.update(1, objective=None, constraints={"cost": 1.0})
    shown = capsys.readouterr().out
    assert "objective" not in shown
    assert "cost +1" in shown


def test_off(capsys):
    with Progress(1, enabled=False) as progress:
        progress.update(1, objective=1.0, constraints={})
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_learn_draws_only_when_asked(capsys):
    env = gym.make("FrozenLake-PGP-v0")
    PGP(env).learn(iterations=1, planned=3)
    assert capsys.readouterr().out == ""
    PGP(env).learn(iterations=2, progress_bar=True)
    shown = capsys.readouterr().out
    assert "2/2" in shown
    assert "entropy" in shown


def test_the_terminal_is_given_back_after_an_error(capsys):
    """A bar that were still live would refuse a second one."""

    def fail(agent, report):
        raise KeyError("stop")

    for _ in range(2):
        with pytest.raises(KeyError, match="stop"):
            PGP(gym.make("FrozenLake-PGP-v0")).learn(iterations=2, progress_bar=True, callback=fail)
    capsys.readouterr()
