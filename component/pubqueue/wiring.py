"""Puts the parts together: starts them in order, stops them in the reverse order."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue import __version__
from pubqueue.app.broker import Broker
from pubqueue.app.face import PlaceTakenError
from pubqueue.app.principals import Principals
from pubqueue.app.store.ports import FencedError, StoreError, UnreachableStoreError
from pubqueue.app.tasks.connections import free_connections
from pubqueue.app.tasks.other_processes import OtherProcesses
from pubqueue.app.tasks.reaper import Reaper
from pubqueue.app.tasks.running_faces import RunningFaces
from pubqueue.app.watch.watching import Phase
from pubqueue.config.nodes import Comparison, bring_nodes
from pubqueue.config.reloading import trim_of
from pubqueue.config.schedules import Preview, bring_schedules, read_all
from pubqueue.core.model import Jid, Millis
from pubqueue.core.reading.summaries import About
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.xml.payload import fingerprint, same, space_of
from pubqueue.monitor.begin import monitored
from pubqueue.monitor.process import ProcessObservers
from pubqueue.monitor.systemd import service_manager
from pubqueue.stores import Timed, shown_address
from pubqueue.stores.looking import look
from pubqueue.stores.sqlite.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
    from contextlib import AbstractContextManager

    from pubqueue.app.face import Face
    from pubqueue.app.store.ports import Store, Transaction
    from pubqueue.app.watch.observers import Observer
    from pubqueue.config.reloading import Reloader
    from pubqueue.config.settings import Settings
    from pubqueue.core.model import Principal

log = structlog.get_logger(__name__)

CLOSING: Final = 1.5
"""Seconds for the last words to a store, and again for closing it, at the end of the service."""

RETRY_INTERVAL: Final = 1.0
"""Seconds between two attempts to reach a store that does not answer when the service starts."""


def now() -> Millis:
    """Return the time of the machine."""
    return Millis(time.time_ns() // 1_000_000)


def _principals(settings: Settings) -> Principals:
    """Return who is who: local are the accounts of the domain above the service's own."""
    admins = (Jid(account) for account in settings.admins)
    principals = Principals(admins=admins, home=settings.jid.partition(".")[2])
    principals.bar(settings.anonymous_domains)
    return principals


def _service(settings: Settings) -> Principal:
    return _principals(settings).service(Jid(settings.jid))


def _xmpp(broker: Broker, settings: Settings, on_ready: Callable[[], None]) -> XmppFace | None:
    if not settings.server:
        return None
    return XmppFace(
        broker,
        jid=settings.jid,
        secret=settings.shared_secret(),
        server=settings.address(),
        principals=_principals(settings),
        settle_by_get=settings.settle_by_get,
        auto_creates=settings.auto_creates,
        on_ready=on_ready,
    )


FACES: dict[str, Callable[[Broker, Settings, Callable[[], None]], Face | None]] = {
    "xmpp": _xmpp,
}
"""How the face of each protocol is made, if it is configured; each calls the last argument whenever it has become ready.

An address belongs to the first face that claims it. The one of XMPP claims all, so it stays the last row.
"""


def faces_of(broker: Broker, settings: Settings, on_ready: Callable[[], None]) -> list[Face]:
    """Return the faces that are configured."""
    made = [make(broker, settings, on_ready) for make in FACES.values()]
    return [face for face in made if face is not None]


@asynccontextmanager
async def queue(settings: Settings, *, clock: Callable[[], Millis] = now) -> AsyncIterator[Broker]:
    """Run the queue without a face, by this clock.

    Raises:
        ForeignStoreError: the store cannot be used.
        ConfigError: a declared node does not fit.

    """
    async with _stored(settings) as store:
        await store.open()
        broker, reaper = _broker(settings, store, clock)
        async with _at_work(settings, store, broker, reaper):
            yield broker


@asynccontextmanager
async def _stored(settings: Settings) -> AsyncIterator[Store]:
    store = settings.make_store()
    try:
        yield store
    finally:
        await _close(store)


async def _close(store: Store) -> None:
    """Close the store; one that does not come to an end of it keeps the process no longer from its own."""
    try:
        async with asyncio.timeout(CLOSING):
            await store.close()
    except (StoreError, TimeoutError) as problem:
        log.error("store.not_closed", why=str(problem) or "it takes too long")  # noqa: TRY400  # no trace


async def _reached(stop: asyncio.Event, job: Callable[[], Coroutine[None, None, None]]) -> bool:
    """Do a job of the store, once it can be reached; say whether that was before `stop`."""
    while not stop.is_set():
        try:
            async with _tasks([job()]) as (doing,):
                await _until(stop, [doing])
                if doing.done():
                    return True
        except UnreachableStoreError as problem:
            log.warning("store.unreachable", why=str(problem))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), RETRY_INTERVAL)
    return False


