"""The vector wrapper: order of starts, halves, fragments, alignment of rewards with steps, and bad data."""

import copy
import math
import pickle
from math import log

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from constrained_maxent.envs import SafeFrozenLakeVector
from constrained_maxent.errors import InvalidData, InvalidSetting, MissingCost, NonFiniteValue, UnsupportedSpace
from constrained_maxent.functionals import Autograd, Entropy, LinearCost, Reward
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import Lagrangian, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain, find_tracker, vector

DISABLED, NEXT_STEP, SAME_STEP = AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP
SIGMA = 0.1
NAN, INF = math.nan, math.inf


def slope_reward(mass, slope=0.0, cost=0.0):
    """d/dlambda of -lambda log(lambda + sigma), minus slope times cost."""
    return -log(mass + SIGMA) - mass / (mass + SIGMA) - slope * cost


def stack(env, *, penalty=None, limit=0.0, cost="cost", **settings):
    settings = {"discount": 0.5, "horizon": 6, "scale": "truncated"} | settings
    env = vector.EntropyObjective(vector.TrackOccupancy(env, **settings), smoothing=SIGMA)
    return env if penalty is None else vector.CostConstraint(env, cost, limit=limit, penalty=penalty)


@pytest.fixture
def play(scripted):
    """A vector environment of the given scripts, one list of episodes for each sub-environment."""

    def make(*scripts, mode=SAME_STEP, kind=SyncVectorEnv, **spaces):
        fns = [lambda own=own: scripted.Playback(*(scripted.episode(*e) for e in own), **spaces) for own in scripts]
        return kind(fns, autoreset_mode=mode)

    return make


def zero(*_):
    return 0


class TestOrder:
    """Sub-environment 0 plays one long episode while 1 plays short ones: to finish first is not to count first."""

    LONG = [([3, 3, 3, 3, 3], [1.0] * 4, "terminated")]
    SHORT = [([0, 1], [2.0], "terminated"), ([1, 0], [3.0], "terminated"), ([2, 1], [4.0], "terminated")]

    def test_batches_take_the_episodes_that_started_first(self, play, scripted):
        env = stack(play(self.LONG, self.SHORT), penalty=Quadratic(0.5), episodes_per_batch=2)
        (report, *_), log_ = scripted.drive(env, SAME_STEP, zero, n_batches=1)
        # By the order of finishing, the first two would be short ones, and the batch would be over after 2 steps.
        assert len(log_) == 4
        assert report["sub_environments"] == [0, 1]
        assert report["started_ago"] == [3, 3]
        # lambda(3,0) = (1 + 1/2 + 1/4 + 1/8) / 2, lambda(0,0) = 1/2; the cost is (1.875 * 1 + 2) / 2.
        masses = 0.9375, 0.5
        assert report["objective"] == pytest.approx(-sum(m * log(m + SIGMA) for m in masses))
        assert report["constraints"]["cost"] == pytest.approx(1.9375)
        assert report["pseudo_rewards"][0] == pytest.approx([slope_reward(masses[0], 1.9375, 1)] * 4)
        assert report["pseudo_rewards"][1] == pytest.approx([slope_reward(masses[1], 1.9375, 2)])

    def test_the_others_wait_for_their_batch_and_batches_come_one_per_step(self, play, scripted):
        env = stack(play(self.LONG, self.SHORT), episodes_per_batch=2)
        reports, log_ = scripted.drive(env, SAME_STEP, zero, n_batches=3)
        # After 4 steps the short episodes 2, 3 and 4 are over as well: batch (2, 3) is complete, too, and comes with
        # the next step. Then comes (4, long again), which lasts until step 8.
        assert [call for call, step in enumerate(log_) if "batch" in step.infos] == [3, 4, 7]
        assert [r["sub_environments"] for r in reports] == [[0, 1], [1, 1], [1, 0]]
        assert [r["started_ago"] for r in reports] == [[3, 3], [3, 2], [4, 3]]
        assert [r["iteration"] for r in reports] == [0, 1, 2]
        assert [r["episodes"] for r in reports] == [2, 2, 2]
        assert [[len(w) for w in r["weights"]] for r in reports] == [[4, 1], [1, 1], [1, 4]]

    def test_ties_go_by_sub_environment(self, play, scripted):
        env = stack(play(self.SHORT, self.SHORT, self.SHORT), episodes_per_batch=4)
        reports, log_ = scripted.drive(env, SAME_STEP, zero, n_batches=3)
        # Three end with each step, in step: 4 are there after step 2, 8 after 3, 12 after 4.
        assert [r["sub_environments"] for r in reports] == [[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]]
        assert [call for call, step in enumerate(log_) if "batch" in step.infos] == [1, 2, 3]

    def test_a_pending_batch_comes_with_a_reset_as_well(self, play):
        env = stack(play(self.LONG, self.SHORT), episodes_per_batch=2)
        env.reset()
        for _ in range(4):
            env.step(np.zeros(2, int))
        _, infos = env.reset()
        assert infos["batch"]["sub_environments"] == [1, 1]
        assert infos["batch"]["started_ago"] == [2, 1]

    def test_halves_too(self, play, scripted):
        env = stack(play(self.LONG, self.SHORT), penalty=Quadratic(0.5), episodes_per_batch=2, pairing="split")
        (report, *_), log_ = scripted.drive(env, SAME_STEP, zero, n_batches=1)
        # The first half is the long episode, although the other was over before: lambda(3,0) = 1.875, R = 1.875.
        assert len(log_) == 4
        assert report["ready"] == [False, True]
        assert report["constraints"]["cost"] == pytest.approx(1.875)
        assert report["pseudo_rewards"][1] == pytest.approx([slope_reward(0.0, 1.875, 2)])
        # The second half was over when the first was fitted; what runs now belongs to the next batch.
        assert not any(step.infos["pseudo_reward_ready"].any() for step in log_)


