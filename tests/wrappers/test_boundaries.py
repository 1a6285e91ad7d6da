"""What lies below and above ``TrackOccupancy``: time limits, repeated actions, writing layers, and odd orders."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers as layers
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as vector_layers

from constrained_maxent.agents import PGP
from constrained_maxent.errors import (
    DistortingLayer,
    DuplicateName,
    EndlessEpisode,
    HorizonMismatch,
    InsufficientMemory,
    IntegerInfo,
    InvalidData,
    InvalidSetting,
    MissingTracker,
)
from constrained_maxent.evaluation import evaluate_rollouts
from constrained_maxent.functionals import Entropy, KLDivergence, LinearCost
from constrained_maxent.occupancy import GaussianMixture, memory
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.testing import check_constrained_env
from constrained_maxent.wrappers import (
    FloatInfo,
    PseudoReward,
    TrackOccupancy,
    constrain,
    find_tracker,
    length_watch,
    vector,
)

pytestmark = pytest.mark.fault


class Costly(gym.Env[Any, Any]):
    """Every step costs 1. Episodes are truncated after ``own_limit`` steps, which nothing but a step tells."""

    observation_space = Discrete(3)
    action_space = Discrete(2)

    def __init__(self, own_limit: int | None = None) -> None:
        self.own_limit = own_limit

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self.time % 3, 0.0, False, self.time == self.own_limit, {"cost": 1.0}


class Repeating(gym.Wrapper[Any, Any, Any, Any]):
    """What Gymnasium has from 1.3 on."""

    def __init__(self, env: Any, num_repeats: int) -> None:
        super().__init__(env)
        self.num_repeats = num_repeats

    def step(self, action: Any) -> Any:
        for _ in range(self.num_repeats):
            reply = self.env.step(action)
            if reply[2] or reply[3]:
                break
        return reply


Repeating.__name__ = "RepeatAction"
RepeatAction: Any = getattr(layers, "RepeatAction", Repeating)


class Doubling(gym.Wrapper[Any, Any, Any, Any]):
    """Repeats actions, as nobody but itself knows."""

    def step(self, action: Any) -> Any:
        first = self.env.step(action)
        return first if first[2] or first[3] else self.env.step(action)


COSTS = {"cost": Constraint(LinearCost("cost", limit=0.5), Quadratic(beta=1.0))}


def build(env: Any, **tracking: Any) -> Any:
    return constrain(env, Entropy(), COSTS, **({"episodes_per_batch": 4, "discount": 1.0} | tracking))


def limited(n: int = 20) -> Any:
    return layers.TimeLimit(Costly(), n)


def walk(env: Any, n_steps: int) -> list[Any]:
    """Steps of a scalar environment, with resets where an episode ends; its infos, those of resets too."""
    infos = [env.reset(seed=0)[1]]
    for _ in range(n_steps):
        *_, terminated, truncated, info = env.step(0)
        infos.append(info)
        if terminated or truncated:
            infos.append(env.reset()[1])
    return infos


def walk_copies(env: Any, n_steps: int) -> Any:
    """Steps of a vector environment; the infos of the last."""
    env.reset(seed=0)
    for _ in range(n_steps):
        *_, infos = env.step(np.zeros(env.num_envs, dtype=np.int64))
    return infos


def violation(env: Any, n_steps: int = 100) -> float:
    reports = [info["batch"] for info in walk(env, n_steps) if "batch" in info]
    return float(reports[-1]["constraints"]["cost"])


class TestHorizon:
    """A cost of 1 on every step is 0.5 over the limit, at whatever rate the steps are taken."""

    @pytest.mark.parametrize(
        "repeat",
        [
            lambda env: RepeatAction(env, 4),
            lambda env: layers.MaxAndSkipObservation(env, 4),
            lambda env: RepeatAction(RepeatAction(env, 2), 2),
            lambda env: RepeatAction(env, 3),
            lambda env: layers.TimeLimit(RepeatAction(env, 2), 4),
        ],
        ids=["repeat", "skip", "twice", "not a divisor", "a limit between"],
    )
    def test_repeated_actions_below(self, repeat: Any) -> None:
        assert violation(build(repeat(limited()))) == pytest.approx(0.5)

    def test_repeated_actions_below_in_copies(self) -> None:
        env = SyncVectorEnv([lambda: RepeatAction(limited(), 4)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
        env = build(env)
        infos = walk_copies(env, 10)
        assert infos["batch"]["constraints"]["cost"] == pytest.approx(0.5)

    def test_copies_with_limits_of_their_own(self) -> None:
        """The horizon is the longest, 8; the shorter one's episodes are truncated before it."""
        env = build(SyncVectorEnv([lambda: limited(4), lambda: limited(8)]))
        assert find_tracker(env).weighting.horizon == 8
        with pytest.warns(HorizonMismatch, match="truncated an episode after 4 steps"):
            walk_copies(env, 4)

    @pytest.mark.parametrize(
        ("env", "tracking", "after"),
        [
            (lambda: Doubling(limited()), {}, 10),
            (lambda: limited(20), {"horizon": 40}, None),
            (lambda: Costly(7), {"horizon": 10}, 7),
            (lambda: Costly(7), {"discount": 0.9}, 7),
            (lambda: Costly(7), {"discount": 0.9, "steps_per_batch": 7, "episodes_per_batch": None}, 7),
        ],
        ids=["an unknown layer", "a limit below the one given", "one given", "none found", "none found, fragments"],
    )
    def test_truncated_before_it(self, env: Any, tracking: Any, after: int | None) -> None:
        with pytest.warns(HorizonMismatch, match=f"after {after or 20} steps"):
            walk(build(env(), **tracking), 50)

    def test_what_a_discount_forgets_is_no_loss(self) -> None:
        """0.9^60 < 1 %: nothing is missing where episodes are cut."""
        walk(build(Costly(60), discount=0.9), 300)

    def test_a_few_truncations_before_a_given_horizon_are_meant(self) -> None:
        env = Costly(7)
        stack = build(env, horizon=10)
        for env.own_limit in (7, 5, 7, 10, 7, 7, 7, 10):
            stack.reset()
            for _ in range(env.own_limit):
                stack.step(0)

    def test_a_native_vector_with_a_limit_of_its_own(self) -> None:
        env = gym.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point", max_episode_steps=30)
        assert find_tracker(constrain(env, episodes_per_batch=2, estimator=GaussianMixture())).weighting.horizon == 30

    @pytest.mark.parametrize("given", [{}, {"horizon": 10}], ids=["found", "given"])
    def test_longer_than_it(self, given: Any) -> None:
        env = Costly()
        env.horizon = 10  # type: ignore[attr-defined]
        with pytest.raises(InvalidSetting, match="horizon=10" if given else "of 10 steps that a time limit"):
            walk(build(env, **given), 11)

    @pytest.mark.parametrize("horizon", ["10", 0, 2.5, math.nan, lambda: 3])
    def test_what_an_environment_else_calls_its_horizon(self, horizon: Any) -> None:
        env = Costly()
        env.horizon = horizon  # type: ignore[attr-defined]
        assert find_tracker(build(env, discount=0.9)).weighting.horizon is None

    @pytest.mark.parametrize("size", [{}, {"episodes_per_batch": None, "steps_per_batch": 16}])
    def test_a_time_limit_above(self, size: Any) -> None:
        env = layers.TimeLimit(build(limited(20), **size), 5)
        with pytest.warns(HorizonMismatch, match="TimeLimit above TrackOccupancy ends episodes after 5 steps"):
            walk(env, 5)  # the first early end says it

    def test_a_time_limit_above_does_not_keep_an_agent_waiting(self) -> None:
        env = layers.TimeLimit(build(limited(20), episodes_per_batch=2), 5)
        with pytest.warns(HorizonMismatch):
            agent = PGP(env, seed=0).learn(iterations=3)
        assert (agent.iteration, agent.timesteps, find_tracker(env).last_report.steps) == (3, 30, 10)  # type: ignore[union-attr]

    def test_nor_an_evaluation(self) -> None:
        class Still:
            def predict(self, observation: Any, *, deterministic: bool) -> Any:
                return 0, None

        env = layers.TimeLimit(build(limited(20), episodes_per_batch=2), 5)
        with pytest.warns(HorizonMismatch):
            found = evaluate_rollouts(env, Still(), n_episodes=4, seed=0)
        assert found.length.mean == 5.0

    def test_a_users_own_resets_are_no_time_limit(self) -> None:
        env = build(limited(20))
        for n_steps in (20, 3, 3, 19, 3):
            walk(env, n_steps)

    def test_resets_at_every_end_of_a_batch(self) -> None:
        """What comes after 5 of 20 steps is never seen, though no trajectory is cut."""
        env = build(limited(20), episodes_per_batch=None, steps_per_batch=5)
        for _ in range(2):
            walk(env, 5)
        with pytest.warns(HorizonMismatch, match=r"reset\(\) after 5 steps"):
            walk(env, 5)

    def test_two_resets_at_once_are_one(self) -> None:
        env = build(SyncVectorEnv([limited] * 3))
        for _ in range(2):
            walk_copies(env, 22)


