"""The nouns of the queue, as the XEPs spell them. Values only: nothing here decides anything."""

from __future__ import annotations

from enum import StrEnum, unique
from hashlib import blake2b
from typing import Final, NewType
from zlib import crc32

from msgspec import Struct

from pubqueue.core.addresses import Jid as Jid  # noqa: PLC0414  # a noun of the queue too
from pubqueue.core.addresses import account_of

NodeName = NewType("NodeName", str)
"""A NodeID (XEP-0060 4.6.2), normalised, unique in the service."""

ItemId = NewType("ItemId", str)
"""An ItemID, unique in its node."""

MAX_ID_LENGTH: Final = 1023
"""Bytes of a NodeID or ItemID (XEP-0060 4.6.2)."""

Millis = NewType("Millis", int)
"""Milliseconds since 1970-01-01 UTC, or a span of them."""

Headers = tuple[tuple[str, str], ...]
"""What a publisher says about an item beside its payload: names and values, in order (XEP-0131)."""


def seconds(count: float) -> Millis:
    """Return a span of so many seconds."""
    return Millis(round(count * 1000))


def later(moment: Millis, span: Millis) -> Millis:
    """Return the moment that is `span` after `moment`."""
    return Millis(moment + span)


def digest(payload: bytes) -> bytes:
    """Return what stands for a payload after its item is gone."""
    return blake2b(payload, digest_size=16).digest()


def mark_of(subid: str) -> str:
    """Return a short word for the id of a subscription, by which its deliveries are known; empty for none."""
    return f"{crc32(subid.encode()):08x}" if subid else ""


NO_TIME: Final = Millis(0)


@unique
class State(StrEnum):
    """Where an item is. An item that is gone has no row and so no state."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    QUEUED = "queued"
    LOCKED = "locked"
    DELAYED = "delayed"
    DEAD = "dead"


@unique
class Affiliation(StrEnum):
    """What a bare JID is to a node (XEP-0060 4.1)."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    OWNER = "owner"
    PUBLISHER = "publisher"
    PUBLISH_ONLY = "publish-only"
    MEMBER = "member"
    NONE = "none"
    OUTCAST = "outcast"


@unique
class AccessModel(StrEnum):
    """Who may subscribe and retrieve (XEP-0060 4.5); of presence and roster the owners' rosters tell, where they can be asked."""

    OPEN = "open"
    PRESENCE = "presence"
    ROSTER = "roster"
    AUTHORIZE = "authorize"
    WHITELIST = "whitelist"


