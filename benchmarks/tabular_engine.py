"""How fast the batched engine is, beside a loop in C and a plain loop over Gymnasium with torch, in the same run.

    python benchmarks/tabular_engine.py

All three do the paper's work on its 6×6 grid: sampling, counting, pseudo-rewards, REINFORCE steps. The C loop is
compiled with ``gcc -O3 -march=native`` and runs in as many threads as the engine; the plain loop has one. They take
turns, so that whatever else the machine does hits all alike; figures are medians over rounds. In brackets stands what a
processor does in a second of its time: on a machine that is not idle, this and the clock part. The time of the paper's
main ablation is extrapolated from the engine's speed at each of its batch sizes.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import joblib
import numpy as np
import torch

import constrained_maxent  # noqa: F401  # registers the environments
from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.engine.sampling import tabulate
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint

BETA, ETA, GAMMA, SIGMA, EPISODES = 0.005, 0.01, 0.99, 1e-6, 8
SPEED_TARGET, PLAIN_TARGET, C_TARGET, ABLATION_TARGET = 35e6, 10_000, 2.0, 150.0
ABLATION = {8: 120, 24: 120, 72: 120}  # runs at each batch size: 12 settings of step size and β, 10 seeds
ABLATION_ITERATIONS = 15_000
PROCESSORS = joblib.cpu_count()

Speeds = tuple[float, float]


class Stopwatch:
    """Transitions per second, by the clock and by the processors' time."""

    def __init__(self) -> None:
        self._begun, self._processors_begun = time.perf_counter(), time.process_time()

    def speeds(self, transitions: float) -> Speeds:
        elapsed, busy = time.perf_counter() - self._begun, time.process_time() - self._processors_begun
        return transitions / elapsed, transitions / busy


def engine_speed(problem: ExactProblem, n_runs: int, episodes: int, iterations: int) -> Speeds:
    constraints = {"cost": Constraint(problem.constraints["cost"], Quadratic(BETA))}
    runs = [RunSettings(seed=seed, constraints=constraints, episodes_per_batch=episodes) for seed in range(n_runs)]
    engine = TabularEngine(problem.mdp, runs, scale="truncated", snapshot_every=100, record_every=100)
    watch = Stopwatch()
    return watch.speeds(float(engine.run(iterations).transitions.sum()))


class CLoop:
    """The loop of ``tabular_engine.c``, compiled for this machine."""

    def __init__(self, problem: ExactProblem) -> None:
        self._folder = tempfile.TemporaryDirectory()
        library = Path(self._folder.name) / "loop.so"
        source = Path(__file__).with_suffix(".c")
        command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
        subprocess.run(command, check=True)
        self._run = ctypes.CDLL(str(library)).run  # ctypes lets go of the interpreter's lock
        self._run.restype = ctypes.c_int64
        dynamics = tabulate(problem.mdp, "truncated")
        self._certain, self._start = dynamics.certain, int(dynamics.starts[0])
        self._horizon, self._shape = len(dynamics.weights), (dynamics.n_states, dynamics.n_actions)
        self._cost = np.ascontiguousarray(problem.constraints["cost"].table)  # type: ignore[attr-defined]

    def run(self, seed: int, episodes: int, iterations: int) -> tuple[int, Any]:
        """Transitions, and the policy's θ."""
        theta = np.zeros(self._shape)
        pointer, number = ctypes.c_void_p, ctypes.c_double
        transitions = self._run(
            *self._shape, pointer(self._certain.ctypes.data), self._start, pointer(self._cost.ctypes.data),
            number(BETA), number(SIGMA), number(ETA), number(GAMMA), self._horizon, episodes,
            ctypes.c_int64(iterations), ctypes.c_uint64(seed * 2**40), pointer(theta.ctypes.data),
        )  # fmt: skip
        return transitions, theta

    def speed(self, n_runs: int, episodes: int, iterations: int) -> Speeds:
        with ThreadPoolExecutor(PROCESSORS) as pool:
            watch = Stopwatch()
            return watch.speeds(sum(pool.map(lambda seed: self.run(seed, episodes, iterations)[0], range(n_runs))))


def plain_speed(iterations: int) -> Speeds:
    """The loop that one would write first: a step, a softmax and a log-probability at a time."""
    env = gym.make("SafeFrozenLake-v0")
    theta = torch.zeros((36, 4), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=ETA)
    steps, watch = 0, Stopwatch()
    for iteration in range(iterations):
        trajectories, occupancy, expected_cost = [], np.zeros((36, 4)), 0.0
        for _ in range(EPISODES):
            state, _ = env.reset(seed=iteration)
            trajectory, over = [], False
            while not over:
                distribution = torch.distributions.Categorical(logits=theta[state])
                action = distribution.sample()
                weight = GAMMA ** len(trajectory)
                following, _, terminated, truncated, info = env.step(int(action))
                over = terminated or truncated
                occupancy[state, int(action)] += weight / EPISODES
                expected_cost += weight * info["cost"] / EPISODES
                trajectory.append((state, int(action), weight, info["cost"], distribution.log_prob(action)))
                state = following
            trajectories.append(trajectory)
            steps += len(trajectory)
        slope = 2.0 * BETA * max(expected_cost, 0.0)
        loss = torch.zeros((), dtype=torch.float64)
        for trajectory in trajectories:
            ahead = 0.0
            for state, action, weight, cost, log_prob in reversed(trajectory):
                mass = occupancy[state, action]
                ahead += weight * (-np.log(mass + SIGMA) - mass / (mass + SIGMA) - slope * cost)
                loss = loss - ahead * log_prob / EPISODES
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return watch.speeds(steps)


def medians(speeds: list[Speeds]) -> Speeds:
    clock, busy = map(median, zip(*speeds, strict=True))
    return clock, busy


def met(condition: bool) -> str:
    return "met" if condition else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=5000)
    parser.add_argument("--plain-iterations", type=int, default=20)
    options = parser.parse_args()
    problem = ExactProblem.from_env(gym.make("FrozenLake-PGP-v0", preset="paper"))
    torch.set_num_threads(1)
    engine_speed(problem, 1, EPISODES, 1)  # compiles
    loop = CLoop(problem)

    policy = torch.softmax(torch.as_tensor(loop.run(0, EPISODES, ABLATION_ITERATIONS)[1]), dim=1).numpy()
    point = problem.evaluate(policy)
    print(f"the C loop learns: entropy {point.objective:.2f}, cost {point.constraints['cost']:.2f}")

    engines, loops, plains = [], [], []
    for _ in range(options.rounds):
        engines.append(engine_speed(problem, options.runs, EPISODES, options.iterations))
        loops.append(loop.speed(options.runs, EPISODES, options.iterations))
        plains.append(plain_speed(options.plain_iterations))
    (engine, engine_busy), (c, c_busy), (plain, plain_busy) = map(medians, (engines, loops, plains))
    slower = median(fast / slow for (fast, _), (slow, _) in zip(loops, engines, strict=True))
    faster = median(fast / slow for (fast, _), (slow, _) in zip(engines, plains, strict=True))

    print(f"{PROCESSORS} processors, {options.runs} runs, batches of {EPISODES} episodes; transitions/s:")
    print(
        f"engine     {engine:13,.0f} ({engine_busy:,.0f})   target ≥ {SPEED_TARGET:,.0f}: {met(engine >= SPEED_TARGET)}"
    )
    print(f"C loop     {c:13,.0f} ({c_busy:,.0f})   engine takes {slower:.2f} ({c_busy / engine_busy:.2f}) × its time, "
          f"aim ≤ {C_TARGET:g}: {met(slower <= C_TARGET)}")  # fmt: skip
    print(f"plain loop {plain:13,.0f} ({plain_busy:,.0f})   the engine is {faster:,.0f} × as fast, "
          f"aim ≥ {PLAIN_TARGET:,}: {met(faster >= PLAIN_TARGET)}")  # fmt: skip

    total, transitions = 0.0, 0
    for episodes, n_runs in ABLATION.items():
        iterations = max(1, options.iterations * EPISODES // episodes)
        speed, busy = medians([engine_speed(problem, options.runs, episodes, iterations) for _ in engines])
        work = n_runs * ABLATION_ITERATIONS * episodes * 25
        total, transitions = total + work / speed, transitions + work
        print(
            f"  B = {episodes:2}    {speed:13,.0f} ({busy:,.0f})   {n_runs} runs of the ablation: {work / speed:.1f} s"
        )
    print(f"main ablation, {transitions / 1e9:.2f} G transitions: {total:.0f} s (extrapolated)   "
          f"target ≤ {ABLATION_TARGET:g} s: {met(total <= ABLATION_TARGET)}")  # fmt: skip


if __name__ == "__main__":
    main()
