"""What the wrapper stack costs per step, beside the bare environment in the same run.

    python benchmarks/wrapper_overhead.py

Bare and wrapped environments take turns, so that whatever else the machine does hits both alike; each figure is the
median over rounds. Actions are drawn before the clock starts. Batch ends (fit, evaluation, rewards) are included.
The rows of the mixture have 16 full components over four state coordinates, one of them an angle where it says so.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.types import Batch
from constrained_maxent.wrappers import constrain

BARE, WRAPPED = "constrained_maxent:SafeFrozenLake-v0", "constrained_maxent:FrozenLake-PGP-v0"
SCALAR_TARGET, VECTOR_TARGET = 10.0, 1.0  # µs of overhead per environment step (counts)
MIXTURE_SCALAR_TARGET, MIXTURE_VECTOR_TARGET = 40.0, 4.0  # the same (mixture)
POINT_TARGET = 40.0  # µs of one log_prob at one point
LENGTH = 1000
N_COORDINATES = 4


def _walk(n: int) -> Any:
    walk = np.random.default_rng(1).normal(size=(LENGTH, n, N_COORDINATES))
    walk[..., 2] = np.remainder(2.0 * walk[..., 2], 2.0 * np.pi) - np.pi
    return walk


class Drift(gym.Env[Any, Any]):
    """Plays a walk that was drawn before, so that next to nothing but the wrappers takes time."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (N_COORDINATES,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self) -> None:
        self.walk = _walk(1)[:, 0]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.time = 0
        return self.walk[0], {"cost": 0.0, "state": self.walk[0]}

    def step(self, action: Any) -> Any:
        self.time += 1
        state = self.walk[self.time % LENGTH]
        return state, 0.0, False, self.time == LENGTH, {"cost": 0.0, "state": state}


class VectorDrift(gym.vector.VectorEnv[Any, Any, Any]):
    """The same in many sub-environments at once."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = Drift.observation_space, Drift.action_space
        self.observation_space, self.action_space = (
            gym.vector.utils.batch_space(space, num_envs) for space in (Drift.observation_space, Drift.action_space)
        )
        self.walk = _walk(num_envs)
        self.never, self.nothing = np.zeros(num_envs, dtype=bool), np.zeros(num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.time = 0
        return self.walk[0], {"cost": self.nothing, "state": self.walk[0]}

    def step(self, actions: Any) -> Any:
        self.time += 1
        states = self.walk[self.time % LENGTH]
        return states, self.nothing, self.never, self.never, {"cost": self.nothing, "state": states}


def scalar_round(env: gym.Env[Any, Any], actions: Any) -> float:
    env.reset(seed=0)
    begun = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return (time.perf_counter() - begun) / len(actions) * 1e6


def vector_round(env: gym.vector.VectorEnv[Any, Any, Any], actions: Any) -> float:
    env.reset(seed=0)
    begun = time.perf_counter()
    for row in actions:
        env.step(row)
    return (time.perf_counter() - begun) / (len(actions) * env.num_envs) * 1e6


def with_mixture(env: Any, *, steps_per_batch: int, periodic: tuple[int, ...], state: str | None) -> Any:
    return constrain(
        env,
        Entropy(over="state", smoothing=1e-9),
        {"cost": Constraint(LinearCost("cost", limit=0.0), Quadratic(beta=1.0))},
        estimator=GaussianMixture(periodic=periodic),
        steps_per_batch=steps_per_batch,
        discount=1.0,
        horizon=10**9,
        pairing="previous",
        state=state,
    )


def single_points(rounds: int, periodic: tuple[int, ...]) -> None:
    """One ``log_prob`` at one point, beside the same points in one call."""
    env = Drift()
    places, actions = env.walk, np.zeros((LENGTH, 1))
    fitted = GaussianMixture(periodic=periodic).bind(env.observation_space, env.action_space)
    fitted.fit(Batch(observations=places, actions=actions, lengths=np.array([LENGTH])))
    one, many = [], []
    for _ in range(rounds):
        begun = time.perf_counter()
        for i in range(LENGTH):
            fitted.log_prob(places[i : i + 1], actions[i : i + 1])
        one.append((time.perf_counter() - begun) / LENGTH * 1e6)
        begun = time.perf_counter()
        fitted.log_prob(places, actions)
        many.append((time.perf_counter() - begun) / LENGTH * 1e6)
    single, joint = median(one), median(many)
    name = f"log_prob of one point{', an angle' if periodic else ''}"
    met = "met" if single <= POINT_TARGET else "MISSED"
    print(f"{name:42}{single:9.3f} µs; of {LENGTH} at once {joint:6.3f} µs   target ≤ {POINT_TARGET:g} µs: {met}")


def compare(
    name: str, target: float, rounds: int, run: Callable[[Any, Any], float], envs: list[Any], actions: Any
) -> None:
    times = [[run(env, actions) for env in envs] for _ in range(rounds)]
    bare, wrapped = (median(column) for column in zip(*times, strict=True))
    overhead = median(after - before for before, after in times)
    print(
        f"{name:42}{bare:9.3f} µs{wrapped:9.3f} µs{wrapped / bare:8.2f} ×{overhead:9.3f} µs"
        f"   target ≤ {target:g} µs: {'met' if overhead <= target else 'MISSED'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=10_000, help="steps of a scalar round; a vector round has 1/10")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    actions = rng.integers(4, size=options.steps).tolist()
    rows = rng.integers(4, size=(options.steps // 10, 256))
    print(f"{'per environment step':42}{'bare':>12}{'wrapped':>12}{'ratio':>10}{'overhead':>12}")
    for pairing in ("same", "previous"):
        scalar = [gym.make(BARE), gym.make(WRAPPED, pairing=pairing, iterations=10_000)]
        compare(f"scalar, counts, {pairing}", SCALAR_TARGET, options.rounds, scalar_round, scalar, actions)
        vector = [
            gym.make_vec(BARE, num_envs=256),
            gym.make_vec(WRAPPED, num_envs=256, pairing=pairing, iterations=10_000),
        ]
        compare(f"vector of 256, counts, {pairing}", VECTOR_TARGET, options.rounds, vector_round, vector, rows)
    pushes = rng.uniform(-1.0, 1.0, (options.steps, 1)).astype(np.float32)
    shoves = rng.uniform(-1.0, 1.0, (options.steps // 10, 256, 1)).astype(np.float32)
    cases: list[tuple[str, tuple[int, ...], str | None]] = [
        ("mixture", (), None),
        ("mixture, info state, angle", (2,), "state"),
    ]
    for name, periodic, state in cases:
        scalar = [Drift(), with_mixture(Drift(), steps_per_batch=2048, periodic=periodic, state=state)]
        compare(f"scalar, {name}", MIXTURE_SCALAR_TARGET, options.rounds, scalar_round, scalar, pushes)
        vector = [
            VectorDrift(256),
            with_mixture(VectorDrift(256), steps_per_batch=16_384, periodic=periodic, state=state),
        ]
        compare(f"vector of 256, {name}", MIXTURE_VECTOR_TARGET, options.rounds, vector_round, vector, shoves)
        single_points(options.rounds, periodic)


if __name__ == "__main__":
    main()
