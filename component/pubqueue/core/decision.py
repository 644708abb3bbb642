"""What a rule gives back: one reply, the changes that make it true, and the notices that follow.

Nothing here is performed. The shell applies the changes in one transaction, and only after its
commit hands out the reply and then the notices, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto, unique
from typing import TYPE_CHECKING

from pubqueue.core import pages, transactions

if TYPE_CHECKING:
    from pubqueue.core.model import (
        Affiliation,
        Death,
        Draft,
        Headers,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeConfig,
        NodeName,
        State,
        Subscription,
    )

# --- replies -------------------------------------------------------------------------------------


@unique
class Refusal(Enum):
    """Every way to say no. A face owns the words; each face's table must name them all."""

    NODE_NOT_FOUND = auto()
    ITEM_NOT_FOUND = auto()
    FORBIDDEN = auto()
    NOT_YOURS = auto()
    LOCKED_BY_ANOTHER = auto()
    LOCK_LOST = auto()
    ITEM_EXISTS = auto()
    PUBLISH_PAUSED = auto()
    NOT_A_QUEUE = auto()
    NODE_EXISTS = auto()
    NODE_FULL = auto()
    TOO_MANY_ITEMS = auto()
    PAYLOAD_TOO_BIG = auto()
    HEADERS_TOO_BIG = auto()
    ITEM_LOCKED = auto()
    CLOSED_NODE = auto()
    CONFIGURATION_REQUIRED = auto()
    INVALID_OPTIONS = auto()
    INVALID_CONFIG = auto()
    UNSUPPORTED_ACCESS_MODEL = auto()
    FOREIGN_JID = auto()
    NOT_SUBSCRIBED = auto()
    INVALID_SUBID = auto()
    STORE_FAILED = auto()
    LAST_OWNER = auto()
    BAD_REQUEST = auto()
    WRONG_PAYLOAD = auto()
    COLLECTIONS_UNSUPPORTED = auto()
    TOO_MUCH_STAGED = auto()
    NOT_AS_STAGED = auto()


