"""What a rule returns: one reply, the changes that make it true, and the notices that follow.

Nothing is performed here. The shell applies the changes in one transaction, and only after its
commit it sends the reply and then the notices, in order.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from enum import Enum, auto, unique
from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.reading import pages
from pubqueue.core.reading.listing import WHOLE, Part
from pubqueue.core.schedules import model as schedules
from pubqueue.core.transactions import model as transactions

if TYPE_CHECKING:
    from pubqueue.core.changes import Change
    from pubqueue.core.model import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Subscription,
        SubscriptionState,
    )
    from pubqueue.core.notices import News, Notice


@unique
class Refusal(Enum):
    """Every kind of refusal. A face owns the words; the table of each face must have a row for each kind."""

    NODE_NOT_FOUND = auto()
    """The node does not exist."""
    ITEM_NOT_FOUND = auto()
    """The item does not exist, or is done."""
    FORBIDDEN = auto()
    """The account has no permission to do this in the node."""
    NOT_YOURS = auto()
    """The item is not locked to this subscriber, and never was; or only another account may retract it."""
    LOCKED_BY_ANOTHER = auto()
    """The item is locked to another subscriber."""
    LOCK_LOST = auto()
    """The lock on the item has expired, and the item waits again."""
    ITEM_EXISTS = auto()
    """An item with this id exists and is dead, or of another publish. Redrive or retract it first."""
    PUBLISH_PAUSED = auto()
    """Publishing to the node is paused (`publish_paused`)."""
    NOT_A_QUEUE = auto()
    """The node is not a queue, and the request is for queues."""
    NODE_EXISTS = auto()
    """A node of this name exists."""
    NODE_FULL = auto()
    """The node has its maximum number of items (`max_items`)."""
    TOO_MANY_ITEMS = auto()
    """The request has too many items."""
    PAYLOAD_TOO_BIG = auto()
    """The payload is larger than the node allows (`max_payload_size`)."""
    HEADERS_TOO_BIG = auto()
    """The item has too many headers, or too long ones."""
    ITEM_LOCKED = auto()
    """The item is being worked on; its payload cannot be replaced now."""
    CLOSED_NODE = auto()
    """The node is closed; an owner must add the account as a member."""
    CONFIGURATION_REQUIRED = auto()
    """A subscription to a queue must set its window, the number of items in flight (XEP-0254 2.1)."""
    INVALID_OPTIONS = auto()
    """The subscription options are invalid."""
    INVALID_CONFIG = auto()
    """The node settings are invalid; the text names the setting."""
    UNSUPPORTED_ACCESS_MODEL = auto()
    """The access model does not exist."""
    FOREIGN_JID = auto()
    """An account can only subscribe its own JIDs."""
    NOT_SUBSCRIBED = auto()
    """The JID is not subscribed."""
    PENDING_SUBSCRIPTION = auto()
    """An owner has not approved the subscription yet."""
    NO_PRESENCE_SUBSCRIPTION = auto()
    """The access model is for contacts that may see the presence of an owner."""
    NOT_IN_ROSTER_GROUP = auto()
    """The access model is for some groups of an owner's roster."""
    NOT_APPROVED = auto()
    """Only subscribers approved by an owner may retrieve items."""
    NOT_ALL_CHANGED = auto()
    """Some entries of the list could not be changed; the others were."""
    TOO_MANY_SUBSCRIPTIONS = auto()
    """The account has its maximum number of subscriptions to the node."""
    SUBID_REQUIRED = auto()
    """The JID has several subscriptions to the node, and the request names none of them."""
    INVALID_SUBID = auto()
    """The subscription has another id."""
    STORE_FAILED = auto()
    """The store cannot do this now; try again later."""
    INTERNAL_FAULT = auto()
    """The request has met a defect of the service, and would meet it again."""
    LAST_OWNER = auto()
    """A node must have an owner."""
    BAD_REQUEST = auto()
    """The request contradicts itself, or is incomplete; the text has the details."""
    WRONG_PAYLOAD = auto()
    """The payload is not in the node's namespace (`type`)."""
    UNSUPPORTED = auto()
    """The service does not support this; `setting` names the feature, in the words of the face."""
    TOO_MUCH_KEPT = auto()
    """The account that created the node has its maximum number of items, or of bytes (`[limits]`)."""
    TOO_MANY_NODES = auto()
    """The account has created its maximum number of nodes (`[limits]`)."""
    TOO_MUCH_STAGED = auto()
    """Too much is staged for uncommitted transactions."""
    STILL_NOTIFYING = auto()
    """Too many notifications of earlier events in the node are still to be sent."""
    NOT_AS_STAGED = auto()
    """The commit does not match what is staged; the text states the difference."""
    PRECONDITION_NOT_MET = auto()
    """A setting of the node differs from the publish-options (XEP-0060 7.1.5)."""
    ITEM_REQUIRED = auto()
    """The node keeps items, and the publish has none."""
    ITEM_FORBIDDEN = auto()
    """The node keeps no items, and the publish has one."""
    PAYLOAD_REQUIRED = auto()
    """The item has no payload, and the node requires one."""
    MOVED = auto()
    """The node has moved; its new URI is in `reason`."""


