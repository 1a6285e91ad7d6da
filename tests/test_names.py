"""What is there by name after ``import constrained_maxent``, and what that import does not load."""

import subprocess
import sys

import pytest

import constrained_maxent as cmx


@pytest.mark.parametrize("package", [cmx, cmx.agents, cmx.runs, cmx.tasks])
def test_every_public_name_is_there(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        package.nothing  # noqa: B018


def test_parts_come_when_they_are_named():
    """In a process of its own, which has loaded nothing else: the compiler and Matplotlib take seconds."""
    script = """
        import sys
        import constrained_maxent as cmx
        print(*(name in sys.modules for name in ("numba", "matplotlib.figure")))
        print(cmx.engine.TabularEngine.__name__, cmx.schedules.Geometric.__name__)
        print(cmx.reporting.curves_figure.__name__, cmx.tasks.make_frozen_lake.__name__)
        print(*(name in sys.modules for name in ("numba", "matplotlib.figure")))
    """
    code = "\n".join(line.strip() for line in script.splitlines())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "False False",
        "TabularEngine Geometric",
        "curves_figure make_frozen_lake",
        "True True",
    ]


@pytest.mark.parametrize("env_id", ["SafeFrozenLake-v0", "FrozenLake-PGP-v0"])
@pytest.mark.parametrize("make", ["make", "make_vec"])
def test_an_environment_needs_no_torch(env_id, make):
    code = (
        f"import sys, gymnasium as gym; env = gym.{make}('constrained_maxent:{env_id}'); env.reset(); "
        "env.step(env.action_space.sample()); print({'torch', 'cvxpy', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
