"""What pages of runs and of sweeps say alike, from the files of a run folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from gymnasium.error import DependencyNotInstalled

from constrained_maxent.errors import ConstrainedMaxentError
from constrained_maxent.evaluation import Estimate, LimitVerdict
from constrained_maxent.reporting.page import Block, Heading, Notes, Table, Words
from constrained_maxent.runs.provenance import train_command
from constrained_maxent.runs.reading import Run
from constrained_maxent.runs.run_folder import default_folder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.summary import TIME_DEPENDENT, certificate_rows
from constrained_maxent.runs.training import load_config

T = TypeVar("T")


@dataclass(frozen=True)
class Tried(Generic[T]):
    """Something, or why there is none."""

    found: T | None
    reason: str = ""


def tried(make: Callable[[], T], *more: type[Exception]) -> Tried[T]:
    """What is made, or the reason of the errors that this package raises on purpose, and of ``more``."""
    ours = (ConstrainedMaxentError, DependencyNotInstalled)
    expected: tuple[type[Exception], ...] = (*ours, ImportError, OSError, *more)
    try:
        return Tried(make())
    except expected as error:
        return Tried(None, str(error) if isinstance(error, ours) else f"{type(error).__name__}: {error}")


def figure(value: float | None) -> str:
    """A number for a table."""
    return "" if value is None else str(Estimate.exactly(value))


def in_words(name: str) -> str:
    """The name of a figure as a page has it: with a sign that is no hyphen."""
    return name.replace(" - ", " − ")


def settings_of(run: Run) -> Tried[TrainSettings]:
    """Those that this package's own agent was trained with, or why they cannot be read."""
    return tried(lambda: load_config(run.folder)[1])


def how_it_ended(run: Run) -> str:
    """A word or two, and after how long."""
    if not run.summary:
        return "no summary: not ended, or killed"
    status = str(run.summary.get("status", "ended"))
    seconds = run.summary.get("seconds")
    return status if seconds is None else f"{status} after {_duration(seconds)}"


def certificate_blocks(run: Run) -> list[Block]:
    """The certificate, or why there is none."""
    certificate = run.summary.get("certificate")
    if certificate is None:
        return [Words(f"There is none. {_why_no_certificate(run)}")]
    rows = [
        [in_words(name), value if isinstance(value, str) else figure(value)]
        for name, value in certificate_rows(certificate, "objective")
    ]
    blocks: list[Block] = [Table(["", "exactly"], rows, "The last policy beside the global optimum.")]
    if certificate["is_time_dependent"]:
        blocks.append(Words(TIME_DEPENDENT, quiet=True))
    return blocks


def _why_no_certificate(run: Run) -> str:
    if reason := run.summary.get("no_certificate"):
        return str(reason)
    if run.summary.get("exact") is not None and run.folder.checkpoint_path.exists():
        return f"Nobody has asked for one: cmaxent certify {run.path} writes it."
    return "It takes a tabular policy, and an environment whose dynamics and costs are known."


def known_warnings(run: Run) -> list[dict[str, Any]] | None:
    """What was warned while it was trained; ``None`` where that is not known."""
    if "warnings" in run.summary:
        return list(run.summary["warnings"])
    kept = run.folder.read_warnings()
    return kept if kept or not run.summary else None


def warning_blocks(run: Run) -> list[Block]:
    """What was warned while it was trained."""
    entries = known_warnings(run)
    if entries is None:
        return [Words("Not known: when this run was trained, warnings were not kept.")]
    if not entries:
        return [Words("The training gave none.")]
    return [Notes([(entry["category"], _when(entry["iteration"]), entry["message"]) for entry in entries])]


def limit_blocks(verdicts: Sequence[LimitVerdict]) -> list[Block]:
    """Whether limits are kept, and what to do; nothing where there are none."""
    if not verdicts:
        return []
    remedies = [Words(verdict.remedy) for verdict in verdicts if verdict.remedy]
    return [Heading("Constraints"), _limits_table(verdicts), *remedies]


def commands(run: Run, planned: int | None = None) -> tuple[str, ...]:
    """What to type to train it again; nothing where that is not known.

    Args:
        planned: iterations after which its schedules ended, where that is known.
    """
    settings = settings_of(run).found
    if settings is None:
        return ()
    if planned is None or planned == settings.iterations:
        return (train_command(run.env_id, settings),)
    first = train_command(run.env_id, replace(settings, iterations=planned))
    folder = default_folder(run.env_id, settings.seed)
    return first, shlex.join(["cmaxent", "train", "--resume", str(folder), "--iterations", str(settings.iterations)])


def _limits_table(verdicts: Sequence[LimitVerdict]) -> Table:
    rows = []
    for verdict in verdicts:
        mean, interval = parts(verdict.violation)
        source = "exact" if verdict.n_episodes is None else f"{verdict.n_episodes} episodes"
        rows.append([verdict.name, f"{verdict.limit:g}", mean, interval or "none", source, verdict.status])
    headings = ["constraint", "limit", "value − limit", "95 % interval", "known from", ""]
    return Table(headings, rows, left=(4, 5), statuses=[verdict.status for verdict in verdicts])


def parts(estimate: Estimate) -> tuple[str, str]:
    """The mean and the interval, empty where there is none."""
    mean, _, interval = str(estimate).partition(" ")
    return mean, interval


def _when(iteration: int | None) -> str:
    return "before the first iteration" if not iteration else f"after iteration {iteration:,}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
