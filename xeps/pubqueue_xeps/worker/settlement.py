"""Retracts and unlocks items, repeating each request until there is a final answer, and extends their locks meanwhile.

A retract is final when the service has confirmed it twice: by the answer and by the delete notification (XEP-0254
section 2.3). Either may be lost with a connection. So a request is repeated when its answer, or the notification, does
not come in time; this is harmless, because retracting an item that is gone changes nothing. But item-not-found in
answer to a *repeated* retract is ambiguous. Either an earlier retract was carried out, and its answer was lost; or the
lock was lost, and another worker has done the item. It was certainly ours if the service had accepted an earlier one,
or if the lock cannot have been lost: this connection has been up since the last news of the lock (a service frees the
items of a worker whose connection ends), and the service's clock is still before the deadline. In all other cases the
result is `UNKNOWN`, and never reported as confirmed.

A service that supports `urn:x-pubqueue:0` gets the token of the lock. So a request that arrives late or twice never
settles an item that has since been with other workers and come back.

Requests are written as bytes and answers read from bare elements: this is the hot path.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from pubqueue_xeps.errors import FollowUpRefused, NotConfirmed, Refused
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.refusals import read
from pubqueue_xeps.wire.requests.queueing import ItemRequests, deadline, fault, lock
from pubqueue_xeps.wire.then import Ending
from pubqueue_xeps.wire.times import ServiceClock
from pubqueue_xeps.wire.xml_text import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.item import Item, Verb
    from pubqueue_xeps.wire.refusals import Outcome, Refusal
    from pubqueue_xeps.worker.queue_session import QueueSession
    from pubqueue_xeps.xep_0254.queueing import Place


class Held(Protocol):
    """An item that is, or was, locked to us."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def node(self) -> str:
        """Its node."""

    @property
    def place(self) -> Place:
        """Both."""

    @property
    def token(self) -> int | None:
        """The token of the latest lock on it, or None if the service does not report it."""

    @property
    def deadline(self) -> datetime | None:
        """When that lock times out by the service's clock, or None if the service does not report it."""

    @property
    def locked(self) -> float:
        """When we were last notified of that lock, by the event loop's clock."""


class Answer(Enum):
    """The service's answer to a retract, an unlock or a touch."""

    DONE = "done"
    GONE = "the item does not exist"
    FREE = "the item is not locked"
    LOST = "the lock is not ours"
    UNKNOWN = "it is gone, and whether our retract deleted it is not known"
    AGAIN = "no final answer"


# fmt: off
ANSWERS: Final[dict[str, Answer]] = {
    "item-not-found":     Answer.GONE,
    "conflict":           Answer.LOST,   # locked by another
    "unexpected-request": Answer.FREE,   # the lock has ended
    "forbidden":          Answer.LOST,   # the service no longer knows that it was ours
    "not-authorized":     Answer.LOST,
}
# fmt: on


def answer_of(refusal: Refusal) -> Answer | None:
    """Return what a refusal means for our lock on the item; None if nothing."""
    if refusal.follow_up and not refusal.is_transient:
        return None  # the lock is ours still
    return Answer.AGAIN if refusal.is_transient else ANSWERS.get(refusal.condition)


class Settlement:
    """One retract or unlock in flight, with all its repetitions."""

    __slots__ = (
        "accepted",
        "again",
        "asked",
        "denied",
        "found_free",
        "freed",
        "ids",
        "item",
        "noticed",
        "outcome",
        "reply",
        "token",
        "vain",
        "verb",
    )

    def __init__(
        self, verb: Verb, item: Held, outcome: Outcome | None, *, again: bool = False
    ) -> None:
        self.verb = verb
        self.item = item
        self.outcome = outcome
        self.again = again  # it was asked for before, without an answer
        self.asked = 0
        self.ids: list[str] = []
        self.vain = False  # the first of them was answered: the item was gone before
        self.freed = False  # the service has notified us that the lock has ended
        self.found_free = False  # it has answered that the item is not locked
        self.denied: Refusal | None = None  # a follow-up may not be published now: the last answer
        self.token = item.token
        self.accepted = False
        self.noticed = verb == "unlock"  # the answer alone frees the item
        self.reply: asyncio.Future[Answer]

    @property
    def doubtful(self) -> bool:
        """Whether an item that is gone may have been deleted by one of our requests."""
        return self.verb == "retract" and (self.again or len(self.ids) > 1) and not self.vain

    def resolve(self, answer: Answer) -> None:
        """Set the reply, unless there is one already."""
        if not self.reply.done():
            self.reply.set_result(answer)

    def judge(self, answer: Answer, connected: float) -> Answer:
        """Return what an answer means, given the earlier requests and when the connection was made.

        A service frees the items of a worker whose connection ends. If an item is still free on the next connection, it
        may be on its way to this worker, so the request is repeated once.
        """
        if answer is Answer.GONE and (self.accepted or (self.verb == "unlock" and self.asked > 1)):
            return Answer.DONE
        if answer not in (Answer.FREE, Answer.LOST):
            return answer
        # the item has been delivered again meanwhile: the lock that was lost is the earlier one
        if self.token != self.item.token:
            return Answer.AGAIN
        on_its_way = answer is Answer.FREE and self.item.locked < connected
        return Answer.AGAIN if on_its_way and not self.found_free else Answer.LOST