class TestEndless:
    @pytest.fixture(autouse=True)
    def _soon(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(length_watch, "_LONG", 50)

    @pytest.mark.parametrize("size", [{}, {"episodes_per_batch": None, "steps_per_batch": 500}])
    def test_an_episode_without_an_end(self, size: Any) -> None:
        with pytest.warns(EndlessEpisode, match="TimeLimit"):  # 0.9^132 < 1e-6
            walk(build(Costly(), discount=0.9, **size), 140)

    def test_in_a_vector(self) -> None:
        env = build(SyncVectorEnv([Costly] * 2), discount=0.9)
        with pytest.warns(EndlessEpisode):
            walk_copies(env, 140)

    def test_a_batch_that_counts_for_nothing(self) -> None:
        with pytest.warns(EndlessEpisode, match="begun at least 50 steps before"):  # 0.9^50 < 1 %
            walk(build(Costly(), discount=0.9, steps_per_batch=25, episodes_per_batch=None), 80)

    def test_nor_has_a_horizon_that_nobody_reaches(self) -> None:
        with pytest.warns(EndlessEpisode, match="TimeLimit"):
            walk(build(limited(10**9), discount=0.9), 510)
        with pytest.warns(EndlessEpisode, match="begun at least 50 steps before"):
            walk(build(limited(1000), discount=0.9, steps_per_batch=25, episodes_per_batch=None), 80)

    @pytest.mark.parametrize("make", [Costly, lambda: limited(10**9)], ids=["no horizon", "one that nobody reaches"])
    def test_an_agent_begins_anew(self, make: Any) -> None:
        """λ̂ of each batch is that of 60 steps from the start: its mass is 1 - 0.9^60."""
        env = build(make(), discount=0.9, steps_per_batch=60, episodes_per_batch=None)
        for _ in range(3):
            PGP(env, seed=0).learn(iterations=2)
            assert find_tracker(env).estimator.mass_ == pytest.approx(1.0, abs=0.9**60 + 1e-12)

    def test_long_episodes_with_an_end_are_none(self) -> None:
        walk(build(limited(200)), 450)


class Line(gym.Env[Any, Any]):
    """Writes into whatever it is given, and uses again whatever it returns."""

    observation_space = Box(-np.inf, np.inf, (1,), dtype=np.float64)
    action_space = Box(-1.0, 1.0, (1,), dtype=np.float64)
    horizon = 4

    def __init__(self) -> None:
        self.buffer, self.info = np.zeros(1), {"state": np.zeros(1), "cost": 0.0}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if options is not None:
            options.clear()
        self.time = 0
        self.buffer[:] = self.info["state"][:] = 0.0  # type: ignore[index]
        return self.buffer, self.info

    def step(self, action: Any) -> Any:
        action[:] = 99.0
        self.info["cost"] = float(self.time)
        self.time += 1
        self.buffer[:] = self.info["state"][:] = self.time  # type: ignore[index]
        return self.buffer, 0.0, False, self.time == 4, self.info


def scribble(*arguments: Any) -> None:
    for argument in arguments:
        argument[...] = 7.0


def scribbling_cost(observation: Any, action: Any, next_observation: Any) -> float:
    cost = float(observation[0] + action[0] + 10 * next_observation[0])
    scribble(observation, action, next_observation)
    return cost


def scribbling_state(observation: Any) -> Any:
    state = observation.copy()
    scribble(observation)
    return state


def scribbling_log_prob(observations: Any, actions: Any) -> Any:
    scribble(observations, actions)
    return np.zeros(len(observations))


class Copier(gym.Wrapper[Any, Any, Any, Any]):
    """Reuses one info for all its answers, and writes into what passes by."""

    info: dict[str, Any] = {}

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.info.update(info)
        if "batch" in info:
            info["batch"]["constraints"]["cost"] = 1e9
            info["batch"]["ready"].clear()
            with pytest.raises(ValueError, match="read-only"):
                info["batch"]["pseudo_rewards"][0][:] = 0.0
        return observation, reward, terminated, truncated, self.info


class TestWriting:
    STACK: dict[str, Any] = {
        "estimator": GaussianMixture(n_components=1),
        "episodes_per_batch": 2,
        "discount": 1.0,
        "pairing": "previous",
    }

    def steps(self, env: Any, n: int) -> Iterator[Any]:
        env.reset(options={"colour": 1})
        for t in range(n):
            action = np.array([0.1 * (t % 4)])
            *_, truncated, info = env.step(action)
            yield info
            if truncated:
                env.reset()

    def check(self, tracker: Any, copies: int = 1) -> None:
        batch = tracker.last_batch
        assert batch.observations[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0] * 2
        assert batch.actions[:, 0] == pytest.approx([0.0, 0.1, 0.2, 0.3] * 2)
        assert batch.costs["cost()"] == pytest.approx([10.0, 21.1, 32.2, 43.3] * 2)

    def test_functions_of_the_users_and_an_environment_that_write(self) -> None:
        costs = {"cost": Constraint(LinearCost(scribbling_cost, limit=0.0), Quadratic(beta=1.0))}
        settings = self.STACK | {"state": scribbling_state, "policy_log_prob": scribbling_log_prob}
        env = constrain(Line(), Entropy(), costs, **settings)
        infos = list(self.steps(env, 24))
        assert sum("batch" in info for info in infos) == 3
        self.check(find_tracker(env))
        assert find_tracker(env).last_batch.states[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0] * 2  # type: ignore[union-attr,index]

    def test_the_same_in_a_vector(self) -> None:
        costs = {"cost": Constraint(LinearCost(scribbling_cost, limit=0.0), Quadratic(beta=1.0))}
        settings = self.STACK | {"state": scribbling_state, "policy_log_prob": scribbling_log_prob}
        copies = SyncVectorEnv([Line, Line], copy=False, autoreset_mode=AutoresetMode.NEXT_STEP)
        env = constrain(copies, Entropy(), costs, **settings)
        env.reset()
        for t in range(25):
            env.step(np.full((2, 1), 0.1 * (t % 5)))
        self.check(find_tracker(env))

    def test_a_reference_of_points(self) -> None:
        def reference(points: Any) -> Any:
            density = np.exp(-points.states[:, 0])
            scribble(points.observations, points.actions, points.states, points.density)
            return density

        near = {"near": Constraint(KLDivergence(reference, limit=1.0), Quadratic(beta=1.0))}
        env = constrain(Line(), Entropy(), near, **self.STACK, state="state")
        list(self.steps(env, 8))
        assert find_tracker(env).last_batch.states[:4, 0].tolist() == [0.0, 1.0, 2.0, 3.0]  # type: ignore[union-attr,index]

    def test_states_of_a_buffer_that_is_used_again(self) -> None:
        env = constrain(Line(), Entropy(), **(self.STACK | {"state": "state"}))
        list(self.steps(env, 8))
        assert find_tracker(env).last_batch.states[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0] * 2  # type: ignore[union-attr,index]

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.HorizonMismatch")
    def test_a_layer_above_that_writes_and_reuses_its_info(self) -> None:
        env = Copier(build(limited(5)))
        agent = PGP(env, seed=0).learn(iterations=3)
        tracker = find_tracker(env)
        assert (agent.iteration, agent.timesteps) == (3, 60)
        assert tracker.last_report.constraints == {"cost": pytest.approx(0.5)}  # type: ignore[union-attr]
        assert tracker.last_report.ready == [True] * 4  # type: ignore[union-attr]

    def test_a_vectors_rewards_may_be_written_to(self) -> None:
        env = constrain(SyncVectorEnv([limited] * 2), Entropy(), episodes_per_batch=2, pairing="previous")
        env = vector_layers.TransformReward(env, lambda reward: 1000.0 + reward)
        env.reset()
        for _ in range(25):
            _, rewards, *_, infos = env.step(np.zeros(2, dtype=np.int64))
        assert rewards == pytest.approx(1000.0 + infos["pseudo_reward"])
        assert infos["original_reward"].tolist() == [0.0, 0.0]


class Mixed(Costly):
    """A cost of 0 in one copy and of 0.75 in the other."""

    def __init__(self, cost: Any) -> None:
        super().__init__(5)
        self.cost, self.horizon = cost, 5

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], {"state": np.array([self.cost])}

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {"cost": self.cost, "state": np.array([self.cost])}


