"""What the files of a run folder say, without its environment; third parties' runs included."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from gymnasium.error import DependencyNotInstalled

from constrained_maxent.errors import ConstrainedMaxentError
from constrained_maxent.evaluation import Estimate, LimitVerdict
from constrained_maxent.evaluation.rollouts import constraint_figure
from constrained_maxent.reporting.page import Block, Notes, Table, Words
from constrained_maxent.runs.comparing.methods import PGP
from constrained_maxent.runs.provenance import train_command
from constrained_maxent.runs.run_folder import RunFolder, default_folder
from constrained_maxent.runs.settings import TrainSettings
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


class Recorded:
    """A run as its files have it.

    Attributes:
        folder, config: its folder, and the content of ``config.json``.
        env_id, agent: names of its environment and of who learnt.
        is_ours: whether that is this package's own agent.
        summary: the content of ``summary.json``; empty where there is none.
        has_checkpoint: whether there is a policy.
        settings: of the training, or why they cannot be read.

    Raises:
        InvalidRun: no run, or its files are damaged.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.config = folder, folder.read_config()
        self.env_id, self.agent = str(self.config["env_id"]), str(self.config.get("agent", PGP))
        self.is_ours = self.agent == PGP
        self.summary = folder.read_summary() if folder.summary_path.exists() else {}
        self.has_checkpoint = folder.checkpoint_path.exists()
        self.settings: Tried[TrainSettings] = tried(lambda: load_config(folder)[1])

    @property
    def seed(self) -> Any:
        """Of the training; ``None`` where it is not known."""
        return self.config["settings"].get("seed")

    def how_it_ended(self) -> str:
        """A word or two, and after how long."""
        if not self.summary:
            return "no summary: not ended, or killed"
        status = str(self.summary.get("status", "ended"))
        seconds = self.summary.get("seconds")
        return status if seconds is None else f"{status} after {_duration(seconds)}"

    def limits(self) -> tuple[LimitVerdict, ...]:
        """Whether limits were kept at the end of the training."""
        return tuple(map(LimitVerdict.from_json, self.summary.get("limits") or ()))

    def certificate(self) -> list[Block]:
        """The certificate, or why there is none."""
        certificate = self.summary.get("certificate")
        if certificate is None:
            return [Words(f"There is none. {self._why_no_certificate()}")]
        rows = [["objective", figure(certificate["value"])]]
        optimum = "optimum" + (", time-dependent" if certificate["is_time_dependent"] else "")
        rows += [[optimum, figure(certificate["optimum"])], ["gap", figure(certificate["gap"])]]
        for name, violation in certificate["constraints"].items():
            rows.append([in_words(constraint_figure(name)), figure(violation)])
            rows.append([f"multiplier of {name}", figure(certificate["multipliers"][name])])
        rows.append(["(ε, ε)-optimal for ε =", figure(certificate["epsilon"])])
        rows.append(["no policy is above", figure(certificate["dual_bound"])])
        rows.append(["strong duality", "observed" if certificate["strong_duality"] else "not observed"])
        margin = certificate["slater_margin"]  # no number where it is infinite
        rows.append(["Slater's margin", "none" if margin is None else figure(margin)])
        blocks: list[Block] = [Table(["", "exactly"], rows, "The last policy beside the global optimum.")]
        if certificate["is_time_dependent"]:
            words = "At a finite horizon the optimum may depend on time: an upper bound for stationary policies."
            blocks.append(Words(words, quiet=True))
        return blocks

    def _why_no_certificate(self) -> str:
        if reason := self.summary.get("no_certificate"):
            return str(reason)
        if self.summary.get("exact") is not None and self.has_checkpoint:
            return f"Nobody has asked for one: cmaxent certify {self.folder.path} writes it."
        return "It takes a tabular policy, and an environment whose dynamics and costs are known."

    def kept_warnings(self) -> list[dict[str, Any]] | None:
        """What was warned while it was trained; ``None`` where that is not known."""
        if "warnings" in self.summary:
            return list(self.summary["warnings"])
        kept = self.folder.read_warnings()
        return kept if kept or not self.summary else None

    def warning_blocks(self) -> list[Block]:
        """What was warned while it was trained."""
        entries = self.kept_warnings()
        if entries is None:
            return [Words("Not known: when this run was trained, warnings were not kept.")]
        if not entries:
            return [Words("The training gave none.")]
        return [Notes([(entry["category"], _when(entry["iteration"]), entry["message"]) for entry in entries])]

    def commands(self, planned: int | None = None) -> tuple[str, ...]:
        """What to type to train it again; nothing where that is not known.

        Args:
            planned: iterations after which its schedules ended, where that is known.
        """
        settings = self.settings.found
        if not self.is_ours or settings is None:
            return ()
        if planned is None or planned == settings.iterations:
            return (train_command(self.env_id, settings),)
        first = train_command(self.env_id, replace(settings, iterations=planned))
        folder = default_folder(self.env_id, settings.seed)
        return first, shlex.join(
            ["cmaxent", "train", "--resume", str(folder), "--iterations", str(settings.iterations)]
        )


def limits_table(verdicts: Sequence[LimitVerdict]) -> Table:
    """Constraints with their intervals."""
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
