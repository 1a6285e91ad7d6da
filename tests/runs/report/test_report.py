"""What reports of runs and sweeps say, and that it is what the folders hold."""

import html
import json
import re
import shutil

import pytest

from constrained_maxent.errors import InvalidRun, InvalidSetting, UnplannedRun
from constrained_maxent.runs import RunFolder, resume, write_report
from constrained_maxent.runs.report import looks


def words(path):
    """The text of a page, without marks and images."""
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(text).split())


@pytest.fixture
def copied(reports, tmp_path, monkeypatch):
    """A copy of a run's folder, to be changed; films are short."""
    monkeypatch.setattr(looks, "FILM_SECONDS", 0.2)

    def copy(name):
        shutil.copytree(getattr(reports, name).path, tmp_path / name)
        return RunFolder(tmp_path / name)

    return copy


class TestOneRun:
    def test_the_lake(self, reports):
        text, summary = words(reports.pages["lake"]), reports.lake.read_summary()
        evaluation = json.loads(reports.lake.evaluation_path.read_text())
        assert text.startswith("FrozenLake-PGP-v0 FrozenLake- PGP- v0 PGP, seed 3, 30 iterations")
        # The problem of the paper's grid: entropy, no cost at all, γ = 0.99 over 25 steps.
        assert "maximize H ( λ ) entropy (nats) subject to ⟨cost, λ ⟩ ≤ 0 cost [per episode]" in text
        assert "a table of 36 states × 4 actions; γ = 0.99, horizon 25 steps, scale truncated" in text
        exact, certificate = summary["exact"], summary["certificate"]
        assert f"entropy (nats), exact {exact['objective']:.4f}" in text
        assert f"below the optimum by {certificate['gap']:.4f} of {certificate['optimum']:.4f}" in text
        low, high = (evaluation["rollouts"]["objective"][bound] for bound in ("low", "high"))
        assert f"[{low:.4f}, {high:.4f}]" in text
        assert "100 fresh episodes of the policy of iteration 30, rolled out for this report." in text
        assert f"cost 0 {exact['constraints']['cost']:.4f} none exact broken" in text
        assert "cmaxent train FrozenLake-PGP-v0 --iterations 30 --seed 3" in text
        assert f"numpy {summary['versions']['numpy']}" in text
        assert "The training gave none." in text

    def test_the_cartpole_has_no_certificate_and_says_why(self, reports):
        text = words(reports.pages["cartpole"])
        assert "Certificate There is none. It takes a tabular policy" in text
        assert "state entropy (nats)" in text
        assert "0.5 seconds of a fresh episode at true speed" in text
        assert (
            "cmaxent train SafeCartpole-PGP-v0 --iterations 2 --num-envs 4 --steps-per-batch 200 "
            """--env-kwargs '{"time_limit": 0.5}' --hidden-sizes 8 """
        ) in text

    def test_needs_nothing_else(self, reports):
        for page in reports.pages.values():
            text = page.read_text(encoding="utf-8")
            assert not re.search(r"""(src|href|srcset|poster)="(?!data:)|url\(|@import|<script|<link""", text)
            assert page.stat().st_size < 4_000_000

    def test_what_lacks_is_named(self, copied):
        folder = copied("lake")
        for path in (folder.checkpoint_path, folder.summary_path, folder.evaluation_path, folder.metrics_path):
            path.unlink()
        text = words(write_report(folder.path))
        assert "no summary: not ended, or killed" in text
        assert text.count("There is no checkpoint, as the run ended before its first one") == 3
        # The problem is known all the same.
        assert "subject to ⟨cost, λ ⟩ ≤ 0" in text

    def test_of_a_third_party(self, copied):
        folder = copied("lake")
        config = folder.read_config()
        config |= {"agent": "sb3.PPO", "settings": {"seed": 3, "n_steps": 512}}
        folder.write_json(folder.config_path, config)
        folder.checkpoint_path.unlink()
        folder.evaluation_path.unlink()
        folder.write_json(folder.summary_path, {"status": "finished", "iterations": 30, "estimate": None})
        text = words(write_report(folder.path))
        assert "sb3.PPO, seed 3, 30 iterations, finished" in text
        assert "Of sb3.PPO the run folder holds no policy that reports read: it was not evaluated." in text
        assert "The problem is not known" in text
        assert "n steps 512" in text
        assert "Not known: when this run was trained, warnings were not kept." in text
        assert "cmaxent train" not in text

    def test_words_of_anybody_stay_words_and_a_film_that_fails_is_no_failure(self, copied, monkeypatch):
        def fails(*args, **kwargs):
            raise ZeroDivisionError("no screen")

        monkeypatch.setattr(looks, "record_video", fails)
        folder = copied("lake")
        message = "<script>alert(1)</script> & more"
        warned = {"category": "HorizonMismatch", "message": message, "iteration": 7}
        folder.write_json(folder.summary_path, {**folder.read_summary(), "warnings": [warned]})
        page = write_report(folder.path)
        assert "<script" not in page.read_text()
        # Marks are taken out of what is read here, and were none.
        text = html.unescape(page.read_text())
        assert f'<strong>HorizonMismatch</strong> <span class="quiet">after iteration 7</span><br>{message}' in text
        assert "No film. ZeroDivisionError: no screen" in words(page)

    def test_went_on_past_its_plan(self, copied):
        """Schedules ended at iteration 30; one command would plan them for all 40."""
        folder = copied("lake")
        stale = folder.evaluation_path.read_text()
        with pytest.warns(UnplannedRun, match="goes on past its planned end") as warned:
            resume(folder, iterations=40)
        folder.evaluation_path.write_text(stale)  # as of somebody who evaluated while it trained
        text = words(write_report(folder.path))
        assert "100 fresh episodes of the policy of iteration 40, rolled out for this report." in text
        assert f"UnplannedRun after iteration 30 {warned[0].message}" in text
        assert "Certificate There is none. The convex program has" in text  # larger than what is quickly solved
        assert (
            "cmaxent train FrozenLake-PGP-v0 --iterations 30 --seed 3 "
            "cmaxent train --resume runs/FrozenLake-PGP-v0-seed3 --iterations 40"
        ) in text


