"""The contract checks pass on our own parts, and each fails, saying why, on a part broken in one place."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import cvxpy as cp
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import constrained_maxent as cmx
from constrained_maxent.errors import InvalidSetting, MissingTracker
from constrained_maxent.functionals import EngineTerm, Entropy, Functional, LinearCost, Majorant
from constrained_maxent.occupancy import Counts
from constrained_maxent.testing import check_constrained_env, check_estimator, check_functional
from constrained_maxent.types import Batch

SPACE = gym.spaces.Discrete(3)
BATCH = Batch(
    observations=np.array([0, 1, 1, 2, 0]),
    actions=np.array([1, 0, 0, 2, 2]),
    lengths=np.array([3, 2]),
    weights=np.array([1.0, 0.5, 0.25, 1.0, 0.5]),
    costs={"cost": np.arange(5.0)},
)
TABLE = np.array([[0.3, 0.1], [0.2, 0.4]])


class OtherParameters(Counts):
    def get_params(self) -> dict[str, Any]:
        return super().get_params() | {"memory": self.memory / 2}


class ConvertsParameters(Counts):
    def __init__(self, *, memory: float = 0.0, smoothing: float = 0.0) -> None:
        super().__init__(memory=memory, smoothing=smoothing)
        self.given, self.memory = memory, memory / 2

    def get_params(self) -> dict[str, Any]:
        return {"memory": self.given, "smoothing": self.smoothing}


class LearnsInTheConstructor(Counts):
    def __init__(self, *, memory: float = 0.0, smoothing: float = 0.0) -> None:
        super().__init__(memory=memory, smoothing=smoothing)
        self.mass_ = 0.0


class BindReturnsNothing(Counts):
    def bind(self, *spaces: Any) -> Any:
        super().bind(*spaces)


class BindRemembers(Counts):
    def _forget(self) -> None:
        pass


class AnswersBeforeFit(Counts):
    def log_prob(self, observations: Any, actions: Any) -> Any:
        return super().log_prob(observations, actions) if self.is_fitted else np.zeros(len(observations))


class FitReturnsNothing(Counts):
    def fit(self, batch: Batch, *, progress: float = 0.0) -> Any:
        super().fit(batch)


class FitKnowsNoProgress(Counts):
    def fit(self, batch: Batch) -> Any:  # type: ignore[override]
        return super().fit(batch)


class FreshRemembers(Counts):
    def fresh(self) -> Any:
        return type(self)(**self.get_params())


class CopyIsAnother(Counts):
    def __deepcopy__(self, memo: Any) -> Any:
        twin = copy(self)
        twin.mass_ = 0.5
        return twin


class DividesByRealisedMass(Counts):
    def fit(self, batch: Batch, *, progress: float = 0.0) -> Any:
        super().fit(batch)
        self._values = self._values / self.mass_
        self.mass_ = 1.0
        return self


class DiscountsCostsTwice(Counts):
    def fit(self, batch: Batch, *, progress: float = 0.0) -> Any:
        super().fit(batch)
        self.expected_costs_ = {name: float(batch.weights**2 @ cost) / 2 for name, cost in batch.costs.items()}
        return self


class FitsAtRandom(Counts):
    noise = np.random.default_rng(0)

    def fit(self, batch: Batch, *, progress: float = 0.0) -> Any:
        super().fit(batch)
        self._values = self.noise.permutation(self._values + 1e-3)
        self._values *= self.mass_ / self._values.sum()
        return self


class LogProbOfOneColumn(Counts):
    def log_prob(self, observations: Any, actions: Any) -> Any:
        return super().log_prob(observations, actions)[:, None]


class LogProbOfEverywhere(Counts):
    def log_prob(self, observations: Any, actions: Any) -> Any:
        return np.full(len(super().log_prob(observations, actions)), np.nan)


class LogProbForgetsCells(Counts):
    def log_prob(self, observations: Any, actions: Any) -> Any:
        return np.where(observations == 2, -np.inf, super().log_prob(observations, actions))


class LogProbOfMass(Counts):
    def log_prob(self, observations: Any, actions: Any) -> Any:
        return super().log_prob(observations, actions) + np.log(self.mass_)


class PointsWithoutCosts(Counts):
    def points(self, observations: Any, actions: Any, costs: Any = None) -> Any:
        return super().points(observations, actions)


class PointsWithoutMarginal(Counts):
    def points(self, observations: Any, actions: Any, costs: Any = None) -> Any:
        points = super().points(observations, actions, costs)
        return replace(points, state_density=0.5 * points.density)


class MeasureOfMassOne(Counts):
    def measure(self) -> Any:
        measure = super().measure()
        return replace(measure, weights=measure.weights / self.mass_)


class MeasureTransposed(Counts):
    def measure(self) -> Any:
        measure = super().measure()
        return replace(measure, weights=measure.weights[::-1])


class MeasureWithoutCosts(Counts):
    def measure(self) -> Any:
        return replace(super().measure(), expected_costs={})


class NumbersStatesFirst(Counts):
    def cell(self, observation: Any, action: Any) -> int:
        return super().cell(observation, action) + 1


class StateOfObjects(Counts):
    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"spaces": self.states}


class StateIsAView(Counts):
    def fit(self, batch: Batch, *, progress: float = 0.0) -> Any:
        values = getattr(self, "_values", None)
        super().fit(batch)
        if values is not None:
            values[:] = self._values + 1.0
            self._values = values - 1.0
        return self

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"values": self._values}


class StateWithoutMass(Counts):
    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict({**state, "mass": 1.0})


class StateWithoutMemory(Counts):
    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self.memory = 0.75


BROKEN_ESTIMATORS: list[tuple[type[Counts], str]] = [
    (OtherParameters, "get_params must return the arguments"),
    (ConvertsParameters, "attribute 'memory' is not what was given"),
    (LearnsInTheConstructor, "it set mass_"),
    (BindReturnsNothing, "bind must return"),
    (BindRemembers, "bind must forget"),
    (AnswersBeforeFit, "log_prob must raise NotFitted"),
    (FitReturnsNothing, "fit must return"),
    (FitKnowsNoProgress, "fit must take progress="),
    (FreshRemembers, "must not remember"),
    (CopyIsAnother, "a copy must be"),
    (DividesByRealisedMass, "mass_ must be the float Σ weights / n_episodes = 1.625 after the first fit, got 1.0"),
    (DiscountsCostsTwice, "expected_costs_ must be"),
    (FitsAtRandom, "two fits .* must agree exactly"),
    (LogProbOfOneColumn, r"log_prob must return float64 of shape \(5,\)"),
    (LogProbOfEverywhere, "log_prob must not be NaN"),
    (LogProbForgetsCells, "log_prob must be finite where the batch has been"),
    (LogProbOfMass, r"density must be mass_ · exp\(log_prob\)"),
    (PointsWithoutCosts, "points must carry the costs"),
    (PointsWithoutMarginal, "state_density must be"),
    (MeasureOfMassOne, "must sum to mass_"),
    (MeasureTransposed, "measure.* and log_prob must agree"),
    (MeasureWithoutCosts, "must carry expected_costs_"),
    (NumbersStatesFirst, "cell and encode must number alike"),
    (StateOfObjects, r"state_dict\(\)\['spaces'\] must be numbers.*FiniteSpace"),
    (StateIsAView, "copy the arrays"),
    (StateWithoutMass, "load_state_dict must restore"),
    (StateWithoutMemory, "a restored estimator must go on"),
]


class TestCheckEstimator:
    def test_passes_and_leaves_the_example_alone(self) -> None:
        estimator = Counts(memory=0.5)
        check_estimator(estimator, BATCH, SPACE, SPACE)
        assert vars(estimator) == vars(Counts(memory=0.5))

    @pytest.mark.parametrize(
        ("kind", "message"), BROKEN_ESTIMATORS, ids=[kind.__name__ for kind, _ in BROKEN_ESTIMATORS]
    )
    def test_fails_on_a_broken_part(self, kind: type[Counts], message: str) -> None:
        with pytest.raises(AssertionError, match=message):
            check_estimator(kind(memory=0.5), BATCH, SPACE, SPACE)


class Broken(Functional):
    """Σ λ² with one thing wrong: what is given replaces value or derivative."""

    def __init__(self, value: Callable[[Any], Any] | None = None, derivative: Callable[[Any], Any] | None = None):
        super().__init__()
        object.__setattr__(self, "given_value", value)
        object.__setattr__(self, "given_derivative", derivative)

    def value(self, measure: Any) -> Any:
        return (self.given_value or (lambda mass: float(np.sum(mass**2))))(measure.weights)

    def derivative(self, measure: Any, points: Any) -> Any:
        return (self.given_derivative or (lambda density: 2.0 * density))(points.density)


def spoil(mass: Any) -> float:
    """The value of a table, which it destroys."""
    value = float(np.sum(mass**2))
    mass[0, 0] += 1e-12
    return value


class Squares(Broken):
    """Σ λ² with its capabilities, one of which a subclass gets wrong."""

    curvature = "convex"

    def integrand(self, measure: Any, points: Any) -> Any:
        return points.density

    def engine_terms(self, n_states: int, n_actions: int) -> Any:
        return [EngineTerm(kind="elementwise", value=lambda mass, entry: mass**2, slope=lambda mass, entry: 2.0 * mass)]

    def conic(self, occupancy: Any) -> Any:
        return occupancy.unit**2 * cp.sum_squares(occupancy.scaled)


class CallsItselfConcave(Squares):
    curvature = "concave"


class AnotherIntegrand(Squares):
    def integrand(self, measure: Any, points: Any) -> Any:
        return 2.0 * points.density


class AnotherTerm(Squares):
    def engine_terms(self, n_states: int, n_actions: int) -> Any:
        return [replace(super().engine_terms(n_states, n_actions)[0], weight=2.0)]


class AnotherSlope(Squares):
    def engine_terms(self, n_states: int, n_actions: int) -> Any:
        return [replace(super().engine_terms(n_states, n_actions)[0], slope=lambda mass, entry: mass)]


class ForgetsTheUnit(Squares):
    def conic(self, occupancy: Any) -> Any:
        return cp.sum_squares(occupancy.scaled)


class FollowsNoRules(Squares):
    def conic(self, occupancy: Any) -> Any:
        return cp.sum(cp.multiply(occupancy.mass, occupancy.mass))


class BoundedTooLow(Squares):
    def majorant(self, factor: float, occupancy: Any, subgradients: Any) -> Any:
        return Majorant(-1e3, np.zeros(occupancy.shape))


class SmoothsTwice(Squares):
    def exact(self) -> Any:
        return self * 0.5


class ForgetsTheCharge(LinearCost):
    def charges(self, measure: Any) -> Any:
        return {}


class LosesItsTable(LinearCost):
    def tabulated(self, table_of: Any) -> Any:
        return LinearCost(2.0 * table_of("cost"))


class TestCheckFunctional:
    def test_passes(self) -> None:
        check_functional(Broken(), TABLE)
        check_functional(Entropy(), TABLE)
        check_functional(Squares(), TABLE)

    @pytest.mark.parametrize(
        ("functional", "message"),
        [
            (Broken(value=lambda mass: np.float32(1.0)), "value must be a finite float"),
            (Broken(value=lambda mass: float("inf")), "value must be a finite float, got inf"),
            (Broken(value=spoil), "must not change the table"),
            (Broken(derivative=lambda density: np.float32(2) * density.astype(np.float32)), "float64"),
            (Broken(derivative=lambda density: np.full(density.shape, np.inf)), "derivative must be finite"),
            (Broken(derivative=lambda density: density), "finite differences"),
            (Broken(derivative=lambda density: -2 * density), "finite differences"),
            (Broken(derivative=lambda density: 2 * density * (density.ndim == 2)), "at the points' cells"),
            (CallsItselfConcave(), "curvature is 'concave'"),
            (AnotherIntegrand(), "integrand"),
            (AnotherTerm(), "sum of engine_terms"),
            (AnotherSlope(), "engine_terms must have the derivative"),
            (ForgetsTheUnit(), "conic must have the value"),
            (FollowsNoRules(), "conic must be convex"),
            (BoundedTooLow(), "majorant"),
            (SmoothsTwice(), "smoothing left"),
            (ForgetsTheCharge(), "charges must say"),
            (LosesItsTable(), "tabulated must have the value"),
        ],
        ids=str,
    )
    def test_fails_on_a_broken_part(self, functional: Functional, message: str) -> None:
        with pytest.raises(AssertionError, match=message):
            check_functional(functional, TABLE)


def scalar(**settings: Any) -> Any:
    return gym.make("FrozenLake-PGP-v0", preset="paper", **settings)


def vector(**settings: Any) -> Any:
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=3, preset="paper", **settings)


class Tampered(gym.Wrapper):
    """Changes what ``step`` returns on its way up."""

    def __init__(self, env: Any, tamper: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(env)
        self.tamper = tamper

    def step(self, action: Any) -> Any:
        *outcome, info = self.env.step(action)
        self.tamper(info)
        return *outcome, info


class TamperedVector(gym.vector.VectorWrapper):
    """The same for vector environments."""

    def __init__(self, env: Any, tamper: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(env)
        self.tamper = tamper

    def step(self, actions: Any) -> Any:
        *outcome, infos = self.env.step(actions)
        self.tamper(infos)
        return *outcome, infos


def in_report(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    """Tampers with the reports of batches only."""

    def tamper(info: dict[str, Any]) -> None:
        if "batch" in info:
            change(info["batch"])

    return tamper


def shift_first(key: str, by: Any) -> Callable[[dict[str, Any]], None]:
    """Adds to a list's first entry."""

    def change(report: dict[str, Any]) -> None:
        report[key][0] = report[key][0] + by

    return in_report(change)


