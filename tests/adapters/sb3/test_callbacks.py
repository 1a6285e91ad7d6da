"""Plan, log π, log and verdict of a training, and the best policy: against the tracker, the oracle and by hand."""

import csv
import math
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize

import constrained_maxent as cmx
from constrained_maxent.adapters.sb3 import EvalCallback, OccupancyCallback, OccupancyReplayBuffer, VecEnv, as_agent
from constrained_maxent.adapters.sb3.evaluator import Evaluator, PolicyValues
from constrained_maxent.errors import (
    ContradictedDynamics,
    InvalidSetting,
    MissingTracker,
    NoActionEntropy,
    NotEvaluated,
    SeparateEstimates,
    UnplannedRun,
    UnsupportedSpace,
)
from constrained_maxent.evaluation import ExactProblem, evaluate_rollouts
from constrained_maxent.evaluation.limits import judge
from constrained_maxent.evaluation.statistics import Estimate
from constrained_maxent.problem import Constraint

QUIET = {"verbose": 0}


def ppo(venv, **settings):
    settings = {"n_steps": 25, "batch_size": 25 * venv.num_envs, "n_epochs": 1} | settings
    return PPO("MlpPolicy", venv, policy_kwargs={"net_arch": [4]}, seed=0, device="cpu", **settings)


class Stops(BaseCallback):
    """Raises what Ctrl-C does."""

    def _on_step(self):
        if self.n_calls == 30:
            raise KeyboardInterrupt
        return True


def rows(folder):
    with open(folder / "progress.csv") as file:
        return [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch):
    monkeypatch.setattr("constrained_maxent.adapters.sb3.evaluator._ENOUGH_EPISODES", 32)
    return 32


@pytest.fixture
def grid():
    return VecEnv("FrozenLake-PGP-v0", num_envs=2, preset="default", episodes_per_batch=2)