def about(address: str, store: Store, since: Millis) -> Callable[[], About]:
    """Return what says, whenever it is asked, what process this is: one that has served from this store since then."""
    shown = shown_address(address)
    return lambda: About(
        __version__, shown, since, store.clock_ahead if isinstance(store, Timed) else None
    )


def _broker(
    settings: Settings,
    store: Store,
    clock: Callable[[], Millis] = now,
    observers: Iterable[Observer] = (),
) -> tuple[Broker, Reaper]:
    """Return the broker, not at work yet, and who tells it what has run out."""
    reaper = Reaper(clock=clock, trim=trim_of(settings))
    broker = Broker(
        store,
        clock=clock,
        policy=settings.node_creation,
        same_payload=same,
        fingerprint=fingerprint,
        on_moment=reaper.on_moment,
        limits=settings.transactions.limits(),
        max_subscriptions=settings.subscriptions_per_account,
        auto_creation=settings.auto_creation,
        about=about(settings.store, store, clock()),
        service=_service(settings),
        operators=(Jid(account) for account in settings.admins),
        space_of=space_of,
        quotas=settings.limits.quotas(),
        observers=observers,
    )
    return broker, reaper


@asynccontextmanager
async def _at_work(
    settings: Settings, store: Store, broker: Broker, reaper: Reaper
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run what serves faces: broker, reaper, and the declared nodes; yield the tasks that end by a fault alone.

    Raises:
        ConfigError: a declared node does not fit.

    """
    other_processes = OtherProcesses(store)
    async with AsyncExitStack() as ends:  # what was begun first ends last, whatever the others meet
        for part in (broker, reaper, other_processes):
            ends.push_async_callback(part.stop)
        broker.start()
        await bring_nodes(broker, store, settings.node, _service(settings))
        await bring_schedules(broker, settings.schedule, _service(settings))
        reaper.start(broker)
        yield [broker.task, *other_processes.start(broker)]


async def serve(
    settings: Settings,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[], None] = lambda: None,
    on_waiting: Callable[[], None] = lambda: None,
    reloader: Reloader | None = None,
) -> None:
    """Serve until `stop` is set, then hand out nothing more, answer what was asked, and leave.

    A store that cannot be reached is waited for. While another process has the place on a server that admits one, wait
    for it; `on_waiting` is called then. A process that loses its place counts as one that died: who has it says again
    what may not have left. So does one whose store is no more what it has opened; both begin again.

    Raises:
        ForeignStoreError: the store cannot be used.
        ConfigError: a declared node does not fit.
        RefusedByServerError: the server will not have the component.

    """
    async with (
        monitored(settings, _service(settings)) as watching,
        service_manager() as manager,
    ):
        observers = ProcessObservers((*watching, manager))
        while not stop.is_set():
            try:
                await _serve(
                    settings,
                    stop,
                    observers,
                    reloading=manager.reloading,
                    on_ready=on_ready,
                    on_waiting=on_waiting,
                    reloader=reloader,
                )
            except PlaceTakenError:
                log.warning("service.place_lost")
            except FencedError as problem:
                log.warning("service.fenced", why=str(problem))
    log.info("service.stopped")


async def _serve(
    settings: Settings,
    stop: asyncio.Event,
    observers: ProcessObservers,
    *,
    reloading: Callable[[], AbstractContextManager[None]],
    on_ready: Callable[[], None],
    on_waiting: Callable[[], None],
    reloader: Reloader | None,
) -> None:
    async with _stored(settings) as store:
        clock = store.clock(now) if isinstance(store, Timed) else now
        broker, reaper = _broker(settings, store, clock, observers)

        def ready() -> None:
            observers.ready()
            on_ready()

        def waiting() -> None:
            observers.at_rest(Phase.WAITING)
            on_waiting()

        faces = faces_of(broker, settings, ready)
        running = RunningFaces(faces, waiting)

        observers.at_rest(Phase.STARTING)
        async with _closed_when_fenced(running):
            admitted = await _admitted(settings, store, broker, running, stop)
        if not admitted:
            await running.stop()
            return
        async with (
            _at_work(settings, store, broker, reaper) as working,
            _closed_when_fenced(running),
        ):
            await free_connections(broker, store, broker.instance.number)
            _collect_less_often()
            work = [running.serve(face) for face in faces]
            if reloader is not None:
                parts = broker, store, reaper
                reading = reloader.run(
                    settings,
                    by=_service(settings),
                    parts=parts,
                    faces=faces,
                    reloading=reloading,
                )
                work.append(reading)
            observers.at_work(broker, [face.traffic for face in faces])
            async with _tasks(work) as serving:
                try:
                    await _until(stop, [*serving, *working])
                finally:
                    observers.at_rest(Phase.STOPPING)
                log.info("service.stopping")
                await running.stop()
                if not broker.has_given_up:
                    with suppress(TimeoutError):  # then some are sent again at the next start
                        async with asyncio.timeout(CLOSING):
                            await broker.undelivered.note_all_delivered()


@asynccontextmanager
async def _closed_when_fenced(faces: RunningFaces) -> AsyncIterator[None]:
    """Close what is open to clients when this process serves no more: it begins again with streams of its own."""
    try:
        yield
    except FencedError:
        await faces.stop()
        raise


async def _admitted(
    settings: Settings,
    store: Store,
    broker: Broker,
    faces: RunningFaces,
    stop: asyncio.Event,
) -> bool:
    """Wait for the store, for the place of a face, and for a number; say whether that was before `stop`."""

    async def prepare() -> None:
        await store.open()
        # a declared node or schedule that does not fit is told now, not after a long wait for the place
        read_all(settings.schedule)
        await store.read(Comparison(settings.node, _service(settings)).lines)

    async def enter() -> None:
        broker.serve_as(await store.instances.enter())

    if not await _reached(stop, prepare):
        return False
    log.info("service.started", jid=settings.jid, server=settings.server, version=__version__)
    if await _entered(faces, stop) and await _reached(stop, enter):
        return True
    log.info("service.stopping")
    return False


async def _entered(faces: RunningFaces, stop: asyncio.Event) -> bool:
    """Wait until a face has its place; say whether that was before `stop`."""
    async with _tasks([faces.entered()]) as entering:
        await _until(stop, entering)
        return not stop.is_set()


@asynccontextmanager
async def _tasks(
    work: Sequence[Coroutine[None, None, None]],
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Have this done meanwhile; what is not over at the end is cancelled."""
    tasks = [asyncio.create_task(one, name="serving") for one in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until(stop: asyncio.Event, work: Sequence[asyncio.Task[None]]) -> None:
    """Return when `stop` is set; raises what ends a part of the work before."""
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({*work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    for task in work:
        if task.done():
            task.result()


def _collect_less_often() -> None:
    """Let the collector leave alone what is there for good, and look less often at what comes and goes.

    Nearly all that a request makes is free of cycles; with Python's own threshold of 700 objects the collector took a
    quarter of the time of reading a publish.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def prepare(settings: Settings) -> None:
    """Make the store, or bring it to the newest schema, as the start does.

    Raises:
        StoreError: it cannot be used.

    """
    async with _stored(settings) as store:
        await store.open()


async def check_offline(settings: Settings) -> list[str]:
    """See that what the file declares can be meant, and touch neither store nor port; return a line about each.

    Raises:
        ConfigError: a declared node or schedule does not fit.

    """
    compare = _comparison(settings)
    nothing = MemoryStore()
    await nothing.open()
    _, schedules = await nothing.read(compare)
    await nothing.close()
    return schedules


def _comparison(
    settings: Settings,
) -> Callable[[Transaction], tuple[tuple[int, list[str]], list[str]]]:
    """Return what compares the declared nodes and schedules with a store.

    Raises:
        ConfigError: one of them cannot be meant; so does what is returned.

    """
    nodes = Comparison(settings.node, _service(settings))
    schedules = Preview(settings.schedule, {node.name for node in settings.node}, now())
    return lambda tx: (nodes.lines(tx), schedules.lines(tx))


async def check(settings: Settings, *, patience: float = 5.0) -> list[str]:
    """Look at the store, which stays as it is, and knock at the server; return a line about each.

    Raises:
        StoreError, ConfigError, RefusedByServerError: as `serve`.
        TimeoutError: the server cannot be reached, or did not accept us in time; the argument, if
            there is one, is the condition of its last stream error.

    """
    declared = await check_offline(settings)
    found, says = await asyncio.to_thread(look, settings.store, _comparison(settings))
    about_store = [f"store: {sentence}" for sentence in says]
    if found is not None:
        (nodes, about_nodes), about_schedules = found
        about_store.insert(0, f"store: good, {nodes} nodes")
        about_store += [*about_nodes, *about_schedules]
    else:
        about_store += declared
    broker, _ = _broker(settings, MemoryStore())
    for face in faces_of(broker, settings, lambda: None):
        about_store.append(await face.check(patience))
    return about_store
