"""An item of a queue, locked to a worker: `Item` for handlers that are coroutine functions, `BlockingItem` for plain functions.

    def handle(item: BlockingItem) -> None:
        rebook(item.decode(Flight))

    Worker(node="jobs", requests=10).run_blocking(handle)

calls a plain function for each item.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from pubqueue_xeps.client.threads import Blocking, blocking, wait_for
from pubqueue_xeps.errors import (
    GoneUnconfirmed,
    LockLost,
    NoReplyWanted,
    Refused,
)
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.asking import CORRELATION, PLACE, REPLY_TO, bounded
from pubqueue_xeps.wire.names import PARENT, joined
from pubqueue_xeps.wire.payloads.decoding import Content, header_of
from pubqueue_xeps.wire.publication import NewItem, Published, carrying
from pubqueue_xeps.wire.refusals import Outcome, Verdict, outcome_of
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.then import Ending, Then
from pubqueue_xeps.wire.times import span, until
from pubqueue_xeps.wire.waits import Hold, from_json

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime
    from types import TracebackType
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.joins import Members
    from pubqueue_xeps.wire.publication import Carry
    from pubqueue_xeps.wire.then import FollowUp
    from pubqueue_xeps.wire.times import Span, When
    from pubqueue_xeps.wire.waits import Signal, Woken
    from pubqueue_xeps.xep_0254.queueing import Delivered, Lock, Place


R = TypeVar("R")

Verb = Literal["retract", "unlock"]
State = Literal["waiting", "in hand", "retracted", "unlocked", "lost", "gone"]


class Holder(Protocol):
    """The part of a worker that holds the item."""

    async def settle(self, item: Item, verb: Verb, outcome: Outcome | None = None) -> None:
        """Retract or unlock it."""

    async def give_up(self, item: Item, outcome: Outcome) -> None:
        """Unlock it, without raising an error or waiting for long."""

    async def touch(self, item: Item, seconds: float | None) -> datetime | None:
        """Extend its lock."""

    async def publish(
        self,
        node: str,
        new: NewItem,
        timeout: float | None,  # noqa: ASYNC109 - a promise
        *,
        is_reply: bool = False,
    ) -> Published:
        """Publish another item."""

    def elsewhere(self, new: NewItem) -> str | None:
        """Return the service that an item belongs to by its own group or id, if that is not this one."""


class ItemFacts(Content):
    """What the publisher and the service say of an item."""

    __slots__ = ()

    delivered: Delivered

    @property
    @abstractmethod
    def lock(self) -> Lock | None:
        """The lock as it was last extended, or None if the service does not report it."""

    @property
    def id(self) -> str:
        """The item's id, unique in its node; record it to avoid doing the same work twice."""
        return self.delivered.id

    @property
    def node(self) -> str:
        """The queue that the item comes from."""
        return self.delivered.node

    @property
    def service(self) -> str:
        """The address of the service that the item comes from."""
        return self.delivered.service

    @property
    def place(self) -> Place:
        """The item's node and id; together they are unique in the service."""
        return self.delivered.node, self.delivered.id

    @property
    def payload(self) -> Element | None:
        """The payload as an element, or None if the item has none."""
        return self.delivered.payload

    @property
    def publisher(self) -> str | None:
        """The JID that published the item, or None if the service does not report it."""
        return self.delivered.publisher

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the publisher sent with the payload (XEP-0131); for a repeated name, the last value."""
        return self.delivered.headers

    def _header(self) -> str | None:
        return header_of(self.headers)

    @property
    def attempt(self) -> int:
        """How often the item has been delivered, including this time; 1 if the service does not report it."""
        return self.lock.attempt if self.lock else 1

    @property
    def failures(self) -> int:
        """How often the item has failed: lock timeouts, lost workers, failed handlers; 0 if the service does not report it."""
        return self.lock.failed if self.lock else 0

    @property
    def token(self) -> int | None:
        """The token of the lock, which only increases, or None if the service does not report it."""
        return self.lock.token if self.lock else None

    @property
    def deadline(self) -> datetime | None:
        """When the lock times out, by the service's clock, or None if the service does not report it."""
        return self.lock.deadline if self.lock else None

    @property
    def published(self) -> datetime | None:
        """When the item was published, by the service's clock, or None if the service does not report it."""
        return self.lock.published if self.lock else None

    @property
    def woken(self) -> Woken | None:
        """What has woken the item since it was held: "count" if all its members are done, "signal" or "time"; None if it was never held."""
        return self.delivered.wait.woken

    @property
    def members(self) -> Members | None:
        """The members that the item waited for, as a join; None for any other item."""
        return self.delivered.wait.members

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The signals that are kept with the item, in order: those that have woken it, until a handler returns the next Hold, and those that it was not held for."""
        return self.delivered.wait.signals

    @property
    def carried(self) -> Any:  # noqa: ANN401 - any value of JSON
        """What a handler gave the item to carry by Hold, from JSON; None if there is nothing. Raises DecodeError if it is not JSON."""
        return from_json(self.delivered.wait.carry)

    @property
    def wants_reply(self) -> bool:
        """Whether the item was published by `Publisher.ask`, so that `reply` has an addressee."""
        to = self.headers.get(REPLY_TO, "")
        return to.startswith(PLACE) and bool(self.headers.get(CORRELATION))


class Item(ItemFacts):
    """An item that is locked to this worker until it is retracted or unlocked.

    `async with item:` retracts the item on a clean exit and unlocks it when the block raises, with the outcome that the
    exception stands for. Release, Failed and Reject end there; any other exception counts as a failure and is
    re-raised. If the lock is lost meanwhile, or the item turns out to be gone and it is unknown which worker deleted
    it, leaving the block logs that and does not raise. `item.state` has the result; it is "retracted" only for the
    worker that deleted the item.

    While the item is in hand, the worker extends the lock (`touch_for` of `Worker`). If the lock is still lost,
    `lock_lost` is set, and `retract` raises LockLost. Nothing is cancelled: work that stops halfway may leave more to
    repair than work that is done twice. If the item is delivered to this worker again, its handler continues with it,
    and `lock_lost` is cleared. A handler that can stop early checks `lock_lost` or waits for it.
    """

    __slots__ = (
        "_follow_ups",
        "_holder",
        "_replied",
        "_state",
        "begun",
        "carry",
        "delivered",
        "ending",
        "handler",
        "is_perhaps_done",
        "lock",
        "lock_lost",
        "locked",
    )

    lock: Lock | None

    def __init__(self, delivered: Delivered, holder: Holder) -> None:
        self.delivered = delivered
        self._holder = holder
        self._state: State = "waiting"
        self._follow_ups = 0
        self._replied = False
        self.is_perhaps_done = False
        """Whether a retract had no answer. Such an item is never unlocked; only the worker sets this."""
        self.handler = ""
        """The name of the handler that works on it, empty until then; the worker sets this."""
        self.lock_lost = asyncio.Event()
        self.lock = delivered.lock
        self.ending: Ending | None = None
        """What a retract publishes in its commit; only the item sets this."""
        self.carry: Carry | None = None
        """Called with the headers of each follow-up's publish; returns the headers to send. A middleware may set it."""
        # by the event loop's clock: when we were notified of this lock, and when the work began
        self.locked = self.begun = asyncio.get_running_loop().time()

    @property
    def state(self) -> State:
        """The item's state."""
        return self._state

    def become(self, state: State) -> None:
        """Change the state; only the worker calls this."""
        self._state = state
        if state == "lost":
            self.lock_lost.set()
        elif state == "in hand":
            self.lock_lost.clear()

    async def retract(self, then: Then | None = None) -> None:
        """Delete the item from the queue: its work is done (XEP-0254 section 2.3).

        With `then`, which has no hold, its follow-ups are published in the same commit. Raises FollowUpRefused if one of them
        may not be published, and Refused if the service does not know follow-ups: then nothing was done.

        Returns once the delete notification has arrived; commit anything that depends on it only then. This succeeds
        for at most one of all the workers that ever had the item. Raises LockLost if the item is no longer locked to
        this worker. Raises NotConfirmed if no answer came within `Timings.patience`: the item may or may not be
        deleted, and you may retract it again. Raises GoneUnconfirmed if an unanswered retract was repeated, here or by
        you, and the item is gone: either our first retract deleted it, or a worker that got the item after our
        connection was lost.
        """
        if then is not None:
            if then.hold is not None:
                raise ValueError("A held item is not deleted: a handler returns Then with hold.")
            self._prepare(then)
        try:
            await self._holder.settle(self, "retract", self.ending)
        except Refused:
            self.ending = None
            raise

    async def unlock(self, outcome: Outcome | None = None) -> None:
        """Release the item, for another worker or a later time (XEP-0254 section 2.4).

        Without `outcome`, no failure is counted. A service that does not support `urn:x-pubqueue:0` always gets a plain
        unlock.

        Raises NotConfirmed after a retract that had no answer: it is repeated, or the lock times out, and work that may
        be done is given to no other worker before.
        """
        await self._holder.settle(self, "unlock", outcome)

    async def touch(self, seconds: When | None = None) -> datetime | None:
        """Extend the lock to `seconds` from now, by default and at most the queue's lock timeout.

        `seconds` can also be a timedelta, or an aware datetime until which the lock holds. Returns the deadline by the
        service's clock; a touch never shortens a lock. Returns None if the service cannot extend locks; the lock then
        times out at its first deadline. Raises LockLost if the item is no longer locked to this worker, NotConfirmed if
        no answer came.
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
        type: str | None = None,  # noqa: A002 - the name of the attribute
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Published:
        """Publish follow-up work on the worker's own stream; when this returns, its service has it.

        The arguments are those of `Publisher.publish`; the worker's account must be a publisher of `node`. Without
        `id`, the follow-up's id is made from this item and the number of the follow-up, so a handler that runs twice
        makes one follow-up, not two. This requires that the handler publishes in the same order each time, or sets ids.
        If follow-ups may be finished before the handler runs again, their node also needs a `dedup_window`. A follow-up
        that a worker already has, perhaps with another payload, is left alone: `duplicate` is then true. Its header `parent`
        names this item. Return `Then` instead if follow-ups are to be published exactly when this item is done.
        """
        own = publishing.identified(id) is None
        self._follow_ups += own
        name = id or self._follow_up(f"{self._follow_ups}")
        new = NewItem(
            payload=payload,
            id=name,
            priority=priority,
            delay=delay,
            ttl=ttl,
            headers=self._beside(headers),
            group=group,
            type=type,
        )
        try:
            return await self._holder.publish(node, carrying(new, self.carry), _patience(timeout))
        except Refused as error:
            if own and error.condition == "conflict":
                return Published(node, name, duplicate=True)
            raise

    async def reply(
        self,
        payload: object,
        *,
        type: str | None = None,  # noqa: A002 - the name of the attribute
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Published:
        """Send a reply to the account that published this item with `Publisher.ask`; it is stored when this returns.

        `type` is a content type, as `Publisher.publish` takes it.

        A handler that runs twice still sends one reply. Raises NoReplyWanted if the item asks for no reply, NoSuchNode
        if the node for replies no longer exists.
        """
        if not self.wants_reply:
            raise NoReplyWanted(node=self.node, id=self.id)
        new = NewItem(payload=payload, id=self.headers[CORRELATION], type=type)
        published = await self._holder.publish(
            self.headers[REPLY_TO], new, _patience(timeout), is_reply=True
        )
        self._replied = True
        return published

    async def respond(self, result: object) -> None:
        """Reply with a handler's return value, if a reply is wanted and was not sent yet, and the value is not None.

        A worker calls this with the return value of each handler. An exception raised by `reply` is a failure of the
        handler. A Hold is no reply: it ends the work on the item for now. A Then deletes the item, or holds it, and
        publishes its follow-ups; FollowUpRefused or Refused, which says that nothing was done, is a failure of the handler.
        """
        if isinstance(result, Hold):
            raise Verdict("The item is held.", result)
        if isinstance(result, Then):
            await self._follow(result)
        elif result is not None and self.wants_reply and not self._replied:
            await self.reply(result)

    async def _follow(self, then: Then) -> None:
        if then.hold is None:
            self._prepare(then)
            await self._retract_unless_lost()
            return
        ending = self._ending(then)
        await self.unlock(ending)
        # an item that was lost meanwhile, and is delivered again, is held when the block ends
        raise Verdict("The item is held.", ending)

    def _prepare(self, then: Then) -> None:
        ending = self._ending(then)
        self.ending = ending if ending.items else None

    def _ending(self, then: Then) -> Ending:
        """Return what is published, with ids: those of a held item are of this delivery, because it may be held again."""
        step = "then" if then.hold is None else f"hold-{self.token}"
        items = [
            (one.node, self._following(one, f"{step}-{number}"))
            for number, one in enumerate(then.follow_ups, 1)
        ]
        if then.reply is not None and self.wants_reply and not self._replied:
            reply = NewItem(payload=then.reply, id=self.headers[CORRELATION])
            items.append((self.headers[REPLY_TO], reply))
        return Ending(items, then.hold)

    def _following(self, one: FollowUp, name: str) -> NewItem:
        new = NewItem(
            payload=one.payload,
            id=publishing.identified(one.id) or self._follow_up(name),
            priority=one.priority,
            delay=one.delay,
            ttl=one.ttl,
            headers=self._beside(one.headers),
            group=one.group,
            type=one.type,
        )
        given = one.id is not None or one.group is not None
        if given and (service := self._holder.elsewhere(new)) is not None:
            raise ValueError(
                f"A follow-up for {one.node} belongs to {service} by its group or id, and a commit is of one service:"
                " publish it with item.publish."
            )
        return carrying(new, self.carry)

    def _beside(self, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """Return the headers of a follow-up, with the place of this item."""
        given: Any = headers or {}
        if not isinstance(given, Mapping):
            return headers  # it is refused with the other arguments
        return {PARENT: joined(self.node, self.id), **given}

    def _follow_up(self, name: str) -> str:
        # an id may be used again for new work with other follow-ups: the time of the publish
        # distinguishes them
        names = [self.node, self.id]
        if self.published is not None:
            names.append(f"{self.published.timestamp() * 1000:.0f}")
        return bounded(joined(*names, name))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self.state in ("in hand", "lost"):  # else the block has settled it
            if error is None:
                await self._retract_unless_lost()
            else:
                await self._give_up(outcome_of(error))
        return isinstance(error, Verdict)

    async def _retract_unless_lost(self) -> None:
        with suppress(LockLost, GoneUnconfirmed):  # already logged
            await self.retract()

    async def _give_up(self, outcome: Outcome) -> None:
        """Unlock, but do not hide or delay the exception that is being raised."""
        if outcome.type == "reject":
            log.warning(
                "item.rejected",
                node=self.node,
                id=self.id,
                why=outcome.reason,
                service=self.service,
            )
        else:
            log.info(
                "item.given_back",
                node=self.node,
                id=self.id,
                outcome=outcome.type,
                service=self.service,
            )
        await self._holder.give_up(self, outcome)


def _patience(timeout: Span | None) -> float | None:
    return None if timeout is None else span("timeout", timeout)


class BlockingItem(ItemFacts, Blocking[Item]):
    """An `Item` for a handler that is a plain function; `Worker.run_blocking` settles it.

    Its methods block. Call them from the handler's thread, or from threads that the handler starts. If the publisher
    wants a reply, the handler's return value is the reply.
    """

    __slots__ = ("_loop", "_twin", "delivered")

    def __init__(self, item: Item, loop: asyncio.AbstractEventLoop) -> None:
        self._twin = item
        self._loop = loop
        self.delivered = item.delivered

    @property
    def lock(self) -> Lock | None:
        """The lock as it was last extended, or None if the service does not report it."""
        return self._twin.lock

    @property
    def lock_lost(self) -> bool:
        """Whether the lock is lost: a handler that can stop early may check this."""
        return self._twin.lock_lost.is_set()

    publish = blocking(Item.publish)
    reply = blocking(Item.reply)
    touch = blocking(Item.touch)

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        return wait_for(work, self._loop)
