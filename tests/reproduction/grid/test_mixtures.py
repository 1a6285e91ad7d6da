"""Frank–Wolfe along its run, against single runs, and the table that keeps it."""

import pytest

from constrained_maxent.reproduction.grid import mixtures
from constrained_maxent.reproduction.grid.mixtures import frank_wolfe_course


def test_points_are_runs_of_so_many_iterations(tmp_path):
    path = tmp_path / "frank-wolfe.csv"
    points = frank_wolfe_course("holes", path, iterations=6)
    assert [(point.densities, point.iterations) for point in points] == [
        (densities, iterations) for densities in ("exact", "sampled") for iterations in (1, 3, 6)
    ]
    # The uniform policy and one more for each iteration, each of 200 episodes of 25 steps, or fewer at the goal.
    assert [point.transitions for point in points[:3]] == [0, 0, 0]
    assert all(0.9 * 5000 * (p.iterations + 1) < p.transitions <= 5000 * (p.iterations + 1) for p in points[3:])
    # No mixture exceeds 36.720 at zero cost by more than what the multiplier 0.19455 gives for the cost.
    assert all(point.entropy <= 36.721 + 0.195 * point.value for point in points)


def test_a_table_of_the_same_runs_is_read(tmp_path, monkeypatch):
    path = tmp_path / "frank-wolfe.csv"
    points = frank_wolfe_course("holes", path, iterations=2)
    before = path.read_bytes()
    longer = frank_wolfe_course("holes", path, iterations=3)
    assert [point.iterations for point in longer] == [1, 3, 1, 3]
    path.write_bytes(before)
    monkeypatch.setattr(mixtures, "frank_wolfe", None)
    assert frank_wolfe_course("holes", path, iterations=2) == points
    path.write_text("densities,policies\n")  # of another version
    with pytest.raises(TypeError):  # it would be computed
        frank_wolfe_course("holes", path, iterations=2)
