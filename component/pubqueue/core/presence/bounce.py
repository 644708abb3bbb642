"""A delivery that bounced, or could not be sent: its item is released, without a failure (XEP-0060 12.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.addresses import account_of
from pubqueue.core.decision import Decision, Done
from pubqueue.core.model import SubscriptionState, later, mark_of, seconds
from pubqueue.core.nodes.subscriptions.changes import EndSubscription, NoteUnanswered
from pubqueue.core.notices import SubscriptionChanged
from pubqueue.core.queue.give_back import Case, release

if TYPE_CHECKING:
    from pubqueue.core.changes import Change
    from pubqueue.core.model import Jid, Millis, Subscription

FIRST_PAUSE: Final = 1
MAX_PAUSE: Final = 60
"""Maximum seconds without deliveries to a subscriber whose deliveries bounce; the time doubles with each window full of them."""


class Bounce(Struct, frozen=True, gc=False):
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
