"""The contract of an occupancy estimator."""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.errors import NotFitted
from constrained_maxent.occupancy import OccupancyEstimator, estimator_config, estimator_from_config
from constrained_maxent.spaces import as_row
from constrained_maxent.testing.assertions import equal, require, require_plain
from constrained_maxent.types import Batch


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
            If it has states, the density is checked over them; log-probabilities are left out.
        observation_space: space of the batch's observations, or of its states if it has them.
        action_space: space of its actions.

    Raises:
        AssertionError: what is wrong.

    >>> space = gym.spaces.Discrete(2)
    >>> batch = Batch(observations=np.array([0, 0, 1]), actions=np.array([1, 1, 0]), lengths=np.array([3]))
    >>> from constrained_maxent.occupancy import Counts
    >>> check_estimator(Counts(memory=0.5), batch, space, space)
    """
    # Without log π a density of the state stands alone, so that all views must tell the same.
    batch = replace(batch, log_probs=None)

    def bound() -> OccupancyEstimator:
        made = _same_parameters(estimator)
        require(made.bind(observation_space, action_space) is made, "bind must return the estimator itself")
        return made

    fresh = bound()
    _refuses_before_fit(fresh, batch)
    accepted = inspect.signature(fresh.fit).parameters
    require("progress" in accepted, "fit must take progress=, the share of the run that is over")
    require(fresh.fit(batch, progress=0.0) is fresh, "fit must return the estimator itself")
    _is_an_estimate(fresh, batch)
    _views_agree(fresh, batch, observation_space, action_space)
    _same_estimate(fresh, bound().fit(batch), batch, "two fits of equal estimators to one batch must agree exactly")

    state = fresh.state_dict()
    require_plain(state, "state_dict()")
    kept = copy.deepcopy(state)
    restored = bound()
    restored.load_state_dict(state)
    _same_estimate(fresh, restored, batch, "load_state_dict must restore what state_dict returned")
    part = batch.take(0, max(1, len(batch) // 2))
    _same_estimate(fresh.fit(part), restored.fit(part), part, "a restored estimator must go on as the original does")
    require(equal(state, kept), "a later fit must leave the result of state_dict as it was: copy the arrays")
    _same_estimate(fresh, copy.deepcopy(fresh), part, "a copy must be the same estimate")
    fresh.bind(observation_space, action_space)
    require(not fresh.is_fitted, "bind must forget everything learnt")
    alone = bound().fit(batch).fresh().bind(observation_space, action_space)
    require(not alone.is_fitted, "fresh() must return an unfitted estimator")
    _sums_of(alone.fit(batch).fit(part), part, "as what fresh() returns must not remember earlier batches")


def _same_parameters(estimator: OccupancyEstimator) -> OccupancyEstimator:
    parameters = estimator.get_params()
    made = type(estimator)(**parameters)
    require(equal(made.get_params(), parameters), "get_params must return the arguments that make an equal estimator")
    again = estimator_from_config(estimator_config(estimator))
    require(
        type(again) is type(estimator) and equal(again.get_params(), parameters),
        "the constructor must take its arguments as plain data, lists for tuples",
    )
    for name, value in parameters.items():
        require(
            hasattr(made, name) and equal(getattr(made, name), value),
            f"the constructor must only store its arguments: attribute {name!r} is not what was given",
        )
    learnt = [name for name in vars(made) if name.endswith("_") and not name.startswith("_")]
    require(not learnt, f"the constructor must not learn: it set {', '.join(learnt)}")
    return made


def _refuses_before_fit(estimator: OccupancyEstimator, batch: Batch) -> None:
    require(not estimator.is_fitted, "an estimator must not be fitted before fit")
    for name, arguments in {
        "log_prob": (batch.places, batch.actions),
        "points": (batch.places, batch.actions),
        "measure": (),
    }.items():
        try:
            getattr(estimator, name)(*arguments)
        except NotFitted:
            continue
        raise AssertionError(f"{name} must raise NotFitted before fit")


def _is_an_estimate(estimator: OccupancyEstimator, batch: Batch) -> None:
    _sums_of(estimator, batch, "after the first fit")
    log_prob = estimator.log_prob(batch.places, batch.actions)
    require(
        isinstance(log_prob, np.ndarray) and log_prob.shape == (batch.n_steps,) and log_prob.dtype == np.float64,
        f"log_prob must return float64 of shape ({batch.n_steps},), one number per step",
    )
    require(not (np.isnan(log_prob) | np.isposinf(log_prob)).any(), "log_prob must not be NaN or +inf")
    # Estimators may drop what is negligible.
    seen = batch.weights > 1e-6 * batch.weights.max()
    require(bool(np.isfinite(log_prob[seen]).all()), "log_prob must be finite where the batch has been")


def _sums_of(estimator: OccupancyEstimator, batch: Batch, when: str) -> None:
    """Mass and costs are those of the batch alone."""
    mass = batch.weights.sum() / batch.n_episodes
    require(
        isinstance(estimator.mass_, float) and np.isclose(estimator.mass_, mass, rtol=1e-9),
        f"mass_ must be the float Σ weights / n_episodes = {float(mass)!r} {when}, got {estimator.mass_!r}",
    )
    costs = {name: batch.weights @ cost / batch.n_episodes for name, cost in batch.costs.items()}
    known = estimator.expected_costs_
    require(
        known.keys() == costs.keys() and all(np.isclose(known[name], costs[name], rtol=1e-9) for name in costs),
        f"expected_costs_ must be Σ weights · cost / n_episodes = {costs} {when}, got {known}",
    )


def _views_agree(
    estimator: OccupancyEstimator, batch: Batch, observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> None:
    """``log_prob``, ``points`` and ``measure`` tell the same λ̂."""
    points, measure = estimator.points_of(batch), estimator.measure()
    density = estimator.mass_ * np.exp(estimator.log_prob(batch.places, batch.actions))
    require(
        points.density.shape == points.state_density.shape == (batch.n_steps,),
        f"points must have density and state_density of shape ({batch.n_steps},)",
    )
    require(np.allclose(points.density, density, rtol=1e-9), "points().density must be mass_ · exp(log_prob)")
    require(equal(dict(points.costs), dict(batch.costs)), "points must carry the costs that it is given")
    require(
        measure.weights.shape == measure.points.density.shape and bool((measure.weights >= 0.0).all()),
        "measure().weights must not be negative, and of the shape of its points",
    )
    require(np.isclose(measure.weights.sum(), estimator.mass_, rtol=1e-6), "measure().weights must sum to mass_")
    require(
        equal(dict(measure.expected_costs), dict(estimator.expected_costs_)), "measure() must carry expected_costs_"
    )
    if estimator.table_shape() is None:
        _speaks_anywhere(estimator, batch, observation_space)
        return
    require(bool((points.state_density >= points.density * (1.0 - 1e-9)).all()), "state_density must be Σ_a density")
    cells = estimator.encode(batch.places, batch.actions)
    if estimator.is_dense:
        require(measure.weights.shape == estimator.table_shape(), "a dense measure must be a table of all cells")
        observation, action = observation_space.sample(), action_space.sample()
        rows = [np.asarray(as_row(*pair))[None] for pair in ((observation_space, observation), (action_space, action))]
        require(estimator.cell(observation, action) == estimator.encode(*rows)[0], "cell and encode must number alike")
    weights, known = measure.weights.reshape(-1), measure.points.cells
    table = dict(zip(range(weights.size) if known is None else known.tolist(), weights.tolist(), strict=True))
    on_cells = [table.get(cell, 0.0) for cell in cells.tolist()]
    require(np.allclose(on_cells, density, rtol=1e-9), "measure() and log_prob must agree on cells")


def _speaks_anywhere(estimator: OccupancyEstimator, batch: Batch, observation_space: gym.Space[Any]) -> None:
    """A density is a number at one place as at many, and however far away."""
    if not isinstance(observation_space, gym.spaces.Box):
        return
    places, actions = batch.places, batch.actions
    one = estimator.log_prob(places[:1], actions[:1])
    many = estimator.log_prob(places, actions)
    require(np.allclose(one, many[:1], rtol=1e-9, atol=1e-9), "log_prob must be the same for one place as among many")
    far = estimator.log_prob(places + 1e6, actions)
    require(not np.isnan(far).any(), "log_prob must not be NaN far away")
    measured = estimator.measure().points
    require(
        bool(np.isfinite(measured.density).all() and np.isfinite(measured.state_density).all()),
        "the densities of measure() must be finite",
    )


def _same_estimate(first: OccupancyEstimator, second: OccupancyEstimator, batch: Batch, message: str) -> None:
    for estimator in (first, second):
        require(estimator.is_fitted, f"{message}: there is no estimate")
    one, other = (estimator.log_prob(batch.places, batch.actions) for estimator in (first, second))
    require(np.array_equal(one, other), f"{message}: log_prob differs")
    require(first.mass_ == second.mass_, f"{message}: mass_ is {first.mass_} and {second.mass_}")
    require(first.expected_costs_ == second.expected_costs_, f"{message}: expected_costs_ differ")
