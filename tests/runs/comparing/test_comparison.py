"""Comparisons of run folders that are written by hand, with figures by hand and by SciPy, and their files."""

import csv
import json
import re

import numpy as np
import pytest
from scipy.stats import bootstrap

from constrained_maxent.errors import InvalidRun, InvalidSetting, UnevenRuns
from constrained_maxent.evaluation import Estimate, difference_of_means
from constrained_maxent.runs import compare, write_comparison
from constrained_maxent.runs.comparing.files import latex, markdown
from constrained_maxent.runs.comparing.measured import at_or_before, grid

LAKE = "FrozenLake-PGP-v0"


@pytest.fixture
def two_methods(write_run):
    """Five seeds of two methods, by their objectives and costs; the paths."""

    def make(first, second, *, seeds=range(5), others=None, costs=(-1.0,) * 5, **rest):
        paths = []
        for beta, objectives, numbers in ((0.1, first, seeds), (0.2, second, seeds if others is None else others)):
            for i, (seed, objective) in enumerate(zip(numbers, objectives, strict=True)):
                paths.append(
                    write_run(
                        f"{beta}-{seed}-{len(paths)}",
                        seed=seed,
                        objective=objective,
                        cost=costs[i],
                        settings={"beta": beta},
                        **rest,
                    )
                )
        return paths

    return make


def row(found, quantity="objective", method="beta=0.2", environment=LAKE):
    (only,) = [
        each for each in found.rows if (each.environment, each.quantity, each.method) == (environment, quantity, method)
    ]
    return only


class TestTheTable:
    FIRST, SECOND = [1.0, 2.0, 3.0, 4.0, 10.0], [2.0, 3.5, 3.0, 6.0, 10.5]

    def test_by_hand(self, two_methods):
        found = compare(two_methods(self.FIRST, self.SECOND, costs=[-1.0, 0.0, 0.5, -2.0, 1e-12]))
        assert found.baseline == "beta=0.1"
        assert found.source == "exact values of the last policies"
        first, second = row(found, method="beta=0.1"), row(found)
        # (1 + 2 + 3 + 4 + 10) / 5, and without the lowest and the highest (2 + 3 + 4) / 3.
        assert (first.mean.mean, first.iqm.mean, first.n_seeds) == (4.0, 3.0, 5)
        assert (first.difference, first.paired, first.improvement) == (None, None, None)
        # (2 + 3.5 + 3 + 6 + 10.5) / 5; (3 + 3.5 + 6) / 3.
        assert second.mean.mean == pytest.approx(5.0)
        assert second.iqm.mean == pytest.approx(12.5 / 3.0)
        # Pairs differ by 1, 1.5, 0, 2 and 0.5.
        assert second.paired
        assert second.difference.mean == pytest.approx(1.0)
        # 2 beats 1, ties with 2: 1.5; 3.5 beats three: 3; 3: 2.5; 6: 4; 10.5: 5. Of 25 pairs.
        assert second.improvement.mean == pytest.approx(16.0 / 25.0)
        # Costs at the limit, or above it by rounding, keep it.
        assert row(found, "cost - limit").kept == pytest.approx(4 / 5)
        assert second.kept is None

    def test_intervals_are_scipys(self, two_methods):
        found = row(compare(two_methods(self.FIRST, self.SECOND)))
        for ours, samples in ((found.mean, self.SECOND), (found.difference, np.subtract(self.SECOND, self.FIRST))):
            theirs = bootstrap((samples,), np.mean, n_resamples=50_000, method="percentile", rng=5).confidence_interval
            assert [ours.low, ours.high] == pytest.approx(list(theirs), abs=0.05 * (theirs.high - theirs.low))

    def test_other_seeds_make_no_pairs(self, two_methods):
        found = row(compare(two_methods(self.FIRST, self.SECOND, others=range(1, 6))))
        assert found.paired is False
        assert found.difference == difference_of_means([self.SECOND], [self.FIRST], paired=False)

    def test_less_cost_is_better(self, write_run):
        paths = [
            write_run(f"{beta}{seed}", seed=seed, cost=1.0 - beta, settings={"beta": beta})
            for beta in (0, 1)
            for seed in range(3)
        ]
        found = compare(paths)
        assert row(found, "cost - limit", "beta=1").improvement.mean == 1.0
        assert row(found, "cost - limit", "beta=1").difference.mean == -1.0
        assert any("does not make it certain" in note for note in found.notes)

    def test_the_mass_where_it_differs(self, two_methods):
        found = compare(two_methods(self.FIRST, self.SECOND, exact=False, episodes=20))
        masses = row(found, "mass of λ")
        assert masses.mean.mean == 3.0  # 1 + seed
        assert masses.improvement is None
        assert row(found, "grid cells visited, share").mean == Estimate(0.25, 0.25, 0.25)
        # The exact tables of before have 1 everywhere.
        assert {each.quantity for each in compare(two_methods([0.0], [1.0], seeds=[7])).rows} == {
            "objective",
            "cost - limit",
        }

    @pytest.mark.parametrize("n", [1, 2])
    def test_few_seeds_have_no_interval_and_it_is_said(self, two_methods, n):
        found = compare(two_methods([1.0, 2.0][:n], [3.0, 7.0][:n], seeds=range(n)))
        for each in found.rows:
            for estimate in (each.mean, each.iqm, each.difference, each.improvement):
                assert estimate is None or estimate.low == estimate.high == estimate.mean
        assert any("fewer than 3 seeds" in note for note in found.notes)
        assert "[" not in markdown(found)

    def test_narrow_intervals_are_said(self, two_methods):
        assert any("too narrow" in note for note in compare(two_methods(self.FIRST, self.SECOND)).notes)


