"""Runs on the compiled engine: its own numbers, in the folder of a run, or a refusal by name."""

import json

import numpy as np
import pytest

from constrained_maxent import runs
from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.functionals import Entropy
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.reproduction.grid.worlds import OCCUPANCY, world_of
from constrained_maxent.runs import RunFolder, SweepPlan
from constrained_maxent.runs.sweeps.performing import SWEEP, perform

GRID = "FrozenLake-PGP-v0"


def planned(seeds=1, **settings):
    content = {"environment": GRID, "seeds": seeds, "settings": {"iterations": 40, "evaluate_every": 10} | settings}
    return SweepPlan.of(content, compiled=True).runs


@pytest.fixture
def place(tmp_path):
    (tmp_path / SWEEP).write_text(json.dumps({"token": "", "runs": {}}))
    return tmp_path


def test_the_paper_s_preset_is_the_grid_study_s_run(place):
    """Of seed 1: Algorithm 1 with η = 0.01, β = 0.005, 8 episodes, the engine called as the grid study calls it."""
    run = planned(seeds=2, preset="paper")[1]
    assert perform(run, place, "").state == "finished"
    world = world_of("holes")
    settings = RunSettings(
        seed=1,
        objective=Entropy(smoothing=1e-6),
        constraints={"cost": Constraint(world.functional, Quadratic(0.005))},
    )
    expected = TabularEngine(world.mdp, [settings], scale=OCCUPANCY, record_every=1).run(40)
    folder = RunFolder(place / run.name)
    metrics, summary = folder.read_metrics(), folder.read_summary()
    at = metrics["iteration"].astype(int) - 1
    np.testing.assert_allclose(metrics["objective"], expected.objective[0, at], rtol=1e-12)
    np.testing.assert_allclose(metrics["constraint_cost"], expected.constraints["cost"][0, at], rtol=1e-12)
    np.testing.assert_allclose(metrics["multiplier_cost"], expected.slopes["cost"][0, at], rtol=1e-12)
    ((entropy, cost),) = world.measure(expected.policies)
    assert summary["exact"]["objective"] == pytest.approx(entropy, rel=1e-9)
    assert summary["exact"]["constraints"]["cost"] == pytest.approx(cost, rel=1e-9)
    assert (metrics["exact_objective"][-1], summary["compiled"], summary["status"]) == (
        summary["exact"]["objective"],
        True,
        "finished",
    )
    assert folder.read_config() == json.loads(json.dumps(run.config()))
    assert not folder.checkpoint_path.exists()
    for use in (runs.evaluate, runs.draw_run, runs.resume):
        with pytest.raises(InvalidRun, match="compiled engine, which keeps no agent"):
            use(folder)


def test_the_default_preset_has_a_counterpart(place):
    """Natural steps, a rate and a memory that change, and a penalty that grows: shapes of a short run alone."""
    (run,) = planned()
    assert perform(run, place, "").state == "finished"
    assert RunFolder(place / run.name).read_metrics()["iteration"][-1] == 40


def test_why_there_is_no_certificate(place):
    """No policy can cost less than nothing; the fixture of this folder's tests lets no program be solved."""
    (run,) = planned(limit=-1.0, iterations=2)
    assert perform(run, place, "").state == "finished"
    summary = RunFolder(place / run.name).read_summary()
    assert summary["certificate"] is None
    assert "of a run that keeps its agent, cmaxent certify solves it" in summary["no_certificate"]
    assert summary["warnings"] == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"preset": "ppo"}, "baseline = 'critic': the compiled engine has no counterpart"),
        ({"steps_per_batch": 100}, "steps_per_batch = 100"),
        ({"epochs": 4, "clip_range": 0.2}, "epochs = 4.*\n.*clip_range = 0.2"),
        ({"policy": "mlp"}, "learns tables only"),
        ({"return_discount": 0.5}, "return_discount = 0.5"),
    ],
)
def test_what_has_none_is_refused(settings, words):
    with pytest.raises(InvalidSetting, match=words):
        planned(**settings)


def test_what_is_not_known_is_refused(described):
    with pytest.raises(InvalidSetting, match="whose dynamics are known"):
        SweepPlan.of(described(), compiled=True)
    with pytest.raises(InvalidSetting, match=r"and not sb3\.PPO"):
        SweepPlan.of({"environment": GRID, "agent": "sb3.PPO"}, compiled=True)