class TestWholeNumbers:
    def stack(self, *costs: Any, wrap: Any = lambda env: env, **tracking: Any) -> Any:
        copies = SyncVectorEnv([lambda cost=cost: wrap(Mixed(cost)) for cost in costs])
        return build(copies, episodes_per_batch=len(costs), **tracking)

    def violation(self, env: Any) -> float:
        return float(walk_copies(env, 5)["batch"]["constraints"]["cost"]) + 0.5

    @pytest.mark.parametrize("whole", [0, False, np.int32(0), np.uint8(0), np.zeros(1, dtype=int)], ids=repr)
    def test_may_have_been_cut(self, whole: Any) -> None:
        other = np.full(1, 0.75) if isinstance(whole, np.ndarray) else 0.75
        with pytest.warns(IntegerInfo, match="FloatInfo"):
            self.violation(self.stack(whole, other))
        assert self.violation(self.stack(whole, other, wrap=FloatInfo)) == pytest.approx(0.375)

    @pytest.mark.parametrize("costs", [(0.75, 0), (0.75, False), (0.75, np.int64(0))], ids=repr)
    def test_floats_first_are_not_cut(self, costs: Any) -> None:
        assert self.violation(self.stack(*costs)) == pytest.approx(0.375)

    def test_states_may_have_been_cut(self) -> None:
        with pytest.warns(IntegerInfo, match="'state'"):
            self.stack(0, 0.75, state="state", estimator=GaussianMixture(n_components=1)).reset()

    @pytest.mark.parametrize("is_masked", [False, True])
    def test_a_vector_of_another_kind_means_what_it_says(self, is_masked: bool) -> None:
        """Unless it makes one array of what copies report, as Gymnasium does, and its mask."""

        class Own(gym.vector.VectorEnv):
            metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
            num_envs, horizon = 2, 100
            single_observation_space = single_action_space = Discrete(2)
            observation_space = action_space = gym.spaces.MultiDiscrete([2, 2])

            def reset(self, *, seed: Any = None, options: Any = None) -> Any:
                return np.zeros(2, int), {}

            def step(self, actions: Any) -> Any:
                none = np.zeros(2, dtype=bool)
                infos: dict[str, Any] = {"cost": np.ones(2, dtype=int)}
                if is_masked:
                    infos = self._add_info(self._add_info({}, {"cost": 0}, 0), {"cost": 0.7}, 1)
                return np.zeros(2, int), np.zeros(2), none, none, infos

        env = build(Own())
        env.reset()
        with pytest.warns(IntegerInfo) if is_masked else nullcontext():
            env.step(np.zeros(2, int))


