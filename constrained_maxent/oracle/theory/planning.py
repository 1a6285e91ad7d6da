"""From a wanted accuracy to the step size, batch, horizon and iterations that the paper's proof asks for."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, get_args

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.theory import convergence, gradient
from constrained_maxent.oracle.theory.arithmetic import (
    check_counts,
    check_discount,
    check_nonnegative,
    divide,
    product,
    round_up,
)
from constrained_maxent.oracle.theory.regularity import FunctionalConstants, penalized_constants


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemConstants:
    r"""What the theory needs to know of a problem with tabular softmax policies on :math:`[-R, R]^{S\times A}`.

    Args:
        discount: γ in (0, 1).
        radius: R of the parameters; :func:`~constrained_maxent.oracle.theory.density_radius` gives one.
        initial_min: smallest :math:`\mu_0(s)`, or another lower bound of the discounted visits of every state under
            every policy; 0 if there is none, and then no finite number of iterations is guaranteed.
        objective: constants of the entropy.
        constraint: constants of the constraint.
        constraint_max: bound of :math:`|R(\lambda)|` [unit of the constraint].
        scale: the scale of the λ that ``objective`` and ``constraint`` are functionals of.
        horizon: longest episode that the environment allows [steps]; ``None`` for as long as wanted.
    """

    discount: float
    n_states: int
    n_actions: int
    radius: float
    initial_min: float
    objective: FunctionalConstants
    constraint: FunctionalConstants
    constraint_max: float
    scale: Scale = "normalized"
    horizon: int | None = None

    def __post_init__(self) -> None:
        check_discount(self.discount)
        check_counts(n_states=self.n_states, n_actions=self.n_actions)
        check_counts(horizon=1 if self.horizon is None else self.horizon)
        check_nonnegative(radius=self.radius, constraint_max=self.constraint_max)
        if not 0.0 <= self.initial_min <= 1.0 / (1.0 - self.discount):
            raise InvalidSetting(f"initial_min={self.initial_min!r} must be from 0 to the mass of λ, 1/(1−γ).")
        if self.scale not in get_args(Scale):
            raise InvalidSetting(f"scale={self.scale!r} must be one of {', '.join(get_args(Scale))}.")


class PlanRow(NamedTuple):
    """One figure of a :class:`Plan`, to print: symbol, value, and meaning with unit."""

    symbol: str
    value: float
    meaning: str


def _figure(symbol: str, meaning: str) -> Any:
    return field(metadata={"symbol": symbol, "meaning": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the proof asks for to reach an (ε, ε)-optimal last policy, and the constants on the way there.

    **Worst cases**: figures that are enough for every problem with these constants, usually too large by many orders
    of magnitude, and no advice on settings. Counts are whole numbers as floats; any figure may be ``math.inf``. The
    meaning of each is in :meth:`to_rows`. λ is at scale ``truncated``.
    """

    epsilon: float = _figure("ε", "wanted accuracy of objective [nats] and violation [unit of R]")
    multiplier: float = _figure("ν*", "multiplier of the constraint [nats / R]")
    beta: float = _figure(
        "β(ε)", "quadratic penalty β[R]₊²; the paper's β, with β/2 in front, is twice this [nats / R²]"
    )
    beta_exact: float = _figure("ν*+1", "exact penalty β[R]₊ from here on; 2ν*+2 with the paper's β/2 [nats / R]")
    gap: float = _figure("ε̃", "gap to which the penalized problem is solved [nats]")
    density_radius: float = _figure("R(ε/2)", "radius with which every policy is within ε/2, L1 per state")
    D_theta: float = _figure("D_Θ", "diameter of the parameters")
    D_lambda: float = _figure("D_Λ", "diameter of the occupancies [mass]")
    mu_lambda: float = _figure("μ_λ", "Lipschitz constant of the inverse of θ ↦ λ [1 / mass]")
    ell_P_lambda: float = _figure("ℓ_{P,λ}", "bound of the pseudo-rewards [nats / mass]")
    L_P_lambda: float = _figure("L_{P,λ}", "their Lipschitz constant in λ, ℓ2 to largest entry [nats / mass²]")
    L_P_lambda_inf: float = _figure("L_{P,λ,∞}", "their Lipschitz constant in λ, ℓ1 to largest entry [nats / mass²]")
    ell_P_theta: float = _figure("ℓ_{P,θ}", "bound of the gradient [nats]")
    L_P_theta: float = _figure("L_{P,θ}", "Lipschitz constant of the gradient [nats]")
    D_H: float = _figure("D_{P,H}", "bias of the truncation, over γᴴ [nats]")
    D_g: float = _figure("D_{P,ĝ}", "bias of the estimated occupancy, times √|B₁| [nats]")
    sigma_H: float = _figure("σ_{P,H}", "standard deviation of one episode's gradient [nats]")
    error: float = _figure("δ, σ", "largest bias and standard deviation of the batch's gradient [nats]")
    truncation_bias: float = _figure("D_{P,H}γᴴ", "bias at the environment's horizon, or at H if it has none [nats]")
    initial_gap: float = _figure("Δ₀", "gap of the penalized problem at the start [nats]")
    step_size: float = _figure("η", "step size, 1/L_{P,θ}")
    horizon: float = _figure("H", "length of an episode [steps]")
    batch_occupancy: float = _figure("|B₁|", "episodes for the occupancy estimate")
    batch_gradient: float = _figure("|B₂|", "episodes for the gradient")
    batch_size: float = _figure("B", "episodes an iteration, both halves")
    iterations: float = _figure("N", "iterations")
    trajectories: float = _figure("N·B", "episodes in all")
    transitions: float = _figure("N·B·H", "steps in all")

    def to_rows(self) -> list[PlanRow]:
        """All figures in reading order, for a table."""
        return [PlanRow(value=getattr(self, figure.name), **figure.metadata) for figure in fields(self)]


