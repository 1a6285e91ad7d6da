"""``summary.json``: how a run ended, and its certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from constrained_maxent.errors import InfeasibleProblem, InvalidSetting
from constrained_maxent.evaluation import QUICK_VARIABLES, ExactEvaluation, ExactProblem, LimitVerdict
from constrained_maxent.evaluation.rollouts import constraint_figure
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.types import FloatArray

if TYPE_CHECKING:
    from constrained_maxent.oracle import Certificate

TIME_DEPENDENT = "At a finite horizon the optimum may depend on time: an upper bound for stationary policies."


def summary_of(
    config: Mapping[str, Any],
    *,
    interrupted: bool,
    iterations: int,
    timesteps: int,
    seconds: float,
    steps_per_second: float,
    estimate: Mapping[str, Any],
    problem: ExactProblem | None,
    exact: ExactEvaluation | None,
    no_exact: str | None,
    limits: Sequence[LimitVerdict],
    warnings: Sequence[Mapping[str, Any]],
    versions: Mapping[str, str],
    while_training: Mapping[str, Any] | None = None,
    cell_sizes: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, Any]:
    """The content of ``summary.json``, before a certificate is sought."""
    return {
        **config,
        "status": "interrupted" if interrupted else "finished",
        "seed": config["settings"]["seed"],
        "iterations": iterations,
        "timesteps": timesteps,
        "seconds": round(seconds, 2),
        "steps_per_second": round(steps_per_second, 1),
        "estimate": estimate,
        "exact": exact_json(exact),
        "no_exact": no_exact,
        "uniform_policy": None if problem is None else exact_json(problem.evaluate_uniform()),
        "limits": [asdict(verdict) for verdict in limits],
        "while_training": while_training or {},
        "cell_sizes": cell_sizes or {},
        "certificate": None,
        "no_certificate": None,
        "warnings": warnings,
        "versions": versions,
        "settings": config["settings"],
    }


def add_certificate(
    folder: RunFolder, summary: dict[str, Any], problem: ExactProblem | None, policy: FloatArray | None
) -> tuple[Certificate | None, str | None]:
    """Write the summary, seek the certificate, and write that, or why there is none, into the summary as well.

    Whatever happens to the convex solver, the run has its summary.

    Args:
        problem: with known dynamics and costs; ``None`` without.
        policy: of a table; ``None`` for others.
    """
    folder.write_json(folder.summary_path, summary)
    found: tuple[Certificate | None, str | None] = (None, None)
    if policy is not None and problem is not None:
        found = certified(problem, policy, keeps_agent="compiled" not in summary)
    elif policy is not None and summary["no_exact"] is not None:
        found = None, f"Nor are there exact values: {summary['no_exact']}"
    certificate, reason = found
    summary |= {"certificate": None if certificate is None else certificate.to_json(), "no_certificate": reason}
    folder.write_json(folder.summary_path, summary)
    return found


def certified(problem: ExactProblem, policy: FloatArray, *, keeps_agent: bool) -> tuple[Certificate | None, str | None]:
    """The certificate, where the convex program is small and there is one; or why there is none."""
    if problem.objective is None:
        return None, None
    if (size := problem.n_variables) > QUICK_VARIABLES:
        who = "cmaxent certify" if keeps_agent else "of a run that keeps its agent, cmaxent certify"
        return None, f"The convex program has {size:,} variables; {who} solves it, given time and memory."
    try:
        return problem.certify(policy), None
    except (InfeasibleProblem, InvalidSetting) as error:
        # A limit that nobody can keep, or a functional that is not a convex program's: training works all the same.
        return None, str(error)


def certificate_rows(content: Mapping[str, Any], objective: str) -> list[tuple[str, float | str]]:
    """Names and figures of a certificate for a table, from its plain data.

    Args:
        objective: what it is called.
    """
    rows: list[tuple[str, float | str]] = [
        (objective, content["value"]),
        ("optimum" + (", time-dependent" if content["is_time_dependent"] else ""), content["optimum"]),
        ("gap", content["gap"]),
    ]
    for name, violation in content["constraints"].items():
        rows += [(constraint_figure(name), violation), (f"multiplier of {name}", content["multipliers"][name])]
    margin = content["slater_margin"]  # no number where it is infinite, or nothing keeps the limits
    no_number = "none" if content["constraints"] else "infinite"
    return [
        *rows,
        ("(ε, ε)-optimal for ε =", content["epsilon"]),
        ("no policy is above", content["dual_bound"]),
        ("strong duality", "observed" if content["strong_duality"] else "not observed"),
        ("Slater's margin", no_number if margin is None else f"{margin:.4g}"),
    ]


def exact_json(exact: ExactEvaluation | None) -> dict[str, Any] | None:
    """Exact values as plain data."""
    if exact is None:
        return None
    return {"objective": exact.objective, "constraints": dict(exact.constraints), "mass": exact.mass}
