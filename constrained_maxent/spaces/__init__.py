"""Observations and actions as rows of numbers and back, parts of them, and the elements of finite spaces as numbers."""

from constrained_maxent.spaces.environments import Environment, Space, are_alike, require_own_spaces, single_spaces
from constrained_maxent.spaces.finite import FiniteSpace
from constrained_maxent.spaces.rows import (
    as_batch,
    as_row,
    as_rows,
    components,
    element,
    from_row,
    from_rows,
    is_finite,
    is_single,
    kept_rows,
    narrowed,
    row_space,
    width,
)
from constrained_maxent.spaces.selection import Selection, leaves, with_numbers

__all__ = [
    "Environment",
    "FiniteSpace",
    "Selection",
    "Space",
    "are_alike",
    "as_batch",
    "as_row",
    "as_rows",
    "components",
    "element",
    "from_row",
    "from_rows",
    "is_finite",
    "is_single",
    "kept_rows",
    "leaves",
    "narrowed",
    "require_own_spaces",
    "row_space",
    "single_spaces",
    "width",
    "with_numbers",
]
