"""Random features of pictures: layers beside SciPy's correlations, distances, and a density over them."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import SyncVectorEnv
from scipy.signal import correlate

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.functionals import Entropy
from constrained_maxent.occupancy import NearestNeighbors
from constrained_maxent.wrappers import RandomEncoder, constrain, find_tracker

SIZE = 24


def spot(x: int, y: int = 8) -> Any:
    picture = np.zeros((SIZE, SIZE, 1), np.uint8)
    picture[y : y + 4, x : x + 4] = 255
    return picture


def test_its_layers_are_those_of_scipy() -> None:
    encoder, picture = RandomEncoder(n_features=5, seed=3), np.random.default_rng(0).integers(0, 256, (20, 16, 3))
    found = encoder(picture.astype(np.uint8))
    x = picture / 255.0
    *convolutions, last = (layer.astype(np.float64) for layer in encoder._weights((20, 16, 3)))
    assert [layer.shape for layer in (*convolutions, last)] == [(27, 16), (144, 32), (5 * 4 * 32, 5)]
    for weights in convolutions:
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        kernels = weights.T.reshape(-1, x.shape[2], 3, 3).transpose(0, 2, 3, 1)
        maps = [correlate(padded, kernel, mode="valid")[::2, ::2, 0] for kernel in kernels]
        x = np.maximum(np.stack(maps, axis=2), 0.0)
    np.testing.assert_allclose(found, x.reshape(-1) @ last, rtol=1e-4, atol=1e-5)


def test_the_same_for_the_same_seed_and_after_pickling() -> None:
    one, other = RandomEncoder(seed=1), RandomEncoder(seed=2)
    assert one(spot(3)).tolist() == RandomEncoder(seed=1)(spot(3)).tolist()
    assert one(spot(3)).tolist() != other(spot(3)).tolist()
    assert pickle.loads(pickle.dumps(one)) == one == RandomEncoder(seed=1) != other
    assert pickle.loads(pickle.dumps(one))(spot(3)).tolist() == one(spot(3)).tolist()


def test_channels_first_or_none() -> None:
    encoder, picture = RandomEncoder(), np.random.default_rng(0).integers(0, 256, (20, 16, 3)).astype(np.uint8)
    np.testing.assert_array_equal(encoder(np.moveaxis(picture, 2, 0)), encoder(picture))
    np.testing.assert_array_equal(encoder(picture[:, :, 0]), encoder(picture[:, :, :1]))


def test_like_pictures_are_near_each_other() -> None:
    encoder = RandomEncoder()
    distances = [np.linalg.norm(encoder(spot(x)) - encoder(spot(0))) for x in (1, 2, 4, 12)]
    assert distances == sorted(distances)
    assert np.isfinite(distances).all()


def test_a_stack_is_a_picture_with_the_channels_of_all_frames() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 20, 20, 3)).astype(np.uint8)
    encoder = RandomEncoder()
    np.testing.assert_array_equal(encoder(frames), encoder(np.concatenate(list(frames), axis=2)))


@pytest.mark.parametrize("settings", [{"n_features": 0}, {"n_features": 65}, {"seed": -1}])
def test_arguments_out_of_range(settings: Any) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(settings))):
        RandomEncoder(**settings)


@pytest.mark.parametrize("value", [{"image": spot(0)}, np.zeros(3), np.zeros((2, 2, 8, 8, 3)), "a", np.zeros((0, 8))])
def test_what_is_no_picture(value: Any) -> None:
    with pytest.raises(InvalidData, match="one picture"):
        RandomEncoder()(value)


class Camera(gym.Env[Any, Any]):
    """A spot at a random place: anywhere, or near the middle."""

    observation_space, action_space, horizon = Box(0, 255, (SIZE, SIZE, 1), np.uint8), Discrete(2), 50

    def __init__(self, reach: int) -> None:
        self.reach = reach

    def _see(self) -> Any:
        return spot(*(10 + self.np_random.integers(-self.reach, self.reach + 1, 2)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self._see(), 0.0, False, self.time == 50, {}


@pytest.mark.filterwarnings("ignore::constrained_maxent.errors.DegenerateDensity")  # spots are at whole numbers
def test_whoever_sees_more_has_more_entropy() -> None:
    entropies = []
    for reach in (3, 10):
        env = constrain(
            SyncVectorEnv([lambda reach=reach: Camera(reach)] * 2),
            Entropy(over="state", smoothing=1e-9),
            estimator=NearestNeighbors(),
            state=RandomEncoder(n_features=8),
            episodes_per_batch=4,
            discount=1.0,
        )
        env.reset(seed=0)
        while find_tracker(env).iteration == 0:
            env.step(env.action_space.sample())
        report = find_tracker(env).last_report
        assert report is not None
        entropies.append(report.objective)
    assert entropies[0] + 1.0 < entropies[1]
