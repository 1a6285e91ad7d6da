"""Batches in, pseudo-rewards out: the engine that ``TrackOccupancy`` and its vector twin share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import CheckpointMismatch, InvalidData, InvalidSetting
from constrained_maxent.functionals import Functional, Source
from constrained_maxent.occupancy import OccupancyEstimator, Weighting
from constrained_maxent.penalties import Penalty
from constrained_maxent.problem import Constraint, Evaluation, Problem, PseudoReward
from constrained_maxent.types import Batch, FloatArray, IntArray, Points, as_array, require_finite
from constrained_maxent.wrappers.states import LogProb

Pairing = Literal["split", "same", "previous"]
"""Which estimate goes with which reward: fitted on the batch's first half and used on its second (the paper's
Algorithm 1), fitted on the whole batch and handed over at its end, or fitted on the batch before and live."""


class Tracker:
    """Fits λ̂ at the end of every batch and turns it into the pseudo-rewards of the penalized problem.

    Args:
        estimator: bound to the spaces already.
        weighting: discount weights and scale.
        pairing: see :data:`Pairing`.

    Attributes:
        problem: objective and constraints, which the wrappers above ``TrackOccupancy`` declare.
        iteration: batches closed so far.
        live: the pseudo-reward of the latest fit, ``None`` before the first.
        live_is_ready: whether ``live`` belongs to the gradient of the policy that acts now.
        cost_sources: where each recorded cost comes from: a key of ``info``, or a function.
        last_batch: the batch closed last.
        agent_defaults: hyperparameters that suit this problem, by their names in ``PGPSettings``: what the -PGP- ids
            suggest to ``PGP``.
        policy_log_prob: log π(a|s) of the policy that acts, for estimates λ̂(s,a) = d̂(s)·π(a|s); ``None`` where
            unknown. Called once with every step, with the rows recorded for it; an agent that keeps pre-squashing
            actions may put a function here that returns what it knows of the actions it has just sampled. Change it
            only where a batch begins.
        refit: how λ̂ takes a batch, for an agent that knows better than ``estimator.fit``, which is asked where this is
            ``None``. It changes ``estimator``, or leaves it as it is to hold the pseudo-rewards fixed.
    """

    def __init__(self, estimator: OccupancyEstimator, weighting: Weighting, *, pairing: Pairing) -> None:
        if pairing not in get_args(Pairing):
            raise InvalidSetting(f"pairing={pairing!r} must be one of {', '.join(get_args(Pairing))}.")
        self.estimator = estimator
        self._unfitted = deepcopy(estimator)
        self.weighting = weighting
        self.pairing = pairing
        self.problem = Problem()
        self.iteration = 0
        self.live: PseudoReward | None = None
        self.live_is_ready = False
        self.cost_sources: dict[str, Source] = {}
        self.last_batch: Batch | None = None
        self.policy_log_prob: LogProb | None = None
        self.refit: Callable[[Batch], object] | None = None
        self.agent_defaults: dict[str, Any] = {}
        self._evaluation: Evaluation | None = None
        self._half_is_fitted = False
        self._is_open = True

    # Declarations, by the wrappers above.

    def set_objective(self, objective: Functional) -> None:
        """Declare the objective, before the first reset."""
        self._require_open()
        self._require_fit(objective)
        objective, sources = objective.observing("objective")
        self.problem.set_objective(objective)
        self.cost_sources |= sources

    def add_constraint(self, name: str, functional: Functional, penalty: Penalty) -> None:
        """Declare a constraint, before the first reset. A cost that is a function is recorded under ``<name>()``."""
        self._require_open()
        self._require_fit(functional)
        functional, sources = functional.observing(name)
        self.problem.add_constraint(name, Constraint(functional, penalty))
        self.cost_sources |= sources

    def _require_open(self) -> None:
        if not self._is_open:
            raise InvalidSetting(
                "Objective and constraints are declared before the first reset(): wrap first, then reset."
            )

    def _require_fit(self, functional: Functional) -> None:
        functional.require_trainable()
        shape = self.estimator.table_shape()
        if shape is not None:
            functional.check(*shape)
        self._require_same_angles(functional)

    def _require_same_angles(self, functional: Functional) -> None:
        """Of two densities over different circles, one has mass where the other has none."""
        ours = getattr(self.estimator, "periodic", None)
        theirs = functional.periodic
        if ours is not None and theirs is not None and set(ours) != set(theirs):
            raise InvalidData(
                f"The reference has the angles periodic={sorted(theirs)}, the estimator periodic={sorted(ours)}: "
                "densities are compared over one state, so give both the same periodic=."
            )

    def seal(self) -> None:
        """The environment is in use: nothing more can be declared."""
        self._is_open = False

    # Steps.

    def log_probs(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray | None:
        """Log π of one step's actions, ``(n,)``; ``None`` where the policy is unknown.

        Raises:
            InvalidData, NonFiniteValue: ``policy_log_prob`` does not return one finite number per row.
        """
        if self.policy_log_prob is None:
            return None
        log_probs = as_array("policy_log_prob(...)", self.policy_log_prob(observations, actions), np.float64)
        if log_probs.shape != (len(observations),):
            raise InvalidData(f"policy_log_prob must return shape ({len(observations)},), got {log_probs.shape}.")
        require_finite("policy_log_prob(...)", log_probs)
        return log_probs

    def points(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        costs: Mapping[str, FloatArray],
        states: NDArray[Any] | None,
        log_probs: FloatArray | None,
    ) -> Points:
        """λ̂ at the given places; what is ``None`` is unknown, and no estimator is asked about it."""
        known: dict[str, Any] = {} if states is None else {"states": states}
        if log_probs is not None:
            known["log_probs"] = log_probs
        return self.estimator.points(observations, actions, costs, **known)

    # Batches.

    def fit_half(self, first_half: Batch) -> None:
        """Pairing ``split``: fit the first half as soon as it is complete, so that the second gets live rewards."""
        self._fit(first_half)
        self._half_is_fitted = self.live_is_ready = True

    def close(self, batch: Batch, *, n_first: int) -> dict[str, Any]:
        """End a batch: fit, evaluate, hand over the rewards, let penalties follow.

        Args:
            batch: the trajectories, in the order in which they started.
            n_first: how many of them are the first half; only pairing ``split`` asks.

        Returns:
            ``info["batch"]``: iteration, episodes (trajectories), steps, episode_count (whole
            episodes that they stand for), objective, constraints (R by name), multipliers (ℒ' by name),
            penalty, discount; and one entry per trajectory in each of the lists ``pseudo_rewards``, ``ready`` and
            ``weights`` (w_t of each step).
        """
        try:
            return self._close(batch, n_first)
        finally:
            self.restart_batch()

    def _close(self, batch: Batch, n_first: int) -> dict[str, Any]:
        if self.pairing == "previous":
            rewards = self.rewards_of(batch)
            ready = [self.live is not None] * len(batch)
            evaluation = self._fit(batch)
        else:
            if self.pairing == "same":
                self._fit(batch)
            elif not self._half_is_fitted:
                self._fit(batch.take(0, n_first))
            assert self._evaluation is not None
            evaluation = self._evaluation
            rewards = self.rewards_of(batch)
            ready = [self.pairing == "same" or i >= n_first for i in range(len(batch))]
        report = {
            "iteration": self.iteration,
            "episodes": len(batch),
            "steps": batch.n_steps,
            "episode_count": batch.n_episodes,
            "objective": evaluation.objective,
            "constraints": dict(evaluation.constraints),
            "multipliers": {
                name: constraint.penalty.slope(evaluation.constraints[name])
                for name, constraint in self.problem.constraints.items()
            },
            "penalty": evaluation.penalty,
            "discount": self.weighting.discount,
            # Lists, not arrays: Gymnasium's vector environments stack arrays of info and fail on unequal lengths.
            "pseudo_rewards": batch.split(rewards),
            "ready": ready,
            "weights": batch.split(batch.weights),
        }
        self.iteration += 1
        self.last_batch = batch
        if self.problem.update_penalties(evaluation):
            self._refresh()
        return report

    def restart_batch(self) -> None:
        """The batch under way is forgotten: its second half has no estimate of its own any more."""
        self._half_is_fitted = False
        self.live_is_ready = self.pairing == "previous" and self.live is not None

    def count_episodes(self, starts: IntArray, lengths: IntArray, ended: NDArray[np.bool_]) -> float:
        """Whole episodes that a batch of fragments stands for.

        If every episode lasts the whole horizon, steps tell it without noise; else the number of episodes
        begun is, on average over batches, what the sum of weights belongs to.

        Args:
            starts: time of each fragment's first step within its episode, ``(n_trajectories,)`` [steps].
            lengths: their steps, ``(n_trajectories,)``.
            ended: whether their episodes end with them, ``(n_trajectories,)``.
        """
        horizon = self.weighting.horizon
        if horizon is not None and not (ended & (starts + lengths < horizon)).any():
            return float(lengths.sum()) / horizon
        return max(float(np.count_nonzero(starts == 0)), 1.0)

    def _fit(self, batch: Batch) -> Evaluation:
        if self.refit is None:
            self.estimator.fit(batch)
        else:
            self.refit(batch)
        return self._refresh()

    def _refresh(self) -> Evaluation:
        """Recompute the live pseudo-reward from the estimate and the penalties as they are now."""
        measure = self.estimator.measure()
        self._evaluation = self.problem.evaluate(measure)
        self.live = self.problem.pseudo_reward(measure, self._evaluation)
        return self._evaluation

    def rewards_of(self, batch: Batch) -> FloatArray:
        """Live pseudo-rewards of every step, ``(n_steps,)``; zeros before the first fit."""
        if self.live is None:
            return np.zeros(batch.n_steps)
        if self.live.is_tabular:
            parts = self.live.at_cells(self.estimator.encode(batch.observations, batch.actions), batch.costs)
        else:
            parts = self.live.at(self.estimator.points_of(batch))
        return sum(parts.values(), np.zeros(batch.n_steps))

    def fit_afresh(self, batch: Batch) -> Evaluation:
        """Forget what λ̂ learnt, memory included, fit it to this batch alone, and evaluate; penalties stay."""
        self.estimator = deepcopy(self._unfitted).fit(batch)
        evaluation = self._refresh()
        self.restart_batch()
        return evaluation

    def twin(self) -> Tracker:
        """Another engine of the same problem, with a copy of the estimate and penalties of its own."""
        twin = copy(self)
        twin.estimator = deepcopy(self.estimator)
        twin.problem = Problem(self.problem.objective, dict(self.problem.constraints))
        twin.refit = twin.policy_log_prob = twin.last_batch = None
        return twin

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """What continues a run at a batch's end: estimate, multipliers, iteration. Plain data and arrays."""
        return {
            "estimator": self.estimator.state_dict(),
            "penalties": {name: state for name, state in self._penalty_states().items() if state},
            "terms": list(self.problem.term_names),
            "iteration": self.iteration,
        }

    def _penalty_states(self) -> dict[str, dict[str, float]]:
        return {name: constraint.penalty.state_dict() for name, constraint in self.problem.constraints.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned.

        Raises:
            CheckpointMismatch: it belongs to other constraints, spaces or another estimator. Nothing is changed then.
        """
        if list(state["terms"]) != list(self.problem.term_names):
            raise CheckpointMismatch(
                f"The checkpoint was made with the terms {', '.join(state['terms'])}; this environment has "
                f"{', '.join(self.problem.term_names)}. Build the same stack of wrappers."
            )
        penalties = {}
        for name, here in self._penalty_states().items():
            there = state["penalties"].get(name, {})
            if there.keys() != here.keys():
                raise CheckpointMismatch(
                    f"The checkpoint's penalty of {name!r} changes its {', '.join(there) or 'nothing'}, this "
                    f"environment's its {', '.join(here) or 'nothing'}: give the constraint the same penalty."
                )
            try:
                penalties[name] = self.problem.constraints[name].penalty.with_state(there)
            except InvalidSetting as error:
                raise CheckpointMismatch(
                    f"The checkpoint's penalty of {name!r} does not fit this environment's: {error}"
                ) from error
        try:
            self.estimator.load_state_dict(state["estimator"])
        except InvalidData as error:
            raise CheckpointMismatch(f"The checkpoint's occupancy does not fit this environment: {error}") from error
        for name, penalty in penalties.items():
            self.problem.constraints[name] = replace(self.problem.constraints[name], penalty=penalty)
        self.iteration = int(state["iteration"])
        self.live = self._evaluation = None
        if self.estimator.is_fitted:
            self._refresh()
        self.restart_batch()
