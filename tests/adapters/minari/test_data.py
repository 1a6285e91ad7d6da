"""A data set of Minari's own collector as an occupancy, and as something to imitate or to keep away from."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent as cmx
from constrained_maxent.adapters.minari import batch, reference
from constrained_maxent.errors import InvalidDataset, MissingCost

minari = pytest.importorskip("minari")
# Minari's collector leaves its temporary folder to the garbage collector.
pytestmark = [
    pytest.mark.usefixtures("datasets"),
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),
]


@pytest.fixture
def collected() -> Any:
    pytest.importorskip("jax")  # Minari's own collector needs it
    env = minari.DataCollector(gym.make("Pendulum-v1", max_episode_steps=30), record_infos=False)
    env.action_space.seed(0)
    for seed in range(4):
        env.reset(seed=seed)
        for _ in range(30):
            env.step(env.action_space.sample())
    about = {"code_permalink": "https://example.org", "author": "me", "author_email": "me@example.org"}  # else it warns
    found = env.create_dataset(
        "pendulum/theirs-v0", eval_env="Pendulum-v1", algorithm_name="none", description="random", **about
    )
    env.close()
    return found


def make_stack(**more: Any) -> Any:
    env = gym.make_vec("Pendulum-v1", num_envs=1, max_episode_steps=30)
    return cmx.wrappers.constrain(
        env,
        constraints={"fast": cmx.problem.Constraint(cmx.functionals.LinearCost(speed, limit=0.5))},
        estimator=cmx.occupancy.GaussianMixture(n_components=2, periodic=(0,)),
        state=lambda observation: (np.arctan2(observation[1], observation[0]), observation[2]),
        episodes_per_batch=4,
        discount=1.0,
        **more,
    )


def speed(observation: Any, action: Any, next_observation: Any) -> float:
    return abs(float(next_observation[2]))


def test_batch_of_minaris_own(collected: Any) -> None:
    found = batch("pendulum/theirs-v0", make_stack())
    episodes = list(collected.iterate_episodes())
    assert found.lengths.tolist() == [30] * 4
    np.testing.assert_array_equal(found.actions.reshape(-1), np.concatenate([e.actions for e in episodes]).reshape(-1))
    expected = np.concatenate([np.abs(e.observations[1:, 2]) for e in episodes])  # the speed after each step
    np.testing.assert_allclose(found.costs["fast()"], expected)
    first = np.concatenate([np.arctan2(e.observations[:-1, 1], e.observations[:-1, 0]) for e in episodes])
    np.testing.assert_allclose(found.states[:, 0], first)
    assert found.weights.sum() == pytest.approx(4.0)
    evaluated = cmx.evaluation.evaluate_batch(make_stack(), found, seed=0)
    assert evaluated.constraints["fast"].mean == pytest.approx(expected.mean() - 0.5)


def test_it_is_imitated_and_kept_away_from(collected: Any) -> None:
    stack = make_stack()
    expert = reference("pendulum/theirs-v0", stack, n_components=2, n_steps=5)
    states = batch(collected, stack).states
    env = cmx.wrappers.vector.ImitationConstraint(make_stack(), expert, limit=1.0)
    near = cmx.functionals.StateCost(expert.states)
    steps = batch(collected, env)
    found = cmx.evaluation.evaluate_batch(env, steps, seed=0)
    assert abs(found.constraints["imitation"].mean + 1.0) < 1.0  # it is near itself
    measure = cmx.evaluation.rollouts.find_tracker(env).fresh_estimator().fit(steps).measure()
    assert near(measure) == pytest.approx(float(expert.states.density(states).mean()))


def test_what_is_missing_is_named(collected: Any) -> None:
    env = gym.make_vec("Pendulum-v1", num_envs=1, max_episode_steps=30)
    budget = cmx.problem.Constraint(cmx.functionals.LinearCost("cost", limit=0.5))
    with pytest.raises(InvalidDataset, match="no data set"):
        batch("pendulum/none-v0", make_stack())
    other = cmx.wrappers.constrain(
        gym.make_vec("CartPole-v1", num_envs=1),
        estimator=cmx.occupancy.GaussianMixture(),
        episodes_per_batch=1,
    )
    with pytest.raises(InvalidDataset, match="observations"):
        batch(collected, other)
    watching = cmx.wrappers.constrain(
        env, constraints={"cost": budget}, estimator=cmx.occupancy.GaussianMixture(), episodes_per_batch=1
    )
    with pytest.raises(MissingCost, match="cost"):
        batch(collected, watching)