class TestPairings:
    """Both sub-environments play (0,1) (1,1) and then (2,0) (3,0) (0,0); gamma = 0.5, B = 4, SAME_STEP."""

    EPISODES = [([0, 1, 2], [2.0, 4.0], "terminated"), ([2, 3, 0, 1], [1.0, 0.0, 8.0], "truncated")]

    def actions(self, i, episode, time, observation):
        return 1 - episode % 2

    def env(self, play, **settings):
        return stack(play(self.EPISODES, self.EPISODES), penalty=Quadratic(0.25), episodes_per_batch=4, **settings)

    def test_same(self, play, scripted):
        env = self.env(play)
        (report, *_), log_ = scripted.drive(env, SAME_STEP, self.actions, n_batches=1, n_steps=5)
        # <c, lambda> = (2 (2 + 2) + 2 (1 + 0 + 2)) / 4 = 3.5, slope 1.75.
        assert report["constraints"]["cost"] == pytest.approx(3.5)
        masses = {(0, 1): 0.5, (1, 1): 0.25, (2, 0): 0.5, (3, 0): 0.25, (0, 0): 0.125}
        assert report["objective"] == pytest.approx(-sum(m * log(m + SIGMA) for m in masses.values()))
        first = [slope_reward(0.5, 1.75, 2), slope_reward(0.25, 1.75, 4)]
        second = [slope_reward(0.5, 1.75, 1), slope_reward(0.25, 1.75, 0), slope_reward(0.125, 1.75, 8)]
        for given, by_hand in zip(report["pseudo_rewards"], [first, first, second, second], strict=True):
            assert given == pytest.approx(by_hand)
        assert report["whole_episodes"] is True
        for step in log_:
            assert step.infos["pseudo_reward"].tolist() == [0.0, 0.0]
            assert step.infos["pseudo_reward_ready"].tolist() == [False, False]
        # Live in the next batch: (0,1) at cost 2 in both.
        *_, infos = env.step(np.array([1, 1]))
        assert infos["pseudo_reward"] == pytest.approx([first[0]] * 2)
        assert infos["pseudo_reward_objective"] == pytest.approx([slope_reward(0.5)] * 2)
        assert infos["pseudo_reward_cost"] == pytest.approx([-3.5] * 2)
        assert infos["_pseudo_reward"].tolist() == infos["_pseudo_reward_cost"].tolist() == [True, True]
        assert infos["pseudo_reward_ready"].tolist() == [False, False]

    def test_split(self, play, scripted):
        (report, *_), log_ = scripted.drive(self.env(play, pairing="split"), SAME_STEP, self.actions)
        # First half: lambda(0,1) = 1, lambda(1,1) = 0.5, <c, lambda> = 4, slope 2.
        second = [slope_reward(0.0, 2, 1), slope_reward(0.0, 2, 0), slope_reward(0.0, 2, 8)]
        assert report["ready"] == [False, False, True, True]
        assert report["pseudo_rewards"][3] == pytest.approx(second)
        assert report["pseudo_rewards"][0] == pytest.approx([slope_reward(1.0, 2, 2), slope_reward(0.5, 2, 4)])
        assert [step.infos["pseudo_reward_ready"].tolist() for step in log_] == [[False] * 2] * 2 + [[True] * 2] * 3
        live = np.array([step.infos["pseudo_reward"] for step in log_[2:]])
        assert pytest.approx(np.array([second] * 2)) == live.T

    def test_previous(self, play, scripted):
        reports, log_ = scripted.drive(self.env(play, pairing="previous"), SAME_STEP, self.actions, n_batches=2)
        assert reports[0]["ready"] == [False] * 4
        assert np.concatenate(reports[0]["pseudo_rewards"]).tolist() == [0.0] * 10
        assert reports[1]["ready"] == [True] * 4
        first = [slope_reward(0.5, 1.75, 2), slope_reward(0.25, 1.75, 4)]
        assert reports[1]["pseudo_rewards"][1] == pytest.approx(first)
        assert [step.infos["pseudo_reward_ready"].all() for step in log_] == [False] * 5 + [True] * 5
        assert [step.infos["pseudo_reward"][0] for step in log_[5:7]] == pytest.approx(first)

    def test_live_in_the_second_half_is_ready_for_its_own_episodes_only(self, play, scripted):
        # Sub-environment 0 is long in the second half; 1 begins episodes of the next batch meanwhile.
        long = [([0, 1], [0.0], "terminated"), ([3] * 6, [0.0] * 5, "terminated")]
        short = [([0, 1], [0.0], "terminated")]
        env = stack(play(long, short), episodes_per_batch=4, pairing="split")
        (report, *_), log_ = scripted.drive(env, SAME_STEP, zero)
        assert report["sub_environments"] == [0, 1, 0, 1]
        ready = [step.infos["pseudo_reward_ready"].tolist() for step in log_]
        assert ready == [[False, False], [True, True]] + [[True, False]] * 4

    def test_multipliers_follow(self, play, scripted):
        env = stack(play(self.EPISODES, self.EPISODES), penalty=Lagrangian(0.1), episodes_per_batch=4, limit=1.5)
        reports, _ = scripted.drive(env, SAME_STEP, self.actions, n_batches=3)
        assert [r["multipliers"]["cost"] for r in reports] == pytest.approx([0.0, 0.2, 0.4])


