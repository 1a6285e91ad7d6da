"""``cmaxent video``: a film of a run's policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from constrained_maxent.cli.console import console
from constrained_maxent.runs.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Video:
    """Film fresh episodes of a run's policy as MP4, with the path of the pole's tip or of the point mass."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    seconds: float = 10.0
    """Length of the film; it shows true speed."""
    seed: int = 0
    """Seed of environment and actions."""
    out: Path | None = None
    """The file. Default: video.mp4 in the run folder."""
    fps: int = 25
    """Images for each second."""

    def run(self, given: frozenset[str]) -> int:
        """The exit code."""
        # Imported late, as everything that draws.
        from constrained_maxent.runs.video import record_video

        folder = RunFolder(self.run_folder)
        film = record_video(folder, seconds=self.seconds, seed=self.seed, path=self.out, fps=self.fps)
        painter = {"environment": "the environment itself"}.get(film.painter, film.painter)
        # Libraries end their reasons in different ways.
        because = f", as MuJoCo cannot draw here. {film.reason}" if film.reason else "."
        console.print(f"{film.n_frames} images, drawn by {painter}{because}", markup=False, highlight=False)
        console.print(str(film.path), soft_wrap=True)
        return 0
