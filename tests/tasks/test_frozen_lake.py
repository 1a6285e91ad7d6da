"""FrozenLake-PGP-v0: the paper's settings, the stack, and what Gymnasium and others want of an environment."""

import copy
import inspect
import json
import pickle
from dataclasses import fields
from math import log

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from constrained_maxent.agents import PGP
from constrained_maxent.envs import SafeFrozenLake, SafeFrozenLakeVector
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.penalties import Quadratic
from constrained_maxent.schedules import Geometric
from constrained_maxent.tasks import PRESETS, make_frozen_lake
from constrained_maxent.tasks.stacks import make_stack
from constrained_maxent.tracker import find_tracker

pytestmark = pytest.mark.filterwarnings("ignore::constrained_maxent.errors.UnplannedRun")

ID = "FrozenLake-PGP-v0"
LEFT, DOWN, RIGHT, UP = range(4)


def walk(env, n_steps, seed=0):
    """Rewards and objectives of a random walk."""
    rng = np.random.default_rng(seed)
    trace = []
    for action in rng.integers(4, size=n_steps).tolist():
        observation, reward, terminated, truncated, info = env.step(action)
        trace.append((observation, reward, info["pseudo_reward_ready"], info.get("batch", {}).get("objective")))
        if terminated or truncated:
            env.reset()
    return trace


class TestSettings:
    def test_the_papers(self):
        # B = 8, beta = 0.005, gamma = 0.99, H = 25, scale of the Monte-Carlo estimator, no budget.
        tracker = find_tracker(gym.make(ID, preset="paper"))
        weighting = tracker.weighting
        assert (weighting.discount, weighting.horizon, weighting.scale) == (0.99, 25, "truncated")
        (constraint,) = tracker.problem.constraints.values()
        assert constraint.penalty.to_config() == {"kind": "Quadratic", "beta": 0.005}
        assert constraint.functional.limit == 0.0
        assert tracker.problem.term_names == ("objective", "cost")
        assert tracker.pairing == "same"
        env = gym.make(ID, preset="paper")
        env.reset()
        lengths = []
        for step in range(200):
            *_, truncated, info = env.step(LEFT)
            if truncated:
                env.reset()
            lengths += [step + 1] if "batch" in info else []
        assert lengths == [200]

    def test_what_is_given_goes_before_the_preset(self):
        env = gym.make(
            ID,
            preset="paper",
            pairing="previous",
            beta=2.0,
            limit=0.5,
            episodes_per_batch=3,
            discount=0.9,
            scale="normalized",
            memory=0.25,
            horizon=7,
            map_name="4x4",
            hole_cost=3.0,
        )
        tracker = find_tracker(env)
        weighting = tracker.weighting
        assert (weighting.discount, weighting.horizon, weighting.scale) == (0.9, 7, "normalized")
        constraint = tracker.problem.constraints["cost"]
        assert (constraint.penalty.beta, constraint.functional.limit) == (2.0, 0.5)
        assert (tracker.pairing, tracker.estimator.memory) == ("previous", 0.25)
        assert tracker.estimator.table_shape() == (16, 4)
        assert env.unwrapped.cost_tables["cost"].max() == 3.0

    def test_zero_is_given_too(self):
        tracker = find_tracker(gym.make(ID, beta=0.0, limit=0.0, memory=0.0))
        assert tracker.problem.constraints["cost"].penalty.beta == 0.0

    def test_steps_replace_episodes(self):
        env = make_frozen_lake(steps_per_batch=10)
        env.reset()
        batches = [step for step in range(20) if "batch" in env.step(UP)[4]]
        assert batches == [9, 19]

    def test_every_setting_of_a_preset_is_an_argument(self):
        # But "agent", which the agent is given; "penalty" and the others go before the preset's.
        arguments = inspect.signature(make_stack).parameters.keys()
        for presets in PRESETS.values():
            for preset in presets.values():
                assert {field.name for field in fields(preset)} - {"agent"} <= arguments

    def test_schedules_of_the_default(self):
        tracker = find_tracker(gym.make(ID))
        penalty = tracker.problem.constraints["cost"].penalty
        assert penalty.updated(1.0, 0.5).beta == pytest.approx((0.005 * 40.0) ** 0.5)
        assert tracker.estimator.memory == Geometric(0.7, 0.97)
        agent = PGP(gym.make(ID), learning_rate=0.01).hyperparameters
        assert (agent.optimizer, agent.baseline) == ("natural", "batch-mean")
        assert (agent.learning_rate, agent.final_learning_rate, agent.damping) == (0.01, 0.0003, 0.001)

    def test_schedules_end_where_the_run_is_planned_to_end(self):
        """Two batches of four are half the run, for an agent that announces nothing itself."""
        env = make_frozen_lake(iterations=4, episodes_per_batch=1, horizon=2)
        env.reset(seed=0)
        walk(env, 4)
        tracker = find_tracker(env)
        assert (tracker.iteration, tracker.progress) == (2, 0.5)
        # β after the k-th of n batches is that of progress k/n.
        assert tracker.problem.constraints["cost"].penalty.beta == pytest.approx((0.005 * 40.0) ** 0.5)
        assert not find_tracker(make_frozen_lake()).is_planned

    def test_a_beta_is_constant(self):
        penalty = find_tracker(gym.make(ID, beta=0.5)).problem.constraints["cost"].penalty
        assert penalty.updated(1.0, 1.0) == Quadratic(0.5)

    def test_a_vector_holds_every_copy(self):
        for n, size in ((4, 16), (40, 40)):
            env = make_frozen_lake(num_envs=n, horizon=2)
            env.reset()
            reports = [
                infos["batch"] for infos in (env.step(np.zeros(n, int))[4] for _ in range(30)) if "batch" in infos
            ]
            assert reports[0]["episodes"] == size
        with pytest.raises(InvalidSetting, match="episodes_per_batch"):
            make_frozen_lake(num_envs=20, episodes_per_batch=8)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"preset": "papers"}, "preset"),
            ({"pairing": "next"}, "pairing"),
            ({"scale": "big"}, "scale"),
            ({"beta": -1.0}, "beta"),
            ({"discount": 0.0}, "discount"),
            ({"limit": float("nan")}, "limit"),
            ({"memory": 1.0}, "memory"),
            ({"episodes_per_batch": 0}, "episodes_per_batch"),
            ({"episodes_per_batch": 4, "steps_per_batch": 4}, "episodes_per_batch"),
            ({"buffer_size": 5}, "buffer_size"),
            ({"reference": "expert.npz"}, "reference="),
            ({"horizon": 0}, "horizon"),
            ({"map_name": "5x5"}, "map_name"),
        ],
    )
    @pytest.mark.parametrize("num_envs", [None, 2])
    def test_bad_ones(self, settings, message, num_envs):
        with pytest.raises(InvalidSetting, match=message):
            make_frozen_lake(num_envs=num_envs, **settings)