class TestSteps:
    """Sub-environment 0 plays 3 3 3 3 3 3 (5 steps), 1 plays 0 1 2 (2 steps); 4 steps a batch are 2 calls."""

    def env(self, play, mode=SAME_STEP, **settings):
        env = play([([3] * 6, None, "truncated")], [([0, 1, 2], None, "terminated")], mode=mode)
        return stack(env, **({"steps_per_batch": 4} | settings))

    def test_fragments(self, play, scripted):
        env = self.env(play, horizon=5)
        reports, _ = scripted.drive(env, SAME_STEP, zero, n_batches=3)
        assert [[w.tolist() for w in r["weights"]] for r in reports] == [
            [[1.0, 0.5], [1.0, 0.5]],
            [[0.25, 0.125], [1.0, 0.5]],
            # The long episode ends, and its next one starts after the short one's in this batch.
            [[0.0625], [1.0, 0.5], [1.0]],
        ]
        assert [r["sub_environments"] for r in reports] == [[0, 1], [0, 1], [0, 1, 0]]
        assert [r["started_ago"] for r in reports] == [[1, 1], [1, 1], [1, 1, 0]]
        assert [r["whole_episodes"] for r in reports] == [False] * 3
        # Early ends: by the starts. The first batch has two, the second one, the third two: 5 episodes in 12 steps.
        by_hand = np.array([1.0, 0.5, 0.0, 1.0625]) / (4 * 5 / 12)
        assert find_tracker(env).estimator.occupancy_[:, 0] == pytest.approx(by_hand)

    def test_episodes_of_full_length_are_counted_by_steps(self, play, scripted):
        env = play([([3] * 6, None, "truncated")], [([0, 1, 2, 3, 0, 1], None, "truncated")])
        env = stack(env, steps_per_batch=6, horizon=5)
        reports, _ = scripted.drive(env, SAME_STEP, zero, n_batches=2)
        # Six of five steps are 1.2 episodes. Second batch: times 3, 4 and then 0 of each.
        assert [w.tolist() for w in reports[1]["weights"]] == [[0.125, 0.0625]] * 2 + [[1.0]] * 2
        occupancy = find_tracker(env).estimator.occupancy_
        assert occupancy[:, 0] == pytest.approx(np.array([0.0625 + 1.0, 0.0, 0.0, 0.125 + 0.0625 + 1.0 + 0.125]) / 1.2)

    def test_next_step_resets_are_no_steps(self, play, scripted):
        env = self.env(play, mode=NEXT_STEP)
        reports, log_ = scripted.drive(env, NEXT_STEP, zero, n_batches=2)
        # Call 2 only resets sub-environment 1, so that the second batch takes calls 2, 3 and 4 (1 + 2 + 2 steps).
        assert [call for call, step in enumerate(log_) if "batch" in step.infos] == [1, 4]
        assert [[w.tolist() for w in r["weights"]] for r in reports] == [
            [[1.0, 0.5], [1.0, 0.5]],
            [[0.25, 0.125, 0.0625], [1.0, 0.5]],
        ]
        assert reports[1]["steps"] == 5
        assert reports[1]["started_ago"] == [2, 1]

    def test_split(self, play, scripted):
        env = self.env(play, steps_per_batch=8, pairing="split", horizon=5)
        (report, *_), log_ = scripted.drive(env, SAME_STEP, zero)
        # Both sub-environments' first two steps are the first half. Two episodes started, and one ended early.
        assert report["ready"] == [False, False, True, True]
        assert report["sub_environments"] == [0, 1, 0, 1]
        assert [w.tolist() for w in report["weights"]] == [[1, 0.5], [1, 0.5], [0.25, 0.125], [1, 0.5]]
        assert report["started_ago"] == [3, 3, 1, 1]
        # lambda(3,0) = 1.5 / 2, lambda(0,0) = 1/2, lambda(1,0) = 0.5/2
        assert report["pseudo_rewards"][2] == pytest.approx([slope_reward(0.75)] * 2)
        assert report["pseudo_rewards"][3] == pytest.approx([slope_reward(0.5), slope_reward(0.25)])
        assert [step.infos["pseudo_reward_ready"].tolist() for step in log_] == [[False] * 2] * 2 + [[True] * 2] * 2
        live = np.array([step.infos["pseudo_reward"] for step in log_[2:]])
        assert live[:, 1] == pytest.approx(report["pseudo_rewards"][3])

    def test_the_smallest_split(self, play):
        env = self.env(play, steps_per_batch=2, pairing="split")
        env.reset()
        *_, infos = env.step(np.zeros(2, int))
        assert "batch" not in infos
        _, infos = env.reset()  # no step of a second half: the first one waits
        assert "batch" not in infos
        *_, infos = env.step(np.zeros(2, int))
        assert infos["batch"]["ready"] == [False, False, True, True]

    def test_a_bare_reset_cuts_fragments(self, play):
        env = self.env(play, steps_per_batch=6)
        env.reset()
        for _ in range(3):
            *_, infos = env.step(np.zeros(2, int))
        assert "batch" in infos
        env.reset()  # at the batch's end: no steps of the episodes under way are left
        for _ in range(3):
            *_, infos = env.step(np.zeros(2, int))
        assert [w.tolist() for w in infos["batch"]["weights"]] == [[1.0, 0.5, 0.25], [1.0, 0.5], [1.0]]


