"""Seeds that belong to one place in a run, and have nothing in common with those of other places.

No seed is made by addition: runs of neighboring seeds would share most of what they draw.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.spaces import Environment

EVALUATION, REFERENCE, PICTURE, COLLECTION = 1, 2, 3, 4
"""What is not training says so at the end of its place: evaluated by the seed of the training, it starts elsewhere."""


def derived_seed(*place: int) -> int:
    """The seed of one place in a run, such as (seed of the run, iteration); in 32 bits, which every generator takes."""
    return int(np.random.SeedSequence(place).generate_state(1)[0])


def derived_reset_seed(env: Environment, *place: int) -> Any:
    """What ``reset(seed=)`` of an environment takes at a place: a list for copies that have generators of their own.

    Of a single number Gymnasium's vector environments would make neighboring seeds. Where all copies draw from one
    generator, and for a scalar environment, it is a single one.
    """
    bare: Any = env.unwrapped
    if isinstance(bare, (gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv)) or getattr(
        bare, "seeds_each_copy", False
    ):
        return [int(seed) for seed in np.random.SeedSequence(place).generate_state(bare.num_envs)]
    return derived_seed(*place)
