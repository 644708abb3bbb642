"""A JID that has gone: its items are released, in slices, and its subscriptions end or are unavailable.

Whether its items count a failure depends on how it went (`Departure`).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.addresses import account_of
from pubqueue.core.changes import Change, ForgetResource
from pubqueue.core.decision import Decision, Done
from pubqueue.core.multi_subscription import apart
from pubqueue.core.nodes.subscriptions.changes import EndSubscription, SetAvailable
from pubqueue.core.queue.give_back import Case, fail, in_their_places, release

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pubqueue.core.model import Item, Jid, Millis, Node, Subscription

WORKER_LOST: Final = "the worker went away"


class Departure(enum.Enum):
    """How an address has gone: whether it may come back, and whether its items count a failure."""

    AWAY = enum.auto()
    """It is unavailable, and may come back later."""
    LOST = enum.auto()
    """Its connection broke. A connection never comes back: another one has another address."""
    CLOSED = enum.auto()
    """It has closed its connection in order, so its items are released."""
    INSTANCE_DIED = enum.auto()
    """The instance that had the connection has died. That is not the worker's failure."""

    @property
    def is_final(self) -> bool:
        """Whether the address does not come back."""
        return self is not Departure.AWAY

    @property
    def is_failure(self) -> bool:
        """Whether its items count a failure."""
        return self in {Departure.AWAY, Departure.LOST}


class Leave(Struct, frozen=True, gc=False):
    """A JID has become unavailable; `at` is the time of the report, if that may be long ago.

    `unanswered` is when the last ping was sent that it left unanswered, if that is why it counts as gone.
    """

    jid: Jid
    at: Millis | None = None
    how: Departure = Departure.AWAY
    unanswered: Millis | None = None


class LeaveFacts(Struct, frozen=True, gc=False):
    """The subscriptions of the leaver and its account, and some of the items they hold; the holders in `more` may hold more.

    `is_here` means that the service saw the leaver arrive; `is_last`, that it is the only resource
    of its account that the service saw. All locks given so far are below the token `unused`, which
    is loaded if it matters. `answered` is when it last answered a ping at another instance, if it
    counts as gone because it left pings unanswered.
    """

    now: Millis
    held: tuple[Case, ...]
    subscriptions: tuple[tuple[Subscription, Node], ...]
    is_here: bool = False
    is_last: bool = False
    more: tuple[Jid, ...] = ()
    unused: int = 0
    answered: Millis | None = None


class FreeLeft(Struct, frozen=True, gc=False):
    """Free the next of the items that `jid` held when it left, from the first of `holders`, after `after`.

    Their tokens are below `unused`, which excludes items that were delivered after a return.
    `freed` were freed in the slices before.
    """

    jid: Jid
    holders: tuple[Jid, ...]
    unused: int
    after: int = 0
    freed: int = 0
    how: Departure = Departure.AWAY


class FreeLeftFacts(Struct, frozen=True, gc=False):
    """The next items of the holder; it may hold more after the number `last`, None at the end."""

    now: Millis
    held: tuple[Case, ...]
    last: int | None = None


def leave(request: Leave, facts: LeaveFacts) -> Decision:
    """Free the leaver's items and end its subscriptions; it gets no notification, because it is gone.

    The account leaves with the last of its resources that the service saw arrive (row 21); a
    resource that it never saw leaves alone, and so does a connection that never comes back.
    Deliveries to it stop at once; items beyond a slice are freed in the next slices.

    A report that could not be decided in time ends no lock that was given after it, and no
    subscription if there is one.
    """
    if request.unanswered is not None and (facts.answered or 0) >= request.unanswered:
        return Decision(Done())  # it has answered at another instance
    gone = {request.jid}
    if facts.is_last and not request.how.is_final:
        gone.add(account_of(request.jid))
    held = [case for case in facts.held if case.item.holder in gone]
    if request.at is not None and any(_locked_after(request.at, case.item) for case in held):
        # an earlier session has ended: a later one works under the same address
        before = [case for case in held if not _locked_after(request.at, case.item)]
        return Decision(Done(), tuple(_freed(before, facts.now, request.how)))
    changes: list[Change] = [*_freed(held, facts.now, request.how)]
    if facts.is_here:
        changes.append(ForgetResource(request.jid))
    for subscription, node in facts.subscriptions:
        if subscription.jid in gone:
            changes += _without(subscription, node, is_final=request.how.is_final)
    rest = tuple(jid for jid in facts.more if jid in gone)
    then = None
    if rest:
        then = FreeLeft(request.jid, rest, facts.unused, freed=len(held), how=request.how)
    return Decision(Done(), tuple(changes), then=then)


def _without(one: Subscription, node: Node, *, is_final: bool) -> Iterator[Change]:
    """End the subscription of an address that has gone, or the parts of it that are temporary; the rest is unavailable."""
    each = apart(one)
    ending = [part for part in each if part.temporary or node.config.tempsub]  # XEP-0060 12.5
    leaves = node.config.queueing and node.config.unsubscribe_on_unavailable
    if is_final or leaves or len(ending) == len(each):
        yield EndSubscription(one.node, one.jid)
        return
    yield from (EndSubscription(part.node, part.jid, part.subid) for part in ending)
    if node.config.queueing:
        yield SetAvailable(one.node, one.jid, available=False)


def _locked_after(moment: Millis, item: Item) -> bool:
    """Return whether the lock was given after this time."""
    return item.taken is not None and item.taken > moment


def free_left(request: FreeLeft, facts: FreeLeftFacts) -> Decision:
    """Free a slice of the items that were held when the leaver left.

    If the service is killed before the last slice, the rest stays locked until the server reports
    again that the holder is gone, or the locks time out.
    """
    meant = [case for case in facts.held if case.item.token < request.unused]
    freed = request.freed + len(meant)
    rest = request.holders if facts.last is not None else request.holders[1:]
    then = replace(request, holders=rest, after=facts.last or 0, freed=freed) if rest else None
    return Decision(Done(), tuple(_freed(meant, facts.now, request.how)), then=then)


def _freed(held: Sequence[Case], now: Millis, how: Departure) -> Iterator[Change]:
    """End the locks of a JID that has left."""
    if how.is_failure:
        return in_their_places([fail(case, now, WORKER_LOST) for case in held], held)
    return iter([release(case.item, case.node, now) for case in held])
