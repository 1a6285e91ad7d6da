"""From a stack of wrappers to the dynamics that its environment publishes, where these are of the process stepped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space, iterate

from constrained_maxent.errors import InvalidMDP, UnknownProcess, UnsupportedSpace
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.spaces import Environment, FiniteSpace, from_row, from_rows, is_finite, single_spaces

_KEEP_PROCESS = {
    "gymnasium.wrappers": frozenset(
        [
            *("OrderEnforcing", "PassiveEnvChecker", "TimeLimit", "RecordEpisodeStatistics", "RecordVideo"),
            *("RenderCollection", "HumanRendering", "DictInfoToList"),
        ]
    ),
    "stable_baselines3.common.monitor": frozenset(["Monitor"]),
    "constrained_maxent.adapters.minari.recording": frozenset(["Recording"]),
}
"""Wrappers by module that change nothing of observations, actions, ends and rewards; time limits are asked apart."""

_CHANGE_REWARDS = frozenset(["ClipReward", "NormalizeReward", "TransformReward", "VectorizeTransformReward"])
"""Wrappers of Gymnasium that change rewards alone."""

_REMEDY = (
    "If they are as published, or known otherwise, give them by hand, as TabularMDP.from_env(env.unwrapped, ...) or "
    "TabularMDP.from_arrays(...), to evaluation.ExactProblem(mdp, ...)."
)


@dataclass(frozen=True)
class Elements:
    """The elements of a finite space by number, as functions of the user's see them on steps.

    Args:
        space: of one environment.
        in_vector: whether a vector environment delivers them.
    """

    space: gym.Space[Any]
    in_vector: bool

    @cached_property
    def numbers(self) -> FiniteSpace:
        """The numbering of the space."""
        return FiniteSpace(self.space)

    def __call__(self, number: int) -> Any:
        """A new object on each call: whoever gets it may write into it."""
        rows = self.numbers.decode(np.array([number]))
        if not self.in_vector:
            return from_row(self.space, rows[0])
        return next(iter(iterate(batch_space(self.space, 1), from_rows(self.space, rows))))


@dataclass(frozen=True)
class Published:
    """What an environment publishes of the process that is stepped.

    Attributes:
        copies: the bare environments, alike in dynamics; one where a vector environment steps all copies itself.
        keeps_reward: whether the rewards of ``P`` reach the occupancy tracker, or whoever steps.
        elements: observations and actions by number; ``None`` where the spaces do not have as many as ``P``.
    """

    copies: tuple[Any, ...]
    keeps_reward: bool
    elements: tuple[Elements, Elements] | None


def published(env: Environment) -> Published:
    """What an environment publishes, if that is the process that is stepped.

    Raises:
        InvalidMDP: it publishes no dynamics.
        UnknownProcess: a wrapper may change the process, copies differ, or the environment does more than ``P`` says.
    """
    layers, bare = _unwrap(env)
    stacks = [(layers, bare)]
    if isinstance(bare, gym.vector.SyncVectorEnv) and type(bare).__module__.startswith("gymnasium."):
        stacks = [(layers + inner, source) for inner, source in map(_unwrap, bare.envs)]
    elif isinstance(bare, gym.vector.AsyncVectorEnv) and is_finite(bare.single_observation_space):
        raise UnknownProcess("The sub-environments live in other processes, where their dynamics are not read.")
    copies = tuple(source for _, source in stacks)
    for source in copies:
        missing = [name for name in ("P", "initial_state_distrib") if not hasattr(source, name)]
        if missing:
            raise InvalidMDP(
                f"{type(source).__name__} has no attribute {' and no '.join(missing)}, so its dynamics are unknown. "
                "Give the transition probabilities to TabularMDP.from_arrays instead."
            )
    for stack, source in stacks:
        _require_known(stack, source)
    if len(copies) > 1:
        _require_alike(copies, [find_horizon(copy) for copy in bare.envs])
    keeps_reward = not any(_changes_reward(layer) for stack, _ in stacks for layer in _below_tracker(stack))
    return Published(copies, keeps_reward, _elements(env, copies[0]))


def publishes(env: Environment) -> bool:
    """Whether dynamics are published at all, of whatever process."""
    bare = first_copy(env)
    if isinstance(bare, gym.vector.AsyncVectorEnv):
        return is_finite(bare.single_observation_space)
    return hasattr(bare, "P")


def first_copy(env: Environment) -> Any:
    """The bare environment: a sub-environment, where the vector environment only manages them."""
    bare = env.unwrapped
    return bare.envs[0].unwrapped if isinstance(bare, gym.vector.SyncVectorEnv) else bare


def _unwrap(env: Any) -> tuple[list[Any], Any]:
    """Layers, the outermost first, and what is below them."""
    layers: list[Any] = []
    while isinstance(env, (gym.Wrapper, gym.vector.VectorWrapper)):
        layers.append(env)
        env = env.env
    if isinstance(env, (gym.Env, gym.vector.VectorEnv)) and env.unwrapped is not env:
        layers.append(env)  # something of one's own that holds another environment
    return layers, env.unwrapped


def _require_known(layers: list[Any], source: Any) -> None:
    name = type(source).__name__
    for layer in layers:
        if not (_keeps_process(layer) or _changes_reward(layer)):
            raise UnknownProcess(
                f"{type(layer).__name__} may change the process that {name} publishes: the dynamics of what is "
                f"stepped are not known. {_REMEDY}"
            )
    if getattr(source, "fickle_passenger", False):
        raise UnknownProcess(
            f"The passengers of this {name} are fickle, of which P says nothing: the dynamics of what is stepped are "
            "not known. Make it with fickle_passenger=False."
        )


def _keeps_process(layer: Any) -> bool:
    # Exactly these classes: a subclass may do more. The wrappers of this package only watch and report.
    module, name = type(layer).__module__, type(layer).__qualname__
    if module.startswith("constrained_maxent."):
        return True
    return any(module.startswith(package) and name in names for package, names in _KEEP_PROCESS.items())


def _changes_reward(layer: Any) -> bool:
    return type(layer).__module__.startswith("gymnasium.wrappers") and type(layer).__qualname__ in _CHANGE_REWARDS


def _below_tracker(layers: list[Any]) -> list[Any]:
    """Those whose rewards a tracker sees; all of them where there is none."""
    at = [i for i, layer in enumerate(layers) if type(layer).__name__ == "TrackOccupancy"]
    return layers[at[-1] + 1 :] if at else layers


def _require_alike(copies: tuple[Any, ...], horizons: list[int | None]) -> None:
    first = copies[0]
    for i, copy in enumerate(copies):
        alike = {
            "horizon": horizons[i] == horizons[0],
            "start distribution": np.array_equal(copy.initial_state_distrib, first.initial_state_distrib),
            "dynamics": _equal(copy.P, first.P),
        }
        if other := next((part for part, same in alike.items() if not same), None):
            raise UnknownProcess(
                f"The {other} of sub-environment {i} {'are' if other == 'dynamics' else 'is'} not that of "
                "sub-environment 0: what is stepped is a mixture of several processes, and no single one."
            )


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one is other or one == other)
    except ValueError:  # arrays among the entries
        return repr(one) == repr(other)


def _elements(env: Any, source: Any) -> tuple[Elements, Elements] | None:
    if not isinstance(env, (gym.Env, gym.vector.VectorEnv)):
        return None
    in_vector = isinstance(env, gym.vector.VectorEnv)
    try:
        observations, actions = (Elements(space, in_vector) for space in single_spaces(env))
        n_actions = max(map(len, source.P.values())) if isinstance(source.P, dict) else max(map(len, source.P))
        if (observations.numbers.n, actions.numbers.n) == (len(source.initial_state_distrib), n_actions):
            return observations, actions
    except (UnsupportedSpace, AttributeError, TypeError, ValueError):  # of P: reading it says what is wrong
        pass
    return None
