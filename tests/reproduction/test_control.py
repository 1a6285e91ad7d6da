"""The study of continuous control: runs over seeds, their table, their curves, and going on after an interruption."""

import json
from dataclasses import asdict, replace

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.evaluation.state_measures import STATE_MEASURES
from constrained_maxent.references import shipped
from constrained_maxent.reporting import curves_figure
from constrained_maxent.reproduction import control, trained_once
from constrained_maxent.reproduction.control import (
    STUDIES,
    Case,
    ControlStudy,
    control_table,
    draw_curves,
    expert_figures,
    run_study,
)
from constrained_maxent.runs import RunFolder, TrainSettings
from constrained_maxent.seeds import REFERENCE, derived_seed
from constrained_maxent.tracker import find_tracker


def settings(**environment):
    return TrainSettings(
        iterations=2,
        num_envs=4,
        steps_per_batch=120,
        log_every=1,
        evaluate_every=1,
        env_kwargs=json.dumps({"time_limit": 0.5, **environment}),
    )


@pytest.fixture
def study(monkeypatch):
    monkeypatch.setattr(control, "EPISODES", 4)
    return ControlStudy(
        "cartpole",
        [Case("near", settings(slider_limit=0.1)), Case("far, free", settings(slider_limit=1.0))],
        seeds=2,
        curves={"state_entropy": "entropy", "coverage": "cells", "share_pole_up": "up", "constraint_cost": "cost"},
    )


@pytest.fixture
def results(study, tmp_path):
    return run_study(study, tmp_path)


