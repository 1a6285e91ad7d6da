"""The scalar wrapper on scripted episodes, against estimates and pseudo-rewards worked out by hand."""

import copy
import math
import pickle
from math import log

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from constrained_maxent.errors import (
    InvalidData,
    InvalidSetting,
    MissingCost,
    NonFiniteValue,
    UnsupportedSpace,
)
from constrained_maxent.functionals import Autograd, Entropy, LinearCost, Reward
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import AugmentedLagrangian, Lagrangian, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import (
    BooleanCosts,
    ConvexConstraint,
    CostConstraint,
    EntropyObjective,
    PseudoReward,
    TrackOccupancy,
    constrain,
    find_tracker,
)

SIGMA = 0.1
NAN, INF = math.nan, math.inf

# Two episodes, gamma = 0.5, H = 3. Weights 1, 0.5, 0.25. The actions of A are 1, 0, those of B are 1, 1, 0.
ACTIONS = [1, 0, 1, 1, 0]
# lambda(0,1) = (1 + 1 + 0.5) / 2, lambda(1,0) = 0.5 / 2, lambda(0,0) = 0.25 / 2
LAMBDA = {(0, 1): 1.25, (1, 0): 0.25, (0, 0): 0.125}
# <c, lambda> = (2*1 + 4*0.5 + 1*1 + 0*0.5 + 8*0.25) / 2
EXPECTED_COST = 3.5


def slope_reward(mass, slope=0.0, cost=0.0):
    """d/dlambda of -lambda log(lambda + sigma), minus slope times cost."""
    return -log(mass + SIGMA) - mass / (mass + SIGMA) - slope * cost


@pytest.fixture
def two(scripted):
    """Episodes A (terminated after 2 steps) and B (truncated after 3), over and over."""
    return scripted.Playback(
        scripted.episode([0, 1, 2], [2.0, 4.0], "terminated"),
        scripted.episode([0, 0, 0, 3], [1.0, 0.0, 8.0], "truncated"),
    )


def stack(env, *, penalty=None, limit=1.5, sigma=SIGMA, cost="cost", **settings):
    settings = {"discount": 0.5, "horizon": 3, "scale": "truncated", "episodes_per_batch": 2} | settings
    if "steps_per_batch" in settings:
        settings["episodes_per_batch"] = None
    env = EntropyObjective(TrackOccupancy(env, **settings), smoothing=sigma)
    return env if penalty is None else CostConstraint(env, cost, limit=limit, penalty=penalty)


class TestSame:
    def test_the_whole_batch_by_hand(self, two, scripted):
        env = stack(two, penalty=Quadratic(0.25))
        infos = scripted.run(env, ACTIONS)
        assert ["batch" in info for info in infos] == [False] * 4 + [True]
        report = infos[-1]["batch"]
        # R = 3.5 - 1.5 = 2, penalty 0.25 * 4, slope 2 * 0.25 * 2
        objective = -(1.25 * log(1.35) + 0.25 * log(0.35) + 0.125 * log(0.225))
        assert report["objective"] == pytest.approx(objective)
        assert report["constraints"] == pytest.approx({"cost": 2.0})
        assert report["penalty"] == pytest.approx(1.0)
        assert report["multipliers"] == pytest.approx({"cost": 1.0})
        assert (report["iteration"], report["episodes"], report["steps"]) == (0, 2, 5)
        assert report["discount"] == 0.5
        assert report["ready"] == [True, True]
        assert report["whole_episodes"] is True
        assert [w.tolist() for w in report["weights"]] == [[1.0, 0.5], [1.0, 0.5, 0.25]]
        assert report["pseudo_rewards"][0] == pytest.approx([slope_reward(1.25, 1, 2), slope_reward(0.25, 1, 4)])
        assert report["pseudo_rewards"][1] == pytest.approx(
            [slope_reward(1.25, 1, 1), slope_reward(1.25, 1, 0), slope_reward(0.125, 1, 8)]
        )
        assert report["started_ago"] == [4, 2]
        assert report["sub_environments"] == [0, 0]

    def test_the_estimate_is_the_papers(self, two, scripted):
        env = stack(two)
        scripted.run(env, ACTIONS)
        table = np.zeros((4, 2))
        for cell, mass in LAMBDA.items():
            table[cell] = mass
        assert env.tracker.estimator.occupancy_ == pytest.approx(table)
        assert env.tracker.estimator.mass_ == pytest.approx(1.625)

    def test_normalized_is_the_same_times_a_constant(self, two, scripted):
        # 1 + 0.5 + 0.25 = 1.75: every mass and cost is divided by it.
        env = stack(two, penalty=Quadratic(0.25), scale="normalized", limit=0.5)
        report = scripted.run(env, ACTIONS)[-1]["batch"]
        masses = [mass / 1.75 for mass in (1.25, 0.25, 0.125)]
        assert report["objective"] == pytest.approx(-sum(m * log(m + SIGMA) for m in masses))
        assert report["constraints"]["cost"] == pytest.approx(2.0 - 0.5)
        assert np.concatenate(report["weights"]) == pytest.approx(np.array([1, 0.5, 1, 0.5, 0.25]) / 1.75)
        slope = 2 * 0.25 * 1.5
        assert report["pseudo_rewards"][0] == pytest.approx(
            [slope_reward(masses[0], slope, 2), slope_reward(masses[1], slope, 4)]
        )

    def test_live_values_are_zero_before_the_first_fit_and_the_last_estimates_after_it(self, two, scripted):
        env = stack(two, penalty=Quadratic(0.25))
        infos = scripted.run(env, [*ACTIONS, 1, 1])
        assert [info["pseudo_reward"] for info in infos[:5]] == [0.0] * 5
        assert [info["pseudo_reward_objective"] for info in infos[:5]] == [0.0] * 5
        assert not any(info["pseudo_reward_ready"] for info in infos)
        # A again, by the estimate above: (0,1) at cost 2, and (1,1), which was never seen, at cost 4.
        assert infos[5]["pseudo_reward"] == pytest.approx(slope_reward(1.25, 1, 2))
        assert infos[5]["pseudo_reward_objective"] == pytest.approx(slope_reward(1.25))
        assert infos[5]["pseudo_reward_cost"] == pytest.approx(-2.0)
        assert infos[6]["pseudo_reward"] == pytest.approx(-log(SIGMA) - 4.0)
        assert all(type(info["pseudo_reward"]) is np.float64 for info in infos)

    def test_iterations_count_batches(self, two, scripted):
        reports = [i["batch"] for i in scripted.run(stack(two), ACTIONS * 3) if "batch" in i]
        assert [report["iteration"] for report in reports] == [0, 1, 2]

    def test_without_terms_the_pseudo_reward_is_zero(self, two, scripted):
        env = TrackOccupancy(two, discount=0.5, horizon=3, episodes_per_batch=2)
        infos = scripted.run(env, [*ACTIONS, 1])
        assert infos[-1]["pseudo_reward"] == 0.0
        assert infos[4]["batch"]["objective"] is None
        assert infos[4]["batch"]["constraints"] == {}
        assert infos[4]["batch"]["penalty"] == 0.0

    def test_entropy_of_the_state_alone(self, two, scripted):
        env = EntropyObjective(
            TrackOccupancy(two, discount=0.5, horizon=3, scale="truncated", episodes_per_batch=2),
            over="state",
            smoothing=SIGMA,
        )
        report = scripted.run(env, ACTIONS)[-1]["batch"]
        # d(0) = 1.25 + 0.125, d(1) = 0.25
        assert report["objective"] == pytest.approx(-(1.375 * log(1.475) + 0.25 * log(0.35)))
        assert report["pseudo_rewards"][1] == pytest.approx([slope_reward(1.375)] * 3)