class TestResets:
    def env(self, play, **settings):
        script = [([0, 1, 2, 3], [1.0, 2.0, 3.0], "terminated")]
        return stack(play(script, script), **({"episodes_per_batch": 2} | settings))

    def test_twice_without_steps(self, play):
        env = self.env(play)
        for _ in range(3):
            _, infos = env.reset()
            assert "batch" not in infos
        for _ in range(3):
            *_, infos = env.step(np.zeros(2, int))
        assert infos["batch"]["episodes"] == 2

    def test_a_bare_reset_truncates(self, play):
        env = self.env(play)
        env.reset()
        env.step(np.zeros(2, int))
        _, infos = env.reset()
        # lambda(0,0) = 1
        assert infos["batch"]["objective"] == pytest.approx(-log(1.1))
        assert infos["batch"]["started_ago"] == [0, 0]

    def test_next_step_between_two_episodes(self, play):
        script = [([0, 1], None, "terminated")]
        env = stack(play(script, script, mode=NEXT_STEP), episodes_per_batch=4)
        env.reset()
        env.step(np.zeros(2, int))
        _, infos = env.reset()  # both were waiting for their own reset
        assert "batch" not in infos
        *_, infos = env.step(np.zeros(2, int))
        assert infos["_pseudo_reward"].all()
        assert (infos["batch"]["episodes"], infos["batch"]["steps"]) == (4, 4)

    @pytest.mark.parametrize("pairing", ["same", "split"])
    def test_a_new_batch_forgets_the_old(self, play, pairing):
        env = self.env(play, episodes_per_batch=4, pairing=pairing)
        env.reset()
        for _ in range(4):
            *_, infos = env.step(np.zeros(2, int))
        assert infos["pseudo_reward_ready"].all() == (pairing == "split")
        _, infos = env.reset(options={"new_batch": True})
        assert "batch" not in infos
        for call in range(6):
            *_, infos = env.step(np.zeros(2, int))
            assert infos["pseudo_reward_ready"].all() == (pairing == "split" and call >= 3)
        assert infos["batch"]["steps"] == 12
        assert infos["batch"]["started_ago"] == [5, 5, 2, 2]

    def test_a_new_batch_is_everybodys(self, play):
        script = [([0, 1, 2, 3], None, "terminated")]
        env = stack(play(script, script, mode=DISABLED), episodes_per_batch=2)
        env.reset()
        with pytest.raises(InvalidSetting, match="reset_mask"):
            env.reset(options={"new_batch": True, "reset_mask": np.array([True, False])})
        env.step(np.zeros(2, int))  # nothing was touched

    def test_step_before_reset(self, play):
        with pytest.raises(ResetNeeded):
            self.env(play).step(np.zeros(2, int))


class TestAlignment:
    """An agent that keeps rows (call, sub-environment) finds the step of every reward, whatever the interleaving."""

    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
    @pytest.mark.parametrize("size", [{"episodes_per_batch": 7}, {"steps_per_batch": 50}])
    @pytest.mark.parametrize("pairing", ["same", "split"])
    def test_counts_of_the_rows_are_the_estimate(self, mode, size, pairing):
        n, gamma, horizon = 5, 0.9, 12
        desc = ["SFFF", "FGFG", "FFFG", "GFFG"]  # walks end early, and at different times
        env = SafeFrozenLakeVector(n, desc=desc, slippery=True, horizon=horizon, autoreset_mode=mode)
        env = vector.TrackOccupancy(env, discount=gamma, scale="truncated", pairing=pairing, **size)
        env = vector.EntropyObjective(env, smoothing=SIGMA)
        observations, _ = env.reset(seed=0)
        rng = np.random.default_rng(0)
        rows, n_reports = [], 0
        while n_reports < 12:
            actions = rng.integers(4, size=n)
            rows.append((observations, actions))
            observations, *_, infos = env.step(actions)
            if "batch" not in infos:
                continue
            n_reports += 1
            report = infos["batch"]
            table, visited = np.zeros((16, 4)), []
            n_first = report["ready"].index(True)
            for i in range(len(report["weights"])):
                first = len(rows) - 1 - report["started_ago"][i]
                copy_ = report["sub_environments"][i]
                for t, weight in enumerate(report["weights"][i]):
                    cell = rows[first + t][0][copy_], rows[first + t][1][copy_]
                    visited.append((i, cell))
                    if pairing == "same" or i < n_first:
                        table[cell] += weight
                if "episodes_per_batch" in size:
                    assert report["weights"][i] == pytest.approx(gamma ** np.arange(len(report["weights"][i])))
            # Divided by the episodes, which in batches of steps only the estimate itself tells.
            estimate = find_tracker(env).estimator.occupancy_
            ratio = estimate.sum() / table.sum()
            if "episodes_per_batch" in size:
                assert ratio == pytest.approx(1 / (7 if pairing == "same" else 3))
            assert estimate == pytest.approx(ratio * table)
            rewards = np.concatenate(report["pseudo_rewards"])
            assert rewards == pytest.approx([slope_reward(estimate[cell]) for _, cell in visited])


class TestCosts:
    def test_info_that_only_some_report_on_the_same_step(self, play, scripted):
        # Costs named like the recorder's own columns.
        for key in ("time", "env", "call", "episode", "observation", "action", "terminated"):
            script = [([0, 1, 2], [{key: 3.0}, {key: 5.0}], "terminated")]
            env = stack(play(script, script), penalty=Quadratic(1.0), cost=key, episodes_per_batch=2)
            (report,), _ = scripted.drive(env, SAME_STEP, zero)
            assert report["constraints"]["cost"] == pytest.approx(3.0 + 2.5)

    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
    def test_a_function_is_asked_once_for_each_step(self, play, scripted, mode):
        calls = []

        def cost(observation, action, next_observation):
            calls.append((int(observation), int(action), int(next_observation)))
            return 1.0

        env = play([([0, 1, 2], None, "terminated")], [([3, 2], None, "terminated")], mode=mode)
        env = stack(env, penalty=Quadratic(1.0), cost=cost, episodes_per_batch=2)
        scripted.drive(env, mode, lambda i, episode, time, s: (s + i) % 2)
        again = [(3, 0, 2)] if mode is SAME_STEP else []  # else that call only resets
        assert calls == [(0, 0, 1), (3, 0, 2), (1, 1, 2), *again]

    def test_a_table_and_a_key_beside_it(self, play, scripted):
        script = [([0, 1, 2], [2.0, 4.0], "terminated")]
        table = np.zeros((4, 2))
        table[1, 0] = 6.0
        env = stack(play(script, script), penalty=Quadratic(0.5), cost=table, limit=1.0, episodes_per_batch=2)
        env = vector.CostConstraint(env, limit=3.0, penalty=Quadratic(0.25), name="key")
        (report,), _ = scripted.drive(env, SAME_STEP, zero)
        # 6/2 - 1 = 2 with slope 2, and 2 + 4/2 - 3 = 1 with slope 0.5
        assert report["constraints"] == pytest.approx({"cost": 2.0, "key": 1.0})
        assert report["pseudo_rewards"][0] == pytest.approx([slope_reward(1.0) - 0.5 * 2, slope_reward(0.5) - 12 - 2])

    def test_cost_functions_see_actions_as_they_were(self, scripted):
        class Clears(SyncVectorEnv):
            def step(self, actions):
                result = super().step(actions)
                actions[:] = 0
                return result

        seen = []

        def cost(observation, action, next_observation):
            seen.append(int(action))
            return 0.0

        env = Clears([lambda: scripted.Playback(scripted.episode([0, 1]))] * 2, autoreset_mode=SAME_STEP)
        env = stack(env, penalty=Quadratic(1.0), cost=cost, episodes_per_batch=2)
        env.reset()
        env.step(np.array([1, 1]))
        assert seen == [1, 1]
        assert find_tracker(env).estimator.occupancy_[0].tolist() == [0.0, 1.0]


