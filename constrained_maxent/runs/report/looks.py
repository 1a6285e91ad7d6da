"""What a report shows of a policy: the figures of a run as pictures, and a short film."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import imageio.v2 as imageio
from matplotlib.figure import Figure

from constrained_maxent.reporting.page import Film, Picture, Shape
from constrained_maxent.runs.pictures import record_video
from constrained_maxent.runs.run_folder import RunFolder

FILM_SECONDS, FILM_FPS = 6.0, 20
LARGEST_FILM = 1_500_000
"""Bytes."""

_PICTURES: dict[str, tuple[str, str, Shape]] = {
    "training.png": (
        "The training: objective and constraints over iterations, pale as they were sampled, strong where exact.",
        "Curves of objective and constraints over iterations, with limits and, where known, the optimum as lines.",
        "curves",
    ),
    "occupancy.png": (
        "Where the last policy spends its time, exactly, and what it does there.",
        "Map of the lake: color is the occupancy of each cell, arrows are the probabilities of actions.",
        "map",
    ),
    "strip.png": (
        "One fresh episode, with the path of the pole's tip.",
        "Snapshots of cart and pole along one episode.",
        "strip",
    ),
    "motion.png": (
        "Thirty fresh episodes: position of the cart and angle of the pole over time.",
        "Mean and standard deviation over episodes of cart position and pole angle.",
        "curves",
    ),
    "visits.png": (
        "Where fresh episodes go, beside the reference.",
        "Maps of the table: color is the share of steps in each cell.",
        "map",
    ),
    "actions.png": (
        "Paths of fresh episodes with the actions taken, and in gray those of the reference.",
        "Trajectories on the table with actions as arrows.",
        "map",
    ),
}
"""Caption, description and kind of a figure, by the file that ``cmaxent plot`` writes."""


def picture(name: str, figures: Mapping[Path, Figure]) -> Picture:
    """A figure of a run, by the name of the file that ``cmaxent plot`` writes."""
    caption, alt, shape = _PICTURES[name]
    drawn = next(drawn for path, drawn in figures.items() if path.name == name)
    return Picture.of(drawn, alt=alt, caption=caption, shape=shape)


def take_film(folder: RunFolder) -> Film:
    """A film of the policy that is small enough to be part of a page; raises what ``record_video`` raises."""
    seconds = FILM_SECONDS
    with TemporaryDirectory() as place:
        path = Path(place) / "film.mp4"
        while True:
            recording = record_video(folder, seconds=seconds, fps=FILM_FPS, path=path)
            if path.stat().st_size <= LARGEST_FILM or seconds < 1.0:
                break
            seconds /= 2.0
        poster = io.BytesIO()
        imageio.imwrite(poster, recording.last, format="jpeg", quality=85)
        painter = "the environment itself" if recording.painter == "environment" else recording.painter
        caption = f"{recording.n_frames / FILM_FPS:g} seconds of a fresh episode at true speed, drawn by {painter}."
        alt = "Film of the policy in a fresh episode; its last image where films cannot be shown."
        return Film(path.read_bytes(), poster.getvalue(), recording.last.shape[1], alt, caption)