class TestCheckConstrainedEnv:
    @pytest.mark.parametrize("make", [scalar, vector])
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    @pytest.mark.parametrize("size", [{"episodes_per_batch": 5}, {"steps_per_batch": 77}])
    def test_passes(self, make: Any, pairing: str, size: dict[str, int]) -> None:
        check_constrained_env(make(pairing=pairing, **size), n_batches=3)

    @pytest.mark.parametrize("mode", AutoresetMode)
    def test_passes_in_every_autoreset_mode(self, mode: AutoresetMode) -> None:
        env = gym.make_vec(
            "FrozenLake-v1", num_envs=3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
        )
        check_constrained_env(cmx.wrappers.constrain(env, episodes_per_batch=7, pairing="split"), n_batches=4)

    def test_passes_on_an_environment_in_use(self) -> None:
        env = scalar()
        env.reset(seed=3)
        env.step(0)
        check_constrained_env(env)
        check_constrained_env(env)

    def test_needs_a_tracker(self) -> None:
        with pytest.raises(MissingTracker, match="TrackOccupancy"):
            check_constrained_env(gym.make_vec("FrozenLake-v1", 2, "sync"))

    def test_a_stack_has_its_own_costs(self) -> None:
        with pytest.raises(InvalidSetting, match="leave out cost, state"):
            check_constrained_env(scalar(), cost="cost", state="state")

    def test_says_when_no_batch_ends(self) -> None:
        with pytest.raises(AssertionError, match="only 0 of 2 batches ended within 20 steps"):
            check_constrained_env(scalar(), max_steps=20)

    @pytest.mark.parametrize(
        ("tamper", "message"),
        [
            (lambda info: info.pop("pseudo_reward_cost"), "'pseudo_reward_cost'.* must be there on every step"),
            (lambda info: info.update(pseudo_reward=0), "must be a float, got 0"),
            (lambda info: info.update(pseudo_reward=np.nan), "must be finite, got nan"),
            (lambda info: info.update(pseudo_reward=info["pseudo_reward"] + 1.0), "must be the sum of its parts"),
            (lambda info: info.update(pseudo_reward_ready=1), "'pseudo_reward_ready'.* must be a bool, got 1"),
            (in_report(lambda report: report.pop("weights")), "lacks weights"),
            (in_report(lambda report: report.update(iteration=7)), "iteration must be 0, got 7"),
            (in_report(lambda report: report.update(constraints={})), "must name .*'cost'"),
            (in_report(lambda report: report.update(multipliers={"objective": 1.0})), "'multipliers'.* must name"),
            (in_report(lambda report: report["ready"].pop()), "'ready'.* must be a list of 8 entries"),
            (in_report(lambda report: report.update(episodes=9)), "must be a list of 9 entries"),
            (in_report(lambda report: report.update(weights=tuple(report["weights"]))), "'weights'.* must be a list"),
            (in_report(lambda report: report.update(steps=1)), "steps is 1, but there are"),
            (in_report(lambda report: report.update(ready=[1] * 8)), "ready must list bools, got 1"),
            (shift_first("pseudo_rewards", np.inf), "pseudo-rewards of trajectory 0 must be finite"),
            (shift_first("started_ago", 1), "trajectory 0 must be .* steps that sub-environment 0 took"),
            (shift_first("started_ago", -1), "trajectory 0 must be steps of one episode"),
            (shift_first("sub_environments", 1), "sub-environment 1 took"),
            (shift_first("weights", 0.5), "the weights of trajectory 0 must be w_t"),
        ],
        ids=range(19),
    )
    def test_fails_on_a_broken_scalar_stack(self, tamper: Any, message: str) -> None:
        with pytest.raises(AssertionError, match=message):
            check_constrained_env(Tampered(scalar(), tamper))

    def test_fails_if_live_and_handed_over_rewards_differ(self) -> None:
        with pytest.raises(AssertionError, match="a ready live reward must be the one handed over"):
            check_constrained_env(Tampered(scalar(pairing="previous"), shift_first("pseudo_rewards", 1.0)))

    def test_fails_if_the_reward_is_not_the_pseudo_reward(self) -> None:
        class OwnReward(gym.RewardWrapper):
            def reward(self, reward: Any) -> float:
                return 1.0

        with pytest.raises(AssertionError, match="the reward must be the pseudo-reward"):
            check_constrained_env(OwnReward(scalar()))

    @pytest.mark.parametrize(
        ("tamper", "message"),
        [
            (lambda infos: infos.update(pseudo_reward=np.zeros(2)), r"one float per sub-environment.*\(2,\)"),
            (lambda infos: infos.update(pseudo_reward_ready=np.zeros(3)), "one bool per sub-environment, got float64"),
            (lambda infos: infos.update(_pseudo_reward=np.ones(3, dtype=bool)), "that took a step of an episode"),
            (lambda infos: infos.update(pseudo_reward_ready=np.ones(3, dtype=bool)), "must not be ready"),
            (shift_first("sub_environments", 1), "sub-environment 1 took|steps of one episode"),
        ],
        ids=range(5),
    )
    def test_fails_on_a_broken_vector_stack(self, tamper: Any, message: str) -> None:
        env = gym.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync")
        env = cmx.wrappers.constrain(env, episodes_per_batch=6)
        with pytest.raises(AssertionError, match=message):
            check_constrained_env(TamperedVector(env, tamper))