class TestBadData:
    """Sub-environment 1 misbehaves in its second episode, after a whole batch and a whole episode of 0 and of 1."""

    GOOD = [([0, 1], [2.0], "terminated")]

    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
    @pytest.mark.parametrize("last", [False, True])
    @pytest.mark.parametrize(
        ("bad", "error", "message"),
        [
            ({}, MissingCost, "'cost'"),
            ({"cost": NAN}, NonFiniteValue, "'cost'"),
            ({"cost": INF}, NonFiniteValue, "'cost'"),
            ({"cost": 1.0, "reward": NAN}, NonFiniteValue, "reward"),
            ({"cost": 1.0, "reward": -INF}, NonFiniteValue, "reward"),
        ],
    )
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_bad_episodes_are_forgotten(self, play, scripted, mode, last, bad, error, message, pairing):
        spoilt = [{"cost": 9.0}, bad] if last else [bad, {"cost": 9.0}]
        env = play(self.GOOD * 4, [*self.GOOD, ([3, 3, 3], spoilt, "terminated"), *self.GOOD * 2], mode=mode)
        env = stack(env, penalty=Quadratic(0.5), limit=1.0, episodes_per_batch=4, pairing=pairing)
        with pytest.raises(error, match=message):
            scripted.drive(env, mode, zero, n_steps=5)
        with pytest.raises(ResetNeeded):
            env.step(np.zeros(2, int))
        with pytest.raises(ResetNeeded, match="reset_mask"):
            env.reset(options={"reset_mask": np.array([False, True])})
        reports, _ = scripted.drive(env, mode, zero)
        # Whatever survived was good: (0,0) at cost 2, alone.
        occupancy = find_tracker(env).estimator.occupancy_
        assert occupancy[0].tolist() == [1.0, 0.0]
        assert occupancy.sum() == 1.0
        assert reports[0]["constraints"]["cost"] == pytest.approx(1.0)
        assert (reports[0]["episodes"], reports[0]["steps"]) == (4, 4)

    def test_nothing_reported_at_all(self, play):
        script = [([0, 1, 2], [{}, {}], "terminated")]
        env = stack(play(script, script), penalty=Quadratic(1.0), episodes_per_batch=2)
        env.reset()
        with pytest.raises(MissingCost, match="'cost'"):
            env.step(np.zeros(2, int))

    @pytest.mark.parametrize("value", ["much", np.zeros(2)])
    def test_costs_that_are_no_numbers(self, play, value):
        script = [([0, 1, 2], [{"cost": value}] * 2, "terminated")]
        env = stack(play(script, script), penalty=Quadratic(1.0), episodes_per_batch=2)
        env.reset()
        with pytest.raises(InvalidData, match="'cost'"):
            env.step(np.zeros(2, int))

    def test_vectors_that_give_no_masks(self, play):
        class Bare(gym.vector.VectorWrapper):
            def step(self, actions):
                observations, rewards, terminated, truncated, _ = self.env.step(actions)
                return observations, rewards, terminated, truncated, {"cost": np.array([2.0, 3.0])}

        script = [([0, 1, 2], None, "terminated")]
        env = stack(Bare(play(script, script, mode=DISABLED)), penalty=Quadratic(1.0), episodes_per_batch=2)
        env.reset()
        env.step(np.zeros(2, int))
        *_, infos = env.step(np.zeros(2, int))
        assert infos["batch"]["constraints"]["cost"] == pytest.approx(2.5 * 1.5)

    def test_a_cost_function_that_fails(self, play, scripted):
        healthy = []

        def cost(observation, action, next_observation):
            return 1.0 / len(healthy)

        env = stack(play(self.GOOD, self.GOOD), penalty=Quadratic(1.0), cost=cost, episodes_per_batch=2)
        with pytest.raises(ZeroDivisionError):
            scripted.drive(env, SAME_STEP, zero)
        healthy.append(1)
        (report,), _ = scripted.drive(env, SAME_STEP, zero)
        assert report["constraints"]["cost"] == pytest.approx(1.0)

    @pytest.mark.parametrize("n_before", [0, 3])
    def test_actions_outside_their_space(self, play, n_before):
        env = stack(play(self.GOOD, self.GOOD), episodes_per_batch=2)
        env.reset()
        for _ in range(n_before):
            env.step(np.zeros(2, int))
        for actions in (np.array([0, 2]), np.array([-1, 0]), np.array([0.5, 0.5])):
            env.reset()
            with pytest.raises(InvalidData):
                env.step(actions)
        env.reset()
        *_, infos = env.step(np.zeros(2, int))
        assert infos["batch"]["objective"] == pytest.approx(-log(1.1))

    def test_an_observation_outside_its_space(self, play, scripted):
        env = stack(play(self.GOOD, [([0, 7, 0], None, "terminated"), *self.GOOD]), episodes_per_batch=2)
        with pytest.raises(InvalidData):
            scripted.drive(env, SAME_STEP, zero)
        (report,), _ = scripted.drive(env, SAME_STEP, zero)
        assert report["objective"] == pytest.approx(-log(1.1))

    @pytest.mark.parametrize("value", [NAN, INF])
    @pytest.mark.parametrize("position", [1, 2])
    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
    def test_observations_that_are_not_finite(self, play, scripted, mode, position, value):
        bad = [5.0, 5.0, 5.0]
        bad[position] = value  # the last one comes in final_obs with same-step autoreset
        scripts = [
            [([np.array([x], dtype=np.float32) for x in path], None, "terminated") for path in paths]
            for paths in ([[0.0, 2.0, 4.0]], [bad, *[[0.0, 2.0, 4.0]] * 4])
        ]
        env = play(*scripts, mode=mode, observation_space=gym.spaces.Box(-9, 9, (1,)))
        env = stack(env, estimator=scripted.Nearest(), episodes_per_batch=2)
        with pytest.raises(NonFiniteValue):
            scripted.drive(env, mode, zero)
        with pytest.raises(ResetNeeded):
            env.step(np.zeros(2, int))
        (report,), _ = scripted.drive(env, mode, zero)
        assert set(find_tracker(env).estimator.places.tolist()) == {0.0, 2.0}
        # Densities 1 and 1/2, as nothing else is near.
        assert report["objective"] == pytest.approx(-(log(1.1) + 0.5 * log(0.6)))
        *_, infos = env.step(np.zeros(2, int))
        if mode is SAME_STEP:
            assert infos["pseudo_reward"] == pytest.approx([slope_reward(1.0)] * 2)

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.EndsRewarded")
    def test_a_reset_into_nowhere(self, play, scripted):
        script = [([np.array([x], dtype=np.float32), np.zeros(1, np.float32)], None, "terminated") for x in (0.0, NAN)]
        env = play(script, script, mode=NEXT_STEP, observation_space=gym.spaces.Box(-9, 9, (1,)))
        env = stack(env, estimator=scripted.Nearest(), episodes_per_batch=2)
        env.reset()
        with pytest.raises(NonFiniteValue):
            env.reset()
        with pytest.raises(ResetNeeded):
            env.step(np.zeros(2, int))
        env.reset()
        *_, infos = env.step(np.zeros(2, int))
        assert infos["batch"]["steps"] == 2

    def test_past_the_horizon(self, play, scripted):
        env = stack(play(self.GOOD, [([0, 1, 2, 3, 0], None, "terminated")]), horizon=3, episodes_per_batch=2)
        with pytest.raises(InvalidSetting, match="horizon=3"):
            scripted.drive(env, SAME_STEP, zero)

    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_a_functional_that_fails_costs_one_batch(self, play, scripted, pairing):
        healthy = []
        env = vector.ConvexConstraint(
            stack(play(self.GOOD, self.GOOD), episodes_per_batch=4, pairing=pairing),
            Autograd(lambda occupancy: occupancy.sum() * (1.0 if healthy else NAN)),
            penalty=Quadratic(1.0),
        )
        with pytest.raises(NonFiniteValue):
            scripted.drive(env, SAME_STEP, zero)
        healthy.append(True)
        (report,), _ = scripted.drive(env, SAME_STEP, zero)
        assert (report["episodes"], report["iteration"]) == (4, 0)
        assert report["constraints"]["convex"] == pytest.approx(1.0)


