"""Extends locks while their items are being handled.

A lock is extended after half of its time, which leaves the other half for lost answers, reconnects and clocks that
differ. A worker whose event loop hangs extends no locks, so it delays its items by no more than a lock timeout.
`touch_for` is the limit for a handler that never returns.

Items that the worker has not begun by half-time are released, which counts as no failure. If their locks were
extended too, a worker with a large window and slow handlers would keep items from workers that could process them at
once; if they were left alone, each would time out and count as a failure.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from pubqueue_xeps.errors import Refused
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.refusals import read
from pubqueue_xeps.wire.requests.settling import ItemRequests, deadline
from pubqueue_xeps.wire.times import ServiceClock
from pubqueue_xeps.wire.xml_escape import quote
from pubqueue_xeps.worker.settlement import Answer, answer_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.worker.item import Item
    from pubqueue_xeps.worker.queue_session import QueueSession
    from pubqueue_xeps.xep_0254.event import Place

SHORTEST: Final = 0.5
"""The minimum time between two touches of an item, in seconds, whatever the clocks show: half of the shortest lock."""


class TouchRequests:
    """Asks a service to extend locks on items of its nodes."""

    def __init__(
        self, service: str, nodes: Iterable[str], session: QueueSession, timings: Timings
    ) -> None:
        self._session = session
        self._timings = timings
        self._pending: dict[str, asyncio.Future[Element | None]] = {}
        self._start = f"<iq type='set' to={quote(service)} id='"
        self._requests = {node: ItemRequests(node) for node in nodes}

    async def ask(self, place: Place, seconds: float | None) -> datetime | Answer:
        """Ask once; return the new deadline, or GONE, LOST or AGAIN. Raises Refused."""
        node, item = place
        id = self._session.new_id()  # noqa: A001 - the name of the attribute
        answered = self._pending[id] = asyncio.get_running_loop().create_future()
        wanted = f"{self._start}{id}'>{self._requests[node].touch(item, seconds)}</iq>"
        try:
            if not self._session.send(wanted.encode()):
                return Answer.AGAIN
            async with asyncio.timeout(self._timings.answer):
                answer = await answered
        except TimeoutError:
            return Answer.AGAIN
        finally:
            del self._pending[id]
        return Answer.AGAIN if answer is None else _read(place, answer)

    def read_answer(self, iq: Element) -> bool:
        """Read the answer to one of our requests; return False for any other stanza."""
        answered = self._pending.get(iq.get("id", ""))
        if answered is not None and not answered.done():
            answered.set_result(iq)
        return answered is not None

    def cut(self) -> None:
        """Stop waiting for answers: the connection is lost."""
        for answered in self._pending.values():
            if not answered.done():
                answered.set_result(None)


def _read(place: Place, iq: Element) -> datetime | Answer:
    node, item = place
    if iq.get("type") != "result":
        refusal = read(iq)
        if (answer := answer_of(refusal)) is not None:
            return answer
        raise Refused(
            f"The touch of {item!r} was refused: {refusal.summary}.",
            condition=refusal.detail or refusal.condition,
            node=node,
            id=item,
        )
    try:
        return deadline(iq)
    except ValueError:
        raise Refused(
            f"The touch of {item!r} was answered without a deadline.", node=node, id=item
        ) from None


class Locked(Protocol):
    """The part of a worker that holds the items."""

    def locked(self) -> Iterable[Item]:
        """Return the items that are locked to us, waiting or in hand, and not being settled."""

    async def extend(self, item: Item, seconds: float | None = None) -> Answer:
        """Ask once to extend the lock on an item, and record the answer."""

    def return_unbegun(self, item: Item) -> None:
        """Release an item that is waiting."""


class LockExtender:
    """Extends the locks on items in hand, for `touch_for` seconds each."""

    def __init__(
        self, held_items: Locked, session: QueueSession, timings: Timings, touch_for: float
    ) -> None:
        self._held_items, self._session = held_items, session
        self._timings = timings
        self._touch_for = touch_for
        self._clock = ServiceClock()
        self._set_at = -inf
        self._refused: set[Item] = set()
        self._news = asyncio.Event()
        self.wakes_at = inf

    def note(self, item: Item) -> None:
        """Record a new lock. This costs next to nothing while an earlier one is watched."""
        if self._session.extended and self._due(item, _now()) < self.wakes_at:
            self._news.set()

    async def keep(self) -> None:
        """Extend locks, until cancelled."""
        failures = 0
        while True:
            await self._sleep()
            await self._session.ready()
            await self._set_clock()
            now = _now()
            due = [item for item in self.watched(now) if self._due(item, now) <= now]
            answers = await asyncio.gather(*map(self._care, due))
            failures = failures + 1 if Answer.AGAIN in answers else 0
            if failures:
                await asyncio.sleep(self._timings.pause(failures))

    async def _sleep(self) -> None:
        """Return when the next lock, or the clock, is due, or an earlier lock is noted."""
        self._news.clear()
        now = _now()
        self._refused.intersection_update(self._held_items.locked())
        dues = [self._due(item, now) for item in self.watched(now)]
        self.wakes_at = (
            min([*dues, self._set_at + self._timings.refresh], default=inf) if dues else inf
        )
        with suppress(TimeoutError):
            async with asyncio.timeout_at(None if self.wakes_at == inf else self.wakes_at):
                await self._news.wait()

    async def _set_clock(self) -> None:
        """Ask for the service's time at intervals, because its clock may be set too."""
        now = _now()
        if now < self._set_at + self._timings.refresh:
            return
        self._set_at = now
        time = await self._session.ask_time()
        if time is not None:
            self._clock.set(time, now)

    def watched(self, now: float) -> list[Item]:
        """Return the items whose locks have to be extended."""
        if not self._session.extended:
            return []
        return [
            item
            for item in self._held_items.locked()
            if item.lock is not None
            and item not in self._refused
            and (item.state == "waiting" or now < item.begun + self._touch_for)
        ]

    def _due(self, item: Item, now: float) -> float:
        """Return when half of the time that the lock had when we got it will have passed."""
        if item.deadline is None:
            return inf
        end = now + self._clock.left(item.deadline, now)
        return max((item.locked + end) / 2, item.locked + SHORTEST)

    async def _care(self, item: Item) -> Answer:
        if item.state == "waiting":
            self._held_items.return_unbegun(item)
            return Answer.DONE
        try:
            return await self._held_items.extend(item)
        except Refused as error:
            log.warning("item.not_touched", node=item.node, id=item.id, why=str(error))
            self._refused.add(item)
            return Answer.DONE


def _now() -> float:
    return asyncio.get_running_loop().time()