class Settlements:
    """Asks a service to retract and unlock items of some nodes.

    `on_final(place)` is called as soon as an answer that ends our lock is read, and before the next stanza, which may
    be a new delivery of the same id.
    """

    def __init__(
        self,
        service: str,
        nodes: Sequence[str],
        session: QueueSession,
        timings: Timings,
        on_final: Callable[[Place], None],
    ) -> None:
        self._session = session
        self._timings = timings
        self._on_final = on_final
        self._pending: dict[str, Settlement] = {}
        self._questions: dict[Place, Settlement] = {}
        self._requests = {node: ItemRequests(node) for node in nodes}
        self._start = f"<iq type='set' to={quote(service)} id='"

    async def settle(
        self, verb: Verb, item: Held, outcome: Outcome | None = None, *, again: bool = False
    ) -> Answer:
        """Ask until there is a final answer: DONE, GONE, LOST or UNKNOWN. An unlock may have an outcome.

        With `again` it was settled in this way before, and that had no answer.

        Raises Refused if the service refuses for another reason, and NotConfirmed when patience or the connection has
        ended.
        """
        question = Settlement(verb, item, outcome, again=again)
        self._questions[item.place] = question
        end = asyncio.get_running_loop().time() + self._timings.patience
        try:
            answer = await self._ask(question, min(self._timings.answer, self._timings.patience))
            if answer is Answer.AGAIN:
                answer = await self._insist(question, end)
            if answer is Answer.GONE and question.doubtful:
                answer = Answer.DONE if await self._was_ours(question) else Answer.UNKNOWN
            return answer
        finally:
            self._forget(question)
            if self._questions.get(item.place) is question:
                del self._questions[item.place]

    def asking(self, item: Place) -> bool:
        """Return whether a request is in flight that will settle the item."""
        return item in self._questions

    def give_back(self, item: Held) -> None:
        """Release an item, and ignore the answer."""
        self.repeat("unlock", item)

    def ask_again(self, place: Place) -> bool:
        """Ask once more for the end that an item is getting, and ignore the answer; return whether it is getting one."""
        if (question := self._questions.get(place)) is None:
            return False
        self.repeat(question.verb, question.item, question.outcome)
        return True

    def repeat(self, verb: Verb, item: Held, outcome: Outcome | None = None) -> None:
        """Ask once more, and ignore the answer."""
        self._session.send(self._render(Settlement(verb, item, outcome), self._session.new_id()))

    def read_answer(self, iq: Element) -> bool:
        """Read the answer to one of our requests; return False for any other stanza."""
        question = self._pending.get(iq.get("id", ""))
        if question is None:
            return False
        if iq.get("type") == "result":
            question.accepted = True
            self._on_final(question.item.place)
            if question.noticed:
                question.resolve(Answer.DONE)
        else:
            self._refuse(question, iq)
        return True

    def read_retract(self, item: Place) -> None:
        """Read a delete notification."""
        question = self._questions.get(item)
        if question is not None:
            question.noticed = True
            if question.accepted:
                question.resolve(Answer.DONE)

    def read_delivery(self, item: Place, token: int | None) -> None:
        """Note that `item` was delivered again, under the lock `token`.

        An accepted retract has deleted the earlier item. The lock of an unlocked item has ended, if the new lock is
        known to be another one.
        """
        question = self._questions.get(item)
        if question is None:
            return
        anew = question.verb == "unlock" and None not in (token, question.token)
        if question.accepted:
            question.resolve(Answer.DONE)
        elif anew and token != question.token:
            self._on_final(item)
            question.resolve(Answer.DONE)

    def read_unlock(self, item: Place) -> None:
        """Note that our lock has ended."""
        question = self._questions.get(item)
        if question is not None:
            question.freed = True

    def cut(self) -> None:
        """Stop waiting for answers: the connection is lost."""
        for question in self._pending.values():
            question.resolve(Answer.AGAIN)

    async def _insist(self, question: Settlement, end: float) -> Answer:
        """Ask again until there is a final answer; raise NotConfirmed when `Timings.patience` has passed."""
        limit = asyncio.timeout_at(end)
        try:
            async with limit:
                answer = Answer.AGAIN
                while answer is Answer.AGAIN:
                    await asyncio.sleep(self._timings.pause(question.asked))
                    await self._session.ready()
                    answer = await self._ask(question, self._timings.answer)
                return answer
        except TimeoutError:
            if not limit.expired():
                raise
            if question.denied is not None:
                raise refused(question, question.denied) from None
            raise NotConfirmed(
                f"The {question.verb} of {question.item.id!r} was not confirmed in time.",
                node=question.item.node,
                id=question.item.id,
            ) from None

    async def _ask(self, question: Settlement, patience: float) -> Answer:
        id = self._session.new_id()  # noqa: A001 - the name of the attribute
        loop = asyncio.get_running_loop()
        question.reply = loop.create_future()
        question.denied = None
        if question.token != question.item.token:
            self._turn_to_new_lock(question)
        # kept to the end: a late answer shows the result of an earlier request
        self._pending[id] = question
        question.ids.append(id)
        # cheaper than asyncio.timeout, for each item
        timer = loop.call_later(patience, question.resolve, Answer.AGAIN)
        try:
            if not self._session.send(self._render(question, id)):
                return Answer.AGAIN
            question.asked += 1
            answer = await question.reply
            meant = question.judge(answer, self._session.since)
            question.found_free = answer is Answer.FREE
            return meant
        finally:
            timer.cancel()

    def _turn_to_new_lock(self, question: Settlement) -> None:
        """Forget the requests about the earlier lock: the item was delivered again, so it is not gone."""
        self._forget(question)
        question.ids.clear()
        question.token = question.item.token
        question.again = question.vain = question.freed = False

    def _forget(self, question: Settlement) -> None:
        for id in question.ids:  # noqa: A001 - the name of the attribute
            del self._pending[id]

    async def _was_ours(self, question: Settlement) -> bool:
        """Return whether only this worker can have had the lock until now, so that it was our retract."""
        item = question.item
        if question.freed or item.deadline is None or item.locked < self._session.since:
            return False
        now = await self._session.ask_time()
        return now is not None and now < item.deadline and not question.freed

    def _render(self, question: Settlement, id: str) -> bytes:  # noqa: A002
        beside = ""
        if self._session.extended:
            beside = lock(question.token) + fault(question.outcome)
        requests = self._requests[question.item.node]
        words = requests.retract if question.verb == "retract" else requests.unlock
        wanted = words(question.item.id, beside)
        return f"{self._start}{id}'>{wanted}</iq>".encode()

    def _refuse(self, question: Settlement, iq: Element) -> None:
        refusal = read(iq)
        answer = answer_of(refusal)
        if answer is Answer.GONE and iq.get("id") == question.ids[0] and not question.again:
            question.vain = True
        if answer is None:
            if not question.reply.done():
                question.reply.set_exception(refused(question, refusal))
            return
        if refusal.follow_up:
            question.denied = refusal
        if question.judge(answer, self._session.since) is not Answer.AGAIN:
            self._on_final(question.item.place)
        question.resolve(answer)