class TestArguments:
    def test_a_batch_holds_every_sub_environment(self):
        env = SafeFrozenLakeVector(4)
        for name in ("episodes_per_batch", "steps_per_batch"):
            with pytest.raises(InvalidSetting, match=f"{name}=3"):
                vector.TrackOccupancy(env, **{name: 3})
            vector.TrackOccupancy(env, **{name: 4})
        with pytest.raises(InvalidSetting, match="steps_per_batch="):
            vector.TrackOccupancy(env)
        with pytest.raises(InvalidSetting, match="steps_per_batch="):
            vector.TrackOccupancy(env, episodes_per_batch=4, steps_per_batch=4)

    def test_values(self):
        env = SafeFrozenLakeVector(2)
        for settings in ({"pairing": "next"}, {"scale": "paper"}, {"discount": 0.0}, {"horizon": 0}):
            with pytest.raises(InvalidSetting):
                vector.TrackOccupancy(env, **({"episodes_per_batch": 2} | settings))

    def test_a_space_that_cannot_be_counted(self, play):
        env = play([([0, 1], None)], observation_space=gym.spaces.Box(0, 1, (2,)))
        with pytest.raises(UnsupportedSpace, match="Box"):
            vector.TrackOccupancy(env, episodes_per_batch=2, horizon=3)

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_the_horizon_is_found(self):
        lakes = [lambda: gym.make("SafeFrozenLake-v0", horizon=7)] * 2
        for env in (SafeFrozenLakeVector(2, horizon=7), SyncVectorEnv(lakes), AsyncVectorEnv(lakes)):
            env = vector.TrackOccupancy(env, episodes_per_batch=2)
            assert env.tracker.weighting.horizon == 7
            env.close()

    def test_the_estimator_given_stays_unfitted(self, play, scripted):
        estimator = Counts(memory=0.5)
        env = stack(play(TestBadData.GOOD), episodes_per_batch=1, estimator=estimator)
        scripted.drive(env, SAME_STEP, zero)
        assert not estimator.is_fitted
        assert find_tracker(env).estimator.memory == 0.5


