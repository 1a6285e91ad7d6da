"""``cmaxent reproduce`` at smoke scale."""

from pathlib import Path

from constrained_maxent.cli import reproduce


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
    assert header.startswith("study,method,episodes_per_batch,learning_rate,beta,dual_rate,limit,seeds,entropy")
    assert len(lines) == 4


def test_sweeps_and_robustness_are_drawn(cmaxent):
    code, _, err = cmaxent("reproduce", "grid", "--only", "robustness", "unconstrained", "--scale", "smoke", "--quiet")
    assert (code, err) == (0, "")
    figures = {path.name for path in Path("runs/grid-smoke").glob("*.png")}
    assert figures == {"robustness.png", "unconstrained-entropy.png", "unconstrained-cost.png"}


def test_ctrl_c_says_how_to_go_on(cmaxent, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run_study", interrupted)
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
