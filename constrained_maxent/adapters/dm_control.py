"""dm_control's tasks in Shimmy's adapter, so that seeds reach all that they draw."""

# ruff: noqa: NPY002  # it is the global generator that dm_control draws from
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.horizon import inner_of
from constrained_maxent.seeds import derived_seed
from constrained_maxent.wrappers.layers import VOID, require_scalar

NAMESPACE = "dm_control"
"""Of the ids that Shimmy registers."""

_LARGEST_SEED = 2**32 - 1  # of numpy.random.RandomState, which dm_control draws from


class DmControlTask(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """What an id of Shimmy's makes, ``dm_control/<domain>-<task>-v0``, with seeds that reach the task.

    Shimmy's ``reset(seed=)`` gives the task, or composer's environment, a generator. What is left out, and done here:

    - ``lqr`` draws the stiffness and damping of its joints as it is made, so that no two copies are the same process.
      Here they are drawn from seed 0, unless ``task_kwargs={"random": ...}`` says otherwise.
    - mazes draw from generators of their own, other tasks from NumPy's global one, and some change lists of theirs in
      place. Shimmy registers these as nondeterministic: with a seed they are made anew, which takes as long as the
      first time, and NumPy's global generator is seeded while they act, and put back.
    - generators below a wrapper of dm_control's own are not found by Shimmy; seeds of more than 32 bits are refused.

    Where the simulation becomes unstable, dm_control raises an error. Here the episode is truncated, with
    ``info["physics_error"]`` true, and counts for nothing.

    It belongs around each copy: ``gym.make_vec(id, wrappers=[DmControlTask, FloatInfo], ...)``. ``cmaxent`` puts it
    there.

    Raises:
        InvalidSetting: a vector environment, or no environment of dm_control in Shimmy's adapter.

    >>> env = DmControlTask(gym.make("dm_control/pendulum-swingup-v0"))  # doctest: +SKIP
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        require_scalar(env, "DmControlTask")
        if not hasattr(env.unwrapped, "env_type"):
            raise InvalidSetting(
                f"{env} is no task of dm_control in Shimmy's adapter: take one of its ids, dm_control/…"
            )
        spec = env.spec
        if spec is not None and spec.name.startswith("lqr-") and "random" not in (spec.kwargs.get("task_kwargs") or {}):
            env = _made_anew(env, task_kwargs={**(spec.kwargs.get("task_kwargs") or {}), "random": 0})
        gym.Wrapper.__init__(self, env)
        self._draws_elsewhere = spec is not None and spec.nondeterministic
        self._generator: np.random.RandomState | None = None  # in the place of NumPy's global one
        self._observation: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            seed = seed if seed <= _LARGEST_SEED else derived_seed(seed)
            self._generator = np.random.RandomState(derived_seed(seed, 1)) if self._draws_elsewhere else None
        with self._global_generator():
            if seed is not None:
                if self._draws_elsewhere:
                    self.env = _made_anew(self.env)
                self._seed_innermost(seed)
            self._observation, info = self.env.reset(seed=seed, options=options)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        from dm_control.rl.control import PhysicsError  # whoever made such an environment has imported it

        try:
            with self._global_generator():
                reply = self.env.step(action)
        except PhysicsError:
            return deepcopy(self._observation), 0.0, False, True, {VOID: True}
        self._observation = reply[0]
        return reply

    def _seed_innermost(self, seed: int) -> None:
        """Shimmy sets the generator of what it is around, which may be a wrapper of dm_control's own."""
        innermost, outer = inner_of(self.env.unwrapped), None
        while (inner := inner_of(innermost)) is not None:
            innermost, outer = inner, innermost
        if outer is not None:
            holder, name = (
                (innermost, "_random_state") if hasattr(innermost, "_random_state") else (innermost.task, "_random")
            )
            setattr(holder, name, np.random.RandomState(seed))

    @contextmanager
    def _global_generator(self) -> Iterator[None]:
        """NumPy's global generator is this environment's, and afterwards what it was."""
        if self._generator is None:
            yield
            return
        before = np.random.get_state()
        np.random.set_state(self._generator.get_state())
        try:
            yield
        finally:
            self._generator.set_state(np.random.get_state())
            np.random.set_state(before)


def _made_anew(env: gym.Env[Any, Any], **arguments: Any) -> gym.Env[Any, Any]:
    spec = deepcopy(env.spec)
    assert spec is not None
    spec.kwargs |= arguments
    env.close()
    return gym.make(spec)
