"""``cmaxent sweep`` and ``cmaxent train --seeds``: what they say, and with which code they end."""

import pytest

from constrained_maxent.runs import RunFolder

GRID = "FrozenLake-PGP-v0"

PLAN = """
environment = "FrozenLake-PGP-v0"
seeds = 2

[settings]
iterations = 3

[grid]
limit = [0.0, 5.0]
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def test_a_sweep(cmaxent, plan, sweeps_here):
    """Objective and constraint are the exact ones of summary.json."""
    code, out, err = cmaxent("sweep", plan)
    assert (code, err) == (0, "")
    assert len(sweeps_here) == 4
    assert "4 finished" in out
    assert "tensorboard --logdir runs/plan" in out
    summary = RunFolder("runs/plan/limit=5.0,seed=1").read_summary()
    (line,) = [line for line in out.splitlines() if "limit=5.0,seed=1" in line]
    exact = summary["exact"]
    assert [cell.strip() for cell in line.strip("│").split("│")] == [
        "limit=5.0,seed=1",
        "finished",
        "3/3",
        f"{exact['objective']:.4f}",
        f"{exact['constraints']['cost']:.4f}",
    ]
    code, again, _ = cmaxent("sweep", plan, "--quiet")
    assert (code, again, len(sweeps_here)) == (0, out, 4)


def test_failures_are_listed(cmaxent, plan, sweeps_here):
    plan.write_text(
        PLAN.replace("[0.0, 5.0]", "[0.0]") + 'pairing = ["same", "split"]\nepisodes_per_batch = [1]\nnum_envs = [1]'
    )
    code, out, err = cmaxent("sweep", plan, "--quiet")
    assert (code, err) == (1, "")
    assert "2 failed, 2 finished" in out
    assert "pairing=split,episodes_per_batch=1,num_envs=1,seed=0: InvalidSetting:" in " ".join(out.split())
    assert "runs/plan/failures" in out


def test_of_compiled_runs_the_table_says_so(cmaxent, plan, sweeps_here):
    code, out, err = cmaxent("sweep", plan, "--compiled", "--out", "compiled", "--quiet")
    assert (code, err) == (0, "")
    assert "other random numbers than PGP's, and no checkpoints" in " ".join(out.split())
    code, _, err = cmaxent("evaluate", "compiled/limit=0.0,seed=0")
    assert code == 2
    assert "keeps no agent" in err


def test_train_over_seeds(cmaxent, sweeps_here):
    code, out, err = cmaxent("train", GRID, "--iterations", 3, "--seeds", 2, "--quiet")
    assert (code, err) == (0, "")
    assert sweeps_here == ["seed=0", "seed=1"]
    assert RunFolder("runs/FrozenLake-PGP-v0-seeds/seed=1").read_summary()["seed"] == 1
    assert "2 finished" in out


@pytest.mark.parametrize("other", [("--seed", 3), ("--resume", "runs/one"), ("--overwrite",)])
def test_seeds_are_refused_beside(cmaxent, other):
    code, _, err = cmaxent("train", GRID, "--seeds", 2, *other)
    assert code == 2
    assert f"leave out {other[0]}" in err


def test_what_makes_no_sense_is_told_before_anything_begins(cmaxent, plan, tmp_path):
    plan.write_text(PLAN + "\nlimt = [1]\n")
    code, _, err = cmaxent("sweep", plan)
    assert code == 2
    assert "plan.toml makes no sense" in err
    assert "limt: there is no such setting of pgp, did you mean limit?" in " ".join(err.split())
    assert not (tmp_path / "runs").exists()
    assert cmaxent("sweep", tmp_path / "none.toml")[0] == 2
