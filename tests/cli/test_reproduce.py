"""``cmaxent reproduce`` at smoke scale."""

import csv
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from constrained_maxent.cli import studies as commands
from constrained_maxent.reproduction import control
from constrained_maxent.reproduction.grid import figures, run, studies


def test_writes_tables_and_figures(cmaxent):
    code, out, err = cmaxent(
        "reproduce", "grid", "--only", "fig1", "norm", "--scale", "smoke", "--out", "new", "--quiet"
    )
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    # Two runs of 60 iterations say nothing about the paper.
    assert "Runs of 60 iterations are no evidence for or against a claim" in words
    assert "not judged: PGP's entropy is slightly below the unconstrained one" in words
    assert "not judged: entropy increases with b" in words
    assert "HOLD" not in words
    for name in ("fig1", "norm"):
        for ending in (".csv", "-summary.csv", "-claims.csv", ".json", ".png"):
            assert Path(f"new/{name}{ending}").stat().st_size > 100
        for table in (name, f"{name}-summary", f"{name}-claims"):
            with Path(f"new/{table}.csv").open(newline="", encoding="utf-8") as file:
                header, *lines = csv.reader(file)
            beside = pl.read_parquet(f"new/{table}.parquet")
            assert (beside.columns, beside.height) == (header, len(lines))
    assert not Path("new/ablation.csv").exists()
    header, *lines = Path("new/norm-summary.csv").read_text().splitlines()
    assert header.startswith(
        "study,method,episodes_per_batch,learning_rate,beta,dual_rate,momentum,limit,seeds,entropy"
    )
    assert len(lines) == 4


