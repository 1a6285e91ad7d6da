"""Arithmetic of worst cases: what is too large becomes infinity instead of an error, and 0 · ∞ is 0."""

from __future__ import annotations

import math

from constrained_maxent.errors import InvalidSetting


def product(*factors: float) -> float:
    """The product, 0 if any factor is 0: a term that is absent stays absent, whatever it is multiplied with."""
    return 0.0 if 0.0 in factors else math.prod(factors, start=1.0)


def divide(numerator: float, denominator: float) -> float:
    """The quotient, with 0/0 = 0, x/0 = ∞ and ∞/∞ = ∞: a bound that is not known is infinite."""
    if numerator == 0.0:
        return 0.0
    if denominator == 0.0 or math.isinf(numerator):
        return math.inf
    return numerator / denominator


def exponential(exponent: float) -> float:
    """exp, infinite where it overflows."""
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf


def round_up(count: float) -> float:
    """The next whole number, as a float because it may be infinite."""
    return float(math.ceil(count)) if math.isfinite(count) else count


def check_discount(discount: float) -> None:
    """Raise ``InvalidSetting`` unless γ lies strictly between 0 and 1, where the theory lives."""
    if not 0.0 < discount < 1.0:
        raise InvalidSetting(f"discount={discount!r} must lie in (0, 1): the theory is that of infinite horizon.")


def check_counts(**values: float) -> None:
    """Raise ``InvalidSetting`` unless all are whole numbers of at least 1, or infinite."""
    for name, value in values.items():
        if not (value >= 1 and (value == math.inf or value % 1 == 0)):
            raise InvalidSetting(f"{name}={value!r} must be a whole number of at least 1.")


def check_positive(**values: float) -> None:
    """Raise ``InvalidSetting`` unless all are finite and above 0."""
    for name, value in values.items():
        if not 0.0 < value < math.inf:
            raise InvalidSetting(f"{name}={value!r} must be a finite number above 0.")


def check_nonnegative(**values: float) -> None:
    """Raise ``InvalidSetting`` if any is negative or NaN; an infinite bound is legal."""
    for name, value in values.items():
        if not value >= 0.0:
            raise InvalidSetting(f"{name}={value!r} must be at least 0.")