class TestByHand:
    """A corridor S H G: right, right is the shortest walk. Costs -1 at the start, 4 in the hole; gamma = 0.5."""

    SETTINGS = {"desc": ["SHG"], "hole_cost": 4.0, "base_cost": -1.0, "horizon": 3, "discount": 0.5, "beta": 0.25}

    def rewards(self):
        # lambda(0,right) = 1, lambda(1,right) = 1/2; <c, lambda> = -1 + 2 = 1; slope 2 * 0.25 * 1.
        sigma = 1e-6
        ice = -log(1 + sigma) - 1 / (1 + sigma) + 0.5
        hole = -log(0.5 + sigma) - 0.5 / (0.5 + sigma) - 2.0
        return ice, hole

    def test_scalar(self):
        env = gym.make(ID, episodes_per_batch=1, pairing="previous", **self.SETTINGS)
        env.reset(seed=0)
        env.step(RIGHT)
        observation, reward, terminated, truncated, info = env.step(RIGHT)
        assert (observation, reward, terminated, truncated) == (2, 0.0, True, False)
        assert info["original_reward"] == 1.0
        assert info["batch"]["constraints"] == pytest.approx({"cost": 1.0})
        assert info["batch"]["penalty"] == pytest.approx(0.25)
        env.reset()
        live = [env.step(RIGHT)[1] for _ in range(2)]
        assert live == pytest.approx(self.rewards())

    @pytest.mark.parametrize("mode", AutoresetMode)
    def test_vector(self, mode):
        env = gym.make_vec(ID, num_envs=2, episodes_per_batch=2, autoreset_mode=mode, **self.SETTINGS)
        env.reset(seed=0)
        env.step(np.array([RIGHT, RIGHT]))
        _, rewards, terminated, _, infos = env.step(np.array([RIGHT, RIGHT]))
        assert terminated.all()
        assert infos["original_reward"].tolist() == [1.0, 1.0]
        assert rewards.tolist() == [0.0, 0.0]
        assert infos["batch"]["constraints"] == pytest.approx({"cost": 1.0})
        for given in infos["batch"]["pseudo_rewards"]:
            assert given == pytest.approx(self.rewards())