class TestSources:
    """Never two of them: here exact values, fresh episodes 0.5 below them, and the last batch 10 below."""

    def test_the_best_that_all_have(self, write_run):
        paths = [write_run(f"exact{seed}", seed=seed, objective=5.0, episodes=20) for seed in range(2)]
        assert row(compare(paths), method="PGP").mean.mean == 5.0
        paths.append(write_run("fresh", seed=2, objective=5.0, episodes=20, exact=False))
        found = compare(paths)
        assert (row(found, method="PGP").mean.mean, found.source) == (
            4.5,
            "fresh episodes of the last policies (evaluation.json)",
        )
        (note,) = (note for note in found.notes if "Only 2 of 3 runs have exact values of the last policies" in note)
        assert "fresh for one has none" in note
        paths.append(write_run("batch", seed=3, objective=5.0, exact=False))
        found = compare(paths)
        assert (row(found, method="PGP").mean.mean, found.source) == (
            -5.0,
            "the last batch of each run alone (summary.json)",
        )

    def test_exact_values_that_fresh_episodes_contradicted(self, write_run):
        path = write_run("run", objective=5.0, episodes=20)
        evaluation = json.loads((path / "evaluation.json").read_text())
        (path / "evaluation.json").write_text(
            json.dumps({**evaluation, "exact": None, "no_exact": "It does otherwise."})
        )
        assert row(compare([path]), method="PGP").mean.mean == 4.5

    def test_evaluations_of_unlike_numbers_of_episodes(self, write_run):
        paths = [write_run(f"run{n}", seed=n, exact=False, episodes=n) for n in (20, 40)]
        with pytest.raises(InvalidRun, match=r"20 episodes and .*run40 on 40"):
            compare(paths)

    def test_an_evaluation_of_before_the_last_iteration(self, write_run):
        path = write_run("run", episodes=20)
        (path / "evaluation.json").write_text('{"iteration": 9, "rollouts": {}}')
        with pytest.raises(InvalidRun, match=r"run was evaluated after 9 iterations, and trained for 10"):
            compare([path])

    def test_a_run_that_has_not_ended(self, write_run):
        paths = [write_run("a"), write_run("b", seed=1, summary=False)]
        with pytest.raises(InvalidRun, match=r"b has no summary\.json: .*--at steps"):
            compare(paths)

    def test_values_that_are_no_numbers(self, write_run):
        with pytest.raises(InvalidRun, match="bad ended with objective = nan"):
            compare([write_run("good"), write_run("bad", seed=1, objective=float("nan"))])

    def test_a_summary_that_lacks_something(self, write_run):
        path = write_run("a", metrics=metrics([10], [1.0]))
        (path / "summary.json").write_text('{"iterations": 10}')
        with pytest.raises(InvalidRun, match=r"summary\.json is missing or has no status"):
            compare([path], at="steps")

    def test_nothing_in_common(self, write_run):
        path = write_run("a")
        (path / "summary.json").write_text('{"status": "finished", "iterations": 10, "timesteps": 5}')
        with pytest.raises(InvalidRun, match="no values in common"):
            compare([path])


