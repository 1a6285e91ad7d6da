"""Coverage, events and their draws, on states made by hand; the table of environments against dm_control."""

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent  # noqa: F401  (registers the ids)
from constrained_maxent.envs import SafeCartpole
from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.evaluation import Coverage, Estimate, Grid, StateMeasures
from constrained_maxent.evaluation.state_measures import (
    CARTPOLE,
    POINT_MASS,
    evaluate_states,
    measures_of,
    pole_is_up,
)
from constrained_maxent.types import Batch


def batch_of(states, lengths):
    states = np.asarray(states, dtype=np.float64).reshape(sum(lengths), -1)
    return Batch(observations=np.zeros(len(states)), states=states, actions=np.zeros(len(states)), lengths=lengths)


class TestPole:
    def test_by_hand(self):
        # cos 0.45 = 0.9004, cos 0.46 = 0.8961.
        angles = [0.0, 0.45, -0.45, 0.46, -0.46, np.pi, -np.pi, 2 * np.pi - 0.1]
        states = np.zeros((8, 4))
        states[:, 2] = angles
        assert pole_is_up(states).tolist() == [True, True, True, False, False, False, False, True]

    @pytest.mark.parametrize("angle", [0.0, 0.3, -0.4, 0.5, 2.0, -3.0])
    def test_up_is_where_dm_control_says(self, angle):
        env = SafeCartpole()
        _, info = env.reset(options={"qpos": [0.7, angle], "qvel": [0.2, -0.4]})
        np.testing.assert_allclose(info["state"], [0.7, 0.2, angle, -0.4], atol=1e-12)
        assert pole_is_up(info["state"][None]).item() == (env.physics.pole_angle_cosine() > 0.9)
        # The cosine is that of the vertical: the tip is 1 m above the cart's axis when the pole is up.
        assert env.physics.pole_angle_cosine() == pytest.approx(np.cos(angle))

    def test_share_of_steps(self):
        states = np.zeros((5, 4))
        states[3:, 2] = np.pi
        found = evaluate_states(batch_of(states, [1, 4]), CARTPOLE, seed=0)
        # All of the first episode's one step, half of the second's four.
        assert found.events["pole up"].mean == 3 / 5
        assert (found.events["pole up"].low, found.events["pole up"].high) == (0.5, 1.0)


class TestCoverage:
    def test_of_the_cartpoles_grid(self):
        assert CARTPOLE.grid.n_cells == 8 * 8 * 12 * 12
        states = [[0.1, 0.1, 0.1, 0.1], [0.2, 0.2, 0.2, 0.2], [-0.1, 0.1, 0.1, 0.1], [2.1, 0.0, 0.0, 0.0]]
        found = evaluate_states(batch_of(states, [4]), CARTPOLE, seed=0)
        assert found.coverage == Coverage(
            share=2 / 9216,
            # The frequencies are 2/3 and 1/3.
            effective=pytest.approx(1.5 ** (2 / 3) * 3 ** (1 / 3) / 9216),
            outside=1 / 4,
            n_states=4,
        )

    @pytest.mark.parametrize("turns", [0, 1, -3])
    def test_angles_are_wrapped(self, turns):
        # π is -π, wherever it comes from.
        states = np.zeros((3, 4))
        states[:, 2] = np.array([np.pi, -np.pi, -np.pi + 0.01]) + 2 * np.pi * turns
        found = evaluate_states(batch_of(states, [3]), CARTPOLE, seed=0)
        assert found.coverage.outside == 0.0
        assert round(found.coverage.share * 9216) <= 2  # rounding may put π just below π

    def test_distances_too_are_around_the_circle(self):
        # The same two states, once on either side of the cut: 0.02 rad apart in both writings.
        near, far = np.zeros((2, 4)), np.zeros((2, 4))
        near[:, 2], far[:, 2] = [-0.01, 0.01], [np.pi - 0.01, -np.pi + 0.01]
        entropies = [evaluate_states(batch_of(rows, [1, 1]), CARTPOLE, seed=0).entropy.mean for rows in (near, far)]
        assert entropies[0] == pytest.approx(entropies[1], rel=1e-9)

    def test_of_so_many_steps_without_replacement(self):
        line = StateMeasures(grid=Grid((0.0,), (100.0,), (100,)), coverage_steps=30)
        batch = batch_of(np.arange(100) + 0.5, [50, 50])
        found = evaluate_states(batch, line, seed=0)
        # Each state has a cell of its own, so 30 different ones fill 30 cells.
        assert found.coverage == Coverage(share=0.3, effective=pytest.approx(0.3), outside=0.0, n_states=30)
        all_of_them = evaluate_states(batch, StateMeasures(grid=line.grid), seed=0)
        assert all_of_them.coverage == Coverage(share=1.0, effective=pytest.approx(1.0), outside=0.0, n_states=100)

    def test_steps_in_a_row_visit_less_than_steps_of_all_episodes(self):
        line = StateMeasures(grid=Grid((0.0,), (100.0,), (100,)), coverage_steps=20)
        # Three rows of 20 steps visit 4, 5 and 20 cells; the 9 steps left over are no row.
        rows = [*np.repeat(np.arange(4), 5), *np.repeat(np.arange(10, 15), 4), *np.arange(20, 40), *np.full(9, 50)]
        found = evaluate_states(batch_of(np.array(rows) + 0.5, [30, 39]), line, seed=0)
        assert found.coverage_in_a_row.mean == pytest.approx((0.04 + 0.05 + 0.2) / 3)
        assert (found.coverage_in_a_row.low, found.coverage_in_a_row.high) == pytest.approx((0.04, 0.2))
        assert found.figures()["grid cells visited in a row, share"] == found.coverage_in_a_row
        # Fewer steps than asked for are one row.
        short = evaluate_states(batch_of(np.array(rows) + 0.5, [30, 39]), StateMeasures(grid=line.grid), seed=0)
        assert short.coverage_in_a_row.mean == short.coverage.share == 0.3

    def test_needs_the_grids_coordinates(self):
        with pytest.raises(InvalidData, match="states"):
            evaluate_states(batch_of(np.zeros((3, 2)), [3]), StateMeasures(grid=CARTPOLE.grid), seed=0)


