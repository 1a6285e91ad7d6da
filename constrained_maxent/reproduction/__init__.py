"""The paper's studies: many runs, their tables and figures, and what they say of the paper's claims.

Here are names alone, so that the command line can list the studies without loading what runs them.
"""

from __future__ import annotations

from typing import Literal

GridStudyName = Literal[
    "fig1",
    "defaults",
    "defaults-short",
    "norm",
    "norm-beta",
    "robustness",
    "unconstrained",
    "policies",
    "methods",
    "methods-short",
    "primal-dual-search",
    "primal-dual-batches",
    "ablation",
    "relaxed",
    "conventions",
]
"""Studies of the 6×6 grid, short ones first."""

ControlStudyName = Literal["cartpole", "cartpole-options", "cartpole-paper", "cartpole-paper-options", "point-mass"]
"""Studies of continuous control."""

AgentStudyName = Literal["grid", "grid-one-copy", "grid-others", "cartpole"]
"""Studies of other people's agents."""

MepolTaskName = Literal["mountain-car", "four-rooms", "ant", "humanoid"]
"""Tasks of Mutti et al. (2021)."""

WorldName = Literal["cartpole", "half-cheetah"]
"""Where data are collected, and learnt from."""

Effort = Literal["smoke", "paper"]
"""How much of a grid study is done: enough to see that it works, or as much as the paper has."""
