"""Reports of runs and of sweeps: one page that needs nothing else. What ``cmaxent report`` does."""

from __future__ import annotations

import os
from pathlib import Path

from constrained_maxent.atomic import check_writable, write_text
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.reporting.page import render
from constrained_maxent.runs.report.run import run_page
from constrained_maxent.runs.report.sweep import sweep_page
from constrained_maxent.runs.run_folder import REPORT, SWEEP, RunFolder


def write_report(source: str | os.PathLike[str], path: str | os.PathLike[str] | None = None) -> Path:
    """Write all that a run folder, or a sweep's folder of run folders, tells as one HTML file.

    A run that nobody has evaluated is evaluated now, which writes ``evaluation.json`` into its folder; figures are
    drawn and a film is taken anew. Of what cannot be had, such as a film of an environment that does not draw itself,
    the page gives the reason, and the command that would help.

    Args:
        source: folder of a run, or of a sweep: with ``sweep.json``, its runs being the folders inside it.
        path: the file, ``*.html``; by default ``report.html`` in the folder.

    Returns:
        The path of the file.

    Raises:
        InvalidRun: no run folder and no sweep, or one whose files are damaged.
        InvalidSetting: another ending of the path.
        OSError: the file cannot be written.
    """
    folder = Path(source)
    is_sweep = (folder / SWEEP).is_file()
    if not is_sweep and not RunFolder(folder).config_path.exists():
        raise InvalidRun(f"{folder} is no run folder and no sweep: it has neither config.json nor {SWEEP}.")
    target = folder / REPORT if path is None else Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidSetting(f"{target} must end in .html: no other kind of report is written.")
    check_writable(target)  # films take a while
    page = sweep_page(folder) if is_sweep else run_page(RunFolder(folder))
    write_text(target, render(page))
    return target