class TestASweep:
    def test_methods_runs_and_failures(self, reports):
        text = words(reports.pages["sweep"])
        summaries = {path.parent.name: json.loads(path.read_text()) for path in reports.sweep.glob("*/summary.json")}
        values = {name: summary["exact"]["objective"] for name, summary in summaries.items()}
        first, second, strict = values["usual-3"], values["usual-4"], values["strict <3>"]
        assert f"iterations=30, beta=unset 2 {(first + second) / 2:.4f} " in text
        assert f"iterations=20, beta=0.5 1 {strict:.4f} " in text
        assert "Values: exact values of the last policies." in text
        assert "1 run failed and is missing (strict-4)" in text
        assert f"3 strict <3> {strict:.4f}" in text
        assert "strict-4: MemoryError: <too much>" in text
        assert "methods 2 runs 3 3 ended" in text

    def test_without_a_run(self, tmp_path):
        (tmp_path / "sweep.json").write_text("{}")
        with pytest.raises(InvalidRun, match="holds no run yet"):
            write_report(tmp_path)

    def test_a_damaged_failure(self, tmp_path):
        (tmp_path / "failures").mkdir()
        (tmp_path / "failures" / "a.json").write_text("[]")
        (tmp_path / "sweep.json").write_text("{}")
        with pytest.raises(InvalidRun, match=r"a\.json is damaged"):
            write_report(tmp_path)


class TestRefusals:
    def test_no_run(self, tmp_path):
        with pytest.raises(InvalidRun, match=r"neither config\.json nor sweep\.json"):
            write_report(tmp_path)
        assert not list(tmp_path.iterdir())

    def test_another_ending(self, reports, tmp_path):
        with pytest.raises(InvalidSetting, match=r"must end in \.html"):
            write_report(reports.lake.path, tmp_path / "page.pdf")

    def test_a_damaged_evaluation(self, copied):
        folder = copied("lake")
        folder.evaluation_path.write_text('{"iteration": 30, "rollouts": {}}')
        with pytest.raises(InvalidRun, match=r"evaluation\.json is damaged"):
            write_report(folder.path)
