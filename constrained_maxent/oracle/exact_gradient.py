r"""The penalized problem as a function of a softmax table, with its exact gradient.

With :math:`\pi_\theta(a|s) \propto e^{\theta_{s,a}}` (paper, Assumption ``ass:Softmax``) and the pseudo-reward
:math:`r = -\partial P/\partial\lambda` at :math:`\lambda(\theta)`, the policy gradient theorem (paper
eq. ``PolicyGradientTheorem``) and the chain rule of the softmax give

.. math:: P(\theta) = -F(\lambda(\theta)) + \sum_i \mathcal L_i\big(R_i(\lambda(\theta))\big), \qquad
   \frac{\partial P}{\partial\theta_{s,a}}
     = -\pi_\theta(a|s)\Big(G_{s,a} - \sum_b \pi_\theta(b|s)\,G_{s,b}\Big), \quad
   G = \frac{\partial\langle r,\lambda\rangle}{\partial\pi}.

Nothing is sampled, and nothing is smoothed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.solution import Constraints, as_named
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Penalty
from constrained_maxent.problem import Constraint, Problem
from constrained_maxent.types import FloatArray, as_array, require_finite

# Below the smallest float a probability becomes 0, where the derivative of an entropy is infinite.
_LEAST_MASS = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class SoftmaxPoint:
    """The penalized problem at one softmax table.

    Attributes:
        theta: θ, ``(n_states, n_actions)``.
        value: P(θ), to be minimized.
        gradient: ∂P/∂θ, ``(n_states, n_actions)``; where a penalty has a kink, one sub-gradient.
        objective: F(λ(θ)), to be maximized.
        constraints: R by name; satisfied where ≤ 0.
        penalty: Σ ℒ(R).
    """

    theta: FloatArray
    value: float
    gradient: FloatArray
    objective: float
    constraints: Mapping[str, float]
    penalty: float

    @property
    def policy(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``."""
        policy: FloatArray = softmax(self.theta, axis=-1)
        return policy

    @property
    def violation(self) -> float:
        """Largest [R]₊, 0 if all constraints hold."""
        return max((*self.constraints.values(), 0.0))


class SoftmaxProblem:
    r"""P(θ) of stationary softmax policies in a finite MDP, and its exact gradient.

    Smoothing of entropies and divergences is taken as 0, as in :func:`~constrained_maxent.oracle.solve`.

    Args:
        mdp: the MDP, at infinite or finite horizon.
        objective: F, to be maximized; ``Entropy()`` if not given. Any functional of a table.
        constraints: F(λ) ≤ ``limit``, by name, or in order (then named by kind and position).
        penalty: ℒ of all constraints, or one by name for each.
        scale: of λ; limits and β are in its units.

    Raises:
        InvalidSetting: a constraint without penalty, or a penalty without constraint; or a divergence to a reference
            that is 0 where the MDP can go: every softmax policy goes there.
        InvalidData: a functional's table has another size than the MDP.

    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> point = SoftmaxProblem(mdp).evaluate([[0.0, 0.0], [0.0, 0.0]])
    >>> round(point.objective, 3), point.gradient.round(3).tolist()
    (1.255, [[0.103, -0.103], [-0.034, 0.034]])
    """

    def __init__(
        self,
        mdp: TabularMDP,
        objective: Functional | None = None,
        constraints: Constraints = (),
        *,
        penalty: Penalty | Mapping[str, Penalty] | None = None,
        scale: Scale = "normalized",
    ) -> None:
        named = as_named(constraints)
        penalties = _by_name(penalty, named)
        self._problem = Problem(_exact(mdp, Entropy() if objective is None else objective))
        for name, functional in named.items():
            self._problem.add_constraint(name, Constraint(_exact(mdp, functional), penalties[name]))
        self.mdp, self.scale = mdp, scale
        self._cells = np.arange(mdp.n_states * mdp.n_actions)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of θ, ``(n_states, n_actions)``."""
        return self.mdp.shape

    @property
    def penalties(self) -> dict[str, Penalty]:
        """ℒ by name of the constraint."""
        return {name: constraint.penalty for name, constraint in self._problem.constraints.items()}

    def evaluate(self, theta: ArrayLike) -> SoftmaxPoint:
        """P and its gradient at θ, ``(n_states, n_actions)``.

        Raises:
            InvalidData: θ has another shape.
            NonFiniteValue: an entry of θ is NaN or infinite.
        """
        table = as_array("theta", theta, np.float64)
        if table.shape != self.shape:
            raise InvalidData(f"theta has shape {table.shape}, expected (n_states, n_actions) = {self.shape}.")
        require_finite("theta", table)
        policy: FloatArray = softmax(table, axis=-1)
        occupancy = np.maximum(self.mdp.occupancy(policy, scale=self.scale), _LEAST_MASS)
        evaluation = self._problem.evaluate(occupancy)
        parts = self._problem.reward_function(occupancy, evaluation).at_cells(self._cells, {})
        reward = np.sum(list(parts.values()), axis=0).reshape(self.shape)
        by_policy = self.mdp.policy_gradient(policy, reward, scale=self.scale)
        mean = np.sum(policy * by_policy, axis=-1, keepdims=True)
        assert evaluation.objective is not None
        return SoftmaxPoint(
            theta=table,
            value=evaluation.penalty - evaluation.objective,
            gradient=-(policy * (by_policy - mean)),
            objective=evaluation.objective,
            constraints=evaluation.constraints,
            penalty=evaluation.penalty,
        )


def _by_name(
    penalty: Penalty | Mapping[str, Penalty] | None, constraints: Mapping[str, Functional]
) -> Mapping[str, Penalty]:
    penalties = dict.fromkeys(constraints, penalty) if isinstance(penalty, Penalty) else dict(penalty or {})
    if penalties.keys() != constraints.keys():
        raise InvalidSetting(
            f"There are penalties for {', '.join(penalties) or 'nothing'} and constraints "
            f"{', '.join(constraints) or 'none'}: give one penalty to each constraint."
        )
    return penalties


def _exact(mdp: TabularMDP, functional: Functional) -> Functional:
    """The functional with tables and without smoothing, finite wherever the MDP can go."""
    exact = mdp.with_tables(functional).exact()
    exact.check(*mdp.shape)
    if not exact.support(*mdp.shape)[mdp.reachable].all():
        raise InvalidSetting(
            f"{type(functional).__name__} is infinite in a state-action pair that can be reached, and every softmax "
            "policy takes it: where its reference is 0, mix a little of another occupancy into it."
        )
    return exact
