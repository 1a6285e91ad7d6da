"""The studies are those of the paper, sizes counted by hand from its captions; and what they are for the engine."""

from typing import get_args

import numpy as np
import pytest

from constrained_maxent.functionals import LinearCost
from constrained_maxent.penalties import AugmentedLagrangian, Lagrangian, Quadratic, QuadraticContinuation
from constrained_maxent.reproduction import ControlStudyName, Effort, GridStudyName, control
from constrained_maxent.reproduction.grid.studies import DEFAULTS, EFFORTS, STUDIES, Conventions, Setting, run_settings
from constrained_maxent.schedules import Geometric


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
    assert (*STUDIES, "conventions") == get_args(GridStudyName)
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


@pytest.fixture
def run():
    """The engine's settings by method."""
    cost = LinearCost([[1.0]], limit=0.2)
    return lambda setting: run_settings(setting, "cost", cost, seed=3)


def test_the_constraint_and_the_seed(run):
    settings = run(STUDIES["fig1"].settings[0])
    assert settings.constraints["cost"].functional.limit == 0.2
    assert settings.seed == 3


def test_penalties(run):
    penalties = {
        setting.method: run(setting).constraints["cost"].penalty for setting in STUDIES["methods"].settings[:5]
    }
    assert penalties == {
        "pgp": Quadratic(0.005),
        "unconstrained": Quadratic(0.0),
        "primal-dual": Lagrangian(0.001, largest=10.0),
        "vr-pdpg": Lagrangian(0.001, largest=10.0),
        "augmented-lagrangian": AugmentedLagrangian(0.001, learning_rate=0.0001),
    }


def test_steps(run):
    runs = {setting.method: run(setting) for setting in STUDIES["methods"].settings}
    reduced, proximal, natural = runs["vr-pdpg"], runs["proximal-point"], runs["natural-schedules"]
    assert (reduced.optimizer, reduced.momentum, reduced.pairing) == ("normalized", 0.1, "previous")
    assert (proximal.proximal_weight, proximal.inner_iterations) == (1.0, 100)
    assert (natural.optimizer, natural.beta) == ("natural", Geometric(0.005, 20.0))
    assert runs["adam-schedules"].learning_rate == Geometric(0.05, 0.001)


def test_the_short_schedules(run):
    (setting,) = STUDIES["methods-short"].settings
    assert (run(setting).learning_rate, run(setting).beta) == (Geometric(0.005, 0.003), Geometric(0.005, 3.0))


def test_the_defaults_are_those_of_the_environment(run):
    """Written down from the documentation of the preset."""
    settings = run(DEFAULTS)
    assert settings.constraints["cost"].penalty == QuadraticContinuation(0.005, 40.0)
    assert (settings.episodes_per_batch, settings.optimizer, settings.damping) == (16, "natural", 0.001)
    assert settings.baseline == "batch-mean"
    assert (settings.learning_rate, settings.memory) == (Geometric(0.005, 0.0003), Geometric(0.7, 0.97))
    assert settings.objective.smoothing == 1e-5
    # What the table of the study says.
    assert (DEFAULTS.learning_rate, DEFAULTS.beta) == (0.005, 40.0)


class TestConventions:
    @staticmethod
    def settings(setting, name="cost", **conventions):
        cost = LinearCost([[1.0, 2.0]])
        return run_settings(setting, name, cost, seed=0, conventions=Conventions(**conventions))

    def test_half_beta(self):
        """d/dR of β/2 R² is β R: 0.03 at R = 3, β = 0.01, where the text's β R² has 0.06."""
        setting = Setting(method="pgp", beta=0.01)
        halved, whole = (self.settings(setting, half_beta=half).constraints["cost"].penalty for half in (True, False))
        assert (halved.slope(3.0), whole.slope(3.0)) == pytest.approx((0.03, 0.06))
        assert halved.value(3.0) == pytest.approx(0.045)

    def test_a_multiplier_has_no_beta(self):
        setting = Setting(method="primal-dual", dual_rate=0.001)
        penalty = self.settings(setting, half_beta=True).constraints["cost"].penalty
        assert penalty == Lagrangian(0.001, largest=10.0)

    def test_tiny_smoothing(self):
        setting = Setting(method="pgp")
        assert self.settings(setting, tiny_smoothing=True).objective.smoothing == 1e-18
        assert self.settings(setting).objective.smoothing is None  # the library's usual one

    @pytest.mark.parametrize(
        ("method", "name", "value"), [("pgp", "cost", -5.0), ("primal-dual", "cost", 5.0), ("pgp", "distance", 5.0)]
    )
    def test_printed_signs_turn_the_cost_of_pgp(self, method, name, value):
        """⟨(1, 2), (1, 2)⟩ = 5."""
        settings = self.settings(Setting(method=method), name, printed_signs=True)
        assert settings.constraints[name].functional(np.array([[1.0, 2.0]])) == value
