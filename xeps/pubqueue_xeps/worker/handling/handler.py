"""One handler: a function, its argument types, the items that it matches, and its limits."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, get_type_hints
from xml.etree.ElementTree import Element

import msgspec

from pubqueue_xeps.wire.ns import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pubqueue_xeps.wire.payloads.payload import Content
    from pubqueue_xeps.worker.handling.limits import Limits


NOTHING: Final = object()
"""The handler takes only the item."""


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """A function that does a kind of work. `wanted` is the type of its second argument, or NOTHING."""

    name: str
    function: Callable[..., object]
    criterion: Criterion
    limits: Limits
    wanted: Any
    blocking: bool

    def arguments(self, item: Content) -> tuple[object, ...]:
        """Return the function's arguments for an item; raise DecodeError for a payload that does not fit."""
        if self.wanted is NOTHING:
            return (item,)
        if self.wanted is Element:
            return item, item.payload
        return item, item.decode(self.wanted)


def make_handler(
    function: Callable[..., object], name: str | None, criterion: Criterion, limits: Limits
) -> Handler:
    """Make a handler from a function's signature; raise TypeError, in one sentence, if it cannot be called."""
    called = name_of(function)
    called_with = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    wanted = NOTHING
    match called_with:
        case [_]:
            pass
        case [_, payload]:
            wanted = _annotation(function, payload.name, called)
        case _:
            raise TypeError(
                f"The handler {called} takes (item) or (item, payload: SomeType), and nothing else."
            )
    return Handler(
        name or called, function, criterion, limits, wanted, blocking=not is_async(function)
    )


def _annotation(function: Callable[..., object], parameter: str, called: str) -> Any:  # noqa: ANN401
    where = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = get_type_hints(where, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"The handler {called} has an annotation that names {error.name!r}, which is not known at the top"
            " of its module."
        ) from None
    if parameter not in hints:
        raise TypeError(
            f"The handler {called} takes a payload without a type: write {parameter}: SomeType."
        )
    return hints[parameter]


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it makes a coroutine; for functions wrapped by `functools.wraps`, the innermost counts."""
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return getattr(function, "__name__", type(function).__name__)


# Which handler matches an item: a pure function of the item's content.
#
# An item has headers (XEP-0131), fields of a JSON payload (XEP-0335), and the element that is its payload. Each handler
# has a criterion. If several match, the most deliberate one wins: a header was set for routing, a name may match by
# chance. Among criteria of one kind, the handler that was declared first wins.

JSON_PAYLOAD: Final = f"{{{JSON}}}json"
TYPE: Final = "type"
"""The field that names a JSON payload; msgspec writes it for tagged structs."""

ANY: Final = object()
"""Stands for any value."""


class CriterionKind(IntEnum):
    """The kinds of criteria, most deliberate first."""

    HEADER = 1
    JSON = 2
    ELEMENT = 3
    NAME = 4
    REST = 5


@dataclass(frozen=True, slots=True)
class Criterion:
    """Selects a handler's items: `key` is present, and equals `value` unless that is ANY."""

    kind: CriterionKind
    key: str = ""
    value: object = ANY
    is_truth: bool = field(init=False)
    """Whether `value` is true or false: in JSON these are not numbers, but in Python they equal 1 and 0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_truth", isinstance(self.value, bool))


@dataclass(frozen=True, slots=True)
class Work:
    """The facts for the choice: the tag of the payload, its fields if it is a JSON object, and the headers."""

    tag: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] | None = None


def work_of(payload: Element | None, headers: Mapping[str, str]) -> Work:
    """Read the facts of an item; a JSON element that does not contain an object has no fields."""
    if payload is None:
        return Work(None, headers)
    if payload.tag != JSON_PAYLOAD:
        return Work(payload.tag, headers)
    try:
        value = msgspec.json.decode(payload.text or "")
    except (msgspec.DecodeError, RecursionError):
        value = None
    return Work(payload.tag, headers, value if isinstance(value, dict) else None)


MAX_KIND: Final = 200
"""How many characters of a type are reported in reasons and log lines."""


def kind_of(payload: Element | None) -> str:
    """Return a readable name for this kind of work: the `type` of JSON, or else the element."""
    work = work_of(payload, {})
    if work.tag is None:
        return "an item without payload"
    named = (work.fields or {}).get(TYPE)
    if isinstance(named, str) and named:
        return f"type {named[:MAX_KIND]!r}"
    return "JSON without a type" if work.tag == JSON_PAYLOAD else work.tag[:MAX_KIND]


def _has_header(criterion: Criterion, work: Work) -> bool:
    return criterion.key in work.headers and _is(work.headers[criterion.key], criterion.value)


def _has_field(criterion: Criterion, work: Work) -> bool:
    fields = work.fields or {}
    return criterion.key in fields and _is(fields[criterion.key], criterion.value)


def _is_element(criterion: Criterion, work: Work) -> bool:
    return work.tag == criterion.key


def _is_named(criterion: Criterion, work: Work) -> bool:
    """Whether this is the payload's name: the `type` of JSON, or the element's local name."""
    if work.tag == JSON_PAYLOAD:
        return _is((work.fields or {}).get(TYPE), criterion.key)
    return work.tag is not None and work.tag.rpartition("}")[2] == criterion.key


def _is_anything(_criterion: Criterion, _work: Work) -> bool:
    return True


# fmt: off
HOLDS: Final[dict[CriterionKind, Callable[[Criterion, Work], bool]]] = {
    CriterionKind.HEADER:  _has_header,
    CriterionKind.JSON:    _has_field,
    CriterionKind.ELEMENT: _is_element,
    CriterionKind.NAME:    _is_named,
    CriterionKind.REST:    _is_anything,
}
# fmt: on


def choose(criteria: Iterable[Criterion], work: Work) -> Criterion | None:
    """Return the criterion that the item matches best, or None."""
    held = (criterion for criterion in criteria if HOLDS[criterion.kind](criterion, work))
    return min(held, key=lambda criterion: criterion.kind, default=None)  # the first one wins a tie


def _is(found: object, wanted: object) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    if wanted is ANY:
        return True
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted
