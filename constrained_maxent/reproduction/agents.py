"""Agents of Stable-Baselines3 on this package's problems, as ``adapters.sb3.VecEnv`` suggests their settings."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import polars as pl

from constrained_maxent.evaluation import ExactProblem, evaluate_rollouts
from constrained_maxent.reproduction import AgentStudyName
from constrained_maxent.reproduction.measured_once import measured_once

GRID, CARTPOLE = "FrozenLake-PGP-v0", "SafeCartpole-PGP-v0"

EPISODES = {GRID: 2048, CARTPOLE: 64}
"""Fresh episodes of a last policy; on the grid only where there is no table of it."""

_PACKAGES = {
    "PPO": "stable_baselines3",
    "A2C": "stable_baselines3",
    "TRPO": "sb3_contrib",
    "RecurrentPPO": "sb3_contrib",
}

Algorithm = Literal["PPO", "A2C", "TRPO", "RecurrentPPO"]


@dataclass(frozen=True, kw_only=True)
class AgentRun:
    """One training: who learns where, with how many copies of the environment.

    Args:
        net: hidden sizes of policy and critic; ``None`` for those that are suggested.
        slider_limit: of the cartpole [m].
    """

    algorithm: Algorithm
    env_id: str
    num_envs: int
    timesteps: int
    net: tuple[int, ...] | None = None
    slider_limit: float | None = None
    seed: int = 0

    @property
    def case(self) -> str:
        """What tells it apart from the others but its seed."""
        net = "" if self.net is None else f", net {list(self.net)}"
        limit = "" if self.slider_limit is None else f", limit {self.slider_limit:g}"
        copies = "one copy" if self.num_envs == 1 else f"{self.num_envs} copies"
        return f"{self.algorithm}, {copies}{net}{limit}"


def _grid(algorithm: Algorithm, num_envs: int, net: tuple[int, ...] | None = None) -> AgentRun:
    return AgentRun(algorithm=algorithm, env_id=GRID, num_envs=num_envs, timesteps=400_000, net=net)


def _cartpole(slider_limit: float) -> AgentRun:
    return AgentRun(algorithm="PPO", env_id=CARTPOLE, num_envs=64, timesteps=480_000, slider_limit=slider_limit)


STUDIES: dict[AgentStudyName, tuple[int, Sequence[AgentRun]]] = {
    "grid": (10, [_grid("PPO", 16, ()), _grid("PPO", 16)]),
    "grid-one-copy": (10, [_grid("PPO", 1)]),
    "grid-others": (3, [_grid(algorithm, 16) for algorithm in ("A2C", "TRPO", "RecurrentPPO")]),
    "cartpole": (5, [_cartpole(2.0), _cartpole(1.5)]),
}
"""How many seeds, and the cases, by name."""


def run_study(
    name: AgentStudyName,
    folder: Path,
    *,
    seeds: int | None = None,
    workers: int = 1,
    progress: Callable[[str], None] = lambda label: None,
) -> pl.DataFrame:
    """Train and measure; what is finished in the folder is not done again.

    Args:
        name: which study.
        folder: of the results; a file for each run below it.
        seeds: how many, from 0; by default the study's own number.
        workers: runs at a time, each in a process of its own.
        progress: called with the name of every run that is done.

    Returns:
        One row for each run.

    Raises:
        InvalidSetting: fewer than one seed or worker.
        InvalidRun: a file in the folder is of other settings.
    """
    usual, cases = STUDIES[name]
    n_seeds = usual if seeds is None else seeds
    runs = [AgentRun(**asdict(case) | {"seed": seed}) for case in cases for seed in range(n_seeds)]
    found = measured_once(
        runs, measure, folder, name=lambda run: f"{run.case}, seed {run.seed}", workers=workers, progress=progress
    )
    rows = [{"study": name, "case": run.case, "seed": run.seed} | row for run, row in zip(runs, found, strict=True)]
    return pl.DataFrame(rows, infer_schema_length=None)


def measure(run: AgentRun) -> dict[str, Any]:
    """Train, and say what the last batch said, and what the last policy is worth."""
    from stable_baselines3.common.vec_env import VecNormalize

    from constrained_maxent.adapters.sb3 import OccupancyCallback, VecEnv, as_agent, policy_log_prob, policy_table

    limit: dict[str, Any] = {} if run.slider_limit is None else {"slider_limit": run.slider_limit}
    venv = VecEnv(run.env_id, num_envs=run.num_envs, preset="ppo", **limit)
    sees_normalized = venv.tracker.suggestions.get("normalize_observations", False)
    seen = VecNormalize(venv, norm_reward=False) if sees_normalized else venv
    kind = getattr(import_module(_PACKAGES[run.algorithm]), run.algorithm)
    arguments = {
        name: value for name, value in venv.suggested(run.net).items() if name in inspect.signature(kind).parameters
    }
    policy = "MlpLstmPolicy" if run.algorithm == "RecurrentPPO" else "MlpPolicy"
    begun = time.perf_counter()
    model = kind(policy, seen, seed=run.seed, device="cpu", **arguments)
    callback = OccupancyCallback(verbose=0)
    if run.env_id == GRID:
        model.learn(run.timesteps, callback=callback)
    else:  # of fresh episodes on the way the callback makes more steps than the training has
        venv.tracker.announce(timesteps=run.timesteps)
        with venv.tracker.acting(log_prob=policy_log_prob(model)):
            model.learn(run.timesteps)
    seconds = time.perf_counter() - begun
    report = venv.tracker.last_report
    assert report is not None
    measured = {
        "seconds": round(seconds, 1),
        "objective, last batch": report.objective,
        "cost, last batch": report.constraints["cost"],
        "multiplier": report.multipliers["cost"],
    }
    if (said := callback.values) is not None:
        measured |= {"objective, log": said.objective, "cost, log": said.constraints["cost"]}
    if run.env_id == GRID and run.algorithm != "RecurrentPPO":
        exact = ExactProblem.from_env(gym.make(GRID))
        value = exact.evaluate(policy_table(model, exact.mdp))
        return measured | {"objective": value.objective, "cost": value.constraints["cost"]}
    episodes = EPISODES[run.env_id]
    fresh = gym.make_vec(run.env_id, num_envs=episodes, episodes_per_batch=episodes, **limit)
    agent = Remembering(model) if run.algorithm == "RecurrentPPO" else as_agent(model, seed=run.seed)
    found = evaluate_rollouts(fresh, agent, n_episodes=episodes, seed=run.seed)
    fresh.close()
    assert found.objective is not None
    figures = {} if found.states is None else {name: value.mean for name, value in found.states.figures().items()}
    return measured | {"objective": found.objective.mean, "cost": found.constraints["cost"].mean} | figures


class Remembering:
    """A recurrent model as an agent, for episodes that start together, once."""

    def __init__(self, model: Any) -> None:
        self._model, self._state = model, None

    def predict(self, observation: Any, *, deterministic: bool = False) -> tuple[Any, Any]:
        # Without a state all episodes start; from then on none does, as a restarted copy counts for nothing.
        actions, self._state = self._model.predict(observation, state=self._state, deterministic=deterministic)
        return actions, None
