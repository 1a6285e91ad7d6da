"""The running scale of rewards: by hand, beside VecNormalize, through both kinds of stack, and in checkpoints."""

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent import wrappers
from constrained_maxent.errors import CheckpointMismatch, InvalidSetting
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.penalties import QuadraticContinuation
from constrained_maxent.problem import Constraint
from constrained_maxent.reward_scale import RewardScale
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import Batch

COST = {"cost": Constraint(LinearCost("cost", limit=0.0), QuadraticContinuation(0.005, 40.0))}


def fragments(lengths, *, starts=None, ended=None):
    n = sum(lengths)
    return Batch(
        observations=np.zeros(n, dtype=int),
        actions=np.zeros(n, dtype=int),
        lengths=np.array(lengths),
        starts=None if starts is None else np.array(starts),
        truncated=None if ended is None else np.array(ended),
    )


class TestByHand:
    def test_standard_deviation_of_discounted_returns(self):
        scale = RewardScale(0.5)
        assert scale.value == 1.0
        scale.add(np.array([1.0, 2.0, 4.0]), fragments([2, 1]), [0, 1])
        assert scale.value == pytest.approx(np.std([1.0, 2.5, 4.0]))  # 2.5 = 2 + 0.5 · 1

    def test_an_episode_that_goes_on_brings_its_return_along(self):
        scale = RewardScale(0.5)
        # Returns 4, 4 and 0.5 · 4 + 2: equal ones say nothing of a scale.
        scale.add(np.array([4.0, 4.0, 2.0]), fragments([1, 2], ended=[True, False]), [1, 0])
        assert scale.value == 1.0
        # Copy 0 goes on with 4 behind it: 0.5 · 4 + 1; copy 1 begins anew, and so does the next episode of copy 0.
        scale.add(np.array([1.0, 5.0, 7.0]), fragments([1, 1, 1], starts=[2, 0, 0]), [0, 1, 0])
        assert scale.value == pytest.approx(np.std([3.0, 5.0, 7.0]))

    def test_nothing_goes_on_where_steps_were_forgotten(self):
        scale = RewardScale(0.5)
        scale.add(np.array([4.0, 2.0]), fragments([2], ended=[False]), [0])
        scale.forget_episodes()
        scale.add(np.array([1.0, 5.0]), fragments([2], starts=[2]), [0])
        assert scale.value == pytest.approx(np.std([1.0, 5.5]))

    def test_the_past_fades(self):
        scale = RewardScale(0.5)
        for high in (2.0, 20.0, 20.0):
            scale.add(np.array([0.0, high]), fragments([1, 1]), [0, 1])
        # Variances 1, 100, 100 with the weights 0.081, 0.09 and 0.1 of a memory of 0.9.
        assert scale.value == pytest.approx(np.sqrt((0.081 * 1.0 + 0.19 * 100.0) / 0.271))

    def test_equal_returns_are_no_scale(self):
        scale = RewardScale(0.5)
        for reward in (0.0, 0.1):
            scale.add(np.full(3, reward), fragments([1, 1, 1]), [0, 1, 2])
            assert scale.value == 1.0


def test_much_the_same_as_vec_normalize():
    """Of rewards whose distribution does not change; there the past that fades differs from the whole by noise."""
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    theirs = vec_env.VecNormalize(
        vec_env.DummyVecEnv([lambda: gym.make("FrozenLake-v1")] * 8), norm_obs=False, gamma=0.9
    )
    ours, rng = RewardScale(0.9), np.random.default_rng(0)
    n_steps = 200
    for k in range(20):
        rewards = 3.0 + rng.normal(size=(n_steps, 8))
        for step in rewards:
            theirs._update_reward(step)
        starts = np.full(8, k * n_steps)
        ours.add(rewards.T.reshape(-1), fragments([n_steps] * 8, starts=starts, ended=np.zeros(8, bool)), range(8))
    # The stationary deviation of an AR(1) process: σ / √(1 - γ²); the way up from 0 is a small part of theirs.
    assert ours.value == pytest.approx(1.0 / np.sqrt(1.0 - 0.9**2), rel=0.02)
    assert ours.value == pytest.approx(np.sqrt(theirs.ret_rms.var), rel=0.2)


def lake(num_envs=None, *, normalize=True, **settings):
    env = gym.make("SafeFrozenLake-v0") if num_envs is None else gym.make_vec("SafeFrozenLake-v0", num_envs=num_envs)
    settings = {"episodes_per_batch": 4, "pairing": "previous", "scale": "truncated"} | settings
    stack = wrappers.constrain(env, Entropy(smoothing=1e-5), COST, normalize_reward=normalize, **settings)
    find_tracker(stack).announce(iterations=20)
    return stack