class TestUnevenRuns:
    @pytest.mark.parametrize(
        ("other", "words"),
        [
            ({"timesteps": 2000}, "1,000 to 2,000 steps"),
            ({"status": "interrupted"}, "Not finished: .*run1"),
            ({"exact": False, "iterations": 5}, "batches have 100 to 200 steps"),
            ({"cell_sizes": {"objective": [0.1, 0.4]}}, r"by up to 0\.69 nats"),  # log 2
        ],
    )
    def test_are_warned_of(self, write_run, other, words):
        paths = [write_run("run0", cell_sizes={"objective": [0.1, 0.2]}), write_run("run1", seed=1, **other)]
        with pytest.warns(UnevenRuns, match=words):
            found = compare(paths)
        assert any(re.search(words, note) for note in found.notes)

    def test_failures_of_a_sweep(self, write_run, tmp_path):
        write_run("sweep/seed0")
        (tmp_path / "sweep" / "sweep.json").write_text("{}")
        (tmp_path / "sweep" / "failures").mkdir()
        (tmp_path / "sweep" / "failures" / "seed1.json").write_text("{}")
        with pytest.warns(UnevenRuns, match=r"1 run failed and is missing \(seed1\)"):
            compare([tmp_path / "sweep"])


class TestEnvironments:
    @pytest.fixture
    def found(self, write_run):
        """Of the first environment the second method is better by 1 in each seed, of the other by 100 in one of 3."""
        paths = []
        for env_id, baseline, other in (
            (LAKE, [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]),
            ("B-v0", [0.0] * 3, [100.0, 0.0, 0.0]),
        ):
            for beta, objectives in ((0.1, baseline), (0.2, other)):
                for seed, objective in enumerate(objectives):
                    name = f"{env_id}-{beta}-{seed}"
                    settings = {"beta": beta}
                    paths.append(write_run(name, env_id=env_id, seed=seed, objective=objective, settings=settings))
        paths.append(write_run("alone", env_id="B-v0", settings={"beta": 0.3}))
        return compare(paths)

    def test_all_together(self, found):
        both = row(found, environment="all 2 environments")
        assert (both.n_seeds, both.paired) == (6, True)
        # (2 + 3 + 4 + 100 + 0 + 0) / 6; sorted 0 | 0 2 3 4 | 100; 1 + 1 + 1 + 100 over 6.
        assert both.mean.mean == pytest.approx(109.0 / 6.0)
        assert both.iqm.mean == pytest.approx(9.0 / 4.0)
        assert both.difference.mean == pytest.approx(103.0 / 6.0)
        # Of the one: 2 beats 1 and ties with 2, 3 beats two and ties with 3, 4 beats three, 7 / 9. Of the other, 100
        # beats three, and each 0 ties with three: 6 / 9.
        assert both.improvement.mean == pytest.approx((7.0 / 9.0 + 6.0 / 9.0) / 2.0)

    def test_costs_of_several_environments_have_no_mean(self, found):
        both = row(found, "cost - limit", environment="all 2 environments")
        assert (both.mean, both.iqm, both.difference, both.kept) == (None, None, None, 1.0)
        assert both.improvement.mean == 0.5

    def test_methods_that_some_lack_are_not_among_them(self, found):
        assert [each.method for each in found.rows if each.environment.startswith("all")] == [
            "beta=0.1",
            "beta=0.2",
        ] * 2
        assert f"{LAKE} has no runs of beta=0.3." in found.notes
        assert any("taken as they are" in note for note in found.notes)


def metrics(steps, values, *, seconds=None):
    columns = {"iteration": list(range(1, len(steps) + 1)), "timesteps": steps}
    if seconds is not None:
        columns["seconds"] = seconds
    return {
        **columns,
        "objective": [0.0] * len(steps),
        "exact_objective": values,
        "constraint_cost": [0.0] * len(steps),
    }