@unique
class SubscriptionState(StrEnum):
    """How a subscription stands (XEP-0060 4.2); there is no row for NONE."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    SUBSCRIBED = "subscribed"
    PENDING = "pending"
    NONE = "none"


@unique
class PublishModel(StrEnum):
    """Who may publish (XEP-0060 16.4.4)."""

    PUBLISHERS = "publishers"
    SUBSCRIBERS = "subscribers"
    OPEN = "open"


@unique
class NodeFull(StrEnum):
    """What becomes of an item that a full node is offered (XEP-0060 16.4.4, publish_node_full)."""

    RETRACT_OLDEST = "retract-oldest"
    DISCARD_OLDEST = "discard-oldest"
    REJECT = "reject"


@unique
class SendLast(StrEnum):
    """When somebody is sent the last item of a node unasked (XEP-0060 16.4.4)."""

    NEVER = "never"
    ON_SUB = "on_sub"


@unique
class NotificationType(StrEnum):
    """The kind of message that tells subscribers of a node (XEP-0060 12.7)."""

    HEADLINE = "headline"
    NORMAL = "normal"


@unique
class ItemReply(StrEnum):
    """Whom replies to an item are for: with `publisher` the service says who that is (XEP-0060 12.17)."""

    PUBLISHER = "publisher"
    NONE = "none"


class Contact(Struct, frozen=True, gc=False):
    """What an owner's roster says of somebody: whether it gets the owner's presence, and the groups that it is in."""

    sees_presence: bool
    groups: tuple[str, ...] = ()


class Principal(Struct, frozen=True, gc=False):
    """Who makes a request, and what the service's own settings say of them.

    `contact` is what the rosters of the node's owners say, None as long as nobody has asked for them. `rosters` says
    that the rosters of its own server's accounts can be asked for. `anonymous` is an account that nobody stands behind.
    """

    jid: Jid
    admin: bool = False
    local: bool = False
    rosters: bool = False
    anonymous: bool = False
    contact: tuple[Contact, ...] | None = None

    @property
    def account(self) -> Jid:
        """The account behind the request."""
        return account_of(self.jid)


class NodeConfig(Struct, frozen=True, gc=False):
    """Every setting of a node that the service acts on. Spans are in seconds, sizes in bytes.

    The bounds are the table in `nodeconfig`. `None` means no limit.
    """

    title: str = ""
    """A short name, shown in service discovery."""
    description: str = ""
    """What the node is for, shown in service discovery."""
    type: str = ""
    """The namespace of the payloads; a payload in another namespace is refused. Empty: any."""
    access_model: AccessModel = AccessModel.OPEN
    """Who may subscribe: `open` (everybody), `authorize` (accounts that an owner approves), `presence` and `roster`
    (contacts of an owner, if the server lets the service read rosters, XEP-0356), `whitelist` (members, publishers
    and owners). A node that becomes a queue is `whitelist` unless another model is set."""
    publish_model: PublishModel = PublishModel.PUBLISHERS
    """Who may publish: `publishers`, `subscribers` or `open`."""
    max_items: int | None = None
    """How many items it keeps. A full queue refuses new items and never drops one; for a plain node see
    `publish_node_full`. If the number is lowered on a plain node, the oldest items are dropped at once."""
    max_payload_size: int = 65_536
    """Bytes of a payload; up to 262144 over XMPP."""
    item_expire: int | None = None
    """Seconds after which an item that no worker holds is dead, or in a plain node deleted. A lower value also
    applies to existing items, a higher one only to items published from then on."""
    notify_retract: bool = True
    """Whether subscribers of a plain node are notified of retracted items."""
    notify_delete: bool = True
    """Whether subscribers are notified when the node is deleted."""
    queueing: bool = False
    """Whether the node is a work queue; changes only while it has no items and no subscribers."""
    lock_timeout: int = 300
    """Seconds for which a worker may hold an item without extending its lock."""
    max_failures: int = 20
    """Expired locks, lost workers and reported failures after which an item is dead; a plain unlock does not
    count."""
    dead_letter_node: str = ""
    """The node that receives dead items, as a publish by the owners. If it is empty, or refuses the item, the item
    stays in the queue, dead."""
    dead_letter_meant: str = ""
    """No setting: which node of that name was meant (`core.nodes.references`)."""
    backoff_min: int = 1
    """Seconds of the pause after the second failure of an item; each further one doubles it. The first failure
    costs no pause."""
    backoff_max: int = 60
    """Seconds of the longest pause after a failure."""
    dedup_window: int = 0
    """Seconds for which the id of finished work absorbs another publish of the same payload."""
    max_queue_requests: int = 1000
    """The largest window of a subscriber; a larger request is reduced to it."""
    group_limit: int = 1
    """Maximum number of items of one group that are in flight at a time."""
    rate: float | None = None
    """Maximum number of items that are delivered per second."""
    unsubscribe_on_unavailable: bool = True
    """Whether a worker that goes offline loses its subscription. It loses its locks in any case."""
    paused: bool = False
    """Whether deliveries are paused."""
    publish_paused: bool = False
    """Whether publishes are refused for now, with an error of type `wait`."""
    event_log: bool = False
    """Whether the node keeps a log of what happens to its items."""
    # most of these are for plain nodes to choose: `nodeconfig.OF_QUEUES` says what holds in queues
    persist_items: bool = True
    """Whether items are kept. With 0 only the last one is kept, for later requests and new subscribers."""
    deliver_notifications: bool = True
    """Whether subscribers are notified at all."""
    deliver_payloads: bool = True
    """Whether notifications contain the payloads. With 0 they name the items, which can be read with `items`. If
    `persist_items` is 0 as well, nothing is kept, a publish has no item, and its event only says that something
    happened."""
    publish_node_full: NodeFull = NodeFull.RETRACT_OLDEST
    """What a full node does. `retract-oldest`: the oldest item is dropped, and subscribers are notified if
    `notify_retract` is on. `discard-oldest`: it is dropped without a notification. `reject`: the publish is
    refused. Nodes with a limit that are older than this setting reject, as they did before."""
    send_last_published_item: SendLast = SendLast.NEVER
    """`on_sub`: each new subscriber is sent the last item; or `never`."""
    notification_type: NotificationType = NotificationType.HEADLINE
    """The type of notification messages: `headline`, for subscribers who are online, or `normal`."""
    presence_based_delivery: bool = False
    """Whether only subscribers who are known to be online are notified: those who sent their presence to the
    service, which is all that a component sees."""
    notify_config: bool = False
    """Whether subscribers are notified when these settings change."""
    itemreply: ItemReply = ItemReply.PUBLISHER
    """With `none` items do not name their publisher; otherwise `publisher`."""
    language: str = ""
    """The language of the items, shown in service discovery."""
    contact: str = ""
    """The contacts for questions about the node, shown in service discovery: bare JIDs, one per line."""
    subscribe: bool = True
    """With 0 nobody new may subscribe."""
    tempsub: bool = False
    """Whether every subscription ends when its subscriber goes offline, in plain nodes too."""
    notify_sub: bool = False
    """Whether owners are notified of new and ended subscriptions."""
    multi_subscribe: bool = False
    """Whether each subscribe of a JID creates one more subscription (XEP-0060 6.1.6)."""
    roster_groups_allowed: str = ""
    """With the access model `roster`: the groups of an owner's roster whose members may subscribe, one per line."""

    @property
    def persists(self) -> bool:
        """Whether items are kept after their publish."""
        return self.queueing or self.persist_items

    @property
    def keeps(self) -> bool:
        """Whether an item is kept after its publish, be it the last one alone."""
        return self.persists or self.deliver_payloads