class TestOccupancyCallback:
    def test_logs_what_the_tracker_and_the_oracle_say(self, grid, tmp_path, capsys):
        model = ppo(VecMonitor(grid))
        model.set_logger(configure(str(tmp_path), ["csv"]))
        seen = []

        class Spy(BaseCallback):
            def _on_step(self):
                if grid.tracker.iteration > len(seen):
                    with torch.no_grad():
                        table = self.model.policy.get_distribution(torch.arange(36)).distribution.probs.double().numpy()
                    exact = ExactProblem.from_env(grid.env).evaluate(table / table.sum(axis=1, keepdims=True))
                    seen.append((grid.tracker.last_report, exact))
                return True

        callback = OccupancyCallback()
        model.learn(150, callback=CallbackList([Spy(), callback]))
        model.logger.close()
        logged = rows(tmp_path)
        assert len(logged) == 4  # three batches, and the policy in the end
        for k, (row, (report, exact)) in enumerate(zip(logged, seen, strict=False)):
            assert row["occupancy/iteration"] == k + 1
            assert row["occupancy/progress"] == pytest.approx((k + 1) / 3)
            assert row["occupancy/objective"] == pytest.approx(report.objective)
            assert row["occupancy/cost"] == pytest.approx(report.constraints["cost"])
            assert row["multiplier/cost"] == pytest.approx(report.multipliers["cost"])
            assert row["policy/objective"] == pytest.approx(exact.objective, abs=1e-4)
            assert row["policy/cost"] == pytest.approx(exact.constraints["cost"], abs=1e-3)
        assert callback.values.n_episodes is None
        assert logged[-1]["policy/objective"] == pytest.approx(callback.values.objective)
        words = capsys.readouterr().out
        assert "cost: limit 0 broken" in words
        assert "exactly" in words
        assert "while training" in words

    def test_announces_the_run_and_keeps_to_it(self, grid):
        model, callback = ppo(grid), OccupancyCallback(**QUIET)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnplannedRun)
            model.learn(100, callback=callback)
        assert grid.tracker.progress == 1.0
        model.learn(100, callback=callback, reset_num_timesteps=False)  # a later announcement changes nothing
        assert (grid.tracker.timesteps, grid.tracker.iteration, grid.tracker.progress) == (200, 4, 1.0)
        again = VecEnv("FrozenLake-PGP-v0", num_envs=2, preset="default", episodes_per_batch=2)
        again.tracker.announce(timesteps=200)
        ppo(again).learn(100, callback=OccupancyCallback(**QUIET))
        assert again.tracker.progress == 0.5

    @pytest.mark.parametrize("normalizes", [False, True])
    def test_acts_with_the_log_prob_of_the_model(self, make_corridor, normalizes):
        """What λ̂ was given is what PPO itself computed for its own update, of the same steps."""
        venv = VecEnv(make_corridor(2, steps_per_batch=50))
        model = ppo(VecNormalize(venv) if normalizes else venv)
        model.learn(50, callback=OccupancyCallback(**QUIET))
        batch = venv.tracker.last_batch
        order = np.lexsort((batch_times(batch), batch_copies(venv, batch)))
        expected = model.rollout_buffer.log_probs.T.reshape(-1)
        assert np.allclose(batch.log_probs[order], expected, atol=1e-5)
        assert not venv.tracker.knows_log_prob
        with venv.tracker.acting():  # nobody is left who acts
            pass

    def test_an_interrupted_training_leaves_nothing_behind(self, make_corridor, tmp_path, monkeypatch):
        monkeypatch.setattr("constrained_maxent.adapters.sb3.callbacks._SAVED_EVERY", 0.0)
        venv = VecEnv(make_corridor(2, steps_per_batch=50))
        model, callback = ppo(venv), OccupancyCallback(save_path=tmp_path / "model", **QUIET)
        with pytest.raises(KeyboardInterrupt):
            model.learn(200, callback=[callback, Stops()])
        assert venv.tracker.last_batch.log_probs is not None
        with venv.tracker.acting():
            venv.reset()
            for _ in range(25):  # somebody else's steps are not the model's
                venv.step(np.zeros(2, int))
        assert venv.tracker.last_batch.log_probs is None
        saved = cmx.adapters.sb3.load(PPO, tmp_path / "model", VecEnv(make_corridor(2, steps_per_batch=50)))
        assert saved.get_env().tracker.iteration == 1  # but what is on disk
        model.learn(50, callback=callback)
        assert venv.tracker.last_batch.log_probs is not None

    def test_the_uniform_actions_that_off_policy_algorithms_begin_with(self, pendulum):
        class Unevaluated(OccupancyCallback):
            def _on_training_end(self):
                pass

        venv = pendulum(2)
        SAC(
            "MlpPolicy",
            venv,
            learning_starts=100,
            buffer_size=100,
            replay_buffer_class=OccupancyReplayBuffer,
            seed=0,
            device="cpu",
            policy_kwargs={"net_arch": [4]},
        ).learn(64, callback=Unevaluated(**QUIET))
        np.testing.assert_allclose(venv.tracker.last_batch.log_probs, -math.log(4.0))  # torques from -2 to 2

    def test_one_environment_as_it_is(self, capsys):
        env = gym.make("FrozenLake-PGP-v0", pairing="previous", episodes_per_batch=2)
        model = ppo(DummyVecEnv([lambda: Monitor(env)]))
        model.learn(100, callback=OccupancyCallback())
        assert "exactly" in capsys.readouterr().out
        many = DummyVecEnv([lambda: gym.make("FrozenLake-PGP-v0", pairing="previous")] * 2)
        with pytest.raises(SeparateEstimates):
            ppo(many).learn(50, callback=OccupancyCallback())
        with pytest.raises(MissingTracker):
            ppo(DummyVecEnv([lambda: gym.make("SafeFrozenLake-v0")])).learn(50, callback=OccupancyCallback())

    def test_fresh_episodes_where_dynamics_are_unknown(self, make_corridor, capsys, few_episodes):
        venv = VecEnv(make_corridor(2, steps_per_batch=50))
        model, callback = ppo(venv), OccupancyCallback()
        model.learn(50, callback=callback)
        before = venv.tracker.state_dict()["iteration"], venv.tracker.timesteps
        assert before == (1, 50)
        assert callback.values.n_episodes == few_episodes
        fresh = evaluate_rollouts(make_corridor(2), as_agent(model), n_episodes=64, seed=3)
        assert callback.values.objective == pytest.approx(fresh.objective.mean, abs=0.3)
        assert callback.values.constraints["cost"] == pytest.approx(fresh.constraints["cost"].mean, abs=0.1)
        assert f"{few_episodes} fresh episodes" in capsys.readouterr().out

    def test_what_cannot_be_copied_needs_an_environment_beside_it(self, make_corridor, few_episodes):
        env = make_corridor(2, steps_per_batch=50)
        env.unwrapped.wire = (number for number in range(3))  # what cannot be copied either
        with pytest.raises(InvalidSetting, match="eval_env="):
            ppo(VecEnv(env)).learn(50, callback=OccupancyCallback(**QUIET))
        callback = OccupancyCallback(eval_env=make_corridor(4), **QUIET)
        ppo(VecEnv(env)).learn(50, callback=callback)
        assert callback.values.n_episodes == few_episodes

    def test_dynamics_that_are_not_those_published_have_no_exact_values(self, few_episodes):
        env = gym.make("FrozenLake-PGP-v0", pairing="previous", episodes_per_batch=2)
        env.unwrapped.P = {s: {a: [(1.0, 0, 0.0, False)] for a in range(4)} for s in range(36)}
        callback = OccupancyCallback(**QUIET)
        with pytest.warns(ContradictedDynamics):
            ppo(DummyVecEnv([lambda: env])).learn(50, callback=callback)
        assert callback.values.n_episodes == few_episodes


