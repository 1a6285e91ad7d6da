"""What is printed: figures in terminals of any width."""

import pytest
from rich.table import Table

from constrained_maxent.cli import console
from constrained_maxent.cli.console import figures_table, number, print_table

FIGURES = ("19.2345", "0.812 [0.722, 0.878]", "1231.1234")


@pytest.mark.fault
@pytest.mark.parametrize("width", [200, 100, 60, 40, 20, 5])
@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_figures_are_never_cut(capsys, monkeypatch, width, n_columns):
    monkeypatch.setattr(console.console, "_width", width)
    table = figures_table(
        "FrozenLake-v1, 300 iterations", "", *("last batch", "uniform policy, exact", "x")[:n_columns]
    )
    table.add_row("cost, share of episodes above 0", *FIGURES[:n_columns])
    table.add_section()
    table.add_row("natural-schedules [nats]", *FIGURES[:n_columns][::-1])
    print_table(table)
    printed = capsys.readouterr().out
    assert "…" not in printed
    for figure in FIGURES[:n_columns]:
        assert printed.count(figure) == 2
    if width >= 40:
        assert max(map(len, printed.splitlines())) <= width
    assert "[nats]" in printed
    assert "natural-schedules" in printed  # no word is broken


@pytest.mark.fault
def test_words_of_several_columns(capsys, monkeypatch):
    monkeypatch.setattr(console.console, "_width", 24)
    table = Table("", "worst case", "meaning", title="a plan")
    table.columns[1].justify = "right"
    table.add_row("N", "1.182e+07", "number of iterations")
    print_table(table)
    assert capsys.readouterr().out == "a plan\nN\n  worst case: 1.182e+07\n  meaning:\n    number of iterations\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ""), (float("nan"), ""), (-0.00001, "0.0000"), (1e300, "1.0000e+300"), (-31.25, "-31.2500"),
     (float("inf"), "inf")],
)  # fmt: skip
def test_numbers(value, expected):
    assert number(value) == expected