def refused(question: Settlement, refusal: Refusal) -> Refused:
    """Return the error for a refusal of an end, or of one of its follow-ups.

    The lock is judged first, so the refusal of a follow-up says that the item has not ended by an earlier request either.
    """
    why, condition = refusal.summary, refusal.detail or refusal.condition
    place = question.item.node, question.item.id
    if not (refusal.follow_up and isinstance(question.outcome, Ending)):
        return Refused(
            f"The {question.verb} of {place[1]!r} was refused: {why}.",
            condition=condition,
            node=place[0],
            id=place[1],
        )
    number = min(refusal.follow_up, len(question.outcome.items))
    node, new = question.outcome.items[number - 1]
    return FollowUpRefused(
        f"Follow-up {number} of {place[1]!r}, {new.id!r} to {node!r}, was refused: {why}.",
        condition=condition,
        node=node,
        id=new.id,
        number=number,
    )


# Extends locks while their items are being handled.
#
# A lock is extended after half of its time, which leaves the other half for lost answers, reconnects and clocks that
# differ. A worker whose event loop hangs extends no locks, so it delays its items by no more than a lock timeout.
# `touch_for` is the limit for a handler that never returns.
#
# Items that the worker has not begun by half-time are released, which counts as no failure. If their locks were
# extended too, a worker with a large window and slow handlers would keep items from workers that could process them at
# once; if they were left alone, each would time out and count as a failure.

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
            answer = None
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timings.answer):
                    answer = await answered
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
            log.warning(
                "item.not_touched", node=item.node, id=item.id, why=str(error), service=item.service
            )
            self._refused.add(item)
            return Answer.DONE


def _now() -> float:
    return asyncio.get_running_loop().time()
