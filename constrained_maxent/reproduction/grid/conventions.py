"""The paper's claims under the conventions of its text, under those that its authors published, and one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from constrained_maxent.reproduction.grid.claims import Claim, claim_of_oscillation, claims, claims_of_scale
from constrained_maxent.reproduction.grid.run import StudyFiles, read_policies
from constrained_maxent.reproduction.grid.studies import STUDIES, TEXT, Conventions, GridStudy
from constrained_maxent.reproduction.grid.tables import summarize
from constrained_maxent.reproduction.grid.worlds import HOLE_COSTS, world_of

_PUBLISHED = {field.name: True for field in fields(Conventions) if field.name != "printed_signs"}

CASES: dict[str, Conventions] = {
    "text": TEXT,
    **{name: Conventions(**{name: True}) for name in _PUBLISHED},
    "both_costs": Conventions(cost_on_entering=True, larger_base_cost=True),
    "authors": Conventions(**_PUBLISHED),
    "printed_signs": Conventions(**_PUBLISHED, printed_signs=True),
}
"""By name: the text's, each that differs alone, the two of the cost, all together, and these with the printed signs."""

DRAWN = ("text", "both_costs", "authors")
"""Whose Figure 1 is drawn."""


def _part(name: str, *betas: float) -> GridStudy:
    """The settings of a study without momentum that have one of these β."""
    study = STUDIES[name]
    kept = tuple(setting for setting in study.settings if setting.beta in betas and setting.momentum == 1.0)
    return replace(study, settings=kept)


_SCALE = HOLE_COSTS["relaxed"] / HOLE_COSTS["holes"]

FIGURE_1, PAIRS, NORM = STUDIES["fig1"], _part("primal-dual-search", 0.0), _part("norm-beta", 0.5, 10.0)
RELAXED = replace(_part("relaxed", 0.25), draws_policies=True)
STRICT = replace(
    STUDIES["ablation"],
    # β by the inverse square of the relaxed cost's scale, and by its inverse.
    settings=tuple(replace(each, beta=each.beta * _SCALE**power) for power in (2, 1) for each in RELAXED.settings),
    draws_policies=True,
)

SEEDS_ALONE = 3
"""Of the 27 settings by which β and the cost's scale are compared, where one convention is tried alone."""


def studies_of(case: str) -> tuple[GridStudy, ...]:
    """What is run under the conventions of this name: the fewest settings that judge the claims.

    A convention alone is not searched for step sizes, and no distance depends on what is a cost. Of the printed signs
    it is Figure 1: under them the limit of PGP is no limit, whatever its β.
    """
    studies: tuple[GridStudy, ...] = (FIGURE_1, PAIRS, NORM, STRICT, RELAXED)
    if case == "printed_signs":
        studies = (FIGURE_1,)
    elif case not in ("text", "authors"):
        of_scale = (replace(each, seeds=SEEDS_ALONE) for each in (STRICT, RELAXED))
        norm = () if case in ("cost_on_entering", "larger_base_cost", "both_costs") else (NORM,)
        studies = (FIGURE_1, *norm, *of_scale)
    return tuple(replace(each, conventions=CASES[case]) for each in studies)


def judge(case: str, rows: Sequence[pl.DataFrame], folder: Path) -> tuple[pl.DataFrame, list[Claim]]:
    """The settings under the conventions of this name in numbers, and the claims that are held against them.

    Args:
        case: name of the conventions.
        rows: those of each study of ``studies_of``, in its order.
        folder: of the studies' files.

    Returns:
        A table of ``summarize`` behind the column ``conventions``, with ``mass_in_holes`` of the last policies, mean
        over seeds, and ``mass_in_holes_std``, both empty where nothing is judged by them; and the claims.

    Raises:
        InvalidRun: policies are missing or damaged.
    """
    tables, found = dict[str, pl.DataFrame](), list[Claim]()
    for study, of_study in zip(studies_of(case), rows, strict=True):
        table = summarize(of_study)
        mean: Any = pl.lit(None, dtype=pl.Float64)
        deviation = mean
        if study.draws_policies:
            policies = read_policies(StudyFiles(folder, study.name).policies)
            world = world_of(study.world, study.conventions)
            masses = np.array([world.mass_in_holes(of_setting) for of_setting in policies])
            mean, deviation = masses.mean(axis=1), masses.std(axis=1, ddof=min(1, masses.shape[1] - 1))
        tables[study.name] = table.with_columns(mass_in_holes=mean, mass_in_holes_std=deviation)
    if PAIRS.name in tables:
        found.append(claim_of_oscillation(tables[PAIRS.name]))
    found += claims(tables[FIGURE_1.name])
    if NORM.name in tables:
        for _, of_beta in tables[NORM.name].group_by("beta", maintain_order=True):
            found += claims(of_beta.sort("limit"))
    if RELAXED.name in tables:
        found += claims_of_scale(tables[STRICT.name], tables[RELAXED.name])
    return pl.concat(tables.values()).insert_column(0, pl.lit(case).alias("conventions")), found
