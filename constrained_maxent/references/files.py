"""References as files: NumPy arrays and a line of JSON, written atomically, read without executing code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.atomic import replacing
from constrained_maxent.errors import DamagedReference, UnsupportedPolicy
from constrained_maxent.occupancy import Gaussians, Mixture
from constrained_maxent.references.gaussian_network import GaussianNetwork, Layer
from constrained_maxent.references.policies import ReferencePolicy

FORMAT = 2
"""Version of the file's layout. Files of another version are refused by name."""

_MIXTURE = ("weights", "means", "covariances")
_PARTS = ("trunk", "mean", "log_std")


def write(path: str | PathLike[str], states: Mixture, policy: ReferencePolicy | None, about: Mapping[str, Any]) -> None:
    """Write a reference, atomically.

    Raises:
        UnsupportedPolicy: the policy is a function, not plain data.
    """
    if not (policy is None or isinstance(policy, GaussianNetwork)):
        raise UnsupportedPolicy(
            f"A reference with a {type(policy).__name__} cannot be saved, because its functions are not plain data: "
            "pickle it, or clone the policy from trajectories, Reference.from_trajectories(...)."
        )
    gaussians = states.gaussians
    arrays: dict[str, Any] = {name: getattr(gaussians, name) for name in _MIXTURE}
    text: dict[str, Any] = {"format": FORMAT, "mass": states.mass, "periodic": list(states.periodic)}
    text |= {"about": dict(about), "policy": None}
    if policy is not None:
        text["policy"] = {
            "is_squashed": policy.is_squashed,
            "log_std_bounds": list(policy.log_std_bounds),
            "activations": {part: [layer.activation for layer in getattr(policy, part)] for part in _PARTS},
        }
        arrays |= {"low": policy.low, "high": policy.high}
        for part in _PARTS:
            for i, layer in enumerate(getattr(policy, part)):
                arrays |= {f"{part} {i} weights": layer.weights, f"{part} {i} bias": layer.bias}
    arrays["text"] = np.frombuffer(json.dumps(text).encode(), dtype=np.uint8)

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read(path: str | PathLike[str]) -> tuple[Mixture, GaussianNetwork | None, dict[str, Any]]:
    """Read a reference that ``write`` wrote: state density, policy, and what is known about it.

    Raises:
        FileNotFoundError, IsADirectoryError, PermissionError: there is no such file, or none that can be opened.
        DamagedReference: truncated, corrupt, of another version, or no reference.
    """
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}  # checks the checksums
            text = json.loads(arrays["text"].tobytes())
            version = text["format"]
        except Exception as error:  # whatever a parser trips over, the file is not what write() wrote
            raise DamagedReference(f"{path} cannot be read: it is truncated, corrupt, or no reference.") from error
    if version != FORMAT:
        raise DamagedReference(
            f"{path} has format {version}, this version reads {FORMAT}: use the version that wrote it."
        )
    try:
        parts = [np.array(arrays[name], dtype=np.float64) for name in _MIXTURE]
        if not all(np.isfinite(part).all() for part in parts) or (parts[0] < 0.0).any():
            raise ValueError("the mixture is not finite, or has a negative weight")
        states = Mixture(Gaussians(*parts), mass=float(text["mass"]), periodic=tuple(text["periodic"]))
        about = dict(text["about"])
        return states, None if text["policy"] is None else _network(text["policy"], arrays), about
    except Exception as error:
        raise DamagedReference(f"{path} lacks a part or holds one that does not fit: {error!r}.") from error


def _network(text: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> GaussianNetwork:
    def layers(part: str) -> Sequence[Layer]:
        return tuple(
            Layer(arrays[f"{part} {i} weights"], arrays[f"{part} {i} bias"], activation)
            for i, activation in enumerate(text["activations"][part])
        )

    low, high = text["log_std_bounds"]
    return GaussianNetwork(
        **{part: layers(part) for part in _PARTS},
        low=arrays["low"],
        high=arrays["high"],
        is_squashed=bool(text["is_squashed"]),
        log_std_bounds=(float(low), float(high)),
    )
