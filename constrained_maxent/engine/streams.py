r"""Random numbers that are a function of seed and position: SplitMix64 (Steele, Lea and Flood, 2014).

The number at position *n* of the stream with key *k* is :math:`\mathrm{mix}(k + (n + 1)\,\phi)` modulo :math:`2^{64}`,
with :math:`\phi` = ``0x9E3779B97F4A7C15``. Nothing is carried from one number to the next: a run draws the same ones
whatever runs beside it, in however many threads, and wherever it was interrupted.

Iteration *i* of a run with *B* episodes of up to *H* steps uses ``B * (2 * H + 1)`` positions, from ``i`` times as
many on: the starts of the *B* episodes, then for each time step *B* for the actions and *B* for the next states. What
an ended episode or a certain outcome does not need is skipped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.engine.compiled import inner
from constrained_maxent.types import FloatArray, IntArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE, _27, _30, _31, _11 = np.uint64(1), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53


def stream_key(seed: int) -> np.uint64:
    """The key of a seed's stream, well mixed, so that neighboring seeds have nothing in common."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


@inner
def uniform(key: np.uint64, position: int) -> float:
    """The number at a position of a stream, in [0, 1), a multiple of 2⁻⁵³."""
    z = key + (np.uint64(position) + _ONE) * _GOLDEN
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    z = z ^ (z >> _31)
    return np.float64(z >> _11) * _UNIT


def uniforms(key: np.uint64, positions: IntArray) -> FloatArray:
    """The same for many positions, by NumPy."""
    z: NDArray[np.uint64] = key + (positions.astype(np.uint64) + _ONE) * _GOLDEN
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    z = z ^ (z >> _31)
    return (z >> _11).astype(np.float64) * _UNIT
