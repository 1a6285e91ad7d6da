"""``cmaxent reproduce`` at smoke scale."""

from pathlib import Path

from constrained_maxent.cli import reproduce_grid


def test_writes_tables_and_figures_and_judges_claims(cmaxent):
    code, out, err = cmaxent(
        "reproduce", "grid", "--only", "fig1", "norm", "--scale", "smoke", "--out", "new", "--quiet"
    )
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert "PGP's entropy is slightly below the unconstrained one" in words
    assert "entropy increases with b" in words
    for name in ("fig1", "norm"):
        for ending in (".csv", "-summary.csv", ".json", ".png"):
            assert Path(f"new/{name}{ending}").stat().st_size > 100
    assert not Path("new/ablation.csv").exists()
    header, *lines = Path("new/norm-summary.csv").read_text().splitlines()
    assert header.startswith(
        "study,method,episodes_per_batch,learning_rate,beta,dual_rate,momentum,limit,seeds,entropy"
    )
    assert len(lines) == 4


def test_sweeps_and_robustness_are_drawn(cmaxent):
    code, _, err = cmaxent("reproduce", "grid", "--only", "robustness", "unconstrained", "--scale", "smoke", "--quiet")
    assert (code, err) == (0, "")
    figures = {path.name for path in Path("runs/grid-smoke").glob("*.png")}
    assert figures == {"robustness.png", "unconstrained-entropy.png", "unconstrained-cost.png"}


def test_methods_are_compared_and_policies_drawn(cmaxent):
    arguments = ("--scale", "smoke", "--quiet", "--out", "new")
    code, out, err = cmaxent("reproduce", "grid", "--only", "methods", "policies", *arguments)
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert "transitions until all seeds are, and stay, within" in words
    assert "Of entropy 34.5415, and of the unconstrained cost 123.87" in words
    assert "a mixture of" in words
    header, *lines = Path("new/methods-reach.csv").read_text().splitlines()
    assert header == "method,share,transitions"
    assert len(lines) == 18
    figures = {path.name for path in Path("new").glob("*.png")}
    policies = {f"policies-{name}.png" for name in ("pgp", "unconstrained", "primal-dual", "natural-schedules")}
    assert figures == {"methods.png", *policies}
    Path("new/policies-policies.npy").write_bytes(b"damaged")
    code, _, err = cmaxent("reproduce", "grid", "--only", "policies", *arguments)
    assert code == 2
    assert "policies-policies.npy is missing or damaged" in err


def test_ctrl_c_says_how_to_go_on(cmaxent, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce_grid, "run_study", interrupted)
    code, out, _ = cmaxent("reproduce", "grid", "--scale", "smoke", "--quiet")
    assert code == 130
    assert "goes on from here" in out


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
    monkeypatch.setattr("constrained_maxent.experiments.control_study.EPISODES", 2)
    code, out, _ = cmaxent(
        "reproduce",
        "control",
        "--only",
        "point-mass",
        "--seeds",
        1,
        "--iterations",
        1,
        "--out",
        tmp_path,
        "--workers",
        1,
    )
    assert code == 0
    assert "r_max = 20" in " ".join(out.split())
    assert (tmp_path / "point-mass.csv").exists()
    assert (tmp_path / "point-mass.png").exists()