class TestSpaces:
    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
    @pytest.mark.parametrize(
        ("space", "path"),
        [
            (gym.spaces.MultiDiscrete([2, 2]), [np.array([0, 1]), np.array([1, 0]), np.array([0, 0])]),
            (gym.spaces.MultiBinary(2), [np.array(x, dtype=np.int8) for x in ([0, 1], [1, 0], [0, 0])]),
            (
                gym.spaces.Tuple((gym.spaces.Discrete(2, start=1), gym.spaces.MultiBinary(1))),
                [(1, np.array([1], np.int8)), (2, np.array([0], np.int8)), (1, np.array([0], np.int8))],
            ),
        ],
    )
    def test_several_components(self, play, scripted, space, path, mode):
        script = [(path, [1.0, 2.0], "terminated")]
        env = play(script, script, mode=mode, observation_space=space)
        seen = []

        def cost(observation, action, next_observation):
            seen.append((observation, next_observation))
            return 1.0

        env = stack(env, penalty=Quadratic(1.0), cost=cost, episodes_per_batch=2)
        env.reset()
        env.step(np.ones(2, int))
        *_, infos = env.step(np.ones(2, int))
        if mode is DISABLED:
            env.reset(options={"reset_mask": np.array([True, True])})
        # Elements 1 and then 2 of four.
        assert find_tracker(env).estimator.occupancy_[:, 1].tolist() == [0.0, 1.0, 0.5, 0.0]
        assert infos["batch"]["pseudo_rewards"][1] == pytest.approx(
            [slope_reward(1.0, 3.0, 1), slope_reward(0.5, 3.0, 1)]
        )
        assert len(seen) == 4
        for observation, next_observation in seen:
            assert space.contains(observation)
            assert space.contains(next_observation)
        assert all(np.array_equal(np.hstack(a), np.hstack(b)) for a, b in zip(seen[2], path[1:], strict=True))

    def test_actions_of_several_components(self, play):
        script = [([0, 1, 2], None, "terminated")]
        env = play(script, script, n_states=3, action_space=gym.spaces.MultiDiscrete([2, 2]))
        env = stack(env, episodes_per_batch=2)
        env.reset()
        env.step(np.array([[1, 0], [1, 0]]))
        *_, infos = env.step(np.array([[0, 1], [0, 1]]))
        table = find_tracker(env).estimator.occupancy_
        assert table.tolist() == [[0, 0, 1, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]]
        assert "batch" in infos

    def test_a_space_too_large_for_a_table(self, play, scripted):
        script = [([5, 10**9 - 1, 0], None, "terminated")]
        env = stack(play(script, script, n_states=10**9), episodes_per_batch=2)
        (report,), _ = scripted.drive(env, SAME_STEP, zero)
        assert report["objective"] == pytest.approx(-(log(1.1) + 0.5 * log(0.6)))
        assert report["pseudo_rewards"][1] == pytest.approx([slope_reward(1.0), slope_reward(0.5)])
        *_, infos = env.step(np.zeros(2, int))
        assert infos["pseudo_reward"] == pytest.approx([slope_reward(1.0)] * 2)

    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
    def test_blackjack(self, mode):
        env = SyncVectorEnv([lambda: gym.make("Blackjack-v1")] * 3, autoreset_mode=mode)
        env = stack(env, episodes_per_batch=9, horizon=30)
        env.reset(seed=0)
        env.action_space.seed(0)
        infos = {}
        while "batch" not in infos:
            *_, infos = env.step(env.action_space.sample())
        table = find_tracker(env).estimator.occupancy_
        assert table.shape == (32 * 11 * 2, 2)
        assert table.sum() * 9 == pytest.approx(np.concatenate(infos["batch"]["weights"]).sum())
        assert infos["batch"]["objective"] == pytest.approx(-(table * np.log(table + SIGMA)).sum())


def shapes(shown):
    """Of the arrays that an entry shows, and the entries in it."""
    return [shown.shape] if isinstance(shown, np.ndarray) else [s for _, value in shown.items() for s in shapes(value)]


