"""Many copies of one MuJoCo model, stepped together by ``mujoco.rollout`` on all cores."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.envs.mujoco_model import MujocoStates, as_model, checked_state, mujoco, rollout
from constrained_maxent.types import FloatArray, check_count

LARGEST_SOUND_VALUE = 1e10
"""MuJoCo calls a position or velocity beyond it, or NaN, an unstable simulation (``mjMAXVAL``)."""


class MujocoSimulation:
    """The states of ``n`` copies of a model, all stepped by one call; arguments as in ``MujocoVectorEnv``.

    A step is the same function of state and control whoever computes it: like ``mujoco.rollout``, it starts the
    constraint solver cold, not from the accelerations of the step before. The model must not depend on absolute time.
    """

    def __init__(self, model: Any, n: int, *, frame_skip: int, threads: int | None) -> None:
        self.n, self.frame_skip = check_count("num_envs", n), check_count("frame_skip", frame_skip)
        self._requested_threads = None if threads is None else check_count("threads", threads)
        self.model = copy.copy(as_model(model))
        # Some models ask for their energy in every step. It changes no motion, and nobody here could read it.
        self.model.opt.enableflags &= ~mujoco.mjtEnableBit.mjENBL_ENERGY.value
        self.timestep = float(self.model.opt.timestep) * self.frame_skip

        nq, nv, na = int(self.model.nq), int(self.model.nv), int(self.model.na)
        self._qpos, self._qvel = slice(1, 1 + nq), slice(1 + nq, 1 + nq + nv)
        self._motion, self._act = slice(1, 1 + nq + nv), slice(1 + nq + nv, 1 + nq + nv + na)
        # Time, positions, velocities, activations and the rest, right after MuJoCo's own reset.
        signature = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
        self._initial = np.empty(mujoco.mj_stateSize(self.model, signature))
        mujoco.mj_getState(self.model, mujoco.MjData(self.model), self._initial, signature)
        # MuJoCo answers an unstable step by resetting time and state to those of the model. A clock that starts between
        # two steps gives that away: no multiple of the time step past it equals one past zero.
        self._initial[0] = 0.5 * float(self.model.opt.timestep)
        self._rows = np.tile(self._initial, (self.n, 1))
        self._elapsed = np.zeros(self.n, dtype=np.int64)
        self._start_engine()

    def _start_engine(self) -> None:
        """Make what cannot be pickled: worker threads, and MuJoCo's scratch memory, one for each of them."""
        has_affinity = hasattr(os, "sched_getaffinity")
        cores = self._requested_threads or (len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1)
        self.threads = min(cores, self.n)
        self._pool = rollout.Rollout(nthread=0 if self.threads == 1 else self.threads)
        self._scratch = [mujoco.MjData(self.model) for _ in range(self.threads)]
        self._models = [self.model] * self.n
        # MuJoCo's default, ten portions a thread, spends more on handing them out than it gains by balance.
        self._portion = max(1, self.n // (4 * self.threads))
        self._results = np.empty((self.n, self.frame_skip, len(self._initial)))
        self._sensors = np.empty((self.n, self.frame_skip, int(self.model.nsensordata)))
        self._controls = np.zeros((self.n, self.frame_skip, int(self.model.nu)))

    def states(self, copies: NDArray[np.int64] | slice = slice(None)) -> MujocoStates:
        """The states of some of the copies, by default of all."""
        rows = self._rows[copies]
        time = np.multiply(self._elapsed[copies], self.timestep, dtype=np.float64)
        qpos, qvel, act = rows[:, self._qpos], rows[:, self._qvel], rows[:, self._act]
        for view in (qpos, qvel, act):
            view.flags.writeable = False
        return MujocoStates(qpos=qpos, qvel=qvel, act=act, time=time)

    def set_state(self, i: int, qpos: Any, qvel: Any) -> None:
        """Put copy ``i`` into a state, checked, at time 0 and with activations as the model has them."""
        row = self._initial.copy()
        for name, where, values in (("qpos", self._qpos, qpos), ("qvel", self._qvel, qvel)):
            row[where] = checked_state(name, values, (where.stop - where.start,))
        self._rows[i], self._elapsed[i] = row, 0

    def step(self, controls: FloatArray) -> NDArray[np.bool_]:
        """Apply one control ``(n, nu)`` to each copy. Those that become unstable, ``(n,)``, stay where they were."""
        self._controls[:] = controls[:, None, :]
        self._pool.rollout(
            self._models,
            self._scratch,
            self._rows,
            self._controls,
            skip_checks=True,
            nstep=self.frame_skip,
            state=self._results,
            sensordata=self._sensors,
            chunk_size=self._portion,
        )
        before, after = self._rows, self._results[:, -1].copy()
        sound = (np.abs(after[:, self._motion]) <= LARGEST_SOUND_VALUE).all(axis=1)
        drift = np.abs(after[:, 0] - before[:, 0] - self.timestep)
        failed: NDArray[np.bool_] = ~(sound & (drift < 0.25 * self.timestep / self.frame_skip))
        if failed.any():
            after[failed] = before[failed]
        self._rows = after
        self._elapsed += 1
        return failed

    def close(self) -> None:
        """Stop the worker threads; a later step is an error."""
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _MADE_ANEW}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start_engine()


_MADE_ANEW = frozenset({"threads", "_pool", "_scratch", "_models", "_portion", "_results", "_sensors", "_controls"})
