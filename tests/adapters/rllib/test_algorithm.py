"""One λ̂ over RLlib's runners: what it is of, what results say, what is saved, and what a dead runner loses."""

import os
import signal
import time

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.errors import InvalidSetting, MissingCost, UnplannedRun
from constrained_maxent.evaluation import ExactProblem, evaluate_rollouts
from constrained_maxent.occupancy import Counts
from constrained_maxent.schedules import Geometric
from constrained_maxent.tracker import find_tracker

pytest.importorskip("ray")

from constrained_maxent.adapters import rllib

# Deprecations within RLlib, and files that it does not close.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def built(env, *, runners=0, copies=4, **env_config):
    config = rllib.config(env, num_env_runners=runners, num_envs_per_env_runner=copies, **env_config)
    config.env_runners(num_cpus_per_env_runner=0.5).training(num_epochs=1).debugging(seed=0, log_level="ERROR")
    return config.build_algo()


@pytest.fixture(scope="module")
def two(cluster, grid):
    """Two runners of four copies, trained for three batches of 8 episodes."""
    algorithm = built(grid, runners=2)
    results = [algorithm.train() for _ in range(3)]
    yield algorithm, results
    algorithm.stop()


@pytest.fixture(scope="module")
def alone(cluster, grid):
    """The algorithm's own runner, of four copies."""
    algorithm = built(grid)
    yield algorithm
    algorithm.stop()


def learnt(algorithm):
    """What the leader knows, as a checkpoint has it."""
    return algorithm.get_state("occupancy")["occupancy"]


class TestOneOccupancy:
    def test_it_is_of_the_episodes_that_rllib_learns_from(self, alone):
        runner = alone.env_runner
        episodes = [episode.to_numpy() for episode in runner.sample(num_episodes=8)]
        runner.sample(num_timesteps=1)  # what was handed in has arrived by now
        expected = np.zeros((36, 4))
        for episode in episodes:
            places, actions = episode.get_observations()[:-1].argmax(axis=-1), episode.get_actions()
            np.add.at(expected, (places, actions), 0.99 ** np.arange(len(episode)) / 8)
        assert learnt(alone)["iteration"] == 1
        np.testing.assert_allclose(learnt(alone)["estimator"]["values"].reshape(36, 4), expected)

    def test_runners_share_it(self, two):
        algorithm, results = two
        assert [result["occupancy"]["iteration"] for result in results] == [0, 1, 2]
        assert all(result["occupancy"]["episodes"] == 8 for result in results)
        rewards = algorithm.env_runner_group.foreach_env_runner(
            lambda runner: (runner._tracker.catch_up(), runner._tracker.estimator.occupancy_)[1], local_env_runner=False
        )
        ours = learnt(algorithm)["estimator"]["values"].reshape(36, 4)
        assert len(rewards) == 2
        for table in rewards:
            np.testing.assert_array_equal(table, ours)

    def test_results_say_what_a_batch_ended_with(self, two):
        figures = two[1][-1]["occupancy"]
        assert {"objective", "objective_fresh", "penalty", "steps", "progress", "lag", "reward_scale"} <= set(figures)
        table = learnt(two[0])["estimator"]["values"]
        assert figures["objective"] == pytest.approx(float(-(table * np.log(table + 1e-5)).sum()))
        # ℒ' = μ + 2βR, where μ was raised by 0.001 R after each of the two batches before.
        costs = [result["occupancy"]["constraints"]["cost"] for result in two[1]]
        assert figures["multipliers"]["cost"] == pytest.approx(0.001 * sum(costs[:2]) + 0.02 * costs[2])


def test_a_runner_that_is_killed_loses_its_share_only(two):
    algorithm, _ = two
    before = learnt(algorithm)
    runners = algorithm.env_runner_group
    [pid, _] = runners.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)
    os.kill(pid, signal.SIGKILL)
    alive, deadline = {}, time.monotonic() + 300.0
    while len(alive) < 2 and time.monotonic() < deadline:
        algorithm.train()  # with the runner that is left, until another has started in place of the dead
        alive = dict(
            runners.foreach_env_runner(
                lambda runner: (os.getpid(), runner._tracker.iteration), local_env_runner=False, timeout_seconds=10
            )
        )
    algorithm.train()
    after = learnt(algorithm)
    assert before["iteration"] == 3 < after["iteration"]
    assert len(alive) == 2
    assert pid not in alive
    # All that was handed in is in λ̂, but for less than a batch that is under way: a share of four episodes.
    assert 0 <= after["timesteps"] - after["recorded_steps"] <= 4 * 25


def test_a_checkpoint_holds_it(alone, grid, tmp_path):
    alone.train()
    path = alone.save_to_path(tmp_path / "checkpoint")
    before = learnt(alone)
    other = built(grid)
    other.restore_from_path(path)
    after = learnt(other)
    np.testing.assert_array_equal(after["estimator"]["values"], before["estimator"]["values"])
    assert (after["penalties"], after["iteration"]) == (before["penalties"], before["iteration"])
    other.env_runner.sample(num_timesteps=4)
    np.testing.assert_array_equal(
        other.env_runner._tracker.estimator.occupancy_.reshape(-1), before["estimator"]["values"]
    )
    other.stop()


class TestEvaluation:
    def test_episodes_of_evaluation_teach_nothing(self, cluster, grid):
        config = rllib.config(grid, num_env_runners=0, num_envs_per_env_runner=4)
        config.training(num_epochs=1)
        config.evaluation(evaluation_interval=1, evaluation_num_env_runners=0, evaluation_duration=8)
        algorithm = config.build_algo()
        result = algorithm.train()
        assert result["evaluation"]["env_runners"]["num_episodes"] >= 8
        state = learnt(algorithm)
        assert state["timesteps"] <= result["num_env_steps_sampled_lifetime"] <= state["timesteps"] + 100
        assert state["iteration"] == 1
        algorithm.stop()

    def test_the_runners_that_learn_do_not_evaluate(self, alone):
        with pytest.raises(InvalidSetting, match="evaluation_interval"):
            alone.evaluate()


class TestFaults:
    def test_a_cost_that_is_missing_ends_the_training(self, cluster, grid):
        algorithm = built(lambda config: grid(config, cost="damage"))
        with pytest.raises(MissingCost, match="damage"):
            algorithm.train()
        algorithm.stop()

    def test_a_warning_of_the_leader_arrives(self, cluster, grid):
        algorithm = built(lambda config: grid(config, estimator=Counts(memory=Geometric(0.5, 0.9))))
        with pytest.warns(UnplannedRun, match="Counts"):
            algorithm.train()
        algorithm.stop()

    def test_a_batch_that_is_smaller_than_all_copies(self, cluster, grid):
        with pytest.raises(InvalidSetting, match="16 copies"):
            built(grid, runners=2, copies=8)


class TestAsAgent:
    def test_probabilities_are_those_that_rllib_samples_from(self, alone):
        agent = rllib.as_agent(alone, seed=0)
        [episode, *_] = alone.env_runner.sample(num_timesteps=200)
        places, actions = episode.get_observations()[:-1].argmax(axis=-1), episode.get_actions()
        theirs = np.asarray(episode.get_extra_model_outputs("action_logp"))
        np.testing.assert_allclose(agent.log_prob(places, actions), theirs, atol=1e-5)
        np.testing.assert_allclose(np.log(agent.policy_table()[places, actions]), theirs, atol=1e-5)
        np.testing.assert_allclose(agent.policy_table().sum(axis=1), 1.0)

    def test_it_acts_by_them(self, alone):
        agent = rllib.as_agent(alone, seed=1)
        drawn = np.bincount(agent.predict(np.full(4000, 7))[0], minlength=4) / 4000
        np.testing.assert_allclose(drawn, agent.policy_table()[7], atol=0.04)  # five standard errors
        best = agent.predict(7, deterministic=True)[0]
        assert best == agent.policy_table()[7].argmax()
        again = [rllib.as_agent(alone, seed=1).predict(np.arange(36))[0].tolist() for _ in range(2)]
        assert again[0] == again[1]

    def test_fresh_episodes_agree_with_exact_values(self, alone):
        env = gym.make_vec("FrozenLake-PGP-v0", num_envs=64, episodes_per_batch=64)
        agent = rllib.as_agent(alone, seed=2)
        exact = ExactProblem.from_env(env).evaluate(agent.policy_table())
        fresh = evaluate_rollouts(env, agent, n_episodes=256, seed=0)
        low, high = fresh.constraints["cost"].low, fresh.constraints["cost"].high
        assert low - (high - low) <= exact.constraints["cost"] <= high + (high - low)
        assert find_tracker(env).iteration == 0
