"""What each wrapper of Gymnasium does to a stack, below TrackOccupancy and above it: a table of what was measured.

    python benchmarks/gymnasium_wrappers.py        # writes docs/results/gymnasium_wrappers.md

A walk on a lattice keeps a log of its own states, actions and costs, and everything is held against it: the mass of a
batch, the states in it, a cost by its key in info, and a cost function of observation and action. Above, what arrives
as the reward is held against the pseudo-rewards of the batch.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

import gymnasium as gym
import numpy as np
from gymnasium import wrappers as scalar
from gymnasium.wrappers import vector

from constrained_maxent import errors
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import Counts, GaussianMixture
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers import constrain

LENGTH, EPISODES, COPIES = 12, 6, 2
OUT = Path(__file__).parents[1] / "docs" / "results" / "gymnasium_wrappers.md"


class Walk(gym.Env[Any, Any]):
    """Steps on a lattice; ``kind`` says whether places are shown as numbers, as a dictionary or as a picture."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    render_mode = "rgb_array"

    def __init__(self, kind: str = "numbers") -> None:
        self.kind = kind
        numbers = gym.spaces.Box(-9.0, 9.0, (2,))
        spaces = {
            "dictionary": gym.spaces.Dict({"place": numbers}),
            "picture": gym.spaces.Box(0, 255, (20, 20, 3), np.uint8),
        }
        self.observation_space = spaces.get(kind, numbers)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,))
        self.log: list[list[tuple[float, ...]]] = []

    def _shown(self) -> Any:
        if self.kind == "picture":
            return self.render()
        place = self.place.astype(np.float32)
        return {"place": place} if self.kind == "dictionary" else place

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.np_random.integers(-3, 4, 2).astype(np.float64)
        self.log.append([])
        return self._shown(), {}

    def step(self, action: Any) -> Any:
        force = float(np.ravel(np.asarray(action))[0])
        cost = cost_of(self.place, [force])
        self.log[-1].append((*self.place, force, cost))
        self.place = np.clip(self.place + self.np_random.integers(-1, 2, 2), -9.0, 9.0)
        return self._shown(), float(self.place[0]), False, False, {"cost": np.float64(cost)}

    def render(self) -> Any:
        picture = np.zeros((20, 20, 3), dtype=np.uint8)
        picture[tuple(self.place.astype(int) + 10)] = 255
        return picture


def cost_of(observation: Any, action: Any, next_observation: Any = None) -> float:
    """In the units of the bare environment: far to one side, and forces."""
    place = np.asarray(observation["place"] if isinstance(observation, dict) else observation)
    place = pixel(place) if place.shape[:2] == (20, 20) else place
    return float(abs(np.ravel(place)[0]) > 1.0) + abs(float(np.ravel(np.asarray(action))[0]))


ARGUMENTS: dict[str, Any] = {
    "AtariPreprocessing": None,
    "DelayObservation": {"delay": 2},
    "DtypeObservation": {"dtype": np.float64},
    "DiscretizeObservation": {"bins": 5},
    "FilterObservation": {"filter_keys": ["place"]},
    "FrameStackObservation": {"stack_size": 2},
    "TransformObservation": {"func": lambda seen: 2.0 * seen, "observation_space": gym.spaces.Box(-18.0, 18.0, (2,))},
    "MaxAndSkipObservation": {"skip": 2},
    "ResizeObservation": {"shape": (10, 10)},
    "ReshapeObservation": {"shape": (2, 1)},
    "RescaleObservation": {"min_obs": np.float32(-1.0), "max_obs": np.float32(1.0)},
    "DiscretizeAction": {"bins": 3},
    "TransformAction": {"func": lambda action: action / 2.0, "action_space": gym.spaces.Box(-2.0, 2.0, (1,))},
    "RescaleAction": {"min_action": np.float32(-2.0), "max_action": np.float32(2.0)},
    "StickyAction": {"repeat_action_probability": 0.5},
    "RepeatAction": {"num_repeats": 2},
    "ClipReward": {"min_reward": -0.1, "max_reward": 0.1},
    "TransformReward": {"func": lambda reward: 2.0 * reward},
    "TimeLimit": {"max_episode_steps": 7},
    "AddWhiteNoise": {"probability_of_noise_per_pixel": 0.5},
    "ObstructView": {"obstructed_pixels_ratio": 0.5, "obstruction_width": 5},
    "RecordVideo": {"video_folder": "/tmp/videos"},
    "ArrayConversion": {"env_xp": np, "target_xp": np},
    "VectorizeTransformObservation": {
        "wrapper": scalar.TransformObservation,
        "func": lambda seen: 2.0 * seen,
        "observation_space": None,
    },
    "VectorizeTransformAction": {"wrapper": scalar.ClipAction},
    "VectorizeTransformReward": {"wrapper": scalar.TransformReward, "func": lambda reward: 2.0 * reward},
}
VECTOR_ARGUMENTS: dict[str, Any] = {
    "TransformObservation": {"func": lambda seen: 2.0 * seen},
    "TransformAction": {"func": lambda action: action / 2.0},
    "TransformReward": {"func": lambda reward: 2.0 * reward},
}
KINDS = {
    "FilterObservation": "dictionary",
    "FlattenObservation": "dictionary",
    "GrayscaleObservation": "picture",
    "ResizeObservation": "picture",
}


