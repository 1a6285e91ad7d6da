"""What docstrings here are written in, as the Markdown that the site is made of."""

from __future__ import annotations

import re
from textwrap import dedent, indent
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`(~?)(?:([^`<]+?)\s*<)?([^`<>]+)>?`")
_INLINE_MATH = re.compile(r":math:`([^`]+)`")
_DISPLAY_MATH = re.compile(r"^([ \t]*)\.\. math::([^\n]*)\n((?:[ \t]*\n|\1[ \t]+[^\n]*(?:\n|$))*)", re.MULTILINE)
_DOCTEST = re.compile(r"^([ \t]*)>>> (?:[^\n]+(?:\n|$))+", re.MULTILINE)


class Markdown(griffe.Extension):
    """Rewrites roles, formulas and doctests of every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """An object was read."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value, within=obj.module.path)


def as_markdown(text: str, *, within: str) -> str:
    """The text with links, formulas between dollars, and doctests as blocks of code.

    Args:
        text: of a docstring.
        within: the module that names without a path belong to.
    """
    text = _DISPLAY_MATH.sub(_display, text)
    text = _INLINE_MATH.sub(lambda match: f"${' '.join(match[1].split())}$", text)
    text = _ROLE.sub(lambda match: _link(match, within), text)
    return _DOCTEST.sub(lambda match: _fenced(match[0], match[1]), text)


def _display(match: re.Match[str]) -> str:
    lines = dedent("\n".join([match[2].strip(), dedent(match[3]).strip()])).strip()
    return indent(f"\n$$\n{lines}\n$$\n\n", match[1])


def _link(match: re.Match[str], within: str) -> str:
    is_short, title, target = match.groups()
    shown = title or (target.rpartition(".")[2] if is_short else target)
    path = target if "." in target else f"{within}.{target}"
    # Optional: what has no page, such as what is not public, stays a word.
    return f'<autoref optional identifier="{path}"><code>{shown}</code></autoref>'


def _fenced(block: str, margin: str) -> str:
    return f"{margin}```pycon\n{block.rstrip()}\n{margin}```\n"
