"""Collected episodes are those that were stepped, each once, also after a kill; pictures in dictionaries too."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent import runs
from constrained_maxent.errors import InvalidData, InvalidDataset, InvalidSetting
from constrained_maxent.runs import collecting

minari = pytest.importorskip("minari")


class Room(gym.Env[Any, Any]):
    """A walk of random length: what it observes is a picture of noise, where it is, and a word."""

    observation_space = gym.spaces.Dict(
        picture=gym.spaces.Box(0, 255, (36, 36, 3), np.uint8),
        place=gym.spaces.Tuple([gym.spaces.Discrete(9), gym.spaces.Box(-1.0, 1.0, (2,), np.float64)]),
        word=gym.spaces.Text(5, min_length=0),
    )
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 4
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at = int(np.clip(self.at + action - 1, 0, 8))
        ended = bool(self.np_random.random() < 0.2)
        return self._seen(), float(self.at), ended, False, {"cost": 0.5 * self.at}

    def _seen(self) -> Any:
        picture = self.np_random.integers(0, 256, (36, 36, 3), dtype=np.uint8)
        return {"picture": picture, "place": (self.at, self.np_random.uniform(-1, 1, 2)), "word": "a" * (self.at % 4)}


@pytest.fixture(autouse=True)
def _room(datasets: Path) -> None:
    if "Room-v0" not in gym.registry:
        gym.register("Room-v0", entry_point=f"{__name__}:Room", max_episode_steps=30)


def replayed(name: str, env: gym.Env[Any, Any]) -> int:
    """Step each episode again from its own seed, and compare; how many seeds there are."""
    data = minari.load_dataset(name)
    seeds = [found["seed"] for found in data.storage.get_episode_metadata(data.episode_indices)]
    for seed, episode in zip(seeds, data, strict=True):
        seen = [env.reset(seed=seed)[0]]
        for t, action in enumerate(episode.actions):
            observation, reward, terminated, truncated, info = env.step(action)
            seen.append(observation)
            assert reward == pytest.approx(episode.rewards[t], abs=1e-12)
            assert info["cost"] == episode.infos["cost"][t]
            assert (terminated, truncated) == (episode.terminations[t], episode.truncations[t])
        assert terminated or truncated
        if isinstance(env.observation_space, gym.spaces.Dict):
            np.testing.assert_array_equal(np.array([s["picture"] for s in seen]), episode.observations["picture"])
            np.testing.assert_array_equal([s["place"][0] for s in seen], episode.observations["place"][0])
            np.testing.assert_array_equal([s["place"][1] for s in seen], episode.observations["place"][1])
            assert [s["word"] for s in seen] == episode.observations["word"]
        else:
            np.testing.assert_array_equal(np.array(seen), episode.observations)
    return len(set(seeds))


def state(observation: Any) -> int:
    return int(observation["place"][0])


def test_a_dictionary_with_a_picture_comes_back() -> None:
    settings = runs.TrainSettings(state=(f"{__name__}:state",), cells=(9,))
    found = runs.collect("Room-v0", "room/uniform-v0", steps=150, settings=settings, num_envs=4)
    assert replayed("room/uniform-v0", Room()) == found.episodes
    data = minari.load_dataset("room/uniform-v0")
    lengths = [len(episode) for episode in data]
    assert sum(lengths) >= 150 > sum(lengths[:-1])  # whole episodes, and no more than were asked for
    costs = np.concatenate([episode.infos["cost"] for episode in data])
    assert found.evaluation.costs["cost"].mean.mean == pytest.approx(costs.mean())


def test_a_cartpole_comes_back_and_grows() -> None:
    settings = runs.TrainSettings(env_kwargs='{"time_limit": 0.2}')
    runs.collect("SafeCartpole-v0", "cart/uniform-v0", steps=600, settings=settings)
    found = runs.collect("SafeCartpole-v0", "cart/uniform-v0", steps=1000, settings=settings)
    assert (found.episodes, found.steps) == (50, 1000)
    assert replayed("cart/uniform-v0", minari.load_dataset("cart/uniform-v0").recover_environment()) == 50
    with pytest.raises(InvalidDataset, match="seed is 0 and not 1"):
        runs.collect("SafeCartpole-v0", "cart/uniform-v0", steps=1000, settings=settings, seed=1)
    with pytest.raises(InvalidSetting, match="steps"):
        runs.collect("SafeCartpole-v0", "cart/other-v0", steps=0)


def test_what_was_killed_goes_on(datasets: Path) -> None:
    script = (
        "import os, signal\nfrom constrained_maxent import runs\nfrom constrained_maxent.runs import collecting\n"
        "collecting.PART_BYTES = 1\nwrite = collecting.minari.Store.write\ncount = []\n"
        "def killing(self, episodes):\n    write(self, episodes)\n    count.append(1)\n"
        "    if len(count) == 8: os.kill(os.getpid(), signal.SIGKILL)\n"
        "collecting.minari.Store.write = killing\n"
        "runs.collect('SafeFrozenLake-v0', 'lake/killed-v0', steps=600, num_envs=4)"
    )
    ended = subprocess.run([sys.executable, "-c", script], env=os.environ.copy(), check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list((datasets / "lake/killed-v0/.collecting").glob("part-*.npz"))) == 8
    found = runs.collect("SafeFrozenLake-v0", "lake/killed-v0", steps=600, num_envs=4)
    assert found.steps >= 600
    assert replayed("lake/killed-v0", gym.make("SafeFrozenLake-v0")) == found.episodes


def test_copies_of_a_stack_do_not_start_staggered() -> None:
    """Those of a training are cut at first, so that its fragments are of all ages: that is not for data."""
    settings = runs.TrainSettings(env_kwargs='{"time_limit": 0.2}')
    runs.collect("SafeCartpole-PGP-v0", "cart/copies-v0", steps=80, num_envs=4, settings=settings)
    assert [len(episode) for episode in minari.load_dataset("cart/copies-v0")] == [20] * 4


class Runner(gym.Env[Any, Any]):
    """It runs for three steps, 1, 2 and 3 m/s fast, and may hit something in the second."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (1,))
    action_space = gym.spaces.Discrete(2)
    hits = False

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.speed = 0.0
        return np.zeros(1, np.float32), {"speed": 0.0}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.speed += 1.0
        info = {"speed": self.speed, "metrics/speed": self.speed}
        info |= {"cost_hit": 2.0} if self.hits and self.speed == 2.0 else {}
        return np.full(1, self.speed, np.float32), 0.0, self.speed == 3.0, False, info


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Runner, "hits", False)
    if "Runner-v0" not in gym.registry:
        gym.register("Runner-v0", entry_point=f"{__name__}:Runner", max_episode_steps=9)
    return "Runner-v0"