def play(env, n_steps, seed=0):
    """Rewards, pseudo-rewards and scales of each step, and where batches ended."""
    env.reset(seed=seed)
    rng, tracker, trace = np.random.default_rng(seed), find_tracker(env), []
    is_vector = isinstance(env, gym.vector.VectorEnv)
    for _ in range(n_steps):
        scale = tracker.reward_scale
        _, reward, terminated, truncated, info = env.step(rng.integers(4, size=env.num_envs if is_vector else None))
        trace.append((np.array(reward), np.array(info["pseudo_reward"]), scale, "batch" in info))
        if not is_vector and (terminated or truncated):
            env.reset()
    return trace


@pytest.mark.parametrize("num_envs", [None, 3])
class TestStacks:
    def test_rewards_are_divided_and_info_is_not(self, num_envs):
        scaled, plain = (play(lake(num_envs, normalize=normalize), 500) for normalize in (True, False))
        for (reward, pseudo, scale, is_end), (raw, same, one, also_end) in zip(scaled, plain, strict=True):
            np.testing.assert_array_equal(reward, pseudo / scale)
            np.testing.assert_array_equal(pseudo, same)
            np.testing.assert_array_equal(raw, same)
            assert (one, is_end) == (1.0, also_end)
        assert scaled[-1][2] > 2.0

    def test_the_scale_changes_at_ends_of_batches_only_and_follows_the_price(self, num_envs):
        trace = play(lake(num_envs), 600)
        scales = [scale for _, _, scale, _ in trace]
        changes = [i for i in range(1, len(scales)) if scales[i] != scales[i - 1]]
        assert changes == [i + 1 for i, (*_, is_end) in enumerate(trace[:-1]) if is_end]
        assert scales[-1] > scales[changes[0]]

    def test_it_is_the_deviation_of_what_the_batch_would_earn_next(self, num_envs):
        """From the first batch's steps and the reward function that it was the first to fit, in NumPy."""
        env = lake(num_envs, discount=0.9, suggestions={"return_discount": 0.5})
        tracker = find_tracker(env)
        env.reset(seed=1)
        while not tracker.iteration:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if num_envs is None and (terminated or truncated):
                env.reset()
        batch, returns = tracker.last_batch, []
        for rewards in batch.split(tracker.rewards_of(batch)):
            total = 0.0
            for reward in rewards:
                total = reward + 0.5 * total
                returns.append(total)
        assert tracker.reward_scale == pytest.approx(np.std(returns))

    def test_a_checkpoint_continues_it(self, num_envs):
        env, other = lake(num_envs), lake(num_envs)
        play(env, 400)
        find_tracker(other).load_state_dict(find_tracker(env).state_dict())
        assert find_tracker(other).reward_scale == find_tracker(env).reward_scale > 1.0
        find_tracker(env).load_state_dict(find_tracker(env).state_dict())  # forgets the batch under way, as that does
        one, two = (play(stack, 300, seed=5) for stack in (env, other))
        np.testing.assert_array_equal([step[2] for step in one], [step[2] for step in two])

    def test_frozen_it_stays(self, num_envs):
        env = lake(num_envs)
        play(env, 300)
        tracker = find_tracker(env)
        before = tracker.reward_scale
        with tracker.frozen():
            assert {scale for _, _, scale, _ in play(env, 300)} == {before}
        assert tracker.reward_scale == before


class TestCheckpoints:
    def test_the_entry_is_optional(self):
        env, other = lake(), lake()
        play(env, 300)
        state = find_tracker(env).state_dict()
        del state["reward_scale"]
        find_tracker(other).load_state_dict(state)
        assert find_tracker(other).reward_scale == 1.0
        play(other, 200)
        assert find_tracker(other).reward_scale > 1.0

    def test_a_stack_that_does_not_normalize_refuses_it(self):
        env, other = lake(), lake(normalize=False)
        play(env, 300)
        with pytest.raises(CheckpointMismatch, match="normalize"):
            find_tracker(other).load_state_dict(find_tracker(env).state_dict())

    @pytest.mark.parametrize("state", [{"variance": -1.0, "weight": 0.5}, {"variance": 1.0, "weight": 0.0}])
    def test_no_scale(self, state):
        with pytest.raises(ValueError, match="no scale"):
            RewardScale(0.9).load_state_dict(state)


class TestSettings:
    def test_discount_of_the_returns(self):
        for settings, expected in (
            ({"discount": 0.9}, 0.9),
            ({"discount": 1.0}, 0.99),
            ({"discount": 0.9, "suggestions": {"return_discount": 0.95}}, 0.95),
        ):
            assert find_tracker(lake(**settings)).return_discount == expected

    def test_wrong_arguments(self):
        with pytest.raises(InvalidSetting, match="normalize"):
            wrappers.PseudoReward(lake(normalize=False).env, normalize=2)
        with pytest.raises(InvalidSetting, match="replace_reward"):
            wrappers.constrain(
                gym.make("SafeFrozenLake-v0"), episodes_per_batch=2, normalize_reward=True, replace_reward=False
            )
