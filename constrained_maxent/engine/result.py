"""What the engine hands back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from constrained_maxent.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class TabularResult:
    """All runs, from their first batch on. The first axis of every array is the run.

    What is recorded is what the run itself sees: λ̂ with its memory, entropies with their smoothing. A batch that a run
    did not reach, because it diverged or was interrupted, is NaN.

    Attributes:
        iterations: batches done, ``(n_runs,)``.
        transitions: steps taken in the MDP, ``(n_runs,)``.
        diverged: the batch in which the gradient or the step was no longer finite, -1 where they always were,
            ``(n_runs,)``. Such a run stops there, with the θ that it had.
        theta: θ at the end, ``(n_runs, n_states, n_actions)``.
        multipliers: μ of the penalties at the end, by constraint, each ``(n_runs,)``; β of an ``AdaptiveQuadratic``.
        snapshot_iterations: after how many batches the snapshots were taken, ``(n_snapshots,)``.
        snapshots: θ there, ``(n_runs, n_snapshots, n_states, n_actions)``.
        record_iterations: numbers of the recorded batches, ``(n_records,)``.
        objective: F(λ̂) of these batches, ``(n_runs, n_records)``.
        constraints: R(λ̂) by name, each ``(n_runs, n_records)``; satisfied where ≤ 0.
        slopes: ℒ'(R) by name, each ``(n_runs, n_records)``: what multiplies the constraint's pseudo-reward.
    """

    iterations: IntArray
    transitions: IntArray
    diverged: IntArray
    theta: FloatArray
    multipliers: Mapping[str, FloatArray]
    snapshot_iterations: IntArray
    snapshots: FloatArray
    record_iterations: IntArray
    objective: FloatArray
    constraints: Mapping[str, FloatArray]
    slopes: Mapping[str, FloatArray]

    @property
    def policies(self) -> FloatArray:
        """π(a|s) at the end, ``(n_runs, n_states, n_actions)``."""
        return _policies(self.theta)

    @property
    def snapshot_policies(self) -> FloatArray:
        """π(a|s) at the snapshots, ``(n_runs, n_snapshots, n_states, n_actions)``."""
        return _policies(self.snapshots)

    def __repr__(self) -> str:
        runs, least, most = len(self.iterations), min(self.iterations), max(self.iterations)
        done = f"{least}" if least == most else f"{least} to {most}"
        return f"TabularResult({runs} runs of {done} batches, {int(self.transitions.sum()):,} transitions)"


def _policies(theta: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", over="ignore"):  # NaN where a run never came; θ may be as large as floats get
        policies: FloatArray = softmax(theta, axis=-1)
    return policies
