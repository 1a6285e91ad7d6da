"""Estimators that the package does not have: a histogram over a box, and counts with one visit more in every cell."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Self

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidData, UnsupportedSpace
from constrained_maxent.evaluation import evaluate_rollouts
from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import OccupancyEstimator, estimator_config, estimator_from_config
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.spaces import FiniteSpace
from constrained_maxent.testing import check_constrained_env, check_estimator
from constrained_maxent.types import Batch, FloatArray, IntArray, Measure, Points
from constrained_maxent.wrappers import constrain, find_tracker


class Histogram(OccupancyEstimator):
    """Share of the steps in each of equal cells of a box, over its volume."""

    def __init__(self, *, n_bins: int = 4) -> None:
        self.n_bins = n_bins

    def bind(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> Self:
        if not (isinstance(observation_space, gym.spaces.Box) and observation_space.is_bounded()):
            raise UnsupportedSpace(f"Histogram needs bounds of all coordinates, not {observation_space}.")
        self._low, self._high = (
            bound.ravel().astype(float) for bound in (observation_space.low, observation_space.high)
        )
        for name in ("mass_", "expected_costs_", "shares_"):
            self.__dict__.pop(name, None)
        return self

    def _cells(self, states: NDArray[Any]) -> IntArray:
        """Number of each state's cell, -1 outside the box."""
        places = (states.reshape(len(states), -1) - self._low) / (self._high - self._low)
        digits = np.clip(np.floor(places * self.n_bins), 0, self.n_bins - 1).astype(np.int64)
        numbers: IntArray = digits @ self.n_bins ** np.arange(digits.shape[1])
        return np.where(((places >= 0.0) & (places <= 1.0)).all(axis=1), numbers, -1)

    def fit(self, batch: Batch, *, progress: float = 0.0) -> Self:
        states = batch.observations if batch.states is None else batch.states
        weights = batch.weights / batch.n_episodes
        self.mass_ = float(weights.sum())
        # One cell more, which stays empty, for what is outside.
        counts = np.bincount(self._cells(states), weights, self.n_bins ** len(self._low) + 1)
        self.shares_ = counts / self.mass_
        self._columns = {"observations": batch.observations, "actions": batch.actions, "weights": weights}
        self._columns |= {f"cost {name}": cost for name, cost in batch.costs.items()}
        given = {"states": batch.states, "log_probs": batch.log_probs}
        self._columns |= {name: column for name, column in given.items() if column is not None}
        self.remember_costs(batch)
        return self

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        self.require_fit()
        volume = np.prod((self._high - self._low) / self.n_bins)
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(self.shares_[self._cells(observations)] / volume)
        return logs

    def points(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        costs: Mapping[str, FloatArray] | None = None,
        *,
        states: NDArray[Any] | None = None,
        log_probs: FloatArray | None = None,
    ) -> Points:
        places = observations if states is None else states
        of_states = self.mass_ * np.exp(self.log_prob(places, actions)) if self.is_fitted else self.require_fit()
        return Points(
            density=of_states if log_probs is None else of_states * np.exp(log_probs),
            state_density=of_states,
            observations=observations,
            actions=actions,
            states=places,
            costs=dict(costs or {}),
            is_over_actions=log_probs is not None,
        )

    def measure(self) -> Measure:
        self.require_fit()
        known = self._columns
        points = self.points(
            known["observations"],
            known["actions"],
            {name.removeprefix("cost "): column for name, column in known.items() if name.startswith("cost ")},
            states=known.get("states"),
            log_probs=known.get("log_probs"),
        )
        return Measure(points=points, weights=known["weights"], expected_costs=self.expected_costs_)

    def state_dict(self) -> dict[str, Any]:
        if not self.is_fitted:
            return {}
        learnt = {"mass": self.mass_, "expected_costs": dict(self.expected_costs_), "shares": self.shares_.copy()}
        return learnt | {"columns": dict(self._columns)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if not state:
            self.__dict__.pop("mass_", None)
            return
        if len(state["shares"]) != self.n_bins ** len(self._low) + 1:
            raise InvalidData("This state is of another histogram.")
        self.mass_, self.expected_costs_ = state["mass"], dict(state["expected_costs"])
        self.shares_, self._columns = state["shares"].copy(), dict(state["columns"])


class Laplace(OccupancyEstimator):
    """Weighted visits of (s, a), and the mass of ``extra`` visits spread over all cells."""

    def __init__(self, *, extra: float = 1.0) -> None:
        self.extra = extra

    def bind(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> Self:
        self._states, self._actions = FiniteSpace(observation_space), FiniteSpace(action_space)
        for name in ("mass_", "expected_costs_", "table_"):
            self.__dict__.pop(name, None)
        return self

    @property
    def is_dense(self) -> bool:
        return True

    def table_shape(self) -> tuple[int, int]:
        return self._states.n, self._actions.n

    def encode(self, observations: NDArray[Any], actions: NDArray[Any]) -> IntArray:
        return self._states.encode(observations) * self._actions.n + self._actions.encode(actions)

    def cell(self, observation: Any, action: Any) -> int:
        return self._states.encode_one(observation) * self._actions.n + self._actions.encode_one(action)

    def fit(self, batch: Batch, *, progress: float = 0.0) -> Self:
        cells, n_cells = self.encode(batch.observations, batch.actions), self._states.n * self._actions.n
        visits = np.bincount(cells, batch.weights / batch.n_episodes, n_cells)
        self.mass_ = float(visits.sum())
        share = self.extra / (self.extra + batch.n_steps)
        self.table_ = ((1.0 - share) * visits + share * self.mass_ / n_cells).reshape(self.table_shape())
        self.remember_costs(batch)
        return self

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        self.require_fit()
        return np.log(self.table_.reshape(-1)[self.encode(observations, actions)] / self.mass_)

    def points(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        costs: Mapping[str, FloatArray] | None = None,
        *,
        states: NDArray[Any] | None = None,
        log_probs: FloatArray | None = None,
    ) -> Points:
        self.require_fit()
        cells = self.encode(observations, actions)
        return Points(
            density=self.table_.reshape(-1)[cells],
            state_density=self.table_.sum(axis=1)[cells // self._actions.n],
            cells=cells,
            costs=dict(costs or {}),
        )

    def measure(self) -> Measure:
        self.require_fit()
        return Measure.from_table(self.table_, self.expected_costs_)

    def state_dict(self) -> dict[str, Any]:
        if not self.is_fitted:
            return {}
        return {"table": self.table_.copy(), "mass": self.mass_, "expected_costs": dict(self.expected_costs_)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if not state:
            self.__dict__.pop("mass_", None)
            return
        if state["table"].shape != self.table_shape():
            raise InvalidData("This state is of other spaces.")
        self.table_, self.mass_ = state["table"].copy(), state["mass"]
        self.expected_costs_ = dict(state["expected_costs"])


class Walk(gym.Env[Any, Any]):
    """Steps of at most 0.2 within [-1, 1]; what is beyond 0.5 costs 1."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), dtype=np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.time = self.np_random.uniform(-0.5, 0.5, 1).astype(np.float32), 0
        return self.place, {}

    def step(self, action: Any) -> Any:
        cost = float(self.place[0] > 0.5)
        self.place = np.clip(self.place + 0.2 * np.asarray(action, np.float32), -1.0, 1.0).astype(np.float32)
        self.time += 1
        return self.place, 0.0, False, self.time == 20, {"cost": cost}


gym.register("OwnEstimatorWalk-v0", entry_point=f"{__name__}:Walk", max_episode_steps=20)

ENVIRONMENTS = {
    "box": ("OwnEstimatorWalk-v0", Histogram(n_bins=5)),
    "finite": ("SafeFrozenLake-v0", Laplace(extra=2.0)),
}


@pytest.fixture(params=ENVIRONMENTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stack(kind: str, num_envs: int | None = None, **options: Any) -> Any:
    env_id, estimator = ENVIRONMENTS[kind]
    env = gym.make(env_id) if num_envs is None else gym.make_vec(env_id, num_envs=num_envs)
    limit = Constraint(LinearCost("cost", limit=1.0), Quadratic(beta=1.0))
    return constrain(env, constraints={"cost": limit}, estimator=estimator, episodes_per_batch=4, **options)


def table_of(kind: str, batch: Batch) -> Any:
    """λ̂ of a batch by NumPy's own histograms: density of states over five cells, or the table."""
    weights = batch.weights / batch.n_episodes
    if kind == "box":
        return np.histogram(batch.observations[:, 0], bins=5, range=(-1.0, 1.0), weights=weights)[0] / 0.4
    visits = np.histogram2d(batch.observations, batch.actions, bins=(range(37), range(5)), weights=weights)[0]
    share = 2.0 / (2.0 + batch.n_steps)
    return (1.0 - share) * visits + share * weights.sum() / visits.size


def test_keeps_the_contract(kind: str) -> None:
    env = gym.make(ENVIRONMENTS[kind][0])
    rng, env.action_space._np_random = np.random.default_rng(0), np.random.default_rng(0)
    observations = [env.observation_space.sample() for _ in range(30)]
    batch = Batch(
        observations=np.array(observations),
        actions=np.array([env.action_space.sample() for _ in range(30)]),
        lengths=np.array([10, 20]),
        weights=rng.uniform(0.1, 1.0, 30),
        costs={"cost": rng.normal(size=30)},
    )
    check_estimator(ENVIRONMENTS[kind][1], batch, env.observation_space, env.action_space)


@pytest.mark.parametrize("num_envs", [None, 3])
@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
def test_in_the_wrappers(kind: str, num_envs: int | None, pairing: str) -> None:
    check_constrained_env(stack(kind, num_envs, pairing=pairing), 3)


@pytest.mark.parametrize("num_envs", [None, 4])
def test_trains_and_is_evaluated(kind: str, num_envs: int | None, tmp_path: Any) -> None:
    env = stack(kind, num_envs)
    agent = PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=3)
    tracker = find_tracker(env)
    batch = tracker.last_batch
    assert batch is not None
    density = table_of(kind, batch)
    measured = tracker.estimator.measure()
    if kind == "box":
        cells = np.minimum(((batch.observations[:, 0] + 1.0) / 0.4).astype(int), 4)
        np.testing.assert_allclose(measured.points.state_density, density[cells], rtol=1e-9)
        assert measured.points.is_over_actions  # PGP tells log π
    else:
        np.testing.assert_allclose(measured.weights, density, rtol=1e-9)
    evaluation = evaluate_rollouts(env, agent, n_episodes=8, seed=1)
    assert evaluation.n_episodes == 8
    assert evaluation.objective is not None
    assert np.isfinite(evaluation.objective.mean)

    agent.save(tmp_path / "agent.pt")
    again = PGP.load(tmp_path / "agent.pt", stack(kind, num_envs))
    restored = find_tracker(again.env).estimator
    assert restored.mass_ == tracker.estimator.mass_
    np.testing.assert_array_equal(restored.measure().points.density, tracker.estimator.measure().points.density)


def test_specs_and_pickles_bring_it_back(kind: str) -> None:
    estimator = ENVIRONMENTS[kind][1]
    config = estimator_config(estimator)
    assert config["kind"] == f"{__name__}:{type(estimator).__name__}"
    again = estimator_from_config(config)
    assert type(again) is type(estimator)
    assert again.get_params() == estimator.get_params()
    spec = gym.envs.registration.EnvSpec.from_json(stack(kind, replace_reward=False).spec.to_json())
    for env in (gym.make(spec), pickle.loads(pickle.dumps(stack(kind)))):
        tracker = find_tracker(env)
        assert type(tracker.estimator) is type(estimator)
        assert tracker.estimator.get_params() == estimator.get_params()


def test_what_it_cannot_handle_it_says_itself() -> None:
    with pytest.raises(UnsupportedSpace, match="Histogram"):
        constrain(gym.make("CartPole-v1"), estimator=Histogram(), episodes_per_batch=2)
