"""``cmaxent``: train, evaluate, certify, plot and film, solve problems exactly, and reproduce the paper's studies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from importlib.metadata import version
from typing import Annotated, Any

import tyro
from gymnasium.error import DependencyNotInstalled
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from constrained_maxent.cli.console import INTERRUPTED, console, errors, terminating_as_interrupt
from constrained_maxent.cli.evaluate import Evaluate
from constrained_maxent.cli.problems import Plan, Solve
from constrained_maxent.cli.reference import ReferenceCommand
from constrained_maxent.cli.reproduce import Reproduce
from constrained_maxent.cli.runs import Certify, Plot
from constrained_maxent.cli.train import Train
from constrained_maxent.cli.video import Video
from constrained_maxent.errors import ConstrainedMaxentError

Command = (
    Annotated[Train, tyro.conf.subcommand(name="train")]
    | Annotated[Evaluate, tyro.conf.subcommand(name="evaluate")]
    | Annotated[Plot, tyro.conf.subcommand(name="plot")]
    | Annotated[Video, tyro.conf.subcommand(name="video")]
    | Annotated[Certify, tyro.conf.subcommand(name="certify")]
    | Annotated[Solve, tyro.conf.subcommand(name="solve")]
    | Annotated[Plan, tyro.conf.subcommand(name="plan")]
    | Annotated[Reproduce, tyro.conf.subcommand(name="reproduce")]
    | Annotated[ReferenceCommand, tyro.conf.subcommand(name="reference")]
)

_registry = ConstructorRegistry()


_being_described: list[Any] = []


@_registry.struct_rule
def _without_hint_of_none(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Help names no default of options that are ``None``: their text says what happens when they are left out."""
    if not is_dataclass(info.type) or info.type in _being_described:
        return None
    _being_described.append(info.type)
    try:
        spec = ConstructorRegistry.get_struct_spec(info)  # tyro's own, as this rule now stands aside
    finally:
        _being_described.pop()
    if not isinstance(spec, StructConstructorSpec):
        return None
    return replace(spec, fields=tuple(_unhinted(field) if field.default is None else field for field in spec.fields))


def _unhinted(field: StructFieldSpec) -> StructFieldSpec:
    kind: Any = Annotated[field.type, tyro.conf.arg(help_behavior_hint="")]
    return replace(field, type=kind)


@_registry.primitive_rule
def _none(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[None] | None:
    """``None`` cannot be typed: leaving the option out says it."""
    if info.type is not type(None):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="",
        instance_from_str=lambda _: None,
        is_instance=lambda value: value is None,
        str_from_instance=lambda _: ["unset"],
        choices=(),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``cmaxent``.

    Args:
        arguments: command line without the program's name; ``sys.argv`` if not given.

    Returns:
        0 if all went well, 2 for wrong input, 130 after Ctrl-C or SIGTERM.

    Raises:
        SystemExit: with code 0 after help was printed, with 2 at options that do not exist or cannot be read.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments) == ["--version"]:
        console.print(f"cmaxent {version('constrained-maxent')}", highlight=False)
        return 0
    try:
        command: Train | Evaluate | Plot | Video | Certify | Solve | Plan | Reproduce | ReferenceCommand = tyro.cli(
            Command,
            prog="cmaxent",
            description="Constrained maximum-entropy exploration. cmaxent --version prints the version.",
            args=arguments,
            config=(tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff),
            registry=_registry,
        )
        with terminating_as_interrupt():
            return command.run(_names(arguments))
    except (ConstrainedMaxentError, OSError, DependencyNotInstalled) as error:
        errors.print(f"cmaxent: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        errors.print("cmaxent: interrupted.", style="red")
        return INTERRUPTED


def _names(arguments: Sequence[str]) -> frozenset[str]:
    """Names of the options among arguments, as help spells them."""
    options = (argument.split("=", 1)[0] for argument in arguments if argument.startswith("--"))
    return frozenset(option.removeprefix("--").replace("_", "-") for option in options)
