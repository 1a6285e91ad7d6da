"""The references that come with the package."""

from __future__ import annotations

from functools import cache
from importlib import resources

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.references.reference import Reference

SHIPPED = {"PointMass-v0": "point_mass.npz"}
"""Environment to file; ``cmaxent reference show`` tells how each was made."""


def shipped(env_id: str) -> Reference:
    """The reference that comes with the package for an environment.

    Raises:
        InvalidSetting: there is none.

    >>> shipped("PointMass-v0").states.n_states
    4
    """
    if env_id not in SHIPPED:
        raise InvalidSetting(
            f"No reference for {env_id!r} comes with the package; there is one for {', '.join(SHIPPED)}."
        )
    return _load(SHIPPED[env_id])


@cache
def _load(name: str) -> Reference:
    with resources.as_file(resources.files(__package__) / "data" / name) as path:
        return Reference.load(path)
