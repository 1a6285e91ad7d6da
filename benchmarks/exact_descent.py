"""PGP and IPPPM on exact gradients against the global optimum: 6×6 grid, infinite horizon, last iterate.

    python benchmarks/exact_descent.py

Prints a Markdown table: what each method needed until gap and violation were within ε, and stayed there to the end.
Draws both against the iterations. Every β is the smallest that the paper's theorems ask for, with ν* from the oracle.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import gymnasium as gym
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import constrained_maxent  # noqa: F401  # registers the environments
from constrained_maxent.functionals import LinearCost
from constrained_maxent.oracle import (
    DescentResult,
    DiminishingStep,
    SoftmaxProblem,
    Solution,
    TabularMDP,
    descend,
    proximal_point,
    solve,
)
from constrained_maxent.oracle.theory import exact_beta, quadratic_beta
from constrained_maxent.penalties import Exact, Penalty, Quadratic

Method = Callable[[SoftmaxProblem, Solution], DescentResult]

QUADRATIC: Mapping[str, Method] = {
    "PGP, quadratic": lambda problem, best: descend(problem, reference=best, iterations=1000),
    "IPPPM, quadratic": lambda problem, best: proximal_point(
        problem, reference=best, rho=0.01, iterations=60, inner_iterations=50
    ),
}
EXACT: Mapping[str, Method] = {
    "PGP, exact": lambda problem, best: descend(
        problem, reference=best, steps=DiminishingStep(3.0, delay=300.0), iterations=3000
    ),
    "IPPPM, exact": lambda problem, best: proximal_point(
        problem, reference=best, rho=0.1, iterations=450, inner_iterations=50
    ),
}
COLOURS = dict(zip([*QUADRATIC, *EXACT], ("C0", "C1", "C2", "C3"), strict=True))


def run(discount: float, epsilon: float) -> dict[str, DescentResult]:
    """All four methods at one discount."""
    env = gym.make("SafeFrozenLake-v0", horizon=None)
    mdp = TabularMDP.from_env(env, discount=discount, horizon=None)
    costs = env.unwrapped.tables.costs  # type: ignore[attr-defined]
    constraints = {"cost": LinearCost(np.repeat(costs[:, None], mdp.n_actions, axis=1))}
    best = solve(mdp, constraints=constraints)
    multiplier = best.multipliers["cost"]
    unconstrained = solve(mdp).value
    print(f"\nγ = {discount}: unconstrained {unconstrained:.3f}, constrained {best.value:.3f}, ν* = {multiplier:.4f}\n")
    print("| method | β | iterations | gradients | time [s] | last gap | last violation | guaranteed ε | bounds hold |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    results = {}
    penalties: list[tuple[Penalty, Mapping[str, Method]]] = [
        (Quadratic(quadratic_beta(multiplier, epsilon)), QUADRATIC),
        (Exact(exact_beta(multiplier)), EXACT),
    ]
    for penalty, methods in penalties:
        problem = SoftmaxProblem(mdp, constraints=constraints, penalty=penalty)
        for name, method in methods.items():
            results[name] = method(problem, best)
            print(row(name, penalty, results[name], epsilon), flush=True)
    return results


def row(name: str, penalty: Penalty, result: DescentResult, epsilon: float) -> str:
    history, guarantees = result.history, result.guarantees
    assert guarantees is not None
    beta = penalty.to_config()["beta"]
    reached = history.reached(epsilon)
    effort = ("—",) * 3
    if reached is not None:
        effort = (str(reached), str(history.evaluations[reached]), f"{history.seconds[reached]:.1f}")
    last = (f"{history.gap[-1]:.1e}", f"{history.violation[-1]:.1e}", f"{guarantees.guaranteed_epsilon:.1e}")
    holds = "yes" if guarantees.bounds_hold and guarantees.beta_suffices else "no"
    return f"| {' | '.join((name, f'{beta:.4g}', *effort, *last, holds))} |"


def draw(results: Mapping[float, Mapping[str, DescentResult]], epsilon: float, path: Path) -> None:
    """Gap and violation of every iterate, one column a discount."""
    figure, axes = plt.subplots(2, len(results), figsize=(10, 6.5), sharex=True, sharey="row", squeeze=False)
    for column, (discount, methods) in zip(axes.T, results.items(), strict=True):
        for name, result in methods.items():
            iterations = np.arange(1, result.iterations + 2)
            for axis, values in zip(column, (np.abs(result.history.gap), result.history.violation), strict=True):
                # A violation of 0 has no place on a log axis.
                axis.loglog(iterations, np.maximum(values, 1e-7), color=COLOURS[name], label=name, linewidth=1.2)
        for axis in column:
            axis.axhline(epsilon, color="gray", linestyle=":", linewidth=1.0)
            axis.grid(alpha=0.2)
        column[0].set_title(f"γ = {discount}")
        column[1].set_xlabel("iteration (outer, for IPPPM), from 1")
    axes[0, 0].set_ylabel("|F* − F|  [nats]")
    axes[1, 0].set_ylabel("violation [R]₊  [cost]")
    axes[0, 0].legend(frameon=False, fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(f"\nDrawn to {path}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1e-3)
    parser.add_argument("--discounts", type=float, nargs="+", default=[0.9, 0.99])
    parser.add_argument("--figure", type=Path, default=Path("docs/images/exact_descent.png"))
    options = parser.parse_args()
    results = {discount: run(discount, options.epsilon) for discount in options.discounts}
    draw(results, options.epsilon, options.figure)


if __name__ == "__main__":
    main()
