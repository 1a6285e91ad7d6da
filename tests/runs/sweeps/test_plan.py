"""What a description means, counted by hand, and what is refused, all at once."""

import re

import pytest

from constrained_maxent.agents import PGPSettings
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.runs import RunFolder, SweepPlan, TrainSettings

GRID = "FrozenLake-PGP-v0"


def names(**content):
    return [run.name for run in SweepPlan.of({"environment": GRID} | content).runs]


class TestProducts:
    def test_seeds(self):
        assert names() == ["seed=0"]
        assert names(seeds=3) == ["seed=0", "seed=1", "seed=2"]
        assert names(seeds=[7, 3]) == ["seed=7", "seed=3"]

    def test_a_grid_is_all_combinations(self):
        """2 × 3 × 2 seeds."""
        found = names(seeds=2, grid={"beta": [0.1, 1.0], "learning_rate": [1e-3, 0.01, 1]})
        assert len(found) == len(set(found)) == 12
        assert found[0] == "beta=0.1,learning_rate=0.001,seed=0"
        assert found[-1] == "beta=1.0,learning_rate=1,seed=1"

    def test_tables_go_together_and_each_meets_the_grid(self):
        """2 tables × 2 limits, one seed."""
        tables = [{"optimizer": "sgd", "learning_rate": 0.1}, {"optimizer": "natural"}]
        plan = SweepPlan.of({"environment": GRID, "list": tables, "grid": {"limit": [0.0, 2.0]}})
        found = {
            (run.settings.limit, run.settings.agent.optimizer, run.settings.agent.learning_rate) for run in plan.runs
        }
        assert found == {(0.0, "sgd", 0.1), (2.0, "sgd", 0.1), (0.0, "natural", None), (2.0, "natural", None)}

    def test_environments_and_agents_vary_like_settings(self):
        assert names(environment=[GRID, "SafeCartpole-PGP-v0"], agent=["pgp"]) == [
            "FrozenLake-PGP-v0,pgp,seed=0",
            "SafeCartpole-PGP-v0,pgp,seed=0",
        ]

    def test_what_all_share_is_in_no_name_and_a_larger_grid_keeps_the_names(self):
        few = names(settings={"iterations": 5}, grid={"beta": [0.1]})
        assert few == ["beta=0.1,seed=0"]
        assert set(few) < set(names(settings={"iterations": 5}, grid={"beta": [0.1, 0.2]}, seeds=4))

    def test_the_settings_are_those_of_train(self):
        settings = {
            "iterations": 5,
            "beta": 0.2,
            "learning_rate": 0.1,
            "hidden_sizes": [8, 8],
            "env_kwargs": {"hole_cost": 2},
        }
        (run,) = SweepPlan.of({"environment": GRID, "seeds": [4], "settings": settings}).runs
        agent = PGPSettings(learning_rate=0.1, hidden_sizes=(8, 8))
        given = {"iterations": 5, "beta": 0.2, "env_kwargs": '{"hole_cost": 2}', "num_envs": 16}
        assert run.settings == TrainSettings(seed=4, agent=agent, **given)
        assert run.config() == {"env_id": GRID, "settings": run.settings.to_json()}

    def test_one_of_several_needs_no_brackets(self):
        (planned,) = SweepPlan.of({"environment": "Pendulum-v1", "settings": {"state": "angle", "cells": 12}}).runs
        assert (planned.settings.state, planned.settings.cells) == (("angle",), (12,))

    def test_names_are_names_of_files(self):
        penalties = [{"kind": "Lagrangian", "learning_rate": 10.0**-i} for i in range(2)]
        found = names(grid={"penalty": penalties})
        assert len(set(found)) == 2
        assert all(re.fullmatch(r"[\w.,=+-]{1,80}", name) for name in found)

    def test_of_train_over_seeds(self):
        plan = SweepPlan.over_seeds(GRID, TrainSettings(iterations=3, seed=5), 2)
        assert [(run.name, run.settings.seed) for run in plan.runs] == [("seed=0", 0), ("seed=1", 1)]


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ({"seed": 3}, "the seeds stand beside environment"),
            ({"sedes": 3}, "sedes: .* did you mean seeds"),
            ({"settings": {"learning_rat": 1}}, "learning_rat: .* of pgp, did you mean learning_rate?"),
            ({"settings": {"pairing": "sam"}}, "pairing = 'sam' must be one of split, same, previous"),
            ({"settings": {"beta": "high"}}, "beta='high' must be a number"),
            ({"settings": {"beta": 1.0}, "grid": {"beta": [1.0]}}, "beta: given twice"),
            ({"grid": {"beta": 1.0}}, "beta = 1.0 varies"),
            ({"grid": {"beta": []}}, "at least one value"),
            ({"list": {"beta": 1.0}}, r"\[\[list\]\]"),
            ({"seeds": 0}, "seeds=0"),
            ({"seeds": [1, 1]}, "twice: seed=1"),
            ({"environment": "FrozenLak-PGP-v0"}, "There is no environment"),
            ({"environment": []}, "environment = "),
            ({"settings": {"record": "lake/x-v0"}}, "record: a data set is of one training"),
            ({"settings": {"periodic": 0.5}}, "periodic=0.5 must be a list"),
            ({"settings": {"penalty": 1}}, "penalty=1 must be a JSON object"),
            ({"settings": {"cost": 3}}, "cost=3 must be text"),
            ({"agent": "sb3.DQN"}, "there are pgp, sb3.PPO"),
            ({"agent": "sb3.PPO", "settings": {"optimizer": "natural"}}, "optimizer: .* of sb3.PPO"),
            ({"agent": "sb3.PPO", "settings": {"pairing": "same"}}, "live rewards"),
        ],
    )
    def test_by_name(self, content, words):
        with pytest.raises(InvalidSetting, match=words):
            names(**content)

    def test_a_record_over_seeds(self):
        """Runs that share a data set would destroy each other's."""
        with pytest.raises(InvalidSetting, match="record: a data set is of one training"):
            SweepPlan.over_seeds(GRID, TrainSettings(record="lake/x-v0"), 2)

    def test_all_at_once(self):
        with pytest.raises(InvalidSetting) as raised:
            names(seeds=-1, settings={"nothing": 1}, grid={"pairing": ["same", "sam"], "limit": 2})
        told = str(raised.value)
        assert all(word in told for word in ("seeds=-1", "nothing", "'sam'", "limit = 2 varies"))

    def test_what_is_no_toml(self, tmp_path):
        (tmp_path / "plan.toml").write_text("seeds = ")
        with pytest.raises(InvalidSetting, match="is not TOML"):
            SweepPlan.read(tmp_path / "plan.toml")

    def test_a_folder_of_other_settings(self, tmp_path, run):
        run("there", beta=0.1)
        (planned,) = SweepPlan.of({"environment": GRID, "settings": {"beta": 0.2, "iterations": 12}}).runs
        with pytest.raises(InvalidRun, match=r"beta is 0.1 there, and 0.2 is asked for"):
            planned.require_same(RunFolder(tmp_path / "there"))
