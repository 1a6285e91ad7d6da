"""The studies are those of the paper: sizes counted by hand from its captions."""

import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.reproduction.grid.sweep import SCALES, STUDIES, chosen


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
        ("methods", 9),
        ("primal-dual-search", 343),  # 7 values of each of three rates
        ("primal-dual-batches", 196),  # of each of two rates, at two batch sizes, with and without momentum
    ],
)
def test_settings_are_different_and_as_many_as_the_paper_has(name, settings):
    assert len(set(STUDIES[name].settings)) == len(STUDIES[name].settings) == settings


def test_paper_scale():
    assert (SCALES["paper"].iterations, SCALES["paper"].seeds) == (15_000, 10)
    # Evaluation every 100 iterations in Figure 1.
    assert SCALES["paper"].snapshot_every(STUDIES["fig1"]) == 100


def test_the_defaults_are_shorter_than_the_paper():
    assert SCALES["paper"].iterations_of(STUDIES["defaults"]) == 10_000
    assert SCALES["paper"].iterations_of(STUDIES["fig1"]) == 15_000
    assert SCALES["smoke"].iterations_of(STUDIES["defaults"]) == 60
    assert SCALES["paper"].snapshot_every(STUDIES["defaults-short"]) == 40


def test_figure_1_as_reported():
    pgp, free, dual = STUDIES["fig1"].settings
    assert (pgp.beta, free.beta, dual.dual_rate) == (0.005, 0.0, 0.001)
    assert {(s.episodes_per_batch, s.learning_rate) for s in (pgp, free, dual)} == {(8, 0.01)}


def test_all_are_chosen_without_names_and_none_twice():
    assert chosen([]) == tuple(STUDIES.values())
    assert chosen(["norm", "norm"]) == (STUDIES["norm"],)


def test_unknown_study():
    with pytest.raises(InvalidSetting, match="choose from fig1"):
        chosen(["fig2"])
