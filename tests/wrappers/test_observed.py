"""Tracking continuous states, scalar and vector: which state is recorded, log π, live rewards, agents on top."""

from __future__ import annotations

import json
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidData, InvalidSetting, MissingState, NonFiniteValue, UnsupportedSpace
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import Counts, GaussianMixture, NearestNeighbors
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.testing import check_constrained_env
from constrained_maxent.wrappers import TrackOccupancy as Scalar
from constrained_maxent.wrappers import constrain, find_tracker, vector

DISABLED, NEXT_STEP, SAME_STEP = AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP
LENGTHS = (3, 2, 4)


class Walk(gym.Env[Any, Any]):
    """Episode k of sub-environment i takes steps t through the state (i, k, t); the observation is 10 t."""

    observation_space = Box(-np.inf, np.inf, (1,))
    action_space = Box(-1.0, 1.0, (1,))

    def __init__(self, number: int = 0, spoil: Any = None) -> None:
        self.number, self.episode, self.spoil = number, -1, spoil

    def _outcome(self) -> tuple[Any, dict[str, Any]]:
        info = {"state": np.array([self.number, self.episode, self.time], dtype=np.float64), "cost": float(self.time)}
        if self.spoil is not None:
            self.spoil(info, self.time)
        return np.array([10.0 * self.time], dtype=np.float32), info

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        return self._outcome()

    def step(self, action: Any) -> Any:
        self.time += 1
        observation, info = self._outcome()
        return observation, 0.0, False, self.time == LENGTHS[self.episode % 3], info


def log_pi(observations: Any, actions: Any) -> Any:
    return -0.1 * observations[:, 0] - actions[:, 0]


def mixture(**options: Any) -> GaussianMixture:
    return GaussianMixture(**({"n_components": 1} | options))


def scalar(**options: Any) -> Scalar:
    settings = {"episodes_per_batch": 3, "horizon": 4, "discount": 1.0, "scale": "truncated"}
    return Scalar(Walk(spoil=options.pop("spoil", None)), mixture(), **(settings | options))


def parallel(mode: Any = NEXT_STEP, n: int = 2, **options: Any) -> vector.TrackOccupancy:
    spoil = options.pop("spoil", None)
    env = SyncVectorEnv([lambda i=i: Walk(i, spoil) for i in range(n)], autoreset_mode=mode)
    settings = {"episodes_per_batch": 6, "horizon": 4, "discount": 1.0, "scale": "truncated"}
    return vector.TrackOccupancy(env, mixture(), **(settings | options))


def play(env: Any, n_steps: int) -> None:
    env.reset(seed=0)
    for t in range(n_steps):
        *_, terminated, truncated, _ = env.step(np.array([0.01 * t], dtype=np.float32))
        if terminated or truncated:
            env.reset()


def play_vector(env: Any, mode: Any, n_steps: int) -> None:
    env.reset(seed=0)
    for t in range(n_steps):
        *_, terminated, truncated, _ = env.step(np.full((env.num_envs, 1), 0.01 * t, dtype=np.float32))
        if mode is DISABLED and (terminated | truncated).any():
            env.reset(options={"reset_mask": terminated | truncated})


