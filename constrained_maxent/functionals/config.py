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
    """``{"kind": name, **arguments}`` of a functional of this package whose arguments are plain, sums included.

    Others, with tables or functions or of a class of one's own, stay themselves.
    """
    if not type(functional).__module__.startswith(f"{_ROOM}."):
        return functional
    arguments = {entry.name: _plain(getattr(functional, entry.name)) for entry in fields(functional) if entry.init}
    if any(value is _NOT_PLAIN for value in arguments.values()):
        return functional
    return {"kind": type(functional).__name__, **arguments}


_NOT_PLAIN = object()


def _plain(value: Any) -> Any:
    if value is OWN_REWARD:
        return OWN_REWARD.value
    if isinstance(value, Functional):
        config = functional_config(value)
        return _NOT_PLAIN if config is value else config
    if type(value) in (tuple, list):
        entries = [_plain(entry) for entry in value]
        return _NOT_PLAIN if any(entry is _NOT_PLAIN for entry in entries) else entries
    return value if type(value) in (str, int, float, type(None)) else _NOT_PLAIN


def functional_from_config(config: Functional | Mapping[str, Any]) -> Functional:
    """The functional that ``functional_config`` described; a functional is returned as it is.

    Raises:
        InvalidSetting: neither, an unknown kind, or arguments that it does not take.
    """
    if isinstance(config, Functional):
        return config
    if not isinstance(config, Mapping):
        raise InvalidSetting(f"functional={config!r} must be a functionals.Functional, for example Entropy().")
    arguments = {name: _from_plain(value) for name, value in config.items()}
    kind = getattr(importlib.import_module(_ROOM), str(arguments.pop("kind", None)), None)
    if not (isinstance(kind, type) and issubclass(kind, Functional)):
        raise InvalidSetting(f"functional={dict(config)!r} names no functional of this package by its kind.")
    try:
        return kind(**arguments)
    except TypeError as error:
        raise InvalidSetting(f"functional={dict(config)!r}: {error}.") from error


def _from_plain(value: Any) -> Any:
    if value == OWN_REWARD.value:
        return OWN_REWARD
    if isinstance(value, Mapping):
        return functional_from_config(value)
    return tuple(map(_from_plain, value)) if isinstance(value, list) else value
