"""The items of one service that are locked to a worker, waiting or begun.

An item is `waiting` from its delivery until it is taken, then `in hand` until it is retracted,
unlocked or lost. A second delivery of an id is never passed on: a copy of the same item only renews the lock, while a
new item under that id means that the first one is lost.

Stanzas are read synchronously and in order, because the delivery that follows an answer may be of the item that the
answer has freed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, canonicalize, tostring

from pubqueue_xeps.client.publications import Publications, placed
from pubqueue_xeps.errors import (
    FollowUpRefused,
    GoneUnconfirmed,
    LockLost,
    NoSuchNode,
    NotConfirmed,
    PubqueueError,
    Refused,
)
from pubqueue_xeps.item import Item, State, Verb
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.ns import CLIENT
from pubqueue_xeps.wire.then import FEATURE, Ending
from pubqueue_xeps.wire.waits import Hold
from pubqueue_xeps.worker.settlement import Answer, LockExtender, Settlements, TouchRequests
from pubqueue_xeps.xep_0254.queueing import (
    Deleted,
    Delivered,
    Purged,
    QueueEvent,
    Retracted,
    Unlocked,
    read_event,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.wire.publication import NewItem, Published
    from pubqueue_xeps.wire.refusals import Outcome
    from pubqueue_xeps.wire.services import Services
    from pubqueue_xeps.worker.queue_session import QueueSession
    from pubqueue_xeps.worker.waiting_items import WaitingItems
    from pubqueue_xeps.xep_0254.queueing import Place

    Unsure = tuple[Verb, Outcome | None]
    """The requested end of an item that is not confirmed yet."""


MAX_SETTLED: Final = 1000
"""Settled locks that are remembered, because their delivery may come a second time, and late."""

IQ: Final = f"{{{CLIENT}}}iq"
MESSAGE: Final = f"{{{CLIENT}}}message"


class HeldItems:
    """The items of one service at one worker: reads stanzas, passes on items and settles them.

    Items that are delivered wait in `waiting`, with those of the worker's other `services`. `on_failure` is called when
    the worker can take no more items of this service.
    """

    def __init__(
        self,
        service: str,
        nodes: Iterable[str],
        timings: Timings,
        *,
        services: Services,
        waiting: WaitingItems,
        on_failure: Callable[[HeldItems, PubqueueError], None],
    ) -> None:
        self.service, self.nodes = service, tuple(nodes)
        self.timings = timings
        self._services, self._on_failure = services, on_failure
        self.tally: Counter[str] = Counter()
        """How items that were begun ended: done, lost, or the type of an outcome."""
        self.on_end: Callable[[Item, str, float], object] = _nothing
        """Called with each of these items, how it ended, and the seconds of work on it."""
        self.ended = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._begun: set[Item] = set()
        self._given_up: set[asyncio.Task[None]] = set()
        """The unlocks of items whose handlers have ended with an error."""
        self._held: dict[Place, Item] = {}
        self._stale: list[Item] = []
        self._settled: OrderedDict[tuple[Place, int], Unsure | None] = OrderedDict()
        self._waiting = waiting

    def hold(self, session: QueueSession, touch_for: float) -> None:
        """Set the session that delivers items; locks are extended for `touch_for` seconds."""
        self._session = session
        self._publications = {
            one: Publications(session, one, self.timings) for one in self._services.names
        }
        self._touches = TouchRequests(self.service, self.nodes, session, self.timings)
        self.keeper = LockExtender(self, session, self.timings, touch_for)
        self._settlements = Settlements(
            self.service, self.nodes, session, self.timings, on_final=self._forget
        )

    def begin(self, item: Item) -> None:
        """Mark an item of ours, which was taken, as in hand."""
        item.become("in hand")
        item.begun = asyncio.get_running_loop().time()
        self._begun.add(item)
        self._empty.clear()

    @property
    def in_hand(self) -> int:
        """The number of items that are begun."""
        return len(self._begun)

    def begun_by_node(self) -> Counter[str]:
        """Return how many items are begun, by node; other threads may call this."""
        return Counter(item.node for item in tuple(self._begun))

    def waiting_by_node(self) -> Counter[str]:
        """Return how many items wait, by node; other threads may call this."""
        return Counter(item.node for item in tuple(self._held.values()) if item.state == "waiting")

    async def settle(self, item: Item, verb: Verb, outcome: Outcome | None = None) -> None:
        """Retract or unlock an item that was taken; see `Item`."""
        if item.state in ("retracted", "unlocked"):
            if item.state == f"{verb}ed":
                return
            raise LockLost(
                f"The item {item.id!r} is {item.state} already.", node=item.node, id=item.id
            )
        if verb == "unlock" and item.is_perhaps_done:
            self._settlements.repeat("retract", item, item.ending)
            raise NotConfirmed(
                f"The item {item.id!r} may be done: its retract had no answer, so it is not unlocked.",
                node=item.node,
                id=item.id,
            )
        if isinstance(outcome, Hold) and not self._session.extended:
            raise Refused(
                f"{self.service} cannot hold items: it does not know urn:x-pubqueue:0.",
                condition="feature-not-implemented",
                node=item.node,
                id=item.id,
            )
        if isinstance(outcome, Ending) and not self._session.follows:
            raise Refused(
                f"{self.service} cannot publish follow-ups of an item: it does not know {FEATURE}.",
                condition="feature-not-implemented",
                node=item.node,
                id=item.id,
            )
        if item.state == "in hand":
            await self._ask(item, verb, outcome)
        self._finish(item)
        if item.state == "lost" and verb == "retract":
            raise LockLost(
                f"The item {item.id!r} is no longer locked to this worker.",
                node=item.node,
                id=item.id,
            )
        if item.state == "gone":
            raise GoneUnconfirmed(
                f"The item {item.id!r} is gone; whether this worker's retract deleted it, or another's,"
                " is not known.",
                node=item.node,
                id=item.id,
            )

    async def give_up(self, item: Item, outcome: Outcome) -> None:
        """Unlock an item whose handler has ended with an error; return when that is confirmed, or after `Timings.parting`.

        The request is repeated until the service answers, for `Timings.patience`: otherwise the item would stay locked
        for its whole lock timeout, with no worker working on it.
        """
        unlocking = asyncio.create_task(self._unlock(item, outcome), name=f"unlock {item.id}")
        self._given_up.add(unlocking)
        unlocking.add_done_callback(self._given_up.discard)
        _, late = await asyncio.wait({unlocking}, timeout=self.timings.parting)
        if late:
            log.warning("item.unlock_unconfirmed", node=item.node, id=item.id, service=item.service)

    async def _unlock(self, item: Item, outcome: Outcome) -> None:
        try:
            await self.settle(item, "unlock", outcome)
        except PubqueueError as error:
            # the lock times out instead
            log.warning(
                "item.not_unlocked",
                node=item.node,
                id=item.id,
                why=str(error),
                service=item.service,
            )

    async def cease(self) -> None:
        """Ask no more for anything: the session is closed, and the service frees what is still locked."""
        for unlocking in (late := list(self._given_up)):
            unlocking.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def end(self) -> None:
        """Release the items that are not begun, and all that are delivered from now on."""
        if self.ended.is_set():
            return
        self.ended.set()
        for item in self._unbegun():
            self.return_unbegun(item)

    def release_all(self) -> None:
        """Release also the items that are begun, without waiting for answers; one whose retract has no answer may be done, and is not."""
        for item in list(self._held.values()):
            if self._settlements.ask_again(item.place):
                continue
            log.warning("item.released", node=item.node, id=item.id, service=item.service)
            self._settlements.give_back(item)
            self._drop(item, "unlocked")

    async def publish(
        self,
        node: str,
        new: NewItem,
        timeout: float | None,  # noqa: ASYNC109 - a promise
        *,
        is_reply: bool = False,
    ) -> Published:
        """Publish an item on the worker's stream; see `Item`. A reply goes to this service, another item to its own."""
        seconds = self.timings.patience if timeout is None else timeout
        service, new = (self.service, new) if is_reply else placed(self._services, new)
        return await self._publications[service].publish(node, new, seconds)

    def elsewhere(self, new: NewItem) -> str | None:
        """Return the service that an item belongs to by its own group or id, if that is not this one."""
        service, _ = placed(self._services, new)
        return None if service == self.service else service

    async def touch(self, item: Item, seconds: float | None) -> datetime | None:
        """Extend the lock on an item that was taken; see `Item`."""
        if not self._session.extended or item.lock is None:
            return None
        limit = asyncio.timeout(self.timings.patience)
        try:
            async with limit:
                asked = 0
                while item.state == "in hand":
                    if await self.extend(item, seconds) is Answer.DONE:
                        return item.deadline
                    asked += 1
                    await asyncio.sleep(self.timings.pause(asked))
                    await self._session.ready()
        except TimeoutError:
            if not limit.expired():
                raise
            raise NotConfirmed(
                f"The touch of {item.id!r} was not confirmed in time.", node=item.node, id=item.id
            ) from None
        raise LockLost(
            f"The item {item.id!r} is no longer locked to this worker.", node=item.node, id=item.id
        )

    # For the lock extender

    def locked(self) -> list[Item]:
        """Return the items that are locked to us, waiting or in hand, and not being settled."""
        return [
            item
            for item in self._held.values()
            if item.state != "lost" and not self._settlements.asking(item.place)
        ]

    async def extend(self, item: Item, seconds: float | None = None) -> Answer:
        """Ask once to extend the lock on an item, and record the answer."""
        token = item.token
        answer = await self._touches.ask(item.place, seconds)
        if item.token != token or item.lock is None:
            return Answer.AGAIN  # it has been delivered again: the notice was about the lock before
        if isinstance(answer, datetime):
            item.lock = replace(item.lock, deadline=answer)
            item.locked = asyncio.get_running_loop().time()
            return Answer.DONE
        if answer is not Answer.AGAIN and self._held.get(item.place) is item:
            self._lose(item.place, answer.value)
        return answer

    def return_unbegun(self, item: Item) -> None:
        """Release a waiting item."""
        self._drop(item, "unlocked")
        self._settlements.give_back(item)

    async def emptied(self) -> None:
        """Return when no item is in hand."""
        await self._empty.wait()

    # Stanzas that arrive

    def read(self, stanza: Element) -> bool:
        """Read an answer to one of our requests, or an event of our queues."""
        if stanza.get("from") != self.service:
            return False
        if stanza.tag == IQ:
            return self._settlements.read_answer(stanza) or self._touches.read_answer(stanza)
        if stanza.tag != MESSAGE:
            return False
        events = read_event(stanza)
        ours = [event for event in events if event.node in self.nodes]
        for event in ours:
            self._take_event(event)
        return bool(ours)

    def cut(self) -> None:
        """Leave items that are begun to their handlers; release the others once the connection is back.

        The service may have released them already, because it was notified that we are unavailable.
        """
        self._settlements.cut()
        self._touches.cut()
        self._put_aside()

    def before_subscribing(self) -> bool:
        """Release items that were waiting in an earlier session of our full JID; return whether to end that session altogether.

        It ends if nothing is begun: items that were delivered while we were disconnected would
        otherwise fill the window until they time out.
        """
        self._put_aside()
        if self._begun:
            for item in self._stale:
                self._settlements.give_back(item)
        self._stale.clear()
        return not self._begun

    def failed(self, error: PubqueueError) -> None:
        """End with an error."""
        self.end()
        self._on_failure(self, error)

    # Events

    def _take_event(self, event: QueueEvent) -> None:
        match event:
            case Delivered():
                self._deliver(event)
            case Retracted():
                self._settlements.read_retract((event.node, event.id))
                self._lose((event.node, event.id), "retracted by another")
            case Unlocked():
                self._settlements.read_unlock((event.node, event.id))
                self._lose((event.node, event.id), "unlocked by the service")
            case Purged():
                self._lose_all(event.node, "purged")
            case Deleted():
                self._lose_all(event.node, "deleted with its node")
                self.failed(NoSuchNode(f"The node {event.node!r} at {self.service} was deleted."))

    def _deliver(self, event: Delivered) -> None:
        if self._is_past(event):
            return None
        place = event.node, event.id
        self._settlements.read_delivery(place, event.lock.token if event.lock else None)
        held = self._held.get(place)
        if self.ended.is_set() and held is None:
            return self._settlements.give_back(Item(event, self))
        if held is not None and _same(held, event):
            held.lock = event.lock
            held.locked = asyncio.get_running_loop().time()
            if held.state == "lost":
                held.become("in hand")
            return self.keeper.note(held)
        if held is not None:
            self._lose(place, "replaced")
        item = Item(event, self)
        self._held[place] = item
        self._waiting.put_nowait(item)
        return self.keeper.note(item)

    def _is_past(self, event: Delivered) -> bool:
        """Return whether a delivery is of a lock that we have settled; repeat a settlement that was not confirmed.

        A service repeats a delivery if it cannot know whether it was sent: after it was killed, or when another
        process may have sent it.
        """
        if event.lock is None:
            return False
        place = event.node, event.id
        if (held := self._held.get(place)) is not None:
            return held.token is not None and event.lock.token < held.token
        if (place, event.lock.token) not in self._settled:
            return False
        unsure = self._settled[place, event.lock.token]
        if unsure is not None:
            log.info("item.settled_again", node=event.node, id=event.id, verb=unsure[0])
            self._settlements.repeat(unsure[0], Item(event, self), unsure[1])
        return True

    def _lose(self, place: Place, why: str) -> None:
        item = self._held.get(place)
        if item is None or item.state == "lost" or self._settlements.asking(place):
            return
        log.warning("item.lost", node=item.node, id=item.id, why=why, service=item.service)
        if item.state == "waiting":
            self._drop(item, "lost")
        else:
            item.become(
                "lost"
            )  # still held: if it is delivered again, its handler continues with it

    def _lose_all(self, node: str, why: str) -> None:
        for place in [place for place in self._held if place[0] == node]:
            self._lose(place, why)

    # Settling

    async def _ask(self, item: Item, verb: Verb, outcome: Outcome | None) -> None:
        worked = asyncio.get_running_loop().time() - item.begun
        try:
            again = item.is_perhaps_done
            answer = await self._settlements.settle(verb, item, outcome, again=again)
        except FollowUpRefused:
            item.is_perhaps_done = False
            raise  # it is locked to us as before
        except BaseException as error:
            if not isinstance(error, Refused):
                item.is_perhaps_done = verb == "retract"
                self._remember(item, (verb, outcome))
            self._finish(item)
            raise
        if answer is Answer.DONE:
            item.become("retracted" if verb == "retract" else "unlocked")
            how = "done" if verb == "retract" else outcome.type if outcome else "release"
            self._count(item, how, worked)
        else:
            self._count(item, "lost", worked)
            self._remember(item, None)
            if answer is Answer.UNKNOWN:
                item.become("gone")
                log.warning(
                    "item.gone", node=item.node, id=item.id, why=answer.value, service=item.service
                )
            else:
                item.become("lost")
                log.warning(
                    "item.lost", node=item.node, id=item.id, why=answer.value, service=item.service
                )

    def _count(self, item: Item, how: str, worked: float) -> None:
        self.tally[how] += 1
        self.on_end(item, how, worked)

    def _remember(self, item: Item, unsure: Unsure | None) -> None:
        """Record that the item's lock is settled, and how, if the service has not confirmed it."""
        if item.token is not None:
            self._settled[item.place, item.token] = unsure
            if len(self._settled) > MAX_SETTLED:
                self._settled.popitem(last=False)

    def _forget(self, place: Place) -> None:
        item = self._held.pop(place, None)
        if item is not None:
            self._remember(item, None)

    def _finish(self, item: Item) -> None:
        if self._held.get(item.place) is item:
            del self._held[item.place]
        self._begun.discard(item)
        if not self._begun:
            self._empty.set()

    def _unbegun(self) -> list[Item]:
        return [item for item in self._held.values() if item.state == "waiting"]

    def _put_aside(self) -> None:
        for item in self._unbegun():
            self._drop(item, "lost")
            self._stale.append(item)

    def _drop(self, item: Item, state: State) -> None:
        self._waiting.leave(item)
        item.become(state)
        self._held.pop(item.place, None)


def _nothing(*_: object) -> None:
    """Do nothing."""


def _same(held: Item, event: Delivered) -> bool:
    """Return whether the delivery is of the item that is held, and not of a new item under its id."""
    if held.published != (event.lock.published if event.lock else None):
        return False
    if (
        held.delivered.wait != event.wait
    ):  # it was held meanwhile, by another worker: this is another step
        return False
    return _text(held.payload) == _text(event.payload)


def _text(payload: Element | None) -> str:
    return "" if payload is None else canonicalize(tostring(payload))