class TestInfos:
    """What is put into ``infos``, for Gymnasium's wrappers as well, and that the environment's own are left alone."""

    def test_a_reset_has_pseudo_rewards_of_zero(self, play, scripted):
        script = [([0, 1, 2], [1.0, 2.0], "terminated")]
        env = stack(play(script, script, mode=DISABLED), penalty=Quadratic(1.0), episodes_per_batch=2)
        keys = ("pseudo_reward", "pseudo_reward_objective", "pseudo_reward_cost", "pseudo_reward_ready")
        scripted.drive(env, DISABLED, zero)
        _, infos = env.reset()
        for key in keys:
            assert infos[key].tolist() == [0.0, 0.0]
            assert infos[f"_{key}"].tolist() == [True, True]
        env.step(np.zeros(2, int))
        _, infos = env.reset(options={"reset_mask": np.array([False, True])})
        for key in keys:
            assert infos[key].tolist() == [0.0, 0.0]
            assert infos[f"_{key}"].tolist() == [False, True]

    def test_the_environments_own_are_never_written_to(self):
        class Same(gym.vector.VectorEnv):
            """Both sub-environments end an episode on every second call; every dictionary is used again."""

            metadata = {"autoreset_mode": SAME_STEP}
            num_envs = 2
            single_observation_space = single_action_space = gym.spaces.Discrete(2)
            observation_space = action_space = gym.spaces.MultiDiscrete([2, 2])

            def __init__(self):
                self.always = np.ones(2, dtype=bool)
                self.at_reset = {"map": np.array(["a", "b"])}
                self.report = {"constraints": {"slow": np.array([True, False])}, "heat": np.array([2.0, 3.0])}
                last = {"final_info": dict(self.report), "_final_info": self.always, "final_obs": np.zeros(2, int)}
                self.at_step = [{**self.report}, last]
                self.time = 0

            def reset(self, *, seed=None, options=None):
                return np.zeros(2, int), self.at_reset

            def step(self, actions):
                self.time += 1
                over = self.time % 2 == 0
                return np.ones(2, int), np.ones(2), self.always & over, ~self.always, self.at_step[over]

        bare = Same()
        written = copy.deepcopy((bare.at_reset, bare.at_step))
        costly = {"cost": Constraint(LinearCost("cost", limit=0.0), Quadratic(1.0))}
        env = vector.BooleanCosts(bare)
        env = constrain(env, Entropy() + Reward("heat"), costly, episodes_per_batch=2, horizon=2, discount=1.0)
        env.reset()
        infos = [env.step(np.zeros(2, int))[-1] for _ in range(4)]
        assert ["batch" in info for info in infos] == [False, True] * 2
        # One of two violates its constraint on every step.
        assert infos[3]["batch"]["constraints"]["cost"] == pytest.approx(0.5)
        assert [info["original_reward"].tolist() for info in infos] == [[1.0, 1.0]] * 4
        assert str((bare.at_reset, bare.at_step)) == str(written)

    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
    def test_they_go_through_gymnasiums_wrappers(self, play, mode):
        script = [([0, 1, 2], [1.0, 2.0], "terminated")]
        env = stack(play(script, script, mode=mode), penalty=Quadratic(1.0), episodes_per_batch=2)
        env = vector.PseudoReward(env)
        env = gym.wrappers.vector.RecordEpisodeStatistics(env)
        env.reset()
        env.step(np.zeros(2, int))
        *_, infos = env.step(np.zeros(2, int))
        assert type(infos["batch"]["objective"]) is float
        assert infos["episode"]["l"].tolist() == [2, 2]
        batch = infos["batch"]
        assert str(dict(batch)) == str(find_tracker(env).last_report.to_info())
        for clone in (copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
            assert str(clone) == str(batch)
            assert {shape for _, value in clone.items() for shape in shapes(value)} == {(2,)}
        env = gym.wrappers.vector.DictInfoToList(env)
        _, resets = env.reset()
        assert [info["pseudo_reward"] for info in resets] == [0.0, 0.0]
        env.step(np.zeros(2, int))
        *_, rows = env.step(np.zeros(2, int))
        report = find_tracker(env).last_report
        for row in rows:
            assert row["batch"]["objective"] == report.objective
            assert row["batch"]["constraints"] == report.constraints
            assert len(row["batch"]["pseudo_rewards"]) == 2
            assert row["pseudo_reward"] == row["pseudo_reward_objective"] + row["pseudo_reward_cost"]


class TestRewards:
    """Objectives of what the environment pays, in every autoreset mode."""

    @pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
    @pytest.mark.parametrize("kind", ["own", "key", "function"])
    def test_by_hand(self, play, scripted, mode, kind):
        """λ(0, 0) = 1 and λ(1, 0) = 0.5 at discount 0.5; rewards 1 and 2 in one copy, 3 and 6 in the other."""
        pays = [[{"reward": r, "coins": r} for r in pair] for pair in ((1.0, 2.0), (3.0, 6.0))]
        env = play(*([([0, 1, 2], own, "terminated")] for own in pays), mode=mode)
        # The last functional sees 0 -> 1, worth 2, and 1 -> 2, worth 4: what the copies earn on average.
        reward = {"own": Reward(), "key": Reward("coins"), "function": Reward(lambda s, a, s_next: 2.0 * s_next)}[kind]
        env = vector.TrackOccupancy(env, episodes_per_batch=2, discount=0.5, horizon=2, scale="truncated")
        env = vector.Objective(env, 0.1 * Entropy(smoothing=SIGMA) + reward)
        reports, log_ = scripted.drive(env, mode, zero, n_batches=2)
        recorded = {"own": "reward()", "key": "coins", "function": "objective()"}[kind]
        assert list(find_tracker(env).sources) == [recorded]
        earned = [[2.0, 4.0]] * 2 if kind == "function" else [[1.0, 2.0], [3.0, 6.0]]
        for report in reports:
            assert report["objective"] == pytest.approx(-0.1 * (log(1.1) + 0.5 * log(0.6)) + 2.0 + 0.5 * 4.0)
            for rewards, own in zip(report["pseudo_rewards"], earned, strict=True):
                assert rewards == pytest.approx([0.1 * slope_reward(1.0) + own[0], 0.1 * slope_reward(0.5) + own[1]])
        # Live in the second batch, by the estimate of the first.
        live = [step.infos["pseudo_reward"] for step in log_ if step.infos["_pseudo_reward"].all()][2:]
        assert (
            pytest.approx(
                np.array([[0.1 * slope_reward(1.0) + own[0], 0.1 * slope_reward(0.5) + own[1]] for own in earned])
            )
            == np.array(live).T
        )


def penalized(observation, action, next_observation):
    return float(next_observation == observation)


class TestCopies:
    def make(self, **settings):
        env = SafeFrozenLakeVector(3, map_name="4x4", slippery=True, horizon=9)
        return constrain(env, episodes_per_batch=6, **settings)

    def walk(self, env, n_steps=60):
        rng = np.random.default_rng(0)
        trace = []
        for actions in rng.integers(4, size=(n_steps, 3)):
            observations, rewards, *_, infos = env.step(actions)
            trace.append((observations.tolist(), rewards.tolist(), infos.get("batch", {}).get("objective")))
        return trace

    @pytest.mark.parametrize("clone", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy])
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_copies_go_on_where_the_original_stood(self, clone, pairing):
        env = vector.CostConstraint(self.make(pairing=pairing), penalized, limit=0.1, penalty=Lagrangian(0.5))
        env.reset(seed=0)
        self.walk(env, 31)
        twin = clone(env)
        trace = self.walk(env)
        assert self.walk(twin) == trace
        assert any(objective is not None for *_, objective in trace)
