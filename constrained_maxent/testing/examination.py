"""What an environment of one's own does that a stack around it needs to know, found by random actions."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent import errors
from constrained_maxent.functionals.base import Source
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.spaces import Environment
from constrained_maxent.testing.contract import check_stack
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers.float_info import FloatInfo
from constrained_maxent.wrappers.observed import observed_cost

Verdict = Literal["right", "note", "wrong"]

_TWINS = 20  # steps of two copies under one seed
_TIMED = 200  # calls of step whose time is taken


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


def reported_cost(make: Callable[[], gym.Env[Any, Any]]) -> str | None:
    """``"cost"``, if that is what the environment reports after its first step; else ``None``."""
    with closing(make()) as env:
        env.action_space.seed(0)
        env.reset(seed=0)
        return "cost" if "cost" in env.step(env.action_space.sample())[-1] else None


def examine(
    make: Callable[[], gym.Env[Any, Any]],
    wrap: Callable[[gym.vector.VectorEnv[Any, Any, Any]], Environment],
    *,
    cost: Source | None = None,
    n_steps: int = 1000,
    seed: int = 0,
) -> list[Finding]:
    """Look at an environment alone, and inside its stack, by random actions.

    Alone: elements of its spaces, numbers that are none, costs that are missing or would be cut, ends and time limits,
    whether seeds reach it, pickling. In a stack of two copies: the contract of
    :func:`~constrained_maxent.testing.check_constrained_env` in two autoreset modes, everything that the stack warns
    of (coordinates that have no density or follow from others, layers, ends), what random actions cost, and the time of
    a step beside that of the bare copies.

    Args:
        make: makes the environment, without a stack.
        wrap: puts a vector of two copies into its stack; batches should have some hundreds of steps. Around each copy
            is ``wrappers.FloatInfo``, as ``cmaxent`` has it.
        cost: what the stack constrains: a key of ``info``, or a function; ``None`` for nothing.
        n_steps: random steps of the environment alone.
        seed: of resets and actions.
    """
    found: list[Finding] = []
    with _named("made", found), closing(make()) as env:
        seen = _Seen()
        found += _alone(env, seen, cost, n_steps, seed)
        found += _seeds(env, make, seed)
        found.append(_pickling(env))
    if any(finding.about in ("made", "stepped") for finding in found):
        return found
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        about = f"stack, {mode.name}"
        copies = SyncVectorEnv([lambda: FloatInfo(make())] * 2, autoreset_mode=mode)
        with _named(about, found), closing(wrap(copies)) as stack:
            check_stack(stack, 2 if mode is AutoresetMode.NEXT_STEP else 1)
            found.append(Finding(about, "right", "batches, rewards and resets are as they must be."))
            if mode is AutoresetMode.NEXT_STEP:
                found += _figures(stack)
                found.append(_speed(make, stack, seed))
    return found


@contextmanager
def _named(about: str, found: list[Finding]) -> Iterator[None]:
    """What goes wrong, or is warned of by this package, as findings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except Exception as error:  # of the environment's own too: it is what is asked
            found.append(Finding(about, "wrong", f"{type(error).__name__}: {error}"))
    texts = {str(w.message): w.category.__name__ for w in caught if w.category.__module__ == errors.__name__}
    known = {finding.text for finding in found}
    found += [
        Finding(name, "note", text) for text, name in texts.items() if text not in known and name != "UnplannedRun"
    ]


@dataclass
class _Seen:
    """What random steps showed."""

    lengths: list[int] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    cost_types: set[str] = field(default_factory=set)
    without_cost: int = 0
    strangers: set[str] = field(default_factory=set)  # observations that their space does not contain
    not_finite: set[str] = field(default_factory=set)


def _alone(env: gym.Env[Any, Any], seen: _Seen, cost: Source | None, n_steps: int, seed: int) -> list[Finding]:
    failed = None
    try:
        _step(env, seen, cost, n_steps, seed)
    except Exception as error:  # whatever an environment of somebody's raises
        failed = Finding("stepped", "wrong", f"{type(error).__name__}: {error}")
    found = [_spaces(env, seen), *([_costs(cost, seen)] if cost is not None else []), _ends(env, seen)]
    if seen.not_finite:
        found.append(Finding("numbers", "wrong", f"NaN or infinite: {', '.join(sorted(seen.not_finite))}."))
    return [*found, failed] if failed is not None else found


