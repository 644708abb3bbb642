"""The nouns of the queue, as the XEPs spell them. Values only: nothing here decides anything."""

from __future__ import annotations

import re
from difflib import get_close_matches
from enum import StrEnum, unique
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NewType
from zlib import crc32

from msgspec import Struct
from msgspec.structs import force_setattr

from pubqueue.model.joins import JoinDead
from pubqueue.model.waits import (  # msgspec reads them
    AtDeadline,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


# States, models and other choices, as the XEPs spell them. Values only: nothing here decides anything.


@unique
class State(StrEnum):
    """The state of an item. An item that is gone has no row and so no state."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    QUEUED = "queued"
    LOCKED = "locked"
    DELAYED = "delayed"
    HELD = "held"
    DEAD = "dead"
    DONE = "done"


@unique
class Affiliation(StrEnum):
    """The affiliation of a bare JID with a node (XEP-0060 4.1)."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    OWNER = "owner"
    PUBLISHER = "publisher"
    PUBLISH_ONLY = "publish-only"
    MEMBER = "member"
    NONE = "none"
    OUTCAST = "outcast"


@unique
class AccessModel(StrEnum):
    """The access models (XEP-0060 4.5); for presence and roster the owners' rosters decide, if they can be read."""

    OPEN = "open"
    PRESENCE = "presence"
    ROSTER = "roster"
    AUTHORIZE = "authorize"
    WHITELIST = "whitelist"


@unique
class SubscriptionState(StrEnum):
    """The state of a subscription (XEP-0060 4.2); there is no row for NONE."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    SUBSCRIBED = "subscribed"
    PENDING = "pending"
    NONE = "none"


@unique
class PublishModel(StrEnum):
    """The publish models (XEP-0060 16.4.4)."""

    PUBLISHERS = "publishers"
    SUBSCRIBERS = "subscribers"
    OPEN = "open"


@unique
class NodeFull(StrEnum):
    """What a full node does with a new item (XEP-0060 16.4.4, publish_node_full)."""

    RETRACT_OLDEST = "retract-oldest"
    DISCARD_OLDEST = "discard-oldest"
    REJECT = "reject"


@unique
class AtExpiry(StrEnum):
    """What happens to an expired item of a queue."""

    DEAD = "dead"
    DROP = "drop"
    TRUNCATE = "truncate"


@unique
class SendLast(StrEnum):
    """When a subscriber is sent the last item of a node (XEP-0060 16.4.4)."""

    NEVER = "never"
    ON_SUB = "on_sub"


@unique
class NotificationType(StrEnum):
    """The kind of message that notifies subscribers of a node (XEP-0060 12.7)."""

    HEADLINE = "headline"
    NORMAL = "normal"


@unique
class Level(StrEnum):
    """How a delivery is carried: as a message, or in requests that are answered (urn:xmpp:qos)."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    ASSURED = "assured"


@unique
class Fair(StrEnum):
    """Between what a queue shares the time of its workers; the values are those of the form field."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    OFF = "off"
    GROUP = "group"


class ItemReply(StrEnum):
    """The address for replies to an item: with `publisher` the service adds it (XEP-0060 12.17)."""

    PUBLISHER = "publisher"
    NONE = "none"


# Names, times and digests. Values only: nothing here decides anything.

NodeName = NewType("NodeName", str)
"""A NodeID (XEP-0060 4.6.2), normalised, unique in the service."""

ItemId = NewType("ItemId", str)
"""An ItemID, unique in its node."""

MAX_ID_LENGTH: Final = 1023
"""Bytes of a NodeID or ItemID (XEP-0060 4.6.2)."""

MAX_GROUP_LENGTH: Final = 255
"""Bytes of the name of a group."""

Millis = NewType("Millis", int)
"""Milliseconds since 1970-01-01 UTC, or a span of them."""

Headers = tuple[tuple[str, str], ...]
"""A publisher's headers of an item, sent beside its payload: names and values, in order (XEP-0131)."""


def seconds(count: float) -> Millis:
    """Return a span of this many seconds."""
    return Millis(round(count * 1000))


def later(moment: Millis, span: Millis) -> Millis:
    """Return the moment that is `span` after `moment`."""
    return Millis(moment + span)


def digest(payload: bytes) -> bytes:
    """Return the digest that stands for a payload after its item is gone."""
    return blake2b(payload, digest_size=16).digest()


def mark_of(subid: str) -> str:
    """Return a short word for the id of a subscription, by which its deliveries are known; empty for none."""
    return f"{crc32(subid.encode()):08x}" if subid else ""


NO_TIME: Final = Millis(0)


# A node and its settings. Values only: nothing here decides anything.


class Feed(Struct, frozen=True, gc=False):
    """A queue that a plain node feeds, and the account that has set that node as its source."""

    queue: NodeName
    by: Jid


class LeftOut(Struct, frozen=True, gc=False):
    """What a fed queue could not take: how many items, when the last of them came, and why it was left out."""

    items: int
    at: Millis
    why: str


class Policy(Struct, frozen=True, gc=False):
    """A policy of a protocol, as its client has set it: the affiliations that it gives, and accounts that may only see the node."""

    text: str
    gives: tuple[tuple[Jid, Affiliation], ...]
    viewers: tuple[Jid, ...] = ()

    @property
    def etag(self) -> str:
        """A value that distinguishes two policies."""
        return blake2b(self.text.encode(), digest_size=12).hexdigest()


NO_POLICY: Final = Policy("", ())


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
    """Which accounts may subscribe: `open` (all), `authorize` (accounts that an owner approves),
    `presence` and `roster` (contacts of an owner, if the server lets the service read rosters,
    XEP-0356), `whitelist` (members, publishers and owners). A node that becomes a queue is
    `whitelist` unless another model is set."""
    publish_model: PublishModel = PublishModel.PUBLISHERS
    """Which accounts may publish: `publishers`, `subscribers` or `open`."""
    max_items: int | None = None
    """How many items it keeps. A full queue refuses new items and never drops one; for a plain node see
    `publish_node_full`. If the number is lowered on a plain node, the oldest items are dropped at once."""
    max_bytes: int | None = None
    """How many bytes its items may have together: payloads, and names and values of headers. A full node does the same as with
    `max_items`. If the number is lowered on a plain node, the oldest items are dropped at once."""
    max_payload_size: int = 65_536
    """Bytes of a payload, up to 14680064. XMPP carries 262144: a larger item is delivered only to a worker of another protocol, and
    subscribers of a plain node get only its id."""
    item_expire: int | None = None
    """Seconds after which an item that no worker holds is dead, or in a plain node deleted. A lower value also
    applies to existing items, a higher one only to items published from then on."""
    expired: AtExpiry = AtExpiry.DEAD
    """What becomes of an item of a queue whose lifetime is over: it is `dead`, or with `drop` deleted. With `truncate`
    it is deleted, a full queue deletes its oldest items that no worker holds instead of refusing new ones, and an item
    `truncated` of the service says so until it is retracted."""
    notify_retract: bool = True
    """Whether subscribers of a plain node are notified of retracted items."""
    notify_delete: bool = True
    """Whether subscribers are notified when the node is deleted."""
    queueing: bool = False
    """Whether the node is a work queue; changes only while it has no items and no subscribers."""
    lock_timeout: int = 300
    """Seconds for which a worker may hold an item without extending its lock."""
    keep_done: bool = False
    """Whether items of a queue that their workers have retracted are kept, so that they can be read and brought back: for the seconds of
    `item_expire` since they were published and of `done_ttl` since they were done, the newest ones, up to `done_max` of them and up to
    `max_bytes` (counted separately). They are listed by their state alone, and `max_items` does not count them."""
    done_ttl: int | None = None
    """Seconds for which an item is kept after it was done, if `keep_done` is on. Empty: any time. It may be dropped later than that."""
    done_max: int | None = None
    """How many done items are kept, if `keep_done` is on; beyond that those that were published first are dropped. Empty: any number. There
    may be more for a while."""
    unused_expire: int | None = None
    """Seconds after which a queue that has no subscribers, and of which no items are asked for, is deleted with all its items. Empty:
    never. It may be deleted later than that."""
    used: Millis = NO_TIME
    """Not a setting: the approximate time until which items were requested (`rules.declare`)."""
    lock_longest: int | None = None
    """Seconds for which a worker may hold an item by extending its lock, if that is more than `lock_timeout`."""
    max_failures: int = 20
    """Expired locks, lost workers and reported failures after which an item is dead; a plain unlock does not
    count."""
    join_dead: JoinDead = JoinDead.WAIT
    """What a dead item means for a join of this queue that waits for it: the join goes on waiting (`wait`), it is as if the item were done
    (`count`), or the join is dead too (`fail`)."""
    dead_letter_node: str = ""
    """The node that receives dead items, as a publish by the owners. If it is empty, or refuses the item, the item
    stays in the queue, dead. A plain node that keeps no items passes them on to all the queues that it feeds,
    in the same commit."""
    dead_letter_meant: str = ""
    """Not a setting: which node of that name was meant (`rules.access`)."""
    dead_ttl: int | None = None
    """Seconds after which a dead item is deleted, counted from its death: one that died here or was moved here, and that no worker holds.
    Empty: never. It may be deleted later than that."""
    dead_max: int | None = None
    """How many dead items are kept, of those that died here or were moved here; beyond that the oldest deaths are deleted. Empty: any
    number. There may be more for a while."""
    source: str = ""
    """The plain node that feeds the queue: each item that is published there enters the queue in the same commit.
    An owner of the queue who may subscribe to that node sets it. If the queue is full, or refuses an item, the publish
    is refused if that owner owns the plain node too or is a publisher of it; otherwise the item is left out of this
    queue alone. A plain node feeds up to 100 queues: 20 places are for its owners, and another account has at most as
    many as are left."""
    filter: str = ""
    """Which items of the `source` enter the queue, by their headers, such as `headers.kind = "order" AND NOT
    headers:test`. Empty: all."""
    feeds: tuple[Feed, ...] = ()
    """Not a setting: the queues that the node feeds (`rules.feed`)."""
    left_out: LeftOut | None = None
    """Not a setting: what the queue could not take of its `source` since that was set (`rules.feed`)."""
    backoff_min: int = 1
    """Seconds of the pause after the second failure of an item; each further one doubles it. The first failure
    costs no pause."""
    backoff_max: int = 60
    """Seconds of the longest pause after a failure, without what `backoff_jitter` adds."""
    backoff_jitter: float = 0.1
    """The share of a pause, from 0 to 1, up to which it is made longer, by another amount for each item and attempt: items that
    failed together come again one after the other. No pause is made shorter."""
    dedup_window: int = 0
    """Seconds for which the id of finished work absorbs another publish of the same payload."""
    max_queue_requests: int = 1000
    """The largest window of a subscriber; a larger request is reduced to it."""
    group_limit: int = 1
    """Maximum number of items of one group that are in flight at a time."""
    group_ahead: bool = False
    """Whether items of a group are sent ahead of the end of earlier ones, up to `group_limit`, in order and to one worker. If one comes
    back, those that were sent after it are sent again too."""
    fair: Fair = Fair.OFF
    """Whose item is next: with `off` the one of the highest priority, or else the oldest; with `group` one of the group that has used the
    least of the workers' time recently, in proportion to its weight. Items without a group count as one group."""
    weights: str = ""
    """With `fair`: shares of groups, `group=weight`, one per line, up to 100, from 1 to 1000; `=weight` is that of items without a group. All
    others have a weight of 1."""
    rate: float | None = None
    """Maximum number of items that are delivered per second."""
    qos: Level = Level.UNACKNOWLEDGED
    """How items of a queue are delivered to workers whose subscription does not say so itself, and whose clients offer `urn:xmpp:qos`:
    as messages (`unacknowledged`), or in requests that the client answers (`acknowledged`, `assured`)."""
    unsubscribe_on_unavailable: bool = True
    """Whether a worker that goes offline loses its subscription. It loses its locks in any case."""
    paused: bool = False
    """Whether deliveries are paused."""
    publish_paused: bool = False
    """Whether publishes are refused for now, with an error of type `wait`."""
    event_log: bool = False
    """Whether the node keeps a log of what happens to its items."""
    # most of these can be chosen for plain nodes only: `nodeconfig.OF_QUEUES` has the values for
    # queues
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
    """Whether only subscribers that are known to be online are notified: those that sent their
    presence to the service, which is all that a component sees, and clients that are connected to it."""
    notify_config: bool = False
    """Whether subscribers are notified when these settings change."""
    itemreply: ItemReply = ItemReply.PUBLISHER
    """With `none` items do not name their publisher; otherwise `publisher`."""
    language: str = ""
    """The language of the items, shown in service discovery."""
    contact: str = ""
    """The contacts for questions about the node, shown in service discovery: bare JIDs, one per line."""
    subscribe: bool = True
    """With 0 the node accepts no new subscriptions."""
    tempsub: bool = False
    """Whether every subscription ends when its subscriber goes offline, in plain nodes too."""
    notify_sub: bool = False
    """Whether owners are notified of new and ended subscriptions."""
    multi_subscribe: bool = False
    """Whether each subscribe of a JID creates one more subscription (XEP-0060 6.1.6)."""
    policy: Policy = NO_POLICY
    """Not a setting: the policy of the node (`rules.nodes`)."""
    labels: str = ""
    """Labels of the node, `name=value`, one per line: for programs that manage nodes. The service gives them no meaning, but those whose names
    begin with `x-pubqueue-` belong to protocols that it serves."""
    roster_groups_allowed: str = ""
    """With the access model `roster`: the groups of an owner's roster whose members may subscribe, one per line."""

    @property
    def longest_lock(self) -> int:
        """Seconds for which an item may be held without a new delivery."""
        return max(self.lock_timeout, self.lock_longest or 0)

    @property
    def persists(self) -> bool:
        """Whether items are kept after their publish."""
        return self.queueing or self.persist_items

    @property
    def keeps(self) -> bool:
        """Whether an item is kept after its publish, be it the last one alone."""
        return self.persists or self.deliver_payloads


class Node(Struct, frozen=True, gc=False):
    """A node as stored. The store keeps the counts with every change.

    `spent` is until when its rate is used up, in microseconds since 1970 (`rules.dispatch`); 0 before the first item.
    `bytes` is the total size of its items (`Item.size`). Done items that are kept are counted separately, as `done` and `done_bytes`.
    """

    name: NodeName
    config: NodeConfig
    creator: Jid
    created: Millis
    items: int = 0
    subscriptions: int = 0
    spent: int = 0
    bytes: int = 0
    done: int = 0
    done_bytes: int = 0
    damaged: bool = False
    """Whether its stored settings are not those that were written. It is closed then (`rules.damage`)."""


# The addresses of one account, whatever protocol they use.
#
# A face gives each entity an address: its account, followed by a slash and the name of the connection if the account
# has several. XMPP's bare and full JIDs are such addresses unchanged.

Jid = NewType("Jid", str)
"""A normalised address, bare or full."""

REMEMBERED: Final = 8192
"""Addresses, each of up to 3 KB: 40 MB in the worst case, if that many strangers have addresses of the maximum length."""


@lru_cache(maxsize=REMEMBERED)
def account_of(address: Jid) -> Jid:
    """Return the account that the address belongs to; for an account, the account itself."""
    return address.partition("/")[0]  # type: ignore[return-value]  # what is left of an address is one


def domain_of(address: Jid) -> str:
    """Return the domain of the address."""
    return account_of(address).rpartition("@")[2]


class Connection(Struct, frozen=True):
    """A connection of an account of the service itself: the word of its face, the number of its instance, its name there."""

    account: Jid
    word: str
    instance: int
    name: str

    @property
    def address(self) -> Jid:
        """Return its address, `name@service/word.INSTANCE.NAME`."""
        return Jid(f"{self.account}/{self.word}.{self.instance}.{self.name}")


NUMBER: Final = "(0|[1-9][0-9]{0,17})"
"""The pattern of a number in a name that is made here. No leading zero is written, and no digit that is not ASCII, so none is read."""


def is_number(text: str) -> bool:
    """Return whether a text is a number as it is written in a name that is made here."""
    return re.fullmatch(NUMBER, text) is not None


def connection(address: Jid, service: Jid) -> Connection | None:
    """Return the connection that has this address, None if it is not a connection of an account of the service.

    Such an address is the service's own: servers send only in the name of their own domains.
    """
    account, _, resource = address.partition("/")
    word, _, rest = resource.partition(".")
    instance, _, name = rest.partition(".")
    if account.partition("@")[2] != service or not is_number(instance) or not name:
        return None
    return Connection(Jid(account), word, int(instance), name)


def covers(subscribed: Jid, principal: Jid) -> bool:
    """Return whether `principal` acts for `subscribed`: for an account any connection, otherwise exactly it.

    Two connections of one account are two entities (XEP-0060 6.1.6).
    """
    return principal == subscribed or (
        "/" not in subscribed and account_of(principal) == subscribed
    )


# The limit of an item's headers, which is separate from that of its payload.

MAX_HEADERS: Final = 104
"""Headers of one item: a hundred attributes over gRPC and what else it keeps, and fewer than a request over HTTP or STOMP has room for."""

MAX_HEADER_NAME: Final = 256
"""Bytes of a header's name."""

MAX_BYTES: Final = 16_384
"""Bytes of all names and values of one item: a large payload leaves little room in the stanzas that faces send."""

DIED_IN: Final = "x-pubqueue-died-in"
"""The header of a dead item that a plain node has passed on: the queue in which it died."""

DELIVERIES: Final = "x-pubqueue-deliveries"
"""The header with the number of failed deliveries there."""


def with_death(headers: Headers, queue: str, failed: int) -> Headers:
    """Return the headers of an item that died in the queue, instead of those of an earlier death."""
    return (*without_death(headers), (DIED_IN, queue), (DELIVERIES, str(failed)))


def without_death(headers: Headers) -> Headers:
    """Return the headers that the item had when it was published."""
    return tuple([header for header in headers if header[0] not in {DIED_IN, DELIVERIES}])


def excess(headers: Headers) -> str | None:
    """Return which bound the headers exceed, or None."""
    if len(headers) > MAX_HEADERS:
        return f"an item has at most {MAX_HEADERS} headers"
    if any(len(name.encode()) > MAX_HEADER_NAME for name, _ in headers):
        return f"a header's name has at most {MAX_HEADER_NAME} bytes"
    if sum(len(name.encode()) + len(value.encode()) for name, value in headers) > MAX_BYTES:
        return f"the headers of an item have at most {MAX_BYTES} bytes"
    return None


# An item: as it is stored, as a publisher hands it in, and what is known of its death. Values only: nothing here decides anything.


class DeadLetter(Struct, frozen=True, gc=False):
    """The record of an item's death: when, why, in which node if it was another one, and the last holder.

    `number` rises with every dead letter of the service.
    """

    number: int
    at: Millis
    reason: str
    origin: NodeName | None = None
    holder: Jid | None = None


class Finish(Struct, frozen=True, gc=False):
    """How an item was done: when, by which worker, and when that one got it; without a worker, a seek has led its queue past it."""

    at: Millis
    worker: Jid | None
    delivered: Millis | None


class Item(Struct, frozen=True, gc=False):
    """An item as stored, without its payload.

    `holder` and `deadline` are set exactly while the item is locked. `token` is the last lock token
    of the item; tokens only rise. `acquired` counts its deliveries, `failed` the failed attempts,
    `released` the unlocks that count no failure. `avoid` is the last holder that released it. `due`
    is when a delayed item may be delivered; it stays set afterwards, as the sign that the item has
    been delayed already. `taken` is the time of the last delivery. Of an item that is done, `taken` is when it
    was, `due` when its last worker got it, and `avoid` that worker (`finish`). `aside` means that it is delayed
    only for the subscriber it avoids. `dead_letter` is set when the item dies, until it is redriven
    or removed, in a dead-letter node too. `transaction` is the app and the version that published
    it, if it came in a transaction.

    `group` is the item's group in the node, empty if it has none. `turn` is set while it is the
    group's turn with this item: it is ready, locked, or waits for another try; the number is its
    place in the order of ready items (`rules.dispatch`). `failure` is the last reason of a
    failure or a release since it was published or redriven. `size` is the number of bytes that it
    counts for (`model.records.weight`). `sum` is the checksum of its content (`model.sums`), None if
    an earlier version stored it and it has not been computed since.

    `wait` is what it waits for in the state HELD, until `due` if that is set, and what has come for it in
    whatever state; None for an item that was never held, and for which no signal has come. `joins` is the number of the item that waits
    for this one, 0 for none.
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
    sum: int | None = None
    wait: Wait | None = None
    joins: int = 0

    @property
    def finish(self) -> Finish | None:
        """How it was done; None if it is not."""
        if self.state is not State.DONE or self.taken is None:
            return None
        return Finish(self.taken, self.avoid, self.due)

    @property
    def error(self) -> str:
        """Why it died, or else the reason of the last failure or release; empty if none was given."""
        return self.dead_letter.reason if self.dead_letter else self.failure or ""


class Awaited(Struct, frozen=True, gc=False):
    """What an item waits for from its publish on: signals, a time, or its members if it `is_join`; then no member comes if it is not open."""

    signals: tuple[str, ...] = ()
    within: Millis | None = None
    then: AtDeadline = AtDeadline.DELIVER
    is_join: bool = False
    is_open: bool = True


class Joined(Struct, frozen=True, gc=False):
    """The join that an item counts for. With `last` no member comes after those of this publish."""

    node: NodeName
    id: ItemId
    last: bool = False

    @property
    def place(self) -> tuple[NodeName, ItemId]:
        """The node and the id of the join."""
        return self.node, self.id


class Draft(Struct, frozen=True, gc=False):
    """An item as a publisher hands it in. `id` is already chosen, by them or by the face.

    `type` is the namespace of the payload; `group` is the group that the item is of, empty for none. `hold` is what it waits for, if it is
    held; `joins` the join that it counts for.
    """

    id: ItemId
    payload: bytes
    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None
    headers: Headers = ()
    type: str = ""
    group: str = ""
    hold: Awaited | None = None
    joins: Joined | None = None


# The entity that makes a request. Values only: nothing here decides anything.


class Contact(Struct, frozen=True, gc=False):
    """An entry of an owner's roster: whether the contact gets the owner's presence, and its groups."""

    sees_presence: bool
    groups: tuple[str, ...] = ()


class Principal(Struct, frozen=True, gc=False):
    """The entity that makes a request, with its rights by the service's own settings.

    `contact` is its entry in the rosters of the node's owners, None until these have been read.
    `rosters` means that the rosters of its server's accounts can be read. `anonymous` marks an
    account without credentials. Of the names of projects only those in `projects` exist for it; None: all.
    """

    jid: Jid
    admin: bool = False
    local: bool = False
    rosters: bool = False
    anonymous: bool = False
    projects: frozenset[str] | None = None
    contact: tuple[Contact, ...] | None = None
    account: Jid = Jid("")
    """The account of the requester, from its JID."""

    def __post_init__(self) -> None:
        """Find the account once, because each request needs it several times."""
        force_setattr(self, "account", account_of(self.jid))


# A subscription, and several of one JID. Values only: nothing here decides anything.


class Terms(Struct, frozen=True, gc=False):
    """One of several subscriptions of a JID to a node: the fields that it does not share with the others (XEP-0060 6.1.6)."""

    subid: str
    deliver: bool = True
    expire: Millis | None = None
    remind: Millis | None = None
    temporary: bool = False

    @property
    def ends_next(self) -> Millis | None:
        """When its lease needs a reminder or ends."""
        return self.expire if self.remind is None else self.remind


class Subscription(Struct, frozen=True, gc=False):
    """One JID's subscription to one node, with its window (XEP-0254 2.1) and its options (XEP-0060 6.3).

    It is `available` while items or notifications can be delivered: never while it is pending or quiet, or has
    deliveries switched off. A lease ends at `expire`; the reminder is sent at `remind`, None once it is
    sent. A `temporary` subscription ends when its JID becomes unavailable (XEP-0060 12.5).

    If a JID has `several` subscriptions to a node, they are in this one row, the oldest first, and the
    row's other fields are what holds for all of them: `model.several_subscriptions` merges and splits them.
    """

    node: NodeName
    jid: Jid
    subid: str
    queue_requests: int
    in_flight: int = 0
    last_served: int = 0
    available: bool = True
    unanswered: int = 0
    """Deliveries in a row that bounced, or timed out, with no other sign of life from the subscriber since."""
    state: SubscriptionState = SubscriptionState.SUBSCRIBED
    deliver: bool = True
    expire: Millis | None = None
    remind: Millis | None = None
    temporary: bool = False
    lock_timeout: int | None = None
    """Seconds for which it may hold an item, if that is less than the queue allows."""
    qos: Level | None = None
    """The level of its deliveries; None for that of the queue."""
    several: tuple[Terms, ...] = ()
    """Two or more; or one, if this is one of several taken by itself. () if the JID has no other."""
    quiet: bool = False
    """Whether an operator has it get no further items, until it is resumed or ends. What it holds stays its own."""
    damaged: bool = False
    """Whether the stored row is not what was written. It is pending then."""

    @property
    def listens(self) -> bool:
        """Whether it can be notified, its options ask for it, and no operator has it quiet."""
        return self.deliver and self.state is SubscriptionState.SUBSCRIBED and not self.quiet

    @property
    def ends_next(self) -> Millis | None:
        """When its lease needs a reminder or ends."""
        return self.expire if self.remind is None else self.remind


# Suggestions for an unknown name.

MAX_COMPARED: Final = 64
"""Characters of a name that is compared: none of ours is longer, and comparing costs time."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?` for the known name that is most like the word, empty if none is.

    Names are compared after their `#`, because many share the part before it.
    """
    if len(word) > MAX_COMPARED:
        return ""
    names = {_short(name): name for name in known}
    near = get_close_matches(_short(word), names, n=1, cutoff=0.7)
    return f"; did you mean {names[near[0]]}?" if near else ""


def _short(name: str) -> str:
    return name.rpartition("#")[2]
