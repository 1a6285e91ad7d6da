"""What PGP tells after each iteration: to callbacks, and on a progress bar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from constrained_maxent.records import Report


@dataclass(frozen=True)
class IterationReport:
    """One iteration, as callbacks get it.

    Attributes:
        iteration: number of iterations done.
        timesteps: steps taken in the environment so far.
        objective, constraints, multipliers, penalty: from ``info["batch"]``, estimated on the batch before the update,
            which the learner collected.
        objective_fresh, constraints_fresh: of that batch alone, where the estimate remembers earlier ones.
        gradient_norm: of the batch's first gradient, before clipping: that of P, unless advantages are normalized or
            a proximal term belongs to it; ``None`` of agents that do not tell it.
        critic_loss: in standardized units; ``None`` without a critic.
    """

    iteration: int
    timesteps: int
    objective: float | None
    constraints: Mapping[str, float]
    multipliers: Mapping[str, float]
    penalty: float
    objective_fresh: float | None
    constraints_fresh: Mapping[str, float]
    gradient_norm: float | None
    critic_loss: float | None = None

    @classmethod
    def of(
        cls,
        batch: Report,
        *,
        iteration: int,
        timesteps: int,
        gradient_norm: float | None = None,
        critic_loss: float | None = None,
    ) -> Self:
        """Of the iteration that learnt from a batch, what the tracker told of that and what the agent adds."""
        return cls(
            iteration=iteration,
            timesteps=timesteps,
            objective=batch.objective,
            constraints=batch.constraints,
            multipliers=batch.multipliers,
            penalty=batch.penalty,
            objective_fresh=batch.objective_fresh,
            constraints_fresh=batch.constraints_fresh,
            gradient_norm=gradient_norm,
            critic_loss=critic_loss,
        )


class Progress:
    """A progress bar with time left, objective and constraint values: a context manager that draws on the terminal.

    Args:
        total: what ``update`` counts up to.
        label: what the objective is called.
        enabled: whether to draw; if not, nothing happens.
    """

    def __init__(self, total: int, *, label: str = "objective", enabled: bool) -> None:
        self._label = label
        self._bar: Bar | None = None
        if enabled:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                transient=False,
            )
            self._task = self._bar.add_task("training", total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, *, objective: float | None, constraints: Mapping[str, float]) -> None:
        """Show how far the training is and what the latest batch measured."""
        if self._bar is None:
            return
        parts = [] if objective is None else [f"{self._label} {objective:.3f}"]
        parts += [f"{name} {violation:+.3g}" for name, violation in constraints.items()]
        self._bar.update(self._task, completed=done, description="  ".join(parts))
