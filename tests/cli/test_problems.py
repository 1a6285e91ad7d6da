"""``cmaxent solve``, ``certify`` and ``plan``; right values from the convex-program table of the experiments."""

import json
import sys
from pathlib import Path

import pytest

GRID = "FrozenLake-PGP-v0"

MINE = """
import numpy as np
from constrained_maxent.functionals import Functional

class Spread(Functional):
    'Minus the sum of squares of λ.'

    def value(self, measure):
        return -float((measure.weights * measure.points.density).sum())

    def derivative(self, measure, points):
        return -2.0 * points.density

    @property
    def curvature(self):
        return "concave"

    def conic(self, occupancy):
        import cvxpy as cp

        return -occupancy.unit**2 * cp.sum_squares(occupancy.scaled)

class Crowding(Functional):
    'The sum of squares of λ, without a conic form.'

    curvature = "convex"

    def value(self, measure):
        return float((measure.weights * measure.points.density).sum())

    def derivative(self, measure, points):
        return 2.0 * points.density

def crowding():
    return Crowding(limit=0.5)
"""
"""Functionals that the package does not have."""


class TestSolve:
    def test_finite_horizon(self, cmaxent):
        code, out, _ = cmaxent("solve", GRID, "--betas", 0.005, 1)
        assert code == 0
        # 40.188 unconstrained at cost 120.86; 36.720 at multiplier 0.19455; penalized 37.439 at 7.48, 36.734 at 0.0818.
        for figure in ("40.188", "120.85", "36.719", "0.1945", "37.438", "7.48", "36.734", "0.081"):
            assert figure in out
        assert "upper bound for stationary policies" in " ".join(out.split())

    def test_infinite_horizon(self, cmaxent):
        code, out, _ = cmaxent("solve", "SafeFrozenLake-v0", "--horizon", "infinite", "--discount", 0.9)
        assert code == 0
        # 4.669 unconstrained, 4.495 constrained, multiplier 0.3380.
        for figure in ("4.668", "4.494", "0.3380"):
            assert figure in out
        assert "upper bound" not in out

    def test_figure_of_a_lake(self, cmaxent):
        code, out, _ = cmaxent("solve", GRID, "--horizon", "infinite", "--figure", "new/optimum.png")
        assert code == 0
        assert "new/optimum.png" in out
        assert Path("new/optimum.png").stat().st_size > 10_000

    def test_no_figure_of_another_environment(self, cmaxent):
        code, _, err = cmaxent(
            "solve", "CliffWalking-v1", "--horizon", "infinite", "--env-kwargs", "{}", "--figure", "cliff.png"
        )
        assert code == 2
        assert "leave out --figure" in err

    def test_a_limit_that_nobody_can_keep(self, cmaxent):
        # The cheapest steps cost -0.001: no policy stays below -0.01 per step.
        code, _, err = cmaxent("solve", "SafeFrozenLake-v0", "--horizon", "infinite", "--limit", -0.01)
        assert code == 2
        assert "cost by 0.009" in err

    @pytest.mark.fault
    def test_numbers_are_printed_as_they_were_given(self, cmaxent):
        lake = json.dumps({"desc": ["SF", "FG"]})
        options = ["--horizon", "infinite", "--discount", 0.9999999, "--betas", 0.1234567, 0.1234568, 1e6]
        code, out, _ = cmaxent("solve", "SafeFrozenLake-v0", "--env-kwargs", lake, *options)
        assert code == 0
        for figure in ("discount 0.9999999", "β = 0.1234567", "β = 0.1234568", "β = 1e+06"):
            assert figure in out

    @pytest.mark.fault
    def test_a_penalty_beyond_the_solver(self, cmaxent):
        lake = json.dumps({"desc": ["SF", "HG"]})
        code, out, err = cmaxent("solve", "SafeFrozenLake-v0", "--env-kwargs", lake, "--betas", 1e300)
        assert (code, out) != (0, "")
        assert "beta=1e+300" in " ".join(err.split())

    def test_unknown_dynamics(self, cmaxent):
        code, _, err = cmaxent("solve", "Blackjack-v1")
        assert code == 2
        assert "from_arrays" in err


