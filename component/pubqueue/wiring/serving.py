"""Starts the parts of the service in order, and stops them in the reverse order."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct

from pubqueue import __version__
from pubqueue.config.nodes import Comparison
from pubqueue.config.reloading import Parts, Reloader
from pubqueue.config.schedules import read_all
from pubqueue.config.settings import ConfigError
from pubqueue.config.users import accounts_of, service_of
from pubqueue.engine.face import PlaceTakenError
from pubqueue.engine.observe import Phase
from pubqueue.engine.ports import FencedError
from pubqueue.engine.reaper import free_connections
from pubqueue.engine.running_faces import RunningFaces
from pubqueue.faces.listener import CannotListenError
from pubqueue.faces.xmpp import XmppFace
from pubqueue.monitor.process import ProcessObservers
from pubqueue.monitor.systemd import service_manager
from pubqueue.stores import Timed
from pubqueue.wiring.faces import faces_of, takers
from pubqueue.wiring.over_http import over_http
from pubqueue.wiring.queue import at_work, broker_of, now
from pubqueue.wiring.store import CLOSING, reached, stored
from pubqueue.wiring.tasks import tasks, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.config.settings import Settings
    from pubqueue.engine.ports import Store
    from pubqueue.wiring.over_http import OverHttp

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
        """Note that a face serves."""
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

    If the store cannot be reached, or another process has the only place on the server, wait for it; `on_waiting` is
    called in the second case. If this process loses its place, or its store is replaced, it starts again, and whatever
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
            except CannotListenError as problem:
                raise ConfigError(str(problem), key="listen") from None
    log.info("service.stopped")


class _Run:
    """One run of the service on a store, which ends if it is stopped or loses its place."""

    def __init__(self, process: Process, store: Store) -> None:
        clock = store.clock(now) if isinstance(store, Timed) else now
        self._process, self._store = process, store
        self._broker, self._reaper = broker_of(process.settings, store, clock, process.observers)
        self._faces = faces_of(self._broker, process.settings, process.accounts, process.ready)
        self._running = RunningFaces(self._faces, process.waiting)
        process.http.lead_to(self._broker, self._faces)

    async def serve(self) -> None:
        """Wait for the place, then serve."""
        process = self._process
        process.observers.at_rest(Phase.STARTING)
        early = [process.reloader.read_files(process.http.hosts)]
        async with self._closed_when_fenced(), tasks(early):
            admitted = await self._admitted()
        if not admitted:
            await self._running.stop()
            return
        queue = at_work(process.settings, self._store, self._broker, self._reaper)
        async with queue as working, self._closed_when_fenced():
            await free_connections(self._broker, self._store, self._broker.instance.number)
            collect_less_often()
            process.observers.at_work(self._broker, [face.traffic for face in self._faces])
            async with tasks(self._work()) as serving:
                await self._until_stopped([*serving, *working])

    def _work(self) -> list[Coroutine[None, None, None]]:
        """Return the work of the faces, and the reload."""
        work = [self._running.serve(face) for face in self._faces]
        for face in self._faces:
            if isinstance(face, XmppFace):
                work += [face.watch_workers(self._store), face.watch_messages(self._store)]
        process, faces = self._process, self._faces
        others = [*faces, *process.http.hosts, *takers(process.settings, faces)]
        parts = Parts(self._broker, self._store, self._reaper, process.accounts, others)
        return [*work, process.reloader.run(process.settings, parts)]

    async def _until_stopped(self, work: Sequence[asyncio.Task[None]]) -> None:
        try:
            await until(self._process.stop, work)
        finally:
            self._process.observers.at_rest(Phase.STOPPING)
        log.info("service.stopping")
        await self._running.stop()
        if not self._broker.has_given_up:
            with suppress(TimeoutError):  # then some are sent again at the next start
                async with asyncio.timeout(CLOSING):
                    await self._broker.undelivered.note_all_delivered()

    @asynccontextmanager
    async def _closed_when_fenced(self) -> AsyncIterator[None]:
        """Close the connections to clients if this process has lost its number: it starts again with new ones."""
        try:
            yield
        except FencedError:
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
        await self._store.read(Comparison(settings.node, service_of(settings)).lines)

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
