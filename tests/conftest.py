"""No test needs a display; and what tests of several folders share."""

import builtins
import os

import pytest

os.environ["MPLBACKEND"] = "Agg"
os.environ["SDL_VIDEODRIVER"] = "dummy"


@pytest.fixture
def without_stable_baselines(monkeypatch):
    """As if Stable-Baselines3 were not installed."""
    original = builtins.__import__

    def without(name, *arguments, **keywords):
        if name.startswith("stable_baselines3"):
            raise ImportError(f"No module named {name!r}")
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
