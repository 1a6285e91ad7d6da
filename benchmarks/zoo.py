"""Other people's environments under the entropy stack: which work, and what those say that do not.

Each takes 1,000 random steps as four copies in a vector, made and wrapped as ``cmaxent train`` does, and 1,000 as one
scalar environment inside the same stack. It works if batches were closed whose λ̂ has the mass of its steps, at most 1
but for the noise of fragments or with a warning of them, and whose entropy and pseudo-rewards are finite. Where the
whole observation cannot be the state, a second try gives the ``--state`` that the refusal asks for. What is not
installed is left out.

    python benchmarks/zoo.py                          # all families, a table of each
    python benchmarks/zoo.py --only minigrid spaces   # some of them
    python benchmarks/zoo.py --out zoo.csv
"""

from __future__ import annotations

import argparse
import csv
import importlib
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Text,
    Tuple,
)
from gymnasium.spaces import (
    Sequence as Many,
)
from gymnasium.spaces.utils import flatdim

import constrained_maxent as cmx
from constrained_maxent.errors import ConstrainedMaxentError, PartialEpisodes
from constrained_maxent.runs import TrainSettings
from constrained_maxent.runs.environments import make_environment, make_scalar

N_STEPS = 1000
COPIES = 4
LONGEST = 120  # seconds of a processor for each try
MOST_MASS = 1.2
MOST_COORDINATES = 100

SETTINGS = TrainSettings(num_envs=COPIES, steps_per_batch=200)

BOX, WIDE = Box(-1.0, 1.0, (3,)), Box(-np.inf, np.inf, (2, 2), dtype=np.float64)
PICTURE = Box(0, 255, (12, 12, 3), dtype=np.uint8)
GO = Discrete(3)

