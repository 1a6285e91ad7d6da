"""Checkpoint files: what an agent and a tracker say of themselves, written atomically, read without executing code."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Mapping
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import torch

from constrained_maxent.agents.pytorch import usual_numbers
from constrained_maxent.atomic import replacing
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint, InvalidSetting
from constrained_maxent.spaces import Environment, single_spaces
from constrained_maxent.tracker import Tracker, find_tracker

FORMAT = 6
"""Version of the file's layout. Files of another version are refused by name."""


class Stateful(Protocol):
    """An agent that can be written to a checkpoint and continued."""

    env: Environment

    def state_dict(self) -> dict[str, Any]:
        """Everything that it has learnt and counts: numbers, strings, arrays and tensors, in dicts and lists."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Put back what ``state_dict`` returned; from a file, tuples come as lists and NumPy's scalars as Python's."""


def save(path: str | PathLike[str], agent: Stateful, *, arguments: Mapping[str, Any] | None = None) -> None:
    """Write an agent with its environment's estimate and multipliers; until the very end an earlier file stays.

    Args:
        path: of the file; folders are made.
        agent: what is to be continued.
        arguments: plain data from which an equal agent can be constructed, for who loads the file.

    Raises:
        OSError: it cannot be written; the file is named, also where the disk is full.
    """
    content = {
        "format": FORMAT,
        "agent": type(agent).__name__,
        "environment": describe(agent.env),
        "arguments": dict(arguments or {}),
        "state": agent.state_dict(),
        "tracker": find_tracker(agent.env).state_dict(),
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # In memory first: of a full disk PyTorch's own writer says neither what nor where it is.
    written = io.BytesIO()
    torch.save(packed(content), written)
    with replacing(target) as temporary:
        temporary.write_bytes(written.getbuffer())


@usual_numbers()
def snapshot(agent: Stateful) -> dict[str, Any]:
    """What agent and tracker know now, copied: where ``put_back`` goes back to, out of the midst of an iteration."""
    return deepcopy({"state": agent.state_dict(), "tracker": find_tracker(agent.env).state_dict()})


@usual_numbers()
def put_back(taken: Mapping[str, Any], agent: Stateful) -> None:
    """Make agent and tracker what they were when the snapshot was taken."""
    agent.load_state_dict(taken["state"])
    find_tracker(agent.env).load_state_dict(taken["tracker"])


@usual_numbers()
def read(path: str | PathLike[str], env: Environment, kind: str) -> dict[str, Any]:
    """The content of a checkpoint: the ``arguments`` that it was saved with, and what ``restore`` takes.

    Args:
        path: of the file.
        env: where the agent is to continue.
        kind: name of the agent's class.

    Raises:
        FileNotFoundError, IsADirectoryError, PermissionError: there is no such file, or none that can be opened.
        DamagedCheckpoint: truncated, corrupt, or not a checkpoint.
        CheckpointMismatch: of another version, agent or environment.
    """
    here = describe(env)  # names what is not an environment before the file is blamed
    with open(path, "rb") as file:
        try:
            content = unpack(file)
        except Exception as error:  # whatever a parser trips over, the file is not what save() wrote
            raise DamagedCheckpoint(f"{path} cannot be read: it is truncated, corrupt, or not a checkpoint.") from error
    if not isinstance(content, dict) or "format" not in content:
        raise DamagedCheckpoint(f"{path} is not a checkpoint of this package.")
    if content["format"] != FORMAT:
        raise CheckpointMismatch(
            f"{path} has format {content['format']}, this version reads {FORMAT}: use the version that wrote it."
        )
    with DamageNamed(path):
        if content["agent"] != kind:
            raise CheckpointMismatch(f"{path} holds an agent {content['agent']}, not {kind}.")
        for key, there in content["environment"].items():
            if here[key] != there:
                raise CheckpointMismatch(
                    f"{path} was made on an environment with {key} {there}; this one has {here[key]}. "
                    "Build it as it was."
                )
    return content


@usual_numbers()
def restore(path: str | PathLike[str], content: Mapping[str, Any], agent: Stateful) -> None:
    """Put the content of a checkpoint into an agent of the same class, and into its environment's tracker.

    Raises:
        DamagedCheckpoint: parts are missing or do not fit.
        CheckpointMismatch: the tracker has other terms, spaces or another estimator. It stays as it was.
    """
    with DamageNamed(path):
        agent.load_state_dict(unpacked(content["state"]))
        # Last, because only now is it sure that the rest fits: the environment stays as it is otherwise.
        restore_tracker(find_tracker(agent.env), unpacked(content["tracker"]))


class DamageNamed:
    """Gives a name to whatever trips over a checkpoint's content."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, (CheckpointMismatch, InvalidSetting)):
            return
        if isinstance(error, (LookupError, TypeError, ValueError, RuntimeError, AttributeError)):
            raise DamagedCheckpoint(f"{self._path} lacks a part or holds one that does not fit: {error!r}.") from error


def restore_tracker(tracker: Tracker, state: Mapping[str, Any]) -> None:
    """Put a state into a tracker, or leave it as it was where that does not fit."""
    before = tracker.state_dict()
    try:
        tracker.load_state_dict(state)
    except Exception:
        tracker.load_state_dict(before)
        raise


def unpack(file: BinaryIO) -> Any:
    """What ``torch.save`` wrote, read without executing code. Raises what a parser trips over in a damaged file."""
    with zipfile.ZipFile(file) as archive:
        if damaged := archive.testzip():  # torch does not compare the checksums
            raise ValueError(f"The checksum of {damaged} is wrong.")
    file.seek(0)
    with warnings.catch_warnings(action="ignore"):  # about pickles that this package did not write
        return torch.load(file, map_location="cpu", weights_only=True)


def describe(env: Environment) -> dict[str, str]:
    """What an environment must have in common with that of a checkpoint.

    λ̂ and multipliers are in the units of discount and scale. The horizon is left out: a policy may be played for longer
    than it was trained.
    """
    observation_space, action_space = single_spaces(env)
    weighting, spec = find_tracker(env).weighting, env.unwrapped.spec
    return {
        "id": "unregistered" if spec is None else spec.id,
        "observation space": str(observation_space),
        "action space": str(action_space),
        "discount": repr(float(weighting.discount)),
        "scale": weighting.scale,
    }


_ARRAY = "NumPy array"
"""Only key of the dict that stands for an array in a file: an array itself cannot be loaded without executing code."""


def packed(value: Any) -> Any:
    """NumPy's arrays and scalars, within dicts and lists, as a file holds them."""
    if isinstance(value, np.ndarray):
        return {_ARRAY: torch.from_numpy(value.copy())}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: packed(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [packed(entry) for entry in value]
    return value


def unpacked(value: Any) -> Any:
    """The inverse of :func:`packed`: arrays are arrays again, tensors stay tensors."""
    if isinstance(value, Mapping):
        if value.keys() == {_ARRAY}:
            return value[_ARRAY].numpy()
        return {key: unpacked(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [unpacked(entry) for entry in value]
    return value