class Node(Struct, frozen=True, gc=False):
    """A node as stored. The counts are kept by the store with every change.

    `spent` is until when its rate is used up, in microseconds since 1970 (`core.queue.rate`); 0 before the first item.
    `bytes` is what its items count for together (`Item.size`).
    """

    name: NodeName
    config: NodeConfig
    creator: Jid
    created: Millis
    items: int = 0
    subscriptions: int = 0
    spent: int = 0
    bytes: int = 0


class Terms(Struct, frozen=True, gc=False):
    """One of several subscriptions of a JID to a node: what it does not share with the others (XEP-0060 6.1.6)."""

    subid: str
    deliver: bool = True
    expire: Millis | None = None
    remind: Millis | None = None
    temporary: bool = False

    @property
    def ends_next(self) -> Millis | None:
        """When there is something to do for its lease."""
        return self.expire if self.remind is None else self.remind


class Subscription(Struct, frozen=True, gc=False):
    """One JID's subscription to one node, with its window (XEP-0254 2.1) and its options (XEP-0060 6.3).

    It is `available` as long as it can be handed items, or told of what happens: never while it is pending, or wants
    nothing delivered. A lease ends at `expire`; that it will is to be said at `remind`, None once it has been. One that
    is `temporary` ends when its JID becomes unavailable (XEP-0060 12.5).

    Where a JID has `several` subscriptions to a node they stand together here, the oldest first, and what is said of
    options outside is what holds of all of them: `core.several` puts them together and takes them apart.
    """

    node: NodeName
    jid: Jid
    subid: str
    queue_requests: int
    in_flight: int = 0
    last_served: int = 0
    available: bool = True
    unanswered: int = 0
    """Deliveries in a row that came back, or timed out, with no other sign of life from the subscriber since."""
    state: SubscriptionState = SubscriptionState.SUBSCRIBED
    deliver: bool = True
    expire: Millis | None = None
    remind: Millis | None = None
    temporary: bool = False
    several: tuple[Terms, ...] = ()
    """Two or more; or one, if this is one of several taken by itself. () if the JID has no other."""

    @property
    def listens(self) -> bool:
        """Whether it may be told anything, and wants to be."""
        return self.deliver and self.state is SubscriptionState.SUBSCRIBED

    @property
    def ends_next(self) -> Millis | None:
        """When there is something to do for its lease."""
        return self.expire if self.remind is None else self.remind


class DeadLetter(Struct, frozen=True, gc=False):
    """What is kept of an item that died: when, why, in which other node if any, who held it last.

    `number` rises with every dead letter of the service.
    """

    number: int
    at: Millis
    reason: str
    origin: NodeName | None = None
    holder: Jid | None = None


class Item(Struct, frozen=True, gc=False):
    """An item as stored, without its payload.

    `holder` and `deadline` are set exactly while the item is locked. `token` is the last lock token
    given for the item; tokens only rise. `acquired` counts how often it was handed out, `failed` how
    often that ended badly, `released` how often it was unlocked without blame. `avoid` is who let go
    of it last. `due` is when a delayed item may go out; it stays set afterwards, as the sign that
    the item has waited its turn. `taken` is when it was handed out last. `aside` says that it is delayed only for the one it avoids.
    `dead_letter` is set when the item dies, until it lives again or goes, in a dead-letter node too. `transaction` is the app
    and the version that published it, if it came in a transaction. `group` is the group of the node's items that it is of,
    empty if it is of none; `turn` is set while it is the group's turn with this item: it is ready, in work, or waits for
    another try, and stands at this number in the order of what is ready (`core.queue.groups`). `failure` is why it
    failed last, or was given back last with a reason, in the life that it has. `size` is how many
    bytes it counts for (`core.quotas.weight`).
    """

    seq: int
    node: NodeName
    id: ItemId
    state: State
    publisher: Jid
    published: Millis
    priority: int = 0
    due: Millis | None = None
    expires: Millis | None = None
    acquired: int = 0
    failed: int = 0
    released: int = 0
    holder: Jid | None = None
    deadline: Millis | None = None
    token: int = 0
    avoid: Jid | None = None
    aside: bool = False
    taken: Millis | None = None
    headers: Headers = ()
    dead_letter: DeadLetter | None = None
    transaction: tuple[str, int] | None = None
    group: str = ""
    turn: int = 0
    failure: str | None = None
    size: int = 0

    @property
    def error(self) -> str:
        """Why it died, or else failed or was given back last; empty if nobody has said."""
        return self.dead_letter.reason if self.dead_letter else self.failure or ""


class Draft(Struct, frozen=True, gc=False):
    """An item as a publisher hands it in. `id` is already chosen, by them or by the face.

    `type` is the namespace of the payload; `group` is the group that the item is of, empty for none.
    """

    id: ItemId
    payload: bytes
    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None
    headers: Headers = ()
    type: str = ""
    group: str = ""