# By name: observations, actions, and the --state that λ̂ is over where it cannot be the whole observation.
SPACES: dict[str, tuple[gym.Space[Any], gym.Space[Any], tuple[str, ...] | None]] = {
    "Box": (BOX, Box(-1.0, 1.0, (2,)), None),
    "Box of shape ()": (Box(-1.0, 1.0, ()), GO, None),
    "Box of one number": (Box(0.0, 1.0, (1,)), GO, None),
    "Box (2, 2) unbounded": (WIDE, GO, None),
    "Box of float64": (Box(-1.0, 1.0, (3,), dtype=np.float64), GO, None),
    "Box of float16": (Box(-1.0, 1.0, (3,), dtype=np.float16), GO, None),
    "Box of int64": (Box(-50, 50, (2,), dtype=np.int64), GO, None),
    "Box of few integers": (Box(0, 3, (2,), dtype=np.int8), GO, None),
    "Box of truth values": (Box(0, 1, (3,), dtype=np.uint8), GO, None),
    "Box of 40": (Box(-1.0, 1.0, (40,)), GO, None),
    "Box of 200": (Box(-1.0, 1.0, (200,)), GO, ("0", "1")),
    "Box half bounded": (Box(0.0, np.inf, (2,)), GO, None),
    "Discrete(2)": (Discrete(2), Discrete(2), None),
    "Discrete(1)": (Discrete(1), Discrete(1), None),
    "Discrete with start": (Discrete(5, start=-2), Discrete(3, start=7), None),
    "Discrete(10^6)": (Discrete(10**6), GO, None),
    "MultiDiscrete": (MultiDiscrete([3, 4]), GO, None),
    "MultiDiscrete of shape (2, 2)": (MultiDiscrete([[2, 3], [3, 2]]), GO, None),
    "MultiDiscrete with start": (MultiDiscrete([3, 4], start=[1, -1]), GO, None),
    "MultiBinary": (MultiBinary(4), GO, None),
    "MultiBinary of shape (2, 2)": (MultiBinary((2, 2)), GO, None),
    "Tuple of Discrete": (Tuple((Discrete(2), Discrete(3))), GO, None),
    "Tuple of Box": (Tuple((BOX, Box(0.0, 1.0, (2,)))), GO, None),
    "Tuple of Box and Discrete": (Tuple((BOX, Discrete(3))), GO, None),
    "Tuple nested": (Tuple((Tuple((BOX, Discrete(2))), Discrete(3))), GO, None),
    "Dict of Box": (Dict({"a": BOX, "b": Box(0.0, 1.0, (2,))}), GO, None),
    "Dict of Discrete": (Dict({"a": Discrete(2), "b": Discrete(3)}), GO, None),
    "Dict of Box and Discrete": (Dict({"a": BOX, "b": Discrete(3)}), GO, None),
    "Dict of Box and MultiBinary": (Dict({"a": BOX, "b": MultiBinary(2)}), GO, None),
    "Dict nested": (Dict({"a": Dict({"b": BOX, "c": Discrete(2)}), "d": BOX}), GO, None),
    "Dict of Box of float64": (Dict({"a": Box(-1.0, 1.0, (2,), dtype=np.float64)}), GO, None),
    "Dict of a goal (HER)": (Dict({"observation": BOX, "achieved_goal": BOX, "desired_goal": BOX}), GO, None),
    "Dict with a picture": (Dict({"pixels": PICTURE, "position": BOX}), GO, ("position",)),
    "Dict with Text": (Dict({"mission": Text(8), "position": BOX}), GO, ("position",)),
    "Dict with Graph": (Dict({"graph": Graph(BOX, None), "position": BOX}), GO, ("position",)),
    "Dict with Sequence": (Dict({"seen": Many(BOX), "cell": MultiDiscrete([3, 3])}), GO, ("cell",)),
    "Dict with OneOf": (Dict({"either": OneOf((BOX, GO)), "cell": Discrete(4)}), GO, ("cell",)),
    "Dict, one key of several": (Dict({"a": BOX, "b": BOX}), GO, ("b",)),
    "Dict, a key below": (Dict({"a": Dict({"b": BOX})}), GO, ("a.b",)),
    "Dict, some coordinates": (Dict({"a": BOX, "b": BOX}), GO, ("0", "4")),
    "picture": (PICTURE, GO, ("zoo:mean_color",)),
    "picture, channels first": (Box(0, 255, (3, 12, 12), dtype=np.uint8), GO, ("zoo:mean_color",)),
    "Text": (Text(8), GO, ("zoo:length",)),
    "Graph": (Graph(BOX, None), GO, ("zoo:n_nodes",)),
    "Sequence": (Many(BOX), GO, ("zoo:length",)),
    "Sequence, stacked": (Many(BOX, stack=True), GO, ("zoo:length",)),
    "OneOf": (OneOf((BOX, GO)), GO, ("zoo:which",)),
    "Box, cells of a function": (BOX, GO, ("zoo:octant",)),
    "actions Box": (Discrete(4), Box(-1.0, 1.0, (2,)), None),
    "actions Box of shape ()": (BOX, Box(-1.0, 1.0, ()), None),
    "actions Box unbounded": (BOX, Box(-np.inf, np.inf, (2,)), None),
    "actions Box of integers": (BOX, Box(0, 4, (2,), dtype=np.int64), None),
    "actions MultiDiscrete": (BOX, MultiDiscrete([2, 3]), None),
    "actions MultiDiscrete, counted": (Discrete(4), MultiDiscrete([2, 3]), None),
    "actions MultiBinary": (Discrete(4), MultiBinary(2), None),
    "actions Tuple of Discrete": (Discrete(4), Tuple((Discrete(2), Discrete(3))), None),
    "actions Tuple of Box": (BOX, Tuple((BOX, BOX)), None),
    "actions Dict of Box": (BOX, Dict({"arm": BOX, "leg": BOX}), None),
    "actions Dict of Discrete": (Discrete(4), Dict({"arm": Discrete(2), "leg": Discrete(3)}), None),
    "actions Text": (BOX, Text(3), None),
}
CELLS = {
    "Text": 16,
    "Graph": 32,
    "Sequence": 64,
    "Sequence, stacked": 64,
    "OneOf": 2,
    "Box, cells of a function": (2, 2, 2),
}


def mean_color(observation: Any) -> Any:
    return np.asarray(observation, dtype=float).reshape(-1, 3).mean(axis=0)


def length(observation: Any) -> int:
    return min(len(observation), 15)


def n_nodes(observation: Any) -> int:
    return min(len(observation.nodes), 31)


def which(observation: Any) -> int:
    return int(observation[0])


def octant(observation: Any) -> tuple[int, ...]:
    return tuple(int(part > 0.0) for part in observation)


class Sampled(gym.Env[Any, Any]):
    """Observations drawn from a space."""

    def __init__(self, name: str) -> None:
        observation_space, action_space, _ = SPACES[name]
        # Each environment has spaces of its own: they hold the generators.
        self.observation_space, self.action_space = map(_copy, (observation_space, action_space))
        self._time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._time = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        return self.observation_space.sample(), 0.0, self._time >= 50, False, {"cost": 0.5}


def _copy(space: Any) -> Any:
    import copy

    return copy.deepcopy(space)


KEYS = ("direction", "achieved_goal")
"""Of dictionaries, what λ̂ is over where the refusal of the whole observation asks for it; of others two coordinates."""


def _registered(*modules: str) -> Iterator[str]:
    """The newest version of each id whose entry point is in one of the modules."""
    newest: dict[str, Any] = {}
    for spec in list(gym.registry.values()):
        entry = spec.entry_point if isinstance(spec.entry_point, str) else getattr(spec.entry_point, "__module__", "")
        if entry.startswith(modules):
            name = f"{spec.namespace}/{spec.name}"
            if name not in newest or (spec.version or 0) > (newest[name].version or 0):
                newest[name] = spec
    yield from sorted(spec.id for spec in newest.values())


def _gymnasium() -> Iterator[str]:
    yield from _registered("gymnasium.envs")


def _dm_control() -> Iterator[str]:
    importlib.import_module("shimmy")
    yield from sorted(name for name in gym.registry if name.startswith("dm_control/"))


def _of(package: str, *modules: str) -> Callable[[], Iterator[str]]:
    def ids() -> Iterator[str]:
        found = importlib.import_module(package)
        if hasattr(gym, "register_envs"):
            gym.register_envs(found)
        yield from _registered(*modules)

    return ids


def _spaces() -> Iterator[str]:
    for number, name in enumerate(SPACES):
        gym.register(f"Space{number}-v0", entry_point=Sampled, kwargs={"name": name})
        yield f"Space{number}-v0"


FAMILIES: dict[str, Callable[[], Iterator[str]]] = {
    "gymnasium": _gymnasium,
    "dm_control": _dm_control,
    "minigrid": _of("minigrid", "minigrid."),
    "robotics": _of("gymnasium_robotics", "gymnasium_robotics."),
    "highway": _of("highway_env", "highway_env."),
    "spaces": _spaces,
}


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"not done within {seconds} s of a processor")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def require(holds: Any, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def _look(env: Any) -> float:
    """The mass of λ̂, held against what any sound stack has after some batches."""
    tracker = cmx.wrappers.find_tracker(env)
    require(tracker.iteration >= 2, f"only {tracker.iteration} batches were closed")
    estimator = tracker.estimator
    measure = estimator.measure()
    mass = float(measure.weights.sum())
    require(mass > 0.0, f"the mass of λ̂ is {mass}")
    batch = tracker.last_batch
    by_hand = float(batch.weights.sum()) / batch.n_episodes
    require(abs(mass - by_hand) < 1e-6 * max(mass, by_hand), f"mass {mass}, by hand {by_hand}")
    require(np.isfinite(tracker.last_report.objective), "the entropy is not finite")
    return mass


def _vector(settings: TrainSettings, env_id: str) -> float:
    with closing(make_environment(env_id, settings)) as env:
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(N_STEPS // COPIES + 1):
            infos = env.step(env.action_space.sample())[4]
            require(np.isfinite(infos["pseudo_reward"]).all(), "a pseudo-reward is not finite")
        return _look(env)


def _scalar(settings: TrainSettings, env_id: str) -> float:
    """The stack that the vector has, around one environment."""
    with closing(make_environment(env_id, settings)) as env:
        layers = []
        layer: Any = env
        while not isinstance(layer, cmx.wrappers.vector.TrackOccupancy):
            layers.append(layer)
            layer = layer.env
        arguments = dict(layer._saved_kwargs)
        objective = cmx.wrappers.find_tracker(env).problem.objective
    with closing(make_scalar(env_id, {})) as bare:
        wrapped = cmx.wrappers.TrackOccupancy(bare, **arguments)
        stack = cmx.wrappers.Objective(wrapped, objective) if objective is not None else wrapped
        stack.action_space.seed(0)
        stack.reset(seed=0)
        for _ in range(N_STEPS):
            *_, terminated, truncated, info = stack.step(stack.action_space.sample())
            require(np.isfinite(info["pseudo_reward"]), "a pseudo-reward is not finite")
            if terminated or truncated:
                stack.reset()
        return _look(stack)


def outcome(run: Callable[[TrainSettings, str], float], settings: TrainSettings, env_id: str) -> tuple[str, str]:
    """``works``, ``refused``, ``not here`` or ``FAILS``, and the words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _within(LONGEST):
                mass = run(settings, env_id)
        except ConstrainedMaxentError as error:
            return "refused", f"{type(error).__name__}: {error}"
        except (gym.error.DependencyNotInstalled, ImportError, FileNotFoundError) as error:
            return "not here", f"{type(error).__name__}: {error}"
        except Exception as error:
            return "FAILS", f"{type(error).__name__}: {error}"
    ours = {
        warning.category.__name__ for warning in caught if warning.category.__module__.startswith("constrained_maxent")
    }
    # Fragments of episodes stand for shares of them, and the mass of a few is an estimate.
    if mass > MOST_MASS and PartialEpisodes.__name__ not in ours:
        return "FAILS", f"the mass of λ̂ is {mass}"
    return "works", ", ".join(sorted(ours))


def tried(family: str, env_id: str) -> dict[str, Any]:
    begun = time.perf_counter()
    name, settings = env_id, SETTINGS
    try:
        state = _shorter_state(env_id)
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        return _row(family, name, "", "not here", "not here", words, begun)
    if family == "spaces":
        name = list(SPACES)[int(env_id[len("Space") : -len("-v0")])]
        state = SPACES[name][2]
        if name in CELLS:
            cells = CELLS[name]
            settings = replace(settings, cells=(cells,) if isinstance(cells, int) else cells)
    given = ""
    vector, words = "refused", ""
    if state is None or family != "spaces":
        vector, words = outcome(_vector, settings, env_id)
    if vector == "refused" and state is not None:
        settings, given = replace(settings, state=state), " ".join(state)
        vector, words = outcome(_vector, settings, env_id)
    scalar, more = (vector, "") if vector != "works" else outcome(_scalar, settings, env_id)
    return _row(family, name, given, vector, scalar, words if scalar == vector else more, begun)


def _shorter_state(env_id: str) -> tuple[str, ...]:
    """What could be the state instead of the whole observation of an environment that works by itself."""
    with warnings.catch_warnings(), closing(make_scalar(env_id, {})) as env, _within(LONGEST):
        warnings.simplefilter("ignore")
        env.reset(seed=0)
        space = env.observation_space
    if isinstance(space, Dict):
        # Some parts have no coordinates, such as the activations of muscles that a robot lacks, and some are pictures.
        keys = [key for key in [*KEYS, *space.spaces] if key in space.spaces]
        return (next((key for key in keys if 0 < flatdim(space[key]) <= MOST_COORDINATES), keys[0]),)
    return ("0", "1")


def _row(family: str, name: str, given: str, vector: str, scalar: str, words: str, begun: float) -> dict[str, Any]:
    seconds = round(time.perf_counter() - begun, 1)
    columns = ("family", "environment", "--state", "vector", "scalar", "words", "seconds")
    return dict(zip(columns, (family, name, given, vector, scalar, words, seconds), strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--match", default="", help="ids that contain this only")
    parser.add_argument("--out", help="a CSV file of all rows")
    options = parser.parse_args(arguments)
    rows = []
    for family in options.only:
        try:
            ids = [env_id for env_id in FAMILIES[family]() if options.match in env_id]
        except ImportError as error:
            print(f"{family}: not installed ({error})")
            continue
        for env_id in ids:
            row = tried(family, env_id)
            rows.append(row)
            print(f"| {' | '.join(str(value)[:160].replace(chr(10), ' ') for value in row.values())} |", flush=True)
    for family in options.only:
        own = [row for row in rows if row["family"] == family and row["vector"] != "not here"]
        if own:
            works = sum(row["vector"] == row["scalar"] == "works" for row in own)
            refused = sum("refused" in (row["vector"], row["scalar"]) for row in own)
            print(f"{family}: {works} of {len(own)} work, {refused} are refused, {len(own) - works - refused} fail")
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    sys.modules.setdefault("zoo", sys.modules["__main__"])
    main()
