"""A pubsub service of any kind, with three accounts at its server, and requests to send."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from harness.clients.session import PUBSUB, session
from harness.patience import TIMEOUT
from lxml import etree

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from harness.clients.session import XmppSession
    from lxml.etree import _Element

FORM: Final = "jabber:x:data"
DISCO: Final = "http://jabber.org/protocol/disco"
RSM: Final = "http://jabber.org/protocol/rsm"
PEOPLE: Final = ("ann", "bob", "cat")
"""Ann creates the nodes, and may do so at every service."""

STEP: Final = 0.1
WITHIN: Final = 15.0
"""Seconds within which a service must act on a timeout of one second."""


SOON: Final = 2.0
"""Seconds after which a service is checked for an answer."""


class NotDoneError(Exception):
    """The service has refused, or behaved differently."""


class Service:
    """The service at `address`; each request names its account."""

    def __init__(self, address: str, people: dict[str, XmppSession]) -> None:
        self.address = address
        self._people = people
        self._numbers = itertools.count(1)
        self._heard: list[_Element] = []
        self.control = ""

    def jid(self, who: str) -> str:
        """Return the full JID of an account."""
        return self._people[who].jid

    async def ask(self, who: str, kind: str, child: str) -> _Element:
        """Return the answer, which may be an error.

        Raises:
            NotDoneError: there is none, although a later request has been answered.

        """
        answer = asyncio.create_task(self._people[who].ask(kind, child))
        if not (await asyncio.wait({answer}, timeout=SOON))[0]:
            await self._people[who].ask("get", f"<query xmlns='{DISCO}#info'/>")
            if not (await asyncio.wait({answer}, timeout=WITHIN))[0]:
                answer.cancel()
                raise NotDoneError("no answer: " + child)
        return answer.result()

    async def say(self, who: str, stanza: str) -> None:
        """Send a stanza that is not a request."""
        await self._people[who].client.send(stanza)

    async def come(self, who: str) -> None:
        """Make an account available, in general and to the service."""
        await self.say(who, f"<presence/><presence to='{self.address}'/>")

    async def leave(self, who: str) -> None:
        """Make an account unavailable; its stream stays."""
        await self.say(who, f"<presence to='{self.address}' type='unavailable'/>")
        await self.say(who, "<presence type='unavailable'/>")

    async def does(self, who: str, kind: str, child: str) -> _Element:
        """Return the result.

        Raises:
            NotDoneError: it is an error.

        """
        answer = await self.ask(who, kind, child)
        if answer.get("type") != "result":
            raise NotDoneError(child + etree.tostring(answer, encoding="unicode"))
        return answer

    async def refuses(self, who: str, kind: str, child: str, condition: str = "") -> bool:
        """Return whether it answers with an error, or with this one if given."""
        answer = await self.ask(who, kind, child)
        return answer.get("type") == "error" and (not condition or has(answer, condition))

    def name(self) -> str:
        """Return the name of a node that does not exist yet."""
        return f"node{next(self._numbers)}"

    async def create(self, **settings: object) -> str:
        """Create a node of Ann's with these settings, and return its name.

        A setting counts as supported only if the node's form shows it afterwards.
        """
        node, fields = self.name(), fields_of(settings)
        form = submit("node_config", fields)
        child = f"<create node='{node}'/><configure>{form}</configure>"
        await self.does("ann", "set", plain(child))
        shown = form_of(await self.does("ann", "get", owner(f"<configure node='{node}'/>")))
        for name, value in fields.items():
            if shown.get(name) not in {value, {"0": "false", "1": "true"}.get(value)}:
                raise NotDoneError(name)
        return node

    async def configure(self, node: str, **settings: object) -> None:
        """Change settings of a node of Ann's."""
        form = submit("node_config", fields_of(settings))
        await self.does("ann", "set", owner(f"<configure node='{node}'>{form}</configure>"))

    async def publish(self, node: str, *ids: str, who: str = "ann", beside: str = "") -> _Element:
        """Publish items, one request for each."""
        for name in ids:
            answer = await self.does(who, "set", publication(node, name, beside=beside))
        return answer

    async def ids(self, node: str, who: str = "ann", inner: str = "", **attributes: object) -> list:
        """Return the ids of the items in an answer, in order."""
        words = "".join(f" {name}='{value}'" for name, value in attributes.items())
        child = plain(f"<items node='{node}'{words}/>{inner}")
        return [it.get("id") for it in (await self.does(who, "get", child)).iter("{*}item")]

    async def subscribe(self, node: str, who: str = "bob", options: str = "") -> _Element:
        """Subscribe a full JID; return the subscription in the answer."""
        beside = f"<options>{options}</options>" if options else ""
        child = f"<subscribe node='{node}' jid='{self.jid(who)}'/>{beside}"
        found = (await self.does(who, "set", plain(child))).find(".//{*}subscription")
        if found is None:
            raise NotDoneError("an answer that names no subscription")
        return found

    async def is_subscribed(self, node: str, who: str = "bob") -> bool:
        """Return whether the service lists a subscription of an account."""
        answer = await self.does(who, "get", plain(f"<subscriptions node='{node}'/>"))
        found = answer.findall(".//{*}subscription")
        return any(it.get("subscription") != "none" for it in found)

    async def affiliate(self, node: str, who: str, affiliation: str) -> None:
        """Let Ann set an affiliation, and check it."""
        account = self.jid(who).partition("/")[0]
        entry = f"<affiliation jid='{account}' affiliation='{affiliation}'/>"
        await self.does("ann", "set", owner(f"<affiliations node='{node}'>{entry}</affiliations>"))
        listed = await self.does("ann", "get", owner(f"<affiliations node='{node}'/>"))
        if (account, affiliation) not in {
            (it.get("jid"), it.get("affiliation")) for it in listed.iter("{*}affiliation")
        }:
            raise NotDoneError(affiliation)

    async def heard(self, who: str) -> list[_Element]:
        """Return the messages that an account has received.

        A service sends notifications in order, so a last item of Ann's in a separate node arrives after all others.
        """
        mark = f"mark{next(self._numbers)}"
        await self.publish(self.control, mark)
        found: list[_Element] = []
        while True:
            message = await self._people[who].next_message()
            if any(it.get("id") == mark for it in message.iter("{*}item")):
                return found
            found.append(message)

    async def events(self, who: str, node: str) -> list[_Element]:
        """Return the events of the node: the children of event elements."""
        events = [it for message in await self.heard(who) for it in message.iter("{*}event")]
        return [it for event in events for it in event if it.get("node") == node]

    async def comes_true(self, question: Callable[[], Any]) -> bool:
        """Ask until the condition is true, for as long as a service may take for a timeout of a second."""
        for _ in range(round(WITHIN / STEP)):
            if await question():
                return True
            await asyncio.sleep(STEP)  # a service does not report when a timeout has passed
        return False

    async def prepare(self) -> None:
        """Subscribe all accounts to the node in which Ann marks the end."""
        self.control = self.name()
        child = plain(f"<create node='{self.control}'/>")
        await self.does("ann", "set", child)
        for who in ("bob", "cat", "ann"):
            await self.subscribe(self.control, who)


