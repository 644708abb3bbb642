"""Explains an error in a configuration in one sentence, with the values that are allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import inspect

from pubqueue.model.entities import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable

    import msgspec

UNKNOWN: Final = re.compile(r"unknown field `([^`]*)`")
CHOICE: Final = re.compile(r"Invalid enum value")
PLACE: Final = re.compile(r" - at `\$(.*)`$")
STEP: Final = re.compile(r"\.(\w+)|\[[^]]*\]")


def explained(problem: msgspec.ValidationError, kind: object) -> str:
    """Return msgspec's message about a value of this kind, with the values that are allowed."""
    words = str(problem)
    found = PLACE.search(words)
    there = _type_at(kind, STEP.findall(found[1] if found else ""))
    if (unknown := UNKNOWN.search(words)) and isinstance(there, inspect.StructType):
        return words + suggestion(unknown[1], (field.name for field in there.fields))
    if CHOICE.match(words) and (choices := _choices(there)):
        return f"{words}; one of {', '.join(choices)}"
    return words


def key_of(problem: msgspec.ValidationError) -> str:
    """Return the setting that msgspec refuses, with dots; empty if it is the whole configuration."""
    words = str(problem)
    found, unknown = PLACE.search(words), UNKNOWN.search(words)
    steps = [found[1].lstrip(".")] if found and found[1] else []
    return ".".join([*steps, unknown[1]] if unknown else steps)


def _type_at(kind: object, steps: Iterable[str]) -> object:
    """Return the type of the value at a place; an empty step is one into a list."""
    there: Any = inspect.type_info(kind)
    for step in steps:
        if isinstance(there, inspect.UnionType):
            there = next(one for one in there.types if not isinstance(one, inspect.NoneType))
        if step and isinstance(there, inspect.StructType):
            there = next(field.type for field in there.fields if field.name == step)
        elif isinstance(there, inspect.VarTupleType):
            there = there.item_type
        else:
            return None
    return there


def _choices(there: object) -> list[str]:
    if isinstance(there, inspect.EnumType):
        return [str(one.value) for one in there.cls]
    if isinstance(there, inspect.LiteralType):
        return [str(value) for value in there.values]
    return []