class TestPrevious:
    def test_live_and_ready_from_the_second_batch_on(self, two, scripted):
        env = stack(two, penalty=Quadratic(0.25), pairing="previous")
        infos = scripted.run(env, [*ACTIONS, 1, 1, 0, 1, 1, 1])
        first, second = infos[4]["batch"], infos[9]["batch"]
        assert first["ready"] == [False, False]
        assert np.concatenate(first["pseudo_rewards"]).tolist() == [0.0] * 5
        assert first["constraints"]["cost"] == pytest.approx(2.0)  # evaluated all the same
        assert not any(info["pseudo_reward_ready"] for info in infos[:5])
        assert all(info["pseudo_reward_ready"] for info in infos[5:])
        # The second batch (A by 1, 1; B by 0, 1, 1) is rewarded by the estimate of the first.
        rewards = [
            [slope_reward(1.25, 1, 2), slope_reward(0.0, 1, 4)],
            [slope_reward(0.125, 1, 1), slope_reward(1.25, 1, 0), slope_reward(1.25, 1, 8)],
        ]
        assert second["ready"] == [True, True]
        for given, by_hand in zip(second["pseudo_rewards"], rewards, strict=True):
            assert given == pytest.approx(by_hand)
        live = [info["pseudo_reward"] for info in infos[5:10]]
        assert live == pytest.approx(rewards[0] + rewards[1])
        # Then the estimate is the second batch's: lambda(0,1) = (1 + 0.5 + 0.25) / 2; R is the same.
        assert infos[10]["pseudo_reward"] == pytest.approx(slope_reward(0.875, 1, 2))


class TestSplit:
    def test_the_second_half_is_live_on_the_first(self, two, scripted):
        env = stack(two, penalty=Quadratic(0.25), pairing="split")
        infos = scripted.run(env, [*ACTIONS, 1])
        # Fitted on A: lambda(0,1) = 1, lambda(1,0) = 0.5; <c, lambda> = 2 + 2 = 4, R = 2.5, slope 1.25.
        rewards = [slope_reward(1.0, 1.25, 1), slope_reward(1.0, 1.25, 0), slope_reward(0.0, 1.25, 8)]
        assert [info["pseudo_reward"] for info in infos[2:5]] == pytest.approx(rewards)
        assert [info["pseudo_reward_ready"] for info in infos] == [False, False, True, True, True, False]
        report = infos[4]["batch"]
        assert report["ready"] == [False, True]
        assert report["pseudo_rewards"][1] == pytest.approx(rewards)
        assert report["pseudo_rewards"][0] == pytest.approx([slope_reward(1.0, 1.25, 2), slope_reward(0.5, 1.25, 4)])
        assert report["constraints"]["cost"] == pytest.approx(2.5)
        assert report["objective"] == pytest.approx(-(log(1.1) + 0.5 * log(0.6)))

    def test_of_three_episodes_one_is_the_first_half(self, two, scripted):
        env = stack(two, pairing="split", episodes_per_batch=3)
        report = scripted.run(env, [*ACTIONS, 1, 0])[-1]["batch"]
        assert report["ready"] == [False, True, True]

    def test_by_steps_the_first_half_ends_within_an_episode(self, scripted):
        env = scripted.Playback(scripted.episode([0, 1, 2, 3, 0], end="truncated"))
        env = stack(env, pairing="split", steps_per_batch=4, horizon=4)
        infos = scripted.run(env, [0, 0, 0, 1])
        assert [info["pseudo_reward_ready"] for info in infos] == [False, False, True, True]
        report = infos[-1]["batch"]
        # Two steps of a horizon of 4 are half an episode: lambda(0,0) = 1 / 0.5, lambda(1,0) = 0.5 / 0.5.
        unseen = slope_reward(0.0)
        assert report["ready"] == [False, True]
        assert report["pseudo_rewards"][0] == pytest.approx([slope_reward(2.0), slope_reward(1.0)])
        assert report["pseudo_rewards"][1] == pytest.approx([unseen, unseen])
        assert [w.tolist() for w in report["weights"]] == [[1.0, 0.5], [0.25, 0.125]]
        assert report["started_ago"] == [3, 1]

    def test_needs_two(self, two):
        for size in ({"episodes_per_batch": 1}, {"steps_per_batch": 1}):
            with pytest.raises(InvalidSetting, match="pairing="):
                stack(two, pairing="split", **size)