def plan(constants: ProblemConstants, epsilon: float, multiplier: float) -> Plan:
    r"""What Corollary ``cor:FinalRateTranslation`` asks for to reach an (ε, ε)-optimal policy: **worst-case figures**.

    The penalized problem with the β of :func:`~constrained_maxent.oracle.theory.quadratic_beta` is solved to the gap
    :math:`\tilde\epsilon = 1/(2\beta)` by ``biased_descent``. Half of the bias allowed goes to the horizon, half to
    :math:`\hat\lambda`: :math:`D_{P,H}\gamma^H \le \delta/2`, :math:`|B_1| \ge 4D_{P,\hat g}^2/\delta^2`,
    :math:`|B_2| \ge \sigma_{P,H}^2/\delta^2`. The optimum meant is that of policies with parameters in [−R, R].
    The gap at the start is bounded by :math:`\min(\sqrt2\,\ell_{H,2}, 2\ell_H)` times the mass of λ, plus
    :math:`\beta R_{\max}^2`.

    Departures: the proof of ``thm:MainResultPenalty`` gives the variance's batch size to :math:`B_1` and the bias's to
    :math:`B_2`, though pseudo-rewards come from :math:`B_1`; and it adds both, but Algorithm ``algo:Penalty`` halves
    the batch, so :math:`B = 2\max(|B_1|, |B_2|)`. The other departures stand with the functions of each constant.

    Args:
        constants: the problem.
        epsilon: ε > 0, for the objective [nats] and for the violation [unit of the constraint] alike.
        multiplier: :math:`\nu^* \ge 0`, the constraint's multiplier at the optimum [nats per unit of the constraint].
    """
    discount, n_states, n_actions = constants.discount, constants.n_states, constants.n_actions
    beta = convergence.quadratic_beta(multiplier, epsilon)
    gap = convergence.penalty_gap(multiplier, epsilon)
    factor = 1.0 - discount if constants.scale == "normalized" else 1.0
    objective, constraint = constants.objective.rescaled(factor), constants.constraint.rescaled(factor)
    penalized = penalized_constants(objective, constraint, beta=beta, constraint_max=constants.constraint_max)

    mu_lambda = gradient.inverse_lipschitz(n_actions, constants.radius, initial_min=constants.initial_min)
    diameter = gradient.occupancy_diameter(discount)
    entropy_range = min(product(diameter, objective.ell_2), 2.0 * objective.ell / (1.0 - discount))
    initial_gap = entropy_range + product(beta, constants.constraint_max, constants.constraint_max)
    smoothness = gradient.gradient_lipschitz(penalized, discount)
    descent = convergence.biased_descent(
        smoothness, gap, mu_lambda=mu_lambda, diameter=diameter, initial_gap=initial_gap
    )

    horizon = gradient.sufficient_horizon(penalized, discount, descent.error / 2.0)
    D_g = gradient.occupancy_constant(penalized, discount, n_states=n_states, n_actions=n_actions)
    sigma_H = gradient.gradient_spread(penalized, discount, horizon)
    batch_occupancy = _batch(2.0 * D_g, descent.error)
    batch_gradient = _batch(sigma_H, descent.error)
    batch_size = 2.0 * max(batch_occupancy, batch_gradient)
    trajectories = product(descent.iterations, batch_size)
    played = horizon if constants.horizon is None else float(constants.horizon)
    return Plan(
        epsilon=epsilon,
        multiplier=multiplier,
        beta=beta,
        beta_exact=convergence.exact_beta(multiplier),
        gap=gap,
        # Half of the smallest float is 0.
        density_radius=gradient.density_radius(n_actions, epsilon / 2.0 or epsilon),
        D_theta=gradient.parameter_diameter(n_states, n_actions, constants.radius),
        D_lambda=diameter,
        mu_lambda=mu_lambda,
        ell_P_lambda=penalized.ell,
        L_P_lambda=penalized.L,
        L_P_lambda_inf=penalized.L_inf,
        ell_P_theta=gradient.gradient_bound(penalized, discount),
        L_P_theta=smoothness,
        D_H=gradient.truncation_constant(penalized, discount, horizon),
        D_g=D_g,
        sigma_H=sigma_H,
        error=descent.error,
        truncation_bias=gradient.truncation_bias(penalized, discount, played),
        initial_gap=initial_gap,
        step_size=descent.step_size,
        horizon=horizon,
        batch_occupancy=batch_occupancy,
        batch_gradient=batch_gradient,
        batch_size=batch_size,
        iterations=descent.iterations,
        trajectories=trajectories,
        transitions=product(trajectories, horizon),
    )


def _batch(deviation: float, error: float) -> float:
    """Episodes whose mean deviates by no more than the error allowed, at least 1."""
    root = divide(deviation, error)
    return max(1.0, round_up(product(root, root)))
