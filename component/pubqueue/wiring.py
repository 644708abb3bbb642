"""Puts the parts together: starts them in order, stops them in the reverse order."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import structlog

from pubqueue.app.askers import Askers
from pubqueue.app.broker import Broker
from pubqueue.app.listings import Nodes
from pubqueue.app.other_processes import OtherProcesses
from pubqueue.app.reaper import Reaper
from pubqueue.config import ConfigError
from pubqueue.core.decision import Refused
from pubqueue.core.model import Jid, Millis, NodeName, seconds
from pubqueue.core.nodes.manage import Declare
from pubqueue.core.reading.trim import Trim
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.component import Component
from pubqueue.faces.xmpp.parse.iq import jid_of
from pubqueue.faces.xmpp.payload import fingerprint, same
from pubqueue.faces.xmpp.settings import sentence, wanted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pubqueue.config import NodeSettings, Settings

log = structlog.get_logger(__name__)

ALL = 1 << 30


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
    return Askers(admins=admins, home=settings.jid.partition(".")[2])


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
    """Run the queue without a face: store, broker, reaper, and the declared nodes.

    Raises:
        ForeignStoreError: the store cannot be used.
        ConfigError: a declared node does not fit.

    """
    store = settings.make_store()
    await store.open()
    trim = Trim(seconds(settings.event_log_days * 86_400), settings.event_log_size)
    reaper, other_processes = Reaper(clock=now, trim=trim), OtherProcesses(store)
    broker = Broker(
        store,
        clock=now,
        policy=settings.node_creation,
        same_payload=same,
        fingerprint=fingerprint,
        on_moment=reaper.on_moment,
        limits=settings.transactions.limits(),
    )
    broker.start()
    try:
        for node in settings.node:
            await _declare(broker, settings, node)
        reaper.start(broker)
        other_processes.start(broker)
        yield broker
    finally:
        await other_processes.stop()
        await reaper.stop()
        await broker.stop()
        await store.close()


async def _declare(broker: Broker, settings: Settings, node: NodeSettings) -> None:
    """Make a node of the configuration file, unless it is there."""
    words = {var: [_form_value(value)] for var, value in node.options.items()}
    people = {jid: jid_of(jid) for jid in (*node.owners, *node.publishers)}
    if wrong := [jid for jid, read in people.items() if read is None]:
        raise ConfigError(f"node {node.name!r}: {wrong[0]!r} is no JID")
    request = Declare(
        by=_askers(settings).service(Jid(settings.jid)),
        node=NodeName(node.name),
        settings=wanted({"x-queueing#enabled": [_form_value(node.queueing)]} | words),
        owners=tuple(jid for name in node.owners if (jid := people[name])),
        publishers=tuple(jid for name in node.publishers if (jid := people[name])),
    )
    reply = await broker.handle(request)
    if isinstance(reply, Refused):
        raise ConfigError(f"node {node.name!r}: {sentence(reply) or reply.refusal.name.lower()}")


def _form_value(value: str | int | bool) -> str:  # noqa: FBT001  # what TOML may hold
    return ("1" if value else "0") if isinstance(value, bool) else str(value)


async def serve(
    settings: Settings,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until `stop` is set, then hand out nothing more, answer what was asked, and leave.

    Raises:
        ForeignStoreError: the store cannot be used.
        ConfigError: a declared node does not fit.
        RefusedByServerError: the server will not have the component.

    """
    async with queue(settings) as broker:
        _collect_less_often()
        faces = [make(broker, settings, on_ready) for make in FACES.values()]
        serving = [asyncio.create_task(face.run(), name="face") for face in faces]
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait(
                {*serving, stopping, broker.task}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in (*serving, broker.task):
                if task.done():
                    task.result()  # raises what ended it
            for face in faces:
                await face.stop()
            await broker.note_all_told()
        finally:
            stopping.cancel()
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, stopping, return_exceptions=True)


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
    nodes = len(await store.read(lambda tx: tx.page(Nodes(), None, ALL)))
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
    return [f"store: good, {nodes} nodes", f"server: {settings.server} accepts {settings.jid}"]
