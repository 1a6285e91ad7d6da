"""Checkpoints of an agent: one file, written atomically, read without executing code."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np
import torch

from constrained_maxent.agents.problem_description import WEIGHTING, describe_weighting
from constrained_maxent.agents.rollouts import Environment, find_tracker, single_spaces
from constrained_maxent.agents.settings import Hyperparameters, PGPSettings
from constrained_maxent.atomic import replacing
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint, InvalidSetting

if TYPE_CHECKING:
    from constrained_maxent.agents.pgp import PGP

FORMAT = 5
"""Version of the file's layout. Files of another version are refused by name."""

Agent = TypeVar("Agent", bound="PGP")


def save(path: str | PathLike[str], agent: PGP) -> None:
    """Write the agent; until the very end an earlier file of that name stays as it was."""
    content = {
        "agent": type(agent).__name__,
        "environment": describe(agent.env),
        "settings": json.dumps(asdict(agent.settings)),
        # As they turned out: the environment's suggestions may have changed when it is loaded.
        "hyperparameters": json.dumps(asdict(agent.hyperparameters)),
        "seed": agent.seed,
        "iteration": agent.iteration,
        "timesteps": agent.timesteps,
        "learner": agent.learner.state_dict(),
        "average": None if agent._average is None else agent._average.state_dict(),
        "optimizer": agent.optimizer.state_dict(),
        "updates": agent._updates,
        "center": dict(enumerate(agent._center)),
        "critic": None if agent.critic is None else agent.critic.state_dict(),
        "critic_optimizer": None if agent.critic is None else agent.critic.optimizer.state_dict(),
        # The generator's state has integers of 128 bits, which JSON can hold.
        "random": json.dumps(agent._rng.bit_generator.state),
        "wrappers": _tracker_state(agent.env),
    }
    write(path, content)


def write(path: str | PathLike[str], content: Mapping[str, Any]) -> None:
    """Write a checkpoint's content, with arrays as tensors, atomically; folders are made."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as temporary, temporary.open("wb") as file:
        torch.save(_to_tensors({"format": FORMAT, **content}), file)


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a checkpoint file.

    Raises:
        FileNotFoundError, IsADirectoryError, PermissionError: there is no such file, or none that can be opened.
        DamagedCheckpoint: truncated, corrupt, or not a checkpoint.
        CheckpointMismatch: of another version.
    """
    with open(path, "rb") as file:
        try:
            content = _unpack(file)
        except Exception as error:  # whatever a parser trips over, the file is not what save() wrote
            raise DamagedCheckpoint(f"{path} cannot be read: it is truncated, corrupt, or not a checkpoint.") from error
    if not isinstance(content, dict) or "format" not in content:
        raise DamagedCheckpoint(f"{path} is not a checkpoint of this package.")
    if content["format"] != FORMAT:
        raise CheckpointMismatch(
            f"{path} has format {content['format']}, this version reads {FORMAT}: use the version that wrote it."
        )
    return content


def _unpack(file: BinaryIO) -> Any:
    with zipfile.ZipFile(file) as archive:
        if damaged := archive.testzip():  # torch does not compare the checksums
            raise ValueError(f"The checksum of {damaged} is wrong.")
    file.seek(0)
    with warnings.catch_warnings(action="ignore"):  # about pickles that this package did not write
        return torch.load(file, map_location="cpu", weights_only=True)


def load(path: str | PathLike[str], env: Environment, kind: type[Agent], *, device: str | None) -> Agent:
    """An agent of the given class with the state of a checkpoint; the environment gets its part."""
    describe(env)  # names what is not an environment before the file is blamed
    content = read(path)
    try:
        require_match(path, content, env, kind)
        settings = PGPSettings(**json.loads(content["settings"]))
        settings = settings if device is None else replace(settings, device=device)
        chosen = json.loads(content["hyperparameters"])
        complete = replace(settings, **chosen)
        agent = kind(env, complete, seed=content["seed"])
        agent.settings = settings
        # Not even what is left out on purpose may come from the environment now.
        agent.hyperparameters = Hyperparameters(**{name: getattr(complete, name) for name in chosen})
        agent.learner.load_state_dict(content["learner"])
        if agent._average is not None:
            agent._average.load_state_dict(content["average"])
        agent.optimizer.load_state_dict(content["optimizer"])
        if agent.critic is not None:
            agent.critic.load_state_dict(content["critic"])
            agent.critic.optimizer.load_state_dict(content["critic_optimizer"])
        agent._rng.bit_generator.state = json.loads(content["random"])
        agent.learner.changed()
        agent._updates = int(content["updates"])
        agent._center = _center(agent, content["center"])
        agent.iteration, agent.timesteps = int(content["iteration"]), int(content["timesteps"])
        # Last, because only now is it sure that the rest fits: the environment stays as it is otherwise.
        _load_tracker_state(env, to_arrays(content["wrappers"]))
    except (CheckpointMismatch, InvalidSetting):
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{path} lacks a part or holds one that does not fit: {error!r}.") from error
    return agent


def require_match(path: str | PathLike[str], content: Mapping[str, Any], env: Environment, kind: type) -> None:
    """Raise ``CheckpointMismatch`` unless the content is of this class of agent, on an environment like this one."""
    if content["agent"] != kind.__name__:
        raise CheckpointMismatch(f"{path} holds an agent {content['agent']}, not {kind.__name__}.")
    here = describe(env)
    for key, there in content["environment"].items():
        if key in WEIGHTING and key not in here:
            continue  # without an occupancy, which is told where the wrappers' part is put back
        if here[key] != there:
            raise CheckpointMismatch(
                f"{path} was made on an environment with {key} {there}; this one has {here[key]}. Build it as it was."
            )


def _center(agent: PGP, stored: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
    """The proximal term's center on the policy's device; empty, or of the shapes of its parameters."""
    parameters = list(agent.learner.parameters())
    if stored and [stored[i].shape for i in range(len(stored))] != [parameter.shape for parameter in parameters]:
        raise ValueError("The center of the proximal term has other shapes than the policy.")
    return [stored[i].to(parameters[i].device, parameters[i].dtype) for i in range(len(stored))]


def describe(env: Environment) -> dict[str, str]:
    """What an environment must have in common with that of a checkpoint."""
    observation_space, action_space = single_spaces(env)
    spec = env.unwrapped.spec
    return {
        "id": "unregistered" if spec is None else spec.id,
        "observation space": str(observation_space),
        "action space": str(action_space),
        # λ̂ and multipliers are in its units. Files that lack it, of this format too, are taken as they are.
        **describe_weighting(env),
    }


def _tracker_state(env: Environment) -> dict[str, Any] | None:
    tracker = find_tracker(env)
    state: dict[str, Any] | None = None if tracker is None else tracker.state_dict()
    return state


def _load_tracker_state(env: Environment, state: Mapping[str, Any] | None) -> None:
    tracker = find_tracker(env)
    if (tracker is None) != (state is None):
        here, there = ("without", "with") if tracker is None else ("with", "without")
        raise CheckpointMismatch(
            f"This environment is {here} a tracker of the occupancy, the checkpoint's was {there} one: "
            "build the same stack of wrappers."
        )
    if tracker is not None:
        before = tracker.state_dict()
        try:
            tracker.load_state_dict(state)
        except Exception:
            tracker.load_state_dict(before)
            raise


def _to_tensors(value: Any) -> Any:
    """NumPy's arrays as tensors and its scalars as Python's, which can be loaded without executing code."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _to_tensors(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_to_tensors(entry) for entry in value]
    return value


def to_arrays(value: Any) -> Any:
    """The inverse: tensors as NumPy's arrays."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    if isinstance(value, Mapping):
        return {key: to_arrays(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [to_arrays(entry) for entry in value]
    return value