class SubscriptionEntry(Struct, frozen=True, gc=False):
    """How a JID's subscription to a node stands; without one it has no id."""

    jid: Jid
    state: SubscriptionState
    subid: str = ""


class Refused(Struct, frozen=True, gc=False):
    """A refusal; nothing changes. `reason` is a sentence for the requester, `limit` a bound to name.

    `unchanged` are the affiliations, and `standing` the subscriptions, that could not be changed;
    the other entries of such a list are changed (XEP-0060 8.8.2.4, 8.9.2.4). `setting` is the name
    of the invalid value, if the sentence begins with it: a face may have another name for it.
    """

    refusal: Refusal
    reason: str = ""
    limit: int | None = None
    unchanged: tuple[tuple[Jid, Affiliation], ...] = ()
    setting: str = ""
    standing: tuple[SubscriptionEntry, ...] = ()


def in_words(refused: Refused) -> str:
    """Return why a request was refused, for the operator of its origin: a schedule, a queue's dead items."""
    name = refused.refusal.name.lower().replace("_", " ")
    bound = "" if refused.limit is None else f" ({refused.limit})"
    return f"{name}{bound}: {refused.reason}" if refused.reason else f"{name}{bound}"


class Done(Struct, frozen=True, gc=False):
    """Success without any data."""


class Emptied(Struct, frozen=True, gc=False):
    """The node has no items any more; this is how many it had."""

    node: NodeName
    items: int


class Withdrawn(Struct, frozen=True, gc=False):
    """The items are deleted; these were locked to other accounts, which may still be working on them."""

    locked: tuple[ItemId, ...]


class Published(Struct, frozen=True, gc=False):
    """The items are durable, under these ids; `dead` are those of them that are there, but dead.

    `known` are those that a queue had before, or has done within its deduplication window: they changed nothing.
    """

    node: NodeName
    ids: tuple[ItemId, ...]
    dead: tuple[Item, ...] = ()
    known: tuple[ItemId, ...] = ()


class Subscribed(Struct, frozen=True, gc=False):
    """The subscription as it is now; on a queue node with its window (XEP-0254 example 3).

    `configured` means that options were requested: they are shown as granted.
    """

    subscription: Subscription
    queueing: bool
    configured: bool = False


class Unsubscribed(Struct, frozen=True, gc=False):
    """The subscription as it was, which has ended (XEP-0060 6.2.2)."""

    subscription: Subscription


class RostersWanted(Struct, frozen=True, gc=False):
    """The principal's entry in the rosters of these owners has to be looked up; then the request is repeated."""

    owners: tuple[Jid, ...]


class DefaultOptions(Struct, frozen=True, gc=False):
    """The options that a subscription has unless others are asked for (XEP-0060 6.4), at the service or at `node`.

    `limit` is the largest window of a queue, where one has to be asked for.
    """

    node: NodeName | None
    temporary: bool = False
    limit: int | None = None


class Created(Struct, frozen=True, gc=False):
    """The node exists, and the principal owns it."""

    node: NodeName


class Difference(Struct, frozen=True, gc=False):
    """A setting, or an account, that is stored as one thing and declared as another; and why it stays, if it does."""

    name: str
    stored: str
    declared: str
    reason: str = ""


class Declared(Struct, frozen=True, gc=False):
    """The declared node is there: `made`, or with these differences brought to what is declared, or `kept`.

    `unnamed` are accounts that are something to the node though nothing was declared of them.
    """

    node: NodeName
    made: bool
    changed: tuple[Difference, ...] = ()
    kept: tuple[Difference, ...] = ()
    unnamed: tuple[Jid, ...] = ()


class Described(Struct, frozen=True, gc=False):
    """A node, for an owner or for discovery, or with its items.

    `depth` is the number of its items, for a principal that may know it.
    """

    node: Node
    owners: tuple[Jid, ...] = ()
    publishers: tuple[Jid, ...] = ()
    depth: int | None = None


class Listed(Struct, frozen=True, gc=False):
    """Names with titles: nodes of the service, or items of a node."""

    entries: tuple[tuple[str, str], ...]
    node: NodeName | None = None
    part: Part = WHOLE