def _step(env: gym.Env[Any, Any], seen: _Seen, cost: Source | None, n_steps: int, seed: int) -> None:
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
            length, (observation, _) = 0, env.reset()
    seen.lengths.append(length)  # of the one under way


def _look(space: gym.Space[Any], observation: Any, seen: _Seen) -> None:
    if not space.contains(observation):
        kind = f"{getattr(observation, 'dtype', type(observation).__name__)} of shape {np.shape(observation)}"
        seen.strangers.add(kind if isinstance(space, gym.spaces.Box) else type(observation).__name__)
    for part in gym.spaces.flatten(space, observation) if space.is_np_flattenable else ():
        if not np.isfinite(part):
            seen.not_finite.add("an observation")


def _spaces(env: gym.Env[Any, Any], seen: _Seen) -> Finding:
    text = f"observations {env.observation_space}, actions {env.action_space}"
    if not seen.strangers:
        return Finding("spaces", "right", text)
    return Finding(
        "spaces",
        "note",
        f"{text}. Observations of {' and '.join(sorted(seen.strangers))} are not in their space, by type, shape or "
        "bounds: agents may take them otherwise than they are meant.",
    )


def _costs(cost: Source, seen: _Seen) -> Finding:
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


def _ends(env: gym.Env[Any, Any], seen: _Seen) -> Finding:
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


def _seeds(env: gym.Env[Any, Any], make: Callable[[], gym.Env[Any, Any]], seed: int) -> list[Finding]:
    with closing(make()) as twin:
        both = [env, twin]
        env.action_space.seed(seed)
        try:
            replies = [one.reset(seed=seed)[0] for one in both]
            for _ in range(_TWINS):
                if not data_equivalence(*replies):
                    break
                action = env.action_space.sample()
                steps = [one.step(action) for one in both]
                replies = [reply[0] for reply in steps]
                if any(reply[2] or reply[3] for reply in steps):
                    break
        except Exception as error:
            return [Finding("stepped", "wrong", f"{type(error).__name__}: {error}")]
    if data_equivalence(*replies):
        return [Finding("seeds", "right", "two copies under one seed do the same.")]
    return [
        Finding(
            "seeds",
            "wrong",
            "two copies under one seed and the same actions show different observations: reset(seed=) does not reach "
            "all that is drawn, so that no run can be repeated, and copies may be different processes.",
        )
    ]


def _pickling(env: gym.Env[Any, Any]) -> Finding:
    try:
        pickle.loads(pickle.dumps(env))
    except Exception as error:  # pickle raises whatever objects raise
        return Finding(
            "pickling",
            "note",
            f"it cannot be pickled ({type(error).__name__}: {str(error)[:100]}): give other processes a function that "
            "makes it, and no copy.",
        )
    return Finding("pickling", "right", "it can be sent to other processes.")


def _figures(stack: Any) -> list[Finding]:
    """What the last batch of random actions showed: entropy, and how far limits are."""
    tracker = find_tracker(stack)
    report = tracker.last_report
    assert report is not None
    found = []
    if report.objective is not None:
        verdict: Verdict = "right" if np.isfinite(report.objective) else "wrong"
        found.append(Finding("objective", verdict, f"{report.objective:.3f} under random actions."))
    for name, excess in report.constraints.items():
        reached = (
            "is broken by random actions, so that it has something to say"
            if excess > 0.0
            else ("is kept by random actions: lower it, if it is to change what is learnt")
        )
        found.append(
            Finding(f"limit of {name}", "right" if excess > 0.0 else "note", f"the limit {reached} (R = {excess:.4g}).")
        )
    return found


def _speed(make: Callable[[], gym.Env[Any, Any]], stack: Any, seed: int) -> Finding:
    with closing(SyncVectorEnv([make] * 2)) as bare:
        times: Mapping[str, float] = {name: _time(env, seed) for name, env in (("bare", bare), ("wrapped", stack))}
    return Finding(
        "speed",
        "right",
        f"{times['bare'] * 1e6:.0f} µs a step bare, {times['wrapped'] * 1e6:.0f} µs wrapped, "
        f"{times['wrapped'] / times['bare']:.2f} times as long (without the ends of batches).",
    )


def _time(env: Any, seed: int) -> float:
    """Seconds of a step of one copy."""
    env.reset(seed=seed)
    actions = [env.action_space.sample() for _ in range(_TIMED)]
    begun = time.perf_counter()
    for action in actions:
        env.step(action)
    return (time.perf_counter() - begun) / _TIMED / 2
