"""Handlers for several kinds of work in one worker.

    app = Handlers()

    @app.handler("rebook", retries=5, backoff=10, time_limit=30, concurrency=4)
    async def rebook(item: Item, flight: Flight) -> None: ...

    @app.handler(header="kind", equals="mail")
    def mail(item: BlockingItem) -> None: ...                   # blocks, so it runs in a thread

    await Worker(...).run(app)

A handler matches items by a header, a JSON field, an element, or a name. If several handlers match an item, a header
outranks a field, then an element, then a name. A handler without any of these matches all other items. A handler may
name the node of its items: `Worker(handlers=app)` works for the nodes that its handlers name.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)
from xml.etree.ElementTree import Element

import msgspec

from pubqueue_xeps.client.threads import is_async, name_of
from pubqueue_xeps.errors import ConfigurationError
from pubqueue_xeps.limits import Backoff, Errors, Limits, whole
from pubqueue_xeps.log import log
from pubqueue_xeps.middleware import check
from pubqueue_xeps.periodic import SCHEDULE, Missed, Periodic
from pubqueue_xeps.wire.ns import JSON
from pubqueue_xeps.wire.refusals import Reject, Release
from pubqueue_xeps.wire.times import Span, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pubqueue_xeps.item import Item
    from pubqueue_xeps.middleware import Middleware
    from pubqueue_xeps.wire.payloads.decoding import Content

__all__ = ["Handlers"]


# Which handler matches an item: a pure function of the item's content.
#
# An item has headers (XEP-0131), fields of a JSON payload (XEP-0335), and the element that is its payload. Each handler
# has a criterion. If several match, the most deliberate one wins: a header was set for routing, a name may match by
# chance. Among criteria of one kind, one for the item's node wins, then the handler that was declared first.

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
    """Selects a handler's items: `key` is present, and equals `value` unless that is ANY. Those of one node, or of all."""

    kind: CriterionKind
    key: str = ""
    value: object = ANY
    node: str | None = None
    is_truth: bool = field(init=False)
    """Whether `value` is true or false: in JSON these are not numbers, but in Python they equal 1 and 0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_truth", isinstance(self.value, bool))


@dataclass(frozen=True, slots=True)
class Work:
    """The facts for the choice: the tag of the payload, its fields if it is a JSON object, the headers, and the node."""

    tag: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] | None = None
    node: str = ""


def work_of(payload: Element | None, headers: Mapping[str, str], node: str = "") -> Work:
    """Read the facts of an item; a JSON element that does not contain an object has no fields."""
    if payload is None:
        return Work(None, headers, node=node)
    if payload.tag != JSON_PAYLOAD:
        return Work(payload.tag, headers, node=node)
    try:
        value = msgspec.json.decode(payload.text or "")
    except (msgspec.DecodeError, RecursionError):
        value = None
    return Work(payload.tag, headers, value if isinstance(value, dict) else None, node)


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
    held = (
        criterion
        for criterion in criteria
        if criterion.node in (None, work.node) and HOLDS[criterion.kind](criterion, work)
    )
    return min(held, key=_rank, default=None)  # the first one wins a tie


def _rank(criterion: Criterion) -> tuple[CriterionKind, bool]:
    return criterion.kind, criterion.node is None


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
    """A function that does a kind of work. `wanted` is the type of a payload that it takes, or NOTHING.

    It gets up to `batch` items at a time, or those that come within `within` seconds of the first; None: a single one.
    """

    name: str
    function: Callable[..., object]
    criterion: Criterion
    limits: Limits
    wanted: Any
    blocking: bool
    batch: int | None = None
    within: float = 0.0

    def arguments(self, item: Content) -> tuple[object, ...]:
        """Return an item and, if the function takes it, its payload; raise DecodeError for a payload that does not fit."""
        if self.wanted is NOTHING:
            return (item,)
        if self.wanted is Element:
            return item, item.payload
        return item, item.decode(self.wanted)


def make_handler(
    function: Callable[..., object],
    name: str | None,
    criterion: Criterion,
    limits: Limits,
    *,
    batch: int | None = None,
    within: float = 0.0,
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
            if batch is not None:
                wanted = _element_of(wanted, payload.name, called)
        case _:
            takes = (
                "(item) or (item, payload: SomeType)"
                if batch is None
                else "(items) or (items, payloads: list[SomeType])"
            )
            raise TypeError(f"The handler {called} takes {takes}, and nothing else.")
    return Handler(
        name or called,
        function,
        criterion,
        limits,
        wanted,
        blocking=not is_async(function),
        batch=batch,
        within=within,
    )


def _element_of(hint: object, parameter: str, called: str) -> Any:  # noqa: ANN401
    """Return the type of one payload of a handler that takes a list of them."""
    of = get_args(hint)
    if get_origin(hint) not in (list, Sequence) or len(of) != 1:
        raise TypeError(
            f"The handler {called} takes items in batches, so their payloads are a list: write {parameter}: list[SomeType]."
        )
    return of[0]


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
WITHIN: Final = 1.0
"""How long a batch is waited for, in seconds, unless a handler says otherwise."""
MAX_RELEASE: Final = 60.0
"""The longest pause before an item without a handler is delivered again, in seconds."""


class LimitsGiven(TypedDict, total=False):
    """The limits of a handler, as `Handlers.handler` takes them."""

    retries: int | None
    backoff: Backoff | None
    time_limit: Span | None
    concurrency: int | None
    retry_on: Errors | None
    reject_on: Errors


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
        self._periodic: dict[str, Periodic] = {}
        unknown = _unknown(unknown_tries)
        self.nobody = Handler("nobody", unknown, NONE, Limits(), NOTHING, blocking=False)
        """Handles the items that no handler matches."""

    def __len__(self) -> int:
        return len(self.declared())

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that handlers name, in the order of their declaration."""
        named = [one.node for one in self._by_criterion if one.node is not None]
        return tuple(dict.fromkeys(named))

    def handler(
        self,
        name: str | None = None,
        *,
        node: str | Sequence[str] | None = None,
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
        batch: int | None = None,
        within: Span | None = None,
    ) -> Callable[[F], F]:
        """Declare the decorated function as the handler of some items; the function itself does not change.

        One of these arguments selects the items: `name`, the `type` of a JSON payload or the name of an element in
        any namespace; `element`, in Clark notation, "{urn:example}job"; `json`, a field; `header`. `equals` is the
        value of the field or header, by default any. Without these, the handler matches all other items. `node` is the
        node of its items, or a list of nodes, by default any. Of two handlers that match in the same way, one that names
        the node gets the item.

        The function takes `(item)`, or `(item, payload: SomeType)` for the result of `item.decode(SomeType)`, or for
        the payload as an `Element`. Its return value is the reply, if the item asks for one. A function that is not a
        coroutine function runs in a thread, and its item is a `BlockingItem`. `pubqueue_xeps.limits.Limits` explains
        the other arguments. When `time_limit` has passed, a coroutine is cancelled, which counts as a failure with
        the reason TimeLimit. A thread cannot be cancelled: its item counts as failed, and may be delivered again
        while the thread still runs; the thread counts towards `concurrency` until it ends.

        With `batch`, the function gets up to that many items at a time, or those that come within `within` (1 second) of
        the first: `(items)`, which are `Items`, or `(items, payloads: list[SomeType])`, without the items whose payload
        cannot be decoded. `Items.settle` decides on an item, and the function's return or exception on all others;
        `time_limit` and `concurrency` are of calls, `retries`, `backoff` and middleware of each item. The worker's window
        is at least as large as a batch.

        Raises ValueError or TypeError, in one sentence, for invalid arguments.
        """
        if callable(name):
            raise TypeError("Write @app.handler() with its parentheses.")
        _check_texts(name=name, element=element, json=json, header=header)
        criterion = _criterion(name, element, json, header, equals)
        criteria = [replace(criterion, node=one) for one in _nodes(node)]
        if batch is None and within is not None:
            raise ValueError("within= is how long a batch is waited for: give batch= too.")
        whole("batch", batch, 1)
        seconds = span("within", WITHIN if within is None else within)
        limits = Limits(
            retries, backoff, time_limit, concurrency, retry_on=retry_on, reject_on=reject_on
        )

        def declare(function: F) -> F:
            made = make_handler(function, name, criterion, limits, batch=batch, within=seconds)
            for one in criteria:
                if one in self._by_criterion:
                    both = f"{self._by_criterion[one].name} and {made.name}"
                    raise ValueError(f"The handlers {both} are of the same items.")
            self._by_criterion.update(dict.fromkeys(criteria, made))
            return function

        return declare

    def periodic(
        self,
        cron: str,
        *,
        node: str,
        id: str,  # noqa: A002 - the name of the attribute
        zone: str = "UTC",
        payload: object = None,
        missed: Missed = "once",
        priority: int = 0,
        ttl: Span | None = None,
        group: str | None = None,
        **limits: Unpack[LimitsGiven],
    ) -> Callable[[F], F]:
        """Declare the decorated function as the handler of items that a schedule of the service publishes to `node`.

        A worker that runs these handlers creates the schedule `id` when it starts, and changes it if it is otherwise; its
        account has to be an administrator of the service. `cron` has five fields, or is a word such as @daily; its times are
        those of `zone`. `payload` is JSON or an Element, by default `{"type": id}`. `missed` is what happens at times at which
        the service did not run: `once` is one item for all, `skip` none, `all` one for each. The items have the header `schedule`,
        with the id. `limits` are arguments of `handler`.

        Raises ValueError or TypeError, in one sentence, for invalid arguments.
        """
        if callable(cron):
            raise TypeError("Write @app.periodic with a cron line, a node and an id.")
        task = Periodic(
            cron,
            node=node,
            id=id,
            zone=zone,
            payload=payload,
            missed=missed,
            priority=priority,
            ttl=ttl,
            group=group,
        )
        declare_handler = self.handler(header=SCHEDULE, equals=id, node=node, **limits)

        def declare(function: F) -> F:
            if task.id in self._periodic:
                raise ValueError(f"Two handlers declare the schedule {task.id!r}.")
            declare_handler(function)
            self._periodic[task.id] = task
            return function

        return declare

    def schedules(self) -> list[Periodic]:
        """Return the schedules that handlers declare."""
        return list(self._periodic.values())

    def declared(self) -> list[Handler]:
        """Return the handlers in the order of their declaration."""
        return list(dict.fromkeys(self._by_criterion.values()))

    def check(self, nodes: Iterable[str]) -> None:
        """Raise ConfigurationError for a node from which no handler takes items, though there are handlers."""
        if any(one.node is None for one in self._by_criterion) or not len(self):
            return
        for node in nodes:
            if node not in self.nodes:
                raise ConfigurationError(
                    f"No handler takes items of the node {node!r}: the handlers name {', '.join(self.nodes)}.",
                    argument="node",
                )

    def largest_batch(self, node: str) -> int:
        """Return how many items of a node one call of a handler may take."""
        sizes = [
            one.batch or 1 for mark, one in self._by_criterion.items() if mark.node in (None, node)
        ]
        return max(sizes, default=1)

    def choose(self, item: Item) -> Handler:
        """Return the handler that matches an item."""
        work = work_of(item.payload, item.headers, item.node)
        criterion = choose(self._by_criterion, work)
        return self.nobody if criterion is None else self._by_criterion[criterion]


def _check_texts(**given: object) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}; a handler selects items by a text.")


def _nodes(node: object) -> list[str | None]:
    """Return the nodes; None stands for any. Raises TypeError or ValueError."""
    if node is None:
        return [None]
    nodes = [node] if isinstance(node, str) else node
    if not isinstance(nodes, Sequence) or not all(isinstance(one, str) for one in nodes):
        raise TypeError(f"node is {node!r}; it takes the name of a node, or a list of names.")
    if not nodes or not all(nodes):
        raise ValueError("A handler's node must not be empty.")
    return list(dict.fromkeys(nodes))


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
            service=item.service,
        )
        reason = f"no handler for {kind}"
        if most is not None and item.attempt >= most:
            raise Reject(reason)
        raise Release(min(2.0 ** min(item.attempt - 1, 16), MAX_RELEASE), reason)

    return nobody
