"""The convolutional encoder: sums by hand, layouts that mean the same, and what is a picture."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from scipy.signal import correlate

from constrained_maxent.agents.policies import Features
from constrained_maxent.agents.policies.pictures import PictureEncoder
from constrained_maxent.spaces.pictures import is_picture

RNG = np.random.default_rng(0)


def encoded(encoder, pictures):
    with torch.no_grad():
        return encoder(torch.as_tensor(pictures.reshape(len(pictures), -1))).numpy()


def picture(*shape, dtype=np.uint8):
    return Box(0, 255, shape, dtype)


@pytest.mark.parametrize("shape", [(16, 16), (84, 84, 3), (4, 84, 84), (210, 160, 3), (4, 84, 84, 3), (4, 3, 84, 84)])
def test_what_is_a_picture(shape):
    assert is_picture(picture(*shape))


@pytest.mark.parametrize(
    "space", [picture(7, 7, 3), picture(300), picture(84, 84, 3, dtype=np.float32), picture(4, 15, 84), Discrete(3)]
)
def test_what_is_none(space):
    assert not is_picture(space)


def test_a_convolution_is_that_of_scipy():
    """Of 16 by 16, one layer: every second place of the correlation with a border of zeros, where it is positive."""
    encoder = PictureEncoder((16, 16, 3))
    picture = RNG.integers(0, 256, (16, 16, 3)).astype(np.uint8)
    weights, bias = (parameter.detach().double().numpy() for parameter in encoder.layers[0].parameters())
    padded = np.pad(picture / 255.0, ((1, 1), (1, 1), (0, 0))).transpose(2, 0, 1)
    expected = [correlate(padded, kernel, mode="valid")[0, ::2, ::2] for kernel in weights]
    expected = np.maximum(np.array(expected) + bias[:, None, None], 0.0)
    assert encoder.size == expected.size == 16 * 8 * 8
    np.testing.assert_allclose(encoded(encoder, picture[None])[0], expected.reshape(-1), atol=1e-5)


def test_channels_last_or_first_or_none_are_the_same_picture():
    last = PictureEncoder((40, 32, 3))
    first = PictureEncoder((3, 40, 32))
    first.load_state_dict(last.state_dict())
    pictures = RNG.integers(0, 256, (2, 40, 32, 3)).astype(np.uint8)
    moved = np.moveaxis(pictures, 3, 1).copy()
    np.testing.assert_allclose(encoded(first, moved), encoded(last, pictures), atol=1e-6)
    gray, alone = PictureEncoder((40, 32, 1)), PictureEncoder((40, 32))
    alone.load_state_dict(gray.state_dict())
    np.testing.assert_allclose(encoded(alone, pictures[..., 0]), encoded(gray, pictures[..., :1]), atol=1e-6)


def test_the_channels_of_a_stack_are_those_of_its_frames():
    frames = RNG.integers(0, 256, (2, 4, 40, 32, 3)).astype(np.uint8)
    channels = frames.transpose(0, 1, 4, 2, 3)
    flat, last, first = PictureEncoder((12, 40, 32)), PictureEncoder((4, 40, 32, 3)), PictureEncoder((4, 3, 40, 32))
    expected = encoded(flat, channels.reshape(2, 12, 40, 32))
    for stacked, given in ((last, frames), (first, channels.copy())):
        stacked.load_state_dict(flat.state_dict())
        np.testing.assert_allclose(encoded(stacked, given), expected, atol=1e-6)


def test_pictures_beside_other_parts():
    space = Dict(at=Box(-1, 1, (2,)), seen=picture(16, 16), of=Discrete(2))
    features = Features(space, normalize=True)
    rows = RNG.integers(0, 256, (3, 2 + 256 + 1)).astype(np.float64)
    rows[:, -1] = [0, 1, 1]
    features.observe(rows)
    with torch.no_grad():
        inputs = features(torch.as_tensor(rows)).numpy()
    assert inputs.shape == (3, features.size) == (3, 2 + 16 * 64 + 2)
    np.testing.assert_allclose(inputs[:, :2].mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_array_equal(inputs[:, 2:-2], encoded(features.encoders[0], rows[:, 2:-1]))
    assert inputs[:, -2:].tolist() == [[1, 0], [0, 1], [0, 1]]
