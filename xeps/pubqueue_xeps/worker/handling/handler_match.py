"""Which handler an item is for: a pure choice by what its publisher has said about it.

An item is marked by its headers (XEP-0131), by a field of a JSON payload (XEP-0335), or by the element that its
payload is. A handler says which mark is its own. Where several handlers could take an item, the more deliberate
mark wins: a header was put there for those who route, a name may be shared by chance. Among handlers of the
same kind of mark the one that was declared first wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pubqueue_xeps.wire.ns import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from xml.etree.ElementTree import Element

JSON_PAYLOAD: Final = f"{{{JSON}}}json"
TYPE: Final = "type"
"""The field that names a JSON payload; msgspec writes it for tagged structs."""

ANY: Final = object()
"""Stands for every value."""


class Ground(IntEnum):
    """By what an item is known, the most deliberate first."""

    HEADER = 1
    JSON = 2
    ELEMENT = 3
    NAME = 4
    REST = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """What an item has that is a handler's: `key` is there, and is `value` unless that is ANY."""

    ground: Ground
    key: str = ""
    value: object = ANY
    is_truth: bool = field(init=False)
    """Whether `value` is true or false, which are no numbers in JSON, but equal 1 and 0 in Python."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_truth", isinstance(self.value, bool))


@dataclass(frozen=True, slots=True)
class Work:
    """What a choice goes by: the tag of the payload, its fields if it is a JSON object, and the headers."""

    tag: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] | None = None


def work_of(payload: Element | None, headers: Mapping[str, str]) -> Work:
    """Read what a choice goes by; a payload that is no JSON object in spite of its element has no fields."""
    if payload is None:
        return Work(None, headers)
    if payload.tag != JSON_PAYLOAD:
        return Work(payload.tag, headers)
    try:
        value = msgspec.json.decode(payload.text or "")
    except (msgspec.DecodeError, RecursionError):
        value = None
    return Work(payload.tag, headers, value if isinstance(value, dict) else None)


LONGEST_KIND: Final = 200
"""Characters of a type that are told: it stands in reasons and log lines."""


def kind_of(payload: Element | None) -> str:
    """Return what people call work of this kind: the `type` of JSON, or else the element."""
    work = work_of(payload, {})
    if work.tag is None:
        return "an item without payload"
    named = (work.fields or {}).get(TYPE)
    if isinstance(named, str) and named:
        return f"type {named[:LONGEST_KIND]!r}"
    return "JSON without a type" if work.tag == JSON_PAYLOAD else work.tag[:LONGEST_KIND]


def _has_header(mark: Mark, work: Work) -> bool:
    return mark.key in work.headers and _is(work.headers[mark.key], mark.value)


def _has_field(mark: Mark, work: Work) -> bool:
    fields = work.fields or {}
    return mark.key in fields and _is(fields[mark.key], mark.value)


def _is_element(mark: Mark, work: Work) -> bool:
    return work.tag == mark.key


def _is_named(mark: Mark, work: Work) -> bool:
    """Whether that is its name: the `type` of JSON, and of XML the element's in whatever namespace."""
    if work.tag == JSON_PAYLOAD:
        return _is((work.fields or {}).get(TYPE), mark.key)
    return work.tag is not None and work.tag.rpartition("}")[2] == mark.key


def _is_anything(_mark: Mark, _work: Work) -> bool:
    return True


# fmt: off
HOLDS: Final[dict[Ground, Callable[[Mark, Work], bool]]] = {
    Ground.HEADER:  _has_header,
    Ground.JSON:    _has_field,
    Ground.ELEMENT: _is_element,
    Ground.NAME:    _is_named,
    Ground.REST:    _is_anything,
}
# fmt: on


def choose(marks: Iterable[Mark], work: Work) -> Mark | None:
    """Return the mark that the item goes by, None if it has none of them."""
    held = (mark for mark in marks if HOLDS[mark.ground](mark, work))
    return min(held, key=lambda mark: mark.ground, default=None)  # the first of equals


def _is(found: object, wanted: object) -> bool:
    """Whether two values are the same in JSON, where true is not 1."""
    if wanted is ANY:
        return True
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted
