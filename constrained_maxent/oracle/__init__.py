"""Exact values where the dynamics are known: what estimates and trained policies are measured against."""

from constrained_maxent.oracle.tabular import TabularMDP

__all__ = ["TabularMDP"]
