"""What is run under each of the conventions, and that the command judges it."""

from dataclasses import replace

import pytest

from constrained_maxent.reproduction.grid.conventions import CASES, judge, studies_of
from constrained_maxent.reproduction.grid.run import run_study


def test_each_convention_is_tried_alone_and_all_together():
    """Where the authors' settings differ from the text: when what costs, β, layer, σ; then the signs."""
    given = {name: {key for key, value in vars(case).items() if value} for name, case in CASES.items()}
    alone = ("cost_on_entering", "larger_base_cost", "half_beta", "linear_layer", "tiny_smoothing")
    assert given == {
        "text": set(),
        **{name: {name} for name in alone},
        "both_costs": {"cost_on_entering", "larger_base_cost"},
        "authors": set(alone),
        "printed_signs": {*alone, "printed_signs"},
    }


@pytest.mark.parametrize("case", ["text", "authors"])
def test_sizes(case):
    """Figure 1; 7 × 7 pairs; 4 distances at 2 β; 9 pairs of batch and step size at the three β."""
    studies = {study.name: study for study in studies_of(case)}
    assert {name: len(study.settings) for name, study in studies.items()} == {
        "fig1": 3, "primal-dual-search": 49, "norm-beta": 8, "ablation": 18, "relaxed": 9,
    }  # fmt: skip
    assert {study.conventions for study in studies.values()} == {CASES[case]}
    # The relaxed cost is 1/25 of the other: 0.25 / 25 and 0.25 / 625.
    betas = sorted({setting.beta for setting in studies["ablation"].settings})
    assert betas == pytest.approx([0.0004, 0.01])
    assert {setting.beta for setting in studies["relaxed"].settings} == {0.25}
    assert {setting.method for setting in studies["primal-dual-search"].settings} == {"primal-dual"}


def test_what_is_tried_alone():
    names = {case: {study.name for study in studies_of(case)} for case in CASES}
    of_scale = {"ablation", "relaxed"}
    assert names["half_beta"] == names["linear_layer"] == names["tiny_smoothing"] == {"fig1", "norm-beta", *of_scale}
    for case in ("cost_on_entering", "larger_base_cost", "both_costs"):
        assert names[case] == {"fig1", *of_scale}  # a distance has no cost
    assert names["printed_signs"] == {"fig1"}


def test_with_the_printed_signs_pgp_is_not_constrained(tmp_path):
    """In every batch of 20 iterations ⟨c, λ̂⟩ is far below 0, so that all policies are those without a constraint."""
    (study,) = studies_of("printed_signs")
    rows = run_study(replace(study, iterations=20, seeds=2), tmp_path)
    columns = ["iteration", "seed", "entropy", "value"]
    assert rows.filter(method="pgp")[columns].equals(rows.filter(method="unconstrained")[columns])


def test_numbers_and_claims(tmp_path):
    studies = [replace(study, iterations=4, seeds=2) for study in studies_of("text")]
    rows = [run_study(study, tmp_path) for study in studies]
    table, found = judge("text", rows, tmp_path)
    assert table["conventions"].unique().to_list() == ["text"]
    assert len(table) == 87
    of_scale = table.filter(table["study"].is_in(["ablation", "relaxed"]))
    assert of_scale["mass_in_holes"].is_between(0.0, 22.2).all()
    # cost = 50 h - 0.001 (m - h), with a mass m of at most 22.2 and h of it in holes
    strict = of_scale.filter(study="ablation")
    assert (strict["mass_in_holes"] * 50.001 - strict["value"]).is_between(0.0, 0.0222).all()
    assert table.filter(study="fig1")["mass_in_holes"].null_count() == 3
    assert [claim.text.split(",")[0] for claim in found] == [
        "primal-dual oscillates",
        "PGP's entropy is slightly below the unconstrained one",
        "PGP violates the constraint far less than the unconstrained policy",
        "primal-dual oscillates",
        "primal-dual explores less than PGP",
        *(
            f"{text} (β = {beta})"
            for beta in ("0.5", "10")
            for text in (
                "the distance to the reference stays within b + 0.01",
                "entropy increases with b",
                "at b = 0 the policy follows the reference",
            )
        ),
        *["β goes with the inverse scale of the cost"] * 3,
    ]
