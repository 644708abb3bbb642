"""What a decision changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.model import transactions

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pubqueue.model import records
    from pubqueue.model.entities import (
        Affiliation,
        Draft,
        Headers,
        Item,
        Jid,
        Level,
        Millis,
        Node,
        NodeConfig,
        NodeName,
        Principal,
        State,
        Subscription,
        Terms,
    )
    from pubqueue.model.joins import Join
    from pubqueue.model.schedules import Schedule
    from pubqueue.model.waits import Came, Wait

    PlainRow = (
        records.Alert
        | records.AlertWatch
        | records.Answered
        | records.FedMessage
        | records.Feeding
        | records.Forwarded
        | records.KeptMessage
        | records.KeyTotal
        | records.MessageTotal
        | records.PingAnswer
        | records.Registration
        | Schedule
        | records.SeekMark
        | records.ServiceSecret
        | records.Settled
        | records.UsedKey
    )
    """A row that a rule makes as a whole. None of these changes is an event of an item: what it is about has one of its own."""


# Changes of subscriptions.


class AddSubscription(Struct, frozen=True, gc=False):
    """A new subscription."""

    subscription: Subscription


class AddAnother(Struct, frozen=True, gc=False):
    """One more subscription of a JID that subscribes already."""

    node: NodeName
    jid: Jid
    terms: Terms


class SetWindow(Struct, frozen=True, gc=False):
    """Another window for the subscriber, which is here to take items."""

    node: NodeName
    jid: Jid
    queue_requests: int


class SetLockTimeout(Struct, frozen=True, gc=False):
    """From now on the subscriber's locks last up to this many seconds; None for as long as the queue allows."""

    node: NodeName
    jid: Jid
    lock_timeout: int | None


class SetLevel(Struct, frozen=True, gc=False):
    """From now on deliveries to the subscriber are of this level; None for that of the queue."""

    node: NodeName
    jid: Jid
    qos: Level | None


class SetTerms(Struct, frozen=True, gc=False):
    """Other options of a subscription (XEP-0060 6.3): whether anything is delivered, and when it ends.

    `subid` names the subscription if its JID has several.
    """

    node: NodeName
    jid: Jid
    deliver: bool
    expire: Millis | None
    remind: Millis | None
    temporary: bool
    subid: str | None = None


class Approve(Struct, frozen=True, gc=False):
    """A pending subscription is active from now on (XEP-0060 8.6)."""

    node: NodeName
    jid: Jid


class SetAvailable(Struct, frozen=True, gc=False):
    """Whether the subscriber can receive items at present: it became available, or left."""

    node: NodeName
    jid: Jid
    available: bool


class SetQuiet(Struct, frozen=True, gc=False):
    """Whether the subscriber is quiet: it gets no further items, and keeps what it holds. Resumed, it counts as available."""

    node: NodeName
    jid: Jid
    quiet: bool


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


class EndSubscription(Struct, frozen=True, gc=False):
    """The subscription ends; locks held under it stay (XEP-0254 4: unsubscribe, then unlock).

    If its JID has several, it is the one of this `subid`, or all of them.
    """

    node: NodeName
    jid: Jid
    subid: str | None = None


class BeginReview(Struct, frozen=True, gc=False):
    """The subscribers of the node have to be reviewed, because some of them may have to go."""

    node: NodeName


class EndReview(Struct, frozen=True, gc=False):
    """The subscribers of the node have been reviewed."""

    node: NodeName


class EndSubscriptions(Struct, frozen=True, gc=False):
    """The subscriptions of exactly these JIDs to the node end; locks held under them stay."""

    node: NodeName
    jids: tuple[Jid, ...]


class Recount(Struct, frozen=True, gc=False):
    """Only the reachability of the subscription's address may have changed: count its window again."""

    node: NodeName
    jid: Jid


SubscriptionChange = (
    AddSubscription
    | AddAnother
    | SetWindow
    | SetLockTimeout
    | SetLevel
    | SetTerms
    | Approve
    | SetAvailable
    | SetQuiet
    | NoteUnanswered
    | EndSubscription
)

"""A change of one subscription: `after` returns it as it is after the change."""

SubscriptionChanges = SubscriptionChange | EndSubscriptions | BeginReview | EndReview | Recount


# What a decision changes. Each change carries the state that its rule assumed.
#
# A store that finds another state raises `StaleError`, and the request changes nothing.


class CreateNode(Struct, frozen=True, gc=False):
    """A new node."""

    node: Node