class TestEnds:
    def test_flags_reach_the_estimator(self, scripted, monkeypatch):
        seen = []
        fit = Counts.fit
        monkeypatch.setattr(Counts, "fit", lambda self, batch, **how: (seen.append(batch), fit(self, batch, **how))[1])
        env = stack(
            scripted.Playback(
                scripted.episode([0, 1], end="terminated"),
                scripted.episode([0, 1], end="truncated"),
                scripted.episode([2, 3, 2, 3], end=None),
            ),
            episodes_per_batch=3,
        )
        scripted.run(env, [0, 0, 1])
        _, info = env.reset()
        assert info["batch"]["episodes"] == 3
        assert seen[0].terminated.tolist() == [True, False, False]
        assert seen[0].truncated.tolist() == [False, True, True]

    def test_a_bare_reset_truncates_and_can_complete_the_batch(self, scripted):
        env = stack(scripted.Playback(scripted.episode([0, 1, 2, 3], end="truncated")))
        scripted.run(env, [1, 1])
        _, info = env.reset()
        assert "batch" not in info
        env.step(0)
        _, info = env.reset()
        # lambda(0,1) = 1/2, lambda(1,1) = 0.5/2, lambda(0,0) = 1/2
        report = info["batch"]
        assert report["objective"] == pytest.approx(-(log(0.6) + 0.25 * log(0.35)))
        assert [r.tolist() for r in report["weights"]] == [[1.0, 0.5], [1.0]]
        assert report["started_ago"] == [2, 0]
        # The new episode belongs to the next batch.
        assert scripted.run(env, [0, 0, 0], reset=False)[-1].keys().isdisjoint({"batch"})

    def test_a_reset_without_steps_is_no_episode(self, scripted):
        env = stack(scripted.Playback(scripted.episode([0, 1], end="terminated")))
        for _ in range(3):
            _, info = env.reset()
            assert "batch" not in info
        assert "batch" not in scripted.run(env, [0], reset=False)[0]
        env.reset()
        env.reset()
        report = scripted.run(env, [0], reset=False)[0]["batch"]
        assert (report["episodes"], report["steps"]) == (2, 2)

    def test_a_new_batch_forgets_the_old(self, two, scripted):
        env = stack(two, pairing="split")
        infos = scripted.run(env, [1, 0, 1])
        assert infos[-1]["pseudo_reward_ready"]
        _, info = env.reset(options={"new_batch": True, "other": 1})
        assert "batch" not in info
        assert two.options == {"other": 1}  # the environment sees its own options only
        infos = scripted.run(env, [1, 0, 1, 1, 0], reset=False)
        assert [info["pseudo_reward_ready"] for info in infos] == [False, False, True, True, True]
        assert infos[-1]["batch"]["steps"] == 5
        assert infos[-1]["batch"]["started_ago"] == [4, 2]

    def test_the_caller_keeps_its_options(self, two):
        options = {"new_batch": True}
        stack(two).reset(options=options)
        assert options == {"new_batch": True}
        assert two.options is None

    def test_seeds_go_through(self):
        env = TrackOccupancy(gym.make("FrozenLake-v1"), episodes_per_batch=1)
        env.reset(seed=5)
        assert env.unwrapped.np_random_seed == 5

    def test_step_before_reset(self, two):
        env = stack(two)
        with pytest.raises(ResetNeeded, match=r"reset\(\)"):
            env.step(0)

    def test_step_after_the_end(self, two, scripted):
        env = stack(two)
        scripted.run(env, [0, 0])
        with pytest.raises(ResetNeeded):
            env.step(0)


class TestSteps:
    """Batches of 4 steps. Episodes 0 1 2 3 0 1 (5 steps, H = 5, gamma = 0.5) run on from one into the next."""

    def env(self, scripted, end="truncated", **settings):
        path = [0, 1, 2, 3, 0, 1]
        return stack(scripted.Playback(scripted.episode(path, end=end)), steps_per_batch=4, horizon=5, **settings)

    def test_fragments_keep_their_time(self, scripted):
        infos = scripted.run(self.env(scripted), [0] * 12)
        assert [i for i, info in enumerate(infos) if "batch" in info] == [3, 7, 11]
        reports = [infos[i]["batch"] for i in (3, 7, 11)]
        assert [[w.tolist() for w in r["weights"]] for r in reports] == [
            [[1.0, 0.5, 0.25, 0.125]],
            [[0.0625], [1.0, 0.5, 0.25]],
            [[0.125, 0.0625], [1.0, 0.5]],
        ]
        assert [r["started_ago"] for r in reports] == [[3], [3, 2], [3, 1]]
        assert [r["whole_episodes"] for r in reports] == [False] * 3

    def test_full_episodes_are_counted_by_their_steps(self, scripted):
        env = self.env(scripted)
        scripted.run(env, [0] * 8)
        # Four of five steps are 0.8 episodes: time 4 at state 0, then times 0, 1, 2 at states 0, 1, 2.
        by_hand = np.array([1.0625, 0.5, 0.25, 0.0]) / 0.8
        assert env.tracker.estimator.occupancy_[:, 0] == pytest.approx(by_hand)

    def test_at_discount_1_the_normalized_mass_is_1(self, scripted):
        env = self.env(scripted, discount=1.0, scale="normalized")
        scripted.run(env, [0] * 8)
        assert env.tracker.estimator.mass_ == pytest.approx(1.0)

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.HorizonMismatch")
    def test_early_ends_are_counted_by_starts(self, scripted):
        # Episodes of 2 steps, H = 5: four steps hold two episodes, whose mass is 1 + 0.5 each.
        for end in ("terminated", "truncated"):
            playback = scripted.Playback(scripted.episode([0, 1, 2], end=end))
            env = stack(playback, steps_per_batch=4, horizon=5)
            scripted.run(env, [0] * 4)
            assert env.tracker.estimator.mass_ == pytest.approx(1.5)

    def test_early_resets_are_counted_by_starts(self, scripted):
        env = self.env(scripted)
        for _ in range(2):
            scripted.run(env, [0, 0])
        assert env.tracker.estimator.mass_ == pytest.approx(1.5)

    def test_infinite_horizon_counts_starts(self, scripted):
        env = stack(
            scripted.Playback(scripted.episode([0, 1, 2, 3, 0, 1], end="terminated")),
            steps_per_batch=3,
            horizon=None,
            scale="normalized",
        )
        scripted.run(env, [0] * 3)
        assert env.tracker.estimator.mass_ == pytest.approx(0.5 * 1.75)  # (1 - gamma)(1 + 0.5 + 0.25), one episode
        report = scripted.run(env, [0] * 3, reset=False)[-1]["batch"]
        # Times 3 and 4, and 0 of the second episode.
        assert report["started_ago"] == [2, 0]
        assert env.tracker.estimator.mass_ == pytest.approx(0.5 * (0.125 + 0.0625 + 1.0))

    def test_a_batch_within_one_episode(self, scripted):
        env = stack(
            scripted.Playback(scripted.episode([0, 1, 2, 3, 0, 1], end="truncated")), steps_per_batch=2, horizon=5
        )
        infos = scripted.run(env, [0] * 4)
        assert infos[1]["batch"]["weights"][0].tolist() == [1.0, 0.5]
        assert infos[3]["batch"]["weights"][0].tolist() == [0.25, 0.125]
        assert env.tracker.estimator.mass_ == pytest.approx(0.375 / 0.4)

    def test_a_reset_at_a_batchs_end_is_no_trajectory(self, scripted):
        env = self.env(scripted)
        scripted.run(env, [0] * 4)
        infos = scripted.run(env, [0] * 4)
        assert infos[-1]["batch"]["episodes"] == 1