class Affiliations(Struct, frozen=True, gc=False):
    """The affiliations of the node (XEP-0060 8.9.1)."""

    node: NodeName
    entries: tuple[tuple[Jid, Affiliation], ...]
    part: Part = WHOLE


class NodeSubscriptions(Struct, frozen=True, gc=False):
    """Subscriptions to the node, for its owners: those that stand (XEP-0060 8.8.1), or wait for one of them."""

    node: NodeName
    entries: tuple[Subscription, ...]
    part: Part = WHOLE


class MyAffiliations(Struct, frozen=True, gc=False):
    """What the principal is to nodes (XEP-0060 5.7): to all of them, or to `node`."""

    entries: tuple[tuple[NodeName, Affiliation], ...]
    node: NodeName | None = None
    part: Part = WHOLE


class MySubscriptions(Struct, frozen=True, gc=False):
    """The subscriptions of the principal's JIDs (XEP-0060 5.6): all of them, or those to `node`."""

    entries: tuple[Subscription, ...]
    node: NodeName | None = None
    part: Part = WHOLE


class Touched(Struct, frozen=True, gc=False):
    """The locks, with their deadlines as they now stand."""

    node: NodeName
    entries: tuple[tuple[ItemId, Millis], ...]


class Redriven(Struct, frozen=True, gc=False):
    """The number of dead items of the node that were redriven; with `through`, more with the reason may follow that number."""

    node: NodeName
    count: int
    through: int = 0


class Cancelled(Struct, frozen=True, gc=False):
    """The number of items of the node that are removed, of which `held` were locked; `missing` did not exist.

    With `through`, more matching items may follow that number.
    """

    node: NodeName
    count: int
    held: int = 0
    missing: tuple[ItemId, ...] = ()
    through: int = 0


class Recovered(Struct, frozen=True, gc=False):
    """A slice of the locks is looked at; these hold them."""

    holders: tuple[Jid, ...]


class Resent(Struct, frozen=True, gc=False):
    """Deliveries under tokens of the span are sent again; `after` is where there may be more, None at the end."""

    span: tuple[int, int]
    after: tuple[Millis, int] | None


class SubscriberPage(Struct, frozen=True, gc=False):
    """Some of the subscribers of a node; there may be more after `after`, None at the end.

    `subids` are the ids of subscribers that subscribe several times.
    """

    jids: tuple[Jid, ...]
    after: Jid | None
    subids: Mapping[Jid, tuple[str, ...]] = {}


class Unnotified(Struct, frozen=True, gc=False):
    """Deleted nodes that still have subscribers to notify; there may be more after `after`, None at the end."""

    nodes: tuple[NodeName, ...]
    after: int | None


class Retrieved(Struct, frozen=True, gc=False):
    """Items of a node, oldest first, with their payloads."""

    node: Node
    items: tuple[tuple[Item, bytes], ...]
    part: Part = WHOLE


class Expired(Struct, frozen=True, gc=False):
    """What has run out is ended, but for rows that cannot be read; the `schedules` are due, the longest overdue first."""

    schedules: tuple[str, ...] = ()
    """Their names."""
    unread: tuple[tuple[str, ...], ...] = ()
    """The keys of the rows."""


class Overdue(Struct, frozen=True, gc=False):
    """What rows have run out, by their keys."""

    keys: tuple[tuple[str, ...], ...]


Reply = (
    Refused
    | Done
    | Emptied
    | Withdrawn
    | Published
    | Subscribed
    | Unsubscribed
    | RostersWanted
    | DefaultOptions
    | NodeSubscriptions
    | Created
    | Declared
    | Described
    | Listed
    | Affiliations
    | MyAffiliations
    | MySubscriptions
    | Touched
    | Redriven
    | Cancelled
    | Recovered
    | Resent
    | Retrieved
    | SubscriberPage
    | Unnotified
    | Expired
    | Overdue
    | transactions.Reply
    | schedules.Reply
    | pages.Reply
)


class Decision(Struct, frozen=True, gc=False):
    """A rule's answer. A refusal carries no change and no notice, except for entries of a list that could be changed.

    `then` is the request for the next slice of long work. Other requests are served before it, and
    the requester is answered after the last slice. The next slice waits until the notices to many
    of this one are sent.
    """

    reply: Reply
    changes: tuple[Change, ...] = ()
    notices: tuple[Notice | News, ...] = ()
    then: Struct | None = None


def refuse(refusal: Refusal, reason: str = "", *, limit: int | None = None) -> Decision:
    """Refuse: nothing changes and nothing is sent to others."""
    return Decision(Refused(refusal, reason, limit))
