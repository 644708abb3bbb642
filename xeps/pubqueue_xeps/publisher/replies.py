"""Asks for work and waits for its result: the node for replies, and the id that matches a reply to its item.

An asker has one node for replies, named `replies/` and its bare JID, which it creates when it first asks. It is a plain
node, not a queue: any account may publish to it, and only its owner may read it. An item that asks for a reply carries
two headers: `reply-to` names that node, `correlation-id` the reply. The worker publishes the reply under that id, so a
reply that is sent twice is stored once. The node keeps replies for a day, whether the asker is connected or not. The
asker subscribes to get them quickly. It also reads its replies after each reconnect and from time to time, because a
notification may be lost.

If the item ends without having been done, the service itself publishes how, under the same id and in the asker's name.

If accounts may not create nodes at a service, its operator has to declare the node in the configuration.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.errors import NoReply, NoSuchNode, PubqueueError, QuestionDied, Refused
from pubqueue_xeps.wire.asking import CORRELATION, DIED, PLACE, REPLY_TO, Death, correlation
from pubqueue_xeps.wire.ns import CLIENT, DATA, PUBSUB
from pubqueue_xeps.wire.payloads.decoding import Content
from pubqueue_xeps.wire.publication import new_id, wrapped
from pubqueue_xeps.wire.requests import IqRequest, publishing
from pubqueue_xeps.wire.xml_text import attributes, quote
from pubqueue_xeps.xep_0254.queueing import Delivered, read_event

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.connection_keeper import ConnectionKeeper
    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.client.publications import Publications
    from pubqueue_xeps.wire.publication import NewItem

MESSAGE: Final = f"{{{CLIENT}}}message"
ITEM: Final = f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}items/{{{PUBSUB}}}item"
SETTINGS: Final = {
    "pubsub#access_model": "whitelist",
    "pubsub#publish_model": "open",
    "pubsub#persist_items": "1",
    "pubsub#max_items": "10000",
    "pubsub#item_expire": "86400",
    "pubsub#deliver_payloads": "1",
    "pubsub#notify_retract": "0",
    "pubsub#tempsub": "1",
}
"""`tempsub`: the subscription ends with the session; otherwise each run of an asker would leave one behind."""


class Reply(Content):
    """The reply of a worker; `publisher` is its bare JID, or None if the service does not report it."""

    __slots__ = ("_payload", "id", "publisher")

    def __init__(self, id: str, payload: Element | None, publisher: str | None) -> None:  # noqa: A002 - the attribute's
        self.id = id
        self._payload = payload
        self.publisher = publisher

    @property
    def payload(self) -> Element | None:
        """The payload as an element, or None if there is none."""
        return self._payload


def death_in(payload: Element | None) -> Death | None:
    """Return what the service says of a question that ended, None if a payload is anything else."""
    if payload is None or payload.tag != DIED:
        return None
    attempts, failures = (payload.get(name, "") for name in ("attempts", "failures"))
    if not (attempts.isdecimal() and failures.isdecimal()):
        return None
    names = payload.get("node", ""), payload.get("id", ""), payload.get("reason", "")
    return Death(*names, int(attempts), int(failures))


class _Wait:
    """A task that waits for a reply; `news` is set when there is a reply, or a reason to look for one."""

    __slots__ = ("news", "reply")

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.reply: Reply | None = None


class Replies:
    """The replies to the items that one publisher asks at one service: a worker replies where its item is."""

    def __init__(
        self,
        keeper: ConnectionKeeper,
        publications: Publications,
        service: str,
        account: str,
        timings: Timings,
    ) -> None:
        self._keeper = keeper
        self._publications = publications
        self._service = service
        self._node = PLACE + account
        self._timings = timings
        self._session = 0
        self._settled = 0.0
        self._settling = asyncio.Lock()
        self._waits: dict[str, set[_Wait]] = {}

    async def ask(self, node: str, new: NewItem, timeout: float) -> Reply:  # noqa: ASYNC109 - a promise
        """Publish an item and return the reply to it; see `Publisher.ask`."""
        name = publishing.identified(new.id) or new_id()
        new = wrapped(new)
        # an item that cannot be sent is refused before the node for replies is made
        publishing.beside(new.delay, new.priority, new.ttl, new.headers, new.group)
        wanted = correlation(node, name)
        headers = {**(new.headers or {}), REPLY_TO: self._node, CORRELATION: wanted}
        wait = _Wait()
        self._waits.setdefault(wanted, set()).add(wait)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await self._listen()
                # a reply that came while the asker was disconnected
                if new.id is not None and (reply := await self._look(wanted)) is not None:
                    return self._answered(reply, node, name)
                asked = replace(new, id=name, headers=headers)
                published = await self._publications.publish(node, asked, None)
                if published.dead is not None:
                    raise QuestionDied(
                        f"The item {name!r} is in {node!r} already, and dead: {published.dead}.",
                        node=node,
                        id=name,
                        reason=published.dead,
                    )
                return self._answered(await self._reply(wait, wanted), node, name)
        except TimeoutError:
            if not limit.expired():
                raise
            raise NoReply(
                f"No reply to {name!r} in {node!r} came within {timeout:g} seconds; ask again with this id.",
                node=node,
                id=name,
            ) from None
        finally:
            self._waits[wanted].discard(wait)
            if not self._waits[wanted]:
                del self._waits[wanted]

    def _answered(self, reply: Reply, node: str, name: str) -> Reply:
        """Return a reply; raise QuestionDied for one by which the service says that the question has ended."""
        death = death_in(reply.payload)
        if death is None or reply.publisher not in {None, self._node.removeprefix(PLACE)}:
            return reply
        raise QuestionDied(
            f"The item {name!r} in {node!r} is not done, after {death.attempts} deliveries: {death.reason}.",
            node=node,
            id=name,
            reason=death.reason,
            attempts=death.attempts,
            failures=death.failures,
        )

    def read(self, stanza: Element) -> bool:
        """Read a notification from our node."""
        if stanza.tag != MESSAGE or stanza.get("from") != self._service:
            return False
        events = [event for event in read_event(stanza) if event.node == self._node]
        for event in events:
            if isinstance(event, Delivered):
                for wait in self._waits.get(event.id, ()):
                    wait.reply = Reply(event.id, event.payload, event.publisher)
                    wait.news.set()
        return bool(events)

    def look_again(self) -> None:
        """Look for replies that arrived before this new session."""
        for waits in self._waits.values():
            for wait in waits:
                wait.news.set()

    async def _reply(self, wait: _Wait, wanted: str) -> Reply:
        pause = self._timings.answer
        while wait.reply is None:
            try:
                async with asyncio.timeout(pause):
                    await wait.news.wait()
            except TimeoutError:
                self._doubt()
                pause = min(2 * pause, self._timings.refresh)
            wait.news.clear()
            if wait.reply is None:
                await self._listen()
                found = await self._look(wanted)
                if wait.reply is None:  # else it has arrived meanwhile
                    wait.reply = found
        return wait.reply

    def _doubt(self) -> None:
        """Subscribe again, in case the service has lost the subscription; once for all tasks that wait."""
        if asyncio.get_running_loop().time() >= self._settled + self._timings.answer:
            self._session = 0

    async def _listen(self) -> None:
        """Return when we are subscribed to our node in this session."""
        async with self._settling:
            while self._session != self._keeper.sessions:
                await self._keeper.ready()
                session = self._keeper.sessions
                self._keeper.send(f"<presence to={quote(self._service)}/>".encode())
                refused = await self._make_node() if self._session == 0 else None
                try:
                    if refused is not None:
                        await self._check_ownership()
                    await self._set(
                        f"<subscribe{attributes(node=self._node, jid=self._keeper.jid)}/>"
                    )
                except NoSuchNode as error:
                    raise self._no_reply_node(refused or error) from None
                self._session = session
                self._settled = asyncio.get_running_loop().time()

    async def _make_node(self) -> PubqueueError | None:
        fields = "".join(
            f"<field var='{name}'><value>{value}</value></field>"
            for name, value in SETTINGS.items()
        )
        kind = f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#node_config</value></field>"
        form = f"<configure><x xmlns='{DATA}' type='submit'>{kind}{fields}</x></configure>"
        try:
            await self._set(f"<create node={quote(self._node)}/>{form}")
        except PubqueueError as error:
            return error  # it exists, or we may not create it: subscribing shows which
        return None

    async def _check_ownership(self) -> None:
        """Raise Refused unless we own the node and no other account can read it."""
        words = f"the settings of the node {self._node!r}"
        inner = f"<pubsub xmlns='{PUBSUB}#owner'><configure node={quote(self._node)}/></pubsub>"
        try:
            form, _ = await self._publications.confirmed(
                IqRequest("get", words, inner), self._node, None
            )
        except Refused as error:
            raise Refused(
                f"The node {self._node!r} is there, and is another account's: nothing is asked, for the replies would be that"
                f" one's to read. An administrator of {self._service} can delete it. ({error})",
                condition=error.condition,
                node=self._node,
            ) from None
        model = form.findtext(f".//{{{DATA}}}field[@var='pubsub#access_model']/{{{DATA}}}value")
        if model != SETTINGS["pubsub#access_model"]:
            raise Refused(
                f"The node {self._node!r} can be read by others: its access model is {model}. Nothing is asked until it is"
                f" {SETTINGS['pubsub#access_model']}.",
                node=self._node,
            )

    def _no_reply_node(self, why: PubqueueError) -> Refused:
        return Refused(
            f"There is no node {self._node!r} for replies, and it cannot be made: {why} An operator of"
            f" {self._service} may declare it, with {self._node.removeprefix(PLACE)} as its owner.",
            condition=why.condition,
            node=self._node,
        )

    async def _set(self, inner: str) -> Element:
        question = IqRequest(
            "set", f"the node {self._node!r}", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"
        )
        answer, _ = await self._publications.confirmed(question, self._node, None)
        return answer

    async def _look(self, wanted: str) -> Reply | None:
        inner = f"<items node={quote(self._node)}><item id={quote(wanted)}/></items>"
        words = f"the reply {wanted!r}"
        question = IqRequest("get", words, f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")
        try:
            answer, _ = await self._publications.confirmed(question, self._node, None)
        except NoSuchNode:
            return None  # for a single item that does not exist
        found = answer.find(ITEM)
        if found is None:
            return None
        return Reply(wanted, found[0] if len(found) else None, found.get("publisher"))
