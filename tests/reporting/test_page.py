"""Pages: what becomes of words, formulas, tables and pictures."""

import io
import re

import numpy as np
import pytest
from matplotlib.image import imread

from constrained_maxent.reporting import training_figure
from constrained_maxent.reporting.page import (
    NARROW,
    Block,
    Commands,
    Facts,
    Folded,
    Formulas,
    Heading,
    Key,
    Keys,
    Notes,
    Output,
    Page,
    Picture,
    Section,
    Table,
    Words,
    formula,
    render,
)

BAD = "<b onclick='x'>&amp;</b>"


def shown(*blocks: Block) -> str:
    return render(Page(title="A page", subtitle="of blocks", sections=[Section("One", blocks)]))


@pytest.mark.parametrize(
    "block",
    [
        Words(BAD),
        Heading(BAD),
        Formulas([(BAD, BAD, BAD)]),
        Keys([Key(BAD, BAD, BAD)]),
        Facts({BAD: BAD}),
        Table([BAD, BAD], [[BAD, BAD]], BAD),
        Commands([BAD]),
        Output(BAD),
        Notes([(BAD, BAD, BAD)]),
        Folded(BAD, [Words(BAD)]),
    ],
    ids=lambda block: block.kind,
)
def test_words_stay_words(block):
    page = shown(block)
    # An ampersand that is written as one is another ampersand in HTML.
    assert "<b " not in page
    assert "&lt;" in page
    assert "&amp;amp;" in page


def test_titles_stay_words():
    page = render(Page(title=BAD, subtitle=BAD, sections=[Section(BAD, [])], foot=BAD))
    assert "<b " not in page


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H(λ)", "<var>H</var>(<var>λ</var>)"),
        ("‖λ − λ_ref‖₂", "‖<var>λ</var> − <var>λ</var><sub>ref</sub>‖₂"),
        ("⟨cost_speed, λ⟩ ≤ 0.5", "⟨cost_speed, <var>λ</var>⟩ ≤ 0.5"),
        ("R < 0", "<var>R</var> &lt; 0"),
        ("a<b>", "<var>a</var>&lt;<var>b</var>&gt;"),
    ],
)
def test_formula(text, expected):
    assert str(formula(text)) == expected


def test_figures_stand_right_and_words_left():
    page = shown(Table(["", "value", "source"], [["x", "1.0", "exact"]], left=(2,), statuses=["kept"]))
    assert '<th scope="row">x</th><td class="figure">1.0</td><td>exact</td>' in page
    assert '<tr class="kept">' in page


def test_commands_break_between_options():
    page = shown(Commands(["cmaxent train X --beta 0.5 --limit=-1"]))
    assert "<i>cmaxent train X</i> <i>--beta 0.5</i> <i>--limit=-1</i>" in page


class TestPicture:
    @pytest.fixture
    def figure(self):
        x = np.arange(5.0)
        named = {"a long name of an optimum that depends on time": 3.0}
        return training_figure(x, x, {"cost": x}, limits={"cost": 1.0}, exact_objective=x, references=named)

    def test_curves_are_drawn_anew_for_narrow_pages(self, figure):
        picture = Picture.of(figure, alt="curves", caption="below")
        wide, narrow = (imread(io.BytesIO(content)) for content in (picture.wide, picture.narrow))
        # A figure is cut to what is drawn, here within a fifth: legends do not stick out of either.
        for image, inches in ((wide, 7.0), (narrow, NARROW)):
            assert 0.8 < image.shape[1] / (160 * inches) < 1.05
        assert narrow.shape[0] > 0.6 * wide.shape[0]
        assert picture.width == 7 * 96
        # The axes keep most of the narrow width.
        assert figure.axes[0].get_position().width > 0.6

    def test_a_strip_is_drawn_once(self, figure):
        picture = Picture.of(figure, alt="strip", caption="below", shape="strip")
        assert picture.narrow is None
        assert '<div class="scroll strip"' in shown(picture)

    def test_is_inside(self, figure):
        page = shown(Picture.of(figure, alt="what it shows", caption="below"))
        assert len(re.findall("data:image/png;base64,iVBOR", page)) == 2
        assert 'alt="what it shows"' in page