class TestCosts:
    def test_a_function_sees_before_action_and_after(self, two, scripted):
        calls = []

        def cost(observation, action, next_observation):
            calls.append((observation, action, next_observation))
            return {2: 2.0, 4: 4.0}.get(2 * len(calls), 0.0)

        env = stack(two, penalty=Quadratic(0.25), cost=cost, limit=0.0)
        report = scripted.run(env, ACTIONS)[-1]["batch"]
        assert calls == [(0, 1, 1), (1, 0, 2), (0, 1, 0), (0, 1, 0), (0, 0, 3)]
        # Costs 2 and 4 in A, none in B: (2 + 4 * 0.5) / 2
        assert report["constraints"]["cost"] == pytest.approx(2.0)

    def test_a_table(self, two, scripted):
        table = np.zeros((4, 2))
        table[0, 1], table[1, 0] = 3.0, -1.0
        env = stack(two, penalty=Quadratic(0.5), cost=table, limit=1.0)
        report = scripted.run(env, ACTIONS)[-1]["batch"]
        # 3 * 1.25 - 0.25 - 1 = 2.5, slope 2.5
        assert report["constraints"]["cost"] == pytest.approx(2.5)
        assert report["pseudo_rewards"][0] == pytest.approx([slope_reward(1.25, 2.5, 3), slope_reward(0.25, 2.5, -1)])

    def test_several_constraints_add_up(self, two, scripted):
        env = stack(two, penalty=Quadratic(0.25))
        env = CostConstraint(env, "cost", limit=0.5, penalty=Lagrangian(0.1, multiplier=0.5), name="again")
        env = CostConstraint(env, lambda s, a, s_next: float(s == 0), limit=1.0, penalty=Quadratic(1.0), name="home")
        infos = scripted.run(env, [*ACTIONS, 1])
        report = infos[4]["batch"]
        # d(0) = 1.375: R(home) = 0.375, slope 0.75, value 0.375^2.
        assert report["constraints"] == pytest.approx({"cost": 2.0, "again": 3.0, "home": 0.375})
        assert report["multipliers"] == pytest.approx({"cost": 1.0, "again": 0.5, "home": 0.75})
        assert report["penalty"] == pytest.approx(1.0 + 0.5 * 3.0 + 0.375**2)
        assert report["pseudo_rewards"][0] == pytest.approx(
            [slope_reward(1.25) - 2 - 1 - 0.75, slope_reward(0.25) - 4 - 2]
        )
        live = infos[5]
        parts = [live[f"pseudo_reward_{name}"] for name in ("objective", "cost", "again", "home")]
        # The multiplier has followed its violation: 0.5 + 0.1 * 3.
        assert parts == pytest.approx([slope_reward(1.25), -2.0, -0.8 * 2, -0.75])
        assert live["pseudo_reward"] == pytest.approx(sum(parts))

    def test_any_key_of_info(self, scripted):
        # Names that the recorder of the vector twin uses itself.
        for key in ("time", "episode", "action", "speed"):
            playback = scripted.Playback(scripted.episode([0, 1, 2], [{key: 3.0}, {key: 5.0}]))
            env = stack(playback, penalty=Quadratic(1.0), cost=key, limit=0.0, episodes_per_batch=1)
            assert scripted.run(env, [0, 0])[-1]["batch"]["constraints"]["cost"] == pytest.approx(3.0 + 2.5)

    def test_numpy_scalars_and_booleans_are_numbers(self, scripted):
        costs = [np.float32(3.0), True]
        env = stack(scripted.Playback(scripted.episode([0, 1, 2], costs)), penalty=Quadratic(1.0), episodes_per_batch=1)
        assert scripted.run(env, [0, 0])[-1]["batch"]["constraints"]["cost"] == pytest.approx(3.0 + 0.5 - 1.5)

    def test_functions_see_what_was_there_though_the_environment_reuses_its_buffers(self, scripted):
        class Reuses(gym.Env):
            observation_space = gym.spaces.MultiDiscrete([4])
            action_space = gym.spaces.MultiBinary(1)

            def reset(self, *, seed=None, options=None):
                self.state = np.zeros(1, dtype=np.int64)
                return self.state, {}

            def step(self, action):
                self.state += 1
                action[:] = 0
                return self.state, 0.0, bool(self.state[0] == 2), False, {}

        seen = []

        def cost(observation, action, next_observation):
            seen.append((int(observation[0]), int(action[0]), int(next_observation[0])))
            return 0.0

        env = stack(Reuses(), penalty=Quadratic(1.0), cost=cost, episodes_per_batch=1)
        scripted.run(env, [np.array([1]), np.array([1])])
        assert seen == [(0, 1, 1), (1, 1, 2)]
        assert env.tracker.estimator.occupancy_[:, 1].tolist() == [1.0, 0.5, 0.0, 0.0]


