"""The studies are those of the paper: sizes counted by hand from its captions."""

from typing import get_args

import pytest

from constrained_maxent.reproduction import ControlStudyName, Effort, GridStudyName, control
from constrained_maxent.reproduction.grid.studies import EFFORTS, STUDIES


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fig1", 3),
        ("defaults", 1),
        ("defaults-short", 1),
        ("norm", 4),
        ("norm-beta", 24),
        ("robustness", 12),
        ("unconstrained", 9),
        ("ablation", 36),
        ("relaxed", 36),
        ("policies", 4),
        ("methods", 8),
        ("methods-short", 1),
        ("primal-dual-search", 343),  # 7 values of each of three rates
        ("primal-dual-batches", 196),  # of each of two rates, at two batch sizes, with and without momentum
    ],
)
def test_settings_are_different_and_as_many_as_the_paper_has(name, settings):
    assert len(set(STUDIES[name].settings)) == len(STUDIES[name].settings) == settings


def test_names_are_those_that_the_command_line_offers():
    assert tuple(STUDIES) == get_args(GridStudyName)
    assert tuple(control.STUDIES) == get_args(ControlStudyName)
    assert tuple(EFFORTS) == get_args(Effort)


def test_the_paper_s_effort():
    study = STUDIES["fig1"].within("paper")
    assert (study.iterations, study.seeds) == (15_000, 10)
    assert study.snapshot_every == 100  # evaluation every 100 iterations in Figure 1
    assert STUDIES["primal-dual-search"].within("paper").seeds == 3


def test_the_defaults_are_shorter_than_the_paper():
    assert STUDIES["defaults"].within("paper").iterations == 10_000
    assert STUDIES["defaults-short"].within("paper").snapshot_every == 40


@pytest.mark.parametrize(
    ("name", "planned"), [("fig1", 15_000), ("defaults", 10_000), ("defaults-short", 4000), ("methods-short", 600)]
)
def test_a_smoke_test_is_the_beginning_of_the_paper_s_runs(name, planned):
    study = STUDIES[name].within("smoke")
    assert (study.iterations, study.seeds, study.planned_iterations) == (60, 2, planned)
    assert STUDIES[name].within("paper").planned_iterations == planned


def test_figure_1_as_reported():
    pgp, free, dual = STUDIES["fig1"].settings
    assert (pgp.beta, free.beta, dual.dual_rate) == (0.005, 0.0, 0.001)
    assert {(s.episodes_per_batch, s.learning_rate) for s in (pgp, free, dual)} == {(8, 0.01)}
