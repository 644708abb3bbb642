"""Clients of a service over XMPP that is killed, behind a stub of the server that stays."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from faces.kill_contract import Delivery, GoneError
from harness.processes.program import Program, write_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

    from harness.servers.stub_server import StubServer

SERVICE, HOST = "queue.localhost", "localhost"
PUBSUB, QOS = "http://jabber.org/protocol/pubsub", "urn:xmpp:qos"
SUBSCRIBE: Final = f"""<subscribe node='jobs' jid='{{0}}'/><options><x xmlns='jabber:x:data' type='submit'>
    <field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#subscribe_options</value></field>
    <field var='pubsub#queue_requests'><value>3</value></field></x></options>"""


class XmppService(Program):
    """The service, behind a stub. Answers go to who has asked, and items to whom they are sent."""

    def __init__(self, folder: Path, server: StubServer, nodes: str, store: str) -> None:
        super().__init__(write_config(folder, server, nodes, store=store))
        self.server = server
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._items: dict[str, asyncio.Queue[Lock | None]] = {}
        server.on_stanza, server.on_lost = self._heard, self._lost

    async def start(self, first: str = "ready") -> None:
        """Start, and return when the server has accepted it."""
        accepted = self.server.accepted
        await super().start(first)
        await self.server.reconnected(accepted)

    def _heard(self, stanza: Any) -> None:
        tree = stanza.tree
        if tree.get("type") in {"result", "error"}:
            name = tree.get("id")
            if (
                name in self._items
            ):  # a worker that has joined: what it got before is of locks that are gone
                self._items[name] = asyncio.Queue()
            if (answer := self._answers.pop(name, None)) and not answer.done():
                answer.set_result(tree)
            return
        lock = tree.find("{urn:x-pubqueue:0}lock")
        for item in tree.iterfind(f".//{{{PUBSUB}#event}}item"):
            text = "".join(item.itertext())
            given = Lock(text, item.get("id"), lock.get("token"), lock.get("attempt"))
            self.items(tree.get("to")).put_nowait(given)

    def _lost(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(GoneError())
        self._answers.clear()
        for queue in self._items.values():
            queue.put_nowait(None)

    def items(self, jid: str) -> asyncio.Queue[Lock | None]:
        """Return what comes for an address; None is the end of the service."""
        return self._items.setdefault(jid, asyncio.Queue())

    async def say(self, text: str) -> None:
        """Send a stanza, if there is somebody to read it."""
        if not self.server.up:
            raise GoneError
        try:
            await self.server.send(text)
        except ConnectionError as problem:
            raise GoneError from problem

    async def ask(self, who: str, name: str, inner: str) -> Any:
        """Send a request, and return the answer."""
        answer = self._answers[name] = asyncio.get_running_loop().create_future()
        await self.say(f"<iq type='set' from='{who}' to='{SERVICE}' id='{name}'>{inner}</iq>")
        return await answer


class Lock(NamedTuple):
    """A delivery as it came."""

    text: str
    item: str
    token: str
    attempt: str


def pubsub(inner: str) -> str:
    """Return a request."""
    return f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"


class XmppHand:
    """Publishes under an id; subscribes, and retracts what comes. A worker that comes again is a new session, which frees what it had."""

    def __init__(self, service: XmppService, jid: str, memory: dict[str, Any]) -> None:
        self._service, self.jid, self._memory = service, jid, memory

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, service: XmppService, name: str, number: int, memory: dict[str, Any]
    ) -> AsyncIterator[XmppHand]:
        """Connect as one of several clients of an account."""
        hand = cls(service, f"{name}@{HOST}/{number}", memory)
        if name == "bee":
            await hand.come()
        yield hand

    async def come(self) -> None:
        """Begin anew as a worker."""
        self._service.items(self.jid)
        await self._service.say(f"<presence type='unavailable' from='{self.jid}' to='{SERVICE}'/>")
        answer = await self._service.ask(self.jid, self.jid, pubsub(SUBSCRIBE.format(self.jid)))
        assert answer.get("type") == "result"
        await self._service.say(f"<presence from='{self.jid}' to='{SERVICE}'/>")

    async def publish(self, text: str, group: str) -> None:
        """Publish it under its own name."""
        answer = await self._service.ask(self.jid, text, self.job(text, group, f" id='{text}'"))
        assert answer.get("type") == "result", text

    @staticmethod
    def job(text: str, group: str, attributes: str) -> str:
        """Return the request to publish it."""
        job = f"<item{attributes}><job xmlns='urn:example:work'>{text}</job></item>"
        meta = f"<meta xmlns='urn:x-pubqueue:0' group='{group}'/>"
        return pubsub(f"<publish node='jobs'>{job}</publish>{meta}")

    async def take(self) -> Delivery:
        """Return the next one."""
        lock = await self._service.items(self.jid).get()
        if lock is None:
            raise GoneError
        return Delivery(lock.text, lock.item)

    async def settle(self, delivery: Delivery) -> bool:
        """Retract it."""
        retract = f"<retract node='jobs'><item id='{delivery.key}'/></retract>"
        name = f"{self.jid} {delivery.key}"
        answer = await self._service.ask(self.jid, name, pubsub(retract))
        if answer.get("type") == "result":
            return True
        assert answer.find(".//{*}unexpected-request") is not None, (
            "its lock has ended: it comes again"
        )
        return False


class _AtLevel(XmppHand):
    """Publishes in messages that are carried, and repeats each step that has no answer."""

    async def _step(self, name: str, inner: str) -> None:
        if name not in self._memory:
            answer = await self._service.ask(self.jid, name, inner)
            assert answer.get("type") == "result", name
            self._memory[name] = True

    @staticmethod
    def carried(level: str, attributes: str, inner: str) -> str:
        """Return a request of a level."""
        message = f"<message xmlns='jabber:client'>{inner}</message>"
        return f"<{level} xmlns='{QOS}'{attributes}>{message}</{level}>"


class AcknowledgedHand(_AtLevel):
    """The repetition of a message is the same item."""

    async def publish(self, text: str, group: str) -> None:
        """Publish it under its own name."""
        inner = self.job(text, group, f" id='{text}'")
        await self._step(text, self.carried("acknowledged", "", inner))


class AssuredHand(_AtLevel):
    """A message is kept, and then delivered."""

    async def publish(self, text: str, group: str) -> None:
        """Publish it without a name, in two steps."""
        words = f" msgId='{text}'"
        await self._step(f"s{text}", self.carried("assured", words, self.job(text, group, "")))
        await self._step(f"d{text}", f"<deliver xmlns='{QOS}'{words}/>")
