"""A model of Stable-Baselines3 with what its environment has learnt, in one file that both can read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from constrained_maxent.adapters.sb3 import require_stable_baselines
from constrained_maxent.adapters.sb3.evaluator import stack_of
from constrained_maxent.agents.checkpoints import DamageNamed, describe, packed, restore_tracker, unpack, unpacked
from constrained_maxent.atomic import replacing
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint
from constrained_maxent.tracker import find_tracker

_ENTRY = "occupancy.pt"
"""Of the zip file; Stable-Baselines3 looks at other endings only."""
_FORMAT = 1


def save(model: Any, path: str | PathLike[str]) -> Path:
    """Write a model, λ̂, multipliers and counts, and the statistics of ``VecNormalize`` where it learns under one.

    The file is there whole or not at all. At a batch's end a training goes on from it exactly; of a batch under way the
    steps are lost. ``algorithm.load`` of Stable-Baselines3 reads the model alone; a replay buffer is saved by
    ``model.save_replay_buffer``.

    Args:
        model: with the environment that it learns on.
        path: of the file; ``.zip`` is added where there is no ending, and folders are made.

    Returns:
        The file.

    Raises:
        MissingTracker, InvalidSetting: the model has no environment of this package.
        OSError: it cannot be written.
        gymnasium.error.DependencyNotInstalled: without Stable-Baselines3.
    """
    require_stable_baselines()
    env = stack_of(model)
    content = {
        "format": _FORMAT,
        "environment": describe(env),
        "tracker": find_tracker(env).state_dict(),
        "normalization": _statistics_of(model.get_vec_normalize_env()),
    }
    state = io.BytesIO()
    torch.save(packed(content), state)
    written = io.BytesIO()  # in memory first: of a full disk zip files say neither what nor where it is
    model.save(written)
    with zipfile.ZipFile(written, mode="a") as archive:
        archive.writestr(_ENTRY, state.getvalue())
    target = _zip(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as temporary:
        temporary.write_bytes(written.getbuffer())
    return target


def load(algorithm: type, path: str | PathLike[str], venv: Any, **settings: Any) -> Any:
    """A model that :func:`save` wrote, on an environment that knows what that of the training knew.

    ``model.learn(..., reset_num_timesteps=False)`` goes on.

    Args:
        algorithm: its class, such as ``PPO``.
        path: of the file.
        venv: the same stack as in the training, ``VecNormalize`` included; it gets λ̂, multipliers and statistics.
        settings: arguments of ``algorithm.load``.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedCheckpoint: the file is truncated or corrupt, or Stable-Baselines3 alone wrote it.
        CheckpointMismatch: of another environment, or with statistics that ``venv`` has no place for.
        gymnasium.error.DependencyNotInstalled: without Stable-Baselines3.
    """
    require_stable_baselines()
    source = _zip(path)
    content = _read(source)
    if content.get("format") != _FORMAT:
        raise CheckpointMismatch(f"{source} has format {content.get('format')}, this version reads {_FORMAT}.")
    model = algorithm.load(source, env=venv, **settings)  # type: ignore[attr-defined]  # of a class of another package
    env = stack_of(model)
    here = describe(env)
    with DamageNamed(source):
        for key, there in content["environment"].items():
            if here[key] != there:
                raise CheckpointMismatch(
                    f"{source} was made on an environment with {key} {there}; this one has {here[key]}."
                )
        normalization = model.get_vec_normalize_env()
        statistics = unpacked(content["normalization"])
        if (normalization is None) != (statistics is None):
            raise CheckpointMismatch(
                f"{source} was made {'without' if statistics is None else 'under'} VecNormalize: wrap venv likewise."
            )
        restore_tracker(find_tracker(env), unpacked(content["tracker"]))
        if normalization is not None:
            _put_back(normalization, statistics)
    return model


def _read(source: Path) -> Any:
    try:
        with zipfile.ZipFile(source) as archive:
            names = archive.namelist()
            if "data" not in names:  # parts are zip files as well, and may be what is found of a truncated one
                raise zipfile.BadZipFile
            if _ENTRY in names:
                return unpack(io.BytesIO(archive.read(_ENTRY)))
    except OSError:
        raise
    except Exception as error:  # whatever a parser trips over, the file is not what save() wrote
        raise DamagedCheckpoint(f"{source} cannot be read: it is truncated, corrupt, or no model.") from error
    raise DamagedCheckpoint(
        f"{source} holds a model without λ̂: save it by adapters.sb3.save(model, path), not by model.save."
    )


def _zip(path: str | PathLike[str]) -> Path:
    target = Path(path)
    return target if target.suffix else target.with_suffix(".zip")


def _statistics_of(normalization: Any) -> dict[str, Any] | None:
    """Running means and variances, by what they are of."""
    if normalization is None:
        return None
    return {name: [rms.mean, rms.var, float(rms.count)] for name, rms in _running(normalization).items()}


def _put_back(normalization: Any, statistics: Mapping[str, Any]) -> None:
    running = _running(normalization)
    if running.keys() != statistics.keys():
        raise CheckpointMismatch(
            f"The statistics are of {', '.join(statistics)}; this VecNormalize has some of {', '.join(running)}."
        )
    for name, rms in running.items():
        mean, variance, count = statistics[name]
        rms.mean, rms.var, rms.count = np.array(mean), np.array(variance), count


def _running(normalization: Any) -> dict[str, Any]:
    of_observations = getattr(normalization, "obs_rms", {}) if normalization.norm_obs else {}
    if not isinstance(of_observations, Mapping):
        of_observations = {"": of_observations}
    named = {f"observation {key}".strip(): rms for key, rms in of_observations.items()}
    return named | {"return": normalization.ret_rms}
