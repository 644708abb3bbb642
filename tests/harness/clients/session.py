"""A session on a real server, for tests that send requests and check the answers."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from harness.clients.client import Client
from harness.patience import TIMEOUT
from harness.servers.stub_server import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.servers.ejabberd import Ejabberd
    from lxml import etree

    from pubqueue_demo.prosody import Prosody

SERVICE: Final = "queue.localhost"
PUBSUB: Final = "http://jabber.org/protocol/pubsub"
PING: Final = "{urn:xmpp:ping}ping"


class XmppSession:
    """One resource of one account."""

    def __init__(self, jid: str, service: str = SERVICE) -> None:
        self.jid = jid
        self._service = service
        self.client = Client(jid, self._take)
        self._ids = itertools.count(1)
        self._answers: dict[str, asyncio.Future[etree._Element]] = {}
        self.messages: asyncio.Queue[etree._Element] = asyncio.Queue()

    def _take(self, raw: str) -> None:
        stanza = parse(raw)
        if stanza.tag.endswith("}message"):
            self.messages.put_nowait(stanza)
        elif stanza.get("id") in self._answers:
            self._answers.pop(stanza.get("id")).set_result(stanza)
        elif stanza.find(PING) is not None:  # a worker that answers none loses its items
            words = f"type='result' id='{stanza.get('id')}' to='{stanza.get('from')}'"
            self.client.write(f"<iq {words}/>")

    async def ask(self, kind: str, child: str, *, name: str | None = None) -> etree._Element:
        """Send an IQ to the service, its child as text, and return the answer.

        Raises:
            ConnectionError: the server has ended the stream instead.

        """
        name = name or f"s{next(self._ids)}"
        answer = self._answers[name] = asyncio.get_running_loop().create_future()
        quote = '"' if "'" in name else "'"  # nothing else is escaped, so that it stays short
        words = f"type='{kind}' id={quote}{name}{quote} to='{self._service}'"
        await self.client.send(f"<iq {words}>{child}</iq>")
        async with asyncio.timeout(TIMEOUT):
            await asyncio.wait({answer, self.client.reading}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ConnectionError("the server has ended the stream")
        return answer.result()

    async def publish(self, *payloads: str, node: str = "jobs", **ids: str) -> etree._Element:
        """Publish these payloads, and those with ids of their own."""
        items = "".join(f"<item>{payload}</item>" for payload in payloads)
        items += "".join(f"<item id='{name}'>{payload}</item>" for name, payload in ids.items())
        inner = f"<publish node='{node}'>{items}</publish>"
        return await self.ask("set", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")

    async def next_message(self) -> etree._Element:
        """Return the next message."""
        async with asyncio.timeout(TIMEOUT):
            return await self.messages.get()


@asynccontextmanager
async def session(
    server: Prosody | Ejabberd, jid: str, service: str = SERVICE
) -> AsyncIterator[XmppSession]:
    """Log in `jid`, whose account exists, with the password `secret`; close the session at the end."""
    made = XmppSession(jid, service)
    await made.client.log_in(server.host, server.c2s_port, "secret")
    try:
        yield made
    finally:
        await made.client.abandon()


def condition(answer: etree._Element) -> str:
    """Return the type of an answer, or the type and the condition of its error."""
    if answer.get("type") == "result":
        return "result"
    error = answer.find("{*}error")
    assert error is not None
    return f"{error.get('type')} {error[0].tag.rpartition('}')[2]}"
