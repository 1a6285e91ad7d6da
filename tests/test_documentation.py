"""Every Python block of the documentation and every example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)


BLOCKS = [
    pytest.param(block, id=f"{path.name}-{i}")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for i, block in enumerate(blocks(path))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_block_runs(block: str, tmp_path: Path) -> None:
    if "stable_baselines3" in block:
        pytest.importorskip("stable_baselines3")
    result = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr


def test_readme_has_its_three_snippets() -> None:
    assert len(blocks(ROOT / "README.md")) == 3


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Taxi", "CliffWalking-v1"])
def test_example_toy_text_runs(env_id: str) -> None:
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import toy_text
    finally:
        sys.path.pop(0)
    env_id = toy_text.TAXI if env_id == "Taxi" else env_id
    uniform, trained = toy_text.train(toy_text.TASKS[env_id], seed=0, iterations=5)
    # The uniform policy breaks every limit; five iterations already lower the violation.
    assert uniform.constraints["cost"] > 0.0
    assert trained.constraints["cost"] < uniform.constraints["cost"]
