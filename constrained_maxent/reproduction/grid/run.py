"""Does the runs of a study, evaluates their policies exactly, and keeps rows on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from constrained_maxent.atomic import replacing
from constrained_maxent.engine import EngineProgress, TabularEngine, TabularResult
from constrained_maxent.errors import CheckpointMismatch, InvalidRun
from constrained_maxent.reproduction.grid.sweep import Scale, Study
from constrained_maxent.reproduction.grid.tables import read_table, write_table
from constrained_maxent.reproduction.grid.worlds import OCCUPANCY, Place, place_of
from constrained_maxent.runs.run_folder import require_folder
from constrained_maxent.types import FloatArray

SECONDS_BETWEEN_CHECKPOINTS = 2.0
CHECKPOINT_SHARE = 0.02
"""Most of the time that checkpoints may take: large ones come less often."""

Progress = Callable[[EngineProgress], None]


@dataclass(frozen=True)
class Row:
    """One policy of one run, evaluated exactly.

    Attributes:
        study, method, episodes_per_batch, learning_rate, beta, dual_rate, momentum, limit, seed: which run.
        iteration: batches before this policy.
        transitions: steps taken in the MDP before it: the run's own, shared out evenly over its batches.
        entropy: of its occupancy [nats].
        value: its cost, or its distance to the reference; satisfied where ≤ ``limit``.
    """

    study: str
    method: str
    episodes_per_batch: int
    learning_rate: float
    beta: float
    dual_rate: float
    momentum: float
    limit: float
    seed: int
    iteration: int
    transitions: int
    entropy: float
    value: float


class StudyFiles:
    """Files of a study in a folder.

    Args:
        folder: of all studies.
        name: of this one.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.rows = folder / f"{name}.csv"
        self.about = folder / f"{name}.json"
        self.checkpoint = folder / f"{name}.partial.npz"
        self.summary = folder / f"{name}-summary.csv"
        self.claims = folder / f"{name}-claims.csv"
        self.reaches = folder / f"{name}-reach.csv"
        self.mixtures = folder / f"{name}-frank-wolfe.csv"
        self.best = folder / f"{name}-best.csv"
        self.policies = folder / f"{name}-policies.npy"


def run_study(
    study: Study, scale: Scale, folder: Path, *, progress: Progress | None = None, threads: int | None = None
) -> list[Row]:
    """The rows of a study: read, if it is finished, else computed and written.

    Ctrl-C or an error loses at most the chunk under way, some tenths of a second; the same call goes on from there. A
    process that is killed loses what came after the last checkpoint: two seconds, or fifty times what writing it takes.

    Args:
        study: what to run.
        scale: how long, and with how many seeds.
        folder: of the study's files.
        progress: called a few times each second with how far the engine is.
        threads: of the engine.

    Raises:
        InvalidRun: the folder is a file, or holds this study at another scale or with other settings, or a damaged one.
    """
    require_folder(folder)
    files = StudyFiles(folder, study.name)
    design = _design(study, scale)
    if files.about.exists():
        if _read_json(files.about)["design"] != design:
            raise InvalidRun(f"{files.about} belongs to another scale or other settings: take another --out.")
        return read_table(files.rows, Row)
    folder.mkdir(parents=True, exist_ok=True)
    place = place_of(study.world)
    begun = time.perf_counter()
    result, before = _train(study, scale, place, files, progress, threads)
    trained = time.perf_counter()
    rows = list(_evaluate(study, scale, place, result))
    write_table(files.rows, rows)
    if study.draws_policies:
        policies = result.policies.reshape(len(study.settings), scale.seeds_of(study), *result.policies.shape[1:])
        with replacing(files.policies) as path, path.open("wb") as file:
            np.save(file, policies)
    about = {
        "design": design,
        "transitions": int(result.transitions.sum()),
        "training_seconds": round(before + trained - begun, 1),
        "evaluation_seconds": round(time.perf_counter() - trained, 1),
        "diverged": int((result.diverged >= 0).sum()),
    }
    # Last: its presence says that the study is finished.
    with replacing(files.about) as path:
        path.write_text(json.dumps(about, indent=1), encoding="utf-8")
    files.checkpoint.unlink(missing_ok=True)
    return rows


