"""Reports of short runs: a lake's, with its certificate, a cartpole's, and a sweep of lakes."""

import json
import shutil
from types import SimpleNamespace

import pytest

from constrained_maxent.agents import PGPSettings
from constrained_maxent.runs import RunFolder, TrainSettings, train, write_report
from constrained_maxent.runs.report import looks

LAKE, CARTPOLE = "FrozenLake-PGP-v0", "SafeCartpole-PGP-v0"


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Folders of runs and of a sweep, and their pages."""
    place = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looks, "FILM_SECONDS", 0.5)
        lake = train(LAKE, TrainSettings(iterations=30, seed=3), RunFolder(place / "lake")).folder
        short = TrainSettings(
            iterations=2,
            num_envs=4,
            steps_per_batch=200,
            env_kwargs='{"time_limit": 0.5}',
            agent=PGPSettings(hidden_sizes=(8,)),
        )
        cartpole = train(CARTPOLE, short, RunFolder(place / "cartpole")).folder
        sweep = place / "sweep"
        shutil.copytree(lake.path, sweep / "usual-3")
        for name, seed, beta in (("usual-4", 4, None), ("strict <3>", 3, 0.5)):
            train(LAKE, TrainSettings(iterations=20, seed=seed, beta=beta), RunFolder(sweep / name))
        config = json.loads((sweep / "usual-4" / "config.json").read_text())
        config["settings"]["iterations"] = 30  # as if it had been interrupted
        (sweep / "usual-4" / "config.json").write_text(json.dumps(config))
        (sweep / "sweep.json").write_text("{}")
        (sweep / "failures").mkdir()
        failure = {"reason": "MemoryError: <too much>", "traceback": "Traceback\n  <module>"}
        (sweep / "failures" / "strict-4.json").write_text(json.dumps(failure))
        pages = {
            "lake": write_report(lake.path),
            "cartpole": write_report(cartpole.path),
            "sweep": write_report(sweep, place / "sweep.html"),
        }
    return SimpleNamespace(place=place, lake=lake, cartpole=cartpole, sweep=sweep, pages=pages)


@pytest.fixture(scope="session")
def chromium():
    """Runs a headless Chromium; the tests that look at pages are skipped without one."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium to open a page in: apt-get install chromium")
    return [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
