"""Random constrained problems, and their optima computed another way: SciPy's SLSQP over softmax policies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.types import FloatArray


@dataclass(frozen=True)
class RandomProblem:
    """An MDP with up to three constraints that a random interior policy satisfies."""

    mdp: TabularMDP
    constraints: dict[str, Functional]

    @classmethod
    def draw(cls, seed: int) -> RandomProblem:
        """Up to 12 states and 4 actions, and from 0 to 3 kinds of constraints."""
        rng = np.random.default_rng(seed)
        n_states, n_actions = int(rng.integers(2, 13)), int(rng.integers(2, 5))
        mdp = TabularMDP.random(
            n_states,
            n_actions,
            seed=rng,
            discount=float(rng.choice([0.7, 0.9, 0.97])),
            branching=int(rng.integers(1, n_states + 1)),
        )

        def occupancy() -> FloatArray:
            return mdp.occupancy(rng.dirichlet(np.ones(n_actions), size=n_states))

        witness, reference = occupancy(), occupancy()
        cost = rng.normal(size=(n_states, n_actions))
        candidates: dict[str, Functional] = {
            "linear": LinearCost(cost),
            "kl": KLDivergence(reference, smoothing=0.0),
            "l2": L2Distance(reference),
        }
        chosen = rng.permutation(list(candidates))[: int(rng.integers(0, 4))]
        constraints = {
            str(name): replace(candidates[name], limit=candidates[name](witness) + 0.02 * rng.random())
            for name in chosen
        }
        return cls(mdp, constraints)

    def by_slsqp(self, *, starts: int = 3) -> float:
        """Best entropy that SLSQP finds over softmax policies, of points that satisfy the constraints within 1e-6."""
        mdp, entropy = self.mdp, Entropy(smoothing=0.0)
        shape = (mdp.n_states, mdp.n_actions)

        def gradient(theta: FloatArray, functional: Functional) -> FloatArray:
            policy = softmax(theta.reshape(shape), axis=1)
            slope = functional.gradient(np.maximum(mdp.occupancy(policy), 1e-300))
            by_policy = mdp.policy_gradient(policy, np.where(mdp.reachable[:, None], slope, 0.0))
            return (policy * (by_policy - (policy * by_policy).sum(axis=1, keepdims=True))).ravel()

        def value(theta: FloatArray, functional: Functional) -> float:
            return functional(mdp.occupancy(softmax(theta.reshape(shape), axis=1)))

        rules = [
            {
                "type": "ineq",
                "fun": lambda theta, f=functional: f.limit - value(theta, f),
                "jac": lambda theta, f=functional: -gradient(theta, f),
            }
            for functional in self.constraints.values()
        ]
        best = -np.inf
        rng = np.random.default_rng(0)
        for _ in range(starts):
            result = minimize(
                lambda theta: -value(theta, entropy),
                rng.normal(size=shape[0] * shape[1]),
                jac=lambda theta: -gradient(theta, entropy),
                method="SLSQP",
                constraints=rules,
                options={"maxiter": 500, "ftol": 1e-12},
            )
            if all(rule["fun"](result.x) >= -1e-6 for rule in rules):
                best = max(best, -result.fun)
        return float(best)