class TestCertify:
    def test_writes_the_certificate_into_the_summary(self, cmaxent):
        assert cmaxent("train", GRID, "--iterations", 4, "--out", "run", "--quiet")[0] == 0
        summary = json.loads(Path("run/summary.json").read_text())
        assert summary["certificate"]["optimum"] == pytest.approx(36.720, rel=1e-3)
        assert summary["certificate"]["multipliers"]["cost"] == pytest.approx(0.19455, rel=1e-2)
        # Without it, as a run before its certificate.
        Path("run/summary.json").write_text(json.dumps(summary | {"certificate": None}))
        code, out, _ = cmaxent("certify", "run")
        assert code == 0
        assert json.loads(Path("run/summary.json").read_text()) == summary
        for figure in ("36.719", "0.1945", "observed"):
            assert figure in out

    def test_certificate_agrees_with_the_exact_evaluation(self, cmaxent):
        assert cmaxent("train", GRID, "--iterations", 4, "--out", "run", "--quiet")[0] == 0
        summary = json.loads(Path("run/summary.json").read_text())
        certificate = summary["certificate"]
        assert certificate["value"] == pytest.approx(summary["exact"]["objective"])
        assert certificate["gap"] == pytest.approx(36.720 - summary["exact"]["objective"], abs=1e-3)
        assert certificate["violation"] == pytest.approx(summary["exact"]["constraints"]["cost"])

    def test_network_policies_cannot_be_certified(self, cmaxent):
        options = ("--policy", "mlp", "--hidden-sizes", 8, "--out", "run", "--quiet")
        assert cmaxent("train", GRID, "--iterations", 1, *options)[0] == 0
        code, _, err = cmaxent("certify", "run")
        assert code == 2
        assert "tabular policy" in err

    def test_no_run(self, cmaxent):
        code, _, err = cmaxent("certify", "nowhere")
        assert code == 2
        assert "nowhere is not a run folder" in err

    def test_training_without_a_feasible_policy_ends_without_certificate(self, cmaxent):
        code, out, _ = cmaxent("train", GRID, "--iterations", 1, "--limit", -1, "--out", "run", "--quiet")
        assert code == 0
        # The grid's least cost is -0.001 for each of at most sum 0.99^t = 22.2 steps: a limit of -1 lacks 0.978.
        assert "No certificate. No policy satisfies all constraints." in " ".join(out.split())
        assert "cost by 0.977" in " ".join(out.split())
        assert json.loads(Path("run/summary.json").read_text())["certificate"] is None


class TestPlan:
    def test_prints_worst_cases_beside_practice(self, cmaxent):
        code, out, _ = cmaxent("plan", "SafeFrozenLake-v0", "--horizon", "infinite", "--epsilon", 0.1)
        assert code == 0
        text = " ".join(out.split())
        assert "Worst cases" in text
        assert "counts are infinite" in text  # the grid has one start only
        # beta(eps) of our convention: half of (nu+1)(nu+sqrt(nu^2+2))/eps at nu = 0.3279.
        assert "11.82" in text

    def test_epsilon_must_be_given(self, cmaxent):
        assert cmaxent("plan", "SafeFrozenLake-v0")[0] == 2

    def test_needs_a_linear_constraint(self, cmaxent):
        code, _, err = cmaxent("plan", "FrozenLake-v1", "--epsilon", 0.1)
        assert code == 2
        assert "exactly one linear constraint" in err


class TestFunctionalsOfOnesOwn:
    @pytest.fixture(autouse=True)
    def module(self, tmp_path, monkeypatch):
        (tmp_path / "modules").mkdir()
        (tmp_path / "modules" / "mine.py").write_text(MINE)
        monkeypatch.syspath_prepend(tmp_path / "modules")
        yield
        sys.modules.pop("mine", None)

    def test_from_training_to_the_certificate(self, cmaxent):
        options = ("--iterations", 3, "--objective", "mine:Spread", "--constraint", "mine:crowding", "--beta", 2)
        code, out, err = cmaxent("train", "FrozenLake-v1", *options, "--out", "run", "--quiet")
        assert (code, err) == (0, "")
        summary = json.loads(Path("run/summary.json").read_text())
        assert "mine:Spread" in out
        # R = -F - limit of one λ, exactly evaluated.
        exact = summary["exact"]
        assert exact["constraints"] == pytest.approx({"crowding": -exact["objective"] - 0.5})
        assert "Crowding has no conic" in " ".join(out.split())
        code, _, err = cmaxent("certify", "run")
        assert code == 2
        assert "Crowding has no conic" in " ".join(err.split())

    def test_solved_and_certified(self, cmaxent):
        short = ("FrozenLake-v1", "--objective", "mine:Spread", "--env-kwargs", '{"max_episode_steps": 20}')
        assert cmaxent("train", *short, "--iterations", 3, "--out", "run", "--quiet")[0] == 0
        code, _, err = cmaxent("certify", "run")
        assert (code, err) == (0, "")
        certificate = json.loads(Path("run/summary.json").read_text())["certificate"]
        assert certificate["value"] < certificate["optimum"] < 0.0
        code, out, _ = cmaxent("solve", *short)
        assert code == 0
        solved = out.replace("┃", "│").split("without constraints")[1].split("│")[1]
        assert float(solved) == pytest.approx(certificate["optimum"], abs=1e-4)
