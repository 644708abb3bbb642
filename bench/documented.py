"""A bare component written as slixmpp's documentation teaches: `python -m bench.documented`.

ComponentXMPP, handlers found by StanzaPath, the stanza objects of its XEP-0060 plugin, `reply()` and
`send()`. It stores nothing. This is the cost of a component that is written in the usual way.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from typing import TYPE_CHECKING

from slixmpp import ComponentXMPP
from slixmpp.plugins.xep_0060.stanza import EventItem, EventItems, EventRetract
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import StanzaPath

if TYPE_CHECKING:
    from slixmpp import Iq
    from slixmpp.xmlstream import ET


class Documented(ComponentXMPP):
    """The whole component."""

    def __init__(self, jid: str, secret: str, host: str, port: int, requests: int) -> None:
        super().__init__(jid, secret, host, port)
        self.requests = requests
        self.free: deque[str] = deque()
        self.waiting: deque[tuple[str, ET.Element]] = deque()
        self.register_plugin("xep_0060")
        for operation in ("publish", "retract", "subscribe"):
            path = StanzaPath(f"iq@type=set/pubsub/{operation}")
            handler = getattr(self, f"on_{operation}")
            self.register_handler(Callback(operation, path, handler))
        self.add_event_handler("session_start", lambda _: print("ready", flush=True))

    def on_publish(self, iq: Iq) -> None:
        """Confirm, then deliver the item."""
        item = iq["pubsub"]["publish"]["item"]
        self.waiting.append((item["id"], item["payload"]))
        iq.reply().send()
        self.dispatch()

    def on_retract(self, iq: Iq) -> None:
        """Confirm, notify the worker (XEP-0254 2.2), and deliver the next item to it."""
        iq.reply().send()
        retract = EventRetract()
        retract["id"] = iq["pubsub"]["retract"]["item"]["id"]
        self.notify(iq["from"].full, retract)
        self.free.append(iq["from"].full)
        self.dispatch()

    def on_subscribe(self, iq: Iq) -> None:
        """Add a worker."""
        self.free.extend([iq["from"].full] * self.requests)
        iq.reply().send()
        self.dispatch()

    def dispatch(self) -> None:
        """Deliver waiting items to free workers."""
        while self.waiting and self.free:
            item = EventItem()
            item["id"], item["payload"] = self.waiting.popleft()
            self.notify(self.free.popleft(), item)

    def notify(self, worker: str, child: EventItem | EventRetract) -> None:
        """Send an event with one child."""
        message = self.make_message(mto=worker, mfrom=self.boundjid)
        message["id"] = self.new_id()
        items = EventItems()
        items["node"] = "jobs"
        items.append(child)
        message["pubsub_event"].append(items)
        message.send()


async def serve() -> None:
    """Connect, serve until SIGTERM or the end of the stream."""
    host, _, port = os.environ["PUBQUEUE_SERVER"].rpartition(":")
    component = Documented(
        os.environ["PUBQUEUE_JID"],
        os.environ["PUBQUEUE_SECRET"],
        host,
        int(port),
        int(os.environ["BENCH_REQUESTS"]),
    )
    component.connect()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, component.abort)
    await component.disconnected


if __name__ == "__main__":
    asyncio.run(serve())
