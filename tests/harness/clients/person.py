"""A person at a chat client: available or away, subscribed to the bot, with questions that are read and answered in every form."""

from __future__ import annotations

import asyncio
import itertools
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from harness.clients.client import Client
from harness.patience import TIMEOUT
from harness.servers.stub_server import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lxml import etree

ACTIONS = "urn:xmpp:tmp:quick-response"
CAPS = "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:example:client' ver='AbCd='/>"
DISCO = "http://jabber.org/protocol/disco#info"
FORMS = f"<query xmlns='{DISCO}'><identity category='client' type='pc'/><feature var='jabber:x:data'/></query>"


RESULT = "{urn:xmpp:mam:2}result"
LAST_PAGE = "<query xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'><max>50</max><before/></set></query>"


class Question:
    """A message that asks: its id, its text, its actions and its form."""

    def __init__(self, message: etree._Element, archived: str = "") -> None:
        self.message = message
        self.id = message.get("id", "")
        self.text = message.findtext("{*}body") or ""
        self.thread = message.findtext("{*}thread")
        self.actions = {
            one.get("label"): one.get("id") for one in message.iter(f"{{{ACTIONS}}}action")
        }
        self.form = message.find("{jabber:x:data}x")
        given = message.find("{urn:xmpp:sid:0}stanza-id")
        self.stanza_id = archived or ("" if given is None else given.get("id", ""))
        """What the archive calls it, or the room."""

    @property
    def code(self) -> str:
        """The name of the question in its text."""
        found = re.search(r"Question (q\w{4})", self.text)
        assert found is not None, self.text
        return found[1]

    @property
    def is_asked(self) -> bool:
        """Whether it asks, and does not only notify."""
        return bool(self.actions)


class Person:
    """One client of an account. What it is asked goes to `asked`, all other messages to `told`."""

    def __init__(self, jid: str, bot: str, *, shows_forms: bool = False) -> None:
        self.jid, self.bot, self._shows_forms = jid, bot, shows_forms
        self.client = Client(jid, self._take)
        self.asked: asyncio.Queue[Question] = asyncio.Queue()
        self.told: asyncio.Queue[str] = asyncio.Queue()
        self._ids = itertools.count(1)
        self.entered = asyncio.Event()
        self.archived: list[Question] = []
        """What the archive has answered: messages of the bot, in order."""
        self._answers: dict[str, asyncio.Event] = {}

    def _take(self, raw: str) -> None:
        stanza = parse(raw)
        kind = stanza.tag.rpartition("}")[2]
        sender, type_ = stanza.get("from", ""), stanza.get("type")
        if kind == "presence" and type_ == "subscribe":
            self.client.write(f"<presence to='{sender}' type='subscribed'/>")
            self.client.write(f"<presence to='{sender}' type='subscribe'/>")
        elif kind == "presence" and stanza.find(".//{*}status[@code='110']") is not None:
            self.entered.set()
        elif kind == "message" and (found := stanza.find(RESULT)) is not None:
            kept = found.find("{*}forwarded/{jabber:client}message")
            assert kept is not None, raw
            if kept.get("from", "").startswith(self.bot):
                self.archived.append(Question(kept, found.get("id", "")))
        elif kind == "message" and type_ != "error" and stanza.find("{*}body") is not None:
            question = Question(stanza)
            if question.is_asked:
                self.asked.put_nowait(question)
            else:
                self.told.put_nowait(question.text)
        elif kind == "iq" and type_ in ("result", "error"):
            assert type_ == "result", raw
            self._answer(stanza.get("id", "")).set()
        elif kind == "iq" and type_ == "get":
            shown = (
                FORMS if self._shows_forms and stanza.find(f"{{{DISCO}}}query") is not None else ""
            )
            words = f"type='result' id='{stanza.get('id')}' to='{sender}'"
            self.client.write(f"<iq {words}>{shown}</iq>")

    def be(self, show: str = "") -> None:
        """Be available, or something else, to all who are subscribed."""
        shown = f"<show>{show}</show>" if show else ""
        caps = CAPS if self._shows_forms else ""
        self.client.write(f"<presence>{shown}{caps}</presence>")

    def enter(self, room: str, nick: str) -> None:
        """Enter a room."""
        self.client.write(
            f"<presence to='{room}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
        )

    def write(self, inner: str, *, to: str | None = None, kind: str = "chat") -> None:
        """Send the bot, or a room, a message with this inside."""
        name = f"m{next(self._ids)}"
        address = to or self.bot
        self.client.write(f"<message to='{address}' type='{kind}' id='{name}'>{inner}</message>")

    def type(self, words: str, **where: str) -> None:
        """Send a text."""
        self.write(f"<body>{words}</body>", **where)

    def press(self, question: Question, label: str, **where: str) -> None:
        """Select an action."""
        self.write(f"<action-selected xmlns='{ACTIONS}' id='{question.actions[label]}'/>", **where)

    def reply(self, question: Question, words: str, **where: str) -> None:
        """Reply to the question's message."""
        name = question.stanza_id if where else question.id
        quoted = "&gt; a question\n"
        fallback = f"<body start='0' end='{len('> a question ')}'/>"
        self.write(
            f"<body>{quoted}{words}</body><reply xmlns='urn:xmpp:reply:0' to='{self.bot}' id='{name}'/>"
            f"<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'>{fallback}</fallback>",
            **where,
        )

    def react(self, question: Question, sign: str) -> None:
        """React to the question's message."""
        self.write(
            f"<reactions xmlns='urn:xmpp:reactions:0' id='{question.id}'><reaction>{sign}</reaction></reactions>"
        )

    def submit(self, question: Question, answer: int, reason: str = "") -> None:
        """Submit the form of the question."""
        assert question.form is not None
        hidden = {
            one.get("var"): one.findtext("{*}value")
            for one in question.form.iter("{*}field")
            if one.get("type") == "hidden"
        }
        fields = hidden | {"answer": str(answer), "reason": reason}
        shown = "".join(
            f"<field var='{name}'><value>{value}</value></field>" for name, value in fields.items()
        )
        self.write(f"<x xmlns='jabber:x:data' type='submit'>{shown}</x>")

    async def read_archive(self) -> list[Question]:
        """Return the latest messages of the bot that the archive has, as clients read them after a login."""
        self.client.write(f"<iq type='set' id='archive'>{LAST_PAGE}</iq>")
        await self.answered("archive")
        return self.archived

    def _answer(self, name: str) -> asyncio.Event:
        return self._answers.setdefault(name, asyncio.Event())

    async def answered(self, name: str) -> None:
        """Return when an IQ has its answer."""
        async with asyncio.timeout(TIMEOUT):
            await self._answer(name).wait()

    async def question(self) -> Question:
        """Return the next question."""
        async with asyncio.timeout(TIMEOUT):
            return await self.asked.get()

    async def hears(self, part: str) -> str:
        """Return the next text that has this in it; others are dropped."""
        async with asyncio.timeout(TIMEOUT):
            while part not in (text := await self.told.get()):
                pass
            return text


@asynccontextmanager
async def at_a_client(
    server: Any, jid: str, bot: str = "bot@localhost", **more: Any
) -> AsyncIterator[Person]:
    """Log a person in for the block, available."""
    person = Person(jid, bot, **more)
    await person.client.log_in(server.host, server.c2s_port, "secret")
    person.be()
    try:
        yield person
    finally:
        await person.client.abandon()