def _train(
    study: Study, scale: Scale, place: Place, files: StudyFiles, progress: Progress | None, threads: int | None
) -> tuple[TabularResult, float]:
    """All runs of a study, and how many seconds went into them before this call."""
    runs = [
        place.run_settings(study, setting, seed) for setting in study.settings for seed in range(scale.seeds_of(study))
    ]
    every = scale.snapshot_every(study)
    engine = TabularEngine(place.mdp, runs, scale=OCCUPANCY, snapshot_every=every, threads=threads)
    design = json.dumps(_design(study, scale))
    before = _load(engine, files.checkpoint, design)
    begun = time.perf_counter()
    due = begun + SECONDS_BETWEEN_CHECKPOINTS

    def watch(engine: TabularEngine, at: EngineProgress) -> None:
        nonlocal due
        if progress is not None:
            progress(at)
        if time.perf_counter() > due and at.iterations < at.target:
            start = time.perf_counter()
            save()
            end = time.perf_counter()
            due = end + max(SECONDS_BETWEEN_CHECKPOINTS, (end - start) / CHECKPOINT_SHARE)

    def save() -> None:
        state = {**engine.state_dict(), "seconds": before + time.perf_counter() - begun, "design": design}
        with replacing(files.checkpoint) as path, path.open("wb") as file:
            np.savez(file, **state)

    try:
        result = engine.run(scale.iterations_of(study), callback=watch)
    finally:
        # Ctrl-C, an error, or done: what follows is to lose nothing of it either.
        save()
    return result, before


def _design(study: Study, scale: Scale) -> Any:
    """What determines a study's rows, as plain data."""
    return json.loads(json.dumps({"scale": asdict(scale), "study": asdict(study)}))


def _load(engine: TabularEngine, path: Path, design: str) -> float:
    if not path.exists():
        return 0.0
    try:
        with np.load(path) as state:
            if str(state["design"]) != design:
                raise CheckpointMismatch("it belongs to another scale or other settings")
            engine.load_state_dict(state)
            return float(state["seconds"])
    except (CheckpointMismatch, BadZipFile, ValueError, KeyError, EOFError) as error:
        raise InvalidRun(f"{path} cannot be continued ({error}): remove it, or take another --out.") from error


def _evaluate(study: Study, scale: Scale, place: Place, result: TabularResult) -> Iterable[Row]:
    """Rows of all snapshots and of the last policy, where a run came so far."""
    policies = result.snapshot_policies
    for run in range(len(result.iterations)):
        setting, seed = study.settings[run // scale.seeds_of(study)], run % scale.seeds_of(study)
        per_batch = float(result.transitions[run]) / max(int(result.iterations[run]), 1)
        at = dict(zip(result.snapshot_iterations.tolist(), policies[run], strict=True))
        at[int(result.iterations[run])] = result.policies[run]
        known = [(iteration, policy) for iteration, policy in sorted(at.items()) if np.isfinite(policy).all()]
        points = place.measure_all(np.array([policy for _, policy in known])).tolist()
        for (iteration, _), (entropy, value) in zip(known, points, strict=True):
            yield Row(
                study=study.name,
                seed=seed,
                iteration=iteration,
                transitions=round(per_batch * iteration),
                entropy=entropy,
                value=value,
                **asdict(setting),
            )


def read_policies(path: Path) -> FloatArray:
    """Last policies of a study that draws them, ``(n_settings, n_seeds, n_states, n_actions)``.

    Raises:
        InvalidRun: the file is missing or damaged.
    """
    try:
        policies: FloatArray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidRun(f"{path} is missing or damaged ({error}): remove the study's .json to compute it.") from error
    return policies


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        content["design"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRun(f"{path} is damaged: remove it to compute its study again.") from error
    return content
