"""Which runs are of one method, what methods are called, and what is refused: folders written by hand."""

import json

import pytest

from constrained_maxent.errors import InvalidRun
from constrained_maxent.runs.comparing.methods import by_method, read_runs
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.tasks.presets import PRESETS

LAKE = "FrozenLake-PGP-v0"


@pytest.fixture
def grouped(tmp_path):
    """Names of the runs by environment and method, and the notes."""

    def read(*names):
        runs, notes = read_runs([tmp_path / name for name in names])
        groups, more = by_method(runs)
        found = {
            env_id: {label: [run.path.name for run in group] for label, group in methods.items()}
            for env_id, methods in groups.items()
        }
        return found, notes + more

    return read


class TestLabels:
    def test_settings_that_differ(self, write_run, grouped):
        for name, seed, beta in (("a", 1, 0.01), ("b", 0, 0.01), ("c", 0, None), ("d", 0, 0.1)):
            settings = {"beta": beta, "log_every": seed + 1, "record": f"lake/{name}-v0"}
            write_run(name, seed=seed, settings=settings)
        assert grouped("a", "b", "c", "d") == (
            {LAKE: {"beta=0.01": ["b", "a"], "beta=unset": ["c"], "beta=0.1": ["d"]}},
            [],
        )

    def test_settings_of_the_agent_and_objects(self, write_run, grouped):
        penalty = '{"kind": "Lagrangian", "learning_rate": 0.001}'
        write_run("a", settings={"penalty": penalty, "agent": {}})
        write_run("b", seed=1, settings={"penalty": penalty.replace(" ", ""), "agent": {"epochs": 2}})
        write_run("c", settings={"penalty": penalty.replace("0.001", "0.1"), "agent": {"epochs": 2}})
        assert list(grouped("a", "b", "c")[0][LAKE]) == [
            "penalty=Lagrangian(learning_rate=0.001), epochs=unset",
            "penalty=Lagrangian(learning_rate=0.001), epochs=2",
            "penalty=Lagrangian(learning_rate=0.1), epochs=2",
        ]

    def test_one_method_is_called_by_its_agent(self, write_run, grouped):
        for seed in (0, 1):
            write_run(f"ours{seed}", seed=seed)
        assert grouped("ours0", "ours1")[0] == {LAKE: {"PGP": ["ours0", "ours1"]}}

    def test_agents(self, write_run, grouped):
        write_run("a", settings={"beta": 0.1})
        write_run("b", settings={"beta": 0.2})
        write_run("c", agent="sb3.PPO", settings={"n_steps": 64})
        assert list(grouped("a", "b", "c")[0][LAKE]) == ["PGP, beta=0.1", "PGP, beta=0.2", "sb3.PPO"]

    def test_across_environments_what_differs_between_them_is_no_name(self, write_run, grouped):
        for env_id, iterations in ((LAKE, 100), ("Lake-v9", 60)):
            for beta in (0.1, 0.2):
                write_run(f"{env_id}{beta}", env_id=env_id, settings={"beta": beta, "iterations": iterations})
        write_run("more", env_id="Lake-v9", settings={"beta": 0.3, "iterations": 60})
        found, notes = grouped(f"{LAKE}0.1", f"{LAKE}0.2", "Lake-v90.1", "Lake-v90.2", "more")
        assert {env_id: list(methods) for env_id, methods in found.items()} == {
            LAKE: ["beta=0.1", "beta=0.2"],
            "Lake-v9": ["beta=0.1", "beta=0.2", "beta=0.3"],
        }
        assert notes == [f"{LAKE} has no runs of beta=0.3.", "Between environments PGP also differs in iterations."]


class TestSweeps:
    def test_its_runs_and_what_failed(self, tmp_path, write_run, grouped):
        for seed in (0, 1):
            write_run(f"sweep/seed{seed}", seed=seed)
        (tmp_path / "sweep" / "sweep.json").write_text("{}")
        (tmp_path / "sweep" / "failures").mkdir()
        (tmp_path / "sweep" / "failures" / "seed2.json").write_text(json.dumps({"reason": "no"}))
        # What is named twice counts once.
        found, notes = grouped("sweep/seed1", "sweep", "sweep/../sweep/seed0")
        assert found == {LAKE: {"PGP": ["seed0", "seed1"]}}
        (note,) = notes
        assert "1 run failed and is missing (seed2)" in note

    def test_without_runs(self, tmp_path):
        (tmp_path / "sweep.json").write_text("{}")
        with pytest.raises(InvalidRun, match="holds no run"):
            read_runs([tmp_path])


class TestRefusals:
    def test_nothing(self, tmp_path):
        with pytest.raises(InvalidRun, match="Nothing to compare"):
            read_runs([])
        with pytest.raises(InvalidRun, match="not a run folder"):
            read_runs([tmp_path])

    def test_the_same_run_twice(self, write_run, grouped):
        write_run("a")
        write_run("b", settings={"checkpoint_every": 7})
        with pytest.raises(InvalidRun, match=r"a and .*b are the same run twice: .*PGP, seed 0"):
            grouped("a", "b")

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"limit": 0.5}, "limit=0.0"),
            ({"env_kwargs": '{"map_name": "8x8"}'}, "map_name"),
            ({"objective": "mine:F"}, "objective=mine:F"),
            ({"discount": 0.9}, "discount=0.99"),
        ],
    )
    def test_different_problems(self, write_run, grouped, settings, words):
        write_run("a")
        write_run("b", seed=1, settings=settings)
        with pytest.raises(InvalidRun, match="different problems") as raised:
            grouped("a", "b")
        assert words in str(raised.value)

    def test_settings_that_say_what_is_the_default(self, write_run, grouped):
        write_run("a")
        write_run("b", settings={"discount": 0.99, "scale": "truncated", "preset": "paper"})
        assert len(grouped("a", "b")[0][LAKE]) == 2

    @pytest.mark.parametrize("config", [{"env_id": 3}, {"env_id": "a", "settings": {}}, {"settings": {"seed": 0}}])
    def test_configs_that_make_no_sense(self, tmp_path, config):
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(InvalidRun, match=r"config\.json must have"):
            read_runs([tmp_path])


def test_presets_of_an_id_are_of_one_problem():
    """So that runs of its presets compare: what else a preset says is how it is learnt."""
    for presets in PRESETS.values():
        assert len({(preset.limit, preset.discount, preset.scale, preset.over) for preset in presets.values()}) == 1


def test_compiled_runs_are_a_method_of_their_own(tmp_path, write_run):
    """They draw other random numbers: the same seed is another sample."""
    for name in ("ours", "compiled"):
        write_run(name)
    folder = RunFolder(tmp_path / "compiled")
    folder.write_json(folder.config_path, {**folder.read_config(), "compiled": True})
    groups, _ = by_method(read_runs([tmp_path / "ours", tmp_path / "compiled"])[0])
    assert [*groups[LAKE]] == ["PGP", "PGP, compiled"]


def test_what_a_sweep_has_not_begun_is_told(tmp_path, write_run):
    write_run("seed=0")
    (tmp_path / "sweep.json").write_text(json.dumps({"token": "", "runs": {"seed=0": {}, "seed=1": {}}}))
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "seed=0.json").write_text("{}")  # it has been finished since
    runs, notes = read_runs([tmp_path])
    assert len(runs) == 1
    assert notes == [f"Of the sweep {tmp_path} these have not begun: seed=1."]