@asynccontextmanager
async def service(server: Any, address: str, surname: str = "") -> AsyncIterator[Service]:
    """Create the accounts, log them in, and yield the service at the address."""
    async with AsyncExitStack() as stack:
        people = {}
        for who in PEOPLE:
            account = await server.account(who + surname, "secret")
            jid = f"{account}/desk"
            people[who] = await stack.enter_async_context(session(server, jid, address))
            await people[who].client.send("<presence/>")
        made = Service(address, people)
        async with asyncio.timeout(TIMEOUT):
            await made.prepare()
        yield made


def has(answer: _Element, name: str) -> bool:
    """Return whether the answer contains such an element."""
    return answer.find(f".//{{*}}{name}") is not None


def plain(inner: str) -> str:
    """Return a request in the general namespace."""
    return f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"


def owner(inner: str) -> str:
    """Return a request in the owner's namespace."""
    return f"<pubsub xmlns='{PUBSUB}#owner'>{inner}</pubsub>"


def publication(
    node: str, name: str, *, payload: str = "<a xmlns='urn:a'/>", beside: str = ""
) -> str:
    """Return the publish of one item."""
    item = f"<item id='{name}'>{payload}</item>"
    return plain(f"<publish node='{node}'>{item}</publish>{beside}")


def fields_of(settings: dict[str, object]) -> dict[str, str]:
    """Return fields with the names of XEP-0060; keyword names of our queues start with `x_`."""
    names = {
        it: it
        if "#" in it
        else it.replace("x_", "x-queueing#")
        if it[:2] == "x_"
        else f"pubsub#{it}"
        for it in settings
    }
    values = {
        it: str(int(value)) if isinstance(value, bool) else str(value)
        for it, value in settings.items()
    }
    return {names[it]: values[it] for it in settings}


def submit(name: str, fields: dict[str, str]) -> str:
    """Return a completed form."""
    inside = "".join(f"<field var='{k}'><value>{v}</value></field>" for k, v in fields.items())
    kind = f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#{name}</value></field>"
    return f"<x xmlns='{FORM}' type='submit'>{kind}{inside}</x>"


def form_of(answer: _Element) -> dict[str, str]:
    """Return the fields of the form in an answer, each with its first value."""
    fields = answer.iter(f"{{{FORM}}}field")
    return {it.get("var", ""): it.findtext("{*}value") or "" for it in fields}