class TestPenalties:
    def test_a_multiplier_follows_the_violations(self, two, scripted):
        # Every batch is the same: R = 2. Step 0.25, from 0.5, at most 1.2.
        env = stack(two, penalty=Lagrangian(0.25, multiplier=0.5, largest=1.2))
        reports = [i["batch"] for i in scripted.run(env, ACTIONS * 3) if "batch" in i]
        assert [r["multipliers"]["cost"] for r in reports] == pytest.approx([0.5, 1.0, 1.2])
        assert [r["penalty"] for r in reports] == pytest.approx([1.0, 2.0, 2.4])
        for report, multiplier in zip(reports, (0.5, 1.0, 1.2), strict=True):
            assert report["pseudo_rewards"][0][1] == pytest.approx(slope_reward(0.25, multiplier, 4))

    def test_it_falls_to_zero_where_the_constraint_holds(self, two, scripted):
        env = stack(two, penalty=Lagrangian(0.25, multiplier=0.3), limit=4.5)  # R = -1
        reports = [i["batch"] for i in scripted.run(env, ACTIONS * 3) if "batch" in i]
        assert [r["multipliers"]["cost"] for r in reports] == pytest.approx([0.3, 0.05, 0.0])

    def test_augmented_lagrangian(self, two, scripted):
        # Slope [mu + 2 beta R]+ with R = 2, beta = 0.25: mu + 1; mu rises by 2 beta R = 1 each time.
        env = stack(two, penalty=AugmentedLagrangian(0.25))
        reports = [i["batch"] for i in scripted.run(env, ACTIONS * 3) if "batch" in i]
        assert [r["multipliers"]["cost"] for r in reports] == pytest.approx([1.0, 2.0, 3.0])
        # ((mu + 1)^2 - mu^2) / (4 beta)
        assert [r["penalty"] for r in reports] == pytest.approx([1.0, 3.0, 5.0])

    @pytest.mark.parametrize("pairing", ["previous", "same"])
    def test_live_rewards_know_the_new_multiplier(self, two, scripted, pairing):
        env = stack(two, penalty=Lagrangian(0.25, multiplier=0.5), pairing=pairing)
        infos = scripted.run(env, [*ACTIONS, 1])
        assert infos[-1]["pseudo_reward_cost"] == pytest.approx(-1.0 * 2.0)  # 0.5 + 0.25 * 2, times the cost 2


