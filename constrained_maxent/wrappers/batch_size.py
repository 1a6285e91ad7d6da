"""Which sizes of a batch make sense."""

from __future__ import annotations

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import check_count


def check_batch_size(
    episodes_per_batch: int | None, steps_per_batch: int | None, *, pairing: str, num_envs: int = 1
) -> None:
    """Raise ``InvalidSetting`` unless exactly one batch size is given and pairing and environments can use it."""
    if (episodes_per_batch is None) == (steps_per_batch is None):
        raise InvalidSetting("Give one of episodes_per_batch= (whole episodes) and steps_per_batch= (steps).")
    name = "episodes_per_batch" if steps_per_batch is None else "steps_per_batch"
    size = check_count(name, episodes_per_batch if steps_per_batch is None else steps_per_batch)
    if pairing == "split" and size < 2:
        raise InvalidSetting(f"pairing='split' needs two halves: {name} must be at least 2.")
    if size < num_envs:
        raise InvalidSetting(
            f"{name}={size} is less than the {num_envs} sub-environments, so that batches would end faster than one "
            f"per step: take {name} of at least {num_envs}, or fewer sub-environments."
        )
