"""Middleware: code that runs around every handler, whatever the kind of work.

    class Slowly:
        async def __call__(self, item, call_next):
            await asyncio.sleep(1)
            return await call_next(item)

A middleware calls `call_next` once and returns its result. An exception that it raises counts as the handler's own;
if it swallows one, the item is retracted. A middleware that returns without having awaited `call_next`, and without
having settled the item itself, has failed: the work is not done. The first middleware in a list is the outermost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from pubqueue_xeps.client.threads import is_async, name_of
from pubqueue_xeps.log import log, trimmed
from pubqueue_xeps.wire.payloads.decoding import DecodeError
from pubqueue_xeps.wire.refusals import Verdict, outcome_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue_xeps.item import Item


__all__ = ["ErrorReporting", "Facts", "Middleware", "Next", "NotCalledOn", "Timed", "Timing"]

Next = Callable[["Item"], Awaitable[object]]
"""The next middleware, or the handler, as a middleware calls it: `await call_next(item)`."""

handler_name: Final[ContextVar[str]] = ContextVar("pubqueue handler", default="")
"""The name of the handler that is running."""


class Middleware(Protocol):
    """Code that runs between the worker and its handlers."""

    async def __call__(self, item: Item, call_next: Next, /) -> object:
        """Run code before and after `call_next(item)`."""


def check(one: object) -> None:
    """Raise TypeError, in one sentence, unless `one` is a middleware."""
    if isinstance(one, type):
        raise TypeError(f"The middleware {one.__name__} is a class: give {one.__name__}().")
    if not callable(one):
        raise TypeError(
            f"A middleware is an async function of the item and the next call, not {one!r}."
        )
    if not is_async(one):
        raise TypeError(
            f"The middleware {name_of(one)} is not async: write `async def`, and await the next call."
        )


class NotCalledOn(Exception):  # noqa: N818 - the name is stored as the reason with a dead item
    """A middleware returned before its inner call had finished."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The middleware {name} returned without having awaited the next call.")


def wrapped(middleware: Sequence[Middleware], handler: Next) -> Next:
    """Return the handler with all middleware around it."""
    call = handler
    for one in reversed(middleware):
        call = _around(one, call)
    return call


def _around(one: Middleware, call_next: Next) -> Next:
    async def around(item: Item) -> object:
        ended = False

        async def next_call(item: Item) -> object:
            nonlocal ended
            try:
                return await call_next(item)
            finally:
                ended = True

        result = await one(item, next_call)
        if not ended and item.state in ("in hand", "lost"):  # else it has settled the item itself
            raise NotCalledOn(name_of(one))
        return result

    return around


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about an item that may be reported: never its payload or headers."""

    handler: str
    node: str
    id: str
    attempt: int
    failures: int
    publisher: str | None


@dataclass(frozen=True, slots=True)
class Timed:
    """How long a handler took. `outcome` is done, release, failed or reject."""

    item: Facts
    seconds: float
    outcome: str


class Timing:
    """Reports how long each item took, without its wait for a handler, by default to the log.

    `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        report: Callable[[Timed], object] | None = None,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._report = report or _log_time
        self._clock = clock

    async def __call__(self, item: Item, call_next: Next) -> object:
        """Time the handler."""
        began, outcome = self._clock(), "done"
        try:
            return await call_next(item)
        except BaseException as error:
            outcome = outcome_of(error).type
            raise
        finally:
            _call_report(self._report, Timed(facts_of(item), self._clock() - began, outcome))


class ErrorReporting:
    """Reports each exception of a handler, with the facts of its item.

    Release, Failed and Reject are deliberate, and not reported; a payload that cannot be decoded is. `report` is called
    in the event loop with the exception and the facts; the exception's text and local variables may contain payload. An
    exception of `report` is only logged.
    """

    def __init__(self, report: Callable[[Exception, Facts], object]) -> None:
        self._report = report

    async def __call__(self, item: Item, call_next: Next) -> object:
        """Report the exception, and re-raise it."""
        try:
            return await call_next(item)
        except Exception as error:
            if isinstance(error, DecodeError) or not isinstance(error, Verdict):
                _call_report(self._report, error, facts_of(item))
            raise


def facts_of(item: Item) -> Facts:
    """Return the facts of an item that may be reported."""
    return Facts(
        handler_name.get(), item.node, item.id, item.attempt, item.failures, item.publisher
    )


def _call_report(report: Callable[..., object], *words: object) -> None:
    try:
        report(*words)
    except Exception as error:  # a fault in the report must not affect the item
        log.error("middleware.report_failed", error=type(error).__name__, exc_info=trimmed(error))


def _log_time(timed: Timed) -> None:
    it = timed.item
    seconds = round(timed.seconds, 3)
    log.info(
        "item.timed",
        handler=it.handler,
        node=it.node,
        id=it.id,
        seconds=seconds,
        outcome=timed.outcome,
    )
