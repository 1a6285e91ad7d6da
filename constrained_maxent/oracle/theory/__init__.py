r"""The paper's theory as a calculator: its constants, and what its proofs ask for to reach a wanted accuracy.

Names are the paper's, transliterated (``ell_psi`` is :math:`\ell_\psi`, ``D_g`` is :math:`D_{\hat g}`). Each function
names its lemma by the label in the paper's source, and says where it departs from the printed formula and why. All
figures are worst cases. Bounds that are not finite are ``math.inf``; an argument out of range, negative where it must
not be, or NaN raises :class:`~constrained_maxent.errors.InvalidSetting`.

>>> constants = ProblemConstants(
...     discount=0.9, n_states=4, n_actions=2, radius=1.0, initial_min=0.25, constraint_max=1.0,
...     objective=entropy_constants(1e-3, n_cells=8), constraint=linear_constants([[1.0, 0.0]] * 4))
>>> figures = plan(constants, epsilon=0.1, multiplier=0.5)
>>> figures.beta, figures.beta_exact, figures.horizon
(15.0, 1.5, 222.0)
>>> figures.iterations > 1e9  # practice needs thousands
True
"""

from constrained_maxent.oracle.theory.convergence import (
    biased_descent,
    exact_beta,
    exact_violation,
    penalty_gap,
    quadratic_beta,
    quadratic_violation,
)
from constrained_maxent.oracle.theory.gradient import (
    density_radius,
    gradient_bound,
    gradient_lipschitz,
    gradient_spread,
    inverse_lipschitz,
    occupancy_constant,
    occupancy_diameter,
    occupancy_lipschitz,
    parameter_diameter,
    sufficient_horizon,
    truncation_bias,
    truncation_constant,
)
from constrained_maxent.oracle.theory.planning import Plan, ProblemConstants, plan
from constrained_maxent.oracle.theory.regularity import (
    FunctionalConstants,
    entropy_constants,
    linear_constants,
    linear_max,
    penalized_constants,
)

__all__ = [
    "FunctionalConstants",
    "Plan",
    "ProblemConstants",
    "biased_descent",
    "density_radius",
    "entropy_constants",
    "exact_beta",
    "exact_violation",
    "gradient_bound",
    "gradient_lipschitz",
    "gradient_spread",
    "inverse_lipschitz",
    "linear_constants",
    "linear_max",
    "occupancy_constant",
    "occupancy_diameter",
    "occupancy_lipschitz",
    "parameter_diameter",
    "penalized_constants",
    "penalty_gap",
    "plan",
    "quadratic_beta",
    "quadratic_violation",
    "sufficient_horizon",
    "truncation_bias",
    "truncation_constant",
]