class TestEvents:
    def test_see_folded_angles(self):
        seen = []
        measures = StateMeasures(events={"any": lambda states: seen.append(states) or states[:, 1] < 9.0})
        found = evaluate_states(batch_of([[7.0, 1.0], [7.0, -4.0]], [2]), measures, periodic=(0,), seed=0)
        np.testing.assert_allclose(seen[0], [[7.0 - 2 * np.pi, 1.0], [7.0 - 2 * np.pi, -4.0]])
        assert found.events == {"any": Estimate(1.0, 1.0, 1.0)}
        assert found.coverage is None

    @pytest.mark.parametrize("answer", [np.zeros(2), np.zeros(3, dtype=bool), True])
    def test_must_answer_for_every_state(self, answer):
        measures = StateMeasures(events={"bad": lambda states: answer})
        with pytest.raises(InvalidData, match="'bad'"):
            evaluate_states(batch_of(np.zeros((2, 1)), [2]), measures, seed=0)


def test_observations_stand_in_for_states():
    batch = Batch(observations=np.arange(6.0).reshape(3, 2), actions=np.zeros(3), lengths=[3])
    measures = StateMeasures(events={"far": lambda states: states.sum(axis=1) > 4.0})
    assert evaluate_states(batch, measures, seed=0).events["far"].mean == 2 / 3


def test_bad_settings():
    with pytest.raises(InvalidSetting, match="coverage_steps"):
        StateMeasures(coverage_steps=0)
    with pytest.raises(InvalidSetting, match="periodic"):
        evaluate_states(batch_of(np.zeros((2, 2)), [2]), StateMeasures(periodic=(2,)), seed=0)


@pytest.mark.parametrize(("env_id", "measures"), [("SafeCartpole", CARTPOLE), ("PointMass", POINT_MASS)])
@pytest.mark.parametrize("stack", ["-v0", "-PGP-v0"])
def test_what_is_known_of_an_environment(env_id, measures, stack):
    env = gym.make_vec(env_id + stack, num_envs=2)
    assert measures_of(env) is measures
    assert measures_of(env, batch_of(np.zeros((1, 4)), [1])) is measures
    assert measures_of(env, batch_of(np.zeros((1, 2)), [1])) == StateMeasures()
    env.close()


def test_nothing_is_known_of_others():
    assert measures_of(gym.make("Pendulum-v1")) == StateMeasures()
    assert measures_of(SafeCartpole()) == StateMeasures()


def test_the_point_mass_stays_in_its_grid():
    env = gym.make_vec("PointMass-v0", num_envs=16)
    env.reset(seed=0)
    rng, states = np.random.default_rng(0), []
    for t in range(400):
        if t % 40 == 0:  # full force in one direction until the mass is as fast as it gets
            push = np.sign(rng.normal(size=(16, 2))).astype(np.float32)
        states.append(env.step(push)[4]["state"])
    assert POINT_MASS.grid.coverage(np.concatenate(states)).outside < 0.01
    assert np.abs(np.concatenate(states)).max(axis=0) == pytest.approx([0.29, 0.29, 0.1, 0.1], abs=0.01)
    env.close()
