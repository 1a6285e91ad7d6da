"""What happens while a model of Stable-Baselines3 learns: the run's plan, log π, a truthful log, the best policy."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from os import PathLike
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import TensorBoardOutputFormat

from constrained_maxent.adapters.sb3.acting import log_prob_of_training
from constrained_maxent.adapters.sb3.checkpoints import save
from constrained_maxent.adapters.sb3.evaluator import Evaluator, PolicyValues, stack_of
from constrained_maxent.errors import NotEvaluated, UnsupportedPolicy
from constrained_maxent.evaluation.limits import on_the_way
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import check_count

_SHARE = 4
"""Fresh episodes are rolled out once in so many times their own steps."""
_SAVED_EVERY = 300.0
"""[s]"""


class OccupancyCallback(BaseCallback):
    """Tells the tracker what it has to know of a training, and Stable-Baselines3's logger what the tracker knows.

    The planned end of the run is announced, so that schedules run. While the model acts on a :class:`VecEnv`, its exact
    log π makes λ̂ one of states and actions where that is a density. Of every batch TensorBoard gets, and of the latest
    one the tables that are written now and then:

    - ``occupancy/``: ``objective`` and R of each constraint by λ̂, with all that it remembers of earlier policies;
      ``iteration`` and ``progress`` of the run, from 0 to 1; ``multiplier/`` the price of each constraint.
    - ``policy/``: objective and R of the present policy, exact where the environment publishes its dynamics. Elsewhere
      those of fresh episodes on a copy of the environment: at least 256 short ones, or as many steps as a batch has;
      at the end of the training, and on the way so often that they take no more than a fifth of all steps.

    At the end it is said in words whether limits are kept.

    Args:
        save_path: where the model is kept with λ̂ and multipliers, as :func:`save` writes them: at the training's end
            and, as a training may be interrupted, every five minutes where a batch ends.
        eval_env: a stack of the same wrappers for the fresh episodes, where the model's cannot be copied.
        verbose: 1 to print what is said at the end, else 0.

    Attributes:
        values: of the policy, the latest; ``None`` before the first, or where the model's policy cannot be evaluated.

    Raises:
        MissingTracker: on ``learn``: the model's copies have no ``TrackOccupancy``, or one each.
        InvalidSetting: on ``learn``: the environment cannot be copied.
    """

    def __init__(self, *, save_path: str | PathLike[str] | None = None, eval_env: Any = None, verbose: int = 1) -> None:
        super().__init__(verbose)
        self._save_path, self._eval_env = save_path, eval_env
        self._evaluator: Evaluator | None = None
        self._acting = ExitStack()
        self._iteration = self._evaluated_at = 0
        self.values: PolicyValues | None = None

    def _on_training_start(self) -> None:
        env = stack_of(self.model)
        tracker = find_tracker(env)
        left = self.model._total_timesteps - self.model.num_timesteps  # a float where learn(1e5) was said
        if left > 0:
            tracker.announce(timesteps=tracker.timesteps + math.ceil(left))
        self._acting.close()  # what an interrupted training left
        log_prob = log_prob_of_training(self.model)
        if log_prob is not None:
            venv: Any = self.training_env.unwrapped
            self._acting.enter_context(venv.acting(self.model, log_prob))
        self._evaluator = None
        try:
            self._evaluator = Evaluator(self.model, self._eval_env)
        except UnsupportedPolicy as error:
            warnings.warn(
                f"{error} So the policy is not evaluated: what is logged are values by λ̂, with all that it remembers.",
                NotEvaluated,
                stacklevel=2,
            )
        self._iteration, self._evaluated_at = tracker.iteration, tracker.timesteps
        self._saved_at = time.monotonic()

    def _on_step(self) -> bool:
        tracker = find_tracker(stack_of(self.model))
        if tracker.iteration == self._iteration:
            return True
        self._iteration = tracker.iteration
        assert tracker.last_report is not None
        report = tracker.last_report
        figures = _figures("occupancy", report.objective, report.constraints)
        figures |= {f"multiplier/{name}": multiplier for name, multiplier in report.multipliers.items()}
        figures |= {"occupancy/iteration": tracker.iteration, "occupancy/progress": tracker.progress}
        if self._evaluator is not None:
            assert tracker.last_batch is not None
            self._evaluator.see(tracker.last_batch)
            if tracker.timesteps - self._evaluated_at >= _SHARE * self._evaluator.n_steps:
                figures |= self._evaluated(self._evaluator)
        self._log(figures)
        if self._save_path is not None and time.monotonic() - self._saved_at >= _SAVED_EVERY:
            save(self.model, self._save_path)
            self._saved_at = time.monotonic()
        return True

    def _evaluated(self, evaluator: Evaluator) -> dict[str, float]:
        self._evaluated_at = evaluator.tracker.timesteps
        self.values = evaluator.evaluate(self.model)
        return _figures("policy", self.values.objective, self.values.constraints)

    def _log(self, figures: dict[str, float]) -> None:
        """Every batch to TensorBoard, where it ends; the latest to what writes tables now and then."""
        for name, value in figures.items():
            self.logger.record(name, value, exclude="tensorboard")
        for output in self.logger.output_formats:
            if isinstance(output, TensorBoardOutputFormat):
                output.write(dict(figures), dict.fromkeys(figures, ("",)), self.num_timesteps)

    def _on_training_end(self) -> None:
        self._acting.close()
        tracker = find_tracker(stack_of(self.model))
        if self._evaluator is not None:
            self._log(self._evaluated(self._evaluator))
            self.logger.dump(self.num_timesteps)
        if self._save_path is not None:
            save(self.model, self._save_path)
        if self.verbose > 0:
            sentences = [] if self.values is None else [str(self.values), *map(str, self.values.limits)]
            print("\n".join([*sentences, *on_the_way(tracker)]))


def _figures(room: str, objective: float | None, constraints: Mapping[str, float]) -> dict[str, float]:
    figures = {} if objective is None else {f"{room}/objective": objective}
    return figures | {f"{room}/{name}": value for name, value in constraints.items()}


class EvalCallback(BaseCallback):
    """Keeps the best policy: of those within all limits the one of the greatest objective, by exact or fresh values.

    Values are those of ``policy/`` in :class:`OccupancyCallback`. λ̂, multipliers and the training environment are not
    touched. As long as no policy is within the limits, the best is that of the least violation, and it is said so.

    Args:
        eval_freq: steps of all copies together from one evaluation to the next.
        save_path: where the best is kept, as :func:`save` writes it.
        eval_env: as in :class:`OccupancyCallback`.
        verbose: 1 to print each new best, else 0.

    Attributes:
        best: values of the best policy; ``None`` before the first evaluation.
        history: steps and values of every evaluation, in order.

    Raises:
        MissingTracker, InvalidSetting, UnsupportedPolicy: on ``learn``: the policy cannot be evaluated.
        InvalidSetting: no frequency.
    """

    def __init__(
        self,
        *,
        eval_freq: int = 10_000,
        save_path: str | PathLike[str] | None = None,
        eval_env: Any = None,
        verbose: int = 1,
    ) -> None:
        super().__init__(verbose)
        self._eval_freq = check_count("eval_freq", eval_freq)
        self._save_path, self._eval_env = save_path, eval_env
        self._evaluator: Evaluator | None = None
        self.best: PolicyValues | None = None
        self.history: list[tuple[int, PolicyValues]] = []

    def _on_training_start(self) -> None:
        self._evaluator = Evaluator(self.model, self._eval_env)
        self._next = self.num_timesteps + self._eval_freq

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._next:
            self._next = self.num_timesteps + self._eval_freq
            self._evaluate()
        return True

    def _on_training_end(self) -> None:
        self._evaluate()

    def _evaluate(self) -> None:
        assert self._evaluator is not None
        if self._evaluator.tracker.last_batch is None:
            return  # cells, and what a constraint is measured in, are not known before the first batch
        values = self._evaluator.evaluate(self.model)
        self.history.append((self.num_timesteps, values))
        for name, value in _figures("eval", values.objective, values.constraints).items():
            self.logger.record(name, value)
        if self.best is not None and not values.is_better_than(self.best):
            return
        self.best = values
        if self._save_path is not None:
            save(self.model, self._save_path)
        if self.verbose > 0:
            within = (
                ""
                if values.is_within
                else f" No policy was within the limits yet; this one is {values.violation:.4g} off."
            )
            print(f"Best policy after {self.num_timesteps} steps: {values}{within}")
