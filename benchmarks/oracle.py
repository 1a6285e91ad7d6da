"""How exact and how fast the oracle is: random problems and grids of three sizes, as Markdown.

    python benchmarks/oracle.py

Random problems have up to 12 states, 4 actions, and linear, KL and ℓ₂ constraints. Each is solved a second time by
SciPy's SLSQP over softmax policies, which shares nothing with the convex program but the exact occupancy. Each grid is
solved in a process of its own, so that the peak of memory is its own; times are those of ``solve``, CVXPY's compilation
included.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
from pathlib import Path
from statistics import median

import gymnasium as gym
import numpy as np

from constrained_maxent.functionals import LinearCost
from constrained_maxent.oracle import TabularMDP, solve

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
from random_problems import RandomProblem

GAP, RESIDUAL, DIFFERENCE = 1e-5, 1e-6, 1e-4
GRIDS = {6: (0.2, 2.0), 20: (3.0, 2.0), 50: (60.0, 2.0)}  # side: target [s], target [GB]


def random_problems(count: int) -> None:
    gaps, residuals, differences, times, searches = [], [], [], [], 0
    for seed in range(count):
        problem = RandomProblem.draw(seed)
        best = solve(problem.mdp, constraints=problem.constraints)
        gaps.append(abs(best.gap))
        residuals.append(best.primal_residual)
        times.append(best.seconds)
        other = problem.by_slsqp()
        if np.isfinite(other):
            searches += 1
            differences.append(abs(best.value - other))
    print(f"\n## {count} random problems\n")
    print("| | bound | within it | worst |")
    print("| --- | --- | --- | --- |")
    rows = [
        ("duality gap", GAP, gaps),
        ("policy's occupancy against the program's, and constraints", RESIDUAL, residuals),
        ("value against SLSQP's", DIFFERENCE, differences),
    ]
    for name, bound, values in rows:
        within = sum(value <= bound for value in values)
        print(f"| {name} | {bound:g} | {within} of {len(values)} | {max(values):.1e} |")
    print(f"\nSolve: median {median(times) * 1e3:.0f} ms, longest {max(times) * 1e3:.0f} ms.", end=" ")
    print(f"SLSQP found a feasible optimum in {searches} of {count}.")


def lake(side: int) -> list[str]:
    """The paper's map at any size: start and goal in opposite corners, a third of the sides holes in the middle."""
    rows = np.full((side, side), "F")
    rows[0, 0], rows[-1, -1] = "S", "G"
    middle = slice(side // 3, side - side // 3)
    rows[middle, middle] = "H"
    return ["".join(row) for row in rows]


def grid(side: int, horizon: int | None, repeats: int) -> tuple[float, float, float]:
    """Seconds of the fastest solve, relative gap, and peak memory of the process [GB]."""
    env = gym.make("constrained_maxent:SafeFrozenLake-v0", desc=lake(side), horizon=horizon, disable_env_checker=True)
    mdp = TabularMDP.from_env(env, discount=0.99)
    costs = env.unwrapped.tables.costs  # type: ignore[attr-defined]
    cost = LinearCost(mdp.tabulate(lambda state, action, after: costs[state]))
    answers = [solve(mdp, None, {"cost": cost}) for _ in range(repeats)]
    best = min(answers, key=lambda answer: answer.seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return best.seconds, abs(best.gap) / best.value, peak


def grids(repeats: int) -> None:
    print("\n## Grids, γ = 0.99, cost limit 0\n")
    print("| grid | horizon | relative gap | time | target | peak memory | target |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    cases: list[tuple[int, int | None]] = [(6, None), (6, 25), (20, None), (50, None)]
    for side, horizon in cases:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, gap, peak = pool.apply(grid, (side, horizon, repeats if side < 50 else 1))
        time_target, memory_target = GRIDS[side]
        wanted = f"{time_target:g} s" if horizon is None else "—"
        print(
            f"| {side}×{side} | {horizon or 'infinite'} | {gap:.0e} | {seconds:.3f} s | {wanted} "
            f"| {peak:.2f} GB | {memory_target:g} GB |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200, help="random problems; 0 for none")
    parser.add_argument("--repeats", type=int, default=3, help="solves of each grid up to 20×20; the fastest counts")
    options = parser.parse_args()
    print("# The oracle")
    if options.repeats:
        grids(options.repeats)
    if options.problems:
        random_problems(options.problems)


if __name__ == "__main__":
    main()