class TestBadData:
    """Each bad value stands in the second of three episodes; the batch of two must then hold the first and third."""

    @pytest.mark.parametrize(
        ("bad", "error", "message"),
        [
            ({}, MissingCost, "'cost'"),
            ({"cost": NAN}, NonFiniteValue, "nan"),
            ({"cost": INF}, NonFiniteValue, "inf"),
            ({"cost": "much"}, InvalidData, "'cost'"),
            ({"cost": None}, InvalidData, "'cost'"),
            ({"cost": 1.0, "reward": NAN}, NonFiniteValue, "reward"),
            ({"cost": 1.0, "reward": -INF}, NonFiniteValue, "reward"),
        ],
    )
    @pytest.mark.parametrize("position", [0, 1, 2])
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_the_bad_episode_is_forgotten(self, scripted, bad, error, message, position, pairing):
        costs = [{"cost": 9.0}] * 3
        costs[position] = bad
        playback = scripted.Playback(
            scripted.episode([0, 1, 2], [2.0, 4.0], "terminated"),
            scripted.episode([3, 3, 3, 3], costs, "truncated"),
            scripted.episode([0, 0, 0, 3], [1.0, 0.0, 8.0], "truncated"),
        )
        env = stack(playback, penalty=Quadratic(0.25), pairing=pairing)
        scripted.run(env, [1, 0])
        with pytest.raises(error, match=message):
            scripted.run(env, [0, 0, 0])
        with pytest.raises(ResetNeeded):
            env.step(0)
        _, info = env.reset()
        assert "batch" not in info
        report = scripted.run(env, [1, 1, 0], reset=False)[-1]["batch"]
        assert report["steps"] == 5
        assert [len(w) for w in report["weights"]] == [2, 3]
        # How many calls of step ago each began; those that the bad episode took count, the one that failed does not.
        assert report["started_ago"] == [4 + position, 2]
        expected = {"same": 2.0, "split": 2.5, "previous": 2.0}[pairing]
        assert report["constraints"]["cost"] == pytest.approx(expected)
        assert env.tracker.estimator.occupancy_[3].tolist() == [0.0, 0.0]

    def test_what_the_environment_reported_is_named(self, scripted):
        env = stack(scripted.Playback(scripted.episode([0, 1], [{"speed": 1.0}])), penalty=Quadratic(1.0))
        with pytest.raises(MissingCost, match="speed"):
            scripted.run(env, [0])

    def test_a_cost_function_that_fails(self, two, scripted):
        healthy = []

        def cost(observation, action, next_observation):
            if not healthy:
                raise ZeroDivisionError
            return 1.0

        env = stack(two, penalty=Quadratic(0.25), cost=cost)
        with pytest.raises(ZeroDivisionError):
            scripted.run(env, [0])
        with pytest.raises(ResetNeeded):
            env.step(0)
        healthy.append(True)
        assert scripted.run(env, [0, 0, 0, 0, 0])[-1]["batch"]["steps"] == 5

    @pytest.mark.parametrize("value", [NAN, INF])
    def test_a_cost_function_that_is_not_finite(self, two, scripted, value):
        env = stack(two, penalty=Quadratic(0.25), cost=lambda s, a, s_next: value)
        with pytest.raises(NonFiniteValue):
            scripted.run(env, [0])

    @pytest.mark.parametrize("n_before", [0, 2])
    @pytest.mark.parametrize("action", [2, -1, 0.5])
    def test_an_action_outside_its_space(self, two, scripted, action, n_before):
        env = stack(two)
        for _ in range(n_before):
            scripted.run(env, ACTIONS)
        env.reset()
        with pytest.raises(InvalidData):
            env.step(action)
        assert two.number % 2 == 0
        env.reset()  # B
        infos = scripted.run(env, [1, 1, 0], reset=False)
        infos += scripted.run(env, [1, 0])
        # B and A instead of A and B: the same estimate.
        report = infos[-1]["batch"]
        assert report["objective"] == pytest.approx(-(1.25 * log(1.35) + 0.25 * log(0.35) + 0.125 * log(0.225)))

    @pytest.mark.parametrize("n_before", [0, 1])
    def test_an_observation_outside_its_space(self, scripted, n_before):
        env = stack(
            scripted.Playback(
                scripted.episode([0, 1, 2], end="terminated"),
                scripted.episode([0, 7, 0], end="terminated"),
                scripted.episode([0, 1, 2], end="terminated"),
            ),
            episodes_per_batch=2 if n_before == 0 else 1,
        )
        scripted.run(env, [0, 0])
        with pytest.raises(InvalidData):
            scripted.run(env, [0, 0])
        report = scripted.run(env, [0, 0])[-1]["batch"]
        assert env.tracker.estimator.occupancy_[:, 0].tolist() == [1.0, 0.5, 0.0, 0.0]
        assert report["ready"] == [True] * report["episodes"]

    def test_an_observation_that_is_nan(self, scripted):
        env = stack(scripted.Playback(scripted.episode([0, NAN, 2]), scripted.episode([NAN, 1, 1])))
        with pytest.raises(InvalidData):
            scripted.run(env, [0])
        with pytest.raises(ResetNeeded):
            env.step(0)
        with pytest.raises(InvalidData):
            env.reset()
        with pytest.raises(ResetNeeded):
            env.step(0)
        env.reset()

    def test_past_the_horizon(self, scripted):
        env = stack(scripted.Playback(scripted.episode([0, 1, 2, 3, 0], end="truncated")), horizon=3)
        with pytest.raises(InvalidSetting, match="horizon=3"):
            scripted.run(env, [0, 0, 0, 0])
        assert "batch" not in env.reset()[1]

    def test_a_functional_that_fails_costs_one_batch(self, two, scripted):
        healthy = []
        env = ConvexConstraint(
            stack(two),
            Autograd(lambda occupancy: occupancy.sum() * (1.0 if healthy else NAN)),
            penalty=Quadratic(1.0),
            name="sum",
        )
        with pytest.raises(NonFiniteValue):
            scripted.run(env, ACTIONS)
        with pytest.raises(ResetNeeded):
            env.step(0)
        healthy.append(True)
        report = scripted.run(env, ACTIONS)[-1]["batch"]
        assert (report["episodes"], report["iteration"]) == (2, 0)
        assert report["constraints"]["sum"] == pytest.approx(1.625)


class TestArguments:
    def test_one_size(self, two):
        with pytest.raises(InvalidSetting, match="episodes_per_batch="):
            TrackOccupancy(two, horizon=3)
        with pytest.raises(InvalidSetting, match="episodes_per_batch="):
            TrackOccupancy(two, horizon=3, episodes_per_batch=2, steps_per_batch=2)

    @pytest.mark.parametrize("size", [0, -1, 1.5, True, "8"])
    @pytest.mark.parametrize("name", ["episodes_per_batch", "steps_per_batch"])
    def test_sizes(self, two, name, size):
        with pytest.raises(InvalidSetting, match=name):
            TrackOccupancy(two, horizon=3, **{name: size})

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"pairing": "next"}, "pairing="),
            ({"scale": "paper"}, "scale="),
            ({"discount": 0.0}, "discount"),
            ({"discount": 1.1}, "discount"),
            ({"discount": NAN}, "discount"),
            ({"horizon": 0}, "horizon"),
            ({"horizon": None, "discount": 1.0}, "horizon"),
            ({"estimator": {"kind": "Cuonts"}}, "Counts"),
            ({"estimator": {"kind": "Counts", "memory": 1.0}}, "memory"),
            ({"estimator": {"kind": "Counts", "color": 1}}, "color"),
        ],
    )
    def test_values(self, two, settings, message):
        with pytest.raises(InvalidSetting, match=message):
            TrackOccupancy(two, **({"horizon": 3, "episodes_per_batch": 2} | settings))

    @pytest.mark.parametrize(
        "spaces", [{"observation_space": gym.spaces.Box(0, 1, (2,))}, {"action_space": gym.spaces.Text(3)}]
    )
    def test_a_space_that_cannot_be_counted(self, scripted, spaces):
        playback = scripted.Playback(scripted.episode([0, 1]), **spaces)
        with pytest.raises(UnsupportedSpace, match="Box"):
            TrackOccupancy(playback, horizon=3, episodes_per_batch=2)

    def test_the_horizon_is_found(self):
        env = TrackOccupancy(gym.make("FrozenLake-v1"), episodes_per_batch=1)
        assert env.tracker.weighting.horizon == 100  # the time limit of its registration
        env = TrackOccupancy(gym.make("SafeFrozenLake-v0", horizon=7), episodes_per_batch=1)
        assert env.tracker.weighting.horizon == 7

    def test_the_estimator_given_stays_unfitted(self, two, scripted):
        estimator = Counts(memory=0.5)
        env = stack(two, estimator=estimator)
        scripted.run(env, ACTIONS * 2)
        assert not estimator.is_fitted
        assert vars(estimator).keys() <= vars(Counts()).keys()
        assert env.tracker.estimator.memory == 0.5

    def test_memory(self, two, scripted):
        env = stack(two, estimator=Counts(memory=0.5))
        scripted.run(env, ACTIONS)
        scripted.run(env, [0, 0, 0, 0, 0])
        # The second batch: lambda(0,0) = 1.375, lambda(1,0) = 0.25; half of each.
        table = np.zeros((4, 2))
        table[0, 1], table[1, 0], table[0, 0] = 0.625, 0.25, 0.0625 + 0.6875
        assert env.tracker.estimator.occupancy_ == pytest.approx(table)


