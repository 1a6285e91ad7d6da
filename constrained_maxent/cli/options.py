"""How the options of a command read: in groups, and without the hint that the default of most is ``None``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Annotated, Any

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

registry = ConstructorRegistry()

_being_described: list[Any] = []


@dataclass(frozen=True)
class Pending:
    """A command that is still to be made of its options: what it raises then is not the parser's to report."""

    build: Callable[[Mapping[str, Any]], Any]
    values: Mapping[str, Any]


@registry.struct_rule
def _described(info: StructTypeInfo) -> StructConstructorSpec | None:
    """A dataclass in the groups that its ``GROUPS`` names, if it has them.

    ``GROUPS`` maps a title to names of options, its own or those of dataclasses inside it; the others come first.
    """
    if isinstance(info.type, type) and issubclass(info.type, _Group):
        return StructConstructorSpec(instantiate=dict, fields=info.type.fields)
    if not is_dataclass(info.type) or info.type in _being_described:
        return None
    groups: Mapping[str, tuple[str, ...]] | None = getattr(info.type, "GROUPS", None)
    if groups is None:
        spec = _own(info.type, info)
        return replace(spec, fields=tuple(map(_unhinted, spec.fields)))
    flat, build = _flatten(info.type)
    grouped = [
        StructFieldSpec(
            name=title,
            type=type("Group", (_Group,), {"fields": tuple(flat[name] for name in names)}),
            default=tyro.MISSING_NONPROP,
            helptext="",
        )
        for title, names in groups.items()
    ]
    first = [field for name, field in flat.items() if not any(name in names for names in groups.values())]

    def instantiate(**values: Any) -> Pending:
        parts = [values.pop(title) for title in groups]
        return Pending(build, {**values, **{name: value for part in parts for name, value in part.items()}})

    return StructConstructorSpec(instantiate=instantiate, fields=(*first, *grouped))


class _Group:
    """Options under one title."""

    fields: tuple[StructFieldSpec, ...] = ()


def _own(kind: Any, info: StructTypeInfo | None = None) -> StructConstructorSpec:
    """What tyro says of a dataclass itself."""
    _being_described.append(kind)
    try:
        spec = ConstructorRegistry.get_struct_spec(
            info or StructTypeInfo.make(kind, tyro.MISSING_NONPROP, in_union_context=False)
        )
    finally:
        _being_described.pop()
    assert isinstance(spec, StructConstructorSpec)
    return spec


def _flatten(kind: Any) -> tuple[dict[str, StructFieldSpec], Callable[[Mapping[str, Any]], Any]]:
    """The options of a dataclass and of those inside it, by name, and what makes the dataclass of their values."""
    fields: dict[str, StructFieldSpec] = {}
    builders: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    own = _own(kind).fields
    for field in own:
        if is_dataclass(field.type):
            inner, builders[field.name] = _flatten(field.type)
            fields |= inner
        else:
            fields[field.name] = _unhinted(field)

    def build(values: Mapping[str, Any]) -> Any:
        names = (field.name for field in own)
        return kind(**{name: builders[name](values) if name in builders else values[name] for name in names})

    return fields, build


def _unhinted(field: StructFieldSpec) -> StructFieldSpec:
    """Without a hint of its default, if that is nothing: the text says what happens where the option is left out."""
    text = field.helptext() if callable(field.helptext) else field.helptext
    field = replace(field, helptext=text and " ".join(text.split()))  # lines end where those of the terminal do
    if field.default is not None and field.default != ():
        return field
    kind: Any = Annotated[field.type, tyro.conf.arg(help_behavior_hint=""), tyro.conf.FlagConversionOff]
    return replace(field, type=kind)


@registry.primitive_rule
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