class TestCurves:
    def test_steps_and_no_lines_between(self):
        x, y = np.array([1.0, 3.0, 7.0]), np.array([10.0, 30.0, 70.0])
        found = at_or_before(x, y, np.array([0.5, 1.0, 2.9, 3.0, 100.0]))
        np.testing.assert_array_equal(found, [np.nan, 10.0, 10.0, 30.0, 70.0])

    def test_the_points_are_those_that_all_have(self):
        one, other = np.array([1.0, 4.0, 9.0]), np.array([2.0, 6.0])
        assert grid([(one, one), (other, other)], end=6.0).tolist() == [2.0, 4.0, 6.0]
        assert grid([(one, one), (other, other)], end=1.5).tolist() == []
        many = np.arange(1.0, 1001.0)
        points = grid([(many, many)], end=1000.0)
        assert (len(points), points[0], points[-1]) == (100, 1.0, 1000.0)

    @pytest.fixture
    def paths(self, write_run):
        """A run of 30 steps and one of 20, with gaps; by the clock the second took as long."""
        return [
            write_run("a", timesteps=30, metrics=metrics([10, 20, 30], [1.0, None, 3.0], seconds=[1.0, 2.0, 3.0])),
            write_run("b", seed=1, timesteps=20, metrics=metrics([12, 20], [5.0, 7.0], seconds=[2.0, 2.5])),
        ]

    @pytest.mark.parametrize(
        ("at", "end", "mean"),
        # At step 20 the one has what it had at 10, the other its last; at 2.5 s as well.
        [("steps", "20", (1.0 + 7.0) / 2.0), ("seconds", "2.5", (1.0 + 7.0) / 2.0)],
    )
    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.UnevenRuns")
    def test_values_at_equal_cost(self, paths, at, end, mean):
        found = compare(paths, at=at)
        assert row(found, method="PGP").mean.mean == mean
        assert found.source == f"exact values while training (metrics.csv), at equal {at} ({LAKE}: {end})"
        # The last policies are worth something else.
        assert row(compare(paths), method="PGP").mean.mean == 1.0

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.UnevenRuns")
    def test_by_hand(self, paths):
        (curve,) = compare(paths, at="steps").curves
        assert (curve.environment, curve.quantity, curve.method) == (LAKE, "objective", "PGP")
        assert curve.x.tolist() == [12.0, 20.0]
        assert curve.values.tolist() == [[1.0, 1.0], [5.0, 7.0]]
        assert curve.mean[0].tolist() == curve.iqm[0].tolist() == [3.0, 4.0]
        assert curve.mean[1] is curve.iqm[2] is None

    def test_runs_that_have_not_ended_compare_as_far_as_they_have_come(self, write_run):
        paths = [
            write_run("a", metrics=metrics([10, 20], [1.0, 2.0])),
            write_run("b", seed=1, summary=False, metrics=metrics([10], [4.0])),
        ]
        with pytest.warns(UnevenRuns, match="Not finished: .*b"):
            found = compare(paths, at="steps")
        assert row(found, method="PGP").mean.mean == 2.5

    def test_one_source_for_all(self, write_run):
        one = metrics([10, 20], [1.0, 2.0])
        other = {**metrics([10, 20], [None, None]), "objective": [7.0, 8.0]}
        paths = [write_run("a", metrics=one), write_run("b", seed=1, metrics=other)]
        found = compare(paths, at="steps")
        assert found.curve_source == "the running estimate while training (metrics.csv)"
        assert row(found, method="PGP").mean.mean == 4.0  # 0 and 8

    def test_no_metrics(self, write_run):
        paths = [write_run("a", metrics=metrics([10], [1.0])), write_run("b", seed=1)]
        found = compare(paths)
        assert found.curves == ()
        assert any("There are no curves" in note for note in found.notes)
        with pytest.raises(InvalidRun, match=r"metrics\.csv is missing"):
            compare(paths, at="steps")

    def test_no_seconds(self, write_run):
        with pytest.raises(InvalidRun, match="no seconds"):
            compare([write_run("a", metrics=metrics([10], [1.0]))], at="seconds")

    def test_nothing_by_then(self, write_run):
        late = write_run("a", metrics=metrics([10, 20], [None, 1.0]))
        early = write_run("b", seed=1, metrics=metrics([10], [1.0]))
        with pytest.raises(InvalidRun, match="a has no objective by the step"):
            compare([late, early], at="steps")

    def test_at_something_else(self, write_run):
        with pytest.raises(InvalidSetting, match="at='iterations'"):
            compare([write_run("a")], at="iterations")


