"""A worker: takes items from a queue, up to a window at a time, and settles each.

    async with Worker(jid, password, service="queue.example.org", node="jobs") as worker:
        async for item in worker:
            async with item:
                ...

Or, with up to a window of handlers running at once, until SIGTERM:

    async def handle(item: Item) -> None:
        flight = item.decode(Flight)            # a msgspec struct, or item.payload, or item.bytes
        if flight.departed:
            raise Reject("departed")            # to the dead letters at once, with this reason
        if not await seats_free(flight):
            raise Release(delay=60)             # requeued, not counted as a failure; retried in a minute or later
        await rebook(flight)

    await Worker(...).run(handle)

What the handler does decides what happens to the item:

- It returns: the item is retracted, and gone once the service has confirmed that. If the item wants a reply
  (`Publisher.ask`), a return value other than None is the reply, unless the handler has already replied.
- It raises Release, Failed or Reject, or is cancelled: the item is requeued, or dead.
- It raises any other exception: the item is requeued as failed, with the name of the exception's class as the
  reason. The exception's text stays in the log of this process, because it may contain the payload. An item that
  has failed too often is dead.

Every item is processed at least once. It is processed twice if a lock times out, or a connection breaks, between the
work and the retraction: the service then delivers the item again. A worker that must not do the same work twice
records the ids of the items it has finished (`examples/crash_safe_worker.py`).

The worker extends the lock of an item while its handler runs, as long as the event loop is not blocked: run blocking
work in `asyncio.to_thread`. A lock can still be lost, usually with the connection; a handler that can stop early checks
`item.lock_lost`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from signal import SIGINT, SIGTERM, Signals
from typing import TYPE_CHECKING, Final, Self, Unpack

from pubqueue_xeps.client.connection import Connect, connect
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.threads import is_async, name_of
from pubqueue_xeps.errors import ConfigurationError, PubqueueError
from pubqueue_xeps.handlers import Handlers
from pubqueue_xeps.limits import whole
from pubqueue_xeps.log import log, trimmed
from pubqueue_xeps.sentences import STANDARD_ERROR, wanted
from pubqueue_xeps.wire.times import Span, span
from pubqueue_xeps.worker.dispatcher import Dispatcher, in_threads
from pubqueue_xeps.worker.schedules import Schedules
from pubqueue_xeps.worker.status import (
    Observation,
    at_work,
    observed,
    report_minutes,
    watched,
)
from pubqueue_xeps.worker.weights import Turns, weights_of, windows_of
from pubqueue_xeps.worker.worker_items import WorkerItems
from pubqueue_xeps.xep_qos.levels import level_of

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Mapping,
        Sequence,
    )
    from types import TracebackType

    from pubqueue_xeps.item import BlockingItem, Item
    from pubqueue_xeps.metrics import Metrics
    from pubqueue_xeps.worker.held_items import HeldItems
    from pubqueue_xeps.xep_qos import Level

    Handle = Callable[[Item], Awaitable[object]]
    from collections.abc import Callable, Iterator


SIGNALS: Final = (SIGTERM, SIGINT)
REQUESTS: Final = 10
"""The default number of items that a worker takes at a time, here and on the command line."""


class Worker:
    """Takes items from one or more queues of one service or several, up to `requests` (10) at a time from each queue.

    `handlers` are the Handlers that `run` uses; the nodes that they name are those of the worker, if neither `node` nor
    the URL names any.

    `where` stands for the keyword arguments `service`, `services`, `url`, `host`, `port`, `tls` and `ca_file`; `Connect`
    explains them. Anything else about the connection comes from `url`, or from the environment: `PUBQUEUE_URL`, and for the
    password `PUBQUEUE_PASSWORD` or `PUBQUEUE_PASSWORD_FILE`. Raises ConfigurationError, a ValueError, for an argument
    that is missing or wrong.

    `node` is the name of a queue, or a list of names. With a list, the worker has one connection, a window of
    `requests` items for each queue, and takes items from the queues in turn, so a long queue does not delay a short
    one. `weights`, such as `{"urgent": 3, "bulk": 1}`, are the shares of the queues while all of them have work, in the
    windows (of 10 for each of two queues, 15 and 5) and in the turns; a queue without a weight has 1. The worker ends
    with an exception when one of its queues is deleted.

    With `services`, the worker takes from the queue of that name at all of them, also at those that drain. It has a stream to each,
    whose resource ends with the address of the service; the window of a queue is divided among them, and at least one item of
    each; items of all wait in one line. Entering waits for the first service that can be reached, and the others are tried
    again beside the work. Acknowledgements, replies and touches go where the item came from; follow-ups go to
    their own service.

    The worker subscribes its full JID. If `jid` has no resource, the worker picks a random one and keeps it across
    reconnects. The first of `signals` makes the worker drain, the second kills the program. `grace`, in seconds or as
    a timedelta, is how long a drain waits for the items in hand.

    The worker extends the lock of an item in hand after half of the lock's time, for `touch_for` (seconds or a
    timedelta) in total; 0 turns this off. This requires a responsive event loop: run blocking work in
    `asyncio.to_thread`, or its lock times out. An item that has waited in the window for half of its lock's time is
    released, before the lock times out. A service that does not support `urn:x-pubqueue:0` cannot extend locks.

    `level` is how the service sends its deliveries (urn:xmpp:qos). With `acknowledged` or `assured` it knows within
    seconds whether an item has arrived, sends it again if not, and frees the lock of a worker that does not answer.
    With `unacknowledged`, or None if the node's owner has set no level, deliveries are plain messages. An answer
    confirms that an item has arrived, not that its work is done. Entering raises Refused if the service does not offer
    the level.

    `run` ensures the schedules that its handlers declare for the worker's nodes (`Handlers.periodic`); with `schedules=False`
    it does not.

    `metrics` is a port of the loopback address at which the worker serves what it does in the text format of Prometheus, or a
    `pubqueue_xeps.metrics.Metrics`, which counts it in a registry of the program's. Either needs `pubqueue[metrics]`.

    If the program has not set up logging, the worker reports on standard error when it connects, what fails, and once
    a minute what it has done; `status=False`, or PUBQUEUE_QUIET in the environment, turns this off.

    Use a worker once, as an async context manager and iterator, or by `run`. Entering waits for a server that cannot be
    reached and for a service that does not answer, with a warning in the log for each attempt (`asyncio.timeout` bounds
    the wait). Entering raises LoginFailed or LoginRefused, NoSuchNode, NotAQueue or Refused. Later the worker retries
    with backoff, except after errors that do not go away: the node is deleted, another client logs in under the same
    full JID, or the subscription is refused. These end the iteration with an exception.
    """

    def __init__(
        self,
        jid: str | None = None,
        password: str | None = None,
        *,
        node: str | Sequence[str] | None = None,
        handlers: Handlers | None = None,
        requests: int = REQUESTS,
        weights: Mapping[str, int] | None = None,
        grace: Span = 30,
        touch_for: Span = 3600,
        signals: Collection[Signals] = SIGNALS,
        timings: Timings | None = None,
        status: bool = True,
        level: Level | str | None = None,
        schedules: bool = True,
        metrics: int | Metrics | None = None,
        **where: Unpack[Connect],
    ) -> None:
        whole("requests", requests, 1)
        if not isinstance(handlers, Handlers | None):
            raise TypeError(f"handlers is {handlers!r}; it takes Handlers, and `run` a function.")
        self._connection = connect("worker", jid, password, where, nodes=_names(node))
        self._handlers = self._of_windows = handlers
        nodes = self._connection.nodes or (() if handlers is None else handlers.nodes)
        _check_names(nodes)
        if handlers is not None:
            handlers.check(nodes)
        self._weights = weights_of(nodes, weights)
        self._requests = requests
        self._windows = self._windows_for(handlers)
        self._grace = span("grace", grace)
        self._touch_for = span("touch_for", touch_for)
        self._keeping: list[asyncio.Task[None]] = []
        self._signals = signals
        self._timings = timings or Timings()
        self._items: WorkerItems | None = None
        self._stack = ExitStack()
        self._status = status
        self._schedules = schedules
        self._metrics = _metrics(metrics)
        self._level = None if level is None else level_of(level)
        self._reporting = ExitStack()
        self._serving = ExitStack()
        self._minutes: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        items = WorkerItems(
            self._connection,
            Turns(self._weights),
            self._timings,
            self._shares(),
            touch_for=self._touch_for,
            level=self._level,
        )
        with ExitStack() as opening:
            reporting = self._status and wanted()
            if reporting:
                opening.enter_context(STANDARD_ERROR.reporting())
            # before the subscription is granted: from then on a signal must not end the program at once
            opening.callback(self._stack.close)
            self._stack.enter_context(stopping_on(self._signals, partial(_finish, items)))
            if self._metrics is not None:
                port, metrics = self._metrics
                if port is not None:
                    opening.callback(self._serving.close)
                    self._serving.enter_context(metrics.served(port))
                for part in items.parts:
                    observation = Observation(part.session, part.held_items, part.windows)
                    opening.enter_context(observed(metrics, observation))
            await items.open()
            self._reporting = opening.pop_all()
        if reporting:
            self._minutes = asyncio.create_task(report_minutes(items), name="pubqueue status")
        self._items = items
        if self._touch_for:
            self._keeping = [
                asyncio.create_task(part.held_items.keeper.keep(), name="pubqueue locks")
                for part in items.parts
            ]
        self._stack.enter_context(watched(self._timings.stall))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        items = self._held()
        self._stack.close()
        self.stop()
        items.release_all()
        await items.close()
        tasks = [*self._keeping, *([] if self._minutes is None else [self._minutes])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        log.info("worker.closed", jid=self.jid, **items.tally)
        if self._metrics is not None:
            await asyncio.to_thread(self._serving.close)  # its thread ends within half a second
        self._reporting.close()

    @property
    def jid(self) -> str:
        """The full JID that is subscribed; with several services, the one at the first of them."""
        return self._held().parts[0].session.jid

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """Return the next item; it is in hand until it is retracted, unlocked or lost."""
        items = self._held()
        item = await items.take()
        if item is not None:
            return item
        if items.failure is not None:
            raise items.failure
        raise StopAsyncIteration

    async def resize(self, requests: int) -> None:
        """Take up to `requests` items at a time from each queue from now on, shared by weights; 0: none until it is called again.

        With several services, each has an equal share. Items that were delivered stay. Raises NoSuchNode, NotAQueue, ServiceUnavailable or Refused; without a connection
        nothing is raised, and the next connection has the new size.
        """
        whole("requests", requests, 0)
        parts = self._held().parts
        windows = (
            windows_of(requests, self._weights) if requests else dict.fromkeys(self._weights, 0)
        )
        shares = {node: -(-window // len(parts)) for node, window in windows.items()}
        await asyncio.gather(*(part.session.resize(shares) for part in parts))

    def stop(self) -> None:
        """Take no more items: unsubscribe, and unlock the items that were delivered but not begun.

        The iteration ends after the items in hand.
        """
        self._held().stop()

    async def drain(self) -> None:
        """Stop, and return when no item is in hand or `grace` has passed."""
        items = self._held()
        self.stop()
        try:
            async with asyncio.timeout(self._grace):
                await items.emptied()
        except TimeoutError:
            log.warning("worker.drain_timeout", node=items.name, seconds=self._grace)

    async def run(
        self, handler: Handle | Handlers | None = None, *, concurrency: int | None = None
    ) -> None:
        """Pass each item to `handler`, or to the matching one of several handlers, until `stop`, `drain` or a signal.

        Without `handler`, these are the handlers that the worker was made with.

        An item is retracted when its handler returns, and unlocked when the handler raises, with the outcome that the
        exception stands for. Exceptions other than Release, Failed and Reject are logged with their traceback. No
        exception of a handler ends the worker. At most `concurrency` handlers run at a time, by default as many as
        items can be delivered: `requests` for each node. Handlers that have not finished when `grace` has passed are
        cancelled, and their items released.

        Raises TypeError, before it takes an item, for a handler that is not a coroutine function, and ConfigurationError
        for handlers of which none takes items from one of the nodes. Raises Refused if a schedule that the handlers declare
        is refused, for example because the account is not an administrator of the service.
        """
        whole("concurrency", concurrency, 1)
        handler = self._chosen(handler)
        windows = self._windows_for(handler) if self._items is None else self._windows
        number = concurrency or sum(windows.values())
        _check_batches(handler, windows, number)
        self._windows = windows
        if isinstance(handler, Handlers):
            self._of_windows = handler
        async with AsyncExitStack() as stack:
            if self._items is None:
                await stack.enter_async_context(self)
            items = self._held()
            if isinstance(handler, Handlers) and self._schedules:
                stack.push_async_callback(_cancelled, await self._ensure(items, handler))
            await self._employ(items, _works(items, handler, number))
            if items.failure is not None:
                raise items.failure

    def run_blocking(
        self, handler: Callable[[BlockingItem], object], *, concurrency: int | None = None
    ) -> None:
        """Do what `run` does for a handler that is a plain function, without asyncio; return when the worker has ended.

        Each call runs in its own thread, at most `concurrency` at a time, by default `requests` for each node; the
        worker extends locks meanwhile. A thread cannot be cancelled: if a handler has not returned when `grace` has
        passed, its item is released, but this method returns only when the handler has.
        """
        whole("concurrency", concurrency, 1)
        with in_threads(handler, concurrency or self._at_a_time) as handle:
            asyncio.run(self.run(handle, concurrency=concurrency))

    async def _ensure(self, items: WorkerItems, handlers: Handlers) -> list[asyncio.Task[None]]:
        """Ensure the schedules of the handlers; with several services, beside the work, so that one that is away holds up none."""
        ours = [task for task in handlers.schedules() if task.node in self._weights]
        works = [
            Schedules(part.session, part.held_items.service, self._timings).ensure(
                ours, items.services
            )
            for part in items.parts
        ]
        if len(works) == 1:
            await _unless(items.ended, works[0])
            return []
        return [
            asyncio.create_task(_or_fail(work, part.held_items), name="pubqueue schedules")
            for work, part in zip(works, items.parts, strict=True)
        ]

    async def _employ(
        self, items: WorkerItems, works: Iterable[Coroutine[object, object, None]]
    ) -> None:
        tasks = {asyncio.create_task(work) for work in works}
        try:
            await items.ended.wait()
            await asyncio.wait(tasks, timeout=self._grace)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _at_a_time(self) -> int:
        """The largest number of items in hand: the windows of all nodes."""
        return sum(self._windows.values())

    def _windows_for(self, handler: object) -> dict[str, int]:
        """Return the window of each node, with room for the batches of these handlers."""
        if isinstance(handler, Handlers):
            return windows_of(self._requests, self._weights, handler.largest_batch)
        return windows_of(self._requests, self._weights)

    def _shares(self) -> dict[str, int]:
        """Return the window of each node at each service: an equal share, with room for the batches of the handlers."""
        number = len(self._connection.services.names)
        handlers = self._of_windows
        return {
            node: max(1 if handlers is None else handlers.largest_batch(node), -(-window // number))
            for node, window in self._windows.items()
        }

    def _chosen(self, handler: Handle | Handlers | None) -> Handle | Handlers:
        """Return the handler to run; raise TypeError or ConfigurationError for one that does not fit."""
        if handler is None and self._handlers is not None:
            return self._handlers
        if handler is not None and self._handlers not in (None, handler):
            raise TypeError("The worker was made with handlers: call `run` without others.")
        _check_handler(handler)
        if isinstance(handler, Handlers):
            handler.check(self._weights)
        assert handler is not None
        return handler

    def _held(self) -> WorkerItems:
        if self._items is None:
            raise RuntimeError("The worker is not connected: enter it with `async with`.")
        return self._items


def _check_batches(
    handler: Handle | Handlers, windows: Mapping[str, int], concurrency: int
) -> None:
    """Raise ConfigurationError for batches that can never be full."""
    if not isinstance(handler, Handlers):
        return
    for node, window in windows.items():
        most = min(window, concurrency)
        if (size := handler.largest_batch(node)) > most:
            raise ConfigurationError(
                f"A handler takes batches of {size} from {node!r}, and the worker has {most} at a time: give a higher"
                " concurrency= or requests=, or make the worker with handlers=.",
                argument="requests" if size > window else "concurrency",
            )


async def _unless(ended: asyncio.Event, work: Coroutine[object, object, None]) -> None:
    """Do some work, unless the worker ends before."""
    tasks = asyncio.create_task(work), asyncio.create_task(ended.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _or_fail(work: Coroutine[object, object, None], held_items: HeldItems) -> None:
    """Do some work at a service; an error of it is that of the service."""
    try:
        await work
    except PubqueueError as error:
        held_items.failed(error)


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _finish(items: WorkerItems) -> bool:
    """Stop on a signal, and return True; return False if nothing can have been delivered yet."""
    if not items.is_subscribed:
        return False
    items.stop()
    return True


def _metrics(given: object) -> tuple[int | None, Metrics] | None:
    """Return the port to serve at, if any, and what counts; raise ImportError or ConfigurationError."""
    if given is None:
        return None
    from prometheus_client import CollectorRegistry  # noqa: PLC0415  # an extra

    from pubqueue_xeps.metrics import Metrics  # noqa: PLC0415  # needs an extra

    if isinstance(given, Metrics):
        return None, given
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given < 65536:  # noqa: PLR2004 - the last port
        raise ConfigurationError(
            f"metrics is {given!r}; it takes a port from 1 to 65535, or Metrics.",
            argument="metrics",
        )
    return given, Metrics(CollectorRegistry())


def _names(node: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if node is None:
        return None
    return (node,) if isinstance(node, str) else tuple(node)


def _check_names(nodes: Sequence[object]) -> None:
    if not nodes or not all(isinstance(node, str) and node for node in nodes):
        raise ConfigurationError(
            "A worker needs the name of a node: give node= or --node, end the URL with it, or name it in the handlers.",
            argument="node",
        )
    if twice := [node for node in nodes if nodes.count(node) > 1]:
        raise ConfigurationError(f"The node {twice[0]!r} is given more than once.", argument="node")


def _check_handler(handler: object) -> None:
    """Raise TypeError for a handler that would do the work and then fail every item."""
    if isinstance(handler, Handlers):
        return
    if not callable(handler):
        raise TypeError(f"The handler is {handler!r}; it takes an async function, or Handlers.")
    if not is_async(handler):
        name = name_of(handler)
        raise TypeError(f"The handler {name} is no coroutine function: give it to `run_blocking`.")


def _works(
    items: WorkerItems, handler: Handle | Handlers, number: int
) -> list[Coroutine[object, object, None]]:
    if isinstance(handler, Handlers):
        return [Dispatcher(items, handler, number).run()]
    return [_handle_all(items, handler) for _ in range(number)]


async def _handle_all(items: WorkerItems, handler: Handle) -> None:
    task = asyncio.current_task()
    name = name_of(handler)
    at_work(name)
    while (item := await items.take()) is not None:
        item.handler = name
        try:
            async with item:
                await item.respond(await handler(item))
        except asyncio.CancelledError:
            if task is None or task.cancelling():
                raise
            # something that the handler awaited was cancelled, not this task
            log.warning("item.cancelled", node=item.node, id=item.id, service=item.service)
        except Exception as error:  # the handler's, and the next item must not suffer for it
            log.error(
                "item.failed",
                node=item.node,
                id=item.id,
                error=type(error).__name__,
                service=item.service,
                exc_info=trimmed(error),
            )


# SIGTERM and SIGINT: the first one stops the workers, the second kills the program.

_stops: dict[tuple[asyncio.AbstractEventLoop, signal.Signals], list[Callable[[], bool]]] = {}


@contextmanager
def stopping_on(signals: Iterable[signal.Signals], stop: Callable[[], bool]) -> Iterator[None]:
    """Call `stop` on the first of `signals`; the second has its default effect.

    So has the first one, if no `stop` has anything to finish; each returns whether it has. All workers in one event
    loop are stopped together. Outside the main thread this does nothing, because Python cannot catch signals there.
    """
    loop = asyncio.get_running_loop()
    keys = [(loop, signal.Signals(number)) for number in signals]
    if threading.current_thread() is not threading.main_thread():
        keys = []
    for key in keys:
        if key not in _stops:
            _stops[key] = []
            loop.add_signal_handler(key[1], _caught, key)
        _stops[key].append(stop)
    try:
        yield
    finally:
        for key in keys:
            _forget(key, stop)


def _caught(key: tuple[asyncio.AbstractEventLoop, signal.Signals]) -> None:
    stops = list(_stops[key])
    _stops[key].clear()
    _release(key)
    stopped = [stop() for stop in stops]
    if not any(stopped):
        signal.raise_signal(key[1])


def _forget(
    key: tuple[asyncio.AbstractEventLoop, signal.Signals], stop: Callable[[], bool]
) -> None:
    waiting = _stops.get(key)
    if waiting and stop in waiting:
        waiting.remove(stop)
        if not waiting:
            _release(key)


def _release(key: tuple[asyncio.AbstractEventLoop, signal.Signals]) -> None:
    del _stops[key]
    key[0].remove_signal_handler(key[1])
