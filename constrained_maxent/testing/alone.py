"""What random actions show of an environment alone: its spaces, costs and ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.functionals.base import Source
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.wrappers.observed import observed_cost

Verdict = Literal["right", "note", "wrong"]


@dataclass(frozen=True)
class Finding:
    """What was found of one thing.

    Attributes:
        about: what was looked at, in a word or two.
        verdict: ``"wrong"`` where figures would be wrong or a stack does not work; ``"note"`` where something is to be
            known or chosen; else ``"right"``.
        text: what was seen, and what to do.
    """

    about: str
    verdict: Verdict
    text: str


@dataclass
class Seen:
    """What random steps showed."""

    lengths: list[int] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    cost_types: set[str] = field(default_factory=set)
    without_cost: int = 0
    strangers: set[str] = field(default_factory=set)  # observations that their space does not contain
    not_finite: set[str] = field(default_factory=set)
    overwritten: set[str] = field(default_factory=set)  # what of a last step its reset changed


def alone(env: gym.Env[Any, Any], seen: Seen, cost: Source | None, n_steps: int, seed: int) -> list[Finding]:
    """Take random steps, remember what they showed, and say what there is to know of it."""
    failed = None
    try:
        _step(env, seen, cost, n_steps, seed)
    except Exception as error:  # whatever an environment of somebody's raises
        failed = Finding("stepped", "wrong", f"{type(error).__name__}: {error}")
    found = [_spaces(env, seen), *([_costs(cost, seen)] if cost is not None else []), _ends(env, seen)]
    if seen.not_finite:
        found.append(Finding("numbers", "wrong", f"NaN or infinite: {', '.join(sorted(seen.not_finite))}."))
    if seen.overwritten:
        parts = " and ".join(sorted(seen.overwritten))
        found.append(
            Finding(
                "last steps",
                "note",
                f"reset() changes the {parts} that the last step returned. Copies that are reset in the step that ends "
                "an episode, SAME_STEP, lose the last step that way, its cost too: return copies, observation.copy() "
                "and dict(info), or keep to NEXT_STEP, as cmaxent does.",
            )
        )
    return [*found, failed] if failed is not None else found


def _step(env: gym.Env[Any, Any], seen: Seen, cost: Source | None, n_steps: int, seed: int) -> None:
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    _look(env.observation_space, observation, seen)
    length = 0
    for _ in range(n_steps):
        action = env.action_space.sample()
        following, reward, terminated, truncated, info = env.step(action)
        length += 1
        _look(env.observation_space, following, seen)
        if not np.isfinite(float(reward)):
            seen.not_finite.add("the reward")
        if isinstance(cost, str) and cost not in info:
            seen.without_cost += 1
        elif cost is not None:
            if isinstance(cost, str):
                seen.cost_types.add(type(info[cost]).__name__)
            seen.costs.append(observed_cost(cost, observation, action, following, reward, info))
        observation = following
        if terminated or truncated:
            seen.lengths.append(length)
            seen.ends.append("terminated" if terminated else "truncated")
            returned = {"observation": following, "info": info}
            before = {name: list(_numbers(part)) for name, part in returned.items()}
            length, (observation, _) = 0, env.reset()
            for name, part in returned.items():
                now = list(_numbers(part))
                if len(now) != len(before[name]) or not all(map(_same, before[name], now)):
                    seen.overwritten.add(name)
    seen.lengths.append(length)  # of the one under way


def _numbers(part: Any) -> Iterator[NDArray[Any]]:
    """Copies of the numbers in an observation or in ``info``; what else these hold is anybody's."""
    if isinstance(part, Mapping):
        part = [part[key] for key in sorted(part, key=str)]
    if isinstance(part, (list, tuple)):
        for each in part:
            yield from _numbers(each)
    elif isinstance(part, (int, float, np.number, np.bool_, np.ndarray)) and np.asarray(part).dtype.kind in "biuf":
        yield np.array(part)


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return np.array_equal(one, other, equal_nan=True)


def _look(space: gym.Space[Any], observation: Any, seen: Seen) -> None:
    if not space.contains(observation):
        kind = f"{getattr(observation, 'dtype', type(observation).__name__)} of shape {np.shape(observation)}"
        seen.strangers.add(kind if isinstance(space, gym.spaces.Box) else type(observation).__name__)
    with suppress(Exception):  # what is no element of its space need not be flat
        if space.is_np_flattenable and not np.isfinite(np.asarray(gym.spaces.flatten(space, observation))).all():
            seen.not_finite.add("an observation")


def _spaces(env: gym.Env[Any, Any], seen: Seen) -> Finding:
    text = f"observations {env.observation_space}, actions {env.action_space}"
    if not seen.strangers:
        return Finding("spaces", "right", text)
    return Finding(
        "spaces",
        "note",
        f"{text}. Observations of {' and '.join(sorted(seen.strangers))} are not in their space, by type, shape or "
        "bounds: agents may take them otherwise than they are meant.",
    )


def _costs(cost: Source, seen: Seen) -> Finding:
    name = f"info[{cost!r}]" if isinstance(cost, str) else "the cost"
    if seen.without_cost:
        n = seen.without_cost + len(seen.costs)
        return Finding(
            "cost", "wrong", f"{name} is missing on {seen.without_cost} of {n} steps; it must be there on every one."
        )
    if len(seen.cost_types) > 1 or seen.cost_types & {"int", "bool", "bool_"}:
        return Finding(
            "cost",
            "note",
            f"{name} is of type {', '.join(sorted(seen.cost_types))}: Gymnasium's vectors cut it to that of the first "
            "copy. Report float(...), or put wrappers.FloatInfo around each copy, as cmaxent does.",
        )
    share = np.mean(np.array(seen.costs) > 0.0) if seen.costs else 0.0
    return Finding("cost", "right", f"{name} is there on every step, and above 0 on {share:.1%} of random ones.")


def _ends(env: gym.Env[Any, Any], seen: Seen) -> Finding:
    horizon, longest = find_horizon(env), max(seen.lengths, default=0)
    limit = "no time limit is found" if horizon is None else f"the time limit is {horizon} steps"
    n_ends = {how: seen.ends.count(how) for how in ("terminated", "truncated")}
    text = f"{limit}; the longest of {len(seen.ends) + 1} random episodes had {longest}"
    if horizon is not None and longest > horizon:
        return Finding(
            "time limit", "wrong", f"{text}: give TrackOccupancy horizon=, the steps of the longest episode."
        )
    early = [n for n, how in zip(seen.lengths, seen.ends, strict=False) if how == "truncated" and n != horizon]
    if early:
        return Finding(
            "time limit",
            "note",
            f"{text}, and episodes were truncated after {min(early)}: give horizon={max(early)} "
            "if that is where they end.",
        )
    if horizon is None and not seen.ends:
        return Finding(
            "time limit",
            "note",
            f"{text} without an end: put a TimeLimit below TrackOccupancy, or give "
            "steps_per_batch= and a discount below 1.",
        )
    return Finding("time limit", "right", f"{text}; {n_ends['terminated']} were terminated, {n_ends['truncated']} cut.")
