"""What options of the command line name as ``module:name``."""

from __future__ import annotations

import importlib
from operator import attrgetter
from types import ModuleType
from typing import Any

from constrained_maxent.errors import InvalidSetting


def imported(option: str, path: str, *, example: str) -> Any:
    """What an option names by ``module:name``.

    Raises:
        InvalidSetting: no such module or name.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise InvalidSetting(f"{option}={path!r} must be module:Name, such as {example}.")
    module = import_module(module_name, f"{option}={path!r}: {module_name!r}")
    try:
        return attrgetter(name)(module)
    except AttributeError as error:
        raise InvalidSetting(f"{option}={path!r}: {error}.") from error


def import_module(module: str, subject: str) -> ModuleType:
    """The module of that name; ``InvalidSetting``, about the subject, if it cannot be imported."""
    try:
        return importlib.import_module(module)
    except (ImportError, TypeError, ValueError) as error:  # a module that is missing, or no name of one
        raise InvalidSetting(
            f"{subject} cannot be imported: {error}. Modules in a folder that is not installed are found by "
            "PYTHONPATH=folder."
        ) from error
