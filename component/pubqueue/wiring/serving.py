"""Starts the parts of the service in order, and stops them in the reverse order."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.config.nodes import Comparison, bring_nodes, bring_schedules, read_all
from pubqueue.config.reloading import Parts, Reloader, terms_of, trim_of
from pubqueue.config.users import accounts_of, service_of
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import now
from pubqueue.engine.face import PlaceTakenError, RunningFaces
from pubqueue.engine.observe import Phase
from pubqueue.engine.ports import FencedError, StoreError, UnreachableStoreError, waited_for
from pubqueue.engine.reaper import OtherProcesses, Reaper, free_former
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.listener import CannotListenError
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.xml.payload import PAYLOADS
from pubqueue.model.replies import About
from pubqueue.monitor.alerts import Alerts
from pubqueue.monitor.process import ProcessObservers, service_manager
from pubqueue.stores import Timed, shown_address
from pubqueue.version import __version__
from pubqueue.wiring.faces import faces_of, over_http

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.config.settings import Settings
    from pubqueue.engine.observe import Observer
    from pubqueue.engine.ports import Store
    from pubqueue.model.entities import Millis
    from pubqueue.wiring.faces import OverHttp


log = structlog.get_logger(__name__)


class Process(Struct, frozen=True):
    """The parts that stay when the service starts again, with its settings and the callbacks of its starter."""

    settings: Settings
    accounts: Accounts
    http: OverHttp
    observers: ProcessObservers
    stop: asyncio.Event
    on_ready: Callable[[], None]
    on_waiting: Callable[[], None]
    reloader: Reloader

    def ready(self) -> None:
        """Note that the faces serve."""
        self.observers.ready()
        self.on_ready()

    def waiting(self) -> None:
        """Note that another process has the place."""
        self.observers.at_rest(Phase.WAITING)
        self.on_waiting()


async def serve(
    settings: Settings,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[], None] = lambda: None,
    on_waiting: Callable[[], None] = lambda: None,
    reloader: Reloader | None = None,
) -> None:
    """Serve until `stop` is set; then deliver nothing more, answer the requests that were received, and leave.

    Wait if the store cannot be reached, or fails before the faces serve, as with a full disk. Wait also if another process has the
    only place on the server, and call `on_waiting` then. If this process loses its place, or its store is replaced, it starts again, and whatever
    it may not have sent is sent again by the process that serves then.

    Raises:
        ForeignStoreError: the store cannot be used.
        ConfigError: a declared node is invalid, or an address cannot be listened on.
        RefusedByServerError: the server refuses the component.

    """
    reloader = reloader or Reloader(asyncio.Event(), lambda: settings)
    async with AsyncExitStack() as ends:
        accounts = accounts_of(settings)
        ends.callback(accounts.close)
        http = await ends.enter_async_context(over_http(settings, accounts))
        manager = await ends.enter_async_context(service_manager())
        observers = ProcessObservers((*http.observers, manager))
        reloader.reloading = manager.reloading
        calls = on_ready, on_waiting
        process = Process(settings, accounts, http, observers, stop, *calls, reloader)
        while not stop.is_set():
            try:
                async with stored(settings) as store:
                    await _Run(process, store).serve()
            except PlaceTakenError:
                log.warning("service.place_lost")
            except FencedError as problem:
                log.warning("service.fenced", why=str(problem))
            except UnreachableStoreError as problem:  # it was there a moment before
                await _pause(stop, problem)
            except CannotListenError as problem:
                raise ConfigError(str(problem), key="listen") from None
    log.info("service.stopped")


class _Run:
    """One run of the service on a store, which ends if it is stopped or loses its place."""

    def __init__(self, process: Process, store: Store) -> None:
        clock = store.clock(now) if isinstance(store, Timed) else now
        self._process, self._store = process, store
        self._broker, self._reaper = broker_of(process.settings, store, clock, process.observers)
        self._faces = faces_of(self._broker, process.settings, process.accounts, self._ready)
        self._running = RunningFaces(self._faces, process.waiting)
        self._has_freed = False
        """Whether nothing is left of the connections of earlier starts."""
        process.http.lead_to(self._broker, self._faces)

    async def serve(self) -> None:
        """Wait for the place, then serve."""
        process = self._process
        process.observers.at_rest(Phase.STARTING)
        early = [process.reloader.read_files(process.http.hosts)]
        async with self._closed_to_begin_again(), tasks(early):
            admitted = await self._admitted()
        if not admitted:
            await self._running.stop()
            return
        queue = at_work(process.settings, self._store, self._broker, self._reaper)
        async with (
            self._closed_to_begin_again(),  # for what fails before the queue is at work
            queue as working,
            self._closed_to_begin_again(),  # and here the faces close before the queue does
            AsyncExitStack() as ends,
        ):
            ends.callback(process.accounts.watch(self._broker.judge_waits_again))
            await process.http.work(self._broker, service_of(process.settings))
            collect_less_often()
            return_large_blocks()
            process.observers.at_work(self._broker, [face.traffic for face in self._faces])
            async with tasks(self._work()) as serving:
                await self._until_stopped([*serving, *working])

    def _ready(self) -> None:
        """Note that a face serves. The process is ready with the last of those that wait for no server."""
        if not self._broker.outbox.is_beginning:
            self._process.ready()

    def _work(self) -> list[Coroutine[None, None, None]]:
        """Return the work of the faces, and the reload."""
        work = [self._free_former(), *map(self._running.serve, self._faces)]
        for face in self._faces:
            if isinstance(face, XmppFace):
                work += [face.watch_workers(self._store), face.watch_messages(self._store)]
        process = self._process
        by = service_of(process.settings)
        announcers = (face.announcer for face in self._faces if isinstance(face, XmppFace))
        alerts = Alerts(self._broker, process.settings, by, next(announcers, None))
        others = [*self._faces, *process.http.hosts, alerts]
        parts = Parts(self._broker, self._store, self._reaper, process.accounts, others)
        return [*work, alerts.run(), process.reloader.run(process.settings, parts)]

    async def _free_former(self) -> None:
        """Free the connections of earlier starts, while new ones are served; it ends with the other work."""
        await free_former(self._broker, self._store)
        self._has_freed = True
        await asyncio.Event().wait()

    async def _until_stopped(self, work: Sequence[asyncio.Task[None]]) -> None:
        try:
            await until(self._process.stop, work)
        finally:
            self._process.observers.at_rest(Phase.STOPPING)
        log.info("service.stopping")
        await self._running.stop()
        if (
            self._has_freed and not self._broker.has_given_up
        ):  # what is not freed is another start's
            with suppress(TimeoutError):  # then some are sent again at the next start
                async with asyncio.timeout(CLOSING):
                    await self._broker.undelivered.note_all_delivered()

    @asynccontextmanager
    async def _closed_to_begin_again(self) -> AsyncIterator[None]:
        """Close the connections to clients if this process has lost its number, or the store as it began: it starts again with new ones."""
        try:
            yield
        except (FencedError, UnreachableStoreError):
            await self._running.stop()
            raise

    async def _admitted(self) -> bool:
        """Wait for the store, for the place of a face, and for a number; return whether that was before the stop."""
        settings, stop = self._process.settings, self._process.stop
        if not await reached(stop, self._prepare):
            return False
        log.info("service.started", jid=settings.jid, server=settings.server, version=__version__)
        if await self._entered() and await reached(stop, self._enter):
            return True
        log.info("service.stopping")
        return False

    async def _prepare(self) -> None:
        """Open the store, and refuse a declared node or schedule that is invalid now, not after a long wait for the place."""
        settings = self._process.settings
        await self._store.open()
        read_all(settings.schedule)
        with waited_for():
            await self._store.read(Comparison(settings.node, service_of(settings)).of_declared)

    async def _enter(self) -> None:
        self._broker.serve_as(await self._store.instances.enter())

    async def _entered(self) -> bool:
        """Wait until a face has its place; return whether that was before the stop."""
        stop = self._process.stop
        async with tasks([self._running.entered()]) as entering:
            await until(stop, entering)
            return not stop.is_set()


def collect_less_often() -> None:
    """Exclude the objects that stay from garbage collection, and check new ones less often.

    Nearly no object of a request is part of a cycle. With Python's own threshold of 700 objects, the collector took a
    quarter of the time of reading a publish.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