def test_a_cost_that_is_reported_late_is_a_column_of_all_episodes(runner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.collect(runner, "some/hits-v0", steps=6, num_envs=2)
    monkeypatch.setattr(Runner, "hits", True)
    runs.collect(runner, "some/hits-v0", steps=12, num_envs=2)
    hits = [episode.infos["cost_hit"] for episode in minari.load_dataset("some/hits-v0")]
    np.testing.assert_array_equal(hits, [[np.nan] * 3] * 2 + [[np.nan, 2.0, np.nan]] * 2)


def test_state_and_cost_may_be_one_key_of_info(runner: str) -> None:
    settings = runs.TrainSettings(state=("speed",), cells=(4,), cost="speed", limit=1.0)
    found = runs.collect(runner, "some/speed-v0", steps=3, num_envs=1, settings=settings)
    (episode,) = minari.load_dataset("some/speed-v0")
    assert episode.infos["speed"].ravel().tolist() == [0, 1, 2, 3]
    assert found.evaluation.costs["speed"].mean.mean == 2.0


def test_a_name_that_cannot_be_a_column_is_refused_before_a_step(runner: str, datasets: Path) -> None:
    settings = runs.TrainSettings(cost="metrics/speed", limit=1.0)
    with pytest.raises(InvalidSetting, match="metrics/speed"):
        runs.collect(runner, "some/slash-v0", steps=3, num_envs=1, settings=settings)
    assert not (datasets / "some" / "slash-v0").exists()


def test_a_call_with_fewer_steps_leaves_what_a_longer_one_has_begun(
    runner: str, datasets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four episodes of three steps are there when it is interrupted; the first is asked for, and then all."""
    with monkeypatch.context() as patch:
        patch.setattr(collecting, "PART_BYTES", 1)
        patch.setattr(collecting, "evaluate_batch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            runs.collect(runner, "some/parts-v0", steps=12, num_envs=1)
    parts = datasets / "some/parts-v0/.collecting"
    assert runs.collect(runner, "some/parts-v0", steps=3, num_envs=1).episodes == 1
    assert len(list(parts.glob("part-*.npz"))) == 3
    assert runs.collect(runner, "some/parts-v0", steps=2, num_envs=1).episodes == 1
    assert len(list(parts.glob("part-*.npz"))) == 3
    with monkeypatch.context() as patch:
        patch.setattr(collecting.minari.Recording, "step", interrupt)
        assert runs.collect(runner, "some/parts-v0", steps=12, num_envs=1).episodes == 4
    assert not parts.exists()
    seeds = minari.load_dataset("some/parts-v0").storage.get_episode_metadata(range(4))
    assert len({found["seed"] for found in seeds}) == 4


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_part_that_is_damaged_is_named(runner: str, datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(collecting, "evaluate_batch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            runs.collect(runner, "some/damaged-v0", steps=3, num_envs=1)
    (part,) = (datasets / "some/damaged-v0/.collecting").glob("part-*.npz")
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(InvalidDataset, match=rf"{part.name} cannot be read .* delete it"):
        runs.collect(runner, "some/damaged-v0", steps=3, num_envs=1)
    part.unlink()
    assert runs.collect(runner, "some/damaged-v0", steps=3, num_envs=1).episodes == 1


class Standing:
    """An agent of somebody's, made for a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def predict(self, observation: Any, *, deterministic: bool) -> Any:
        return np.zeros(len(observation), np.int64), None


class Silent(Standing):
    def predict(self, observation: Any, *, deterministic: bool) -> Any:
        return None


def test_an_agent_is_made_by_a_function_or_a_class(runner: str) -> None:
    found = runs.collect(runner, "some/standing-v0", steps=3, num_envs=1, agent=Standing, policy="standing")
    assert found.episodes == 1
    with pytest.raises(InvalidSetting, match="a function, or a class"):
        runs.collect(runner, "some/other-v0", steps=3, num_envs=1, agent=Standing(0), policy="standing")
    with pytest.raises(InvalidSetting, match="makes 'words', which has no predict"):
        runs.collect(runner, "some/other-v0", steps=3, num_envs=1, agent=lambda seed: "words", policy="words")
    with pytest.raises(InvalidData, match=r"predict\(\) must return actions, .* got None"):
        runs.collect(runner, "some/other-v0", steps=3, num_envs=1, agent=Silent, policy="silent")


def test_a_data_set_that_is_damaged_does_not_grow(runner: str, datasets: Path) -> None:
    runs.collect(runner, "some/damaged-v0", steps=3, num_envs=1)
    file = datasets / "some" / "damaged-v0" / "data" / "main_data.hdf5"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InvalidDataset, match="no data set that can be read"):
        runs.collect(runner, "some/damaged-v0", steps=6, num_envs=1)
