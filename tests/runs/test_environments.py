"""The environment of a run: every registered id, wrapped where it is bare, or a sentence that says why not."""

import json
import sys
from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent import runs
from constrained_maxent.agents import PGP, PGPSettings
from constrained_maxent.errors import DuplicateName, InvalidData, InvalidSetting, RedundantObservation, UnsupportedSpace
from constrained_maxent.functionals import Entropy, Functional, LinearCost
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.penalties import AdaptiveLagrangian, AugmentedLagrangian
from constrained_maxent.runs.environments import find_functional, make_environment
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers import constrain

TAXI = "Taxi-v3" if "Taxi-v3" in gym.registry else "Taxi-v4"  # Gymnasium 1.3 replaced version 3


def tracker_of(env_id, **settings):
    return find_tracker(make_environment(env_id, TrainSettings(**settings)))


def left_or_right(observation):
    return int(observation[0] > 0.0)


def test_ends_as_a_cost():
    """A pole that is pushed to one side falls after 8 to 11 steps: so often a step costs 1."""
    env = make_environment("CartPole-v1", TrainSettings(num_envs=2, cost="terminated", limit=0.0, steps_per_batch=100))
    env.reset(seed=0)
    ends = 0.0
    while find_tracker(env).last_report is None:
        *_, terminated, _, _ = env.step(np.zeros(2, dtype=np.int64))
        ends += terminated.sum()
    costs = find_tracker(env).last_batch.costs["terminated"]
    assert costs.sum() == ends > 8


class TestOurs:
    def test_settings_reach_the_stack(self):
        given = {"beta": 0.5, "limit": 3.0, "discount": 0.9, "scale": "normalized", "memory": 0.5, "pairing": "split"}
        env = make_environment("FrozenLake-PGP-v0", TrainSettings(num_envs=2, env_kwargs='{"horizon": 9}', **given))
        tracker = find_tracker(env)
        (constraint,) = tracker.problem.constraints.values()
        assert env.num_envs == 2
        assert (constraint.penalty.beta, constraint.functional.limit) == (0.5, 3.0)
        weighting = tracker.weighting
        assert (weighting.discount, weighting.scale, weighting.horizon) == (0.9, "normalized", 9)
        assert (tracker.pairing, tracker.estimator.memory) == ("split", 0.5)

    @pytest.mark.parametrize("env_id", ["FrozenLake-PGP-v0", "SafeFrozenLake-v0"])
    def test_any_penalty(self, env_id):
        penalty = '{"kind": "AugmentedLagrangian", "beta": 0.25, "multiplier": 0.5}'
        (constraint,) = tracker_of(env_id, penalty=penalty).problem.constraints.values()
        assert constraint.penalty == AugmentedLagrangian(0.25, multiplier=0.5)

    def test_without_settings_it_is_the_registered_one(self):
        assert tracker_of("FrozenLake-PGP-v0").weighting == find_tracker(gym.make("FrozenLake-PGP-v0")).weighting

    def test_cost_is_its_own(self):
        with pytest.raises(InvalidSetting, match="leave out --cost"):
            tracker_of("FrozenLake-PGP-v0", cost="c")

    def test_one_setting_twice(self):
        with pytest.raises(InvalidSetting, match="must not set beta: "):
            tracker_of("FrozenLake-PGP-v0", beta=1.0, env_kwargs='{"beta": 2.0}')
        with pytest.raises(InvalidSetting, match="must not set num_envs: "):
            tracker_of("FrozenLake-v1", env_kwargs='{"num_envs": 2}')

    def test_bare_with_the_cost_that_it_reports(self):
        tracker = tracker_of("SafeFrozenLake-v0", limit=2.0, beta=3.0, memory=0.5)
        (constraint,) = tracker.problem.constraints.values()
        assert constraint.functional.cost == "cost"
        assert (constraint.functional.limit, constraint.penalty.beta, tracker.estimator.memory) == (2.0, 3.0, 0.5)


class TestOthers:
    @pytest.mark.parametrize(
        ("env_id", "kwargs", "horizon"),
        [
            ("FrozenLake-v1", "{}", 100),
            (TAXI, "{}", 200),
            ("CliffWalking-v1", '{"max_episode_steps": 60}', 60),
        ],
    )
    def test_entropy_only(self, env_id, kwargs, horizon):
        tracker = tracker_of(env_id, env_kwargs=kwargs)
        assert tracker.problem.term_names == ("objective",)
        assert tracker.weighting.horizon == horizon

    def test_the_key_of_a_cost(self):
        (constraint,) = tracker_of("FrozenLake-v1", cost="prob").problem.constraints.values()
        assert (constraint.functional.cost, constraint.functional.limit) == ("prob", 0.0)
        assert isinstance(constraint.penalty, AdaptiveLagrangian)

    def test_an_id_that_a_module_registers(self, tmp_path, monkeypatch):
        code = "import gymnasium as gym\ngym.register('Mine-v0', entry_point='gymnasium.envs.toy_text:TaxiEnv')\n"
        (tmp_path / "my_environments.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        assert tracker_of("my_environments:Mine-v0").problem.term_names == ("objective",)
        del gym.registry["Mine-v0"]

    @pytest.mark.parametrize("settings", [{"cost": "danger"}, {"beta": 1.0}, {"limit": 1.0}])
    def test_a_cost_that_is_not_reported(self, settings):
        key = settings.get("cost", "cost")
        with pytest.raises(InvalidSetting, match=rf"reports no info\['{key}'\] \(it reports: prob\).*--cost"):
            tracker_of("FrozenLake-v1", **settings)

    def test_preset_is_for_ours(self):
        with pytest.raises(InvalidSetting, match="preset belongs to -PGP- environments"):
            tracker_of("FrozenLake-v1", preset="paper")

    def test_batches_hold_an_episode_of_each_sub_environment(self):
        for settings in ({"num_envs": 2}, {"num_envs": 20}, {"steps_per_batch": 300}):
            make_environment("FrozenLake-v1", TrainSettings(**settings)).reset(seed=0)
        with pytest.raises(InvalidSetting, match="episodes_per_batch=4 is less than the 8 sub-environments"):
            tracker_of("FrozenLake-v1", episodes_per_batch=4)

    def test_spaces_that_cannot_be_counted(self):
        class Letters(gym.Env):
            observation_space = gym.spaces.Text(3)
            action_space = gym.spaces.Discrete(2)

        gym.register("Letters-v0", entry_point=Letters, max_episode_steps=5)
        with pytest.raises(UnsupportedSpace, match="Text cannot be counted"):
            tracker_of("Letters-v0")
        del gym.registry["Letters-v0"]

    def test_a_table_is_suggested_a_rate_that_moves_it(self):
        assert tracker_of("FrozenLake-v1").suggestions["optimizer"] == "adam"
        # Observations in a Box: their policy is a network, though states are cells.
        path = f"{__name__}:left_or_right"
        assert tracker_of("CartPole-v1", state=(path,), cells=(2,)).suggestions == {}

    def test_cells_have_no_angles(self):
        with pytest.raises(InvalidSetting, match="cells have no angles"):
            tracker_of("FrozenLake-v1", periodic=(0,))


class TestContinuous:
    """Observations in a Box: a density of the state."""

    def test_a_plain_observation_is_the_state(self):
        env = make_environment("MountainCarContinuous-v0", TrainSettings(num_envs=2))
        tracker = find_tracker(env)
        assert isinstance(tracker.estimator, GaussianMixture)
        assert tracker.problem.term_names == ("objective",)
        # 1 means that all 999 steps count alike.
        assert (tracker.weighting.discount, tracker.weighting.horizon) == (1.0, 999)
        assert PGP(env).hyperparameters.return_discount == 0.99
        assert PGP(env, return_discount=0.9).hyperparameters.return_discount == 0.9

    def test_cosine_and_sine_become_their_angle(self):
        settings = TrainSettings(num_envs=2, steps_per_batch=16)
        with pytest.warns(RedundantObservation, match="Coordinates 0, 1 .* --state 0:1 2"):
            env = make_environment("Pendulum-v1", settings)
        batch = step_until_a_batch(env)
        cosine, sine, velocity = batch.observations.T
        np.testing.assert_allclose(batch.states, np.stack([np.arctan2(sine, cosine), velocity], axis=1))
        assert list(find_tracker(env).estimator.periodic) == [0]

    @pytest.mark.fault
    def test_are_found_out_once_for_a_run(self, tmp_path):
        folder = RunFolder(tmp_path)
        settings = TrainSettings(num_envs=2, steps_per_batch=400, iterations=1, agent=PGPSettings(hidden_sizes=(4,)))
        with pytest.warns(RedundantObservation):
            runs.train("Pendulum-v1", settings, folder)
        # Any further warning would be an error.
        assert runs.load_config(folder)[1].state == ("0:1", "2")
        runs.evaluate(folder, n_episodes=2)

    @pytest.mark.fault
    def test_are_not_warned_of_where_no_density_is_asked_for(self):
        settings = TrainSettings(num_envs=2, steps_per_batch=16, objective="constrained_maxent.functionals:Reward")
        assert list(find_tracker(make_environment("Pendulum-v1", settings)).estimator.periodic) == [0]

    def test_coordinates_that_are_given(self):
        # Given, so that nothing has to be found out or warned of.
        tracker = tracker_of("Pendulum-v1", state=("0:1", "2"), periodic=(1,))
        assert list(tracker.estimator.periodic) == [0, 1]
        env = make_environment("MountainCarContinuous-v0", TrainSettings(num_envs=2, state=("1",), steps_per_batch=16))
        batch = step_until_a_batch(env)
        np.testing.assert_array_equal(batch.states[:, 0], batch.observations[:, 1])

    @pytest.mark.parametrize(
        ("state", "reason"),
        [(("3",), "only 3 coordinates"), (("0:3",), "only 3 coordinates"), (("a", "0"), "'a' must be the number of a")],
    )
    def test_coordinates_that_are_not_there(self, state, reason):
        with pytest.raises(InvalidSetting, match=reason):
            tracker_of("Pendulum-v1", state=state)

    def test_the_state_and_cost_that_it_reports(self):
        env = make_environment("SafeCartpole-v0", TrainSettings(num_envs=2, steps_per_batch=16, beta=3.0))
        tracker = find_tracker(env)
        (constraint,) = tracker.problem.constraints.values()
        assert (constraint.functional.cost, constraint.penalty.beta) == ("cost", 3.0)
        # x, its velocity, the angle and its velocity; EXPERIMENTS of the paper wrap the angle.
        assert list(tracker.estimator.periodic) == [2]
        assert step_until_a_batch(env).states.shape == (16, 4)

    def test_settings_go_before_the_usual_ones(self):
        tracker = tracker_of("Pendulum-v1", state=("2",), discount=0.9, memory=0.5, episodes_per_batch=9)
        assert (tracker.weighting.discount, tracker.estimator.memory) == (0.9, 0.5)

    def test_without_a_time_limit_later_states_count_less(self):
        class Endless(gym.Env):
            observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
            action_space = gym.spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return np.zeros(1, np.float32), {}

            def step(self, action):
                return self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32), 0.0, False, False, {}

        gym.register("Endless-v0", entry_point=Endless)
        assert tracker_of("Endless-v0").weighting.discount == 0.99
        del gym.registry["Endless-v0"]

    def test_pictures_have_too_many_coordinates(self):
        class Picture(gym.Env):
            observation_space = gym.spaces.Box(0, 255, (9, 9), dtype=np.uint8)
            action_space = gym.spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return np.zeros((9, 9), np.uint8), {}

            def step(self, action):
                return np.zeros((9, 9), np.uint8), 0.0, False, False, {}

        gym.register("Picture-v0", entry_point=Picture, max_episode_steps=5)
        with pytest.raises(InvalidSetting, match=r"81 coordinates, too many .* --state"):
            tracker_of("Picture-v0")
        del gym.registry["Picture-v0"]

    def test_settings_survive_json(self):
        settings = TrainSettings(state=("0:1", "2"), periodic=(1,))
        assert TrainSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings

    @pytest.mark.parametrize("settings", [{"state": ("0",)}, {"periodic": (0,)}])
    def test_ours_bring_their_own(self, settings):
        with pytest.raises(InvalidSetting, match=f"leave out --{next(iter(settings))}"):
            tracker_of("SafeCartpole-PGP-v0", **settings)


def step_until_a_batch(env):
    """The first batch, by random actions; whoever says log π has observations recorded beside the states."""
    env.reset(seed=0)
    with find_tracker(env).acting(log_prob=lambda rows, actions: np.zeros(len(rows))):
        while "batch" not in env.step(env.action_space.sample())[4]:
            pass
    return find_tracker(env).last_batch


class TestWrapped:
    """An id whose environment brings its wrappers is taken as it is."""

    @pytest.fixture(autouse=True)
    def _registered(self):
        def make(num_envs):
            env = gym.make_vec("SafeFrozenLake-v0", num_envs=num_envs)
            return constrain(env, episodes_per_batch=24, discount=0.7)

        gym.register("Wrapped-v0", vector_entry_point=make)
        yield
        del gym.registry["Wrapped-v0"]

    def test_as_it_is(self):
        assert tracker_of("Wrapped-v0").weighting.discount == 0.7

    @pytest.mark.parametrize("settings", [{"beta": 1.0}, {"discount": 0.9}, {"cost": "cost"}, {"preset": "paper"}])
    def test_settings_would_be_ignored(self, settings):
        with pytest.raises(InvalidSetting, match=f"brings its own wrappers: leave out {next(iter(settings))}"):
            tracker_of("Wrapped-v0", **settings)


class TestMistakes:
    @pytest.mark.parametrize(
        ("env_id", "hint"),
        [
            ("FrozenLake-PGP", "Did you mean FrozenLake-PGP-v0"),
            ("FrozenLake-PGP-v1", "Did you mean FrozenLake-PGP-v0"),
            ("frozenlake-v1", "Did you mean FrozenLake-v1"),
            ("Qqqqq-v0", r"gymnasium\.pprint_registry\(\) lists all"),
            ("no such id!", "There is no environment"),
        ],
    )
    def test_unknown_id(self, env_id, hint):
        with pytest.raises(InvalidSetting, match=hint):
            tracker_of(env_id)

    @pytest.mark.parametrize("module", ["nothing_here", ".relative", "a b"])
    def test_a_module_that_is_not_there(self, module):
        with pytest.raises(InvalidSetting, match=f"'{module}', which should register Lake-v0, cannot be imported"):
            tracker_of(f"{module}:Lake-v0")

    def test_a_module_that_registers_something_else(self):
        with pytest.raises(InvalidSetting, match="Did you mean FrozenLake-PGP-v0"):
            tracker_of("constrained_maxent:FrozenLake-PGP-v1")

    @pytest.mark.parametrize(
        ("env_id", "kwargs", "reason"),
        [
            ("FrozenLake-v1", '{"map_nme": "8x8"}', "TypeError: .*map_nme"),
            ("FrozenLake-v1", '{"map_name": "9x9"}', "KeyError: '9x9'"),
            ("FrozenLake-v1", '{"max_episode_steps": "ten"}', "Error: "),
            ("FrozenLake-PGP-v0", '{"horizn": 5}', "TypeError: .*horizn"),
            ("SafeFrozenLake-v0", '{"max_episode_steps": 5}', "TypeError: .*max_episode_steps"),
        ],
    )
    def test_arguments_that_it_does_not_take(self, env_id, kwargs, reason):
        with pytest.raises(InvalidSetting, match=f"{env_id} cannot be made with env-kwargs=.*{reason}"):
            tracker_of(env_id, env_kwargs=kwargs)

    def test_a_reward_for_each_of_several_agents(self):
        class Several(gym.Env):
            observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                return np.zeros(2, np.float32), {}

            def step(self, action):
                return np.zeros(2, np.float32), (0.0, 1.0), False, False, {}

        gym.register("Several-v0", entry_point=Several, max_episode_steps=5, disable_env_checker=True)
        with pytest.raises(InvalidData, match="A reply of the environment is not what"):
            tracker_of("Several-v0")
        del gym.registry["Several-v0"]

    def test_discount_1_needs_a_last_step(self):
        with pytest.raises(InvalidSetting, match="--discount 1 needs"):
            tracker_of("SafeCartpole-v0", env_kwargs='{"time_limit": null}', discount=1)
        assert tracker_of("SafeCartpole-v0", env_kwargs='{"time_limit": null}', discount=0.9).weighting.horizon is None

    def test_named_errors_keep_their_words(self):
        with pytest.raises(InvalidSetting, match=r"^horizon=0 must be"):
            tracker_of("FrozenLake-PGP-v0", env_kwargs='{"horizon": 0}')


class TestFunctionalsOfOnesOwn:
    @pytest.fixture(autouse=True)
    def module(self, monkeypatch):
        """A module of the user's with functionals in it."""
        module = ModuleType("mine")
        module.narrow = Entropy(over="state", smoothing=1e-3)
        module.prob = lambda: LinearCost("prob", limit=0.25)
        module.cost = LinearCost("cost", limit=1.0)
        module.Wide = Entropy
        module.with_arguments = lambda smoothing: Entropy(smoothing=smoothing)
        module.number = 3
        module.numbers = lambda: 3
        monkeypatch.setitem(sys.modules, "mine", module)
        return module

    def test_instances_classes_and_functions(self, module):
        assert find_functional("objective", "mine:narrow") is module.narrow
        assert isinstance(find_functional("objective", "mine:Wide"), Entropy)
        assert find_functional("constraint", "mine:prob").limit == 0.25
        assert isinstance(find_functional("objective", "constrained_maxent:functionals.Entropy"), Functional)

    @pytest.mark.parametrize("option", ["objective", "constraint"])
    @pytest.mark.parametrize(
        "path",
        [
            *("mine", "mine:", ":narrow", ""),
            *("nowhere_at_all:narrow", ".mine:narrow", "a b:c"),
            *("mine:broad", "mine:narrow.inner"),
            *("mine:number", "mine:numbers", "mine:with_arguments"),
        ],
    )
    def test_what_is_none(self, option, path):
        with pytest.raises(InvalidSetting, match=f"^{option}="):
            find_functional(option, path)

    def test_they_are_the_problem(self):
        tracker = tracker_of("FrozenLake-v1", objective="mine:narrow", constraint="mine:prob", beta=3.0)
        assert (tracker.problem.objective.over, tracker.problem.objective.smoothing) == ("state", 1e-3)
        (constraint,) = tracker.problem.constraints.values()
        assert (constraint.functional.cost, constraint.functional.limit, constraint.penalty.beta) == ("prob", 0.25, 3.0)
        assert list(tracker.problem.constraints) == ["prob"]

    def test_beside_the_cost_that_it_reports(self):
        tracker = tracker_of("SafeFrozenLake-v0", constraint="mine:prob", limit=2.0)
        limits = {name: constraint.functional.limit for name, constraint in tracker.problem.constraints.items()}
        assert limits == {"cost": 2.0, "prob": 0.25}
        with pytest.raises(DuplicateName, match="constraint="):
            tracker_of("SafeFrozenLake-v0", constraint="mine:cost")

    @pytest.mark.parametrize("option", ["objective", "constraint"])
    def test_ours_bring_their_own(self, option):
        with pytest.raises(InvalidSetting, match=f"--{option}"):
            tracker_of("FrozenLake-PGP-v0", **{option: "mine:narrow"})


class Violating(gym.Env):
    """A cost of 0 where all is well, and of 0.75 where not: in copy 1, seeded by 1."""

    observation_space = action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.is_good, self.time = seed == 0, 0
        return 0, {}

    def step(self, action):
        self.time += 1
        return 0, 0.0, False, self.time == 9, {"cost": 0 if self.is_good else 0.75}


@pytest.mark.fault
@pytest.mark.parametrize("mode", ["sync", None])
def test_costs_of_copies_are_not_cut(mode, monkeypatch):
    spec = gym.envs.registration.EnvSpec("Violating-v0", entry_point=Violating, max_episode_steps=9)
    monkeypatch.setitem(gym.registry, "Violating-v0", spec)
    kwargs = json.dumps({} if mode is None else {"vectorization_mode": mode})
    env = make_environment(
        "Violating-v0", TrainSettings(num_envs=2, limit=0.0, env_kwargs=kwargs, episodes_per_batch=2)
    )
    env.reset(seed=0)
    for _ in range(9):
        *_, infos = env.step(np.zeros(2, dtype=np.int64))
    assert infos["batch"]["constraints"]["cost"] > 0.7 / 2  # 0.375 at discount 1, a little else at 0.99


@pytest.mark.fault
def test_copies_that_nobody_resets_are_looked_at_until_one_ends():
    """Random walks fall into a hole within 16 steps; agents that want copies to be reset say so later, by name."""
    kwargs = json.dumps({"vector_kwargs": {"autoreset_mode": "Disabled"}})
    make_environment("FrozenLake-v1", TrainSettings(num_envs=4, env_kwargs=kwargs)).close()


@pytest.mark.fault
def test_without_a_horizon_batches_are_of_steps(monkeypatch):
    spec = gym.envs.registration.EnvSpec("Endless-v0", entry_point=Violating)
    monkeypatch.setitem(gym.registry, "Endless-v0", spec)
    assert not find_tracker(make_environment("Endless-v0", TrainSettings())).whole_episodes
    assert find_tracker(make_environment("Endless-v0", TrainSettings(episodes_per_batch=8))).whole_episodes
