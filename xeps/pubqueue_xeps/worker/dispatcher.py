"""Passes the items of one worker to its handlers.

An item whose handler is busy keeps waiting while others overtake it. It has not been begun, so it is released after
half of its lock's time, like all waiting items (`LockExtender`), or as soon as the worker ends. It is not released
earlier to make room for other kinds of work: with a long queue of one kind, the worker would then fetch and release
item after item, as fast as the connection allows.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.client.threads import in_thread, is_async, name_of
from pubqueue_xeps.handlers import Handlers
from pubqueue_xeps.item import BlockingItem
from pubqueue_xeps.limits import TimeLimit, tries
from pubqueue_xeps.log import log, trimmed
from pubqueue_xeps.middleware import handler_name, wrapped
from pubqueue_xeps.wire.refusals import Reject, Verdict
from pubqueue_xeps.wire.then import Then
from pubqueue_xeps.wire.waits import Hold
from pubqueue_xeps.worker.batches import Batches
from pubqueue_xeps.worker.status import at_work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from pubqueue_xeps.handlers import Handler
    from pubqueue_xeps.item import Item
    from pubqueue_xeps.middleware import Middleware
    from pubqueue_xeps.worker.worker_items import WorkerItems


MAX_CHOSEN: Final = 10_000
"""Choices that are remembered, for waiting items and some that have left."""


class Dispatcher:
    """Runs the handlers of one worker, for at most `concurrency` items at a time in total."""

    def __init__(self, items: WorkerItems, handlers: Handlers, concurrency: int) -> None:
        self._items, self._handlers = items, handlers
        self._concurrency = concurrency
        self._running = 0
        look_again = items.look_again
        gather = items.timings.gather
        self._posts = {
            one: HandlerRuns(one, handlers.middleware, look_again, gather)
            for one in handlers.declared()
        }
        self._posts[handlers.nobody] = HandlerRuns(handlers.nobody, (), look_again, gather)
        self._chosen: dict[Item, HandlerRuns] = {}

    async def run(self) -> None:
        """Run until no more items come and those in hand are done; when cancelled, release those."""
        async with asyncio.TaskGroup() as group:
            while (item := await self._items.take(self._next)) is not None:
                post = self._chosen.pop(item)
                post.busy += 1
                self._running += 1
                group.create_task(self._work(item, post))
            for post in self._posts.values():
                post.finish()

    def _next(self, waiting: Iterable[Item]) -> Item | None:
        """Return the first item that may be begun now."""
        if self._running >= self._concurrency:
            return None
        if len(self._chosen) > MAX_CHOSEN:
            self._chosen.clear()
        for item in waiting:
            post = self._chosen.get(item)
            if post is None:
                post = self._chosen[item] = self._posts[self._handlers.choose(item)]
            if post.has_room:
                return item
        return None

    async def _work(self, item: Item, post: HandlerRuns) -> None:
        task = asyncio.current_task()
        try:
            async with item:
                await post.work(item)
        except asyncio.CancelledError:
            if task is None or task.cancelling():
                raise
            # something that the handler awaited was cancelled, not this task
            log.warning("item.cancelled", node=item.node, id=item.id, service=item.service)
        except Exception as error:  # the service refuses, and the next item must not suffer for it
            log.error(
                "item.failed",
                node=item.node,
                id=item.id,
                error=type(error).__name__,
                service=item.service,
                exc_info=trimmed(error),
            )
        finally:
            post.leave(item)
            self._running -= 1
            self._items.look_again()


class HandlerRuns:
    """The running calls of one handler in one worker; `busy` counts the items that are begun.

    A thread that runs on after its item was given up counts until it ends, so that a hanging handler does not fill the
    process with threads.
    """

    def __init__(
        self,
        handler: Handler,
        middleware: Sequence[Middleware],
        on_room: Callable[[], None],
        gather: float,
    ) -> None:
        self._handler = handler
        self._limits = handler.limits
        self._on_room = on_room
        self._call = wrapped(middleware, self._function)
        self.busy = self._orphans = 0
        self._batches: Batches | None = None
        if handler.batch is not None:
            self._batches = Batches(
                handler.batch,
                min(handler.within, gather),
                self._together,
                has_place=self._has_place,
                on_end=on_room,
            )

    @property
    def has_room(self) -> bool:
        """Whether the handler may begin one more item."""
        return self._has_place() if self._batches is None else self._batches.has_room(self.busy)

    def _has_place(self) -> bool:
        """Return whether one more call may begin."""
        calls = self.busy if self._batches is None else self._batches.calls
        most = self._limits.concurrency
        return most is None or calls + self._orphans < most

    def leave(self, item: Item) -> None:
        """Note that an item has ended."""
        self.busy -= 1
        if self._batches is not None:
            self._batches.forget(item)

    def finish(self) -> None:
        """Note that no more items come."""
        if self._batches is not None:
            self._batches.finish()

    async def work(self, item: Item) -> None:
        """Process an item; raise a Verdict if it is not done."""
        item.handler = self._handler.name
        if self._limits.spent(item.failures):  # it has killed worker after worker
            raise Reject(tries(item.failures))
        handler_name.set(self._handler.name)
        at_work(self._handler.name)
        try:
            await item.respond(await self._call(item))
        except Exception as error:
            shared = self._batches is not None and self._batches.is_shared(item, error)
            if not (isinstance(error, Verdict) or shared):
                log.error(
                    "item.failed",
                    node=item.node,
                    id=item.id,
                    handler=self._handler.name,
                    error=type(error).__name__,
                    service=item.service,
                    exc_info=trimmed(error),
                )
            outcome = self._limits.outcome(error, item.failures)
            raise Verdict("The handler has failed.", outcome) from None

    async def _function(self, item: Item) -> object:
        blocks = self._handler.blocking
        given = BlockingItem(item, asyncio.get_running_loop()) if blocks else item
        arguments = self._handler.arguments(given)
        if self._batches is None:
            return await self._run(*arguments)
        return await self._batches.join(item, given, *arguments[1:])

    async def _together(self, *arguments: Sequence[object]) -> Exception | None:
        """Call a handler of batches with items, and perhaps their payloads; return what it has raised."""
        handler_name.set(self._handler.name)
        at_work(self._handler.name)
        try:
            _check_of_batch(await self._run(*arguments))
        except Exception as error:
            if not isinstance(error, Verdict):
                log.error(
                    "batch.failed",
                    handler=self._handler.name,
                    items=len(arguments[0]),
                    error=type(error).__name__,
                    exc_info=trimmed(error),
                )
            return error
        return None

    async def _run(self, *arguments: object) -> object:
        function = self._handler.function
        if self._handler.blocking:
            return await self._in_thread(partial(function, *arguments))
        return await self._in_time(function(*arguments))

    async def _in_time(self, work: object) -> object:
        """Await a coroutine, and cancel it when the time limit has passed."""
        if not inspect.isawaitable(work):
            return work  # from a wrapper that has awaited it itself
        limit = self._limits.time_limit
        try:
            async with asyncio.timeout(limit) as scope:
                return await work
        except TimeoutError:
            if limit is not None and scope.expired():
                raise TimeLimit(self._handler.name, limit) from None
            raise  # one of the handler's own

    async def _in_thread(self, call: Callable[[], object]) -> object:
        """Return the result of the call, or stop waiting for it when the time limit has passed."""
        ended = in_thread(call, f"pubqueue {self._handler.name}")
        limit = self._limits.time_limit
        try:
            await asyncio.wait({ended}, timeout=limit)
        finally:
            if not ended.done():
                self._orphan(ended)
        if not ended.done():
            assert limit is not None
            raise TimeLimit(self._handler.name, limit)
        result = ended.result()
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError(
                f"The handler {self._handler.name} is no coroutine function, but returns one's."
            )
        return result

    def _orphan(self, ended: asyncio.Future[object]) -> None:
        log.warning("handler.orphaned", handler=self._handler.name)
        self._orphans += 1

        def over(_: object) -> None:
            self._orphans -= 1
            if self._batches is not None:
                self._batches.begin()
            self._on_room()

        ended.add_done_callback(over)


def _check_of_batch(result: object) -> None:
    """Raise TypeError for a result that a handler of batches can only mean for one of its items."""
    if isinstance(result, Hold | Then):
        name = type(result).__name__
        raise TypeError(f"{name} is of one item: call items.settle(item, {name}(...)).")


@contextmanager
def in_threads(
    handler: Callable[[BlockingItem], object], number: int
) -> Iterator[Callable[[Item], Awaitable[object]]]:
    """Yield a coroutine function that runs `handler`, a plain function, in one of `number` threads; wait for the threads at the end."""
    if isinstance(handler, Handlers):
        raise TypeError("Pass Handlers to `run`, which runs blocking ones in threads.")
    if not callable(handler):
        raise TypeError(f"The handler is {handler!r}; it takes a plain function.")
    if is_async(handler):
        raise TypeError(
            f"The handler {name_of(handler)} is a coroutine function: give it to `run`."
        )

    def call(item: BlockingItem) -> object:
        result = handler(item)
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("The handler returns a coroutine: give it to `run`.")
        return result

    with ThreadPoolExecutor(number, "pubqueue handler") as threads:

        async def handle(item: Item) -> object:
            loop = asyncio.get_running_loop()
            context = contextvars.copy_context()
            return await loop.run_in_executor(threads, context.run, call, BlockingItem(item, loop))

        handle.__name__ = name_of(handler)  # the name of the handler in logs
        yield handle
