"""What happens beside the training: metrics, TensorBoard events, checkpoints, Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from constrained_maxent.agents import PGP, IterationReport
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.experiments.run_folder import MetricsWriter, RunFolder
from constrained_maxent.experiments.settings import TrainSettings
from constrained_maxent.problem import Constraint


class Recorder:
    """The callback that writes metrics, events and checkpoints."""

    def __init__(
        self,
        folder: RunFolder,
        settings: TrainSettings,
        problem: ExactProblem | None,
        constraints: Mapping[str, Constraint],
    ) -> None:
        self.last: dict[str, Any] = {}
        self._folder, self._settings, self._problem = folder, settings, problem
        names = tuple(constraints)
        columns: tuple[str, ...] = ("iteration", "timesteps", "objective", "penalty", "gradient_norm", "critic_loss")
        columns += tuple(f"constraint_{name}" for name in names) + tuple(f"multiplier_{name}" for name in names)
        columns += ("exact_objective", *(f"exact_constraint_{name}" for name in names))
        self._metrics = MetricsWriter(folder.metrics_path, columns)
        self._events = SummaryWriter(str(folder.path))

    def __call__(self, agent: PGP, report: IterationReport) -> bool:
        settings = self._settings
        is_last = report.iteration == settings.iterations
        evaluate = is_last or report.iteration % settings.evaluate_every == 0
        if is_last or evaluate or report.iteration % settings.log_every == 0:
            row: dict[str, float | int | None] = {
                "iteration": report.iteration,
                "timesteps": report.timesteps,
                "objective": report.objective,
                "penalty": report.penalty,
                "gradient_norm": report.gradient_norm,
                "critic_loss": report.critic_loss,
                **{f"constraint_{name}": value for name, value in report.constraints.items()},
                **{f"multiplier_{name}": value for name, value in report.multipliers.items()},
            }
            self.last = {"objective": report.objective, "constraints": dict(report.constraints)}
            if evaluate and self._problem is not None and agent.is_tabular:
                exact = self._problem.evaluate(agent.policy_table())
                row |= {"exact_objective": exact.objective}
                row |= {f"exact_constraint_{name}": value for name, value in exact.constraints.items()}
            self._metrics.write(row)
            for name, value in row.items():
                if value is not None and name != "iteration":
                    self._events.add_scalar(name, value, report.iteration)
        if not is_last and report.iteration % settings.checkpoint_every == 0:
            self.checkpoint(agent)
        return True

    def checkpoint(self, agent: PGP) -> None:
        self._metrics.flush()
        agent.save(self._folder.checkpoint_path)

    def close(self) -> None:
        self._metrics.close()
        self._events.close()


class Interrupt:
    """Turns the first Ctrl-C into a request to stop after the current iteration; a second one interrupts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Callable[[int, FrameType | None], Any] | int | None = None

    def __enter__(self) -> Interrupt:
        try:
            self._before = signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not in the main thread, where signals do not arrive anyway
            self._before = None
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
