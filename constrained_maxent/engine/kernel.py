"""The compiled loop: sampling, counting, pseudo-rewards, gradient step and multipliers, batch after batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from constrained_maxent.engine.compiled import inner, outermost
from constrained_maxent.engine.gradient import (
    add_returns,
    add_weighted_returns,
    correct_occupancy,
    follow,
    importance_weights,
    mark,
    softmax_gradient,
)
from constrained_maxent.engine.multipliers import Penalties, beta_of, slope, stepped, widened
from constrained_maxent.engine.sampling import Dynamics, Flags, count, remember, sample, softmax_rows
from constrained_maxent.engine.settings import ADAM, NATURAL, NORMALIZED, CompiledSettings, schedule_at
from constrained_maxent.engine.steps import adam_step, is_finite, natural_step, plain_step, pull_to_center
from constrained_maxent.engine.terms import Terms, marginal, measure, pseudo_rewards, spread
from constrained_maxent.types import FloatArray, IntArray

ITERATION, UPDATES, STEPS, DIVERGED = range(4)
"""Positions in ``State.counters``."""


class State(NamedTuple):
    """All that a run carries from one batch to the next. What no run of the engine uses has no rows.

    Attributes:
        theta: θ, ``(n_states, n_actions)``.
        occupancy: λ̂, flat, ``(n_cells,)``.
        mean, square: Adam's moments, of θ's shape.
        previous_theta, previous_rewards, direction: for momentum θ and the pseudo-rewards of the batch before, and d,
            of θ's shape.
        center: of the proximal term, of θ's shape.
        multipliers: ``(n_constraints,)``.
        peaks: largest violation of each constraint so far, at least 0, or NaN, ``(n_constraints,)``.
        counters: batches done, steps of θ, transitions, and in which batch the run diverged (-1: it did not).
    """

    theta: FloatArray
    occupancy: FloatArray
    mean: FloatArray
    square: FloatArray
    previous_theta: FloatArray
    previous_rewards: FloatArray
    direction: FloatArray
    center: FloatArray
    multipliers: FloatArray
    peaks: FloatArray
    counters: IntArray


class Trace(NamedTuple):
    """Where a run writes down what happens.

    Attributes:
        record_every, snapshot_every: batches between entries; 0 for none.
        objective: F(λ̂) of each recorded batch, ``(n_records,)``.
        violations, slopes: R(λ̂) and ℒ'(R), ``(n_records, n_constraints)``.
        snapshots: θ after every so many batches, from 0 on, ``(n_snapshots, n_states, n_actions)``.
    """

    record_every: int
    snapshot_every: int
    objective: FloatArray
    violations: FloatArray
    slopes: FloatArray
    snapshots: FloatArray


@inner
def beta_at(settings: CompiledSettings, penalties: Penalties, i: int, progress: float) -> float:
    """β of constraint i, that of all if there is one."""
    return schedule_at(settings.beta, progress) if settings.has_beta else beta_of(penalties, i, progress)


@inner
def set_slopes(
    settings: CompiledSettings,
    penalties: Penalties,
    state: State,
    progress: float,
    values: FloatArray,
    slopes: FloatArray,
) -> None:
    """ℒ'(R) of every constraint into ``slopes``; entry 0 of both arrays belongs to the objective."""
    for i in range(len(state.multipliers)):
        beta = beta_at(settings, penalties, i, progress)
        slopes[i + 1] = slope(penalties, i, beta, state.multipliers[i], state.peaks[i], values[i + 1])


@inner
def take_step(
    state: State,
    settings: CompiledSettings,
    progress: float,
    policy: FloatArray,
    gradient: FloatArray,
    squares: float,
    full_mass: float,
    visits: FloatArray,
    before: FloatArray,
    stale: Flags,
) -> bool:
    """Move θ along ``gradient``, whose squares sum to ``squares``; the rows that moved are stale.

    ``visits``, ``(n_states,)``, and ``before``, of θ's shape, are scratch.

    Returns:
        Whether θ is finite; if not, it is where it was.
    """
    before[:] = state.theta
    learning_rate, updates = schedule_at(settings.learning_rate, progress), state.counters[UPDATES]
    if settings.optimizer == ADAM:
        adam_step(state.theta, gradient, state.mean, state.square, learning_rate, settings.radius, updates, stale)
    elif settings.optimizer == NATURAL:
        damping = settings.damping * full_mass
        marginal(state.occupancy, gradient.shape[1], visits)
        natural_step(state.theta, gradient, policy, visits, damping, learning_rate, settings.radius, stale)
    elif settings.optimizer == NORMALIZED:
        if squares > 0.0:
            plain_step(state.theta, gradient, learning_rate / math.sqrt(squares), settings.radius, stale)
    else:
        plain_step(state.theta, gradient, learning_rate, settings.radius, stale)
    if is_finite(state.theta, stale):
        return True
    state.theta[:] = before
    return False


