"""Studies of Stable-Baselines3's agents: runs, what is said of them, and that finished ones are not done again."""

import json
import math

import pytest

from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.reproduction import agents
from constrained_maxent.reproduction.agents import AgentRun, run_study

pytest.importorskip("stable_baselines3")


def test_cases_are_told_apart():
    for _, cases in agents.STUDIES.values():
        assert len({case.case for case in cases}) == len(cases)
    (linear, suggested), (low, high) = agents.STUDIES["grid"][1], agents.STUDIES["cartpole"][1]
    assert (linear.case, suggested.case) == ("PPO, 16 copies, net []", "PPO, 16 copies")
    assert (low.case, high.case) == ("PPO, 64 copies, limit 2", "PPO, 64 copies, limit 1.5")


@pytest.fixture
def tiny(monkeypatch):
    """Two batches of 16 episodes: the first has no rewards, so that the policy is hardly more than its beginning."""
    cases = [
        AgentRun(algorithm=kind, env_id=agents.GRID, num_envs=16, timesteps=800, net=()) for kind in ("PPO", "A2C")
    ]
    monkeypatch.setitem(agents.STUDIES, "grid", (2, cases))


def test_rows_say_what_the_log_and_the_exact_value_said(tiny, tmp_path):
    done = []
    rows = run_study("grid", tmp_path, seeds=1, progress=done.append)
    assert done == ["PPO, 16 copies, net [], seed 0", "A2C, 16 copies, net [], seed 0"]
    assert rows["case"].to_list() == ["PPO, 16 copies, net []", "A2C, 16 copies, net []"]
    for row in rows.iter_rows(named=True):
        assert row["objective"] == pytest.approx(
            29.21, abs=4.0
        )  # not far from uniformly random actions, at a cost of 83.3
        assert row["cost"] == pytest.approx(83.3, abs=40.0)
        assert math.isfinite(row["objective, log"])
        assert row["objective, last batch"] < row["objective"]  # a plug-in estimate of 16 episodes is low


def test_finished_runs_are_not_done_again(tiny, tmp_path, monkeypatch):
    first = run_study("grid", tmp_path, seeds=1)
    monkeypatch.setattr(agents, "measure", lambda run: pytest.fail("trained again"))
    assert run_study("grid", tmp_path, seeds=1).equals(first)
    path = next(tmp_path.glob("*.json"))
    other = json.loads(path.read_text())
    other["settings"]["timesteps"] = 1
    path.write_text(json.dumps(other))
    with pytest.raises(InvalidRun, match="other settings"):
        run_study("grid", tmp_path, seeds=1)


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"workers": 0}])
def test_wrong_arguments(tmp_path, wrong):
    with pytest.raises(InvalidSetting):
        run_study("grid", tmp_path, **wrong)
