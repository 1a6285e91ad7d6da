"""Estimates λ̂ of the occupancy measure from batches of trajectories."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.adam_mixture import AdamGaussianMixture
from constrained_maxent.occupancy.base import OccupancyEstimator, fresh_share
from constrained_maxent.occupancy.continuous import ContinuousEstimator
from constrained_maxent.occupancy.counts import Counts
from constrained_maxent.occupancy.from_scikit_learn import FromScikitLearn
from constrained_maxent.occupancy.gaussian_mixture import GaussianMixture
from constrained_maxent.occupancy.gaussians import Gaussians, Mixture
from constrained_maxent.occupancy.neighbors import NearestNeighbors
from constrained_maxent.occupancy.weighting import Scale, Weighting
from constrained_maxent.schedules import Geometric

__all__ = [
    "AdamGaussianMixture",
    "ContinuousEstimator",
    "Counts",
    "FromScikitLearn",
    "GaussianMixture",
    "Gaussians",
    "Mixture",
    "NearestNeighbors",
    "OccupancyEstimator",
    "Scale",
    "Weighting",
    "estimator_config",
    "estimator_from_config",
    "fresh_share",
]


_KINDS: dict[str, type[OccupancyEstimator]] = {
    kind.__name__: kind for kind in (Counts, GaussianMixture, AdamGaussianMixture, NearestNeighbors, FromScikitLearn)
}


def estimator_from_config(config: Mapping[str, Any]) -> OccupancyEstimator:
    """The estimator that ``{"kind": name, **get_params()}`` describes.

    Raises:
        InvalidSetting: unknown kind, or an argument that the kind does not have.
    """
    arguments = dict(config)
    kind = arguments.pop("kind", None)
    factory = kind if isinstance(kind, type) and issubclass(kind, OccupancyEstimator) else _KINDS.get(kind)
    if factory is None:
        raise InvalidSetting(f"Unknown occupancy estimator {kind!r}; choose from {', '.join(_KINDS)}.")
    try:
        return factory(**{name: _from_plain(value) for name, value in arguments.items()})
    except TypeError as error:
        raise InvalidSetting(f"{kind} does not take these arguments: {error}.") from error


def estimator_config(estimator: OccupancyEstimator | Mapping[str, Any]) -> dict[str, Any]:
    """Plain data that describes an unfitted estimator; what ``estimator_from_config`` takes.

    An estimator of the user's own describes itself by its class. JSON has no tuples, so there are lists instead: an
    environment's spec must equal itself after a round trip.

    Raises:
        InvalidSetting: neither an estimator nor plain data.
    """
    if isinstance(estimator, OccupancyEstimator):
        kind: str | type = type(estimator).__name__
        if _KINDS.get(type(estimator).__name__) is not type(estimator):
            kind = type(estimator)
        estimator = {"kind": kind, **estimator.get_params()}
    elif not isinstance(estimator, Mapping):
        raise InvalidSetting(f"estimator={estimator!r} must be an estimator, such as occupancy.Counts(memory=0.9).")
    return {name: _plain(value) for name, value in estimator.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Geometric):
        return asdict(value)
    return list(value) if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    is_schedule = isinstance(value, Mapping) and value.keys() == Geometric.__dataclass_fields__.keys()
    return Geometric(**value) if is_schedule else value
