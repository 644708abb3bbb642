"""A node and its settings. Values only: nothing here decides anything."""

from __future__ import annotations

from msgspec import Struct

from pubqueue.core.addresses import Jid  # noqa: TC001  # msgspec reads it
from pubqueue.core.model.choices import (
    AccessModel,
    AtExpiry,
    ItemReply,
    Level,
    NodeFull,
    NotificationType,
    PublishModel,
    SendLast,
)
from pubqueue.core.model.names import NO_TIME, Millis, NodeName


class Feed(Struct, frozen=True, gc=False):
    """A queue that a plain node feeds, and the account that has set that node as its source."""

    queue: NodeName
    by: Jid


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
    """Bytes of a payload, up to 10485760. XMPP carries 262144: a larger item is delivered only to a worker of another protocol, and
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
    """Whether items of a queue that their workers have retracted are kept, so that they can be brought back: for the seconds of
    `item_expire` since they were published, and of `max_bytes` bytes beside those of the other items, the newest. They are
    in no listing, and `max_items` does not count them."""
    unused_expire: int | None = None
    """Seconds after which a queue that has no subscribers, and of which no items are asked for, is deleted with all its items. Empty:
    never. It may be deleted later than that."""
    used: Millis = NO_TIME
    """Not a setting: the approximate time until which items were requested (`core.nodes.subscriptions.unused`)."""
    lock_longest: int | None = None
    """Seconds for which a worker may hold an item by extending its lock, if that is more than `lock_timeout`."""
    max_failures: int = 20
    """Expired locks, lost workers and reported failures after which an item is dead; a plain unlock does not
    count."""
    dead_letter_node: str = ""
    """The node that receives dead items, as a publish by the owners. If it is empty, or refuses the item, the item
    stays in the queue, dead. A plain node that keeps no items passes them on to all the queues that it feeds,
    in the same commit."""
    dead_letter_meant: str = ""
    """Not a setting: which node of that name was meant (`core.nodes.references`)."""
    source: str = ""
    """The plain node that feeds the queue: each item that is published there enters the queue in the same commit.
    An owner of the queue who may subscribe to that node sets it. If the queue is full, or refuses an item, the
    publish is refused. A plain node feeds up to 100 queues."""
    filter: str = ""
    """Which items of the `source` enter the queue, by their headers, such as `headers.kind = "order" AND NOT
    headers:test`. Empty: all."""
    feeds: tuple[Feed, ...] = ()
    """Not a setting: the queues that the node feeds (`core.publishing.sources`)."""
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

    `spent` is until when its rate is used up, in microseconds since 1970 (`core.queue.rate`); 0 before the first item.
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
