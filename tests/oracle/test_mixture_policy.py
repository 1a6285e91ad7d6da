"""Mixtures of policies: one draw for each episode."""

import numpy as np
import pytest

from constrained_maxent.agents import MixturePolicy
from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue

LEFT, RIGHT = [[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]


def test_it_says_that_it_is_no_single_policy():
    assert MixturePolicy([LEFT], [1.0]).is_single_policy is False


def test_one_draw_for_each_episode_with_the_right_frequencies():
    """1000 episodes with probability 0.3 for right: within 5 standard deviations of 300."""
    rng, mixture = np.random.default_rng(0), MixturePolicy([LEFT, RIGHT], [0.7, 0.3])
    episodes = []
    for _ in range(1000):
        episode = mixture.start_episode(rng)
        episodes.append([episode.act(state) for state in (0, 1, 0)])
    assert {tuple(actions) for actions in episodes} == {(0, 0, 0), (1, 1, 1)}
    assert abs(np.sum(episodes) / 3 - 300) < 5 * np.sqrt(1000 * 0.3 * 0.7)


def test_policies_of_time_follow_it_and_end_with_it():
    episode = MixturePolicy([[LEFT, RIGHT, LEFT]], [1.0]).start_episode(np.random.default_rng(0))
    assert [episode.act(0) for _ in range(3)] == [0, 1, 0]
    with pytest.raises(InvalidSetting, match="3 time steps"):
        episode.act(0)


@pytest.mark.parametrize(
    ("policies", "weights", "error"),
    [
        ([], [], InvalidData),
        ([LEFT], [0.5, 0.5], InvalidData),
        ([LEFT, RIGHT], [0.5, 0.4], InvalidData),
        ([LEFT, RIGHT], [1.5, -0.5], InvalidData),
        ([[[0.5, 0.4]]], [1.0], InvalidData),
        ([[[np.nan, 1.0]]], [1.0], NonFiniteValue),
    ],
    ids=["none", "more weights", "weights below 1", "negative", "no distribution", "nan"],
)
def test_what_is_no_mixture(policies, weights, error):
    with pytest.raises(error):
        MixturePolicy(policies, weights)