class TestGymnasium:
    # The checker prefers bare environments and says so; what it checks is the whole stack here.
    @pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
    @pytest.mark.parametrize("settings", [{}, {"slippery": True}, {"pairing": "split"}, {"steps_per_batch": 50}])
    def test_check_env(self, settings):
        check_env(gym.make(ID, **settings), skip_render_check=bool(settings))

    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_check_env_of_stable_baselines3(self, pairing):
        checker = pytest.importorskip("stable_baselines3.common.env_checker")
        checker.check_env(gym.make(ID, pairing=pairing))

    def test_check_env_of_the_bare_lake(self):
        checker = pytest.importorskip("stable_baselines3.common.env_checker")
        check_env(gym.make("SafeFrozenLake-v0").unwrapped)
        checker.check_env(gym.make("SafeFrozenLake-v0"))

    def test_the_bare_environment_is_ours(self):
        assert isinstance(gym.make(ID).unwrapped, SafeFrozenLake)
        assert isinstance(gym.make_vec(ID, num_envs=3).unwrapped, SafeFrozenLakeVector)

    @pytest.mark.parametrize("mode", ["rgb_array", "ansi"])
    def test_render(self, mode, monkeypatch):
        monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
        env = gym.make(ID, render_mode=mode)
        env.reset()
        assert env.render_mode == mode
        assert len(env.render()) > 0
        env.close()

    @pytest.mark.parametrize("settings", [{}, {"pairing": "split", "beta": 0.5, "desc": ["SHF", "FFG"], "memory": 0.5}])
    def test_spec_round_trip(self, settings):
        settings = {"episodes_per_batch": 8, **settings}
        env = gym.make(ID, slippery=True, **settings)
        for again in (gym.make(env.spec), gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))):
            assert str(again) == str(env)
            assert again.spec == env.spec
            fresh = gym.make(ID, slippery=True, **settings)
            for made in (fresh, again):
                made.reset(seed=0)
            trace = walk(fresh, 400)
            assert walk(again, 400) == trace
            assert any(objective is not None for *_, objective in trace)

    def test_specs_are_json(self):
        described = json.loads(gym.make(ID, beta=0.5).spec.to_json())
        assert described["kwargs"] == {"beta": 0.5}
        names = [wrapper["name"] for wrapper in described["additional_wrappers"]]
        assert names[:4] == ["TrackOccupancy", "Objective", "ConvexConstraint", "PseudoReward"]

    def test_two_from_one_spec_share_nothing(self):
        spec = gym.make(ID, episodes_per_batch=8).spec
        one, two = gym.make(spec), gym.make(spec)
        one.reset(seed=0)
        walk(one, 300)
        assert find_tracker(one).iteration > 0
        assert find_tracker(two).iteration == 0
        assert not find_tracker(two).estimator.is_fitted

    def test_the_vector_spec(self):
        env = gym.make_vec(ID, num_envs=3, pairing="split")
        assert env.spec.id == ID
        again = gym.make_vec(env.spec)
        assert (again.num_envs, find_tracker(again).pairing) == (3, "split")

    @pytest.mark.parametrize("clone", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy])
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_copies_go_on_where_the_original_stood(self, clone, pairing):
        env = gym.make(ID, slippery=True, pairing=pairing, episodes_per_batch=8)
        env.reset(seed=0)
        walk(env, 333)
        twin = clone(env)
        trace = walk(env, 333, seed=1)
        assert walk(twin, 333, seed=1) == trace
        assert any(objective is not None for *_, objective in trace)

    def test_one_seed_one_run(self):
        traces = []
        for _ in range(2):
            env = gym.make(ID, slippery=True, pairing="previous", episodes_per_batch=8)
            env.reset(seed=7)
            traces.append(walk(env, 300))
        assert traces[0] == traces[1]
