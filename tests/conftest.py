"""No test needs a display; and what tests of several folders share, above all scripted environments.

Scripted environments, and what drives them, let estimates and rewards be worked out by hand.
"""

import builtins
import os
import time
from contextlib import contextmanager
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from constrained_maxent.occupancy import OccupancyEstimator
from constrained_maxent.types import Measure, Points

os.environ["MPLBACKEND"] = "Agg"
os.environ["SDL_VIDEODRIVER"] = "dummy"

DISABLED, NEXT_STEP, SAME_STEP = AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP


class Nearest(OccupancyEstimator):
    """A crude density over Box(1): the mass of everything within 0.5, to show that any estimator fits in."""

    def bind(self, observation_space, action_space):
        return self

    def fit(self, batch, *, progress=0.0):
        self.places, self.weights = batch.observations[:, 0], batch.weights / batch.n_episodes
        self.mass_ = float(self.weights.sum())
        self.remember_costs(batch)
        return self

    def points(self, observations, actions, costs=None):
        near = np.abs(observations[:, :1] - self.places[None]) < 0.5
        density = near @ self.weights
        return Points(density=density, state_density=density, observations=observations, costs=dict(costs or {}))

    def measure(self):
        points = self.points(self.places[:, None], None)
        return Measure(points=points, weights=self.weights, expected_costs=self.expected_costs_)

    def log_prob(self, observations, actions):
        return np.log(self.points(observations, actions).density / self.mass_)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    def get_params(self):
        return {}


def _episode(path, costs=None, end="terminated"):
    """Visit ``path``; ``costs`` are numbers, or whole infos; ``end`` is terminated, truncated, or None: goes on."""
    return {"path": list(path), "costs": [0.0] * (len(path) - 1) if costs is None else list(costs), "end": end}


def _playback_class():
    # A local class travels to the processes of an AsyncVectorEnv by value, whatever they can import.
    class Playback(gym.Env):
        """Plays episodes one after the other, whatever the actions; after the last one, the first again."""

        def __init__(self, *episodes, n_states=4, n_actions=2, observation_space=None, action_space=None):
            self.episodes = episodes
            self.observation_space = observation_space or gym.spaces.Discrete(n_states)
            self.action_space = action_space or gym.spaces.Discrete(n_actions)
            self.number = -1

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.options = options
            self.number += 1
            self.episode = self.episodes[self.number % len(self.episodes)]
            self.time = 0
            return self.episode["path"][0], {}

        def step(self, action):
            cost = self.episode["costs"][self.time]
            info = dict(cost) if isinstance(cost, dict) else {} if cost is None else {"cost": cost}
            info = {key: float(value) if type(value) is int else value for key, value in info.items()}
            reward = info.pop("reward", 0.0)
            self.time += 1
            over = self.time == len(self.episode["path"]) - 1
            end = self.episode["end"] if over else None
            return self.episode["path"][self.time], reward, end == "terminated", end == "truncated", info

    return Playback


def _run(env, actions, *, reset=True):
    """Take the actions in a scalar environment, resetting whenever an episode ends. The infos of the steps."""
    infos = []
    if reset:
        env.reset()
    for i, action in enumerate(actions):
        *_, terminated, truncated, info = env.step(action)
        infos.append(info)
        if (terminated or truncated) and i + 1 < len(actions):
            env.reset()
    return infos


def _drive(env, mode, policy, n_batches=1, n_steps=10_000):
    """Step a vector environment by ``policy(sub-environment, episode, time, observation)`` until batches end."""
    n = env.num_envs
    observations, _ = env.reset()
    episode, time, waiting = np.zeros(n, int), np.zeros(n, int), np.zeros(n, bool)
    reports, log = [], []
    for _ in range(n_steps):
        actions = np.array([policy(i, int(episode[i]), int(time[i]), observations[i]) for i in range(n)])
        before = observations
        observations, rewards, terminated, truncated, infos = env.step(actions)
        done = terminated | truncated
        log.append(
            SimpleNamespace(before=before, actions=actions, rewards=rewards, infos=infos, episode=episode.copy())
        )
        if "batch" in infos:
            reports.append(infos["batch"])
        time[~waiting] += 1
        if mode is NEXT_STEP:
            episode[waiting] += 1
            time[waiting] = 0
            waiting = done
        else:
            episode[done] += 1
            time[done] = 0
        if mode is DISABLED and done.any():
            observations, infos = env.reset(options={"reset_mask": done})
            if "batch" in infos:
                reports.append(infos["batch"])
        if len(reports) >= n_batches:
            return reports, log
    raise AssertionError(f"only {len(reports)} batches in {n_steps} steps")


@pytest.fixture(scope="session")
def scripted():
    return SimpleNamespace(
        Playback=_playback_class(),
        Nearest=Nearest,
        episode=_episode,
        run=_run,
        drive=_drive,
    )


@pytest.fixture
def without_stable_baselines(monkeypatch):
    """As if Stable-Baselines3 were not installed."""
    original = builtins.__import__

    def without(name, *arguments, **keywords):
        if name.startswith("stable_baselines3"):
            raise ImportError(f"No module named {name!r}")
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """Where Minari has the data sets of one test, and nobody else's."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


class _Here:
    """An executor of sweeps that does runs in this process, when it is asked to."""

    has_room, running = True, ()

    def __init__(self, perform, calls):
        self._perform, self._calls, self._done = perform, calls, []

    def submit(self, run):
        self._calls.append(run.name)
        self._done.append((run, self._perform(run)))

    def wait(self, seconds):
        time.sleep(0.0 if self._done else 0.05)
        done, self._done = self._done, []
        return done

    def stop(self):
        return self.wait(0.0)


@pytest.fixture
def sweeps_here(monkeypatch):
    """Sweeps start no processes; the names of the runs that they asked for, in order."""
    from constrained_maxent.runs.sweeps import sweeping
    from constrained_maxent.runs.sweeps.performing import perform

    calls = []

    @contextmanager
    def make(name, folder, token, **how):
        yield _Here(lambda run: perform(run, folder, token), calls)

    monkeypatch.setattr(sweeping, "executor_named", make)
    monkeypatch.setattr(sweeping, "_LOOK_ELSEWHERE", 0.05)
    return calls
