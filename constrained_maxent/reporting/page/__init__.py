"""Pages of one file for a browser and a printer: what stands on them, and how they are written.

A page is data: sections of blocks, such as words, tables and pictures. The template and the style sheet beside this
file make HTML of it, with all images and films inside, no script and nothing to be fetched.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import jinja2
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from constrained_maxent.reporting.training import fit_legends

Status = Literal["kept", "broken", "undecided", ""]
"""Of a limit, which is shown in color, and always by a word as well; ``""`` of what is no limit."""

Shape = Literal["curves", "map", "strip"]
"""Of a figure: axes of two units; axes of one; or images in a row, wider than a page."""

WIDE, NARROW = 8.4, 4.2
"""Widths that figures are drawn for, on a wide page and on a telephone [inches]."""
_DPI = 160


@dataclass(frozen=True)
class Words:
    """A paragraph; a ``quiet`` one explains what stands above it."""

    kind: ClassVar[str] = "words"
    text: str
    quiet: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading below that of the section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Formulas:
    """Lines of mathematics: a verb such as "maximize", the formula, and what it means in words."""

    kind: ClassVar[str] = "formulas"
    lines: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Key:
    """A figure that matters more than others."""

    label: str
    value: str
    note: str = ""
    status: Status = ""


@dataclass(frozen=True)
class Keys:
    """The figures that matter most, side by side."""

    kind: ClassVar[str] = "keys"
    entries: Sequence[Key]


@dataclass(frozen=True)
class Facts:
    """Terms and what they are."""

    kind: ClassVar[str] = "facts"
    entries: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """A first column of words, and columns of figures; ``left`` names the other columns of words.

    Attributes:
        headings: of all columns.
        rows: cells of each, as many as headings.
        caption: what it shows.
        left: numbers of columns that are words, besides the first.
        statuses: of the rows, where they are limits.
    """

    kind: ClassVar[str] = "table"
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    left: Sequence[int] = ()
    statuses: Sequence[Status] = ()


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, drawn for wide pages and for narrow ones; made by :meth:`of`.

    Attributes:
        wide, narrow: PNG; a strip has but one, which narrow pages scroll.
        width: of the wide one at its natural size [CSS pixels].
        alt: what it shows, for those who do not see it.
        caption: below it.
    """

    kind: ClassVar[str] = "picture"
    wide: bytes
    narrow: bytes | None
    width: int
    alt: str
    caption: str

    @classmethod
    def of(cls, figure: Figure, *, alt: str, caption: str, shape: Shape = "curves") -> Picture:
        """Draw a figure for wide pages, and again for narrow ones, with letters of the same size.

        Args:
            figure: its size and its legends are changed.
            alt, caption: see above.
            shape: curves become less wide on narrow pages, and hardly less high; a map becomes smaller.
        """
        width, height = figure.get_size_inches()
        if shape == "strip":
            return cls(_drawn(figure, width, height), None, round(96 * width), alt, caption)
        shown, least = min(width, WIDE), min(width, NARROW)
        wide = _drawn(figure, shown, height * shown / width)
        fit_legends(figure, least)
        narrow = _drawn(figure, least, height * (least / width) ** (0.3 if shape == "curves" else 1.0))
        return cls(wide, narrow, round(96 * shown), alt, caption)


@dataclass(frozen=True, eq=False)
class Film:
    """A short film, and the image that stands in its place on paper.

    Attributes:
        video: MP4.
        poster: JPEG.
        width: of both [CSS pixels].
        alt, caption: as those of a picture.
    """

    kind: ClassVar[str] = "film"
    video: bytes
    poster: bytes
    width: int
    alt: str
    caption: str


@dataclass(frozen=True)
class Commands:
    """What to type, a line each."""

    kind: ClassVar[str] = "commands"
    lines: Sequence[str]


@dataclass(frozen=True)
class Output:
    """Text as a program printed it."""

    kind: ClassVar[str] = "output"
    text: str


@dataclass(frozen=True)
class Notes:
    """Warnings and the like: each a name, when it was, and what it says."""

    kind: ClassVar[str] = "notes"
    entries: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown when they are asked for; on paper, always."""

    kind: ClassVar[str] = "folded"
    title: str
    blocks: Sequence[Block]


Block = Words | Heading | Formulas | Keys | Facts | Table | Picture | Film | Commands | Output | Notes | Folded


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: of the window, and the first heading.
        subtitle: a line below it.
        head: blocks above the first section.
        sections: in their order.
        foot: a line at the end.
    """

    title: str
    subtitle: str
    sections: Sequence[Section]
    head: Sequence[Block] = field(default=())
    foot: str = ""


def render(page: Page) -> str:
    """The HTML of a page. Whatever its words hold, they stay words."""
    return _template().render(page=page, css=Markup((_HERE / "page.css").read_text(encoding="utf-8")))


_HERE = Path(__file__).parent


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode("ascii")
    environment.filters["formula"] = formula
    environment.filters["options"] = lambda command: re.split(r" (?=--)", command)
    environment.filters["breakable"] = breakable
    environment.filters["slug"] = lambda title: re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return environment.get_template("page.html")


def formula(text: str) -> Markup:
    """Mathematics in Unicode as HTML: single letters are variables, and what follows ``_`` is their index.

    >>> print(formula("‖d − d_ref‖₂ ≤ 1"))
    ‖<var>d</var> − <var>d</var><sub>ref</sub>‖₂ ≤ 1
    """
    escaped = str(escape(text))
    indexed = re.sub(rf"(?<!\w)({_LETTER})_(ref|max)\b", r"<var>\1</var><sub>\2</sub>", escaped)
    return Markup(re.sub(rf"(?<![\w&<>/])({_LETTER})(?![\w;>])", r"<var>\1</var>", indexed))


_LETTER = "[A-Za-zα-ωℒ]"


def breakable(text: str) -> Markup:
    """Long names of one word, which may end a line behind their punctuation."""
    return Markup(re.sub(r"([-_/.])", r"\1<wbr>", str(escape(text))))


def _drawn(figure: Figure, width: float, height: float) -> bytes:
    figure.set_size_inches(width, height)
    file = io.BytesIO()
    options: dict[str, Any] = {"format": "png", "dpi": _DPI, "bbox_inches": "tight", "pad_inches": 0.05}
    figure.savefig(file, **options)
    return file.getvalue()
