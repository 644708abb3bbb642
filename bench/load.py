"""The load: publishers keep a number of items in flight, and workers retract the items that they get."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import quoteattr

from bench.wire import BenchError, Stanza, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVICE: Final = "queue.localhost"
NODE: Final = "jobs"
PUBSUB: Final = "http://jabber.org/protocol/pubsub"
SHORT: Final = " xmlns:q='urn:x-pubqueue:0' q:answer='short'"
"""The attribute of a publisher that asks for short answers."""
STALLED: Final = 60.0  # seconds without an end

SUBSCRIBE: Final = (
    "<pubsub xmlns='{ns}'><subscribe node='{node}' jid={jid}/><options>"
    "<x xmlns='jabber:x:data' type='submit'>"
    "<field var='FORM_TYPE' type='hidden'><value>{ns}#subscribe_options</value></field>"
    "<field var='pubsub#queue_requests'><value>{requests}</value></field>"
    "</x></options></pubsub>"
)


@dataclass(frozen=True, slots=True)
class Party:
    """A client of the network: its address, and the stream that carries its stanzas.

    `address` are the address attributes of its stanzas: behind a server only the recipient; without one, where this
    program is the server, sender and recipient.
    """

    jid: str
    stream: Stream
    address: str

    async def ask(self, iq_id: str, child: str) -> None:
        """Send an iq of type set and wait for its result."""
        iq = f"<iq type='set' id='{iq_id}' {self.address}>{child}</iq>"
        await self.stream.ask(iq_id, iq.encode())


def payload(size: int) -> str:
    """Return an XML payload of about this many bytes, like a row of a table."""
    fields = "<carrier>UA</carrier><flight>1545</flight><origin>EWR</origin><dest>IAH</dest>"
    empty = f"<work xmlns='urn:example:work'>{fields}<note></note></work>"
    return empty.replace("></note>", ">" + "x" * (size - len(empty)) + "</note>")


async def subscribe(worker: Party, requests: int) -> None:
    """Ask for items (XEP-0254 2.1), and send presence so that the end of the worker is noticed."""
    form = SUBSCRIBE.format(ns=PUBSUB, node=NODE, jid=quoteattr(worker.jid), requests=requests)
    await worker.ask("subscribe", form)
    worker.stream.write(f"<presence {worker.address}/>".encode())


class Load:
    """Runs item lives through the service, `window` at a time, and counts the events that come back.

    As many items are retracted as are published. If others were waiting before, these are retracted first, and workers
    hold further items that they get.
    """

    def __init__(
        self,
        publishers: Sequence[Party],
        workers: Sequence[Party],
        *,
        window: int,
        size: int,
        short: bool = False,
    ) -> None:
        self._window = window
        self._by_jid = {party.jid: party for party in workers}
        body = payload(size).replace("%", "%%")
        words = SHORT if short else ""
        publish = (
            f"<pubsub xmlns='{PUBSUB}'><publish node='{NODE}'{words}><item id='i%d'>{body}</item>"
            "</publish></pubsub></iq>"
        )
        self._publish = [
            (party.stream, f"<iq type='set' id='p%d' {party.address}>{publish}")
            for party in publishers
        ]
        self._retract = {
            party.jid: f"<iq type='set' id='r%s' {party.address}><pubsub xmlns='{PUBSUB}'>"
            f"<retract node='{NODE}'><item id='%s'/></retract></pubsub></iq>"
            for party in workers
        }
        self._next = self._target = 0
        self._held: deque[tuple[str, str]] = deque()
        self._asked = 0
        self.published = self.delivered = self.retracted = self.done = 0
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for party in (*publishers, *workers):
            party.stream.listen(self._receive, self._lost)

    async def run(self, items: int) -> None:
        """Run this many further items from publish to retract event."""
        self._end = asyncio.get_running_loop().create_future()
        self._target += items
        for _ in range(min(self._window, items)):
            self._publish_next()
        while self._held and self._asked < self._target:
            self._retract_one(*self._held.popleft())
        try:
            await asyncio.wait_for(self._end, STALLED)
        except TimeoutError:
            raise BenchError(f"nothing ended it within {STALLED:g} s: {self._counts()}") from None

    def _publish_next(self) -> None:
        number = self._next
        self._next = number + 1
        stream, iq = self._publish[number % len(self._publish)]
        stream.write((iq % (number, number)).encode())

    def _receive(self, stanza: Stanza) -> None:
        name, attributes = stanza.name, stanza.attributes
        kind = attributes.get("type")
        if name == "presence":
            # The last stanza of the previous contestant, to a component that is gone: ejabberd looks for it among
            # other servers first, and returns it to the JID's next owner. Nothing here waits for presence.
            return
        if kind == "error":
            self._fail(f"{name} {attributes.get('id')} came back: {stanza.names}")
        elif name == "iq" and kind == "result":
            if attributes["id"][0] == "p":
                self.published += 1
            else:
                self.retracted += 1
            self._look()
        elif stanza.event == "item":
            self._work(attributes["to"], stanza)
        elif stanza.event == "retract":
            self.done += 1
            if self._next < self._target:
                self._publish_next()
            self._look()

    def _work(self, jid: str, delivery: Stanza) -> None:
        if "work" not in delivery.names:
            self._fail(f"a delivery without its payload: {delivery}")
        self.delivered += 1
        if self._asked < self._target:
            self._retract_one(jid, delivery.item)
        else:
            self._held.append((jid, delivery.item))

    def _retract_one(self, jid: str, item: str) -> None:
        self._asked += 1
        self._by_jid[jid].stream.write((self._retract[jid] % (item, item)).encode())

    def _look(self) -> None:
        if self.done == self._target and self.published == self.retracted == self._target:
            self._finish(None)

    def _lost(self) -> None:
        self._fail("a connection was closed")

    def _fail(self, what: str) -> None:
        self._finish(BenchError(f"{what} ({self._counts()})"))

    def _finish(self, error: BenchError | None) -> None:
        if not self._end.done():
            self._end.set_exception(error) if error else self._end.set_result(None)

    def _counts(self) -> str:
        return (
            f"of {self._target} items {self.published} published, {self.delivered} delivered, "
            f"{self.retracted} retracted, {self.done} done"
        )
