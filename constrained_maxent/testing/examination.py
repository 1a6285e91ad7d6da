"""What an environment of one's own does that a stack around it needs to know, found by random actions."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent import errors
from constrained_maxent.functionals.base import Source
from constrained_maxent.spaces import Environment
from constrained_maxent.testing.alone import Finding, Seen, Verdict, alone
from constrained_maxent.testing.contract import check_stack
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers.float_info import FloatInfo

_TWINS = 20  # steps of two copies under one seed
_TIMED = 200  # calls of step whose time is taken


def reported_cost(make: Callable[[], gym.Env[Any, Any]]) -> str | None:
    """``"cost"``, if the environment reports it on one of its first steps; else, and if it fails, ``None``."""
    with closing(make()) as env:
        try:
            env.action_space.seed(0)
            env.reset(seed=0)
            for _ in range(_TWINS):
                *_, terminated, truncated, info = env.step(env.action_space.sample())
                if "cost" in info:
                    return "cost"
                if terminated or truncated:
                    env.reset()
            return None
        except Exception:  # whatever it raises, it will again where it is examined
            return None


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
        seen = Seen()
        found += alone(env, seen, cost, n_steps, seed)
        has_failed = any(finding.about == "stepped" for finding in found)
        if not (has_failed or seen.not_finite):  # what is no number equals nothing
            found.append(_seeds(env, make, seed))
        found.append(_pickling(env))
    if any(finding.about in ("made", "stepped") for finding in found):
        return found
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        about = f"stack, {mode.name}"
        if any(finding.about.startswith("stack") and finding.verdict == "wrong" for finding in found):
            break
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


def _seeds(env: gym.Env[Any, Any], make: Callable[[], gym.Env[Any, Any]], seed: int) -> Finding:
    with closing(make()) as twin:
        both = [env, twin]
        env.action_space.seed(seed)
        replies = [one.reset(seed=seed)[0] for one in both]
        for _ in range(_TWINS):
            if not data_equivalence(*replies):
                break
            action = env.action_space.sample()
            steps = [one.step(action) for one in both]
            replies = [reply[0] for reply in steps]
            if any(reply[2] or reply[3] for reply in steps):
                break
    if data_equivalence(*replies):
        return Finding("seeds", "right", "two copies under one seed do the same.")
    return Finding(
        "seeds",
        "wrong",
        "two copies under one seed and the same actions show different observations: reset(seed=) does not reach all "
        "that is drawn, so that no run can be repeated, and copies may be different processes.",
    )


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
