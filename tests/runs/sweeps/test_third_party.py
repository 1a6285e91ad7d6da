"""Agents of Stable-Baselines3 in run folders of the same kind."""

import json

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

from constrained_maxent import runs
from constrained_maxent.adapters.sb3 import VecEnv, load, policy_table
from constrained_maxent.agents.pytorch import threads_for
from constrained_maxent.errors import InvalidRun
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.runs import RunFolder, SweepPlan
from constrained_maxent.runs.sweeps.performing import SWEEP, perform

GRID = "FrozenLake-PGP-v0"


@pytest.fixture
def place(tmp_path):
    (tmp_path / SWEEP).write_text(json.dumps({"token": "", "runs": {}}))
    return tmp_path


def planned(env_id=GRID, agent="sb3.PPO", **settings):
    content = {"environment": env_id, "agent": agent, "settings": {"iterations": 3, "num_envs": 4} | settings}
    (run,) = SweepPlan.of(content | {"seeds": [5]}).runs
    return run


def test_it_is_stable_baselines_own_training(place):
    """The model is bit-equal to one that Stable-Baselines3 trains by itself, and its exact values are the summary's."""
    from stable_baselines3 import PPO

    run = planned(n_epochs=2)
    outcome = perform(run, place, "")
    assert outcome.state == "finished", outcome.traceback
    venv = VecEnv(GRID, num_envs=4, preset="ppo")
    venv.tracker.announce(timesteps=3 * 400)
    exact = ExactProblem.from_env(gym.make(GRID))
    with threads_for(0):  # sums of several threads have other last digits
        model = PPO("MlpPolicy", venv, **venv.suggested() | {"n_epochs": 2}, seed=5, device="cpu").learn(3 * 400)
        table = policy_table(model, exact.mdp)
    value = exact.evaluate(table)
    folder = RunFolder(place / run.name)
    summary, metrics = folder.read_summary(), folder.read_metrics()
    assert summary["exact"]["objective"] == value.objective
    assert summary["exact"]["constraints"] == value.constraints
    assert metrics["iteration"].tolist() == [1, 2, 3]
    assert metrics["timesteps"].tolist() == [400, 800, 1200]
    assert metrics["exact_objective"][-1] == value.objective
    assert np.isnan(metrics["gradient_norm"]).all()
    kept = load(PPO, folder.model_path, VecEnv(GRID, num_envs=4, preset="ppo"))
    with threads_for(0):
        np.testing.assert_array_equal(policy_table(kept, exact.mdp), table)
    config = folder.read_config()
    assert (config["agent"], config["settings"]["agent"], config["settings"]["seed"]) == ("sb3.PPO", {"n_epochs": 2}, 5)
    assert perform(run, place, "").state == "finished"
    assert folder.read_summary() == summary
    for use in (runs.evaluate, runs.draw_run, runs.resume):
        with pytest.raises(InvalidRun, match=r"is a run of sb3.PPO, .* model.zip"):
            use(folder)


def test_an_environment_of_ones_own(place, described):
    run = planned("tiny_module:Tiny-v0", "sb3.A2C", episodes_per_batch=4, discount=0.9, n_steps=10, limit=2.0)
    outcome = perform(run, place, "")
    assert outcome.state == "finished", outcome.traceback
    metrics = RunFolder(place / run.name).read_metrics()
    assert metrics["timesteps"].tolist() == [40, 80, 120]
    assert np.isfinite(metrics["objective"]).all()
    assert np.isfinite(metrics["constraint_cost"]).all()


def test_one_that_fails_keeps_its_last_update(place, described):
    """The third batch of each copy turns NaN."""
    run = planned(
        "tiny_module:Tiny-v0", episodes_per_batch=4, discount=0.9, n_steps=10, env_kwargs={"fault": "nan"}, iterations=9
    )
    outcome = perform(run, place, "")
    assert outcome.reason.startswith("NonFiniteValue: "), outcome.traceback
    assert "Iteration 2, the last one that was finished, is saved." in outcome.reason
    folder = RunFolder(place / run.name)
    assert folder.model_path.exists()
    assert folder.read_metrics()["iteration"].tolist() == [1, 2]
    assert not folder.summary_path.exists()
