"""A scripted queue service behind a real XMPP server: it does what a test has set, also what a service must not do.

It keeps no queue. It answers subscribe, retract, unlock, touch, disco#info and the request for its
time as a service should, until a test puts another answer into `script`; it delivers the items of a
test; and it keeps the stanzas that it got, which have to be valid by the schemas.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self
from xml.sax.saxutils import escape

from harness.patience import TIMEOUT
from harness.servers.stub_server import ACCEPT, ROOT, Frames, parse
from harness.stanzas.schema import validate_own

if TYPE_CHECKING:
    from collections.abc import Callable

    from lxml.etree import _Element

    Answer = Callable[[_Element], list[str]]

PUBSUB = "http://jabber.org/protocol/pubsub"
QUEUEING = "urn:xmpp:pubsub:queueing:0"
STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas"
OPTIONS = f"""<options><x xmlns='jabber:x:data' type='%s'>
    <field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#subscribe_options</value></field>
    <field var='pubsub#queue_requests'>%s</field></x></options>"""

QUERY = f"""<query xmlns='http://jabber.org/protocol/disco#info'>
    <feature var='{QUEUEING}'/><feature var='urn:x-pubqueue:0'/></query>"""
TIME = "<time xmlns='urn:xmpp:time'><tzo>Z</tzo><utc>{}</utc></time>"


class QueueService:
    """The component `domain` with the node `jobs`; an async context manager."""

    def __init__(self, port: int, secret: str, *, domain: str = "queue.localhost") -> None:
        self.port, self.secret, self.domain = port, secret, domain
        self.lock_timeout = 300.0
        self.script: dict[str, Answer] = {
            "query": lambda iq: [answer(iq, QUERY)],
            "time": lambda iq: [answer(iq, TIME.format(stamp()))],
            "touch": lambda iq: [self.touched(iq)],
            "subscribe": self.subscribed,
            "subscriptions": self.subscriptions,
            "unsubscribe": lambda iq: [result(iq)],
            "retract": lambda iq: [result(iq), self.retracted(iq)],
            "unlock": lambda iq: [result(iq), self.unlocked(iq)],
        }
        self.seen: deque[tuple[str, _Element]] = deque()
        self._subscribers: set[str] = set()
        self._faults: list[AssertionError] = []
        self._fan_out = asyncio.Condition()
        self._tokens = itertools.count(1)
        self._ids = itertools.count(1)

    async def __aenter__(self) -> Self:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writer.write(f"<?xml version='1.0'?>{ROOT[:-1]} to='{self.domain}'>".encode())
        accepted = asyncio.Event()
        self._task = asyncio.create_task(self._listen(reader, accepted))
        await accepted.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        for fault in self._faults:
            raise fault

    async def next(self, *verbs: str) -> _Element:
        """Return the next stanza of one of these verbs, skipping others."""
        async with asyncio.timeout(TIMEOUT), self._fan_out:
            while True:
                while self.seen:
                    verb, stanza = self.seen.popleft()
                    if verb in verbs:
                        return stanza
                await self._fan_out.wait()

    async def subscriber(self) -> str:
        """Return which JIDs have subscribed and sent presence, in this order."""
        jid = (await self.next("subscribe"))[0][0].get("jid")
        assert (await self.next("available")).get("from") == jid
        return jid

    def deliver(
        self, to: str, name: str, payload: str = "<job xmlns='x'/>", **lock: object
    ) -> None:
        """Send an item; every attribute of the lock may be given."""
        attributes = {
            "token": next(self._tokens),
            "deadline": "2100-01-01T00:00:00.000Z",
            "attempt": 1,
            "published": "2000-01-01T00:00:00.000Z",
        } | lock
        written = " ".join(f"{key}='{value}'" for key, value in attributes.items())
        item = f"<item id='{name}' publisher='etl@localhost'>{payload}</item>"
        self.send(self.event(to, item, f"<lock xmlns='urn:x-pubqueue:0' {written}/>"))

    async def heard(self, jid: str) -> None:
        """Return when `jid` has read all that was sent to it: it answers this, and in order."""
        self.send(f"<iq type='get' id='heard' from='{self.domain}' to='{jid}'><x xmlns='y'/></iq>")
        while (await self.next("other")).get("id") != "heard":
            pass

    def send(self, *stanzas: str) -> None:
        self._writer.write("".join(stanzas).encode())

    def event(self, to: str, child: str, beside: str = "") -> str:
        """Render a notification about the node `jobs`."""
        return (
            f"<message from='{self.domain}' to='{to}' id='m{next(self._ids)}'>"
            f"<event xmlns='{PUBSUB}#event'><items node='jobs'>{child}</items></event>"
            f"{beside}</message>"
        )

    def subscribed(self, iq: _Element) -> list[str]:
        window = iq.findtext(".//{jabber:x:data}field[@var='pubsub#queue_requests']/{*}value")
        if window is None:
            return [refuse(iq, "not-acceptable")]
        self._subscribers.add(iq[0][0].get("jid"))
        form = OPTIONS % ("result", f"<value>{window}</value>")
        return [result(iq, f"{subscription(iq)}{form}")]

    def subscriptions(self, iq: _Element) -> list[str]:
        """Answer which JIDs are subscribed: those that have subscribed, and have not been unavailable since."""
        each = (
            f"<subscription jid='{jid}' subscription='subscribed'/>" for jid in self._subscribers
        )
        inner = f"<subscriptions node='jobs'>{''.join(sorted(each))}</subscriptions>"
        return [answer(iq, f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")]

    def retracted(self, iq: _Element) -> str:
        return self.event(iq.get("from"), f"<retract id='{item(iq)}'/>")

    def unlocked(self, iq: _Element) -> str:
        return self.unlocked_at(iq.get("from"), item(iq))

    def unlocked_at(self, to: str, name: str) -> str:
        return self.event(to, f"<unlock xmlns='{QUEUEING}' id='{name}'/>")

    def touched(self, iq: _Element, seconds: float | None = None) -> str:
        deadline = stamp(self.lock_timeout if seconds is None else seconds)
        inner = f"<item id='{item(iq)}' deadline='{deadline}'/>"
        return answer(iq, f"<touch xmlns='urn:x-pubqueue:0' node='jobs'>{inner}</touch>")

    async def _listen(self, reader: asyncio.StreamReader, accepted: asyncio.Event) -> None:
        found: list[str] = []
        frames = Frames(self._greet, found.append)
        while data := await reader.read(65536):
            frames.feed(data)
            for raw in found:
                stanza = parse(raw)
                if stanza.tag == f"{{{ACCEPT}}}handshake":
                    accepted.set()
                else:
                    await self._take(stanza)
            found.clear()

    def _greet(self, header: dict[str, str]) -> None:
        digest = hashlib.sha1(f"{header['id']}{self.secret}".encode()).hexdigest()
        self.send(f"<handshake>{digest}</handshake>")

    def _judge(self, stanza: _Element) -> None:
        try:
            validate_own(stanza)
        except AssertionError as fault:  # raised at the end: here it would not be seen
            self._faults.append(fault)

    async def _take(self, stanza: _Element) -> None:
        self._judge(stanza)
        verb = verb_of(stanza)
        if verb == "unavailable":
            self._subscribers.discard(stanza.get("from", ""))
        async with self._fan_out:
            self.seen.append((verb, stanza))
            self._fan_out.notify_all()
        if stanza.get("type") in ("set", "get"):
            self.send(
                *self.script.get(verb, lambda iq: [refuse(iq, "service-unavailable")])(stanza)
            )


def in_turn(*answers: Answer) -> Answer:
    """Answer the first request by the first, and so on, and all later ones by the last: on a slow machine more are asked."""
    left = deque(answers)

    def answer(iq: _Element) -> list[str]:
        return (left.popleft() if len(left) > 1 else left[0])(iq)

    return answer


PUBSUBS = (f"{{{PUBSUB}}}pubsub", f"{{{PUBSUB}#owner}}pubsub")


def verb_of(stanza: _Element) -> str:
    """Return the name of a stanza's request."""
    if stanza.tag == f"{{{ACCEPT}}}presence":
        return stanza.get("type", "available")
    if stanza.tag == f"{{{ACCEPT}}}iq" and stanza.get("type") in ("set", "get"):
        asked = stanza[0][0] if stanza[0].tag in PUBSUBS else stanza[0]
        return asked.tag.partition("}")[2]
    return "other"