class TestOrders:
    def test_repeated_actions_above(self) -> None:
        for repeat in (lambda env: RepeatAction(env, 3), lambda env: layers.MaxAndSkipObservation(env, 3)):
            with pytest.raises(InvalidSetting, match="is 3 steps of the TrackOccupancy in it"):
                repeat(build(limited())).reset()

    def test_repeated_actions_above_that_nobody_knows_of(self) -> None:
        env = Doubling(build(limited()))
        with pytest.raises(InvalidSetting, match=r"One step of .* is not one step"):
            PGP(env, seed=0).learn(iterations=1)
        with pytest.raises(AssertionError, match="must be one of TrackOccupancy, not 2"):
            check_constrained_env(env)

    def test_clipped_rewards_above(self) -> None:
        with pytest.warns(DistortingLayer, match="ClipReward, above TrackOccupancy"):
            layers.ClipReward(build(limited()), -1.0, 1.0).reset()
        layers.ClipReward(limited(), -1.0, 1.0).reset()

    @pytest.mark.parametrize("above", [True, False])
    def test_autoreset(self, above: bool) -> None:
        env = layers.Autoreset(build(limited())) if above else build(layers.Autoreset(limited()))
        env.reset()
        for _ in range(20):
            env.step(0)
        if above:
            for _ in range(63):
                *_, info = env.step(0)
            assert info["batch"]["constraints"]["cost"] == pytest.approx(0.5)
        else:
            with pytest.raises(gym.error.ResetNeeded, match="Autoreset belongs above"):
                env.step(0)

    @pytest.mark.parametrize(
        "layer",
        [
            layers.Autoreset,
            layers.OrderEnforcing,
            layers.PassiveEnvChecker,
            layers.TimeAwareObservation,
            layers.NormalizeReward,
            lambda env: layers.TransformReward(env, lambda reward: 2.0 * reward),
            lambda env: layers.FrameStackObservation(env, 2),
            lambda env: layers.DelayObservation(env, 1),
        ],
    )
    def test_layers_between_and_above(self, layer: Any) -> None:
        env = layer(build(layers.OrderEnforcing(limited()), replace_reward=False))
        agent = PGP(env, seed=0).learn(iterations=2)
        assert agent.timesteps == 160
        assert find_tracker(env).last_report.constraints["cost"] == pytest.approx(0.5)  # type: ignore[union-attr]

    def test_infos_as_lists(self) -> None:
        tracked = build(SyncVectorEnv([limited] * 2), replace_reward=False)
        with pytest.raises(InvalidData, match="DictInfoToList"):
            walk_copies(vector.PseudoReward(vector_layers.DictInfoToList(tracked)), 1)
        with pytest.raises(InvalidData, match="DictInfoToList belongs above"):
            build(vector_layers.DictInfoToList(SyncVectorEnv([limited] * 2))).reset()
        env = vector_layers.DictInfoToList(vector.PseudoReward(tracked))
        assert PGP(env, seed=0).learn(iterations=2).timesteps == 2 * 2 * (20 + 1 + 20)

    @pytest.mark.parametrize("mode", list(AutoresetMode))
    def test_copies_that_are_stacks(self, mode: AutoresetMode) -> None:
        env = SyncVectorEnv([lambda: build(limited())] * 2, autoreset_mode=mode)
        with pytest.raises(InvalidSetting, match="already in every copy"):
            build(env)
        with pytest.raises(MissingTracker, match="Every copy"):
            PGP(env)

    @pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
    @pytest.mark.parametrize("kind", [bool, np.bool_, lambda held: np.array([held, True]), lambda held: np.array(held)])
    def test_truth_values_of_any_kind(self, kind: Any, mode: AutoresetMode) -> None:
        """Both copies violate the constraint in 2 steps of 5; the batch of truth values is stacked as it comes."""

        class Safe(gym.Wrapper[Any, Any, Any, Any]):
            def step(self, action: Any) -> Any:
                *reply, _ = self.env.step(action)
                return *reply, {"constraints": {"safe": kind(self.unwrapped.time > 2)}}

        env: Any = vector.BooleanCosts(SyncVectorEnv([lambda: Safe(limited(5))] * 2, autoreset_mode=mode))
        env = build(env, episodes_per_batch=2)
        assert walk_copies(env, 5)["batch"]["constraints"]["cost"] == pytest.approx(0.4 - 0.5)

    @pytest.mark.parametrize("kind", ["scalar", "vector"])
    def test_two_pseudo_rewards(self, kind: str) -> None:
        """The second would call the first's the original reward."""
        env = build(limited() if kind == "scalar" else SyncVectorEnv([limited]))
        with pytest.raises(DuplicateName, match="already"):
            (PseudoReward if kind == "scalar" else vector.PseudoReward)(env)

    def test_one_tracker_above_another(self) -> None:
        env = build(TrackOccupancy(limited(), episodes_per_batch=1))
        with pytest.raises(DuplicateName, match="One TrackOccupancy above another"):
            walk(env, 20)


class Picture(gym.Env[Any, Any]):
    observation_space = Box(0, 255, (20, 20, 3), dtype=np.uint8)
    action_space = Discrete(2)
    horizon = 5

    def __init__(self, size: int = 20) -> None:
        self.observation_space = Box(0, 255, (size, size, 3), dtype=np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.image(), {"state": np.array([0.0])}

    def image(self) -> Any:
        return np.full(self.observation_space.shape or (), 200 + self.time, dtype=np.uint8)

    def step(self, action: Any) -> Any:
        self.time += 1
        return self.image(), 0.0, False, self.time == 5, {"state": np.array([float(self.time)]), "cost": 1.0}


class TestPictures:
    SETTINGS: dict[str, Any] = {"estimator": GaussianMixture(n_components=1), "discount": 1.0}

    def test_are_not_stored_where_nobody_looks_at_them(self) -> None:
        env = build(Picture(), **self.SETTINGS, state="state")
        PGP(env, seed=0, hidden_sizes=(4,)).learn(iterations=2)
        assert find_tracker(env).last_batch.observations.shape == (20, 0)  # type: ignore[union-attr]
        assert find_tracker(env).last_report.constraints["cost"] == pytest.approx(0.5)  # type: ignore[union-attr]
        copies = build(SyncVectorEnv([Picture] * 2), **self.SETTINGS, state="state")
        PGP(copies, seed=0, hidden_sizes=(4,)).learn(iterations=1)
        assert find_tracker(copies).last_batch.observations.shape == (20, 0)  # type: ignore[union-attr]

    def test_nor_are_thousands_of_switches(self) -> None:
        class Switches(Picture):
            def __init__(self) -> None:
                self.observation_space = gym.spaces.MultiBinary(3000)

            def image(self) -> Any:
                return np.ones(3000, dtype=np.int8)

        env = build(Switches(), **self.SETTINGS, state="state")
        walk(env, 20)
        assert find_tracker(env).last_batch.observations.shape == (20, 0)  # type: ignore[union-attr]

    def test_are_where_a_reference_does(self) -> None:
        seen = []

        def reference(points: Any) -> Any:
            seen.append(points.observations)
            return np.ones(len(points.density))

        near = Constraint(KLDivergence(reference, limit=1.0, over="state"), Quadratic(beta=1.0))
        env = constrain(Picture(), Entropy(), {"near": near}, episodes_per_batch=1, state="state", **self.SETTINGS)
        walk(env, 5)
        assert seen[-1].dtype == np.float64
        assert seen[-1][:, 0, 0, 0].tolist() == [200.0, 201.0, 202.0, 203.0, 204.0]

    def test_a_policy_sees_their_numbers(self) -> None:
        """Not the integers, which run over when they are added."""
        env = build(Picture(), **self.SETTINGS, state="state")
        agent = PGP(env, seed=0, hidden_sizes=(4,))
        rollout = agent._collector
        rollout.restart(seed=0)
        rows = rollout.collect(agent.policy, np.random.default_rng(0)).rows
        assert rows.dtype == np.float32
        assert rows[:5, 0, 0, 0].tolist() == [200.0, 201.0, 202.0, 203.0, 204.0]

    def test_a_density_over_them_is_refused_with_the_number(self) -> None:
        with pytest.raises(InsufficientMemory, match=r"over 3000000 coordinates needs 1\.34e\+05 GiB.*state="):
            build(Picture(1000), **self.SETTINGS)  # 2 · 8 · (3e6)² bytes / 2^30

    def test_a_batch_of_them_is_refused_with_the_number(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
        seen = Constraint(KLDivergence(lambda points: points.density, limit=1.0, over="state"), Quadratic(beta=1.0))
        env = constrain(Picture(100), Entropy(), {"near": seen}, steps_per_batch=8192, state="state", **self.SETTINGS)
        number = (
            r"8192 steps with observations of 30000 numbers needs 3\.66 GiB of memory, 1 GiB"  # 2 · 8192 · 30000 · 8
        )
        with pytest.raises(InsufficientMemory, match=number):
            env.reset()
