"""MEPOL's yardstick against a closed form, and a tiny run of the study."""

import math
from dataclasses import replace

import numpy as np
import pytest

from constrained_maxent.reproduction.mepol import study
from constrained_maxent.reproduction.mepol.figures import draw_curves
from constrained_maxent.reproduction.mepol.study import entropy_by_neighbors, fresh_figures, run_study
from constrained_maxent.reproduction.mepol.tasks import TASKS


@pytest.mark.parametrize("k", [4, 50])
def test_yardstick_of_a_normal_distribution(k):
    """20,000 draws, a standard error below 0.015 nats: (1 + log 2π)/2 for each coordinate, and log of the scale."""
    rows = np.random.default_rng(0).normal(size=(20_000, 2)) * [3.0, 0.1]
    assert entropy_by_neighbors(rows, k) == pytest.approx(1.0 + math.log(2.0 * math.pi) + math.log(0.3), abs=0.05)


def test_uniform_actions_on_the_car_have_the_published_entropy():
    """-4.19 nats, measured by others' code; 100 episodes."""
    task, rng = TASKS["mountain-car"], np.random.default_rng(0)
    env = task.make(study.EPISODES)
    figures = fresh_figures(task, env, lambda rows: rng.uniform(-1.0, 1.0, (len(rows), 1)))
    env.close()
    assert figures["entropy"] == pytest.approx(-4.19, abs=0.1)
    assert 0.0 <= figures["cost"] < 0.01  # uniform actions are never fast


def test_a_tiny_study(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "EPISODES", 4)
    monkeypatch.setattr(study, "TASKS", {"mountain-car": replace(TASKS["mountain-car"], copies=2)})
    rows = run_study("mountain-car", tmp_path / "runs", seeds=1, batches=1)
    assert rows["case"].to_list() == ["no limit", "no limit", "limit", "limit"]
    assert rows["steps"].to_list() == [0, 800, 0, 800]
    assert rows["entropy"].is_finite().all()
    assert draw_curves(tmp_path / "car.png", "mountain-car", rows).stat().st_size > 10_000
