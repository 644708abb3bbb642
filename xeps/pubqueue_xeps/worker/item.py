"""One item of a queue, locked to a worker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol, Self

from pubqueue_xeps.errors import (
    GoneUnconfirmed,
    LockLost,
    NoReplyWanted,
    PubqueueError,
    Refused,
)
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.outcome import Outcome, Verdict, outcome_of
from pubqueue_xeps.wire.payloads.payload import Content
from pubqueue_xeps.wire.published import NewItem, Published, carrying
from pubqueue_xeps.wire.reply_headers import CORRELATION, PLACE, REPLY_TO, bounded
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.times import span, until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from types import TracebackType
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.published import Carry
    from pubqueue_xeps.wire.times import Span, When
    from pubqueue_xeps.worker.settlement import Verb
    from pubqueue_xeps.xep_0254.event import Delivered, Lock, Place

State = Literal["waiting", "in hand", "retracted", "unlocked", "lost", "gone"]


class Holder(Protocol):
    """Who holds the item."""

    parting: float

    async def settle(self, item: Item, verb: Verb, outcome: Outcome | None = None) -> None:
        """Retract or unlock it."""

    async def touch(self, item: Item, seconds: float | None) -> datetime | None:
        """Extend its lock."""

    async def publish(self, node: str, new: NewItem, timeout: float | None) -> Published:  # noqa: ASYNC109 - a promise
        """Publish another item."""


class Item(Content):
    """An item that is locked to this worker until it is retracted or unlocked.

    `async with item:` retracts it on a clean exit and unlocks it when the block raises, with the
    outcome that the exception stands for (`pubqueue_xeps.wire.outcome`): Release, Failed and Reject end
    there, any other counts as a failure and goes on its way. If the lock is lost meanwhile, or the item turns
    out to be gone without anybody knowing by whom, leaving the block logs that and does not raise:
    `item.state` tells it, which is "retracted" only for who deleted the item.

    While it is in hand, the worker extends the lock (`Worker`'s `touch_for`). When it is lost all
    the same, `lock_lost` is set, and `retract` raises LockLost. Nothing is cancelled: work that stops
    in the middle may leave more to mend than work that is done twice, and the item may come right
    back to this worker, whose handler then goes on with it; `lock_lost` is cleared again. Who can
    stop, and has something to save by it, looks at `lock_lost` or waits for it.
    """

    __slots__ = (
        "_delivered",
        "_follow_ups",
        "_holder",
        "_replied",
        "_state",
        "begun",
        "carry",
        "lock",
        "lock_lost",
        "locked",
    )

    def __init__(self, delivered: Delivered, holder: Holder) -> None:
        self._delivered = delivered
        self._holder = holder
        self._state: State = "waiting"
        self._follow_ups = 0
        self._replied = False
        self.lock_lost = asyncio.Event()
        self.lock: Lock | None = delivered.lock
        self.carry: Carry | None = None
        """Asked for the headers of each follow-up, given those that its publish names; a middleware's to set."""
        # by the clock of the event loop: when we learned of this lock, and when the work began
        self.locked = self.begun = asyncio.get_running_loop().time()

    @property
    def state(self) -> State:
        """Where it is."""
        return self._state

    def become(self, state: State) -> None:
        """Go on to another state; the worker's to call."""
        self._state = state
        if state == "lost":
            self.lock_lost.set()
        elif state == "in hand":
            self.lock_lost.clear()

    @property
    def id(self) -> str:
        """The item's id, unique in its node: what a worker remembers to do nothing twice."""
        return self._delivered.id

    @property
    def node(self) -> str:
        """The queue it comes from."""
        return self._delivered.node

    @property
    def place(self) -> Place:
        """Its node and its id, which no other item of the service has."""
        return self._delivered.node, self._delivered.id

    @property
    def payload(self) -> Element | None:
        """The payload as an element, or None where the item has none."""
        return self._delivered.payload

    @property
    def publisher(self) -> str | None:
        """The JID that published it, where the service tells."""
        return self._delivered.publisher

    @property
    def headers(self) -> Mapping[str, str]:
        """What the publisher says beside the payload (XEP-0131); of one name the last value."""
        return self._delivered.headers

    @property
    def attempt(self) -> int:
        """How often it has been handed out, this time included; 1 where the service does not say."""
        return self.lock.attempt if self.lock else 1

    @property
    def failures(self) -> int:
        """How often it has failed: a lock that timed out, a worker lost, work that failed; 0 where nobody says."""
        return self.lock.failed if self.lock else 0

    @property
    def token(self) -> int | None:
        """The token of the lock, which only rises, where the service tells."""
        return self.lock.token if self.lock else None

    @property
    def deadline(self) -> datetime | None:
        """When the lock times out by the service's clock, where the service tells."""
        return self.lock.deadline if self.lock else None

    @property
    def published(self) -> datetime | None:
        """When it was published by the service's clock, where the service tells."""
        return self.lock.published if self.lock else None

    async def retract(self) -> None:
        """Delete the item from the queue: its work is done (XEP-0254 section 2.3).

        Returns when the delete notification is here; only then commit what depends on it. Of all workers
        that ever had the item, this returns to one at most. Raises LockLost when the item is not ours
        any more. Raises NotConfirmed when nothing was heard in spite of all patience: it may have been
        deleted or not. Raises GoneUnconfirmed when a retract without an answer was repeated, and the
        item is gone: it may have been our first that deleted it, or a worker that got the item when our
        connection was lost.
        """
        await self._holder.settle(self, "retract")

    async def unlock(self, outcome: Outcome | None = None) -> None:
        """Give the item back, for another worker or another time (XEP-0254 section 2.4).

        Without `outcome` it is a release: nobody's fault. A service that does not know
        `urn:x-pubqueue:0` is sent a plain unlock in any case.
        """
        await self._holder.settle(self, "unlock", outcome)

    async def touch(self, seconds: When | None = None) -> datetime | None:
        """Extend the lock to `seconds` from now, by default and at most the queue's lock timeout.

        A timedelta will do as well, or an aware datetime, which is until when. Returns the deadline by the service's clock; a lock never ends sooner by it. Returns None
        where the service cannot extend locks: what is not done by the first deadline is lost then.
        Raises LockLost when the item is not ours any more, NotConfirmed when nothing was heard.
        """
        return await self._holder.touch(
            self, None if seconds is None else until("seconds", seconds)
        )

    async def publish(
        self,
        node: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        priority: int | None = None,
        delay: When | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Published:
        """Publish follow-up work on the worker's own stream; the service has it when this returns.

        The arguments are those of `Publisher.publish`; the worker's account has to be a publisher of `node`. Without
        `id`, the follow-up is named after this item and its number among the item's follow-ups, the same each time that the item
        is handled: a handler that runs twice makes one follow-up, not two. That holds as long as the handler publishes
        in the same order each time, or else gives ids; and where follow-ups may be done before the handler runs
        again, as long as their node has a `dedup_window`. One that is being worked on already, perhaps with another
        payload, is left alone: `duplicate` is true then.
        """
        own = publishing.identified(id) is None
        self._follow_ups += own
        name = id or self._follow_up(self._follow_ups)
        new = NewItem(
            payload=payload,
            id=name,
            priority=priority,
            delay=delay,
            ttl=ttl,
            headers=headers,
            group=group,
        )
        try:
            return await self._holder.publish(node, carrying(new, self.carry), _patience(timeout))
        except Refused as error:
            if own and error.condition == "conflict":
                return Published(node, name, duplicate=True)
            raise

    async def reply(self, payload: object, *, timeout: Span | None = None) -> Published:  # noqa: ASYNC109 - a promise
        """Send a result to who has asked for this item by `Publisher.ask`; it is kept when this returns.

        Replied twice, by a handler that runs twice, it is still one reply. Raises NoReplyWanted where the item was
        not asked, NoSuchNode where the asker's node for replies is gone.
        """
        if not self.wants_reply:
            raise NoReplyWanted(node=self.node, id=self.id)
        new = NewItem(payload=payload, id=self.headers[CORRELATION])
        published = await self._holder.publish(self.headers[REPLY_TO], new, _patience(timeout))
        self._replied = True
        return published

    @property
    def wants_reply(self) -> bool:
        """Whether it was asked by `Publisher.ask`, so that `reply` has somebody to send to."""
        to = self.headers.get(REPLY_TO, "")
        return to.startswith(PLACE) and bool(self.headers.get(CORRELATION))

    async def respond(self, result: object) -> None:
        """Reply what a handler has returned, if the item was asked, that is not None, and nothing was replied yet.

        A worker calls this with what each handler returns. What `reply` raises is a failure of the handler.
        """
        if result is not None and self.wants_reply and not self._replied:
            await self.reply(result)

    def _follow_up(self, number: int) -> str:
        # an id may come back for new work, whose follow-ups are others: the time of the publish tells them apart
        when = "" if self.published is None else f"{self.published.timestamp() * 1000:.0f}/"
        return bounded(f"{self.node}/{self.id}/{when}{number}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self.state in ("in hand", "lost"):  # else the block has done it
            if error is None:
                await self._retract_unless_lost()
            else:
                await self._unlock_quickly(outcome_of(error))
        return isinstance(error, Verdict)

    async def _retract_unless_lost(self) -> None:
        with suppress(LockLost, GoneUnconfirmed):  # logged when it was found out
            await self.retract()

    async def _unlock_quickly(self, outcome: Outcome) -> None:
        """Unlock, but let nothing hide the exception that is on its way, or hold it up for long."""
        log.info("item.given_back", node=self.node, id=self.id, outcome=outcome.type)
        try:
            async with asyncio.timeout(self._holder.parting):
                await self.unlock(outcome)
        except (PubqueueError, TimeoutError) as error:
            # the lock's deadline does it
            log.warning("item.not_unlocked", node=self.node, id=self.id, why=str(error))


def _patience(timeout: Span | None) -> float | None:
    return None if timeout is None else span("timeout", timeout)
