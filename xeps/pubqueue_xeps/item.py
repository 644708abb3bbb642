"""One item of a queue, locked to a worker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol, Self
from xml.etree.ElementTree import Element, tostring

from pubqueue_xeps.codec import DecodeError, S, decode
from pubqueue_xeps.errors import GoneUnconfirmed, LockLost, PubqueueError
from pubqueue_xeps.log import log
from pubqueue_xeps.outcome import Outcome, Verdict, outcome_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from types import TracebackType

    from pubqueue_xeps.settlement import Verb
    from pubqueue_xeps.xep_0254.event import Delivered, Lock

State = Literal["waiting", "in hand", "retracted", "unlocked", "lost", "gone"]


class Holder(Protocol):
    """Who holds the item."""

    parting: float

    async def settle(self, item: Item, verb: Verb, outcome: Outcome | None = None) -> None:
        """Retract or unlock it."""

    async def touch(self, item: Item, seconds: float | None) -> datetime | None:
        """Extend its lock."""


class Item:
    """An item that is locked to this worker until it is retracted or unlocked.

    `async with item:` retracts it on a clean exit and unlocks it when the block raises, with the
    outcome that the exception stands for (`pubqueue_xeps.outcome`): Release, Failed and Reject end
    there, any other counts as a failure and goes on its way. If the lock is lost meanwhile, or the item turns
    out to be gone without anybody knowing by whom, leaving the block logs that and does not raise:
    `item.state` tells it, which is "retracted" only for who deleted the item.

    While it is in hand, the worker extends the lock (`Worker`'s `touch_for`). When it is lost all
    the same, `lock_lost` is set, and `retract` raises LockLost. Nothing is cancelled: work that stops
    in the middle may leave more to mend than work that is done twice, and the item may come right
    back to this worker, whose handler then goes on with it; `lock_lost` is cleared again. Who can
    stop, and has something to save by it, looks at `lock_lost` or waits for it.
    """

    __slots__ = ("_delivered", "_holder", "_state", "begun", "lock", "lock_lost", "locked")

    def __init__(self, delivered: Delivered, holder: Holder) -> None:
        self._delivered = delivered
        self._holder = holder
        self._state: State = "waiting"
        self.lock_lost = asyncio.Event()
        self.lock: Lock | None = delivered.lock
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
    def payload(self) -> Element | None:
        """The payload as an element, or None where the item has none."""
        return self._delivered.payload

    @property
    def bytes(self) -> bytes:
        """The payload as XML in UTF-8; empty where the item has none."""
        return b"" if self.payload is None else tostring(self.payload, "utf-8")

    def decode(self, wanted: type[S]) -> S:
        """Read the payload as a msgspec struct; `pubqueue_xeps.codec` says how.

        Raises DecodeError, which names the field and never its value. It is a Reject: left to
        itself, it makes the item dead at once, for no other worker could read it either.
        """
        if self.payload is None:
            raise DecodeError("The item has no payload.")
        return decode(self.payload, wanted)

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

    async def touch(self, seconds: float | None = None) -> datetime | None:
        """Extend the lock to `seconds` from now, by default and at most the queue's lock timeout.

        Returns the deadline by the service's clock; a lock never ends sooner by it. Returns None
        where the service cannot extend locks: what is not done by the first deadline is lost then.
        Raises LockLost when the item is not ours any more, NotConfirmed when nothing was heard.
        """
        return await self._holder.touch(self, seconds)

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
