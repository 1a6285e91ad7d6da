"""Names that environments, wrappers and agents agree on."""

from __future__ import annotations

NEW_BATCH = "new_batch"
"""``reset(options={NEW_BATCH: True})`` forgets the batch under way: for an agent whose policy has just changed."""

VOID = "physics_error"
"""An episode is void if the ``info`` of its last step has this key and it is true: what led there was no physics."""
