"""The figures of a plan, and how a table names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class PlanRow(NamedTuple):
    """One figure of a :class:`Plan`, to print: symbol, value, meaning with unit, and label in the paper."""

    symbol: str
    value: float
    meaning: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the proof asks for to reach an (ε, ε)-optimal last policy, and the constants on the way there.

    **Worst cases**: figures that are enough for every problem with these constants, usually too large by many orders
    of magnitude, and no advice on settings. Counts are whole numbers as floats; any figure may be ``math.inf``. The
    meaning of each is in :meth:`to_rows`. λ is at scale ``truncated``.
    """

    epsilon: float
    multiplier: float
    beta: float
    beta_exact: float
    gap: float
    density_radius: float
    D_theta: float
    D_lambda: float
    mu_lambda: float
    ell_P_lambda: float
    L_P_lambda: float
    L_P_lambda_inf: float
    ell_P_theta: float
    L_P_theta: float
    D_H: float
    D_g: float
    sigma_H: float
    error: float
    truncation_bias: float
    initial_gap: float
    step_size: float
    horizon: float
    batch_occupancy: float
    batch_gradient: float
    batch_size: float
    iterations: float
    trajectories: float
    transitions: float

    def to_rows(self) -> list[PlanRow]:
        """All figures in reading order, for a table."""
        return [PlanRow(symbol, getattr(self, field), meaning, source) for field, symbol, meaning, source in _ROWS]


_DESCENT, _BIAS = "thm:BiasedSGDHiddenConvex", "lem:PenaltyBiasVarianceGradientEstimator"
_REGULARITY, _SMOOTHNESS = (
    "lem:AppendixSmoothnessBoundedGradientsPenaltyLambda",
    "cor:GradientBoundSmoothnessPenalty",
)
_ROWS = (
    ("epsilon", "ε", "wanted accuracy of objective [nats] and violation [unit of R]", "cor:FinalRateTranslation"),
    ("multiplier", "ν*", "multiplier of the constraint [nats / R]", "ass:StrongDuality"),
    (
        "beta",
        "β(ε)",
        "quadratic penalty β[R]₊²; the paper's β, with β/2 in front, is twice this [nats / R²]",
        "cor:FinalRateTranslation",
    ),
    (
        "beta_exact",
        "ν*+1",
        "exact penalty β[R]₊ from here on; 2ν*+2 with the paper's β/2 [nats / R]",
        "thm:MainResultPPPMExactPenaltyConvergenceGuarantee",
    ),
    ("gap", "ε̃", "gap to which the penalized problem is solved [nats]", "cor:FinalRateTranslation"),
    (
        "density_radius",
        "R(ε/2)",
        "radius with which every policy is within ε/2, L1 per state",
        "prop:SoftmaxApproximationStationaryPolicies",
    ),
    ("D_theta", "D_Θ", "diameter of the parameters", "lem:FinalComplexityDirectSoftmax"),
    ("D_lambda", "D_Λ", "diameter of the occupancies [mass]", "ass:ParametrizationSOAM"),
    ("mu_lambda", "μ_λ", "Lipschitz constant of the inverse of θ ↦ λ [1 / mass]", "ass:ParametrizationSOAM"),
    ("ell_P_lambda", "ℓ_{P,λ}", "bound of the pseudo-rewards [nats / mass]", _REGULARITY),
    ("L_P_lambda", "L_{P,λ}", "their Lipschitz constant in λ, ℓ2 to largest entry [nats / mass²]", _REGULARITY),
    ("L_P_lambda_inf", "L_{P,λ,∞}", "their Lipschitz constant in λ, ℓ1 to largest entry [nats / mass²]", _REGULARITY),
    ("ell_P_theta", "ℓ_{P,θ}", "bound of the gradient [nats]", _SMOOTHNESS),
    ("L_P_theta", "L_{P,θ}", "Lipschitz constant of the gradient [nats]", _SMOOTHNESS),
    ("D_H", "D_{P,H}", "bias of the truncation, over γᴴ [nats]", _BIAS),
    ("D_g", "D_{P,ĝ}", "bias of the estimated occupancy, times √|B₁| [nats]", _BIAS),
    ("sigma_H", "σ_{P,H}", "standard deviation of one episode's gradient [nats]", _BIAS),
    ("error", "δ, σ", "largest bias and standard deviation of the batch's gradient [nats]", _DESCENT),
    ("truncation_bias", "D_{P,H}γᴴ", "bias at the environment's horizon, or at H if it has none [nats]", _BIAS),
    ("initial_gap", "Δ₀", "gap of the penalized problem at the start [nats]", _DESCENT),
    ("step_size", "η", "step size, 1/L_{P,θ}", "thm:MainResultPenalty"),
    ("horizon", "H", "length of an episode [steps]", "thm:MainResultPenalty"),
    ("batch_occupancy", "|B₁|", "episodes for the occupancy estimate", "thm:MainResultPenalty"),
    ("batch_gradient", "|B₂|", "episodes for the gradient", "thm:MainResultPenalty"),
    ("batch_size", "B", "episodes an iteration, both halves", "thm:MainResultPenalty"),
    ("iterations", "N", "iterations", "thm:MainResultPenalty"),
    ("trajectories", "N·B", "episodes in all", "cor:FinalRateTranslation"),
    ("transitions", "N·B·H", "steps in all", "cor:FinalRateTranslation"),
)
