"""Functionals as plain data, so that the spec of an environment compares equal to itself and can be written as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals.base import OWN_REWARD, Functional

_ROOM = "constrained_maxent.functionals"


def functional_config(functional: Functional) -> Functional | dict[str, Any]:
    """``{"kind": name, **arguments}`` of a functional of this package whose arguments are numbers and strings, and of
    sums of such functionals. The environment's own reward is what ``Reward`` takes by default, and is left out.

    Others, with tables or functions or of a class of one's own, stay themselves.
    """
    kind = type(functional)
    if not kind.__module__.startswith(f"{_ROOM}."):
        return functional
    arguments: dict[str, Any] = {}
    for entry in fields(functional):
        value = getattr(functional, entry.name)
        if not entry.init or value is OWN_REWARD:
            continue
        if entry.name == "parts":
            value = [[weight, functional_config(part)] for weight, part in value]
            is_plain = all(isinstance(part, dict) for _, part in value)
        else:
            # JSON has no tuples: a spec must equal itself after a round trip.
            value = list(value) if isinstance(value, tuple) else value
            is_plain = all(
                type(part) in (str, int, float, type(None)) for part in (value if type(value) is list else [value])
            )
        if not is_plain:
            return functional
        arguments[entry.name] = value
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
    if "parts" in arguments:
        arguments["parts"] = tuple((weight, functional_from_config(part)) for weight, part in arguments["parts"])
    kind = getattr(importlib.import_module(_ROOM), str(arguments.pop("kind", None)), None)
    if not (isinstance(kind, type) and issubclass(kind, Functional)):
        raise InvalidSetting(f"functional={dict(config)!r} names no functional of this package by its kind.")
    try:
        return kind(**arguments)
    except TypeError as error:
        raise InvalidSetting(f"functional={dict(config)!r}: {error}.") from error
