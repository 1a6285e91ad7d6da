"""What PGP tells its callbacks after each iteration, and what callbacks answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from constrained_maxent.agents.pgp import PGP


@dataclass(frozen=True)
class IterationReport:
    """One iteration, as callbacks get it.

    Attributes:
        iteration: number of iterations done.
        timesteps: steps taken in the environment so far.
        objective, constraints, multipliers, penalty: from ``info["batch"]``, estimated on the batch before the update,
            which the learner collected.
        gradient_norm: of the batch's first gradient, before clipping: that of P, unless advantages are normalized or
            momentum and a proximal term belong to it.
        critic_loss: in standardized units; ``None`` without a critic.
    """

    iteration: int
    timesteps: int
    objective: float | None
    constraints: Mapping[str, float]
    multipliers: Mapping[str, float]
    penalty: float
    gradient_norm: float
    critic_loss: float | None = None


Callback = Callable[["PGP", IterationReport], bool | None]
"""Called after every iteration with the agent and its report; returning False ends the training."""


def asks_to_stop(answer: bool | None) -> bool:
    """Whether a callback's answer ends the training: ``False`` does, no answer (``None``) does not."""
    return answer is not None and not answer
