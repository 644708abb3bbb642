"""Handlers for several kinds of work; `pubqueue_xeps.handlers` explains them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pubqueue_xeps.log import log
from pubqueue_xeps.wire.refusals import Reject, Release
from pubqueue_xeps.worker.handling.handler import (
    ANY,
    NOTHING,
    Criterion,
    CriterionKind,
    Handler,
    choose,
    kind_of,
    make_handler,
    work_of,
)
from pubqueue_xeps.worker.handling.limits import Backoff, Limits, whole
from pubqueue_xeps.worker.handling.middleware import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue_xeps.wire.times import Span
    from pubqueue_xeps.worker.handling.middleware import Middleware
    from pubqueue_xeps.worker.item import Item

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
        limits = Limits(retries, backoff, time_limit, concurrency)

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
