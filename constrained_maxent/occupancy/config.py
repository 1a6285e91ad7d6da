"""Estimators as plain data and back: what specs of environments, checkpoints and the command line hold of them."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.adam_mixture import AdamGaussianMixture
from constrained_maxent.occupancy.base import OccupancyEstimator
from constrained_maxent.occupancy.counts import Counts
from constrained_maxent.occupancy.from_scikit_learn import FromScikitLearn
from constrained_maxent.occupancy.gaussian_mixture import GaussianMixture
from constrained_maxent.occupancy.neighbors import NearestNeighbors
from constrained_maxent.schedules import Geometric

_KINDS: dict[str, type[OccupancyEstimator]] = {
    kind.__name__: kind for kind in (Counts, GaussianMixture, AdamGaussianMixture, NearestNeighbors, FromScikitLearn)
}


def estimator_from_config(config: Mapping[str, Any]) -> OccupancyEstimator:
    """The unfitted estimator that plain data describes.

    Args:
        config: the constructor's arguments and ``"kind"``: the name of a class of this package, ``"module:Class"`` of
            one of your own, or the class itself.

    Raises:
        InvalidSetting: unknown kind, or an argument that the kind does not have.
    """
    arguments = dict(config)
    kind = arguments.pop("kind", None)
    factory = kind if isinstance(kind, type) else _KINDS.get(kind) or _imported(kind)
    if not (isinstance(factory, type) and issubclass(factory, OccupancyEstimator)):
        raise InvalidSetting(
            f"Unknown occupancy estimator kind={kind!r}: choose from {', '.join(_KINDS)}, or name a class of your own, "
            "'module:Class'."
        )
    try:
        return factory(**{name: _from_plain(value) for name, value in arguments.items()})
    except TypeError as error:
        raise InvalidSetting(f"{kind} does not take these arguments: {error}.") from error


def estimator_config(estimator: OccupancyEstimator | Mapping[str, Any]) -> dict[str, Any]:
    """Plain data that describes an unfitted estimator; what ``estimator_from_config`` takes.

    A class that cannot be imported by name, because it was defined in a function, stands for itself. JSON has no
    tuples, so there are lists instead: an environment's spec must equal itself after a round trip.

    Raises:
        InvalidSetting: neither an estimator nor plain data.
    """
    if isinstance(estimator, OccupancyEstimator):
        estimator = {"kind": _name_of(type(estimator)), **estimator.get_params()}
    elif not isinstance(estimator, Mapping):
        raise InvalidSetting(f"estimator={estimator!r} must be an estimator, such as occupancy.Counts(memory=0.9).")
    return {name: _plain(value) for name, value in estimator.items()}


def _name_of(kind: type[OccupancyEstimator]) -> str | type[OccupancyEstimator]:
    if _KINDS.get(kind.__name__) is kind:
        return kind.__name__
    name = f"{kind.__module__}:{kind.__qualname__}"
    return name if _imported(name) is kind else kind


def _imported(name: Any) -> Any:
    """What ``"module:Class"`` names, ``None`` if there is no such thing."""
    try:
        return pkgutil.resolve_name(name) if ":" in str(name) else None
    except (ImportError, AttributeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Geometric):
        return asdict(value)
    return list(value) if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    is_schedule = isinstance(value, Mapping) and value.keys() == Geometric.__dataclass_fields__.keys()
    return Geometric(**value) if is_schedule else value
