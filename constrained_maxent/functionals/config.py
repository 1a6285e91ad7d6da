"""Functionals as plain data, so that the spec of an environment compares equal to itself and can be written as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals.base import Functional

_ROOM = "constrained_maxent.functionals"


def functional_config(functional: Functional) -> Functional | dict[str, Any]:
    """``{"kind": name, **arguments}`` of a functional of this package whose arguments are numbers and strings.

    Others, with tables or functions or of a class of one's own, stay themselves.
    """
    kind = type(functional)
    if not kind.__module__.startswith(f"{_ROOM}."):
        return functional
    arguments = {entry.name: getattr(functional, entry.name) for entry in fields(functional) if entry.init}
    if any(type(value) not in (str, int, float, type(None)) for value in arguments.values()):
        return functional
    return {"kind": kind.__name__, **arguments}


def functional_from_config(config: Functional | Mapping[str, Any]) -> Functional:
    """The functional that ``functional_config`` described; a functional is returned as it is.

    Raises:
        InvalidSetting: neither, an unknown kind, or arguments that it does not take.
    """
    if isinstance(config, Functional):
        return config
    if not isinstance(config, Mapping):
        raise InvalidSetting(f"functional={config!r} must be a functionals.Functional, for example Entropy().")
    arguments = dict(config)
    kind = getattr(importlib.import_module(_ROOM), str(arguments.pop("kind", None)), None)
    if not (isinstance(kind, type) and issubclass(kind, Functional)):
        raise InvalidSetting(f"functional={dict(config)!r} names no functional of this package by its kind.")
    try:
        return kind(**arguments)
    except TypeError as error:
        raise InvalidSetting(f"functional={dict(config)!r}: {error}.") from error
