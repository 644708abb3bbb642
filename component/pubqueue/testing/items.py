"""An item for a handler, without a service: what the handler does with it is noted, and nothing else happens.

    item = make_item({"order": 7}, attempt=3)
    async with item:                          # as a worker does
        await handle(item)
    assert item.state == "retracted"

The handler is the user's own, unchanged.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from uuid import uuid4
from xml.etree.ElementTree import fromstring

from pubqueue_xeps.item import Item
from pubqueue_xeps.items import Items
from pubqueue_xeps.wire.publication import NewItem, wrapped, written
from pubqueue_xeps.wire.refusals import Verdict
from pubqueue_xeps.wire.then import Ending
from pubqueue_xeps.wire.times import span
from pubqueue_xeps.wire.waits import Waited, as_json
from pubqueue_xeps.xep_0254.queueing import Delivered, Lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from pubqueue_xeps.item import Verb
    from pubqueue_xeps.wire.joins import Members
    from pubqueue_xeps.wire.refusals import Outcome
    from pubqueue_xeps.wire.times import Span, When
    from pubqueue_xeps.wire.waits import Signal, Woken


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that was done with an item: `outcome` is that of an unlock, `seconds` those of a touch."""

    verb: Literal["retract", "unlock", "touch"]
    outcome: Outcome | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class FollowUp:
    """An item that a handler has published or replied, and its result: a new id."""

    node: str
    id: str
    payload: object
    priority: int | None = None
    delay: When | None = None
    ttl: When | None = None
    headers: Mapping[str, str] | None = None
    group: str | None = None
    type: str | None = None
    duplicate: bool = False
    dead: str | None = None


@dataclass(slots=True)
class _Notes:
    """Holds an item as a worker does, and records the calls for it."""

    deadline: datetime
    calls: list[Call] = field(default_factory=list)
    published: list[FollowUp] = field(default_factory=list)

    async def settle(self, item: Item, verb: Verb, outcome: Outcome | None = None) -> None:
        if isinstance(outcome, Ending):
            for node, new in outcome.items:
                await self.publish(node, new, None)
            outcome = outcome.hold
        self.calls.append(Call(verb, outcome))
        item.become("retracted" if verb == "retract" else "unlocked")

    async def give_up(self, item: Item, outcome: Outcome) -> None:
        await self.settle(item, "unlock", outcome)

    async def touch(self, item: Item, seconds: float | None) -> datetime | None:  # noqa: ARG002  a holder's
        self.calls.append(Call("touch", seconds=seconds))
        return self.deadline

    async def publish(
        self,
        node: str,
        new: Any,  # noqa: ANN401  as the item has it
        _timeout: float | None,
        *,
        is_reply: bool = False,  # noqa: ARG002  a holder's
    ) -> FollowUp:
        names = "priority", "delay", "ttl", "headers", "group", "type"
        beside = {name: getattr(new, name) for name in names}
        found = FollowUp(node, new.id, new.payload, **beside)
        self.published.append(found)
        return found

    def elsewhere(self, _new: NewItem) -> None:
        """There is one service."""


class NotedItem(Item):
    """An `Item` in a handler; `calls` has what was done with it, in order."""

    __slots__ = ()

    @property
    def calls(self) -> list[Call]:
        """What was done with it: retracted, unlocked with an outcome, touched."""
        return cast("_Notes", self._holder).calls

    @property
    def follow_ups(self) -> list[FollowUp]:
        """The items and replies that were published by it."""
        return cast("_Notes", self._holder).published

    @property
    def outcome(self) -> Outcome | None:
        """The outcome with which it was unlocked, if it was."""
        return next((call.outcome for call in self.calls if call.verb == "unlock"), None)


class NotedItems(Items[NotedItem]):
    """The `Items` of a handler of batches; `async with items:` settles each as a worker does."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        ends = self.settled()
        for item in self:
            with suppress(BaseException):  # the item re-raises what has settled it
                async with item:
                    end = ends.get(item, error)
                    if isinstance(end, BaseException):
                        raise end
                    await item.respond(end)
        return isinstance(error, Verdict)


def make_items(*items: NotedItem) -> NotedItems:
    """Return items, as `make_item` makes them, for one call of a handler of batches.

    `async with items:` settles each of them as a worker does, and re-raises what a handler may not raise.
    """
    return NotedItems(items)


def make_item(
    payload: object = None,
    *,
    id: str | None = None,  # noqa: A002  the name of the attribute
    node: str = "jobs",
    headers: Mapping[str, str] | None = None,
    publisher: str | None = "publisher@localhost",
    attempt: int = 1,
    failures: int = 0,
    lock_timeout: Span = 300,
    type: str | None = None,  # noqa: A002  the name of the attribute
    woken: Woken | None = None,
    signals: Iterable[Signal] = (),
    carried: object = None,
    members: Members | None = None,
) -> NotedItem:
    """Return an item that has been delivered, with or without a running event loop.

    An Element is used as the payload, None means no payload, any other value is sent as JSON
    (XEP-0335). With `type`, a content type, it is a str, bytes or an Element. `attempt` counts from 1, `failures` is how many earlier attempts have failed,
    `lock_timeout` is seconds, or a timedelta. `woken`, `signals`, `carried` and `members` are those of an item that was held. `async with item:` settles it as a worker does, and
    `await item.respond(await handler(item))` in it replies as one. To lose its lock, call
    `become("lost")`.

    Raises:
        TypeError, ValueError: the payload has no form in XML or JSON.

    """
    new = wrapped(NewItem(payload=payload, headers=headers, type=type))
    now = datetime.now(UTC)
    lock = Lock(
        1, now + timedelta(seconds=span("lock_timeout", lock_timeout)), attempt, now, failures
    )
    delivered = Delivered(
        service="queue.localhost",
        node=node,
        id=uuid4().hex if id is None else id,
        payload=None if payload is None else fromstring(written(new.payload)),  # noqa: S314  written just now
        publisher=publisher,
        lock=lock,
        headers=dict(new.headers or {}),
        wait=Waited(
            woken, "" if carried is None else as_json(carried, "carried"), tuple(signals), members
        ),
    )
    item = _in_a_loop(delivered, _Notes(lock.deadline))
    item.become("in hand")
    return item


def _in_a_loop(delivered: Delivered, notes: _Notes) -> NotedItem:
    """Make the item, which needs the time of an event loop: that of a new one, if none runs."""

    async def make() -> NotedItem:
        return NotedItem(delivered, cast("Any", notes))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(make())
        finally:
            loop.close()
    return NotedItem(delivered, cast("Any", notes))
