"""Seeds of different places have nothing in common, and what is no seed is refused by name, everywhere alike."""

from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent as cmx
from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.evaluation import bootstrap_mean, evaluate_rollouts
from constrained_maxent.evaluation.spread import state_entropy
from constrained_maxent.occupancy import GaussianMixture, Weighting
from constrained_maxent.references.policies import CallablePolicy
from constrained_maxent.references.rollouts import roll_out
from constrained_maxent.seeds import derived_reset_seed, derived_seed
from constrained_maxent.types import check_seed


class Noting(gym.Env):
    """Notes the seeds that it is given, and the first number that each draws."""

    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
    seeds: list = []
    drawn: list = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.seeds.append(seed)
            self.drawn.append(self.np_random.random())
        self.time = 0
        return 0, {}

    def step(self, action):
        self.time += 1
        return 1, 0.0, False, self.time == 3, {}


@pytest.fixture
def noted():
    Noting.seeds, Noting.drawn = [], []
    return Noting


def seeds_of_evaluation(noted, seed, *, vector=gym.vector.SyncVectorEnv):
    noted.seeds = []
    env = vector([lambda: gym.wrappers.TimeLimit(noted(), 3)] * 16)
    env = cmx.wrappers.constrain(env, episodes_per_batch=16, discount=1.0)
    evaluate_rollouts(env, PGP(env), n_episodes=32, seed=seed)
    return noted.seeds


@pytest.mark.fault
def test_evaluations_of_neighboring_seeds_share_no_environment_seed(noted):
    first, second = (seeds_of_evaluation(noted, seed) for seed in (0, 1))
    assert len(first) == len(second) == 32
    assert len({*first, *second}) == 64
    neighbors = np.abs(np.subtract.outer(first, second))
    assert neighbors.min() > 16
    assert first == seeds_of_evaluation(noted, 0)
    training = {derived_seed(0, iteration) for iteration in range(100)}
    assert not training & {*first}


@pytest.mark.fault
def test_policy_and_environment_do_not_draw_the_same_numbers(noted):
    policy_draws = []

    def act(row):
        return 0

    class Drawing(CallablePolicy):
        def act(self, rows, rng, *, deterministic=False):
            policy_draws.append(rng.random())
            return np.zeros(len(rows), dtype=np.int64)

    env = gym.wrappers.TimeLimit(noted(), 3)
    policy = Drawing(lambda rows, actions: np.zeros(len(rows)), act)
    roll_out(policy, env, n_episodes=2, weighting=Weighting(1.0, 3), seed=5)
    assert not set(policy_draws) & set(noted.drawn)
    # As they were: one stream for both.
    assert np.random.default_rng(5).random() == gym.utils.seeding.np_random(5)[0].random()


def test_copies_get_seeds_of_their_own_where_they_take_them(noted):
    with closing(gym.vector.SyncVectorEnv([noted] * 3)) as env:
        seeds = derived_reset_seed(env, 7, 2)
        assert len(set(seeds)) == 3
        env.reset(seed=seeds)
        assert noted.seeds == seeds
    with closing(gym.make_vec("SafeCartpole-v0", num_envs=3)) as env:
        assert derived_reset_seed(env, 7, 2) == seeds
        env.reset(seed=seeds)
    # The copies of the lake draw from one generator; scalar environments have one.
    for env in (gym.make_vec("SafeFrozenLake-v0", num_envs=3), gym.make("SafeFrozenLake-v0")):
        with closing(env):
            assert derived_reset_seed(env, 7, 2) == derived_seed(7, 2)
            env.reset(seed=derived_seed(7, 2))


def test_more_copies_leave_the_seeds_of_the_first_as_they_are(noted):
    three, five = (gym.vector.SyncVectorEnv([noted] * n) for n in (3, 5))
    assert derived_reset_seed(five, 1)[:3] == derived_reset_seed(three, 1)


def lake():
    return gym.make("FrozenLake-PGP-v0")


TAKES_A_SEED = {
    "PGP": lambda seed: PGP(lake(), seed=seed),
    "evaluate_rollouts": lambda seed: evaluate_rollouts(env := lake(), PGP(env), n_episodes=1, seed=seed),
    "TrainSettings": lambda seed: cmx.runs.TrainSettings(seed=seed),
    "RunSettings": lambda seed: cmx.engine.RunSettings(seed=seed),
    "estimator": lambda seed: GaussianMixture(seed=seed),
    "bootstrap": lambda seed: bootstrap_mean([0.0, 1.0], seed=seed),
    "state_entropy": lambda seed: state_entropy([np.arange(5.0)[:, None]] * 8, max_samples=8, seed=seed),
    "TabularMDP": lambda seed: cmx.oracle.TabularMDP.random(3, 2, seed=seed, discount=0.9, horizon=5),
}


@pytest.mark.fault
@pytest.mark.parametrize("taker", TAKES_A_SEED.values(), ids=TAKES_A_SEED)
def test_seeds_are_refused_and_taken_alike(taker):
    for seed in (-1, 2**64, 10**40, True, 1.0, np.float64(2.0), "0", None):
        with pytest.raises(InvalidSetting, match=r"seed=.* must be a whole number of at least 0 and below 2\*\*64"):
            taker(seed)
    for seed in (2**64 - 1, np.int64(3), np.uint8(4)):
        taker(seed)


def test_a_seed_of_numpy_is_a_plain_number():
    assert type(check_seed("seed", np.uint64(2**64 - 1))) is int
    assert check_seed("seed", np.uint64(2**64 - 1)) == 2**64 - 1
    assert type(cmx.runs.TrainSettings(seed=np.int32(4)).to_json()["seed"]) is int
