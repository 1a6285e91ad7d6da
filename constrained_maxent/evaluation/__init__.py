"""Entropy and constraint values measured apart from training."""

from constrained_maxent.evaluation.exact import Evaluation, ExactProblem, exact_problem
from constrained_maxent.evaluation.rollouts import RolloutEvaluation, evaluate_rollouts
from constrained_maxent.evaluation.statistics import Estimate, bootstrap_mean

__all__ = [
    "Estimate",
    "Evaluation",
    "ExactProblem",
    "RolloutEvaluation",
    "bootstrap_mean",
    "evaluate_rollouts",
    "exact_problem",
]
