"""Does the runs of a study, evaluates their policies exactly, and keeps the rows on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl

from constrained_maxent.atomic import replacing, write_text
from constrained_maxent.engine import EngineProgress, TabularEngine, TabularResult
from constrained_maxent.errors import CheckpointMismatch, InvalidRun
from constrained_maxent.oracle import frank_wolfe
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.reproduction.grid.linear_layer import LinearLayerEngine
from constrained_maxent.reproduction.grid.studies import GridStudy, Setting, WorldName, run_settings
from constrained_maxent.reproduction.grid.worlds import ENTROPY, OCCUPANCY, World, world_of
from constrained_maxent.reproduction.tables import read_table, write_table
from constrained_maxent.runs.run_folder import require_folder
from constrained_maxent.types import FloatArray

SECONDS_BETWEEN_CHECKPOINTS = 2.0
CHECKPOINT_SHARE = 0.02
"""Most of the time that checkpoints may take: large ones come less often."""

_TYPES: dict[Any, type[pl.DataType]] = {"Method": pl.String, "int": pl.Int64, "float": pl.Float64}
SETTING = {"study": pl.String} | {field.name: _TYPES[field.type] for field in fields(Setting)}
"""Columns that tell a setting from others."""

ROWS = (
    SETTING
    | dict.fromkeys(("seed", "iteration", "transitions"), pl.Int64)
    | dict.fromkeys(("entropy", "value"), pl.Float64)
)
"""Columns of a study's rows. Each is one policy of one run, evaluated exactly: how many batches and transitions were
before it, the run's transitions shared out evenly over its batches; the entropy of its occupancy [nats]; and its cost,
or its distance to the reference, which keeps the constraint where ``value`` ≤ ``limit``."""

MIXTURES: dict[str, type[pl.DataType]] = {
    "beta": pl.Float64,
    "iterations": pl.Int64,
    "policies": pl.Int64,
    "entropy": pl.Float64,
    "value": pl.Float64,
    "gap": pl.Float64,
}
"""Columns of Frank–Wolfe's mixtures: β of the quadratic penalty, iterations that were allowed (fewer are done once
nothing is gained), how many policies it has, each dependent on time, its entropy [nats] and cost, and the last gap."""

MIXTURE_BETA = 1.0


class StudyFiles:
    """Files of a study of this name in the folder of all studies."""

    def __init__(self, folder: Path, name: str) -> None:
        self.rows = folder / f"{name}.csv"
        self.about = folder / f"{name}.json"
        self.checkpoint = folder / f"{name}.partial.npz"
        self.summary = folder / f"{name}-summary.csv"
        self.claims = folder / f"{name}-claims.csv"
        self.transitions = folder / f"{name}-reach.csv"
        self.mixtures = folder / f"{name}-frank-wolfe.csv"
        self.best = folder / f"{name}-best.csv"
        self.policies = folder / f"{name}-policies.npy"


@contextmanager
def _reading(path: Path, remedy: str) -> Iterator[None]:
    """Whatever reading the file raises becomes ``InvalidRun``, with what to do."""
    try:
        yield
    except (CheckpointMismatch, BadZipFile, OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise InvalidRun(f"{path} is missing or damaged, or belongs to another study ({error}): {remedy}") from error


def run_study(
    study: GridStudy,
    folder: Path,
    *,
    progress: Callable[[EngineProgress], None] = lambda at: None,
) -> pl.DataFrame:
    """The rows of a study, with the columns ``ROWS``: read, if it is finished, else computed and written.

    Ctrl-C or an error loses at most the chunk under way, some tenths of a second; the same call goes on from there. A
    process that is killed loses what came after the last checkpoint: two seconds, or fifty times what writing it takes.

    Args:
        study: what to run.
        folder: of the study's files.
        progress: called a few times each second with how far the engine is.

    Raises:
        InvalidRun: the folder is a file, or holds this study at another scale or with other settings, or a damaged one.
    """
    require_folder(folder)
    files = StudyFiles(folder, study.name)
    design = json.loads(json.dumps(asdict(study)))
    if files.about.exists():
        with _reading(files.about, "remove it to compute its study again."):
            design_there = json.loads(files.about.read_text(encoding="utf-8"))["design"]
        if design_there != design:
            raise InvalidRun(f"{files.about} belongs to another scale or other settings: take another --out.")
        return read_table(files.rows, ROWS)
    folder.mkdir(parents=True, exist_ok=True)
    world = world_of(study.world, study.conventions)
    begun = time.perf_counter()
    result, before = _train(study, world, files, progress)
    trained = time.perf_counter()
    rows = _evaluate(study, world, result)
    write_table(files.rows, rows)
    if study.draws_policies:
        policies = result.policies.reshape(len(study.settings), study.seeds, *result.policies.shape[1:])
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
    write_text(files.about, json.dumps(about, indent=1))
    files.checkpoint.unlink(missing_ok=True)
    return rows


def _train(
    study: GridStudy, world: World, files: StudyFiles, progress: Callable[[EngineProgress], None]
) -> tuple[TabularResult, float]:
    """All runs of a study, and how many seconds went into them before this call."""
    engine_class = LinearLayerEngine if study.conventions.linear_layer else TabularEngine
    engine = engine_class(
        world.mdp,
        [
            run_settings(
                setting,
                study.constraint,
                world.functional.with_limit(setting.limit),
                seed=seed,
                conventions=study.conventions,
            )
            for setting in study.settings
            for seed in range(study.seeds)
        ],
        scale=OCCUPANCY,
        snapshot_every=study.snapshot_every,
        planned_iterations=study.planned_iterations or study.iterations,
    )
    design = json.dumps(asdict(study))
    before = _load(engine, files.checkpoint, design)
    begun = time.perf_counter()
    due = begun + SECONDS_BETWEEN_CHECKPOINTS

    def watch(engine: TabularEngine, at: EngineProgress) -> None:
        nonlocal due
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
        result = engine.run(study.iterations, callback=watch)
    finally:
        # Ctrl-C, an error, or done: what follows is to lose nothing of it either.
        save()
    return result, before


def _load(engine: TabularEngine, path: Path, design: str) -> float:
    if not path.exists():
        return 0.0
    with _reading(path, "it cannot be continued; remove it, or take another --out."), np.load(path) as state:
        if str(state["design"]) != design:
            raise CheckpointMismatch("another scale or other settings")
        engine.load_state_dict(state)
        return float(state["seconds"])


def _evaluate(study: GridStudy, world: World, result: TabularResult) -> pl.DataFrame:
    """Rows of all snapshots and of the last policy, where a run came so far."""
    snapshots, tables = result.snapshot_policies, []
    for run, done in enumerate(result.iterations.tolist()):
        setting, seed = study.settings[run // study.seeds], run % study.seeds
        at = dict(zip(result.snapshot_iterations.tolist(), snapshots[run], strict=True))
        at[done] = result.policies[run]
        known = {iteration: policy for iteration, policy in sorted(at.items()) if np.isfinite(policy).all()}
        entropy, value = world.measure(np.array(list(known.values()))).T
        per_batch = float(result.transitions[run]) / max(done, 1)
        table = pl.DataFrame({"iteration": list(known), "entropy": entropy, "value": value})
        tables.append(
            table.with_columns(
                (per_batch * pl.col("iteration")).round().alias("transitions"),
                **{name: pl.lit(value) for name, value in asdict(setting).items()},
                study=pl.lit(study.name),
                seed=pl.lit(seed),
            )
            .select(*ROWS)
            .cast(pl.Schema(ROWS))
        )
    return pl.concat(tables)


def read_policies(path: Path) -> FloatArray:
    """Last policies of a study that draws them, ``(n_settings, n_seeds, n_states, n_actions)``.

    Raises:
        InvalidRun: the file is missing or damaged.
    """
    with _reading(path, "remove the study's .json to compute it again."):
        policies: FloatArray = np.load(path, allow_pickle=False)
    return policies


def frank_wolfe_mixtures(world_name: WorldName, path: Path, *, iterations: int) -> pl.DataFrame:
    """Mixtures of Frank–Wolfe, a planner that knows the dynamics, each of twice as many iterations as the one before.

    They are read, if these runs are in the table, else computed and written, with the columns ``MIXTURES``. A run with
    fewer iterations is the beginning of a longer one, as nothing is random.

    Raises:
        InvalidRun: the table is there and damaged.
    """
    at = [iterations // 2**k for k in range(iterations.bit_length())][::-1]
    if path.exists() and (known := read_table(path, MIXTURES))["iterations"].to_list() == at:
        return known
    world = world_of(world_name)
    rows = []
    for allowed in at:
        result = frank_wolfe(
            world.mdp,
            constraints={"constraint": Constraint(world.functional, Quadratic(MIXTURE_BETA))},
            scale=OCCUPANCY,
            iterations=allowed,
        )
        rows.append(
            {
                "beta": MIXTURE_BETA,
                "iterations": allowed,
                "policies": len(result.mixture),
                "entropy": ENTROPY(result.occupancy),
                "value": world.functional(result.occupancy),
                "gap": float(result.gaps[-1]),
            }
        )
    mixtures = pl.DataFrame(rows, schema=MIXTURES)
    write_table(path, mixtures)
    return mixtures
