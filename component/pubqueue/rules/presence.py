"""Addresses come, go, bounce and fall silent; their items and their reachability follow."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import (
    Change,
    EndSubscription,
    ForgetResource,
    NoteActivity,
    NotePresence,
    NoteResource,
    NoteUnanswered,
    PutRow,
    Recount,
    SetAvailable,
)
from pubqueue.model.decision import (
    ConnectionsFreed,
    Decision,
    Done,
    Doubted,
    FeaturesWanted,
    Request,
)
from pubqueue.model.entities import SubscriptionState, account_of, later, mark_of, seconds
from pubqueue.model.notices import SubscriptionChanged
from pubqueue.model.records import PingAnswer
from pubqueue.model.several_subscriptions import apart
from pubqueue.rules.ahead import fail_first, release_first
from pubqueue.rules.give_back import Case, in_their_places, release

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pubqueue.model.entities import Item, Jid, Millis, Node, Subscription


# A JID that has gone: its items are released, in slices, and its subscriptions end or are unavailable.
#
# Whether its items count a failure depends on how it went (`Departure`).

WORKER_LOST: Final = "the worker went away"

APART: Final = seconds(1)
"""The clocks of two instances differ by less: they follow that of their store."""


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


class Leave(Request, frozen=True, gc=False):
    """A JID has become unavailable; `at` is the time at which the report came, because it may be decided late.

    `unanswered` is when the last ping was sent that it left unanswered, if that is why it counts as gone.
    """

    jid: Jid
    at: Millis | None = None
    how: Departure = Departure.AWAY
    unanswered: Millis | None = None


class LeaveFacts(Struct, frozen=True, gc=False):
    """The subscriptions of the leaver and its account, and some of the items they hold; the holders in `more` may hold more.

    `is_known` means that the leaver has shown itself, by presence or by subscribing. `present` are the
    full JIDs of its account of which presence was received, and no report that they left. All locks given so far are below the token `unused`, which
    is loaded if it matters. `answered` is when it last answered a ping at another instance, if it
    counts as gone because it left pings unanswered. `seen` is when the leaver last showed itself.
    """

    now: Millis
    held: tuple[Case, ...]
    subscriptions: tuple[tuple[Subscription, Node], ...]
    is_known: bool = False
    present: tuple[Jid, ...] = ()
    more: tuple[Jid, ...] = ()
    unused: int = 0
    answered: Millis | None = None
    seen: Millis | None = None


class FreeLeft(Request, frozen=True, gc=False):
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
    at: Millis | None = None
    """If a later session has the address: the locks are those that were given before."""


class FreeLeftFacts(Struct, frozen=True, gc=False):
    """The next items of the holder; it may hold more after the number `last`, None at the end."""

    now: Millis
    held: tuple[Case, ...]
    last: int | None = None


def leave(request: Leave, facts: LeaveFacts) -> Decision:
    """Free the leaver's items and end its subscriptions; it gets no notification, because it is gone.

    The account leaves with the last of its resources whose presence was received (row 21); any other
    resource leaves alone, and so does a connection that never comes back. Those for which the account
    keeps its work are asked whether they are still here (docs/decisions/0142).
    Deliveries to it stop at once; items beyond a slice are freed in the next slices.

    The leaver may have shown itself again since its report came: that may have gone to another instance, and was decided first.
    Then an earlier session has ended, and a later one has the address. Only the locks that were given before the report end.
    """
    latest = facts.now + REMEMBERED  # an answer from later than that is from a clock that was ahead
    if request.unanswered is not None and request.unanswered <= (facts.answered or 0) <= latest:
        return Decision(Done())  # it has answered at another instance
    # a sign from long after now is from a clock that was set back since
    if request.at is not None and request.at < (facts.seen or 0) <= facts.now + APART:
        return _left_before(request, facts, request.at)
    gone = {request.jid}
    others = tuple(jid for jid in facts.present if jid != request.jid)
    counts = request.jid in facts.present and not request.how.is_final
    if counts and not others:
        gone.add(account_of(request.jid))
    held = [case for case in facts.held if case.item.holder in gone]
    changes: list[Change] = [*_freed(held, facts.now, request.how)]
    if facts.is_known:
        changes.append(ForgetResource(request.jid))
    for subscription, node in facts.subscriptions:
        if subscription.jid in gone:
            changes += _without(subscription, node, is_final=request.how.is_final)
    rest = tuple(jid for jid in facts.more if jid in gone)
    then = None
    if rest:
        then = FreeLeft(request.jid, rest, facts.unused, freed=len(held), how=request.how)
    doubted = counts and others and _has_work(account_of(request.jid), facts)
    return Decision(Doubted(others) if doubted else Done(), tuple(changes), then=then)


def _left_before(request: Leave, facts: LeaveFacts, at: Millis) -> Decision:
    """Free what an earlier session under the same address held when it ended."""
    held = [case for case in facts.held if case.item.holder == request.jid]
    before = [case for case in held if not _locked_after(at, case.item)]
    then = None
    if request.jid in facts.more:
        then = FreeLeft(request.jid, (request.jid,), facts.unused, 0, len(before), request.how, at)
    return Decision(Done(), tuple(_freed(before, facts.now, request.how)), then=then)


def _has_work(account: Jid, facts: LeaveFacts) -> bool:
    """Return whether the account holds items of a queue, or may get some, under its bare JID."""
    of_queues = [one.jid for one, node in facts.subscriptions if node.config.queueing]
    return account in {*of_queues, *facts.more, *(case.item.holder for case in facts.held)}


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
    if (at := request.at) is not None:
        meant = [case for case in meant if not _locked_after(at, case.item)]
    freed = request.freed + len(meant)
    rest = request.holders if facts.last is not None else request.holders[1:]
    then = replace(request, holders=rest, after=facts.last or 0, freed=freed) if rest else None
    return Decision(Done(), tuple(_freed(meant, facts.now, request.how)), then=then)


def _freed(held: Sequence[Case], now: Millis, how: Departure) -> Iterator[Change]:
    """End the locks of a JID that has left."""
    if how.is_failure:
        return in_their_places(fail_first(held, now, WORKER_LOST), held)
    return iter(release_first(held, now))


# Connections that have gone together: those of an instance that is gone, or all addresses of one client. They may be very many, so
# that one request frees several.
#
# None of them comes back, and none was seen by presence, so nothing else of their accounts is looked at.

TOGETHER: Final = 100
"""Connections that are freed together; fewer if they hold very much."""


class FreeConnections(Request, frozen=True, gc=False):
    """Free the items of up to `TOGETHER` connections, which ended together, and end their subscriptions.

    What exceeds a slice follows in the next ones; `freed` locks have ended in those before.
    """

    jids: tuple[Jid, ...]
    how: Departure = Departure.INSTANCE_DIED
    freed: int = 0

    @property
    def jid(self) -> Jid:
        """The first of them."""
        return self.jids[0]


class FreeConnectionsFacts(Struct, frozen=True, gc=False):
    """The items and subscriptions of the first connections, as many as fit a slice, and those `left`.

    `known` are those that have shown themselves. The first may hold more than a slice, and is `left` then.
    """

    now: Millis
    held: tuple[Case, ...]
    subscriptions: tuple[Subscription, ...]
    known: tuple[Jid, ...] = ()
    left: tuple[Jid, ...] = ()


def free_connections(request: FreeConnections, facts: FreeConnectionsFacts) -> Decision:
    """End the locks, and the subscriptions.

    If the service is killed before the last slice, the next start finds the rest.
    """
    changes: list[Change] = [*_freed(facts.held, facts.now, request.how)]
    changes += map(ForgetResource, facts.known)
    changes += [EndSubscription(one.node, one.jid) for one in facts.subscriptions]
    freed = request.freed + len(facts.held)
    then = replace(request, jids=facts.left, freed=freed) if facts.left else None
    return Decision(ConnectionsFreed(freed), tuple(changes), then=then)


# An address can or can no longer be reached: its queues check again which subscribers their items can go to.
#
# Nothing of this is stored: only the process that has the connection knows it.


class ReachChanged(Request, frozen=True, gc=False):
    """A connection has room again, or has none for now."""

    jid: Jid


class ReachFacts(Struct, frozen=True, gc=False):
    """The subscriptions of exactly this address."""

    subscriptions: tuple[Subscription, ...]


def reach_changed(_request: ReachChanged, facts: ReachFacts) -> Decision:
    """Count the windows of the address again."""
    return Decision(Done(), tuple(Recount(one.node, one.jid) for one in facts.subscriptions))


# A full JID that has become available: deliveries to it resume.
#
# Any address can send presence; it is kept only for addresses that are known here (docs/decisions/0067).

MAX_RESOURCES: Final = 100
"""The maximum number of full JIDs of an account that are known."""


class Arrive(Request, frozen=True, gc=False):
    """A full JID has sent available presence; `at` is the time at which it came, because it may be decided late."""

    jid: Jid
    at: Millis | None = None


class ArriveFacts(Struct, frozen=True, gc=False):
    """The subscriptions of the full JID and of its account, and the known full JIDs of the account, in order.

    It `is_somebody` if it holds an item, or its account has an affiliation or a subscription anywhere.
    """

    subscriptions: tuple[Subscription, ...]
    here: tuple[Jid, ...] = ()
    is_somebody: bool = False
    wants_features: bool = False
    """Whether a level of its deliveries depends on what its client can do."""


def arrive(request: Arrive, facts: ArriveFacts) -> Decision:
    """Resume deliveries to an address that has become available and still has subscriptions.

    Any address can send presence: it is kept only for addresses that are known here.
    """
    known = facts.is_somebody or bool(facts.subscriptions)
    changes: list[Change] = []
    if known:
        changes += [*note_here((request.jid,), facts.here), *shows_itself(request.jid, request.at)]
    changes += [
        SetAvailable(subscription.node, subscription.jid, available=True)
        for subscription in facts.subscriptions
        if not subscription.available or subscription.unanswered
    ]
    reply = FeaturesWanted() if facts.wants_features else Done()
    return Decision(reply, tuple(changes))


def shows_itself(jid: Jid, at: Millis | None) -> tuple[NoteActivity, ...]:
    """Note that a full JID has shown activity, by what came at this time, if that is known."""
    return () if account_of(jid) == jid else (NoteActivity(jid, at),)


def note_here(
    came: tuple[Jid, ...], here: tuple[Jid, ...], itself: tuple[Jid, ...] = ()
) -> Iterator[Change]:
    """Add full JIDs to those of an account that are known; beyond the maximum the first are dropped.

    The presence of those that `came` was received; one that subscribed `itself` has only shown itself.
    """
    full = [jid for jid in dict.fromkeys((*came, *itself)) if account_of(jid) != jid]
    new = [jid for jid in full if jid not in here]
    yield from map(NoteResource, new[-MAX_RESOURCES:])
    too_many = max(0, len(here) + min(len(new), MAX_RESOURCES) - MAX_RESOURCES)
    yield from map(ForgetResource, here[:too_many])
    yield from (NotePresence(jid) for jid in full if jid in came)


# A delivery that bounced, or could not be sent: its item is released, without a failure (XEP-0060 12.4).

FIRST_PAUSE: Final = 1
MAX_PAUSE: Final = 60
"""Maximum seconds without deliveries to a subscriber whose deliveries bounce; the time doubles with each window full of them."""


class Bounce(Request, frozen=True, gc=False):
    """A delivery `bounced`, or could not be sent. `gone` means that the address no longer exists.

    `mark` is that of the subscription under which the item was delivered (`mark_of`); None: whichever it was.
    """

    to: Jid
    seq: int
    token: int
    gone: bool
    bounced: bool = False
    mark: str | None = ""


class BounceFacts(Struct, frozen=True, gc=False):
    """The item, if it is still locked under exactly that token, and the addressee's subscription.

    The addressee has shown activity after all locks with tokens below `active_since` were given.
    """

    now: Millis
    case: Case | None
    subscription: Subscription | None
    active_since: int = 0


def bounce(request: Bounce, facts: BounceFacts) -> Decision:
    """Free an item whose delivery bounced, without counting a failure (XEP-0060 12.4).

    A subscription ends only if the address is gone, and only the one under which the item was
    delivered: its account is notified. If the lock is over, or the address has shown activity
    since, the report is outdated and ends none: it is about an earlier session. Other errors are
    temporary: the subscription stays, and gets nothing for a while, because otherwise items would
    be delivered and bounce in a loop.
    """
    changes: list[Change] = []
    case, subscription = facts.case, facts.subscription
    held = case is not None and case.item.holder in {request.to, account_of(request.to)}
    if case is not None and held:
        changes.append(release(case.item, case.node, facts.now))
    if subscription is None or not request.bounced:
        return Decision(Done(), tuple(changes))
    if request.mark not in {None, mark_of(subscription.subid)}:
        return Decision(Done(), tuple(changes))
    if request.gone:
        if not held or request.token < facts.active_since:
            return Decision(Done(), tuple(changes))
        changes.append(EndSubscription(subscription.node, subscription.jid))
        return Decision(Done(), tuple(changes), (_ended(subscription),))
    if held:
        changes.append(_hold_back(subscription, facts.now))
    return Decision(Done(), tuple(changes))


def _ended(one: Subscription) -> SubscriptionChanged:
    """Notify the account of a JID that is gone that its subscription has ended (XEP-0060 12.14)."""
    none, to = SubscriptionState.NONE, account_of(one.jid)
    return SubscriptionChanged(to, one.node, none, one.subid, about=one.jid)


def _hold_back(one: Subscription, now: Millis) -> NoteUnanswered:
    """Count a delivery that bounced; the wait grows with the number of bounces in a row."""
    unanswered = one.unanswered + 1
    full_windows = one.unanswered // one.queue_requests
    pause = min(MAX_PAUSE, FIRST_PAUSE << min(full_windows, 30))
    until = later(now, seconds(pause))
    return NoteUnanswered(one.node, one.jid, unanswered, until=until)


# Workers that hold items and send nothing: they are pinged, and count as gone if they do not answer (XEP-0199).
#
# A worker whose server died cannot report that it left. Without pings its items would wait for their lock timeout.

USUAL: Final = 30.0
"""Seconds of silence after which a worker that holds items is pinged."""

MAX_ANSWER: Final = 15.0
"""Seconds to answer a ping, at most half of the silence before it: a link that loses packets needs seconds, and a busy worker is late."""

ATTEMPTS: Final = 2
"""Pings in a row without an answer after which the worker counts as gone."""

REMEMBERED: Final = seconds(600)
"""Time for which an answer that came to another instance is remembered. It is used within a minute."""


class Silence(Struct, frozen=True, gc=False):
    """The facts about a holder: times in seconds of one clock. `asked` is when the open ping was sent."""

    last_seen: float
    asked: float | None = None
    unanswered: int = 0


class Step(enum.Enum):
    """The next action for a holder."""

    NOTHING = enum.auto()
    PING = enum.auto()
    GONE = enum.auto()


def step(known: Silence, now: float, ping_after: float) -> Step:
    """Return the next action: ping a silent holder, and give up one that left its pings unanswered."""
    if known.asked is None:
        return Step.PING if now - known.last_seen >= ping_after else Step.NOTHING
    if now - known.asked < min(MAX_ANSWER, ping_after / 2):
        return Step.NOTHING
    return Step.GONE if known.unanswered >= ATTEMPTS else Step.PING


def pinged(known: Silence, now: float) -> Silence:
    """Return the holder with a ping sent now."""
    return Silence(known.last_seen, now, known.unanswered + 1)


class AnsweredElsewhere(Request, frozen=True, gc=False):
    """A JID has answered a ping of another instance: a server may route answers to any of several."""

    jid: Jid


class AnsweredFacts(Struct, frozen=True, gc=False):
    """Whether the JID holds an item."""

    now: Millis
    holds: bool


def answered_elsewhere(request: AnsweredElsewhere, facts: AnsweredFacts) -> Decision:
    """Record the answer for the instance that waits for it. Nothing is stored for a JID that holds nothing."""
    if not facts.holds:
        return Decision(Done())
    answer = PingAnswer(request.jid, facts.now, later(facts.now, REMEMBERED))
    return Decision(Done(), (PutRow(answer),))
