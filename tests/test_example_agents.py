"""The examples that bring an agent of somebody else's making: they learn, and see what belongs to which episode."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.wrappers import constrain


def example(name: str) -> ModuleType:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


ppo = example("ppo")


def test_sums_end_where_episodes_do() -> None:
    """By hand: 1 + 0.5·2 = 2 in the first episode, 4 + 0.5·8 = 8 in the second; the other copy has one."""
    terms = torch.tensor([[1.0, 1.0], [2.0, 1.0], [4.0, 1.0], [8.0, 1.0]])
    done = torch.tensor([[False, False], [True, False], [False, False], [False, False]])
    sums = ppo.discounted_sums(terms, done, 0.5)
    assert sums.tolist() == [[2.0, 1.875], [2.0, 1.75], [8.0, 1.5], [8.0, 1.0]]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_ppo_learns(mode: AutoresetMode) -> None:
    """Exactly evaluated: the uniform policy costs 83.3."""
    lake = ppo.make("FrozenLake-PGP-v0", 16, autoreset_mode=mode)
    agent = ppo.train(lake, ppo.Settings(total_timesteps=10_000, learning_rate=2e-3, final_learning_rate=2e-3))
    assert ExactProblem.from_env(lake).evaluate(agent.policy_table()).constraints["cost"] < 70.0


def test_ppo_refuses_rewards_that_come_late() -> None:
    with pytest.raises(ValueError, match="previous"):
        ppo.train(gym.make_vec("FrozenLake-PGP-v0", num_envs=2), ppo.Settings())


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_ppo_sees_where_an_episode_ended(
    mode: AutoresetMode, discount: float, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States 0, 1, 2, 3, cut there: the last value is that of 3, and counts unless the problem ends there."""
    lake = SyncVectorEnv(
        [lambda: scripted.Playback(scripted.episode([0, 1, 2, 3], end="truncated"))] * 2, autoreset_mode=mode
    )
    env = constrain(lake, episodes_per_batch=4, discount=discount, horizon=3, pairing="previous")
    seen = []
    monkeypatch.setattr(ppo, "update", lambda agent, optimizer, settings, *columns: seen.append(columns))
    ppo.train(env, ppo.Settings(total_timesteps=24))
    inputs, _, _, next_inputs, _, terminated, done, ready = seen[1]
    steps = inputs.argmax(-1)[ready], next_inputs.argmax(-1)[ready], done[ready], terminated[ready]
    starts, ends, are_done, are_terminal = (column.reshape(6, 2)[:, 0].tolist() for column in steps)
    assert (starts, ends) == ([0, 1, 2] * 2, [1, 2, 3] * 2)
    assert are_done == [False, False, True] * 2
    assert are_terminal == [False, False, discount < 1.0] * 2


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize(("library", "mode"), [("tianshou", "Disabled"), ("skrl", "SameStep"), ("torchrl", "Disabled")])
def test_other_libraries_learn(library: str, mode: str) -> None:
    """Exactly evaluated: the uniform policy costs 83.3."""
    pytest.importorskip(library)
    lake = gym.make_vec("FrozenLake-PGP-v0", num_envs=16, preset="ppo", autoreset_mode=mode)
    table = example(f"{library}_ppo").train(lake, total_timesteps=8_000)
    after = ExactProblem.from_env(lake).evaluate(table / table.sum(axis=1, keepdims=True))
    assert after.constraints["cost"] < 70.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("library", "mode"), [("tianshou", "NextStep"), ("skrl", "NextStep")])
def test_examples_say_which_mode_they_need(library: str, mode: str) -> None:
    pytest.importorskip(library)
    lake = gym.make_vec("FrozenLake-PGP-v0", num_envs=2, preset="ppo", autoreset_mode=mode)
    with pytest.raises(ValueError, match="autoreset_mode="):
        example(f"{library}_ppo").train(lake, total_timesteps=8_000)