class ConfigureNode(Struct, frozen=True, gc=False):
    """New settings for an existing node; if the configuration takes it over, `maker` becomes its creator."""

    node: NodeName
    config: NodeConfig
    maker: Jid | None = None


class NoteLeftOut(Struct, frozen=True, gc=False):
    """More items of the node that feeds the queue were left out of it: how many, when, and why the last of them was."""

    node: NodeName
    items: int
    at: Millis
    why: str


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
    """Every item of the node is deleted, locked ones too. `items` is their number, if known. It then has the item `leaves`."""

    node: NodeName
    items: int = 0
    leaves: AddItem | None = None


class SetAffiliation(Struct, frozen=True, gc=False):
    """The affiliation of the bare JID with the node from now on; NONE removes the entry."""

    node: NodeName
    jid: Jid
    affiliation: Affiliation


class NoteResource(Struct, frozen=True, gc=False):
    """The full JID is known here: it has shown itself."""

    jid: Jid


class NotePresence(Struct, frozen=True, gc=False):
    """The known full JID has sent available presence, so its server reports when it leaves."""

    jid: Jid


class NoteActivity(Struct, frozen=True, gc=False):
    """The known full JID has shown activity: bounces of deliveries from before, and reports that it left, do not count against it now.

    `at` is when that was received, if it is known.
    """

    jid: Jid
    at: Millis | None = None


class NoteAble(Struct, frozen=True, gc=False):
    """Whether the client of a full JID that is here has `urn:xmpp:qos`."""

    jid: Jid
    able: bool


class ForgetResource(Struct, frozen=True, gc=False):
    """The full JID has left."""

    jid: Jid


class BeginTrim(Struct, frozen=True, gc=False):
    """The settings of the node have changed: some items may have to be removed, or to expire earlier."""

    node: NodeName


class EndTrim(Struct, frozen=True, gc=False):
    """The items that the node keeps match its settings again."""

    node: NodeName


