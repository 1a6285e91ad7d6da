"""A frozen lake whose holes cost something instead of ending the episode: the paper's grid world."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.core import RenderFrame
from gymnasium.envs.toy_text import frozen_lake as toy_text
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from constrained_maxent.envs.episodes import can_render, check_render_mode
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import is_number

MAPS: dict[str, list[str]] = {
    "6x6": ["SFFFFF", "FFFFFF", "FFHHFF", "FFHHFF", "FFFFFF", "FFFFFG"],
    **toy_text.MAPS,
}
"""Lakes by name, a string for each row: S the start, F ice, H a hole, G the goal. "6x6" is the paper's; Gymnasium's are
there too."""


@dataclass(frozen=True)
class LakeTables:
    """The dynamics of a lake as tables that steps look up. States are numbered row by row.

    Attributes:
        successors: int64 (n_states, n_actions, n_outcomes), the equally likely next states.
        costs: float64 (n_states,), the cost of any action taken in a state.
        rewards: float64 (n_states,), the reward of entering a state.
        terminal: bool (n_states,), whether entering a state ends the episode.
        starts: int64 (n_starts,), the equally likely first states.
    """

    successors: NDArray[np.int64]
    costs: NDArray[np.float64]
    rewards: NDArray[np.float64]
    terminal: NDArray[np.bool_]
    starts: NDArray[np.int64]


class SafeFrozenLake(toy_text.FrozenLakeEnv):
    r"""Walk over the ice to the goal; an action taken in a hole costs ``hole_cost``, one elsewhere ``base_cost``.

    The cost :math:`c(s_t, a_t)` belongs to the state in which the action was taken. It is ``info["cost"]`` of every
    step, so a walk through a hole pays on the step *after* the one that enters it. The reward is 1 on entering the
    goal, which ends the episode, and 0 otherwise.

    Drawing is Gymnasium's, with one difference: while the agent stands in a hole, that tile is drawn as ice, because
    Gymnasium hides an agent in a hole.

    Args:
        map_name: ``"6x6"`` (the paper's), or Gymnasium's ``"4x4"`` and ``"8x8"``.
        desc: rows of ``S`` (start), ``F`` (ice), ``H`` (hole) and ``G`` (goal), instead of a named map. The start is
            uniform over all ``S``. Without a ``G`` no state is terminal.
        slippery: the move goes the intended way or to either side of it, with probability 1/3 each.
        horizon: steps after which the episode is truncated [steps]; ``None`` means never.
        hole_cost: cost of an action taken in a hole.
        base_cost: cost of an action taken on any other tile.
        render_mode: ``"human"``, ``"ansi"``, ``"rgb_array"`` or ``None``.

    Attributes:
        P: ``{state: {action: [(probability, next_state, reward, terminated), ...]}}``, as in Gymnasium's toy-text.
        initial_state_distrib: float64 (n_states,), the start distribution.
        horizon: as given.
        tables: the same dynamics as arrays.

    Raises:
        InvalidSetting: an argument or an action makes no sense.
        gymnasium.error.ResetNeeded: ``step`` without a running episode, or ``render`` before the first ``reset``.

    >>> RIGHT, DOWN = 2, 1
    >>> env = SafeFrozenLake(desc=["SHG"])
    >>> env.reset(seed=0)
    (0, {})
    >>> env.step(RIGHT)
    (1, 0.0, False, False, {'cost': np.float64(-0.001)})
    >>> env.step(RIGHT)
    (2, 1.0, True, False, {'cost': np.float64(50.0)})
    """

    desc: NDArray[np.bytes_]  # type: ignore[assignment]  # the base class declares what its constructor takes

    def __init__(
        self,
        *,
        map_name: str = "6x6",
        desc: Sequence[str] | None = None,
        slippery: bool = False,
        horizon: int | None = 25,
        hole_cost: float = 50.0,
        base_cost: float = -0.001,
        render_mode: str | None = None,
    ) -> None:
        rows = _rows(desc, map_name)
        if horizon is not None and not (is_number(horizon) and horizon >= 1 and horizon % 1 == 0):
            raise InvalidSetting(f"horizon={horizon!r} must be a whole number of steps, at least 1, or None (never).")
        for name, cost in {"hole_cost": hole_cost, "base_cost": base_cost}.items():
            if not (is_number(cost) and math.isfinite(cost)):
                raise InvalidSetting(f"{name}={cost!r} must be a finite number.")
        check_render_mode(render_mode, self.metadata["render_modes"])

        # Toy-text's dynamics end the episode in every hole: let them see ice.
        super().__init__(render_mode=render_mode, desc=[row.replace("H", "F") for row in rows], is_slippery=slippery)
        # Whatever the version of Gymnasium, what pygame fills in at the first drawing is None until then.
        self._drawing = [name for name, value in vars(self).items() if value is None and name != "render_mode"]
        self.desc = np.asarray(rows, dtype="c")

        self.horizon = horizon
        self.tables = self._tables(hole_cost, base_cost)
        # Indexing a list costs a fraction of indexing an array.
        self._successors = self.tables.successors.tolist()
        self._costs = list(self.tables.costs)  # NumPy's scalars, as collators of infos want them
        self._rewards = self.tables.rewards.tolist()
        self._terminal = self.tables.terminal.tolist()
        self._starts = self.tables.starts.tolist()

        self.s = None
        self._running = False
        self._elapsed = 0

    def _tables(self, hole_cost: float, base_cost: float) -> LakeTables:
        tiles = self.desc.ravel()
        successors = [[[outcome[1] for outcome in outcomes] for outcomes in row.values()] for row in self.P.values()]
        n_outcomes = max(len(states) for row in successors for states in row)
        return LakeTables(
            # Terminal states have a single outcome, themselves; `resize` repeats it.
            successors=np.array([[np.resize(states, n_outcomes) for states in row] for row in successors], np.int64),
            costs=np.where(tiles == b"H", float(hole_cost), float(base_cost)),
            rewards=np.where(tiles == b"G", 1.0, 0.0),
            terminal=tiles == b"G",
            starts=np.flatnonzero(tiles == b"S").astype(np.int64),
        )

    @property
    def cost_tables(self) -> dict[str, NDArray[np.float64]]:
        """The cost of each action in each state, ``{"cost": float64 (n_states, n_actions)}``."""
        return {"cost": np.repeat(self.tables.costs[:, None], self.tables.successors.shape[1], axis=1)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode.

        Returns:
            The start state and an empty info: no action, no cost.
        """
        gym.Env.reset(self, seed=seed)
        self.s = self._starts[self.np_random.integers(len(self._starts))]
        self.lastaction = None
        self._running = True
        self._elapsed = 0
        if self.render_mode == "human":
            self.render()
        return self.s, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take one action: 0 left, 1 down, 2 right, 3 up. Walking against the edge stays in place.

        Returns:
            Next state, reward, terminated, truncated, and ``{"cost": float}`` of the state that was left.
        """
        if not self._running:
            raise ResetNeeded("No episode is running: call reset() before the first step() and after an episode's end.")
        if action not in self.action_space:
            raise InvalidSetting(f"action={action!r} must be a whole number: 0 left, 1 down, 2 right, 3 up.")
        cost = self._costs[self.s]
        outcomes = self._successors[self.s][action]
        self.s = outcomes[0] if len(outcomes) == 1 else outcomes[self.np_random.integers(len(outcomes))]
        self.lastaction = int(action)
        self._elapsed += 1
        terminated = self._terminal[self.s]
        truncated = self._elapsed == self.horizon
        self._running = not (terminated or truncated)
        if self.render_mode == "human":
            self.render()
        return self.s, self._rewards[self.s], terminated, truncated, {"cost": cost}

    def render(self) -> RenderFrame | list[RenderFrame] | None:
        """Draw the lake: text (``"ansi"``), uint8 (height, width, 3) (``"rgb_array"``), or a window (``"human"``)."""
        if not can_render(self, started=self.s is not None):
            return None
        tile = divmod(self.s, self.ncol)
        letter = self.desc[tile]
        if self.render_mode != "ansi" and letter == b"H":
            self.desc[tile] = b"F"
        try:
            frame: RenderFrame | list[RenderFrame] | None = super().render()  # type: ignore[no-untyped-call]
        finally:
            self.desc[tile] = letter
        return frame

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what pygame holds, which cannot be pickled or copied; the next drawing makes it anew."""
        return {**vars(self), **dict.fromkeys(self._drawing)}


def _rows(desc: Sequence[str] | None, map_name: str) -> list[str]:
    """The rows of the map, each a string of ``SFHG``, checked."""
    if desc is None:
        if map_name not in MAPS:
            raise InvalidSetting(f"map_name={map_name!r} must be one of {', '.join(MAPS)}; or pass desc=.")
        desc = MAPS[map_name]
    try:
        # A single string is a sequence of strings, too, but hardly a lake of width 1.
        rows = [] if isinstance(desc, str) else ["".join(row) for row in desc]
    except TypeError:
        rows = []
    # Where rows are one tile wide, toy-text's array of letters loses a dimension.
    widths, tiles = set(map(len, rows)), set("".join(rows))
    if len(widths) != 1 or min(widths) < 2 or not {"S"} <= tiles <= set("SFHG"):
        raise InvalidSetting(
            f'desc={desc!r} must be a list of rows, such as ["SF", "HG"]: equally long, at least two tiles wide, of '
            "the letters S, F, H and G, with at least one S, the tile where episodes start."
        )
    return rows
