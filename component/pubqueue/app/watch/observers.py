"""The observers of the service: one list, called after each commit. A fault of one is logged, and affects no request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.app.watch.watching import Took
    from pubqueue.model.decision import Decision, Reply
    from pubqueue.model.notices import Notice

log = structlog.get_logger(__name__)


class Observer:
    """Is called on the event loop with each event; it must be quick. One that does not need an event ignores it."""

    fault = "watch.failed"
    """The log event of a fault in it."""

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Observe a batch: its requests with their decisions, in order, and its deliveries.

        All requesters were answered before.
        """

    def answered(self, reply: Reply) -> None:
        """Note the answer to a request that only reads."""


One = TypeVar("One", bound=Observer)


class Observers(Generic[One]):
    """Calls each of them, in their order."""

    def __init__(self, observers: Iterable[One] = ()) -> None:
        self._observers = tuple(observers)

    def __iter__(self) -> Iterator[One]:
        """Return them in their order."""
        return iter(self._observers)

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Pass a batch on to them."""
        self._each(
            lambda one: one.committed(requests, decisions, deliveries, took),
            requests=len(decisions),
        )

    def answered(self, reply: Reply) -> None:
        """Pass on an answer to a request that only reads."""
        self._each(lambda one: one.answered(reply), reply=type(reply).__name__)

    def _each(self, call: Callable[[One], None], **facts: object) -> None:
        for one in self._observers:
            try:
                call(one)
            except Exception:  # the boundary between the work and its observers
                log.exception(one.fault, **facts)