@pytest.mark.parametrize(
    ("env_id", "settings", "n_episodes"),
    [
        ("FrozenLake-PGP-v0", {"episodes_per_batch": 16}, 256),  # of 25 steps
        ("FrozenLake-PGP-v0", {"episodes_per_batch": 400}, 400),
        ("SafeCartpole-PGP-v0", {"steps_per_batch": 20_000}, 20),  # of 1000
        ("SafeCartpole-PGP-v0", {"steps_per_batch": 2000}, 8),
    ],
)
def test_how_many_episodes(monkeypatch, env_id, settings, n_episodes):
    monkeypatch.undo()
    venv = VecEnv(env_id, num_envs=2, preset="default", **settings)
    assert Evaluator(ppo(venv)).n_episodes == n_episodes


class TestWarnings:
    def test_greedy(self, grid):
        model = DQN("MlpPolicy", grid, 1e-4, 100, 100, replay_buffer_class=OccupancyReplayBuffer, device="cpu")
        with pytest.warns(NoActionEntropy, match="greedy"):
            model.learn(8, callback=OccupancyCallback(**QUIET))

    def test_policies_that_remember_are_not_evaluated(self, grid):
        sb3_contrib = pytest.importorskip("sb3_contrib")
        kwargs = {"lstm_hidden_size": 4, "net_arch": [4]}
        model = sb3_contrib.RecurrentPPO("MlpLstmPolicy", grid, n_steps=25, batch_size=50, policy_kwargs=kwargs)
        callback = OccupancyCallback(**QUIET)
        with pytest.warns(NotEvaluated, match="remembers"):
            model.learn(5e1, callback=callback)  # a float, as Stable-Baselines3 allows
        assert callback.values is None
        assert grid.tracker.progress == 1.0

    def test_unknown_log_prob(self, make_corridor):
        """A model that sees two frames acts by more than what λ̂ records, and cannot act on single ones."""
        model = A2C("MlpPolicy", VecFrameStack(VecEnv(make_corridor(2)), 2), device="cpu")
        with pytest.warns(NoActionEntropy, match="Layers above"), pytest.raises(UnsupportedSpace):
            model.learn(8, callback=OccupancyCallback(**QUIET))


class TestEvalCallback:
    def test_keeps_the_best(self, grid, tmp_path, capsys):
        grid.tracker.announce(timesteps=200)
        model, callback = ppo(grid), EvalCallback(eval_freq=50, save_path=tmp_path / "best")
        model.learn(200, callback=callback)
        assert [steps for steps, _ in callback.history] == [50, 100, 150, 200, 200]
        assert callback.best.violation == min(values.violation for _, values in callback.history)
        assert "No policy was within the limits" in capsys.readouterr().out
        best = cmx.adapters.sb3.load(PPO, tmp_path / "best", grid, device="cpu")
        values = Evaluator(best).evaluate(best)
        assert values.objective == pytest.approx(callback.best.objective)

    def test_which_policy_is_better(self):
        def values(objective, excess):
            constraint = Constraint(cmx.functionals.LinearCost("cost", limit=1.0), cmx.penalties.Exact(1.0))
            return PolicyValues(
                objective=objective,
                constraints={"cost": excess},
                limits=(judge("cost", constraint, Estimate.exactly(excess)),),
                n_episodes=None,
            )

        assert values(1.0, -0.1).is_better_than(values(9.0, 0.1))
        assert not values(9.0, 0.1).is_better_than(values(1.0, -0.1))
        assert values(1.0, 0.1).is_better_than(values(9.0, 0.2))
        assert values(2.0, -0.1).is_better_than(values(1.0, -9.0))


def batch_copies(venv, batch):
    return np.repeat(venv.tracker.last_report.sub_environments, batch.lengths)


def batch_times(batch):
    return np.arange(batch.n_steps)  # trajectories of one copy are in order
