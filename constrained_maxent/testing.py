"""Contract checks for parts of your own: an estimator, a functional, a stack of wrappers.

Each raises ``AssertionError`` that says what is wrong, and returns nothing if all is well. Call them from your tests.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from constrained_maxent.errors import NotFitted
from constrained_maxent.functionals import Functional
from constrained_maxent.occupancy import OccupancyEstimator
from constrained_maxent.occupancy.spaces import as_row
from constrained_maxent.types import Batch, FloatArray, IntArray, Measure, Points
from constrained_maxent.wrappers import NEW_BATCH, find_tracker

REPORT_KEYS = frozenset(
    {
        "iteration",
        "episodes",
        "steps",
        "objective",
        "constraints",
        "multipliers",
        "penalty",
        "discount",
        "pseudo_rewards",
        "ready",
        "weights",
        "sub_environments",
        "started_ago",
    }
)
"""What ``info["batch"]`` holds at least."""


def check_estimator(
    estimator: OccupancyEstimator,
    batch: Batch,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
) -> None:
    """Check the contract of :class:`~constrained_maxent.occupancy.OccupancyEstimator`.

    Args:
        estimator: an unfitted example; the checks work on copies made from its ``get_params()``.
        batch: data to fit, with positive weights; of two trajectories or more, or what it remembers goes untested.
        observation_space: space of the batch's observations.
        action_space: space of its actions.

    Raises:
        AssertionError: what is wrong.

    >>> space = gym.spaces.Discrete(2)
    >>> batch = Batch(observations=np.array([0, 0, 1]), actions=np.array([1, 1, 0]), lengths=np.array([3]))
    >>> from constrained_maxent.occupancy import Counts
    >>> check_estimator(Counts(memory=0.5), batch, space, space)
    """

    def bound() -> OccupancyEstimator:
        made = _same_parameters(estimator)
        _require(made.bind(observation_space, action_space) is made, "bind must return the estimator itself")
        return made

    fresh = bound()
    _refuses_before_fit(fresh, batch)
    _require(fresh.fit(batch) is fresh, "fit must return the estimator itself")
    _is_an_estimate(fresh, batch)
    _views_agree(fresh, batch, observation_space, action_space)
    _same_estimate(fresh, bound().fit(batch), batch, "two fits of equal estimators to one batch must agree exactly")

    state = fresh.state_dict()
    _require_plain(state, "state_dict()")
    kept = copy.deepcopy(state)
    restored = bound()
    restored.load_state_dict(state)
    _same_estimate(fresh, restored, batch, "load_state_dict must restore what state_dict returned")
    part = batch.take(0, max(1, len(batch) // 2))
    _same_estimate(fresh.fit(part), restored.fit(part), part, "a restored estimator must go on as the original does")
    _require(_equal(state, kept), "a later fit must leave the result of state_dict as it was: copy the arrays")
    fresh.bind(observation_space, action_space)
    _require(not fresh.is_fitted, "bind must forget everything learnt")


def _same_parameters(estimator: OccupancyEstimator) -> OccupancyEstimator:
    """A copy made from the parameters, checked to be one."""
    parameters = estimator.get_params()
    made = type(estimator)(**parameters)
    _require(_equal(made.get_params(), parameters), "get_params must return the arguments that make an equal estimator")
    for name, value in parameters.items():
        _require(
            hasattr(made, name) and _equal(getattr(made, name), value),
            f"the constructor must only store its arguments: attribute {name!r} is not what was given",
        )
    learnt = [name for name in vars(made) if name.endswith("_") and not name.startswith("_")]
    _require(not learnt, f"the constructor must not learn: it set {', '.join(learnt)}")
    return made


def _refuses_before_fit(estimator: OccupancyEstimator, batch: Batch) -> None:
    _require(not estimator.is_fitted, "an estimator must not be fitted before fit")
    for name, arguments in {
        "log_prob": (batch.observations, batch.actions),
        "points": (batch.observations, batch.actions),
        "measure": (),
    }.items():
        try:
            getattr(estimator, name)(*arguments)
        except NotFitted:
            continue
        raise AssertionError(f"{name} must raise NotFitted before fit")


def _is_an_estimate(estimator: OccupancyEstimator, batch: Batch) -> None:
    """Mass, costs and log-probabilities of a first fit."""
    mass = batch.weights.sum() / batch.n_episodes
    _require(
        isinstance(estimator.mass_, float) and np.isclose(estimator.mass_, mass, rtol=1e-9),
        f"mass_ must be the float Σ weights / n_episodes = {mass:g} after the first fit, got {estimator.mass_!r}",
    )
    costs = {name: batch.weights @ cost / batch.n_episodes for name, cost in batch.costs.items()}
    known = estimator.expected_costs_
    _require(
        known.keys() == costs.keys() and all(np.isclose(known[name], costs[name], rtol=1e-9) for name in costs),
        f"expected_costs_ must be Σ weights · cost / n_episodes = {costs} after the first fit, got {known}",
    )
    log_prob = estimator.log_prob(batch.observations, batch.actions)
    _require(
        isinstance(log_prob, np.ndarray) and log_prob.shape == (batch.n_steps,) and log_prob.dtype == np.float64,
        f"log_prob must return float64 of shape ({batch.n_steps},), one number per step",
    )
    _require(not (np.isnan(log_prob) | np.isposinf(log_prob)).any(), "log_prob must not be NaN or +inf")
    # Estimators may drop what is negligible.
    seen = batch.weights > 1e-6 * batch.weights.max()
    _require(bool(np.isfinite(log_prob[seen]).all()), "log_prob must be finite where the batch has been")


def _views_agree(
    estimator: OccupancyEstimator, batch: Batch, observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> None:
    """``log_prob``, ``points`` and ``measure`` tell the same λ̂."""
    points, measure = estimator.points(batch.observations, batch.actions, batch.costs), estimator.measure()
    density = estimator.mass_ * np.exp(estimator.log_prob(batch.observations, batch.actions))
    _require(
        points.density.shape == points.state_density.shape == (batch.n_steps,),
        f"points must have density and state_density of shape ({batch.n_steps},)",
    )
    _require(np.allclose(points.density, density, rtol=1e-9), "points().density must be mass_ · exp(log_prob)")
    _require(_equal(dict(points.costs), dict(batch.costs)), "points must carry the costs that it is given")
    _require(
        measure.weights.shape == measure.points.density.shape and bool((measure.weights >= 0.0).all()),
        "measure().weights must not be negative, and of the shape of its points",
    )
    _require(np.isclose(measure.weights.sum(), estimator.mass_, rtol=1e-6), "measure().weights must sum to mass_")
    _require(
        _equal(dict(measure.expected_costs), dict(estimator.expected_costs_)), "measure() must carry expected_costs_"
    )
    if estimator.table_shape() is None:
        return
    _require(bool((points.state_density >= points.density * (1.0 - 1e-9)).all()), "state_density must be Σ_a density")
    cells = estimator.encode(batch.observations, batch.actions)
    if estimator.is_dense:
        _require(measure.weights.shape == estimator.table_shape(), "a dense measure must be a table of all cells")
        observation, action = observation_space.sample(), action_space.sample()
        rows = [np.asarray(as_row(*pair))[None] for pair in ((observation_space, observation), (action_space, action))]
        _require(estimator.cell(observation, action) == estimator.encode(*rows)[0], "cell and encode must number alike")
    _require(np.allclose(_weights_at(measure, cells), density, rtol=1e-9), "measure() and log_prob must agree on cells")


def _weights_at(measure: Measure, cells: IntArray) -> FloatArray:
    if measure.points.cells is None:
        table: FloatArray = measure.weights.reshape(-1)[cells]
        return table
    known = dict(zip(measure.points.cells.tolist(), measure.weights.tolist(), strict=True))
    return np.array([known.get(cell, 0.0) for cell in cells.tolist()])


def _same_estimate(first: OccupancyEstimator, second: OccupancyEstimator, batch: Batch, message: str) -> None:
    for estimator in (first, second):
        _require(estimator.is_fitted, f"{message}: there is no estimate")
    one, other = (estimator.log_prob(batch.observations, batch.actions) for estimator in (first, second))
    _require(np.array_equal(one, other), f"{message}: log_prob differs")
    _require(first.mass_ == second.mass_, f"{message}: mass_ is {first.mass_} and {second.mass_}")
    _require(first.expected_costs_ == second.expected_costs_, f"{message}: expected_costs_ differ")


def check_functional(functional: Functional, occupancy_table: Any, *, n_directions: int = 8, seed: int = 0) -> None:
    """Check value and derivative of a functional on a finite space, the derivative against finite differences.

    Convexity is not checked.

    Args:
        functional: differentiable at the table. One of observed costs (``LinearCost("cost")``) has no value there.
        occupancy_table: λ(s, a), ``(n_states, n_actions)``. Directions leave its zeros zero: give a positive table.
        n_directions: how many random directions are tried.
        seed: of the directions.

    Raises:
        AssertionError: what is wrong.

    >>> from constrained_maxent.functionals import Entropy
    >>> check_functional(Entropy(), [[0.5, 0.25], [0.125, 0.125]])
    """
    table = np.array(occupancy_table, dtype=np.float64)
    given = table.copy()
    value, derivative = functional.value(table), functional.derivative(table)
    _require(np.array_equal(table, given), "value and derivative must not change the table")
    _require(type(value) is float and bool(np.isfinite(value)), f"value must be a finite float, got {value!r}")
    _require(
        derivative.shape == table.shape and derivative.dtype == np.float64,
        f"derivative must be float64 of shape {table.shape}, got {derivative.dtype} of shape {derivative.shape}",
    )
    _require(bool(np.isfinite(derivative).all()), "derivative must be finite")
    _require(functional.value(Measure.from_table(table)) == value, "a table and its measure must have the same value")

    rng = np.random.default_rng(seed)
    cells = rng.permutation(table.size)[: max(1, table.size // 2)]
    states = cells // table.shape[1]
    points = Points(density=table.reshape(-1)[cells], state_density=table.sum(axis=1)[states], cells=cells)
    _require(
        np.allclose(functional.derivative(table, at=points), derivative.reshape(-1)[cells], rtol=1e-9),
        "derivative(λ, at=points) must be the entries of derivative(λ) at the points' cells",
    )
    step = 1e-4
    for _ in range(n_directions):
        direction = table * rng.uniform(-1.0, 1.0, table.shape)
        ahead, behind = (functional.value(table + sign * step * direction) for sign in (1.0, -1.0))
        difference, slope = (ahead - behind) / (2.0 * step), float(np.sum(derivative * direction))
        tolerance = 1e-6 * (float(np.sum(np.abs(derivative * direction))) + abs(value)) + 1e-12
        _require(
            abs(difference - slope) <= tolerance,
            f"the derivative must match finite differences: it gives {slope:g} along a direction in which the value "
            f"changes by {difference:g}",
        )


def check_constrained_env(
    env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any], n_batches: int = 2, *, max_steps: int = 100_000
) -> None:
    """Step a stack with ``TrackOccupancy`` in it by sampled actions, and check what it adds to ``info``.

    It begins a new batch, and resets the environment once in the middle of an episode, after the first batch.

    Args:
        env: scalar or vector.
        n_batches: how many batches to watch.
        max_steps: how many calls of ``step`` may pass until they have ended.

    Raises:
        AssertionError: what is wrong.
        MissingTracker: there is no ``TrackOccupancy``.

    >>> import constrained_maxent
    >>> check_constrained_env(gym.make("FrozenLake-PGP-v0"))
    """
    watch = _Watch(env)
    env.action_space.seed(0)
    watch.reset(seed=0, options={NEW_BATCH: True})
    has_reset = False
    for _ in range(max_steps):
        watch.step()
        if watch.n_reports >= n_batches:
            return
        if watch.n_reports == 1 and not has_reset:
            watch.step()
            watch.reset()
            has_reset = True
    raise AssertionError(f"only {watch.n_reports} of {n_batches} batches ended within {max_steps} steps")


class _Watch:
    """Keeps its own record of the steps of a stack, scalar or vector, and holds the stack's reports against it."""

    def __init__(self, env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> None:
        self.env: Any = env
        self.tracker = find_tracker(env)
        self.is_vector = isinstance(env, gym.vector.VectorEnv)
        self.num_envs = env.num_envs if isinstance(env, gym.vector.VectorEnv) else 1
        self.mode = env.metadata.get("autoreset_mode") if self.is_vector else None
        self.calls = -1
        self.first_call_of_batch = 0
        self.n_reports = 0
        self.iteration = self.tracker.iteration
        self.active = np.zeros(self.num_envs, dtype=bool)
        self.time = np.zeros(self.num_envs, dtype=np.int64)
        # (sub-environment, call) of every step that no report has covered yet: its time, reward and readiness.
        self.steps: dict[tuple[int, int], tuple[int, float, bool]] = {}

    def reset(self, **arguments: Any) -> None:
        _, info = self.env.reset(**arguments)
        mask = (arguments.get("options") or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool))
        self.active[mask], self.time[mask] = True, 0
        self._check_report(info)

    def step(self) -> None:
        _, reward, terminated, truncated, info = self.env.step(self.env.action_space.sample())
        self.calls += 1
        self._record(np.atleast_1d(reward), info)
        done = np.atleast_1d(np.logical_or(terminated, truncated)) & self.active
        if self.mode is AutoresetMode.NEXT_STEP:
            # Sub-environments between two episodes were reset by this call.
            self.time[~self.active] = 0
            self.active = ~done
        elif self.mode is AutoresetMode.SAME_STEP:
            self.time[done] = 0
        else:
            self.active &= ~done
        self._check_report(info)
        if not self.is_vector and done[0]:
            self.reset()
        elif self.mode is AutoresetMode.DISABLED and done.any():
            self.reset(options={"reset_mask": done})

    def _entry(self, info: Mapping[str, Any], key: str, kind: type) -> Any:
        """One entry of ``info`` as an array ``(num_envs,)``, checked."""
        _require(key in info, f"info[{key!r}] must be there on every step")
        value = info[key]
        if not self.is_vector:
            _require(isinstance(value, kind), f"info[{key!r}] must be a {kind.__name__}, got {value!r}")
        entry = np.atleast_1d(value)
        _require(
            entry.shape == (self.num_envs,) and entry.dtype == np.dtype(kind),
            f"info[{key!r}] must be one {kind.__name__} per sub-environment, got {entry.dtype} of shape {entry.shape}",
        )
        _require(bool(np.isfinite(entry).all()), f"info[{key!r}] must be finite, got {value}")
        return entry

    def _record(self, reward: Any, info: Mapping[str, Any]) -> None:
        total, ready = self._entry(info, "pseudo_reward", float), self._entry(info, "pseudo_reward_ready", bool)
        names = self.tracker.problem.term_names
        parts = [self._entry(info, f"pseudo_reward_{name}", float) for name in names]
        _require(
            np.allclose(sum(parts, np.zeros(self.num_envs)), total, rtol=1e-9),
            f"info['pseudo_reward'] must be the sum of its parts {', '.join(names)}",
        )
        if self.is_vector:
            mask = np.asarray(info.get("_pseudo_reward", np.ones(self.num_envs, dtype=bool)))
            _require(
                np.array_equal(mask, self.active),
                "infos['_pseudo_reward'] must be True for the sub-environments that took a step of an episode",
            )
            _require(not ready[~self.active].any(), "a step that only resets must not be ready")
        if "original_reward" in info:
            _require(
                np.array_equal(reward, total), "where info keeps original_reward, the reward must be the pseudo-reward"
            )
        for i in np.flatnonzero(self.active).tolist():
            self.steps[i, self.calls] = (int(self.time[i]), float(total[i]), bool(ready[i]))
        self.time += self.active

    def _check_report(self, info: Mapping[str, Any]) -> None:
        if "batch" not in info:
            return
        report = info["batch"]
        missing = REPORT_KEYS - report.keys()
        _require(not missing, f"info['batch'] lacks {', '.join(sorted(missing))}")
        iteration = self.iteration + self.n_reports
        _require(report["iteration"] == iteration, f"iteration must be {iteration}, got {report['iteration']}")
        constraints = list(self.tracker.problem.constraints)
        for key in ("constraints", "multipliers"):
            _require(list(report[key]) == constraints, f"info['batch'][{key!r}] must name {constraints}")
        for key in ("pseudo_rewards", "ready", "weights", "sub_environments", "started_ago"):
            _require(
                isinstance(report[key], list) and len(report[key]) == report["episodes"],
                f"info['batch'][{key!r}] must be a list of {report['episodes']} entries, one per trajectory",
            )
        lengths = [len(rewards) for rewards in report["pseudo_rewards"]]
        _require(sum(lengths) == report["steps"], f"steps is {report['steps']}, but there are {sum(lengths)} rewards")
        for i in range(report["episodes"]):
            self._check_trajectory(report, i)
        self.n_reports += 1
        self.first_call_of_batch = self.calls + 1

    def _check_trajectory(self, report: Mapping[str, Any], i: int) -> None:
        """One trajectory of a report against the steps that were seen; takes them off the record."""
        rewards, ready, weights = (report[key][i] for key in ("pseudo_rewards", "ready", "weights"))
        _require(isinstance(ready, bool), f"ready must list bools, got {ready!r}")
        _require(bool(np.isfinite(rewards).all()), f"the pseudo-rewards of trajectory {i} must be finite")
        env, first = report["sub_environments"][i], self.calls - report["started_ago"][i]
        keys = [(env, first + k) for k in range(len(rewards))]
        _require(
            all(key in self.steps for key in keys),
            f"trajectory {i} must be {len(rewards)} steps that sub-environment {env} took from call {first} on, "
            "in no batch before",
        )
        seen = [self.steps.pop(key) for key in keys]
        times = [time for time, _, _ in seen]
        _require(times == list(range(times[0], times[0] + len(times))), f"trajectory {i} must be steps of one episode")
        _require(
            len(weights) == len(times) and np.allclose(weights, self.tracker.weighting.weights(times), rtol=1e-9),
            f"the weights of trajectory {i} must be w_t of its times",
        )
        for (_, call), (_, live, was_ready), reward in zip(keys, seen, rewards, strict=True):
            # Rewards of steps before this batch came from another estimate.
            if was_ready and call >= self.first_call_of_batch:
                _require(
                    bool(np.isclose(live, reward, rtol=1e-9)),
                    f"a ready live reward must be the one handed over, got {live} and {reward}",
                )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message + ".")


def _equal(first: Any, second: Any) -> bool:
    """Equality that looks into dictionaries and arrays."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_equal(first[key], second[key]) for key in first)
    return bool(np.array_equal(first, second))


def _require_plain(value: Any, where: str) -> None:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            _require_plain(entry, f"{where}[{key!r}]")
        return
    _require(
        value is None
        or isinstance(value, (bool, int, float, str, np.number))
        or (isinstance(value, np.ndarray) and value.dtype != object),
        f"{where} must be numbers, strings and NumPy arrays only, got {type(value).__name__}",
    )
