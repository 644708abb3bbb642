"""Handlers for several kinds of work in one worker.

    app = Handlers()

    @app.handler("rebook", retries=5, backoff=10, time_limit=30, concurrency=4)
    async def rebook(item: Item, flight: Flight) -> None: ...

    @app.handler(header="kind", equals="mail")
    def mail(item: BlockingItem) -> None: ...                   # blocks, so it runs in a thread

    await Worker(...).run(app)

A handler matches items by a header, a JSON field, an element, or a name. If several handlers match an item, a header
outranks a field, then an element, then a name. A handler without any of these matches all other items.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints
from xml.etree.ElementTree import Element

import msgspec

from pubqueue_xeps.client.threads import is_async, name_of
from pubqueue_xeps.limits import Backoff, Errors, Limits, whole
from pubqueue_xeps.log import log
from pubqueue_xeps.middleware import check
from pubqueue_xeps.wire.ns import JSON
from pubqueue_xeps.wire.refusals import Reject, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pubqueue_xeps.item import Item
    from pubqueue_xeps.middleware import Middleware
    from pubqueue_xeps.wire.payloads.decoding import Content
    from pubqueue_xeps.wire.times import Span

__all__ = ["Handlers"]


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


# One handler: a function, its argument types, the items that it matches, and its limits.

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


# The handlers of a worker.

F = TypeVar("F", bound="Callable[..., object]")

NONE: Final = Criterion(CriterionKind.REST)
MAX_RELEASE: Final = 60.0
"""The longest pause before an item without a handler is delivered again, in seconds."""


class Handlers:
    """The handlers of a worker, in the order of their declaration, and the middleware around them.

    `middleware` runs around each handler, the first outermost. An item that no handler matches is released, with
    growing delays, so that another worker can handle it: during a rollout, old workers get new kinds of work. After
    `unknown_tries` deliveries the item is dead, and an owner can redrive it; 1 means at once, None never. Raises
    TypeError for a middleware that is not async.
    """

    def __init__(self, *middleware: Middleware, unknown_tries: int | None = 20) -> None:
        whole("unknown_tries", unknown_tries, 1)
        for one in middleware:
            check(one)
        self.middleware = middleware
        self._by_criterion: dict[Criterion, Handler] = {}
        unknown = _unknown(unknown_tries)
        self.nobody = Handler("nobody", unknown, NONE, Limits(), NOTHING, blocking=False)
        """Handles the items that no handler matches."""

    def __len__(self) -> int:
        return len(self._by_criterion)

    def handler(
        self,
        name: str | None = None,
        *,
        element: str | None = None,
        json: str | None = None,
        header: str | None = None,
        equals: object = ANY,
        retries: int | None = None,
        backoff: Backoff | None = None,
        time_limit: Span | None = None,
        concurrency: int | None = None,
        retry_on: Errors | None = None,
        reject_on: Errors = (),
    ) -> Callable[[F], F]:
        """Declare the decorated function as the handler of some items; the function itself does not change.

        One of these arguments selects the items: `name`, the `type` of a JSON payload or the name of an element in
        any namespace; `element`, in Clark notation, "{urn:example}job"; `json`, a field; `header`. `equals` is the
        value of the field or header, by default any. Without these, the handler matches all other items.

        The function takes `(item)`, or `(item, payload: SomeType)` for the result of `item.decode(SomeType)`, or for
        the payload as an `Element`. Its return value is the reply, if the item asks for one. A function that is not a
        coroutine function runs in a thread, and its item is a `BlockingItem`. `pubqueue_xeps.limits.Limits` explains
        the other arguments. When `time_limit` has passed, a coroutine is cancelled, which counts as a failure with
        the reason TimeLimit. A thread cannot be cancelled: its item counts as failed, and may be delivered again
        while the thread still runs; the thread counts towards `concurrency` until it ends.

        Raises ValueError or TypeError, in one sentence, for invalid arguments.
        """
        if callable(name):
            raise TypeError("Write @app.handler() with its parentheses.")
        _check_texts(name=name, element=element, json=json, header=header)
        criterion = _criterion(name, element, json, header, equals)
        limits = Limits(
            retries, backoff, time_limit, concurrency, retry_on=retry_on, reject_on=reject_on
        )

        def declare(function: F) -> F:
            made = make_handler(function, name, criterion, limits)
            if criterion in self._by_criterion:
                both = f"{self._by_criterion[criterion].name} and {made.name}"
                raise ValueError(f"The handlers {both} are of the same items.")
            self._by_criterion[criterion] = made
            return function

        return declare

    def declared(self) -> list[Handler]:
        """Return the handlers in the order of their declaration."""
        return list(self._by_criterion.values())

    def choose(self, item: Item) -> Handler:
        """Return the handler that matches an item."""
        criterion = choose(self._by_criterion, work_of(item.payload, item.headers))
        return self.nobody if criterion is None else self._by_criterion[criterion]


def _check_texts(**given: object) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}; a handler selects items by a text.")


def _criterion(
    name: str | None, element: str | None, json: str | None, header: str | None, equals: object
) -> Criterion:
    given = {
        CriterionKind.NAME: name,
        CriterionKind.ELEMENT: element,
        CriterionKind.JSON: json,
        CriterionKind.HEADER: header,
    }
    criteria = [Criterion(kind, key, equals) for kind, key in given.items() if key is not None]
    if len(criteria) > 1:
        raise ValueError(
            "A handler selects items by a name, an element, a JSON field or a header; only one of these."
        )
    if equals is not ANY and (not criteria or criteria[0].kind > CriterionKind.JSON):
        raise ValueError("equals= is the value of a JSON field or of a header.")
    if equals is not ANY and not isinstance(equals, str | int | float | None):
        raise ValueError("equals= is a string, a number, true, false or null.")
    if not criteria:
        return NONE
    if not criteria[0].key:
        raise ValueError("A handler's name, element, JSON field or header must not be empty.")
    return criteria[0]


def _unknown(most: int | None) -> Callable[[Item], object]:
    async def nobody(item: Item) -> None:
        kind = kind_of(item.payload)
        log.warning(
            "item.no_handler",
            node=item.node,
            id=item.id,
            kind=kind,
            attempt=item.attempt,
            most=most,
        )
        reason = f"no handler for {kind}"
        if most is not None and item.attempt >= most:
            raise Reject(reason)
        raise Release(min(2.0 ** min(item.attempt - 1, 16), MAX_RELEASE), reason)

    return nobody
