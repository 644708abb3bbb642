"""What a decision changes: each change says what its rule believed.

A store that finds otherwise raises `StaleError`, and nothing of the batch's request has happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pubqueue.core import transactions

if TYPE_CHECKING:
    from pubqueue.core.model import (
        Affiliation,
        Draft,
        Headers,
        Item,
        Jid,
        Millis,
        Node,
        NodeConfig,
        NodeName,
        State,
        Subscription,
    )


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
