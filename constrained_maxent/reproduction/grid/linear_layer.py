r"""The policy that the paper's authors published: softmax of a linear layer of one-hot states, with a bias per action.

With :math:`\theta_{s,a} = W_{s,a} + b_a` and the gradient *g* of a table θ, that of *W* is *g* and that of *b* is its
sum over states. So plain steps of η on both move the table by

.. math:: \Delta\theta_{s,a} = \eta\, g_{s,a} + \eta \sum_{s'} g_{s',a}

What a run does depends on *W* and *b* through θ alone: the engine's own step on θ, the first term, is completed by its
sum over states, and nothing else is carried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.engine.compiled import inner, outermost
from constrained_maxent.engine.kernel import DIVERGED, ITERATION, State, Trace, advance
from constrained_maxent.engine.multipliers import Penalties
from constrained_maxent.engine.sampling import Dynamics, FiniteMDP
from constrained_maxent.engine.settings import CompiledSettings
from constrained_maxent.engine.terms import Terms
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import FloatArray


@inner
def complete_step(theta: FloatArray, before: FloatArray) -> None:
    """Add to every row of θ, ``(n_states, n_actions)``, what all rows together moved since ``before``."""
    n_states, n_actions = theta.shape
    for a in range(n_actions):
        moved = 0.0
        for s in range(n_states):
            moved += theta[s, a] - before[s, a]
        for s in range(n_states):
            theta[s, a] += moved


def _make_advance_layer(digest: str) -> Callable[..., None]:
    def advance_layer(
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
        """The engine's ``advance``, batch by batch, each with its step completed."""
        digest  # noqa: B018  # enclosed, so that the cache depends on it
        before = np.empty_like(state.theta)
        while state.counters[ITERATION] < target and state.counters[DIVERGED] < 0:
            before[:] = state.theta
            done = state.counters[ITERATION] + 1
            advance(dynamics, terms, penalties, settings, key, state, trace, planned, done)
            complete_step(state.theta, before)
            # The last snapshot of a call is taken at its end.
            if trace.snapshot_every > 0 and done % trace.snapshot_every == 0 and state.counters[ITERATION] == done:
                trace.snapshots[done // trace.snapshot_every] = state.theta

    return advance_layer


advance_layer = outermost(_make_advance_layer)


def random_start(seed: int, n_states: int, n_actions: int) -> FloatArray:
    """θ of a layer as PyTorch starts it, ``(n_states, n_actions)``.

    All weights and biases are uniform within ±1/√(number of inputs), which is that of the states (``torch.nn.Linear``).
    """
    bound = n_states**-0.5
    *weights, bias = np.random.default_rng(seed).uniform(-bound, bound, size=(n_states + 1, n_actions))
    start: FloatArray = np.array(weights) + bias
    return start


class LinearLayerEngine(TabularEngine):
    """The engine with such a policy in place of a table of zeros; ``theta`` of its result is W + b.

    Args:
        mdp, runs, options: as for the engine. Runs of one seed start alike.

    Raises:
        InvalidSetting: as the engine, or a run whose steps are not plain ones: only those are sums of the table's.
    """

    _advance = staticmethod(advance_layer)

    def __init__(self, mdp: FiniteMDP, runs: Iterable[RunSettings], **options: Any) -> None:
        super().__init__(mdp, runs, **options)
        for run in self.runs:
            if run.optimizer != "sgd" or run.projection_radius is not None or run.proximal_weight is not None:
                raise InvalidSetting(
                    "A linear layer takes plain steps: leave out optimizer=, projection_radius= and proximal_weight=."
                )
        starts = [random_start(run.seed, mdp.n_states, mdp.n_actions) for run in self.runs]
        self.load_state_dict({**self.state_dict(), "theta": np.array(starts)})