@dataclass(frozen=True, slots=True)
class Refused:
    """No; nothing changes. `reason` is a sentence for the one who asked, `limit` a bound to name.

    `unchanged` are the affiliations that were to be changed and stay as they are.
    """

    refusal: Refusal
    reason: str = ""
    limit: int | None = None
    unchanged: tuple[tuple[Jid, Affiliation], ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """Yes, and there is nothing to tell."""


@dataclass(frozen=True, slots=True)
class Published:
    """The items are durable, under these ids; of those that are there dead it says so."""

    node: NodeName
    ids: tuple[ItemId, ...]
    deaths: tuple[Death, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The subscription as it now stands; on a queue node with its window (XEP-0254 example 3)."""

    subscription: Subscription
    queueing: bool


@dataclass(frozen=True, slots=True)
class Created:
    """The node exists, and the asker owns it."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class Described:
    """A node, for its configuration form, its disco#info or its items."""

    node: Node
    owners: tuple[Jid, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """Names with titles: nodes of the service, or items of a node."""

    entries: tuple[tuple[str, str], ...]
    node: NodeName | None = None


@dataclass(frozen=True, slots=True)
class Affiliations:
    """Who is what to the node (XEP-0060 8.9.1)."""

    node: NodeName
    entries: tuple[tuple[Jid, Affiliation], ...]


@dataclass(frozen=True, slots=True)
class Touched:
    """The locks, with their deadlines as they now stand."""

    node: NodeName
    entries: tuple[tuple[ItemId, Millis], ...]


@dataclass(frozen=True, slots=True)
class Redriven:
    """So many dead items of the node live again."""

    node: NodeName
    count: int


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Items of a node, oldest first, with their payloads; `whole` unless some were left out.

    `deaths` tells of those among them that died, here or before they came here.
    """

    node: Node
    items: tuple[tuple[Item, bytes], ...]
    whole: bool
    deaths: tuple[Death, ...] = ()


Reply = (
    Refused
    | Done
    | Published
    | Subscribed
    | Created
    | Described
    | Listed
    | Affiliations
    | Touched
    | Redriven
    | Retrieved
    | transactions.Reply
    | pages.Reply
)

# --- changes -------------------------------------------------------------------------------------
# Each is guarded by what the rule believed: a store that finds otherwise raises Stale.


@dataclass(frozen=True, slots=True)
class CreateNode:
    """A node that was not there."""

    node: Node


@dataclass(frozen=True, slots=True)
class ConfigureNode:
    """New settings for a node that is there."""

    node: NodeName
    config: NodeConfig


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """The node with its items, locks, subscriptions and affiliations."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class PurgeNode:
    """Every item of the node, locked ones too. `items` is how many there are, as far as is known."""

    node: NodeName
    items: int = 0


@dataclass(frozen=True, slots=True)
class SetAffiliation:
    """What the bare JID is to the node from now on; NONE removes the entry."""

    node: NodeName
    jid: Jid
    affiliation: Affiliation


@dataclass(frozen=True, slots=True)
class AddSubscription:
    """A subscription that was not there."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class SetWindow:
    """Another number of parallel requests, and the subscriber is here to take them."""

    node: NodeName
    jid: Jid
    queue_requests: int


@dataclass(frozen=True, slots=True)
class SetAvailable:
    """Whether the subscriber can be handed items at present."""

    node: NodeName
    jid: Jid
    available: bool


@dataclass(frozen=True, slots=True)
class NoteBounces:
    """So many deliveries to the subscriber have come back in a row."""

    node: NodeName
    jid: Jid
    bounces: int


@dataclass(frozen=True, slots=True)
class NoteResource:
    """The full JID is here."""

    jid: Jid


@dataclass(frozen=True, slots=True)
class ForgetResource:
    """The full JID has left."""

    jid: Jid


@dataclass(frozen=True, slots=True)
class EndSubscription:
    """The subscription goes; locks held under it stay (XEP-0254 4: unsubscribe, then unlock)."""

    node: NodeName
    jid: Jid


@dataclass(frozen=True, slots=True)
class AddItem:
    """An item at the end of the node; `txn` is the app and the version that published it."""

    node: NodeName
    draft: Draft
    publisher: Jid
    published: Millis
    state: State
    due: Millis | None
    expires: Millis | None
    txn: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class ReplacePayload:
    """Another payload, with its headers, for an item that nobody holds; its place and counters stay."""

    item: Item
    payload: bytes
    publisher: Jid
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Lock:
    """The item goes to `holder`, under a token higher than any before."""

    item: Item
    holder: Jid
    token: int
    deadline: Millis
    at: Millis


@dataclass(frozen=True, slots=True)
class Release:
    """The lock ends and the item waits again; the holder's receipt is kept.

    `failed` and `released` are the counters as they shall stand.
    """

    item: Item
    state: State
    due: Millis | None
    failed: int
    released: int


@dataclass(frozen=True, slots=True)
class Postpone:
    """A waiting item waits until `due` for the one it avoids; for anybody else it is ready."""

    item: Item
    due: Millis


@dataclass(frozen=True, slots=True)
class Extend:
    """The lock lasts until `deadline`."""

    item: Item
    deadline: Millis


@dataclass(frozen=True, slots=True)
class Revive:
    """A dead item waits in the node `to` as if it were new, in its old place."""

    item: Item
    to: NodeName


@dataclass(frozen=True, slots=True)
class Ripen:
    """The node's delayed items whose time has come by `now` wait for a subscriber again."""

    node: NodeName
    now: Millis


@dataclass(frozen=True, slots=True)
class Forget:
    """Ids of finished work that no longer absorb a re-publish at `now`."""

    now: Millis


@dataclass(frozen=True, slots=True)
class ForgetEvents:
    """The event log up to this number; the newest event stays, for the numbering goes on from it."""

    through: int


@dataclass(frozen=True, slots=True)
class Bury:
    """The item is dead: it stays, or moves to the node `to`, with the reason; it is never dropped."""

    item: Item
    at: Millis
    reason: str
    failed: int
    to: NodeName | None = None


@dataclass(frozen=True, slots=True)
class RemoveItem:
    """The item is gone. Until `absorb_until` its id absorbs a re-publish of the payload of `digest`."""

    item: Item
    absorb_until: Millis | None = None
    digest: bytes = b""


Change = (
    CreateNode
    | ConfigureNode
    | DeleteNode
    | PurgeNode
    | SetAffiliation
    | AddSubscription
    | SetWindow
    | SetAvailable
    | NoteBounces
    | NoteResource
    | ForgetResource
    | EndSubscription
    | AddItem
    | ReplacePayload
    | Lock
    | Release
    | Postpone
    | Extend
    | Revive
    | Ripen
    | Forget
    | ForgetEvents
    | Bury
    | RemoveItem
    | transactions.Change
)

# --- notices -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deliver:
    """An item for the one who now holds it (XEP-0254 2.2)."""

    to: Jid
    item: Item
    payload: bytes


@dataclass(frozen=True, slots=True)
class Announce:
    """An item for a subscriber of a plain node (XEP-0060 7.1.2.1)."""

    to: Jid
    node: NodeName
    draft: Draft
    publisher: Jid


@dataclass(frozen=True, slots=True)
class Retracted:
    """The items are gone (XEP-0254 2.3): what a worker waits for before it counts work as done."""

    to: Jid
    node: NodeName
    ids: tuple[ItemId, ...]


@dataclass(frozen=True, slots=True)
class Unlocked:
    """The items are no longer the addressee's (XEP-0254 2.4 and 4)."""

    to: Jid
    node: NodeName
    ids: tuple[ItemId, ...]


@dataclass(frozen=True, slots=True)
class Purged:
    """The node has lost all its items (XEP-0060 8.5.2)."""

    to: Jid
    node: NodeName


@dataclass(frozen=True, slots=True)
class Deleted:
    """The node is gone (XEP-0060 8.4.2)."""

    to: Jid
    node: NodeName


Notice = Deliver | Announce | Retracted | Unlocked | Purged | Deleted


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule's answer. A refusal carries no change and no notice."""

    reply: Reply
    changes: tuple[Change, ...] = field(default=())
    notices: tuple[Notice, ...] = field(default=())


def refuse(refusal: Refusal, reason: str = "", *, limit: int | None = None) -> Decision:
    """Say no: nothing changes and nobody else hears of it."""
    return Decision(Refused(refusal, reason, limit))
