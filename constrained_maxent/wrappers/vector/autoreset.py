"""What a call of ``step`` says of each sub-environment, in each of Gymnasium's three autoreset modes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from constrained_maxent.errors import ReusedObservation, UnknownAutoreset
from constrained_maxent.spaces import element, leaves
from constrained_maxent.spaces.rows import parts_of

Mask = NDArray[np.bool_]

_ENDS = 4  # of which each must look overwritten


def autoreset_mode(env: gym.vector.VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """How a vector environment resets its sub-environments.

    Raises:
        UnknownAutoreset: its metadata does not say.
    """
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise UnknownAutoreset(
            f"metadata['autoreset_mode'] of {env} is {mode!r}: set it to a gymnasium.vector.AutoresetMode, so that "
            "steps can be assigned to episodes."
        )
    return mode


class Autoreset:
    """Where a vector environment puts what belongs to the last step of an episode, and when the next episode starts.

    Two masks ``(num_envs,)`` describe a call: *active*, in which sub-environments it took a step of an episode, and
    *done*, in which of these it was the last one.

    ============= =================== ================================== ===========================================
    mode          the next episode    the last step's reports            the last observation
    ============= =================== ================================== ===========================================
    ``NEXT_STEP`` starts in the next  in ``infos``                       among the observations
                  call, which takes
                  no step
    ``SAME_STEP`` starts in the same  in ``infos["final_info"]``         in ``infos["final_obs"]``; the first of the
                  call                                                   next is among the observations
    ``DISABLED``  by ``reset`` only   in ``infos``                       among the observations
    ============= =================== ================================== ===========================================

    Args:
        env: the vector environment.

    Raises:
        UnknownAutoreset: its metadata does not say how sub-environments are reset.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        self.mode = autoreset_mode(env)
        self._space, self._n_overwritten = env.single_observation_space, 0
        # What is a number alone is handed over as one.
        self._may_be_overwritten = self.mode is AutoresetMode.SAME_STEP and any(
            isinstance(leaf, gym.spaces.Box) for _, leaf in leaves(self._space)
        )

    def starting(self, active: Mask, done: Mask) -> Mask:
        """Where an episode starts with this call, so that the next call takes its first step."""
        if self.mode is AutoresetMode.SAME_STEP:
            return done
        if self.mode is AutoresetMode.NEXT_STEP:
            return ~active
        return np.zeros_like(done)

    def reports(self, infos: Mapping[str, Any], active: Mask, done: Mask) -> list[tuple[Mapping[str, Any], Mask]]:
        """Infos about the steps taken, each with the mask of what it is about; together they are about all active."""
        if self.mode is AutoresetMode.SAME_STEP:
            return [(infos, active & ~done), (self.final_reports(infos), done)]
        return [(infos, active)]

    def final_reports(self, infos: Mapping[str, Any]) -> Mapping[str, Any]:
        """Infos about the last steps of episodes."""
        if self.mode is AutoresetMode.SAME_STEP:
            final: Mapping[str, Any] = infos.get("final_info", {})
            return final
        return infos

    def look_for_reuse(self, finals: Mapping[int, Any], observations: Any) -> None:
        """Warn where what ended the first episodes equals what the next ones begin with.

        Environments may write all their observations into one array. A vector that resets in the same step hands over
        the last one only after it was overwritten by the next episode's first one.
        """
        for i, final in finals.items():
            if not self._may_be_overwritten:
                return
            self._may_be_overwritten = _same_boxes(self._space, final, element(self._space, observations, i))
            self._n_overwritten += 1
            if self._may_be_overwritten and self._n_overwritten == _ENDS:
                self._may_be_overwritten = False
                warnings.warn(
                    f"Each of the first {_ENDS} episodes ended with the very observation that the next one begins "
                    "with, as where an environment writes all observations into one array: SAME_STEP resets overwrite "
                    "the last step before anyone sees it, for λ̂, for functions of steps, and perhaps in info. Let the "
                    "environment return copies, observation.copy() and dict(info), or make the vector with "
                    "autoreset_mode=NEXT_STEP. Where episodes really end at their start, there is nothing to do.",
                    ReusedObservation,
                    stacklevel=5,
                )

    def final_observations(self, infos: Mapping[str, Any], done: Mask) -> dict[int, Any]:
        """By sub-environment: the observations that ended episodes, where those returned are of the next ones."""
        if self.mode is AutoresetMode.SAME_STEP:
            return {i: infos["final_obs"][i] for i in np.flatnonzero(done).tolist()}
        return {}


def _same_boxes(space: gym.Space[Any], one: Any, other: Any) -> bool:
    """Whether all numbers of two observations agree that lie in a ``Box``; copies may report them in another type."""
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        return all(_same_boxes(part, one[key], other[key]) for key, part in parts_of(space).items())
    if not isinstance(space, gym.spaces.Box):
        return True
    return np.array_equal(np.asarray(one, dtype=space.dtype), np.asarray(other, dtype=space.dtype))
