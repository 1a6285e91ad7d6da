"""Figures of the grid study, in the paper's arrangement: batch sizes down, step sizes across, a curve for each β."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from constrained_maxent.reproduction.grid.analysis import (
    Course,
    courses,
    optimum,
    stationary_optimum,
    unconstrained_violation,
)
from constrained_maxent.reproduction.grid.mixtures import MixturePoint
from constrained_maxent.reproduction.grid.run import Row, StudyFiles, read_policies
from constrained_maxent.reproduction.grid.sweep import Scale, Study
from constrained_maxent.reproduction.grid.worlds import OCCUPANCY, place_of
from constrained_maxent.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from constrained_maxent.reporting import Panel

Quantity = Literal["entropy", "value"]

_DPI = 80
_NAMES: dict[str, str] = {
    "pgp": "PGP",
    "vr-pdpg": "VR-PDPG",
    "augmented-lagrangian": "augmented Lagrangian",
    "proximal-point": "proximal point",
    "adam-schedules": "PGP, Adam and schedules",
    "natural-schedules": "PGP, natural steps and schedules",
    "natural-short": "the same, short",
    "defaults": "defaults, 10,000 iterations",
    "defaults-short": "defaults, 4000 iterations",
}

_MIXTURE = "Frank–Wolfe (a mixture)"


def draw_study(
    study: Study, scale: Scale, rows: Sequence[Row], folder: Path, *, mixtures: Sequence[MixturePoint] = ()
) -> list[Path]:
    """Write the study's figures and return their paths.

    Args:
        study: which.
        scale: at which it was run.
        rows: what came out.
        folder: of its files.
        mixtures: of Frank–Wolfe, to be drawn beside the methods.
    """
    found = courses(rows)
    if study.draws_policies:
        return _draw_policies(study, read_policies(StudyFiles(folder, study.name).policies), folder)
    references = _references(study, scale)
    figures: dict[str, Figure]
    if study.name == "methods":
        figures = {study.name: _against_transitions(study, found, mixtures)}
    elif study.name == "primal-dual-search":
        figures = {study.name: _scattered(study.name, study.constraint, found, references)}
    elif study.name == "primal-dual-batches":
        figures = {
            f"{study.name}-{episodes}": _scattered(
                f"{study.name}, B = {episodes}",
                study.constraint,
                [course for course in found if course.first.episodes_per_batch == episodes],
                references,
            )
            for episodes in sorted({course.first.episodes_per_batch for course in found})
        }
    elif study.name in ("robustness", "norm-beta"):
        figures = {study.name: _over_beta(study, found, references)}
    elif study.name in ("ablation", "relaxed", "unconstrained"):
        figures = {
            f"{study.name}-entropy": _table(study, found, "entropy", references),
            f"{study.name}-{study.constraint}": _table(study, found, "value", references),
        }
    else:
        figures = {study.name: _side_by_side(study, found, references)}
    paths = {folder / f"{name}.png": figure for name, figure in figures.items()}
    for path, figure in paths.items():
        figure.savefig(path, dpi=_DPI)
    return list(paths)


def _references(study: Study, scale: Scale) -> dict[str, float]:
    """Entropies to draw as lines. The search for stationary policies takes seconds: not at smoke scale."""
    if study.world == "open":
        bounds = {setting.limit: optimum(study.world, setting.limit) for setting in study.settings}
        return {f"optimum, b = {limit:g}": bound for limit, bound in bounds.items() if bound is not None}
    constrained = study.name != "unconstrained"
    lines = {}
    if (bound := optimum(study.world, 0.0, constrained=constrained)) is not None:
        lines["optimum, time-dependent policies"] = bound
    if scale.name == "paper":
        lines["optimum, stationary policies"] = stationary_optimum(study.world, 0.0, constrained=constrained)
    return lines


def _label(study: Study, course: Course) -> str:
    if study.name in ("fig1", "methods", "defaults", "defaults-short"):
        return _NAMES.get(course.first.method, course.first.method)
    return f"b = {course.first.limit:g}" if study.world == "open" else f"β = {course.first.beta:g}"


def _limits(study: Study) -> dict[str, float | list[float]]:
    """Lines to draw in panels of the constrained quantity."""
    limits = sorted({setting.limit for setting in study.settings})
    return {"limit": 0.0} if limits == [0.0] else {"the limits b": limits}


def _panel(
    study: Study, found: Sequence[Course], quantity: Quantity, references: Mapping[str, float], title: str = ""
) -> Panel:
    from constrained_maxent.reporting import Curve, Panel

    is_entropy = quantity == "entropy"
    limit = _limits(study)
    return Panel(
        [Curve(_label(study, course), course.iterations, getattr(course, quantity)) for course in found],
        title=title,
        xlabel="iteration",
        ylabel="entropy [nats]" if is_entropy else study.constraint,
        lines=references if is_entropy else limit,
        yscale="linear" if is_entropy or study.world == "open" else "symlog",
    )


def _side_by_side(study: Study, found: Sequence[Course], references: Mapping[str, float]) -> Figure:
    from constrained_maxent.reporting import curves_figure

    panels = [_panel(study, found, "entropy", references), _panel(study, found, "value", references)]
    return curves_figure([panels], title=study.name)


def _table(study: Study, found: Sequence[Course], quantity: Quantity, references: Mapping[str, float]) -> Figure:
    from constrained_maxent.reporting import curves_figure

    def panel(episodes: int, step: float) -> Panel:
        here = [c for c in found if (c.first.episodes_per_batch, c.first.learning_rate) == (episodes, step)]
        return _panel(study, here, quantity, references, title=f"B = {episodes}, η = {step:g}")

    batches = sorted({course.first.episodes_per_batch for course in found})
    steps = sorted({course.first.learning_rate for course in found})
    return curves_figure([[panel(episodes, step) for step in steps] for episodes in batches], title=study.name)


def _over_beta(study: Study, found: Sequence[Course], references: Mapping[str, float]) -> Figure:
    """Last policies against β, a curve for each step size or limit."""
    from constrained_maxent.reporting import Curve, Panel, curves_figure

    is_norm = study.world == "open"
    groups: dict[str, list[Course]] = {}
    for course in sorted(found, key=lambda course: course.first.beta):
        label = f"b = {course.first.limit:g}" if is_norm else f"η = {course.first.learning_rate:g}"
        groups.setdefault(label, []).append(course)

    def panel(quantity: Quantity, ylabel: str, lines: Mapping[str, float | Sequence[float]], yscale: str) -> Panel:
        curves = [
            Curve(
                label,
                [course.first.beta for course in group],
                np.stack([getattr(course, quantity)[:, -1] for course in group], axis=1),
            )
            for label, group in groups.items()
        ]
        return Panel(curves, xlabel="β", ylabel=ylabel, lines=lines, xscale="log", yscale=yscale)

    panels = [
        panel("entropy", "entropy [nats]", references, "linear"),
        panel("value", study.constraint, _limits(study), "linear" if is_norm else "symlog"),
    ]
    return curves_figure([panels], title=study.name)


def _against_transitions(study: Study, found: Sequence[Course], mixtures: Sequence[MixturePoint]) -> Figure:
    """What is missing of the optimum, and the violation, over the transitions that a method has used.

    Of Frank–Wolfe that with sampled densities: with exact ones it takes no transitions.
    """
    from constrained_maxent.reporting import Curve, Panel, curves_figure

    best, free = stationary_optimum(study.world, 0.0), unconstrained_violation(study.world)

    def panel(quantity: Quantity, ylabel: str, lines: Mapping[str, float]) -> Panel:
        def values(course: Course) -> FloatArray:
            return best - course.entropy if quantity == "entropy" else np.maximum(course.value, 0.0)

        curves = [Curve(_label(study, course), course.transitions[1:], values(course)[:, 1:]) for course in found]
        sampled = [point for point in mixtures if point.transitions > 0]
        if sampled:
            points = [best - p.entropy if quantity == "entropy" else max(p.value, 0.0) for p in sampled]
            curves.append(Curve(_MIXTURE, [point.transitions for point in sampled], [points]))
        return Panel(curves, xlabel="transitions", ylabel=ylabel, lines=lines, xscale="log", yscale="symlog")

    gap = panel("entropy", "entropy gap [nats]", {"optimum": 0.0, "within 5 %": 0.05 * best})
    violation = panel("value", f"violation ({study.constraint})", {"optimum": 0.0, "within 5 %": 0.05 * free})
    # One name for both: the legend shows the line's style, and each panel has its own height.
    return curves_figure([[gap, violation]], title=study.name)


def _scattered(title: str, constraint: str, found: Sequence[Course], references: Mapping[str, float]) -> Figure:
    """Entropy and cost of last policies over the step size: a column for each dual step, a curve for each momentum."""
    from constrained_maxent.reporting import Curve, Panel, curves_figure

    rates = sorted({course.first.dual_rate for course in found})
    momenta = sorted({course.first.momentum for course in found})

    def panel(quantity: Quantity, rate: float) -> Panel:
        curves = []
        for momentum in momenta:
            here = sorted(
                (c for c in found if (c.first.momentum, c.first.dual_rate) == (momentum, rate)),
                key=lambda course: course.first.learning_rate,
            )
            values = np.stack([getattr(course, quantity)[:, -1] for course in here], axis=1)
            curves.append(Curve(f"α = {momentum:g}", [c.first.learning_rate for c in here], values))
        is_entropy = quantity == "entropy"
        return Panel(
            curves,
            title=f"α_μ = {rate:g}",
            xlabel="α_θ",
            ylabel="entropy [nats]" if is_entropy else constraint,
            lines=references if is_entropy else {"limit": 0.0},
            xscale="log",
            yscale="linear" if is_entropy else "symlog",
        )

    return curves_figure([[panel(quantity, rate) for rate in rates] for quantity in ("entropy", "value")], title=title)


def _draw_policies(study: Study, policies: FloatArray, folder: Path) -> list[Path]:
    """The last policy of the first seed of every setting, with its exact occupancy."""
    from constrained_maxent.reporting import grid_occupancy_figure

    place, paths = place_of(study.world), []
    for setting, (policy, *_) in zip(study.settings, policies, strict=True):
        entropy, value = place.measure(policy)
        name = _NAMES.get(setting.method, setting.method)
        figure = grid_occupancy_figure(
            place.desc,
            place.mdp.occupancy(policy, scale=OCCUPANCY),
            policy,
            title=f"{name}: {entropy:.2f} nats, {study.constraint} {value:.2f}",
        )
        paths.append(folder / f"{study.name}-{setting.method}.png")
        figure.savefig(paths[-1], dpi=_DPI)
    return paths
