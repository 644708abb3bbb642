"""What a decision changes. Each change carries the state that its rule assumed.

A store that finds another state raises `StaleError`, and the request changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.schedules import model as schedules
from pubqueue.core.transactions import model as transactions

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
        Terms,
    )
    from pubqueue.core.reading.sampled import Sample


class CreateNode(Struct, frozen=True, gc=False):
    """A node that was not there."""

    node: Node


class ConfigureNode(Struct, frozen=True, gc=False):
    """New settings for an existing node; if the configuration takes it over, `maker` becomes its creator."""

    node: NodeName
    config: NodeConfig
    maker: Jid | None = None


class DeleteNode(Struct, frozen=True, gc=False):
    """Delete the node with its items, locks, subscriptions and affiliations.

    Its remaining rows are detached at once and deleted in slices. With `announce` its subscribers
    are notified first. `uri`, if set, is the replacement that later requests for the node are
    referred to.
    """

    node: NodeName
    announce: bool = False
    uri: str = ""


class DropFormer(Struct, frozen=True, gc=False):
    """Drop the former subscribers of a deleted node that have been notified, up to this JID (None: all).

    If several deleted nodes had the name, this is about the first that still has subscribers to
    notify.
    """

    node: NodeName
    through: Jid | None


class PurgeNode(Struct, frozen=True, gc=False):
    """Every item of the node, locked ones too. `items` is how many there are, as far as is known."""

    node: NodeName
    items: int = 0


class SetAffiliation(Struct, frozen=True, gc=False):
    """What the bare JID is to the node from now on; NONE removes the entry."""

    node: NodeName
    jid: Jid
    affiliation: Affiliation


class AddSubscription(Struct, frozen=True, gc=False):
    """A subscription that was not there."""

    subscription: Subscription


class AddAnother(Struct, frozen=True, gc=False):
    """One more subscription of a JID that subscribes already."""

    node: NodeName
    jid: Jid
    terms: Terms


class SetWindow(Struct, frozen=True, gc=False):
    """Another number of parallel requests, and the subscriber is here to take them."""

    node: NodeName
    jid: Jid
    queue_requests: int


class SetTerms(Struct, frozen=True, gc=False):
    """Other options of a subscription (XEP-0060 6.3): whether anything is delivered, and when it ends.

    `subid` names the one that is meant where its JID has several.
    """

    node: NodeName
    jid: Jid
    deliver: bool
    expire: Millis | None
    remind: Millis | None
    temporary: bool
    subid: str | None = None


class Approve(Struct, frozen=True, gc=False):
    """A subscription that was pending stands from now on (XEP-0060 8.6)."""

    node: NodeName
    jid: Jid


class SetAvailable(Struct, frozen=True, gc=False):
    """Whether the subscriber can receive items at present: it became available, or left."""

    node: NodeName
    jid: Jid
    available: bool


class NoteUnanswered(Struct, frozen=True, gc=False):
    """A number of deliveries to the subscriber in a row bounced or timed out.

    `silenced` means that there were too many: the subscriber gets nothing more until it shows
    activity. With `until` this process delivers nothing to it before then; `until` is not stored.
    """

    node: NodeName
    jid: Jid
    unanswered: int
    silenced: bool = False
    until: Millis | None = None


class NoteResource(Struct, frozen=True, gc=False):
    """The full JID is here."""

    jid: Jid


class HearOf(Struct, frozen=True, gc=False):
    """The known full JID has shown activity: bounces of deliveries from before that do not count against it now."""

    jid: Jid


class ForgetResource(Struct, frozen=True, gc=False):
    """The full JID has left."""

    jid: Jid


class EndSubscription(Struct, frozen=True, gc=False):
    """The subscription goes; locks held under it stay (XEP-0254 4: unsubscribe, then unlock).

    Where its JID has several it is that of this `subid`, or all of them.
    """

    node: NodeName
    jid: Jid
    subid: str | None = None


class BeginReview(Struct, frozen=True, gc=False):
    """The subscribers of the node are to be looked through, for some of them may have to go."""

    node: NodeName


class EndReview(Struct, frozen=True, gc=False):
    """The subscribers of the node have been looked through."""

    node: NodeName


class BeginTrim(Struct, frozen=True, gc=False):
    """The settings of the node have changed: some items may have to be removed, or to expire earlier."""

    node: NodeName


class EndTrim(Struct, frozen=True, gc=False):
    """The items that the node keeps match its settings again."""

    node: NodeName


class EndSubscriptions(Struct, frozen=True, gc=False):
    """The subscriptions of exactly these JIDs to the node go; locks held under them stay."""

    node: NodeName
    jids: tuple[Jid, ...]


class AddItem(Struct, frozen=True, gc=False):
    """Add an item at the end of the node; `transaction` is the app and the version that published it.

    `seq` is its sequence number, assigned when the change is made. `instead` is the number of the
    item with the same id that it overwrites in a plain node; it takes that item's place in the
    order of creation.
    """

    node: NodeName
    draft: Draft
    publisher: Jid
    published: Millis
    state: State
    due: Millis | None
    expires: Millis | None
    transaction: tuple[str, int] | None = None
    seq: int = 0
    instead: int = 0


class ReplacePayload(Struct, frozen=True, gc=False):
    """Another payload, with its headers, for an item that is not locked; its place and counters stay."""

    item: Item
    payload: bytes
    publisher: Jid
    headers: Headers = ()


class Lock(Struct, frozen=True, gc=False):
    """The item goes to `holder`, under a token higher than any before."""

    item: Item
    holder: Jid
    token: int
    deadline: Millis
    at: Millis


class Release(Struct, frozen=True, gc=False):
    """The lock ends and the item waits again; the holder's receipt is kept.

    `failed` and `released` are the new values of the counters. `reason` says why the attempt
    failed, or why the holder released the item; if it is empty, the previous reason stays.
    """

    item: Item
    state: State
    due: Millis | None
    failed: int
    released: int
    reason: str = ""


class Postpone(Struct, frozen=True, gc=False):
    """A waiting item waits until `due` for the one it avoids; for anybody else it is ready."""

    item: Item
    due: Millis


class Extend(Struct, frozen=True, gc=False):
    """The lock lasts until `deadline`."""

    item: Item
    deadline: Millis


class SetLife(Struct, frozen=True, gc=False):
    """The item lives until `expires`."""

    item: Item
    expires: Millis


class Revive(Struct, frozen=True, gc=False):
    """A dead item waits in the node `to` as if it were new, in its old place."""

    item: Item
    to: NodeName


class Ripen(Struct, frozen=True, gc=False):
    """A delayed item whose time has come waits for a subscriber again."""

    item: Item


class TakeTurn(Struct, frozen=True, gc=False):
    """A queued item of a group is ready from now on, at this place among what is ready."""

    item: Item
    turn: int


class CallGroups(Struct, frozen=True, gc=False):
    """The settings of the node now allow more items of these groups to be ready."""

    node: NodeName
    groups: tuple[str, ...]


class SpendRate(Struct, frozen=True, gc=False):
    """The rate of the node is used up until then, in microseconds since 1970."""

    node: NodeName
    spent: int


class Recount(Struct, frozen=True, gc=False):
    """Nothing of the subscription has changed but, perhaps, that its address can be reached: count its window again."""

    node: NodeName
    jid: Jid


class Forget(Struct, frozen=True, gc=False):
    """Drop up to n ids of finished work that no longer absorb a re-publish at `now`, the longest overdue first."""

    now: Millis
    limit: int


class ForgetEvents(Struct, frozen=True, gc=False):
    """The event log up to this number; the newest event stays, for the numbering goes on from it."""

    through: int


class NoteSamples(Struct, frozen=True, gc=False):
    """Samples of some minutes: counts of events are added to the stored ones, levels replace them.

    Samples of nodes that do not exist are ignored. Up to n samples from before `before` are
    deleted.
    """

    samples: tuple[Sample, ...]
    before: Millis
    limit: int


class GiveUp(Struct, frozen=True, gc=False):
    """The item is dead: it stays, or moves to the node `to`, with the reason; it is never dropped.

    `number` is the dead letter's, given when the change is made.
    """

    item: Item
    at: Millis
    reason: str
    failed: int
    to: NodeName | None = None
    number: int = 0


class RemoveItem(Struct, frozen=True, gc=False):
    """The item is gone. Until `absorb_until` its id absorbs a re-publish of the payload of `digest`."""

    item: Item
    absorb_until: Millis | None = None
    digest: bytes = b""


SubscriptionChange = (
    AddSubscription
    | AddAnother
    | SetWindow
    | SetTerms
    | Approve
    | SetAvailable
    | NoteUnanswered
    | EndSubscription
)

ItemChange = (
    AddItem
    | ReplacePayload
    | Lock
    | Release
    | Postpone
    | Extend
    | SetLife
    | Revive
    | Ripen
    | TakeTurn
    | GiveUp
    | RemoveItem
)
"""A change to one item: `after` returns the item as it is after the change."""

Change = (
    CreateNode
    | ConfigureNode
    | DeleteNode
    | DropFormer
    | BeginReview
    | EndReview
    | BeginTrim
    | EndTrim
    | EndSubscriptions
    | PurgeNode
    | SetAffiliation
    | SubscriptionChange
    | NoteResource
    | HearOf
    | ForgetResource
    | CallGroups
    | SpendRate
    | Recount
    | Forget
    | ForgetEvents
    | NoteSamples
    | ItemChange
    | schedules.Change
    | transactions.Change
)
