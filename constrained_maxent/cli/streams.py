"""Output of the command line where the stream cannot write every letter, such as β in ASCII."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_HANDLER = "constrained_maxent.spelled"


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """Greek letters by their names, ``beta`` for β; all else as in Python's source, so that nothing is lost."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    written = []
    for letter in error.object[error.start : error.end]:
        words = unicodedata.name(letter, "").split()
        is_greek = words[:3] == ["GREEK", "SMALL", "LETTER"]
        written.append(words[-1].lower() if is_greek else letter.encode("ascii", "backslashreplace").decode())
    return "".join(written), error.end


codecs.register_error(_HANDLER, _spelled)


@contextmanager
def speaking(stream: Any) -> Iterator[None]:
    """The stream writes something for every letter meanwhile, and raises no ``UnicodeEncodeError``."""
    before = getattr(stream, "errors", None)
    if before is None or not hasattr(stream, "reconfigure"):
        yield
        return
    stream.reconfigure(errors=_HANDLER)
    try:
        yield
    finally:
        if not stream.closed:
            stream.reconfigure(errors=before)