class AddItem(Struct, frozen=True, gc=False):
    """Add an item at the end of the node; `transaction` is the app and the version that published it.

    `seq` is its sequence number, assigned when the change is made. `instead` is the number of the
    item with the same id that it overwrites in a plain node; it takes that item's place in the
    order of creation. `wait` is what an item in the state HELD waits for; `joins` the number of the item that waits for this one.
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
    wait: Wait | None = None
    joins: int = 0


KnownSum = tuple[int, bool, int]
"""The number of an item, whether it is done, and its checksum."""


class NoteSums(Struct, frozen=True, gc=False):
    """The checksums of items that have none yet, and of other rows: by table, with the place of each."""

    sums: tuple[KnownSum, ...]
    rows: tuple[tuple[str, tuple[int, str], int], ...] = ()


class ReplacePayload(Struct, frozen=True, gc=False):
    """Another payload, with its headers, for an item that is not locked; its place and counters stay."""

    item: Item
    payload: bytes
    publisher: Jid
    headers: Headers = ()


class Lock(Struct, frozen=True, gc=False):
    """The item goes to `holder`, under a token higher than any before; to a subscription, or to the `take` of this number."""

    item: Item
    holder: Jid
    token: int
    deadline: Millis
    at: Millis
    take: int = 0


class Release(Struct, frozen=True, gc=False):
    """The lock ends and the item waits again; the holder's receipt is kept.

    `failed` and `released` are the new values of the counters. `reason` is why the attempt failed,
    or why the holder released the item; if it is empty, the previous reason stays. One that is recalled
    (`rules.ahead`) waits in its group again, and avoids no subscriber.
    """

    item: Item
    state: State
    due: Millis | None
    failed: int
    released: int
    reason: str = ""
    is_recalled: bool = False


class Hold(Struct, frozen=True, gc=False):
    """The lock ends and the item is held, with what it waits for, until `due`. If that has come already, it waits for a worker again."""

    item: Item
    wait: Wait
    due: Millis | None = None


class TakeSignal(Struct, frozen=True, gc=False):
    """A signal has come for an item; with `wakes` it is what the held item waits for."""

    item: Item
    signal: Came
    wakes: bool = False


class Wake(Struct, frozen=True, gc=False):
    """The time of a held item is over: it waits for a worker again."""

    item: Item


class Count(Struct, frozen=True, gc=False):
    """The members of a join are as in `join` now: it `wakes` with the last one, or is dead from `fails` on because one of them is."""

    item: Item
    join: Join
    wakes: bool = False
    fails: Millis | None = None


class CloseJoin(Struct, frozen=True, gc=False):
    """A join gets no further members."""

    item: Item


class Postpone(Struct, frozen=True, gc=False):
    """A waiting item waits until `due` for the one it avoids; for all others it is ready."""

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


class SetTimes(Struct, frozen=True, gc=False):
    """The times of an item, corrected after a clock that was ahead (`rules.unlock`)."""

    item: Item
    published: Millis
    taken: Millis | None
    due: Millis | None
    expires: Millis | None
    deadline: Millis | None


class Revive(Struct, frozen=True, gc=False):
    """A dead or done item waits in the node `to` as a new item, in its old place, and lives until `expires`."""

    item: Item
    to: NodeName
    expires: Millis | None = None


class Ripen(Struct, frozen=True, gc=False):
    """A delayed item whose time has come waits for a subscriber again."""

    item: Item


class TakeTurn(Struct, frozen=True, gc=False):
    """A queued item of a group is ready from now on, at this place among the ready items; 0: it waits in its group again."""

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


class PutRow(Struct, frozen=True, gc=False):
    """Keep a row exactly as it is here, in the place of that of its key."""

    row: PlainRow


class DropRow(Struct, frozen=True, gc=False):
    """Keep no row of this key any more."""

    kind: type[PlainRow]
    key: Hashable


class OpenWindow(Struct, frozen=True, gc=False):
    """The take of this number waits for up to `count` items of the node. Nothing of this is stored.

    `last_served` is the token up to which others were served before it asked; `bytes`, `span` and `ahead` are those of `Take`.
    """

    node: NodeName
    number: int
    by: Principal
    count: int
    last_served: int
    bytes: int | None = None
    span: Millis | None = None
    ahead: bool = False


class Forget(Struct, frozen=True, gc=False):
    """Drop up to n ids of finished work that no longer absorb a re-publish at `now`, the longest overdue first.

    Likewise up to n records of settled locks, and up to n used keys, that are outdated.
    """

    now: Millis
    limit: int


class ForgetEvents(Struct, frozen=True, gc=False):
    """Drop the event log up to this number; the newest event stays, because the numbering continues from it."""

    through: int


class NoteSamples(Struct, frozen=True, gc=False):
    """Samples of some minutes: counts of events are added to the stored ones, levels replace them.

    Samples of nodes that do not exist are ignored. Up to n samples from before `before` are
    deleted.
    """

    samples: tuple[records.Sample, ...]
    before: Millis
    limit: int


class PassOn(Struct, frozen=True, gc=False):
    """The additions of a plain node to a dead item that it passes on to the queues that it feeds.

    The item moves into one of them, with these headers and this end of its life, and is copied into the others,
    except for those that leave it out.
    """

    headers: Headers
    expires: Millis | None = None
    copies: tuple[AddItem, ...] = ()
    left_out: tuple[NoteLeftOut, ...] = ()


class GiveUp(Struct, frozen=True, gc=False):
    """The item is dead: it stays, or moves to the node `to`, with the reason; it is never dropped.

    `number` is the dead letter's, given when the change is made. With `onward` a plain node has passed it on to `to`.
    """

    item: Item
    at: Millis
    reason: str
    failed: int
    to: NodeName | None = None
    number: int = 0
    onward: PassOn | None = None

    @property
    def copies(self) -> tuple[AddItem, ...]:
        """Items that are added to other queues together with it."""
        return () if self.onward is None else self.onward.copies


class RemoveItem(Struct, frozen=True, gc=False):
    """The item is gone. Until `absorb_until` its id absorbs a re-publish of the payload of `digest`.

    With `done_at` it is out of the queue all the same, but kept: it is done since then, by the worker `done_by` if one has done it.
    """

    item: Item
    absorb_until: Millis | None = None
    digest: bytes = b""
    done_at: Millis | None = None
    done_by: Jid | None = None


ItemChange = (
    AddItem
    | ReplacePayload
    | Lock
    | Release
    | Hold
    | TakeSignal
    | Wake
    | Count
    | CloseJoin
    | Postpone
    | Extend
    | SetLife
    | SetTimes
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
    | NoteLeftOut
    | DeleteNode
    | DropFormer
    | BeginTrim
    | EndTrim
    | PurgeNode
    | SetAffiliation
    | NoteResource
    | NotePresence
    | NoteActivity
    | NoteAble
    | ForgetResource
    | CallGroups
    | SpendRate
    | PutRow
    | DropRow
    | OpenWindow
    | Forget
    | ForgetEvents
    | NoteSamples
    | NoteSums
    | ItemChange
    | SubscriptionChanges
    | transactions.Change
)
