"""A bare component, as lean as it can fairly be in Python: `python -m bench.lean`.

It parses every stanza with expat and respects namespaces, copies the payload without looking into it, answers, delivers
each item to the next worker that asked for one, and stores nothing. It has no access control, nodes, lock timeouts or
deadlines. The remaining cost is that of XMPP, the minimum for a component in Python. The window of a worker comes from
the environment, because reading it from the subscription is not one of the six measured stanzas.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections import deque
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import uvloop

ACCEPT: Final = "jabber:component:accept"
PUBSUB: Final = "http://jabber.org/protocol/pubsub"
IQ: Final = f"{ACCEPT} iq"
PUBLISH: Final = f"{PUBSUB} publish"
RETRACT: Final = f"{PUBSUB} retract"
SUBSCRIBE: Final = f"{PUBSUB} subscribe"
ITEM: Final = f"{PUBSUB} item"
HANDSHAKE: Final = f"{ACCEPT} handshake"
OPEN: Final = (
    "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' to='{jid}'"
    " xmlns:stream='http://etherx.jabber.org/streams'>"
)


class Lean(asyncio.Protocol):
    """The whole component."""

    def __init__(self, jid: str, secret: str, requests: int) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jid, self._secret, self._requests = jid, secret, requests
        self._from = f"from={quoteattr(jid)}"
        self._free: deque[str] = deque()  # workers, quoted, once for each free slot
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._messages = 0
        self._depth = 0
        self._operation = self._name = self._item = ""
        self._stanza: dict[str, str] = {}
        self._buffer = b""
        self._base = self._payload_from = self._payload_to = 0
        self._out: list[bytes] = []
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.write(OPEN.format(jid=self._jid).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._parser.Parse(data, False)  # noqa: FBT003 - not the last piece
        if self._depth == 1:
            self._base += len(self._buffer)
            self._buffer = b""
        if self._out:
            self.transport.write(b"".join(self._out))
            self._out.clear()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth = self._depth
        self._depth = depth + 1
        if depth == 1:
            self._name, self._stanza, self._operation = name, attributes, ""
        elif depth == 3:
            self._operation = self._operation or name  # a subscription has options beside it
        elif depth == 4 and name == ITEM:
            self._item, self._payload_from = attributes["id"], 0
        elif depth == 5:
            self._payload_from = self._payload_from or self._parser.CurrentByteIndex
        elif depth == 0:
            digest = hashlib.sha1(f"{attributes['id']}{self._secret}".encode()).hexdigest()
            self._out.append(f"<handshake>{digest}</handshake>".encode())

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._depth == 4 and name == ITEM:
            self._payload_to = self._parser.CurrentByteIndex
        elif self._depth == 1:
            if self._name == IQ:
                self._answer()
            elif self._name == HANDSHAKE:
                print("ready", flush=True)

    def _answer(self) -> None:
        sender, iq_id = quoteattr(self._stanza["from"]), quoteattr(self._stanza["id"])
        self._send(f"<iq type='result' {self._from} to={sender} id={iq_id}/>")
        if self._operation == PUBLISH:
            payload = self._buffer[self._payload_from - self._base : self._payload_to - self._base]
            self._waiting.append((quoteattr(self._item), payload))
        elif self._operation == RETRACT:
            self._send(
                f"<message {self._from} to={sender}><event xmlns='{PUBSUB}#event'><items"
                f" node='jobs'><retract id={quoteattr(self._item)}/></items></event></message>"
            )
            self._free.append(sender)
        elif self._operation == SUBSCRIBE:
            self._free.extend([sender] * self._requests)
        while self._waiting and self._free:
            self._deliver(self._free.popleft(), *self._waiting.popleft())

    def _deliver(self, worker: str, item: str, payload: bytes) -> None:
        self._messages += 1
        self._send(
            f"<message {self._from} to={worker} id='m{self._messages}'><event"
            f" xmlns='{PUBSUB}#event'><items node='jobs'><item id={item}>"
        )
        self._out.append(payload)
        self._out.append(b"</item></items></event></message>")

    def _send(self, text: str) -> None:
        self._out.append(text.encode())


async def serve(kind: type[Lean] = Lean) -> None:
    """Connect, serve until SIGTERM or the end of the stream."""
    host, _, port = os.environ["PUBQUEUE_SERVER"].rpartition(":")
    component = kind(
        os.environ["PUBQUEUE_JID"],
        os.environ["PUBQUEUE_SECRET"],
        int(os.environ["BENCH_REQUESTS"]),
    )
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: component, host, int(port))
    loop.add_signal_handler(signal.SIGTERM, component.transport.close)
    await component.ended


if __name__ == "__main__":
    uvloop.run(serve())