class TestScalar:
    def test_records_the_states_in_which_actions_were_taken(self) -> None:
        env = scalar(state="state", policy_log_prob=log_pi)
        play(env, 9)
        batch = env.tracker.last_batch
        assert batch.states.tolist() == [[0, k, t] for k in range(3) for t in range(LENGTHS[k])]
        assert batch.observations[:, 0].tolist() == [10 * t for k in range(3) for t in range(LENGTHS[k])]
        np.testing.assert_allclose(env.tracker.estimator.mixture_.means[0], batch.states.mean(axis=0))

    def test_a_function_of_the_observation(self) -> None:
        env = scalar(state=lambda observation: (observation[0], 0.5 * observation[0]), policy_log_prob=log_pi)
        play(env, 9)
        rows = env.tracker.last_batch.observations
        np.testing.assert_array_equal(env.tracker.last_batch.states, np.concatenate((rows, 0.5 * rows), axis=1))

    def test_without_a_state_the_observation(self) -> None:
        env = scalar()
        play(env, 9)
        assert env.tracker.last_batch.states is None
        assert env.tracker.estimator.mixture_.means.shape == (1, 1)

    def test_log_probabilities(self) -> None:
        env = scalar(policy_log_prob=log_pi)
        play(env, 9)
        batch = env.tracker.last_batch
        np.testing.assert_allclose(batch.log_probs, log_pi(batch.observations, batch.actions))
        points = env.tracker.estimator.points_of(batch)
        np.testing.assert_allclose(points.density, points.state_density * np.exp(batch.log_probs))

    def test_an_agent_that_acts_says_its_policy(self) -> None:
        env = scalar(policy_log_prob=log_pi)
        with env.tracker.acting(log_prob=lambda observations, actions: np.full(len(actions), -2.0)):
            play(env, 9)
        assert set(env.tracker.last_batch.log_probs.tolist()) == {-2.0}

    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_live_rewards_are_those_handed_over(self, pairing: str) -> None:
        env = constrain(
            Walk(),
            Entropy(smoothing=1e-9),
            {"cost": Constraint(LinearCost("cost", limit=0.5), Quadratic(beta=0.3))},
            estimator=mixture(),
            episodes_per_batch=4,
            horizon=4,
            discount=0.9,
            pairing=pairing,
            state="state",
            policy_log_prob=log_pi,
        )
        check_constrained_env(env, n_batches=3)

    def test_the_state_after_the_last_step_is_not_asked_for(self) -> None:
        def spoil(info: dict[str, Any], time: int) -> None:
            if time == 4:
                info["state"][:] = np.nan

        env = scalar(state="state", spoil=spoil)
        play(env, 9)
        assert env.tracker.iteration == 1

    def test_says_what_is_wrong_and_goes_on(self) -> None:
        for spoil, error, message in (
            (lambda info, time: info.pop("state"), MissingState, "'state'"),
            (lambda info, time: info.update(state="here"), InvalidData, "'here'"),
            (lambda info, time: info.update(state=[np.nan]), NonFiniteValue, "nan"),
        ):
            faults = {"at": 0}

            def spoil_at(info: Any, time: int, spoil: Any = spoil, faults: Any = faults) -> None:
                if time == faults["at"]:
                    spoil(info, time)

            env = scalar(state="state", spoil=spoil_at)
            with pytest.raises(error, match=message):
                env.reset()
            faults["at"] = 1
            env.reset()
            with pytest.raises(error, match=message):
                env.step(env.action_space.sample())
            faults["at"] = -1
            play(env, 9)
            assert env.tracker.iteration == 1

    def test_refuses_bad_arguments(self) -> None:
        with pytest.raises(InvalidSetting, match="state="):
            scalar(state=3)
        with pytest.raises(UnsupportedSpace):
            Scalar(Walk(), Counts(), episodes_per_batch=1, horizon=4, state="state")
        for wrong, error in ((lambda o, a: 1.0, InvalidData), (lambda o, a: [np.inf], NonFiniteValue)):
            env = scalar(policy_log_prob=wrong)
            env.reset()
            with pytest.raises(error, match="log_prob"):
                env.step(env.action_space.sample())

    def test_comes_back_from_its_spec(self) -> None:
        env = Scalar(gym.make("Pendulum-v1"), GaussianMixture(periodic=(0,)), episodes_per_batch=2, state="state")
        again = gym.make(gym.envs.registration.EnvSpec.from_json(json.loads(json.dumps(env.spec.to_json()))))
        assert again.tracker.estimator.periodic in ((0,), [0])
        assert again._source == "state"
        assert pickle.loads(pickle.dumps(again.tracker.estimator)).n_components == 16

    def test_a_checkpoint_goes_on(self) -> None:
        first, second = (
            scalar(
                state="state", policy_log_prob=log_pi, steps_per_batch=8, episodes_per_batch=None, pairing="previous"
            )
            for _ in range(2)
        )
        play(first, 8)
        second.tracker.load_state_dict(first.tracker.state_dict())
        for env in (first, second):
            env.unwrapped.episode = 0
            play(env, 8)
        np.testing.assert_array_equal(first.tracker.estimator.mixture_.means, second.tracker.estimator.mixture_.means)


