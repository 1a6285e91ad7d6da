"""Every Python block of the documentation and every example runs; every command has the options that it is given."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest
from scipy.special import softmax

from constrained_maxent.cli import command_class, main
from constrained_maxent.evaluation import ExactProblem

ROOT = Path(__file__).resolve().parents[1]


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)


def commands(path: Path) -> list[str]:
    """The calls of ``cmaxent`` on lines of their own."""
    text = path.read_text().replace("\\\n", " ")
    return re.findall(r"^(?:\$|   ) (cmaxent .*)$", text, flags=re.MULTILINE)


PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
COMMANDS = sorted({command.partition("  #")[0].rstrip() for path in PAGES for command in commands(path)})


def is_installed(block: str) -> bool:
    """Whether the libraries that a block takes are there."""
    libraries = ("stable_baselines3", "ray", "tianshou", "skrl", "torchrl")
    block = block.replace("rllib", "ray")
    needed = [name for name in libraries if re.search(rf"^(import|from) {name}|adapters\.{name}", block, re.MULTILINE)]
    return all(importlib.util.find_spec(name) for name in needed)


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES if blocks(page)])
def test_code_blocks_run(page: Path, tmp_path: Path) -> None:
    """As they stand, one after another in one process, but that long trainings are short."""
    called = [block for block in blocks(page) if is_installed(block)]
    if not called:
        pytest.skip("their libraries are not installed")
    for i, block in enumerate(called):
        shorter = re.sub(r"\b(\d{3})_000\b", r"\g<1>0", block)  # a hundredth of the steps
        (tmp_path / f"block_{i}.py").write_text(shorter.replace("iterations=500", "iterations=50"))
    script = "import runpy, sys\nfor name in sys.argv[1:]:\n    runpy.run_path(name, run_name='__main__')"
    names = [f"block_{i}.py" for i in range(len(called))]
    result = subprocess.run(
        [sys.executable, "-c", script, *names], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr


def test_the_tutorial_is_walked_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are written and its commands are called, in their order; its training is short."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tutorial.md").read_text()
    for kind, block in re.findall(r"^```(python|console)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if kind == "python":
            name = re.match(r"# (\S+\.py)\n", block)
            assert name, "of no file"
            (tmp_path / name[1]).write_text(block)
            continue
        for line in block.splitlines():
            shorter = line.replace("--iterations 30", "--iterations 2 --steps-per-batch 1600").replace("200", "8")
            _, command, *words = shlex.split(shorter, comments=True)
            if command == "export":
                assert words == ["PYTHONPATH=."]
                monkeypatch.syspath_prepend(".")
            else:
                assert (command, main(words)) == ("cmaxent", 0)
    run = tmp_path / "runs" / "pendulum"
    assert json.loads((run / "evaluation.json").read_text())["rollouts"]["constraints"]["cost"]
    assert (run / "training.png").stat().st_size > 10_000
    assert "SafePendulum" in (tmp_path / "report.html").read_text()
    # Each verdict is said, whichever it is of two iterations; and the check has found the cost.
    printed = capsys.readouterr().out
    assert len(re.findall(r"cost: limit 0\.05 (?:kept|broken|undecided)", printed)) == 2
    assert "info['cost'] is there on every step" in " ".join(printed.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_command_is_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its options exist and take these values; it is not carried out."""
    _, name, *options = shlex.split(command)
    monkeypatch.setattr(command_class(name), "run", lambda self, given: 0)
    assert main([name, *options]) == 0


def test_there_are_commands_and_blocks() -> None:
    assert len(COMMANDS) >= 20
    assert sum(len(blocks(page)) for page in PAGES) >= 12


def test_every_part_of_the_table_can_be_reached() -> None:
    parts = [
        part
        for row in re.findall(
            r"^\| (`[a-z].*?) \|", (ROOT / "docs" / "architecture.md").read_text(), flags=re.MULTILINE
        )
        for part in re.findall(r"`(.*?)`", row)
    ]
    assert "testing" in parts
    for part in set(parts) - {"cmaxent"}:
        importlib.import_module(f"constrained_maxent.{part}")


def test_readme_has_its_three_snippets() -> None:
    assert len(blocks(ROOT / "README.md")) == 3


def test_every_example_is_named() -> None:
    text = (ROOT / "docs" / "examples.md").read_text()
    scripts = [path.name for path in (ROOT / "examples").glob("*.py")]
    assert len(scripts) >= 3
    assert [name for name in scripts if f"(../examples/{name})" not in text] == []