def test_claims_are_judged_at_paper_scale(cmaxent, monkeypatch):
    monkeypatch.setitem(studies.EFFORTS, "paper", (10, 2))
    monkeypatch.setattr(figures, "stationary_optimum", lambda *_, **__: 34.5)  # seconds
    assert cmaxent("reproduce", "grid", "--only", "defaults", "--out", "new", "--quiet")[0] == 0
    with Path("new/defaults-claims.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    # 10 iterations are not enough.
    assert [(line["study"], line["scale"], line["holds"]) for line in lines] == [("defaults", "paper", "no")] * 2
    assert lines[1]["claim"] == "cost at most 0.05 in every seed"


@pytest.mark.parametrize("study", ["grid", "control"])
def test_without_polars_the_extra_is_named(cmaxent, monkeypatch, study):
    monkeypatch.setitem(sys.modules, "polars", None)
    code, _, err = cmaxent("reproduce", study, "--out", "new")
    assert code == 2
    assert 'pip install "constrained-maxent[studies]"' in err
    assert not Path("new").exists()


def test_sweeps_and_robustness_are_drawn(cmaxent):
    code, _, err = cmaxent("reproduce", "grid", "--only", "robustness", "unconstrained", "--scale", "smoke", "--quiet")
    assert (code, err) == (0, "")
    drawn = {path.name for path in Path("runs/grid-smoke").glob("*.png")}
    assert drawn == {"robustness.png", "unconstrained-entropy.png", "unconstrained-cost.png"}


def test_methods_are_compared_and_policies_drawn(cmaxent, monkeypatch):
    arguments = ("--scale", "smoke", "--quiet", "--out", "new")
    code, out, err = cmaxent("reproduce", "grid", "--only", "methods", "methods-short", "policies", *arguments)
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert "transitions until all seeds are, and stay, within" in words
    assert "Of entropy 34.5415, and of the unconstrained cost 123.87" in words
    assert "never" in words
    assert "inf" not in words
    assert "a mixture of" in words
    assert "late std" in words
    assert "nan" not in words
    for name, n_methods in (("methods", 8), ("methods-short", 1)):
        header, *lines = Path(f"new/{name}-reach.csv").read_text().splitlines()
        assert header == "method,share,transitions"
        assert len(lines) == 2 * n_methods
    drawn = {path.name for path in Path("new").glob("*.png")}
    policies = {f"policies-{name}.png" for name in ("pgp", "unconstrained", "primal-dual", "natural-schedules")}
    assert drawn == {"methods.png", "methods-short.png", *policies}
    with Path("new/methods-frank-wolfe.csv").open() as file:
        assert [line["iterations"] for line in csv.DictReader(file)] == ["1", "3", "7", "15", "30", "60"]
    # Done again, nothing is computed that is there.
    monkeypatch.setattr(run, "frank_wolfe", None)
    assert cmaxent("reproduce", "grid", "--only", "methods", *arguments)[0] == 0
    Path("new/policies-policies.npy").write_bytes(b"damaged")
    code, _, err = cmaxent("reproduce", "grid", "--only", "policies", *arguments)
    assert code == 2
    assert "policies-policies.npy is missing or damaged" in err


def test_conventions_are_judged_side_by_side(cmaxent, monkeypatch):
    monkeypatch.setitem(studies.EFFORTS, "smoke", (5, 2))
    code, out, err = cmaxent(
        "reproduce", "grid", "--only", "conventions", "--scale", "smoke", "--out", "new", "--quiet"
    )
    assert (code, err) == (0, "")
    alone = ["cost_on_entering", "larger_base_cost", "half_beta", "linear_layer", "tiny_smoothing"]
    cases = ["text", *alone, "both_costs", "authors", "printed_signs"]
    assert [line[:-1] for line in out.splitlines() if line[:-1] in cases] == cases
    assert "HOLD" not in out
    for table in ("summary", "claims"):
        lines = pl.read_csv(f"new/conventions/{table}.csv")
        assert lines["conventions"].unique(maintain_order=True).to_list() == cases
    assert set(lines["holds"]) == {"no evidence"}
    assert Path("new/conventions/fig1.png").stat().st_size > 100
    assert Path("new/conventions/authors/relaxed.csv").exists()


def test_ctrl_c_says_how_to_go_on(cmaxent, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run_study", interrupted)
    code, out, _ = cmaxent("reproduce", "grid", "--scale", "smoke", "--quiet")
    assert code == 130
    assert "goes on from here" in out


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals here")
def test_sigterm_keeps_what_is_trained():
    """What schedulers send; the study would take minutes."""
    command = [sys.executable, "-m", "constrained_maxent.cli", "reproduce", "grid", "--only", "ablation"]
    process = subprocess.Popen(
        [*command, "--out", "new", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    checkpoint = Path("new/ablation.partial.npz")
    deadline = time.monotonic() + 120.0
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted. The same command goes on from here." in out
    with np.load(checkpoint) as state:
        assert 0 < state["counters"][:, 0].min() < 15_000
    assert [path.name for path in Path("new").iterdir()] == ["ablation.partial.npz"]


@pytest.mark.parametrize("study", ["grid", "control"])
@pytest.mark.parametrize("place", ["afile", "afile/below"])
def test_a_file_is_no_folder(cmaxent, study, place):
    Path("afile").write_text("mine")
    code, _, err = cmaxent("reproduce", study, "--out", place)
    assert (code, err) == (2, "cmaxent: afile is a file: give --out a folder.\n")
    assert Path("afile").read_text() == "mine"


def test_results_of_another_scale_are_left_alone(cmaxent):
    assert cmaxent("reproduce", "grid", "--only", "norm", "--scale", "smoke", "--out", "new", "--quiet")[0] == 0
    before = Path("new/norm.csv").read_bytes()
    code, _, err = cmaxent("reproduce", "grid", "--only", "norm", "--scale", "paper", "--out", "new", "--quiet")
    assert code == 2
    assert "another --out" in err
    assert Path("new/norm.csv").read_bytes() == before


def test_unknown_study(cmaxent):
    assert cmaxent("reproduce", "grid", "--only", "fig2")[0] == 2


def test_control(tmp_path, cmaxent, monkeypatch):
    monkeypatch.setattr(control, "EPISODES", 2)
    arguments = ("--seeds", 1, "--iterations", 1, "--out", tmp_path, "--workers", 1)
    code, out, _ = cmaxent("reproduce", "control", "--only", "point-mass", *arguments)
    assert code == 0
    assert "r_max" in out
    assert (tmp_path / "point-mass.csv").exists()
    assert (tmp_path / "point-mass.png").exists()


@pytest.mark.parametrize("python", ["nowhere/python", sys.executable])
def test_without_d3rlpy_its_environment_is_named(cmaxent, python):
    code, _, err = cmaxent("reproduce", "explore-then-learn", "--python", python, "--out", "new")
    assert code == 2
    words = " ".join(err.split())
    assert "is no Python with d3rlpy" in words
    assert "d3rlpy-venv/bin/pip install d3rlpy==2.8.1" in words
    assert not any(Path("new").glob("*/*"))