M_MMAP_THRESHOLD: Final = -3
LARGE_BLOCK: Final = 1 << 20


def return_large_blocks() -> None:
    """Have glibc return each block of a mebibyte or more to the system as soon as it is freed.

    By itself it keeps blocks of up to 32 MiB for later: after some messages of 7 MB that were 70 MiB.
    """
    with suppress(OSError, AttributeError):  # another C library has no such option
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


# Runs the queue without a face: the broker with its store, the reaper and the declared nodes.


@asynccontextmanager
async def queue(settings: Settings, *, clock: Callable[[], Millis] = now) -> AsyncIterator[Broker]:
    """Run the queue without a face, by this clock.

    Raises:
        ForeignStoreError: the store cannot be used, or failed.
        ConfigError: a declared node is invalid.

    """
    async with stored(settings) as store:
        await store.open()
        broker, reaper = broker_of(settings, store, clock)
        async with at_work(settings, store, broker, reaper):
            yield broker


def about(address: str, store: Store, since: Millis) -> Callable[[], About]:
    """Return a function that returns the facts about this process, which serves from the store since this time."""
    shown = shown_address(address)
    return lambda: About(
        __version__, shown, since, store.clock_ahead if isinstance(store, Timed) else None
    )


def broker_of(
    settings: Settings,
    store: Store,
    clock: Callable[[], Millis] = now,
    observers: Iterable[Observer] = (),
) -> tuple[Broker, Reaper]:
    """Return the broker, not started yet, and the reaper, which ends expired locks and lifetimes."""
    reaper = Reaper(clock=clock, trim=trim_of(settings))
    broker = Broker(
        *(store, terms_of(settings)),
        clock=clock,
        payloads=PAYLOADS,
        service=service_of(settings),
        about=about(settings.store, store, clock()),
        on_moment=reaper.on_moment,
        observers=observers,
    )
    return broker, reaper


