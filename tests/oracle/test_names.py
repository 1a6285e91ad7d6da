"""The oracle's names come late, so that whoever solves nothing does not wait for the convex solver."""

import subprocess
import sys

import pytest

from constrained_maxent import oracle


@pytest.mark.parametrize("name", oracle.__all__)
def test_every_public_name_is_there(name):
    assert getattr(oracle, name).__name__ == name


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'sovle'"):
        oracle.sovle  # noqa: B018


def test_the_convex_solver_is_imported_late():
    code = "import sys, constrained_maxent as c; m = sys.modules; print('cvxpy' in m, c.oracle.solve, 'cvxpy' in m)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")
    assert done.stdout.endswith("True\n")