def test_every_case_and_seed_is_a_run(results, tmp_path):
    names = ["far--free-seed0", "far--free-seed1", "near-seed0", "near-seed1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert [RunFolder(tmp_path / name).read_summary()["seed"] for name in names] == [0, 1, 0, 1]
    assert [len(result.evaluations) for result in results] == [2, 2]
    kept = json.loads((tmp_path / "near-seed1" / "evaluation.json").read_text())
    assert kept == json.loads(json.dumps(results[0].evaluations[1].to_json()))
    assert kept["rollouts"]["n_episodes"] == 4


def test_the_means_are_those_of_the_runs(results):
    name = "cost, mean per step"
    singles = [evaluation.rollouts.figures()[name].mean for evaluation in results[0].evaluations]
    assert results[0].figures()[name].mean == pytest.approx(np.mean(singles))


def test_table(results, study):
    table = control_table(study, results)
    assert table.columns[:4] == ["study", "case", "seed", "seconds"]
    assert table.select("case", "seed").rows() == [("near", 0), ("near", 1), ("far, free", 0), ("far, free", 1)]
    evaluations = [evaluation for result in results for evaluation in result.evaluations]
    for name in ("pole up, share of steps", "cost, mean per step"):
        means = [evaluation.rollouts.figures()[name].mean for evaluation in evaluations]
        assert table[name].to_list() == pytest.approx(means, rel=1e-5)


def test_metrics_measure_the_states_of_each_batch(results, tmp_path):
    metrics = RunFolder(tmp_path / "near-seed0").read_metrics()
    for name in ("state_entropy", "coverage", "share_pole_up"):
        assert np.isfinite(metrics[name]).all()
    # 120 steps cannot be in more than 120 of 9216 cells.
    assert (metrics["coverage"] > 0.0).all()
    assert (metrics["coverage"] <= 120 / 9216).all()
    # Half a second is too short to lift the pole.
    assert (metrics["share_pole_up"] == 0.0).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_every_column_is_drawn(results, study, tmp_path, monkeypatch, n):
    drawn = []

    def watch(panels, **options):
        drawn.extend(panel.ylabel for row in panels for panel in row)
        return curves_figure(panels, **options)

    monkeypatch.setattr(control, "curves_figure", watch)
    some = replace(study, curves=dict(list(study.curves.items())[:n]))
    draw_curves(tmp_path / "curves.png", some, tmp_path, seeds=2)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert drawn == ["entropy", "cells", "up", "cost"][:n]


def test_finished_runs_are_not_done_again(results, study, tmp_path, monkeypatch):
    monkeypatch.setattr(trained_once, "train", lambda *_, **__: 1 / 0)
    seen = []
    again = run_study(study, tmp_path, progress=seen.append)
    assert [result.seconds for result in again] == [result.seconds for result in results]
    assert seen == ["near-seed0", "near-seed1", "far--free-seed0", "far--free-seed1"]


def test_runs_of_other_settings_are_refused(results, study, tmp_path):
    case = study.cases[0]._replace(settings=settings(slider_limit=0.2))
    with pytest.raises(InvalidRun, match="other settings"):
        run_study(replace(study, cases=[case]), tmp_path)
    with pytest.raises(InvalidRun, match="other settings"):
        run_study(study, tmp_path, iterations=3)


@pytest.mark.filterwarnings("ignore:The run goes on past its planned end")
def test_an_interrupted_run_goes_on(study, tmp_path, monkeypatch):
    whole = run_study(study, tmp_path / "whole", seeds=1)
    first = replace(study, cases=study.cases[:1], seeds=1)
    run_study(first, tmp_path / "parts", seeds=1, iterations=1)
    folder = RunFolder(tmp_path / "parts" / "near-seed0")
    config = folder.read_config()
    config["settings"] |= {"iterations": 2}
    folder.write_json(folder.config_path, config)
    folder.summary_path.unlink()
    monkeypatch.setattr(trained_once, "train", lambda *_, **__: 1 / 0)
    (result,) = run_study(first, tmp_path / "parts", seeds=1)
    assert result.evaluations[0].iteration == whole[0].evaluations[0].iteration == 2


def test_another_run_in_the_folder(results, study, tmp_path):
    folder = RunFolder(tmp_path / "near-seed0")
    folder.write_json(folder.summary_path, folder.read_summary() | {"seed": 7})
    with pytest.raises(InvalidRun, match="holds another run"):
        run_study(study, tmp_path)


@pytest.mark.parametrize(("numbers", "words"), [({"seeds": 0}, "0 runs"), ({"workers": 0}, "workers=0")])
def test_refuses(study, tmp_path, numbers, words):
    with pytest.raises(InvalidSetting, match=words):
        run_study(study, tmp_path, **numbers)


def test_the_studies_are_those_of_the_paper():
    limits = [json.loads(case.settings.env_kwargs)["slider_limit"] for case in STUDIES["cartpole"].cases]
    assert limits == [2.0, 1.5, 1.5]
    assert [json.loads(case.settings.env_kwargs)["limit"] for case in STUDIES["point-mass"].cases] == [2, 20, 200]
    assert {case.settings.preset for case in STUDIES["cartpole-paper"].cases} == {"paper"}


def differences(study):
    """What each case but the first changes about the first."""

    def choices(case):
        settings = json.loads(case.settings.env_kwargs) | {"preset": case.settings.preset}
        if case.settings.beta is not None:
            settings["beta"] = case.settings.beta
        env = gym.make_vec("SafeCartpole-PGP-v0", num_envs=8, **settings)
        tracker = find_tracker(env)
        agent = asdict(PGP(env, case.settings.agent).hyperparameters)
        return agent | {
            "penalty": tracker.problem.constraints["cost"].penalty,
            "states": tracker.estimator.buffer_size,
            "memory": tracker.estimator.memory,
        }

    usual, *others = map(choices, STUDIES[study].cases)
    return [{name for name in usual if usual[name] != other[name]} for other in others]


def test_every_option_undoes_one_choice_of_the_preset():
    assert differences("cartpole-options") == [
        *({"epochs", "minibatch_size"}, {"averaging"}, {"gae_lambda"}),
        *({"penalty"}, {"penalty"}, {"states"}, {"states"}),
    ]


def test_every_option_adds_one_thing_to_the_papers_settings():
    assert differences("cartpole-paper-options") == [
        {"epochs", "minibatch_size", "clip_range"},
        {"penalty"},
        {"memory"},
    ]


class TestExpert:
    @pytest.fixture
    def imitation(self, monkeypatch):
        monkeypatch.setattr(control, "EPISODES", 2)
        return replace(STUDIES["point-mass"], cases=[])

    def test_it_is_measured_as_a_policy_is(self, imitation):
        """The same two episodes by hand, one environment step after the other."""
        reference, measures = shipped("PointMass-v0"), STATE_MEASURES["PointMass-v0"]
        (figures,) = expert_figures(imitation, seeds=1)
        env, rng, states = gym.make("PointMass-v0"), np.random.default_rng(0), []
        for seed in (derived_seed(0, 0, REFERENCE), None):
            observation, info = env.reset(seed=seed)
            done = False
            while not done:
                states.append(info["state"])
                observation, _, terminated, truncated, info = env.step(reference.policy.act(observation[None], rng)[0])
                done = terminated or truncated
        assert len(states) == 2000
        share = measures.grid.coverage(np.array(states)).share
        assert figures["grid cells visited, share"].mean == pytest.approx(share)

    def test_it_stands_in_the_table(self, imitation):
        expert = expert_figures(imitation, seeds=2)
        table = control_table(imitation, [], expert)
        assert table.select("case", "seed", "seconds").rows() == [("the expert", 0, None), ("the expert", 1, None)]
        first, second = entropies = table["state entropy (nats)"].to_list()
        assert entropies == pytest.approx([figures["state entropy (nats)"].mean for figures in expert], rel=1e-5)
        assert first != second

    def test_other_studies_have_none(self):
        assert expert_figures(STUDIES["cartpole"], seeds=3) == []
