"""Figures of the grid study, in the paper's arrangement: batch sizes down, step sizes across, a curve for each β."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from constrained_maxent.reporting import Curve, Panel, curves_figure, grid_occupancy_figure
from constrained_maxent.reporting.grid import UNITS
from constrained_maxent.reporting.style import save_figure
from constrained_maxent.reproduction import Effort
from constrained_maxent.reproduction.grid.run import SETTING, StudyFiles, read_policies
from constrained_maxent.reproduction.grid.studies import GridStudy
from constrained_maxent.reproduction.grid.tables import last_policies
from constrained_maxent.reproduction.grid.worlds import (
    OCCUPANCY,
    optimum,
    stationary_optimum,
    unconstrained_violation,
    world_of,
)

QUANTITIES = ("entropy", "value")
"""Columns that are drawn."""

_DPI = 80
_NAMES = {
    "pgp": "PGP",
    "vr-pdpg": "VR-PDPG",
    "augmented-lagrangian": "augmented Lagrangian",
    "proximal-point": "proximal point",
    "adam-schedules": "PGP, Adam and schedules",
    "natural-schedules": "PGP, natural steps and schedules",
    "natural-short": "PGP, natural steps and short schedules",
}

_TITLES: dict[str, str] = {
    "fig1": "The method of the paper (PGP), a baseline, and no constraint",
    "defaults": "The default preset",
    "defaults-short": "The default preset, in 4000 iterations",
    "norm": "Distance to a policy's occupancy, kept below b",
    "norm-beta": "Distance to a policy's occupancy, kept below b: last policies by penalty β",
    "robustness": "Last policies by penalty β and step size η",
    "unconstrained": "Without the constraint, by batch size B and step size η",
    "methods": "What each method is away from the optimum",
    "methods-short": "What a run of 600 iterations is away from the optimum",
    "primal-dual-search": "Primal-dual: last policies by step sizes α_θ and α_μ and momentum α",
    "primal-dual-batches": "Primal-dual: last policies by step sizes α_θ and α_μ and momentum α",
    "ablation": "By batch size B, step size η and penalty β",
    "relaxed": "With a relaxed cost, by batch size B, step size η and penalty β",
}

Lines = Mapping[str, float | Sequence[float]]


def draw_study(study: GridStudy, effort: Effort, rows: pl.DataFrame, folder: Path) -> list[Path]:
    """Draw a study that was run with this effort, from its rows and files in ``folder``; the files of the figures."""
    if study.draws_policies:
        figures = _policies(study, folder)
    elif study.name in ("methods", "methods-short"):
        figures = {study.name: _against_transitions(study, rows)}
    else:
        figures = _over_settings(study, rows, _optima(study, effort))
    return [save_figure(figure, folder / f"{name}.png", dpi=_DPI) for name, figure in figures.items()]


def draw_conventions(path: Path, rows: Mapping[str, pl.DataFrame]) -> Path:
    """Draw Figure 1 under each of the conventions, by name, and write it; its file."""
    panels = [
        [
            Panel(
                [
                    _curve(_NAMES.get(method, method), part, "iteration", quantity)
                    for (method,), part in of_case.filter(pl.col("method") != "unconstrained").group_by(
                        "method", maintain_order=True
                    )
                ],
                title=case.replace("_", " "),
                xlabel="iteration",
                ylabel="entropy [nats]" if quantity == "entropy" else "cost [per episode]",
                lines={} if quantity == "entropy" else {"limit": 0.0},
                yscale="linear" if quantity == "entropy" else "symlog",
            )
            for case, of_case in rows.items()
        ]
        for quantity in QUANTITIES
    ]
    figure = curves_figure(panels, title="The method of the paper (PGP) and a baseline, by conventions")
    return save_figure(figure, path, dpi=_DPI)


def _over_settings(study: GridStudy, rows: pl.DataFrame, optima: Lines) -> dict[str, Figure]:
    match study.name:
        case "primal-dual-search":
            return {study.name: _search(study, _TITLES[study.name], rows, optima)}
        case "primal-dual-batches":
            return {
                f"{study.name}-{episodes}": _search(study, f"{_TITLES[study.name]}, B = {episodes}", part, optima)
                for (episodes,), part in _parts(rows, "episodes_per_batch")
            }
        case "robustness" | "norm-beta":
            return {study.name: curves_figure([_over_beta(study, rows, optima)], title=_TITLES[study.name])}
        case "ablation" | "relaxed" | "unconstrained":
            return {
                f"{study.name}-{name}": curves_figure(
                    [
                        [
                            _over_iterations(study, part, quantity, optima, title=f"B = {episodes}, η = {step:g}")
                            for (step,), part in _parts(of_batch, "learning_rate")
                        ]
                        for (episodes,), of_batch in _parts(rows, "episodes_per_batch")
                    ],
                    title=_TITLES[study.name],
                )
                for quantity, name in zip(QUANTITIES, ("entropy", study.constraint), strict=True)
            }
    panels = [_over_iterations(study, rows, quantity, optima) for quantity in QUANTITIES]
    return {study.name: curves_figure([panels], title=_TITLES[study.name])}


def _optima(study: GridStudy, effort: Effort) -> Lines:
    """Entropies to draw as lines. The search for stationary policies takes seconds: not in a smoke test."""
    if study.world == "open":
        bounds = {setting.limit: optimum(study.world, setting.limit) for setting in study.settings}
        return {f"optimum, b = {limit:g}": bound for limit, bound in bounds.items() if bound is not None}
    constrained = study.name != "unconstrained"
    lines: dict[str, float] = {}
    if (bound := optimum(study.world, 0.0, constrained=constrained)) is not None:
        lines["optimum, time-dependent policies"] = bound
    if effort == "paper":
        lines["optimum, stationary policies"] = stationary_optimum(study.world, 0.0, constrained=constrained)
    return lines


def _parts(rows: pl.DataFrame, *columns: str) -> Iterable[tuple[tuple[Any, ...], pl.DataFrame]]:
    """The rows by the values of columns, from small to large."""
    return rows.sort(*columns, maintain_order=True).group_by(*columns, maintain_order=True)


def _curve(label: str, rows: pl.DataFrame, x: str, quantity: str) -> Curve:
    """A quantity of every seed over a column; NaN where a run never came."""
    wide = rows.sort(x).pivot(on="seed", index=x, values=quantity)
    return Curve(label, wide[x].to_numpy(), wide.drop(x).cast(pl.Float64).fill_null(float("nan")).to_numpy().T)


def _panel(study: GridStudy, quantity: str, curves: Sequence[Curve], optima: Lines, **options: Any) -> Panel:
    """A panel with the optima, or the limits, as lines."""
    limits = sorted({setting.limit for setting in study.settings})
    is_entropy = quantity == "entropy"
    return Panel(
        curves,
        ylabel="entropy [nats]" if is_entropy else _named(study),
        lines=optima if is_entropy else {"limit": 0.0} if limits == [0.0] else {"the limits b": limits},
        yscale="linear" if is_entropy or study.world == "open" else "symlog",
        **options,
    )


def _named(study: GridStudy) -> str:
    """The constrained quantity with its unit: a sum of costs, or a norm of occupancies."""
    return f"distance [{UNITS[OCCUPANCY]}]" if study.world == "open" else "cost [per episode]"


def _over_iterations(study: GridStudy, rows: pl.DataFrame, quantity: str, optima: Lines, title: str = "") -> Panel:
    def label(method: str, beta: float, limit: float) -> str:
        if study.name in ("fig1", "defaults", "defaults-short"):
            return _NAMES.get(method, method)
        return f"b = {limit:g}" if study.world == "open" else f"β = {beta:g}"

    curves = [
        _curve(label(*part.select("method", "beta", "limit").row(0)), part, "iteration", quantity)
        for _, part in rows.group_by(*SETTING, maintain_order=True)
    ]
    return _panel(study, quantity, curves, optima, title=title, xlabel="iteration")


def _over_beta(study: GridStudy, rows: pl.DataFrame, optima: Lines) -> list[Panel]:
    """Last policies against β, a curve for each step size or limit."""
    column, symbol = ("limit", "b") if study.world == "open" else ("learning_rate", "η")
    last = last_policies(rows)
    return [
        _panel(
            study,
            quantity,
            [_curve(f"{symbol} = {value:g}", part, "beta", quantity) for (value,), part in _parts(last, column)],
            optima,
            xlabel="β",
            xscale="log",
        )
        for quantity in QUANTITIES
    ]


def _search(study: GridStudy, title: str, rows: pl.DataFrame, optima: Lines) -> Figure:
    """Entropy and cost of last policies over the step size: a column for each dual step, a curve for each momentum."""
    last = last_policies(rows)

    def panel(rate: float, part: pl.DataFrame, quantity: str) -> Panel:
        curves = [_curve(f"α = {m:g}", of_m, "learning_rate", quantity) for (m,), of_m in _parts(part, "momentum")]
        return _panel(study, quantity, curves, optima, title=f"α_μ = {rate:g}", xlabel="α_θ", xscale="log")

    panels = [[panel(rate, part, quantity) for (rate,), part in _parts(last, "dual_rate")] for quantity in QUANTITIES]
    return curves_figure(panels, title=title)


def _against_transitions(study: GridStudy, rows: pl.DataFrame) -> Figure:
    """What is missing of the optimum, and the violation, over the transitions that a method has used."""
    best, free = stationary_optimum(study.world, 0.0), unconstrained_violation(study.world)
    points = rows.filter(pl.col("iteration") > 0).with_columns(
        pl.col("transitions").mean().over(*SETTING, "iteration"),
        (best - pl.col("entropy")).alias("gap"),
        pl.col("value").clip(lower_bound=0.0).alias("violation"),
    )

    def panel(quantity: str, ylabel: str, close: float) -> Panel:
        curves = [
            _curve(_NAMES.get(method, method), part, "transitions", quantity)
            for (method,), part in points.group_by("method", maintain_order=True)
        ]
        # One name for both: the legend shows the line's style, and each panel has its own height.
        lines = {"optimum": 0.0, "within 5 %": close}
        return Panel(curves, xlabel="transitions", ylabel=ylabel, lines=lines, xscale="log", yscale="symlog")

    panels = [
        panel("gap", "entropy gap [nats]", 0.05 * best),
        panel("violation", f"violation, {_named(study)}", 0.05 * free),
    ]
    return curves_figure([panels], title=_TITLES[study.name])


def _policies(study: GridStudy, folder: Path) -> dict[str, Figure]:
    """The last policy of the first seed of every setting, with its exact occupancy."""
    policies, world, figures = read_policies(StudyFiles(folder, study.name).policies), world_of(study.world), {}
    for setting, (policy, *_) in zip(study.settings, policies, strict=True):
        entropy, value = world.measure(policy[None])[0]
        occupancy = world.mdp.occupancy(policy, scale=OCCUPANCY)
        title = f"{_NAMES.get(setting.method, setting.method)}: {entropy:.2f} nats, {study.constraint} {value:.2f}"
        name = f"{study.name}-{setting.method}"
        figures[name] = grid_occupancy_figure(world.desc, occupancy, policy, scale=OCCUPANCY, title=title)
    return figures