def _make_advance(digest: str) -> Callable[..., None]:
    def advance(
        dynamics: Dynamics,
        terms: Terms,
        penalties: Penalties,
        settings: CompiledSettings,
        key: np.uint64,
        state: State,
        trace: Trace,
        planned: float,
        target: int,
    ) -> None:
        """Train until ``target`` batches are done, or gradient or θ are not finite; schedules run over ``planned``."""
        digest  # noqa: B018  # enclosed, so that the cache depends on it
        n_states, n_actions = dynamics.n_states, dynamics.n_actions
        n_cells = n_states * n_actions
        first_used, use_baseline = settings.first_used, settings.use_baseline
        n_used = settings.n_episodes - first_used
        counters = state.counters
        policy, cumulative = np.empty((n_states, n_actions)), np.empty((n_states, n_actions - 1))
        stale, used = np.ones(n_states, dtype=np.uint8), np.zeros(n_cells, dtype=np.uint8)
        cells = np.empty((len(dynamics.weights), settings.n_episodes), dtype=np.int32)
        states, returns = np.empty(settings.n_episodes, dtype=np.int32), np.empty(settings.n_episodes)
        fresh, rewards, factors = np.empty(n_cells), np.zeros(n_cells), np.zeros(n_cells)
        gradient = np.zeros((n_states, n_actions))
        # Of the policy before, where momentum asks for it.
        n_old = n_states if settings.use_momentum else 0
        old_policy, old_gradient = np.empty((n_old, n_actions)), np.empty((n_old, n_actions))
        old_stale, ratios = np.ones(n_old, dtype=np.uint8), np.empty(n_old * n_actions)
        theta_now, importance = np.empty((n_old, n_actions)), np.ones(settings.n_episodes)
        full_mass = dynamics.weights.sum()
        values, slopes = np.full(len(terms.limits), np.nan), np.zeros(len(terms.limits))
        parts, state_occupancy = np.zeros(len(terms.kinds)), np.zeros(n_states)
        visits, theta_before = np.zeros(n_states), np.empty((n_states, n_actions))
        if counters[ITERATION] > 0:
            measure(terms, state.occupancy, state_occupancy, False, parts, values)

        while counters[ITERATION] < target:
            k = counters[ITERATION]
            progress = min(k / planned, 1.0)
            is_recorded = trace.record_every > 0 and k % trace.record_every == 0
            if trace.snapshot_every > 0 and k % trace.snapshot_every == 0:
                trace.snapshots[k // trace.snapshot_every] = state.theta
            softmax_rows(state.theta, stale, policy, cumulative)
            steps = sample(dynamics, cumulative, key, k, states, cells)
            has_estimate = k > 0
            if settings.use_momentum:
                alpha = schedule_at(settings.momentum, progress)
                if k > 0:
                    importance_weights(
                        state.theta, state.previous_theta, cells, settings.importance_bound, ratios, importance
                    )
                theta_now[:] = state.theta
            for turn in range(2):
                # Of the two halves of an iteration, estimate and step, the step comes first with pairing "previous".
                if (turn == 0) != settings.is_previous:
                    count(dynamics.weights, cells, settings.n_first, fresh)
                    if settings.use_momentum and k > 0:
                        correct_occupancy(
                            state.occupancy, fresh, dynamics.weights, cells, settings.n_first, importance, alpha
                        )
                    else:
                        share = schedule_at(settings.fresh_share, progress) if k > 0 else 1.0
                        remember(state.occupancy, fresh, share)
                    measure(terms, state.occupancy, state_occupancy, is_recorded, parts, values)
                    for i in range(len(state.peaks)):
                        if math.isnan(state.peaks[i]):
                            deviation = spread(terms, i + 1, parts, state.occupancy, state_occupancy, fresh, rewards)
                            if deviation > 0.0:
                                state.peaks[i] = deviation
                    has_estimate = True
                elif has_estimate:
                    set_slopes(settings, penalties, state, progress, values, slopes)
                    if settings.use_momentum:
                        used[:] = 1  # the next batch may ask for any of these rewards
                    else:
                        mark(cells, first_used, used)
                    pseudo_rewards(terms, slopes, parts, state.occupancy, state_occupancy, used, n_actions, rewards)
                    add_returns(dynamics.weights, rewards, cells, first_used, use_baseline, returns, factors)
                    squares = softmax_gradient(policy, n_used, used, factors, gradient, stale)
                    if settings.use_momentum:
                        has_old = counters[UPDATES] > 0
                        if has_old:
                            old = state.previous_rewards.reshape(n_cells)
                            add_weighted_returns(
                                dynamics.weights, old, cells, first_used, use_baseline, importance, returns, factors
                            )
                            old_stale[:] = 1
                            softmax_rows(state.previous_theta, old_stale, old_policy, cumulative)
                            used[:] = 1
                            softmax_gradient(old_policy, n_used, used, factors, old_gradient, stale)
                        squares = follow(state.direction, gradient, old_gradient, alpha, has_old)
                        state.previous_rewards[:] = rewards.reshape((n_states, n_actions))
                    if settings.use_proximal:
                        if counters[UPDATES] % settings.inner_iterations == 0:
                            state.center[:] = state.theta
                        squares = pull_to_center(gradient, state.theta, state.center, settings.proximal_weight)
                        stale[:] = 1
                    if not math.isfinite(squares):
                        counters[DIVERGED] = k
                        return
                    counters[UPDATES] += 1
                    if not take_step(
                        state, settings, progress, policy, gradient, squares, full_mass, visits, theta_before, stale
                    ):
                        counters[DIVERGED] = k
                        return
            if settings.use_momentum:
                state.previous_theta[:] = theta_now
            if is_recorded:
                set_slopes(settings, penalties, state, progress, values, slopes)
                entry = k // trace.record_every
                trace.objective[entry], trace.violations[entry], trace.slopes[entry] = values[0], values[1:], slopes[1:]
            for i in range(len(state.multipliers)):
                beta = beta_at(settings, penalties, i, progress)
                state.peaks[i] = widened(state.peaks[i], values[i + 1])
                state.multipliers[i] = stepped(penalties, i, beta, state.multipliers[i], state.peaks[i], values[i + 1])
            counters[STEPS] += steps
            counters[ITERATION] = k + 1
        if trace.snapshot_every > 0 and target % trace.snapshot_every == 0 and counters[ITERATION] == target:
            trace.snapshots[target // trace.snapshot_every] = state.theta

    return advance


advance = outermost(_make_advance)
