"""What the checks are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def require(condition: bool, message: str) -> None:
    """Raise ``AssertionError`` with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message + ".")


def equal(first: Any, second: Any) -> bool:
    """Equality that looks into dictionaries and arrays."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    return bool(np.array_equal(first, second))


def require_plain(value: Any, where: str) -> None:
    """Raise ``AssertionError`` unless a state consists of numbers, strings, ``None``, arrays and mappings of them."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            require_plain(entry, f"{where}[{key!r}]")
        return
    require(
        value is None
        or isinstance(value, (bool, int, float, str, np.number))
        or (isinstance(value, np.ndarray) and value.dtype != object),
        f"{where} must be numbers, strings and NumPy arrays only, got {type(value).__name__}",
    )