class TestSpaces:
    def run_in(self, scripted, space, path, actions=None, action_space=None):
        playback = scripted.Playback(
            scripted.episode(path, end="terminated"), observation_space=space, action_space=action_space
        )
        env = stack(playback, episodes_per_batch=1)
        infos = scripted.run(env, actions or [1] * (len(path) - 1))
        infos += scripted.run(env, (actions or [1] * (len(path) - 1))[:1])
        return env, infos

    def test_multi_discrete(self, scripted):
        path = [np.array([0, 1]), np.array([1, 2]), np.array([0, 0])]
        env, infos = self.run_in(scripted, gym.spaces.MultiDiscrete([2, 3]), path)
        # Element (i, j) is number 3 i + j.
        assert env.tracker.estimator.occupancy_[:, 1].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 0.5]
        assert infos[-1]["pseudo_reward"] == pytest.approx(slope_reward(1.0))

    def test_multi_binary(self, scripted):
        path = [np.array([0, 1], dtype=np.int8), np.array([1, 0], dtype=np.int8), np.array([0, 0], dtype=np.int8)]
        env, infos = self.run_in(scripted, gym.spaces.MultiBinary(2), path)
        assert env.tracker.estimator.occupancy_[:, 1].tolist() == [0.0, 1.0, 0.5, 0.0]
        assert infos[-1]["pseudo_reward"] == pytest.approx(slope_reward(1.0))

    def test_tuple(self, scripted):
        space = gym.spaces.Tuple((gym.spaces.Discrete(2, start=1), gym.spaces.MultiBinary(1)))
        path = [(1, np.array([1])), (2, np.array([0])), (1, np.array([0]))]
        env, infos = self.run_in(scripted, space, path)
        assert env.tracker.estimator.occupancy_[:, 1].tolist() == [0.0, 1.0, 0.5, 0.0]
        assert infos[-1]["pseudo_reward"] == pytest.approx(slope_reward(1.0))

    def test_actions_of_several_components(self, scripted):
        env, infos = self.run_in(
            scripted,
            gym.spaces.Discrete(3),
            [0, 1, 2],
            [np.array([1, 0]), np.array([0, 1])],
            gym.spaces.MultiDiscrete([2, 2]),
        )
        assert env.tracker.estimator.occupancy_.tolist() == [[0, 0, 1, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]]
        assert infos[-1]["pseudo_reward"] == pytest.approx(slope_reward(1.0))

    def test_a_space_too_large_for_a_table(self, scripted):
        env, infos = self.run_in(scripted, gym.spaces.Discrete(10**9), [5, 10**9 - 1, 0])
        assert infos[1]["batch"]["objective"] == pytest.approx(-(log(1.1) + 0.5 * log(0.6)))
        assert infos[1]["batch"]["pseudo_rewards"][0] == pytest.approx([slope_reward(1.0), slope_reward(0.5)])
        assert infos[2]["pseudo_reward"] == pytest.approx(slope_reward(1.0))
        env.reset()
        with pytest.raises(InvalidData):
            env.step(7)

    def test_blackjack(self):
        env = EntropyObjective(TrackOccupancy(gym.make("Blackjack-v1"), episodes_per_batch=3, horizon=50, discount=0.9))
        env.reset(seed=1)
        env.action_space.seed(1)
        visits, reports = {}, []
        observation, _ = env.reset()
        time = 0
        while not reports:
            action = env.action_space.sample()
            key = (*map(int, observation), int(action))
            visits[key] = visits.get(key, 0.0) + 0.9**time * 0.1 / (1 - 0.9**50) / 3
            observation, _, terminated, truncated, info = env.step(action)
            time += 1
            reports += [info["batch"]] if "batch" in info else []
            if terminated or truncated:
                observation, _ = env.reset()
                time = 0
        assert reports[0]["objective"] == pytest.approx(-sum(m * log(m + 1e-6) for m in visits.values()))


