"""Take: ask for items once, without a subscription. The window that it opens ends with its first delivery.

It is judged as a subscription is, and has the place of a subscriber that holds what the account holds of the node, out of
`max_queue_requests`. So a client that takes items one by one does not go ahead of others that hold fewer. Among equals it comes
after all that were served before it asked. Only the process that got the request knows the window: nothing of it is stored.
"""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.changes import OpenWindow
from pubqueue.model.decision import Decision, Refusal, Request, Taken, refuse
from pubqueue.model.entities import Affiliation, SubscriptionState, later, seconds
from pubqueue.model.limits import share
from pubqueue.rules import access
from pubqueue.rules.declare import used
from pubqueue.rules.subscribe import SubscribeFacts, objection

if TYPE_CHECKING:
    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Jid, Millis, Node, NodeName, Principal, Subscription


MAX_WAIT: Final = seconds(3600)
"""The maximum time for which a take may wait."""

MAX_WAITING: Final = 10_000
MAX_OF_ACCOUNT: Final = 5_000
"""Takes that may wait at one instance: of all accounts, and of one while there is room for others (`model.limits.share`)."""


class Take(Request, frozen=True, gc=False):
    """Lock up to `count` items of the node to the requester; if there is none, wait up to `wait` for the first.

    The reply has the items that could be delivered at once, or none at the end of the wait. `number` is the broker's: it
    distinguishes the takes of a process. With `bytes` no more items are delivered once those before have as many
    together, so the last one may exceed it. With `span` the locks last that long, up to the time for which the node lets
    locks be extended. With `ahead` it may get several items of a group that is sent ahead (`rules.ahead`), because the requester
    processes them in order; without it, one.
    """

    by: Principal
    node: NodeName
    count: int = 1
    wait: Millis = seconds(0)
    number: int = 0
    bytes: int | None = None
    span: Millis | None = None
    ahead: bool = False


class TakeFacts(Struct, frozen=True, gc=False):
    """The node, the account's affiliation and what it holds there, its subscriptions to it; and the takes that wait here, with this one.

    All locks given so far are below the token `unused`.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    subscriptions: tuple[Subscription, ...] = ()
    owners: tuple[Jid, ...] = ()
    held: int = 0
    of_account: int = 1
    waiting: int = 1
    unused: int = 1


@unique
class Candidate(Enum):
    """The standing of an account that may subscribe; the first that is true."""

    UNAPPROVED = auto()
    """An owner has to approve its subscriptions, and has approved none."""
    FULL = auto()
    """It holds as many items as one subscription may have in flight."""
    WELCOME = auto()


# fmt: off
TAKE: Final[dict[Candidate, Refusal | None]] = {
    Candidate.UNAPPROVED: Refusal.NOT_APPROVED,
    Candidate.FULL:       Refusal.WINDOW_FULL,
    Candidate.WELCOME:    None,
}
# fmt: on


def take(request: Take, facts: TakeFacts) -> Decision:
    """Open a window for one delivery, for an account that may subscribe and has room."""
    node = facts.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    no = objection(request.by, _as_subscriber(facts), node)
    if no is not None:
        return no
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    candidate = _candidate(request.by, facts, node)
    if (refusal := TAKE[candidate]) is not None:
        is_full = candidate is Candidate.FULL
        return refuse(refusal, limit=node.config.max_queue_requests if is_full else None)
    opened = OpenWindow(
        *(node.name, request.number, request.by, request.count, facts.unused - 1),
        bytes=request.bytes,
        span=request.span,
        ahead=request.ahead,
    )
    reply = Taken(node.name, crowded=_crowded(request, facts))
    return Decision(reply, (opened, *_used(request, facts, node)))


def _used(request: Take, facts: TakeFacts, node: Node) -> tuple[Change, ...]:
    """Note that the queue is in use, for as long as the locks of the items may last."""
    if node.config.unused_expire is None:
        return ()
    return used(node, facts.now, later(request.wait, seconds(node.config.lock_timeout)))


def barred(by: Principal, node: Node | None, affiliation: Affiliation) -> Refusal | None:
    """Return why a waiting account may not have items of the node any more: the node, or the account's affiliation, has changed meanwhile."""
    if node is None:
        return Refusal.NODE_NOT_FOUND
    if not node.config.queueing:
        return Refusal.NOT_A_QUEUE
    standing = access.standing_of(by, affiliation)
    if (closed := access.barred(standing, node)) is not None:
        return closed
    by_roster = standing is Affiliation.NONE and node.config.access_model in access.OF_ROSTERS
    may = by_roster or access.may(standing, access.Action.SUBSCRIBE, node)
    return None if may else Refusal.FORBIDDEN


def _as_subscriber(facts: TakeFacts) -> SubscribeFacts:
    """Return the facts by which a subscription is judged: a pending one counts if there is no active one."""
    waits = None if _is_subscribed(facts) else next(iter(facts.subscriptions), None)
    return SubscribeFacts(facts.now, facts.node, facts.affiliation, waits, owners=facts.owners)


def _is_subscribed(facts: TakeFacts) -> bool:
    return any(one.state is SubscriptionState.SUBSCRIBED for one in facts.subscriptions)


def _candidate(by: Principal, facts: TakeFacts, node: Node) -> Candidate:
    asks = access.needs_approval(access.standing_of(by, facts.affiliation), node)
    if asks and not _is_subscribed(facts):
        return Candidate.UNAPPROVED
    if facts.held >= node.config.max_queue_requests:
        return Candidate.FULL
    return Candidate.WELCOME


def _crowded(request: Take, facts: TakeFacts) -> int | None:
    """Return how many takes of the account may wait, if this one is too many: it gets an item that is ready, and does not wait."""
    most = share(MAX_OF_ACCOUNT, MAX_WAITING, MAX_WAITING - facts.waiting + 1)
    return most if request.wait and facts.of_account > most else None