def test_links_lead_somewhere() -> None:
    for path in (*PAGES, ROOT / "CONTRIBUTING.md"):
        targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text())
        missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
        assert missing == [], path


def test_architecture_names_code_that_exists() -> None:
    """Its files, and in them the functions of its table."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "constrained_maxent"
    files = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text))
    assert len(files) >= 8
    assert [name for name in sorted(files) if not (package / name).exists()] == []
    code = "\n".join(path.read_text() for path in package.rglob("*.py"))
    for kind, method in re.findall(r"`([A-Z]\w+)\.(\w+)`", text):
        assert f"class {kind}" in code, kind
        assert f"def {method}(" in code, method


def example(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Taxi", "CliffWalking-v1"])
def test_example_toy_text_runs(env_id: str) -> None:
    toy_text = example("toy_text")
    env_id = toy_text.TAXI if env_id == "Taxi" else env_id
    uniform, trained = toy_text.train(toy_text.TASKS[env_id], seed=0, iterations=5)
    # The uniform policy breaks every limit; five iterations already lower the violation.
    assert uniform.constraints["cost"] > 0.0
    assert trained.constraints["cost"] < uniform.constraints["cost"]


def test_example_reinforce_learns() -> None:
    """Exactly evaluated; by the table of the paper's grid the uniform policy has 29.2 nats at a cost of 83.3."""
    reinforce = example("reinforce")
    lake = gym.make_vec("FrozenLake-PGP-v0", num_envs=8, preset="paper")
    exact = ExactProblem.from_env(lake)
    start = exact.evaluate(np.full((36, 4), 0.25))
    assert (start.objective, start.constraints["cost"]) == (
        pytest.approx(29.21, abs=0.01),
        pytest.approx(83.29, abs=0.01),
    )
    learnt = reinforce.train(lake, iterations=300, learning_rate=0.05, seed=0)
    end = exact.evaluate(softmax(learnt.theta, axis=1))
    assert end.objective > 33.0
    assert end.constraints["cost"] < 5.0


def test_example_gymnasium_control_states() -> None:
    """The coordinates that count and the steps that cost, by Gymnasium's descriptions of its observations."""
    control = example("gymnasium_control")
    # Pendulum: cosine, sine, velocity. Here at 120°.
    state = control.pendulum_state(np.array([-0.5, np.sqrt(0.75), -4.5]))
    np.testing.assert_allclose(state, [2.0 * np.pi / 3.0, -4.5])
    # HalfCheetah: height and pitch first, behind 6 more positions the forward velocity.
    observation = np.arange(17.0)
    np.testing.assert_array_equal(control.cheetah_state(observation), [0.0, 1.0, 8.0])
    for cost, place, limit in ((control.spins_fast, 2, 4.0), (control.runs_fast, 8, 1.0)):
        for sign in (-1.0, 1.0):
            observation = np.zeros(17)
            observation[place] = sign * (limit + 0.1)
            assert cost(observation, None, np.zeros(17)) == 1.0
            observation[place] = sign * (limit - 0.1)
            assert cost(observation, None, np.full(17, 9.0)) == 0.0
    assert control.is_far_left(np.array([-1.1, 0.0]), None, None) == 1.0
    assert control.is_far_left(np.array([1.1, 0.0]), None, None) == 0.0


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "MountainCarContinuous-v0", "HalfCheetah-v5"])
def test_example_gymnasium_control_runs(env_id: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    control = example("gymnasium_control")
    monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings into the working directory
    make_vec = gym.make_vec
    monkeypatch.setattr(gym, "make_vec", lambda env_id, **options: make_vec(env_id, max_episode_steps=100, **options))
    task = replace(control.TASKS[env_id], episodes=4)
    before, after = control.train(task, seed=0, iterations=2, n_episodes=4)
    for evaluation in (before, after):
        assert evaluation.n_episodes == 4
        assert evaluation.states.entropy.low < evaluation.states.entropy.mean < evaluation.states.entropy.high
        assert 0.0 < evaluation.states.coverage.share < 0.75
        # 4 episodes of 100 steps cannot visit more cells than they have steps.
        assert evaluation.states.coverage.share * task.grid.n_cells <= 400
        share = evaluation.costs["cost()"].mean.mean
        assert evaluation.constraints["cost"].mean == pytest.approx(share - task.limit)
