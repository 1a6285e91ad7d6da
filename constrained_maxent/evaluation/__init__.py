"""Entropy, coverage, costs and constraint values measured apart from training."""

from constrained_maxent.evaluation.comparison import (
    aggregate,
    difference_of_means,
    interquartile_mean,
    probability_of_improvement,
)
from constrained_maxent.evaluation.exact import QUICK_VARIABLES, ExactEvaluation, ExactProblem, exact_problem
from constrained_maxent.evaluation.limits import LimitVerdict, describe_training, judge
from constrained_maxent.evaluation.rollouts import RolloutEvaluation, evaluate_batch, evaluate_rollouts
from constrained_maxent.evaluation.spread import Coverage, Grid, state_entropy
from constrained_maxent.evaluation.state_measures import STATE_MEASURES, StateEvaluation, StateMeasures
from constrained_maxent.evaluation.statistics import (
    CostStatistics,
    Estimate,
    bootstrap_mean,
    bootstrap_ratio,
    over_seeds,
)
from constrained_maxent.evaluation.uniform import UniformActions

__all__ = [
    "QUICK_VARIABLES",
    "STATE_MEASURES",
    "CostStatistics",
    "Coverage",
    "Estimate",
    "ExactEvaluation",
    "ExactProblem",
    "Grid",
    "LimitVerdict",
    "RolloutEvaluation",
    "StateEvaluation",
    "StateMeasures",
    "UniformActions",
    "aggregate",
    "bootstrap_mean",
    "bootstrap_ratio",
    "describe_training",
    "difference_of_means",
    "evaluate_batch",
    "evaluate_rollouts",
    "exact_problem",
    "interquartile_mean",
    "judge",
    "over_seeds",
    "probability_of_improvement",
    "state_entropy",
]