@asynccontextmanager
async def at_work(
    settings: Settings, store: Store, broker: Broker, reaper: Reaper
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run the broker and the reaper, and declare the nodes; yield the tasks that end only by a fault.

    Raises:
        ConfigError: a declared node is invalid.
        UnreachableStoreError: the store failed, which may pass.

    """
    other_processes = OtherProcesses(store)
    async with AsyncExitStack() as ends:  # in reverse order, whatever the others raise
        for part in (broker, reaper, other_processes):
            ends.push_async_callback(part.stop)
        broker.start()
        with waited_for():
            await bring_nodes(broker, store, settings.node, service_of(settings))
            await bring_schedules(broker, settings.schedule, service_of(settings))
        reaper.start(broker)
        yield [broker.task, *other_processes.start(broker)]


# Opens the store as soon as it can be reached, and closes it in time.

CLOSING: Final = 1.5
"""Seconds for the last writes when the service stops, and again for closing the store."""

RETRY_INTERVAL: Final = 1.0
"""Seconds between two attempts to reach the store when the service starts."""


@asynccontextmanager
async def stored(settings: Settings) -> AsyncIterator[Store]:
    """Yield the configured store, and close it at the end."""
    store = settings.make_store()
    try:
        yield store
    finally:
        await close(store)


async def close(store: Store) -> None:
    """Close the store; if that takes more than `CLOSING` seconds, the process ends without it."""
    try:
        async with asyncio.timeout(CLOSING):
            await store.close()
    except (StoreError, TimeoutError) as problem:
        log.error("store.not_closed", why=str(problem) or "it takes too long")  # noqa: TRY400  # no trace


async def reached(stop: asyncio.Event, job: Callable[[], Coroutine[None, None, None]]) -> bool:
    """Run a job on the store, again while it cannot be reached; return whether it succeeded before `stop`."""
    while not stop.is_set():
        try:
            async with tasks([job()]) as (doing,):
                await until(stop, [doing])
                if doing.done():
                    return True
        except UnreachableStoreError as problem:
            await _pause(stop, problem)
    return False


async def _pause(stop: asyncio.Event, problem: UnreachableStoreError) -> None:
    """Wait until the store may be there again, or the service stops."""
    log.warning("store.unreachable", why=str(problem))
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), RETRY_INTERVAL)


# Tasks that run as long as a block of code.


@asynccontextmanager
async def tasks(
    work: Sequence[Coroutine[None, None, None]],
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run these while the body runs; cancel the unfinished ones at its end."""
    tasks = [asyncio.create_task(one, name="serving") for one in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(stop: asyncio.Event, work: Sequence[asyncio.Task[None]]) -> None:
    """Return when `stop` is set or a task has ended; raise the exception of a task that has failed."""
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({*work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    for task in work:
        if task.done():
            task.result()