class Run:
    """One stack, walked by random actions until two batches are complete; the second is looked at.

    Args:
        layer: puts the wrapper around an environment.
        kind: of the walk.
        is_vector: whether the stack is one of copies.
        above: whether the wrapper is above ``TrackOccupancy``.
    """

    def __init__(self, layer: Callable[[Any], Any], kind: str, *, is_vector: bool, above: bool) -> None:
        self.walks = [Walk(kind) for _ in range(COPIES if is_vector else 1)]
        limited = [scalar.TimeLimit(walk, LENGTH) for walk in self.walks]
        bare: Any = gym.vector.SyncVectorEnv([lambda one=one: one for one in limited]) if is_vector else limited[0]
        env = layer(_stack(bare)) if above else _stack(layer(bare))
        self.tracker = find_tracker(env)
        env.action_space.seed(0)
        env.reset(seed=0)
        rewards: list[Any] = []
        while self.tracker.iteration < 2:
            if self.tracker.iteration == 0:
                rewards.clear()
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            rewards.append(np.ravel(np.asarray(reward)))
            if not is_vector and (terminated or truncated):
                env.reset()
        self.rewards = np.concatenate(rewards)
        self.batch: Any = self.tracker.last_batch

    def truth(self) -> np.ndarray[Any, Any]:
        """What the walks remember of the second batch: place (2), force and cost, in the order of its episodes."""
        n = len(self.walks)
        logs = [[episode for episode in walk.log if episode] for walk in self.walks]  # some layers reset once more
        episodes = [logs[i % n][i // n] for i in range(EPISODES, 2 * EPISODES)]
        return np.array([row for episode in episodes for row in episode])


def _stack(env: Any) -> Any:
    space = env.single_observation_space if isinstance(env, gym.vector.VectorEnv) else env.observation_space
    limits = {
        name: Constraint(LinearCost(source, limit=0.0), Quadratic(1.0))
        for name, source in (("key", "cost"), ("function", cost_of))
    }
    is_counted = not isinstance(space, (gym.spaces.Box, gym.spaces.Dict))
    estimator: Any = Counts() if is_counted else GaussianMixture(n_components=1)
    is_picture = isinstance(space, gym.spaces.Box) and np.prod(space.shape) >= 100
    return constrain(
        env,
        Entropy(over="state"),
        limits,
        estimator=estimator,
        state=pixel if is_picture else None,
        episodes_per_batch=EPISODES,
        discount=1.0,
        pairing="previous",
    )


def pixel(picture: Any) -> Any:
    bright = np.asarray(picture)
    bright = bright.max(axis=-1) if bright.ndim == 3 else bright
    return np.array(np.unravel_index(bright.argmax(), bright.shape)) - 10.0


def is_function(of: Any, values: Any) -> bool:
    """Whether equal rows have equal values."""
    known: dict[Any, Any] = {}
    return all(np.allclose(known.setdefault(tuple(key), value), value) for key, value in zip(of, values, strict=True))


def rises(seen: Any, done: Any) -> bool:
    """Whether what is done follows what is seen, by any map that rises: drawn actions do not recur."""
    return bool((np.diff(done[np.argsort(seen[:, 0], kind="stable"), 0]) >= -1e-9).all())


def verdict(run: Run, *, above: bool) -> str:
    """In a word, with what was measured."""
    truth, batch = run.truth(), run.batch
    mass = batch.weights.sum() / EPISODES
    if abs(mass - 1.0) > 1e-9:
        return f"WRONG: mass {mass:.3g}"
    if len(truth) != len(batch.weights):
        each = len(truth) / len(batch.weights)
        return f"right for the steps that it takes, {each:.2g} in one; costs are those of the last"
    states = np.reshape(batch.observations if batch.states is None else batch.states, (len(truth), -1))
    actions = np.reshape(batch.actions, (len(truth), -1))
    if not np.allclose(batch.costs["cost"], truth[:, 3]):
        return "WRONG: cost by its key"
    by_function = np.allclose(next(costs for key, costs in batch.costs.items() if key != "cost"), truth[:, 3])
    same = states.shape[1] == 2 and np.allclose(states, truth[:, :2]) and by_function
    if above:
        expected = np.concatenate(run.tracker.last_report.pseudo_rewards)
        got, expected = np.sort(run.rewards[run.rewards != 0.0]), np.sort(expected[expected != 0.0])
        if not same or len(got) != len(expected):
            return "WRONG: what is below"
        if np.allclose(got, expected):
            return "harmless"
        if len(np.unique(got.round(9))) < len(np.unique(expected.round(9))):
            return "WRONG: rewards are cut"
        return "harmless: rewards times a positive factor" if (got * expected > 0.0).all() else "WRONG: rewards"
    if same:
        return "right"
    if is_function(truth[:, :2], states) and rises(actions, truth[:, 2:3]):
        return "right, in its own numbers" + ("" if by_function else ", which cost functions see too")
    if is_function(np.column_stack([truth[:, :2], states[:, 2:]]), states) and by_function:
        return "right, over what it adds too"
    return "WRONG: " + ("states" if not is_function(truth[:, :2], states) else "actions") + " are not those of the step"


def tried(name: str, *, is_vector: bool, above: bool) -> str:
    module = vector if is_vector else scalar
    arguments = (VECTOR_ARGUMENTS if is_vector and name in VECTOR_ARGUMENTS else ARGUMENTS).get(name, {})
    if arguments is None:
        return "not tried: needs Atari"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kind = getattr(module, name)
            run = Run(lambda env: kind(env, **arguments), KINDS.get(name, "numbers"), is_vector=is_vector, above=above)
            found = verdict(run, above=above)
        except gym.error.DependencyNotInstalled as error:
            return f"not tried: {error}".partition(",")[0]
        except errors.ConstrainedMaxentError as error:
            return f"refused ({type(error).__name__})"
        except gym.error.ResetNeeded as error:
            return f"refused (ResetNeeded: {str(error).partition('. ')[2]})"
        except Exception as error:
            return f"fails in Gymnasium's own code ({type(error).__name__}: {str(error)[:60]})"
    names = sorted(
        {warning.category.__name__ for warning in caught if warning.category.__module__ == errors.__name__}
        - {"DegenerateDensity", "MixedState", "RedundantObservation"}
    )
    return f"warned ({', '.join(names)}); {found.removeprefix('WRONG: ')}" if names else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    lines = [HEAD]
    for title, module in (("Wrappers of environments", scalar), ("Wrappers of vector environments", vector)):
        lines += [f"\n## {title}\n", "| | below `TrackOccupancy` | above the stack |", "| --- | --- | --- |"]
        names = [name for name in module.__all__ if name != "vector"]
        for name in sorted(names):
            row = [tried(name, is_vector=module is vector, above=above) for above in (False, True)]
            lines.append(f"| `{name}` | {row[0]} | {row[1]} |")
            print(lines[-1], flush=True)
    out.write_text("\n".join(lines) + "\n")


HEAD = f"""# Gymnasium's wrappers, below and above

What was measured of each wrapper of Gymnasium {gym.__version__}, by

    python benchmarks/gymnasium_wrappers.py

on a walk that keeps a log of its own. *Right*: the mass of a batch, its states, a cost by its key in `info` and a cost
function of observation and action are those of the log. *In its own numbers*: a fixed map; cost functions and `state=`
see what it makes, and costs by their key are right. *Harmless*: what is below is right, and the pseudo-rewards arrive.
What would be wrong is refused, or named by a warning. Layers that convert arrays belong below: above they stop at the
first entry of `info` that they do not know, an object or a truth value of NumPy's."""


if __name__ == "__main__":
    main()
