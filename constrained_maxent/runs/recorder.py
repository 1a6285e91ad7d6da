"""What happens beside the training: metrics, TensorBoard events, checkpoints."""

from __future__ import annotations

import csv
import math
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from constrained_maxent.agents import IterationReport
from constrained_maxent.atomic import naming
from constrained_maxent.errors import ContradictedDynamics
from constrained_maxent.evaluation import ExactEvaluation, ExactProblem
from constrained_maxent.evaluation.state_measures import evaluate_states, measures_of
from constrained_maxent.evaluation.witness import Witness
from constrained_maxent.functionals import Functional
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import FloatArray, Measure


class Learner(Protocol):
    """Who is trained in a run folder: :class:`~constrained_maxent.agents.PGP`, or a third party's agent likewise.

    Attributes:
        env: the vector environment, closed at the end.
        iteration, timesteps: updates done, and steps taken for them.
    """

    env: Any
    iteration: int
    timesteps: int

    @property
    def is_tabular(self) -> bool:
        """Whether there is a ``policy_table`` where the environment is finite."""

    def policy_table(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``."""

    def learn(
        self, *, iterations: int, callback: Callable[[Any, IterationReport], bool], progress_bar: bool = False
    ) -> Any:
        """Do so many updates more; the callback is called after each, and ends the training by False."""

    def save(self, path: Path) -> None:
        """Write what is to be kept, atomically."""

    def state_dict(self) -> dict[str, Any]:
        """All that it has learnt."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Put back what ``state_dict`` returned."""


class Recorder:
    """Writes metrics, events and checkpoints while an agent learns.

    Args:
        settings: how often to do what.
        problem: for exact evaluation; ``None`` where that is impossible.
        since: iteration that this run began, or went on, from.
        begun: when it did so, by ``time.perf_counter``.
        before_checkpoint: what else has to be written before an agent is.

    Attributes:
        last: objective and constraint values of the last estimate, and of the last batch alone; its mass, and the mean
            length of its episodes [steps].
        first: the same of the first batch, whose policy is nearly uniform; ``None`` where the run goes on from later.
        problem: for exact evaluation; ``None`` where that is impossible, or since batches contradicted it.
        contradiction: what in the batches the published dynamics do not explain.
    """

    def __init__(
        self,
        folder: RunFolder,
        settings: TrainSettings,
        problem: ExactProblem | None,
        agent: Learner,
        *,
        since: int,
        begun: float,
        before_checkpoint: Callable[[], None] = lambda: None,
    ) -> None:
        # Imported late: TensorBoard would slow down all commands that train nothing.
        from torch.utils.tensorboard import SummaryWriter

        self.last: dict[str, Any] = {}
        self.problem = problem
        self.contradiction: str | None = None
        self._witness = None if problem is None else Witness(problem)
        self._checked = 0  # steps
        self.first: dict[str, Any] | None = None
        self._folder, self._settings = folder, settings
        self._begun = begun - _seconds_before(folder, since)
        self._file = folder.metrics_path.open("a", newline="", encoding="utf-8")
        self._metrics = csv.DictWriter(self._file, columns(agent), extrasaction="ignore", lineterminator="\n")
        if not folder.metrics_path.stat().st_size:
            self._metrics.writeheader()
        self._before_checkpoint = before_checkpoint
        self._saved = time.monotonic()
        # Events past the checkpoint that a run continues from are to be forgotten.
        self._events = SummaryWriter(str(folder.path), purge_step=since + 1 if since else None)

    @property
    def seconds(self) -> float:
        """By the clock since the run began, without the time between two trainings of it; NaN where nobody knows."""
        return time.perf_counter() - self._begun

    def record(self, agent: Learner, report: IterationReport) -> None:
        """Write down an iteration; called after each."""
        settings, seconds = self._settings, round(self.seconds, 3)
        is_last = report.iteration == settings.iterations
        evaluate = is_last or is_due(report.iteration, settings.evaluate_every, dense=4)
        if evaluate or is_due(report.iteration, settings.log_every, dense=16):
            if evaluate:
                self._check(agent, is_last=is_last)
            measured = _exact(exact_evaluation(self.problem, agent)) | _states(agent) if evaluate else {}
            self._write(_row(report) | {"seconds": seconds} | measured)
        is_old = time.monotonic() - self._saved >= 60.0 * settings.checkpoint_minutes
        if not is_last and (is_old or report.iteration % settings.checkpoint_every == 0):
            self.checkpoint(agent)
        tracker = find_tracker(agent.env)
        batch = tracker.last_batch
        self.last = {
            "objective": report.objective,
            "constraints": dict(report.constraints),
            "objective_fresh": report.objective_fresh,
            "constraints_fresh": dict(report.constraints_fresh),
            "mass": tracker.estimator.mass_,
            "mass_fresh": None if batch is None else float(batch.weights.sum()) / batch.n_episodes,
            "episode_length": None if batch is None else batch.n_steps / batch.n_episodes,
        }
        if report.iteration == 1:
            self.first = self.last

    def _check(self, agent: Learner, *, is_last: bool) -> None:
        """Hold the last batch, and those of the evaluations before it, against what the environment publishes."""
        batch = find_tracker(agent.env).last_batch
        if self._witness is None or self.problem is None or batch is None:
            return
        self._witness.see(batch)
        # All steps are looked through each time: so only where they have doubled.
        if not is_last and self._witness.n_steps < 2 * self._checked:
            return
        self._checked = self._witness.n_steps
        self.contradiction = self._witness.contradiction()
        if self.contradiction is not None:
            self.problem = None
            warnings.warn(
                f"{self.contradiction} The environment does something else than it publishes: exact values and a "
                "certificate are left out.",
                ContradictedDynamics,
                stacklevel=2,
            )

    def _write(self, row: Mapping[str, float | int | None]) -> None:
        with naming(self._folder.metrics_path):
            self._metrics.writerow(row)
            self._file.flush()  # who looks into the folder sees how far the run is
        for name, value in row.items():
            if value is not None and name != "iteration":
                self._events.add_scalar(name, value, row["iteration"])

    def checkpoint(self, agent: Learner) -> None:
        """Save the agent, after everything that led to it."""
        with naming(self._folder.metrics_path):
            self._file.flush()
        self._events.flush()
        self._before_checkpoint()
        agent.save(self._folder.checkpoint_path)
        self._saved = time.monotonic()

    def close(self) -> None:
        """Close the files. What could not be written into them has been told when it was to be."""
        for file in (self._file, self._events):
            with suppress(OSError):
                file.close()


def is_due(iteration: int, every: int, *, dense: int) -> bool:
    """Whether something is done after an iteration: each ``every``-th time, and at first, where most changes, oftener.

    Each of the first 2 ``dense`` times, then every second up to 4 ``dense``, and so on, in powers of two.

    >>> [n for n in range(1, 40) if is_due(n, 10, dense=2)]
    [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 30]
    """
    interval = 1 << max((iteration // dense).bit_length() - 1, 0)
    return iteration % every == 0 or (interval < every and iteration % interval == 0)


def exact_evaluation(problem: ExactProblem | None, agent: Learner) -> ExactEvaluation | None:
    """A tabular policy where the problem is known; ``None`` for others."""
    return problem.evaluate(agent.policy_table()) if problem is not None and agent.is_tabular else None


def columns(agent: Learner) -> list[str]:
    """The columns of ``metrics.csv``."""
    names = list(find_tracker(agent.env).problem.constraints)
    return [
        *("iteration", "timesteps", "seconds", "objective", "penalty", "gradient_norm", "critic_loss"),
        *(f"constraint_{name}" for name in names),
        "objective_fresh",
        *(f"constraint_{name}_fresh" for name in names),
        *(f"multiplier_{name}" for name in names),
        "exact_objective",
        *(f"exact_constraint_{name}" for name in names),
        *_state_columns(agent),
    ]


def _seconds_before(folder: RunFolder, since: int) -> float:
    """Seconds that a run had taken when it came to iteration ``since``; NaN where no row tells.

    Those of the last row that is kept, prolonged at the run's mean speed to the checkpoint.
    """
    if not since:
        return 0.0
    if not folder.metrics_path.exists() or not len((metrics := folder.read_metrics())["iteration"]):
        return math.nan
    return float(metrics["seconds"][-1] * since / metrics["iteration"][-1])


def _state_columns(agent: Learner) -> list[str]:
    """Columns of continuous states."""
    if find_tracker(agent.env).estimator.table_shape() is not None:
        return []
    measures = measures_of(agent.env)
    return [
        "self_weighted_objective",
        "state_entropy",
        *(["coverage"] if measures.grid is not None else []),
        *(f"share_{name.replace(' ', '_')}" for name in measures.events),
    ]


def _states(agent: Learner) -> dict[str, float | int | None]:
    """Figures of continuous states: of the last batch alone, fresh steps of one policy, but for the first."""
    tracker = find_tracker(agent.env)
    batch = tracker.last_batch
    if not _state_columns(agent) or batch is None or not batch.n_steps:
        return {}
    periodic = getattr(tracker.estimator, "periodic", ())
    counted = tracker.estimator.counts_few
    measured = evaluate_states(batch, measures_of(agent.env, batch), periodic=periodic, counted=counted, seed=0)
    return {
        "self_weighted_objective": _self_weighted(tracker.problem.objective, tracker.estimator.measure()),
        "state_entropy": measured.entropy.mean,
        "coverage": None if measured.coverage is None else measured.coverage.share,
        **{f"share_{name.replace(' ', '_')}": share.mean for name, share in measured.events.items()},
    }


def _self_weighted(functional: Functional | None, measure: Measure) -> float | None:
    r"""An expectation under λ whose samples are weighted by λ̂ once more; ``None`` where there is none.

    .. math:: \frac{m \sum_i w_i \lambda_i f_i}{\sum_i w_i \lambda_i}, \qquad m = \sum_i w_i

    With samples of λ the plain mean is unbiased; this one is what f is where λ is high, for an entropy -log λ, and low.
    So the authors of the method estimate entropies in continuous spaces. Where λ is 0 at all samples, it is unknown.
    """
    integrand = None if functional is None else functional.exact().integrand(measure, measure.points)
    if integrand is None:
        return None
    weights, logs = measure.weights, measure.points.log_density
    with np.errstate(divide="ignore"):
        logs = np.log(measure.points.density) if logs is None else logs
    largest = logs[weights > 0.0].max(initial=-np.inf)
    if not np.isfinite(largest):
        return None
    density = weights * np.exp(np.minimum(logs - largest, 0.0))
    return float((density * integrand).sum() * weights.sum()) / float(density.sum())


def _exact(exact: ExactEvaluation | None) -> dict[str, float | int | None]:
    if exact is None:
        return {}
    constraints = {f"exact_constraint_{name}": value for name, value in exact.constraints.items()}
    return {"exact_objective": exact.objective, **constraints}


def _row(report: IterationReport) -> dict[str, float | int | None]:
    return {
        "iteration": report.iteration,
        "timesteps": report.timesteps,
        "objective": report.objective,
        "penalty": report.penalty,
        "gradient_norm": report.gradient_norm,
        "critic_loss": report.critic_loss,
        **{f"constraint_{name}": value for name, value in report.constraints.items()},
        "objective_fresh": report.objective_fresh,
        **{f"constraint_{name}_fresh": value for name, value in report.constraints_fresh.items()},
        **{f"multiplier_{name}": value for name, value in report.multipliers.items()},
    }
