"""Minari's data sets: episodes that were stepped become one, and anyone's becomes an occupancy."""

from constrained_maxent.adapters.minari.data import batch, reference
from constrained_maxent.adapters.minari.recording import Episode, Recording
from constrained_maxent.adapters.minari.store import OURS, Store, episodes_of, open_dataset, require_minari

__all__ = [
    "OURS",
    "Episode",
    "Recording",
    "Store",
    "batch",
    "episodes_of",
    "open_dataset",
    "reference",
    "require_minari",
]