def item(iq: _Element) -> str:
    """Return the id of the item in a request, in a form for an attribute."""
    return escape(iq.find(".//{*}item").get("id"), {"'": "&apos;"})


def subscription(iq: _Element, state: str = "subscribed") -> str:
    jid = iq[0][0].get("jid")
    return f"<subscription node='jobs' jid='{jid}' subid='s1' subscription='{state}'/>"


def stamp(seconds: float = 0) -> str:
    """Return the time in this many seconds, in the form of XEP-0082."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def result(iq: _Element, content: str = "") -> str:
    return answer(iq, f"<pubsub xmlns='{PUBSUB}'>{content}</pubsub>" if content else "")


def answer(iq: _Element, inside: str) -> str:
    address = f"id='{iq.get('id')}' from='{iq.get('to')}' to='{iq.get('from')}'"
    return f"<iq type='result' {address}>{inside}</iq>"


def refuse(
    iq: _Element, condition: str, specific: str = "", content: str = "", text: str = ""
) -> str:
    """Answer an error; `content` is the content of its pubsub element."""
    detail = f"<text xmlns='{STANZAS}'>{text}</text>" if text else ""
    detail += f"<{specific} xmlns='{PUBSUB}#errors'/>" if specific else ""
    return (
        f"<iq type='error' id='{iq.get('id')}' from='{iq.get('to')}' to='{iq.get('from')}'>"
        f"<pubsub xmlns='{PUBSUB}'>{content}</pubsub>"
        f"<error type='cancel'><{condition} xmlns='{STANZAS}'/>{detail}</error></iq>"
    )
