"""Puts the parts together: starts them in order, stops them in the reverse order."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import structlog

from pubqueue import __version__, declared_nodes
from pubqueue.app.askers import Askers
from pubqueue.app.broker import ALONE, Broker
from pubqueue.app.other_processes import OtherProcesses
from pubqueue.app.reaper import Reaper
from pubqueue.core.model import Jid, Millis
from pubqueue.declared_nodes import Comparison
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.component import Component
from pubqueue.faces.xmpp.payload import fingerprint, same
from pubqueue.reloading import trim_of
from pubqueue.stores import Doubtful

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pubqueue.app.ports import Store
    from pubqueue.config import Settings
    from pubqueue.core.model import Asker
    from pubqueue.reloading import Reloader

log = structlog.get_logger(__name__)


def now() -> Millis:
    """Return the time of the machine."""
    return Millis(time.time_ns() // 1_000_000)


class Face(Protocol):
    """A protocol that is served. It takes requests to the broker, and notices from its outbox."""

    async def run(self) -> None:
        """Serve until cancelled, or until what it raises ends the process."""

    async def stop(self) -> None:
        """Hand out nothing more, answer what was asked, and close."""


def _askers(settings: Settings) -> Askers:
    """Return who is who: local are the accounts of the domain above the service's own."""
    admins = (Jid(account) for account in settings.admins)
    askers = Askers(admins=admins, home=settings.jid.partition(".")[2])
    askers.bar(settings.anonymous_domains)
    return askers


def _service(settings: Settings) -> Asker:
    return _askers(settings).service(Jid(settings.jid))


def _xmpp(broker: Broker, settings: Settings, on_ready: Callable[[], None]) -> XmppFace:
    return XmppFace(
        broker,
        jid=settings.jid,
        secret=settings.shared_secret(),
        server=settings.address(),
        askers=_askers(settings),
        settle_by_get=settings.settle_by_get,
        on_ready=on_ready,
    )


FACES: dict[str, Callable[[Broker, Settings, Callable[[], None]], Face]] = {
    "xmpp": _xmpp,
}
"""How the face of each protocol is made; each calls the last argument whenever it has become ready.

An address belongs to the first face that claims it. The one of XMPP claims all, so it stays the last row.
"""


@asynccontextmanager
async def queue(settings: Settings) -> AsyncIterator[Broker]:
    """Run the queue without a face; raises what `_parts` raises."""
    async with _parts(settings, serving=False) as (broker, _store, _reaper):
        yield broker


@asynccontextmanager
async def _parts(
    settings: Settings, *, serving: bool
) -> AsyncIterator[tuple[Broker, Store, Reaper]]:
    """Run what serves faces: broker, store, reaper, and the declared nodes.

    Raises:
        ForeignStoreError: the store cannot be used.
        ConfigError: a declared node does not fit.

    """
    store = settings.make_store()
    async with AsyncExitStack() as ends:  # what was begun first ends last, whatever the others meet
        ends.push_async_callback(store.close)
        await store.open()
        reaper, other_processes = Reaper(clock=now, trim=trim_of(settings)), OtherProcesses(store)
        broker = Broker(
            store,
            clock=now,
            policy=settings.node_creation,
            same_payload=same,
            fingerprint=fingerprint,
            on_moment=reaper.on_moment,
            limits=settings.transactions.limits(),
            most_subscriptions=settings.subscriptions_per_account,
            instance=await store.instances.enter() if serving else ALONE,
        )
        for part in (broker, reaper, other_processes):
            ends.push_async_callback(part.stop)
        broker.start()
        await declared_nodes.bring(broker, store, settings.node, _service(settings))
        reaper.start(broker)
        other_processes.start(broker)
        yield broker, store, reaper


async def serve(
    settings: Settings,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[], None] = lambda: None,
    reloader: Reloader | None = None,
) -> None:
    """Serve until `stop` is set, then hand out nothing more, answer what was asked, and leave.

    Raises:
        ForeignStoreError: the store cannot be used.
        ConfigError: a declared node does not fit.
        RefusedByServerError: the server will not have the component.

    """
    async with _parts(settings, serving=True) as parts:
        broker = parts[0]
        _collect_less_often()
        faces = [make(broker, settings, on_ready) for make in FACES.values()]
        log.info("service.started", jid=settings.jid, server=settings.server, version=__version__)
        serving = [asyncio.create_task(face.run(), name="face") for face in faces]
        if reloader is not None:
            following = reloader.run(settings, by=_service(settings), parts=parts, faces=faces)
            serving.append(asyncio.create_task(following, name="reload"))
        try:
            await _until(stop, [*serving, broker.task])
            log.info("service.stopping")
            await asyncio.gather(*(face.stop() for face in faces))
            await broker.unsaid.note_all_told()
        finally:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
    log.info("service.stopped")


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


async def check(settings: Settings, *, patience: float = 5.0) -> list[str]:
    """Open the store and knock at the server; return a line about each.

    Raises:
        StoreError, ConfigError, RefusedByServerError: as `serve`.
        TimeoutError: the server cannot be reached, or did not accept us in time; the argument, if
            there is one, is the condition of its last stream error.

    """
    store = settings.make_store()
    await store.open()
    try:
        nodes, about_nodes = await store.read(Comparison(settings.node, _service(settings)).lines)
        doubts = await store.doubts() if isinstance(store, Doubtful) else []
    finally:
        await store.close()
    component = Component(
        settings.jid,
        settings.shared_secret(),
        settings.address(),
        on_stanza=lambda _stanza: None,
        on_up=lambda: None,
        on_down=lambda: None,
    )
    try:
        if not await component.attempt(patience=patience):
            raise TimeoutError(component.last_error)
    finally:
        await component.leave()
    server = f"server: {settings.server} accepts {settings.jid}"
    about_store = [f"store: good, {nodes} nodes", *(f"store: {doubt}" for doubt in doubts)]
    return [*about_store, *about_nodes, server]
