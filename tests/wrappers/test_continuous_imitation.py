"""Imitation of densities: what the wrappers report is what the parts give by hand, scalar and vector."""

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.occupancy import GaussianMixture, Gaussians, Mixture, NearestNeighbors
from constrained_maxent.penalties import Quadratic
from constrained_maxent.references import CallablePolicy, Reference, shipped
from constrained_maxent.wrappers import EntropyObjective, ImitationConstraint, TrackOccupancy, find_tracker, vector

STATES = Mixture(Gaussians(np.ones(1), np.zeros((1, 4)), np.eye(4)[None]))


def gentle(rows, actions):
    """A density of actions, to see that it is asked with those of the environment."""
    return -np.abs(actions).sum(axis=1)


REFERENCE = Reference(STATES, CallablePolicy(gentle))


def stack(kind, reference=REFERENCE, divergence="kl", estimator=None, **settings):
    kit = vector if kind == "vector" else None
    env = gym.make_vec("PointMass-v0", num_envs=4, time_limit=0.5) if kit else gym.make("PointMass-v0", time_limit=0.5)
    track, entropy, imitate = (
        (kit.TrackOccupancy, kit.EntropyObjective, kit.ImitationConstraint)
        if kit
        else (TrackOccupancy, EntropyObjective, ImitationConstraint)
    )
    env = track(env, estimator or GaussianMixture(n_components=2), steps_per_batch=100, discount=1.0, state="state")
    return imitate(entropy(env), reference, limit=1.0, penalty=Quadratic(2.0), divergence=divergence, **settings)


@pytest.mark.parametrize("kind", ["scalar", "vector"])
class TestStacks:
    def test_kl_is_the_mean_of_log_ratios(self, kind):
        env = stack(kind)
        PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=2)
        tracker = find_tracker(env)
        batch = tracker.last_batch
        mixture = tracker.estimator.mixture_
        ratio = mixture.log_density(batch.states) + batch.log_probs
        ratio -= STATES.log_prob(batch.states) + gentle(None, batch.actions)
        evaluation = tracker.problem.evaluate(tracker.estimator.measure())
        assert evaluation.constraints["imitation"] == pytest.approx(ratio.mean() - 1.0, rel=1e-6)
        # Its part of the pseudo-reward is -2β[R]₊ (log ratio + 1).
        parts = tracker.live.at(tracker.estimator.points_of(batch))
        violation = max(evaluation.constraints["imitation"], 0.0)
        assert violation > 0.0
        np.testing.assert_allclose(parts["imitation"], -4.0 * violation * (ratio + 1.0), rtol=1e-6)

    def test_without_log_probabilities_states_are_compared(self, kind):
        env = stack(kind)
        env.reset(seed=0)
        env.action_space.seed(0)
        report = None
        while report is None:
            *_, terminated, truncated, info = env.step(env.action_space.sample())
            report = info.get("batch")
            if kind == "scalar" and (terminated or truncated):
                report = report or env.reset()[1].get("batch")
        tracker = find_tracker(env)
        states = tracker.last_batch.states
        expected = np.mean(tracker.estimator.mixture_.log_density(states) - STATES.log_prob(states))
        assert report["constraints"]["imitation"] == pytest.approx(expected - 1.0, rel=1e-6)

    def test_l2_is_that_of_the_mixtures(self, kind):
        env = stack(kind, divergence="l2", name="near")
        agent = PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=2)
        tracker = find_tracker(env)
        expected = np.sqrt(tracker.estimator.mixture_.squared_distance(STATES.gaussians))
        evaluation = tracker.problem.evaluate(tracker.estimator.measure())
        assert evaluation.constraints["near"] == pytest.approx(expected - 1.0)
        assert agent.iteration == 2

    def test_a_reference_by_its_entry_point(self, kind):
        config = {"entry_point": "constrained_maxent.references:shipped", "kwargs": {"env_id": "PointMass-v0"}}
        functional = find_tracker(stack(kind, reference=config)).problem.constraints["imitation"].functional
        assert functional.reference is shipped("PointMass-v0")
        for wrong in ({}, {"entry_point": "numpy"}, {"entry_point": "nowhere:x"}, {"entry_point": "numpy:nothing"}):
            with pytest.raises(InvalidSetting, match="entry_point"):
                stack(kind, reference=wrong)

    def test_angles_are_those_of_the_estimator(self, kind):
        turning = Reference(Mixture(STATES.gaussians, periodic=(1, 0)))
        for divergence in ("kl", "l2"):
            for reference, ours in ((REFERENCE, (0,)), (turning, ()), (turning, (0,))):
                with pytest.raises(InvalidData, match="same periodic"):
                    stack(kind, reference, divergence, GaussianMixture(n_components=2, periodic=ours))
            stack(kind, turning, divergence, GaussianMixture(n_components=2, periodic=(0, 1)))
        with pytest.raises(InvalidData, match=r"the angles periodic=\[\], the estimator periodic=\[2\]"):
            stack(kind, estimator=NearestNeighbors(periodic=(2,)))

    def test_refuses(self, kind):
        with pytest.raises(InvalidSetting, match="mixture"):
            stack(kind, reference=lambda points: points.density, divergence="l2")
        env = stack(kind, divergence="l2", estimator=NearestNeighbors())
        with pytest.raises(UnsupportedSpace, match="GaussianMixture"):
            PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=1)
        small = Reference(Mixture(Gaussians(np.ones(1), np.zeros((1, 3)), np.eye(3)[None])))
        with pytest.raises(InvalidData, match="over 3 coordinates"):
            PGP(stack(kind, reference=small), seed=0, hidden_sizes=(8,)).learn(iterations=1)