class TestContinuous:
    def env(self, scripted, *paths):
        playback = scripted.Playback(
            *(scripted.episode([np.array([x], dtype=np.float32) for x in path], end="terminated") for path in paths),
            observation_space=gym.spaces.Box(-9, 9, (1,)),
        )
        return stack(playback, penalty=Quadratic(0.5), limit=0.0, estimator=scripted.Nearest(), episodes_per_batch=1)

    def test_an_estimator_of_the_users_own(self, scripted):
        env = self.env(scripted, [0.0, 0.25, 2.0, 3.0])
        infos = scripted.run(env, [0, 0, 0])
        # Weights 1, 0.5, 0.25; the first two places are near each other: densities 1.5, 1.5, 0.25.
        report = infos[-1]["batch"]
        assert report["objective"] == pytest.approx(-(1.5 * log(1.6) + 0.25 * log(0.35)))
        assert report["pseudo_rewards"][0] == pytest.approx([slope_reward(1.5), slope_reward(1.5), slope_reward(0.25)])
        live = scripted.run(env, [0])[0]
        assert live["pseudo_reward"] == pytest.approx(slope_reward(1.5))
        assert type(live["pseudo_reward"]) is np.float64

    @pytest.mark.parametrize("value", [NAN, INF])
    @pytest.mark.parametrize("position", [1, 2])
    def test_observations_that_are_not_finite(self, scripted, value, position):
        bad = [5.0, 5.0, 5.0]
        bad[position] = value
        env = self.env(scripted, bad, [0.0, 2.0, 4.0])
        with pytest.raises(NonFiniteValue):
            scripted.run(env, [0, 0])
        with pytest.raises(ResetNeeded):
            env.step(0)
        scripted.run(env, [0, 0])
        assert env.tracker.estimator.places.tolist() == [0.0, 2.0]

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.EndsRewarded")
    def test_a_reset_into_nowhere(self, scripted):
        env = self.env(scripted, [0.0, 1.0], [NAN, 1.0])
        scripted.run(env, [0])
        with pytest.raises(NonFiniteValue):
            env.reset()
        with pytest.raises(ResetNeeded):
            env.step(0)


def hazard(observation, action, next_observation):
    """Walking down (1) is dangerous on the left half of a 4x4 lake."""
    return float(action == 1 and observation % 4 < 2)


def lake(**settings):
    env = gym.make("FrozenLake-v1")
    env = TrackOccupancy(env, Counts(memory=0.5), **({"episodes_per_batch": 4} | settings))
    env = EntropyObjective(env)
    env = CostConstraint(env, hazard, limit=0.01, penalty=Lagrangian(0.5))
    return PseudoReward(env)


def planned_lake(**settings):
    env = gym.make("FrozenLake-PGP-v0", slippery=True, episodes_per_batch=8, **settings)
    find_tracker(env).announce(iterations=100)
    return env


class TestCopies:
    def walk(self, env, n_steps=300, seed=3):
        rng = np.random.default_rng(seed)
        trace = []
        for action in rng.integers(4, size=n_steps).tolist():
            observation, reward, terminated, truncated, info = env.step(action)
            trace.append((observation, reward, info["pseudo_reward_ready"], info.get("batch", {}).get("objective")))
            if terminated or truncated:
                env.reset()
        return trace

    @pytest.mark.parametrize("clone", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy])
    @pytest.mark.parametrize("settings", [{}, {"pairing": "split"}, {"pairing": "previous"}])
    @pytest.mark.parametrize("make", [lake, planned_lake])
    def test_copies_go_on_where_the_original_stood(self, make, settings, clone):
        env = make(**settings)
        env.reset(seed=0)
        self.walk(env, 151)
        twin = clone(env)
        assert self.walk(twin) == self.walk(env)
        assert any(objective is not None for *_, objective in self.walk(env))

    def test_a_copy_shares_nothing(self):
        env = lake()
        env.reset(seed=0)
        twin = copy.deepcopy(env)
        self.walk(twin)
        assert env.get_wrapper_attr("tracker").iteration == 0

    @pytest.mark.parametrize("settings", [{}, {"pairing": "split", "scale": "truncated", "discount": 0.9}])
    def test_spec_round_trip(self, settings):
        env = lake(**settings)
        again = gym.make(env.spec)
        assert again.spec == env.spec
        assert str(again) == str(env)
        for made in (env, again):
            made.reset(seed=0)
        assert self.walk(again) == self.walk(env)

    def test_two_from_one_spec_share_nothing(self):
        spec = lake().spec
        one, two = gym.make(spec), gym.make(spec)
        one.reset(seed=0)
        self.walk(one)
        assert two.get_wrapper_attr("tracker").iteration == 0
        assert not two.get_wrapper_attr("tracker").estimator.is_fitted


class TestInfo:
    """What is put into ``info``, and that the environment's own is left as it was."""

    def test_a_reset_has_pseudo_rewards_of_zero(self, two, scripted):
        env = stack(two, penalty=Quadratic(0.25), pairing="previous")
        for _ in range(2):  # before the first fit and after it
            _, info = env.reset()
            assert info == {
                "pseudo_reward": 0.0,
                "pseudo_reward_objective": 0.0,
                "pseudo_reward_cost": 0.0,
                "pseudo_reward_ready": False,
            }
            scripted.run(env, ACTIONS)

    def test_the_environments_own_is_never_written_to(self):
        class Same(gym.Env):
            observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
            at_reset, at_step = {"map": "small"}, {"constraints": {"slow": False}, "heat": 2.0}

            def reset(self, *, seed=None, options=None):
                self.time = 0
                return 0, self.at_reset

            def step(self, action):
                self.time += 1
                return 1, 3.0, self.time == 2, False, self.at_step

        bare = Same()
        costly = {"cost": Constraint(LinearCost("cost", limit=0.0), Quadratic(1.0))}
        env = constrain(BooleanCosts(bare), 0.1 * Entropy() + Reward("heat"), costly, episodes_per_batch=1, horizon=2)
        for _ in range(2):
            _, reset_info = env.reset()
            infos = [env.step(0)[-1] for _ in range(2)]
        assert bare.at_reset == {"map": "small"}
        assert bare.at_step == {"constraints": {"slow": False}, "heat": 2.0}
        assert (reset_info["map"], reset_info["pseudo_reward"]) == ("small", 0.0)
        assert [("batch" in info, info["cost"], info["original_reward"]) for info in infos] == [
            (False, 1.0, 3.0),
            (True, 1.0, 3.0),
        ]


def test_the_step_is_watched_once_in_a_stack(two, scripted):
    """Layers above only declare: ``info`` comes from the tracker below, whatever their number."""
    env = PseudoReward(stack(two, penalty=Quadratic(0.25)))
    env.reset()
    _, reward, *_, info = env.step(1)
    assert (reward, info["original_reward"]) == (0.0, 0.0)
    assert constrain(two, episodes_per_batch=2, horizon=3).tracker.problem.term_names == ("objective",)