class TestFiles:
    @pytest.fixture
    def found(self, write_run):
        paths = []
        for kind in ("a_b%", "c|d"):
            for seed in range(3):
                curve = metrics([10, 20], [float(seed), float(seed) + 1.0])
                name = f"{len(paths)}"
                paths.append(
                    write_run(name, seed=seed, objective=float(seed), metrics=curve, settings={"penalty_of": kind})
                )
        return compare(paths)

    def test_what_is_written(self, found, tmp_path):
        paths = write_comparison(found, tmp_path / "out")
        assert [path.name for path in paths] == [
            *("comparison.csv", "comparison.md", "comparison.tex", "comparison-curves.csv", "comparison.png")
        ]
        assert (tmp_path / "out" / "comparison.png").stat().st_size > 5000
        with paths[0].open() as file:
            lines = list(csv.DictReader(file))
        assert [(line["quantity"], line["method"]) for line in lines] == [
            (quantity, f"penalty_of={kind}") for quantity in ("objective", "cost - limit") for kind in ("a_b%", "c|d")
        ]
        first, second = lines[:2]
        assert (float(first["mean"]), float(first["mean_low"]), float(first["mean_high"])) == (1.0, 0.0, 2.0)
        assert (first["difference"], first["paired"], second["paired"], first["kept"]) == ("", "", "True", "")
        # All pairs differ by 0: there is no spread, and no interval.
        assert (float(second["difference"]), second["difference_low"]) == (0.0, "")
        assert (float(second["improvement"]), lines[2]["kept"]) == (0.5, "1.0")
        with paths[3].open() as file:
            points = list(csv.DictReader(file))
        assert [(float(p["steps"]), float(p["mean"]), p["seeds"]) for p in points[:2]] == [
            (10, 1.0, "3"),
            (20, 2.0, "3"),
        ]
        assert float(points[0]["iqm_low"]) == 0.0

    def test_markdown(self, found):
        text = markdown(found)
        assert "Values: exact values of the last policies." in text
        assert "| penalty_of=c\\|d | 3 | 1.0000 [0.0000, 2.0000] | 1.0000 [0.0000, 2.0000] |" in text
        rows = [line for line in text.splitlines() if line.startswith("|")]
        # Method, seeds, mean, interquartile mean, difference and probability; of the cost its limit as well.
        assert [len(re.findall(r"(?<!\\)\|", line)) for line in rows] == [7] * 4 + [8] * 4

    def test_latex(self, found):
        text = latex(found)
        assert r"penalty\_of=a\_b\%" in text
        assert r"\emph{FrozenLake-PGP-v0: objective}" in text
        assert "exact values of the last policies" in text.split(r"\caption")[1]
        (columns,) = re.findall(r"\\begin\{tabular\}\{(l r*|lr*)\}", text)
        body = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
        assert {line.count("&") for line in body} == {len(columns) - 1}
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
        for rule in ("toprule", "midrule", "bottomrule"):
            assert f"\\{rule}" in text


def test_environments_with_unlike_numbers_of_seeds_have_no_mean_together(tmp_path, write_run):
    """Of values near 0 in one and near 100 in the other, the method with more seeds there would seem better."""
    for i, (env_id, beta, n) in enumerate([("A-v0", 1, 3), ("B-v0", 1, 6), ("A-v0", 2, 6), ("B-v0", 2, 3)]):
        for seed in range(n):
            objective = 100.0 * (env_id == "B-v0") + seed % 3
            write_run(f"{i}-{seed}", seed=seed, env_id=env_id, objective=objective, settings={"beta": beta})
    found = compare(sorted(tmp_path.iterdir()))
    assert {row.environment for row in found.rows} == {"A-v0", "B-v0"}
    assert any("not every one has as many seeds" in note for note in found.notes)


def test_exact_values_that_were_withdrawn_are_no_curve(tmp_path, write_run):
    metrics = {
        "iteration": [5, 10],
        "timesteps": [500, 1000],
        "objective_fresh": [1.0, 2.0],
        "exact_objective": [9.0, None],
    }
    for seed in range(3):
        write_run(f"seed={seed}", seed=seed, exact=False, metrics=metrics)
    found = compare(sorted(tmp_path.iterdir()), at="steps")
    assert "each batch alone" in found.source
    assert {row.mean.mean for row in found.rows if row.quantity == "objective"} == {2.0}