class TestVector:
    @pytest.mark.parametrize("mode", [DISABLED, NEXT_STEP, SAME_STEP])
    @pytest.mark.parametrize("source", ["state", lambda observation: np.array([observation[0], 1.0])])
    def test_records_the_states_in_which_actions_were_taken(self, mode: Any, source: Any) -> None:
        env = parallel(mode, state=source, policy_log_prob=log_pi)
        play_vector(env, mode, 12)
        batch = env.tracker.last_batch
        starts = np.cumsum(batch.lengths) - batch.lengths
        time = np.arange(batch.n_steps) - np.repeat(starts, batch.lengths)
        assert sorted(batch.lengths.tolist()) == [2, 2, 3, 3, 4, 4]
        np.testing.assert_array_equal(batch.observations[:, 0], 10.0 * time)
        np.testing.assert_allclose(batch.log_probs, log_pi(batch.observations, batch.actions))
        if callable(source):
            np.testing.assert_array_equal(batch.states, np.stack((10.0 * time, np.ones(len(time))), axis=1))
        else:
            np.testing.assert_array_equal(batch.states[:, 2], time)
            pairs = {tuple(row) for row in batch.states[starts, :2].tolist()}
            assert pairs == {(i, k) for i in range(2) for k in range(3)}

    # A walk of four states has no density to speak of.
    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.DegenerateDensity")
    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_live_rewards_are_those_handed_over(self, mode: Any, pairing: str) -> None:
        env = constrain(
            SyncVectorEnv([lambda i=i: Walk(i) for i in range(3)], autoreset_mode=mode),
            Entropy(smoothing=1e-9),
            {"cost": Constraint(LinearCost("cost", limit=0.5), Quadratic(beta=0.3))},
            estimator=mixture(periodic=(2,)),
            steps_per_batch=17,
            horizon=4,
            discount=0.9,
            pairing=pairing,
            state="state",
            policy_log_prob=log_pi,
        )
        check_constrained_env(env, n_batches=3)

    def test_scalar_and_vector_estimate_alike(self) -> None:
        one = scalar(state="state", policy_log_prob=log_pi)
        play(one, 9)
        many = parallel(SAME_STEP, n=1, episodes_per_batch=3, state="state", policy_log_prob=log_pi)
        play_vector(many, SAME_STEP, 9)
        for name in ("states", "observations", "actions", "log_probs"):
            np.testing.assert_array_equal(getattr(one.tracker.last_batch, name), getattr(many.tracker.last_batch, name))
        np.testing.assert_array_equal(one.tracker.estimator.mixture_.means, many.tracker.estimator.mixture_.means)

    def test_says_what_is_wrong(self) -> None:
        with pytest.raises(MissingState, match="'place'"):
            parallel(state="place").reset()

        def spoil(info: dict[str, Any], time: int) -> None:
            if time == 1:
                info["state"][0] = np.inf

        env = parallel(state="state", spoil=spoil)
        env.reset()
        with pytest.raises(NonFiniteValue, match="'state'"):
            env.step(np.zeros((2, 1), np.float32))
        lengths = iter((1, 2))
        with pytest.raises(InvalidData, match="state"):
            parallel(state=lambda observation: np.zeros(next(lengths))).reset()


def pendulum_state(observation: Any) -> Any:
    return np.arctan2(observation[1], observation[0]), observation[2]


def fast(observation: Any, action: Any, next_observation: Any) -> float:
    return float(abs(observation[2]) > 4.0)


class TestPendulum:
    def stack(self, env: Any, estimator: Any = None, **options: Any) -> Any:
        return constrain(
            env,
            Entropy(over="state", smoothing=1e-9),
            {"speed": Constraint(LinearCost(fast, limit=0.1), Quadratic(beta=1.0))},
            estimator=GaussianMixture(n_components=8, periodic=(0,)) if estimator is None else estimator,
            discount=1.0,
            state=pendulum_state,
            **options,
        )

    def test_keeps_the_contract(self) -> None:
        check_constrained_env(self.stack(gym.make("Pendulum-v1"), steps_per_batch=150), n_batches=3)
        check_constrained_env(
            self.stack(gym.make_vec("Pendulum-v1", num_envs=4, vectorization_mode="sync"), steps_per_batch=400),
            n_batches=3,
        )

    def test_its_estimate_is_the_density_of_its_states(self) -> None:
        env = self.stack(gym.make("Pendulum-v1"), NearestNeighbors(periodic=(0,)), episodes_per_batch=2)
        env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(2):
            done = False
            while not done:
                *_, done, info = env.step(env.action_space.sample())
            env.reset()
        states = find_tracker(env).last_batch.states
        assert states.shape == (400, 2)
        assert np.abs(states[:, 0]).max() <= np.pi
        # A second opinion: the entropy of a histogram of the same samples.
        counts, *edges = np.histogram2d(*states.T, bins=12)
        share = counts[counts > 0] / 400
        cell = (edges[0][1] - edges[0][0]) * (edges[1][1] - edges[1][0])
        assert info["batch"]["objective"] == pytest.approx(-(share @ np.log(share / cell)), abs=0.5)

    @pytest.mark.parametrize("kind", ["scalar", "vector"])
    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes")  # small on purpose
    def test_pgp_learns_on_it(self, kind: str) -> None:
        if kind == "scalar":
            env = self.stack(gym.make("Pendulum-v1"), episodes_per_batch=1)
        else:
            env = self.stack(gym.make_vec("Pendulum-v1", num_envs=4, vectorization_mode="sync"), steps_per_batch=400)
        reports: list[Any] = []
        agent = PGP(env, seed=0, hidden_sizes=(16,)).learn(
            iterations=3, callback=lambda agent, report: reports.append(report)
        )
        assert agent.iteration == 3
        for report in reports:
            assert np.isfinite(report.objective)
            assert report.gradient_norm > 0.0
            assert set(report.constraints) == {"speed"}
