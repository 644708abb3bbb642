"""Any number of publishers and workers, whose server is a stub.

Everything is on one stream, in one order: so their observations are recorded in a ledger as they come.
Workers retract their items at once, unless a test gives them something else to do.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import quoteattr

from harness.clients.ledger import Ledger
from harness.patience import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from harness.servers.stub_server import Stanza, StubServer
    from lxml import etree

PUBSUB: Final = "http://jabber.org/protocol/pubsub"
OURS: Final = "urn:x-pubqueue:0"
SERVICE: Final = "queue.localhost"
ETL: Final = "etl@localhost/x"
CUT: Final = "cut"
UNAVAILABLE: Final = "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
JOB: Final = "<job xmlns='urn:example:work'/>"
OPTIONS: Final = (
    f"<options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'><value>"
    f"{PUBSUB}#subscribe_options</value></field><field var='pubsub#queue_requests'><value>{{}}"
    "</value></field></x></options>"
)


class CutError(ConnectionError):
    """The stream was cut before the answer came."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An item that was delivered to a worker."""

    to: str
    item: str
    token: int


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and what to record in the ledger if the answer is a result."""

    answer: asyncio.Future[str]
    enter: Callable[[], None]


class Crowd:
    """All parties behind the server; `ledger` has their observations."""

    def __init__(self, server: StubServer, group: asyncio.TaskGroup) -> None:
        self.ledger = Ledger()
        self.handle: Callable[[Delivery], Coroutine[Any, Any, None]] = self.work
        self._server = server
        self._group = group
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._open: dict[str, Question] = {}
        self._unsure: dict[str, Delivery] = {}
        self._cuts = 0
        self._fan_out = asyncio.Event()
        server.on_stanza, server.on_lost = self._take, self._lost

    def __repr__(self) -> str:
        ledger = self.ledger
        return f"{sorted(ledger.confirmed - ledger.committed)} to do, {sorted(self._unsure)} unsure, {ledger}"

    # --- actions ---

    async def publish(self, *names: str, payload: str = JOB) -> str:
        """Publish in one request; return "result", or the error."""
        items = "".join(f"<item id={quoteattr(name)}>{payload}</item>" for name in names)
        enter = partial(self.ledger.confirmed.update, names)
        return await self.ask(ETL, f"<publish node='jobs'>{items}</publish>", enter=enter)

    async def publish_until_confirmed(self, *names: str, payload: str = JOB) -> None:
        """Publish, and repeat it after every cut, as a careful publisher does."""
        while True:
            try:
                answer = await self.publish(*names, payload=payload)
            except CutError:
                await self._server.connected()
            else:
                assert answer == "result", answer
                return

    async def join(self, worker: str, window: int) -> None:
        """Subscribe and be there."""
        inner = f"<subscribe node='jobs' jid='{worker}'/>{OPTIONS.format(window)}"
        enter = partial(self.ledger.joined, worker, window)
        answer = await self.ask(worker, inner, enter=enter)
        assert answer == "result", answer
        await self.send(f"<presence from='{worker}' to='{SERVICE}'/>")

    async def leave(self, worker: str) -> None:
        """Leave, with all held items."""
        self.ledger.left(worker)
        await self.send(f"<presence type='unavailable' from='{worker}' to='{SERVICE}'/>")

    async def work(self, delivery: Delivery) -> None:
        """Retract items as they come, at once: only workers that have left in the meantime are refused."""
        with suppress(CutError):
            answer = await self.retract(delivery)
            held = self.ledger.holds(delivery.to, delivery.item, delivery.token)
            assert answer == "result" or not held, f"{delivery} is refused: {answer}"

    async def retract(self, delivery: Delivery) -> str:
        """Retract an item under its own lock; return "result", or the error."""
        retract = f"<retract node='jobs'><item id={quoteattr(delivery.item)}/></retract>"
        lock = f"<lock xmlns='{OURS}' token='{delivery.token}'/>"
        enter = partial(self.ledger.retracted, delivery.to, delivery.item)
        self._unsure[delivery.item] = delivery
        answer = await self.ask(delivery.to, retract, lock, enter=enter)
        self._unsure.pop(delivery.item, None)
        return answer

    async def ask_again(self) -> None:
        """Repeat every retract that was never answered: it may have been carried out."""
        for delivery in list(self._unsure.values()):
            answer = await self.retract(delivery)
            if answer == "cancel item-not-found":
                self.ledger.retracted(delivery.to, delivery.item)
                self._fan_out.set()
            else:  # done now, or the item has to be delivered again
                assert answer in {"result", "wait unexpected-request", "cancel conflict"}, answer

    async def ping(self) -> None:
        """Return when the service has answered a request that needs no store (XEP-0199)."""
        assert await self.result_of(ETL, "get", "<ping xmlns='urn:xmpp:ping'/>") == "result"

    async def all_done(self) -> None:
        """Return when all confirmed items are committed."""
        await self.until(lambda: not self.ledger.confirmed - self.ledger.committed)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Return when the ledger meets the condition; entries have to be made now and then, and no stream may be cut."""
        cuts = self._cuts
        while not reached():
            assert self._cuts == cuts, "the stream was cut meanwhile"
            self._fan_out.clear()
            try:
                async with asyncio.timeout(TIMEOUT):
                    await self._fan_out.wait()
            except TimeoutError:
                raise AssertionError(
                    f"{TIMEOUT} s without news, and this is open: {self!r}"
                ) from None

    async def ask(
        self, who: str, inner: str, beside: str = "", *, enter: Callable[[], None] = lambda: None
    ) -> str:
        """Send a request; return "result", or the type and the condition of the error.

        Raises:
            CutError: the stream was cut before.

        """
        pubsub = f"<pubsub xmlns='{PUBSUB}'>{inner}{beside}</pubsub>"
        return await self.result_of(who, "set", pubsub, enter)

    async def read(self, who: str, inner: str) -> str:
        """Send a request that changes nothing; return "result", or the type and the condition of the error."""
        return await self.result_of(who, "get", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")

    async def send(self, text: str) -> None:
        """Send, if there is a stream."""
        if not self._server.up:
            raise CutError
        try:
            await self._server.send(text)
        except ConnectionError as problem:
            raise CutError from problem

    # --- internals ---

    def spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in the background; it ends with the crowd at the latest."""
        task = self._group.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def watch(self) -> None:
        """Raise failures of the stream."""
        await self._server.receive(timeout=3600)

    def disperse(self) -> None:
        """Cancel everything that is still running."""
        for task in self._tasks:
            task.cancel()

    async def result_of(
        self, who: str, kind: str, child: str, enter: Callable[[], None] = lambda: None
    ) -> str:
        name = f"c{next(self._numbers)}"
        answer = asyncio.get_running_loop().create_future()
        self._open[name] = Question(answer, enter)
        await self.send(f"<iq type='{kind}' id='{name}' from='{who}' to='{SERVICE}'>{child}</iq>")
        async with asyncio.timeout(TIMEOUT):
            words = await answer
        if words == CUT:
            raise CutError
        return words

    def _lost(self) -> None:
        """Notify all requesters that no answer will come, and strike out all workers.

        Requests in progress may have been done or not: so a worker that wants to continue has to
        join again.
        """
        for worker in list(self.ledger.windows):
            self.ledger.left(worker)
        self._cuts += 1
        self._fan_out.set()
        asked, self._open = self._open, {}
        for question in asked.values():
            if not question.answer.done():
                question.answer.set_result(CUT)

    def _take(self, heard: Stanza) -> None:
        stanza = heard.tree
        if stanza.tag.endswith("}iq"):
            if stanza.get("type") == "get":
                self.spawn(self._answer(stanza))
            else:
                self._take_answer(stanza)
            return
        for event in stanza.iterfind(f"{{{PUBSUB}#event}}event/{{*}}items/{{*}}*"):
            kind, item = event.tag.partition("}")[2], event.get("id")
            if kind == "unlock":
                self.ledger.freed(stanza.get("to"), item)
                self._fan_out.set()
            elif kind == "item" and stanza.get("to") in self.ledger.windows:
                self._take_delivery(Delivery(stanza.get("to"), item, _token(stanza)))
            # items for a worker that has left are being returned already

    def _take_delivery(self, delivery: Delivery) -> None:
        self.ledger.delivered(delivery.to, delivery.item, delivery.token)
        self.spawn(self.handle(delivery))

    async def _answer(self, question: etree._Element) -> None:
        """Answer the service's question (XEP-0199, XEP-0030), or have the server answer for a worker that has left."""
        worker, name = question.get("to"), quoteattr(question.get("id"))
        kind, inner = "error", UNAVAILABLE
        if worker in self.ledger.windows:
            kind, inner = "result", ""
        with suppress(CutError):
            await self.send(
                f"<iq type='{kind}' id={name} from='{worker}' to='{SERVICE}'>{inner}</iq>"
            )

    def _take_answer(self, stanza: etree._Element) -> None:
        question = self._open.pop(stanza.get("id"), None)
        assert question, f"nobody asked, or answered twice: {stanza.get('id')}"
        error = stanza.find("{*}error")
        if error is None:
            question.enter()
            self._fan_out.set()
        words = "result" if error is None else f"{error.get('type')} {_name(error[0])}"
        if not question.answer.done():
            question.answer.set_result(words)


def _token(message: etree._Element) -> int:
    return int(message.find(f"{{{OURS}}}lock").get("token"))


def _name(element: etree._Element) -> str:
    return element.tag.partition("}")[2]


@asynccontextmanager
async def crowd(server: StubServer) -> AsyncIterator[Crowd]:
    """Gather a crowd behind the stub; a failure of one of them ends the body."""
    async with asyncio.TaskGroup() as group:
        made = Crowd(server, group)
        made.spawn(made.watch())
        try:
            yield made
        finally:
            made.disperse()
