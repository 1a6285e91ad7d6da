"""When the end of an episode is one of the problem's, and not of a mere time limit: one answer for all agents."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.occupancy import Weighting
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers.layers import require_vector
from constrained_maxent.wrappers.vector.autoreset import autoreset_mode


def ends_problem(weighting: Weighting, lengths: ArrayLike) -> NDArray[np.bool_]:
    """Whether episodes that were truncated at these lengths [steps] have reached the end of the problem itself.

    A finite discounted problem, such as the grid's 25 steps, ends with its horizon: nothing is earned after it, and an
    agent that bootstraps there is paid for what never happens. Where the occupancy weighs all steps alike (discount 1)
    a time limit only cuts an episode short, and so does an end before the horizon; then agents bootstrap from the last
    observation. Episodes that were terminated need no answer.

    Args:
        weighting: the occupancy's, ``tracker.weighting``.
        lengths: of the episodes that were truncated, any shape.

    >>> ends_problem(Weighting(discount=0.99, horizon=25), [24, 25]).tolist()
    [False, True]
    >>> ends_problem(Weighting(discount=1.0, horizon=25), 25).tolist()
    False
    """
    reached = np.asarray(lengths) == weighting.horizon if weighting.horizon is not None else np.zeros_like(lengths)
    return np.asarray(reached & (weighting.discount < 1.0), dtype=np.bool_)


class TerminalHorizon(gym.vector.VectorWrapper):  # in Gymnasium 1.2 not generic
    """Episodes that reach the end of the problem are terminated, as :func:`ends_problem` has it; others stay truncated.

    For agents that ask ``terminated`` and ``truncated`` alone, or the first of them: Tianshou's, skrl's, TorchRL's and
    your own. It belongs on top of a vector stack, as λ̂ and exact values are those of the stack below.

    Args:
        env: a vector stack with ``TrackOccupancy`` in it.

    Raises:
        InvalidSetting: a scalar environment.
        MissingTracker: no ``TrackOccupancy`` below.

    >>> env = TerminalHorizon(gym.make_vec("constrained_maxent:FrozenLake-PGP-v0", num_envs=2, iterations=1000))
    >>> _ = env.reset(seed=0)
    >>> for _ in range(25):  # to the left: nobody moves
    ...     _, _, terminated, truncated, _ = env.step([0, 0])
    >>> terminated.tolist(), truncated.tolist()
    ([True, True], [False, False])
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        require_vector(env, "TerminalHorizon")
        super().__init__(env)
        self.tracker = find_tracker(env)
        self.autoreset_mode = autoreset_mode(env)
        self._lengths = np.zeros(env.num_envs, dtype=np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._lengths[(options or {}).get("reset_mask", slice(None))] = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._lengths += 1
        at_end = truncated & ends_problem(self.tracker.weighting, self._lengths)
        # In NEXT_STEP the call after an end takes no step.
        self._lengths[terminated | truncated] = -1 if self.autoreset_mode is AutoresetMode.NEXT_STEP else 0
        return observations, rewards, terminated | at_end, truncated & ~at_end, infos
