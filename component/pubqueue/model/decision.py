"""What a rule returns: changes, a reply, notices, and what remains to be done."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from pubqueue.model import records as messages
from pubqueue.model import replies, schedules, transactions
from pubqueue.model.records import AlertPage, AlertWatch, PushedNodes, Registrations
from pubqueue.model.replies import WHOLE, Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Principal,
        State,
        SubscriptionState,
    )
    from pubqueue.model.notices import Deliver, News, Notice


# What a rule returns: one reply, the changes that make it true, and the notices that follow.
#
# Nothing is performed here. The shell applies the changes in one transaction, and only after its
# commit it sends the reply and then the notices, in order.


class Request(Struct, frozen=True, gc=False):
    """What a principal asks for, or the service of itself. A row of `engine.table` names its facts and its rule."""


class Read(Request, frozen=True, gc=False):
    """A request that changes nothing: it is answered beside the batches, and delays none."""

    by: Principal


@unique
class Refusal(Enum):
    """Every kind of refusal. The table of each face must have a row for each kind."""

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
    """The node has its maximum number of items (`max_items`), or of bytes (`max_bytes`)."""
    TOO_MANY_ITEMS = auto()
    """The request has too many items."""
    PAYLOAD_TOO_BIG = auto()
    """The payload is larger than the node allows (`max_payload_size`), or can hold (`max_bytes`); or payloads that come together are too large."""
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
    """Too much is staged for uncommitted transactions, or the account has as many apps as it may have."""
    TOO_MANY_KEYS = auto()
    """The keys of the account's publishes take as much as they may; earlier ones are forgotten in time."""
    KEY_REUSED = auto()
    """The key was used for a publish of something else, or the id for another message."""
    NOT_TRUSTED = auto()
    """Assured messages of this account are not accepted (`qos.assured_from`)."""
    TOO_MUCH_HELD = auto()
    """As many messages, or bytes of messages, are held as may be (`[qos]`); `setting` is the name of the bound."""
    UNKNOWN_MESSAGE = auto()
    """No message of this id is held, and no answer to its delivery is remembered."""
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
    TOO_MANY_SIGNALS = auto()
    """The item keeps as many signals, or bytes of signals, as it may; its worker takes these when it is held for one of them."""
    WINDOW_FULL = auto()
    """The account has as many items of the node in flight as it may take (`max_queue_requests`)."""
    TOO_MANY_WAITING = auto()
    """Too many requests for items wait already, of the account or of all; try again later."""
    MOVED = auto()
    """The node has moved; its new URI is in `reason`."""


class SubscriptionEntry(Struct, frozen=True, gc=False):
    """The state of a JID's subscription to a node; without a subscription it has no id."""

    jid: Jid
    state: SubscriptionState
    subid: str = ""


class Refused(Struct, frozen=True, gc=False):
    """A refusal; nothing changes. `reason` is a sentence for the requester, `limit` a bound to name.

    `unchanged` are the affiliations, and `standing` the subscriptions, that could not be changed;
    the other entries of such a list are changed (XEP-0060 8.8.2.4, 8.9.2.4). `setting` is the name
    of the invalid value, if the sentence begins with it: a face may have another name for it.
    `part` is which of several parts is refused, counted from 0, where these were to be done together.
    """

    refusal: Refusal
    reason: str = ""
    limit: int | None = None
    unchanged: tuple[tuple[Jid, Affiliation], ...] = ()
    setting: str = ""
    standing: tuple[SubscriptionEntry, ...] = ()
    part: int | None = None


def in_words(refused: Refused) -> str:
    """Return why a request was refused, for the operator of its origin: a schedule, a queue's dead items."""
    name = refused.refusal.name.lower().replace("_", " ")
    bound = "" if refused.limit is None else f" ({refused.limit})"
    return f"{name}{bound}: {refused.reason}" if refused.reason else f"{name}{bound}"


class Done(Struct, frozen=True, gc=False):
    """Success without any data; `again` means that it had been done before, under the same token.

    `missing` is the dead-letter node that new settings name, if it does not exist.
    """

    again: bool = False
    missing: str = ""


class LookedThrough(Struct, frozen=True, gc=False):
    """For the service itself: the nodes up to this one were looked at; all of them if it is empty."""

    up_to: NodeName


class Withdrawn(Struct, frozen=True, gc=False):
    """The items are deleted; these were locked to other accounts, which may still be working on them."""

    locked: tuple[ItemId, ...]


class SettledEach(Struct, frozen=True, gc=False):
    """The result for each lock, in the order of the request: its answer, or why it could not be settled."""

    node: NodeName
    answers: tuple[Reply, ...]


class Published(Struct, frozen=True, gc=False):
    """The items are durable, under these ids; `dead` are those that existed already, and are dead.

    `known` are those that a queue had before, or has done within its deduplication window: they changed nothing.
    `again` means that all of it had been done before, under the same key. `replaced` are those that took the place
    of another item of the same id.
    """

    node: NodeName
    ids: tuple[ItemId, ...]
    dead: tuple[Item, ...] = ()
    known: tuple[ItemId, ...] = ()
    again: bool = False
    replaced: tuple[ItemId, ...] = ()


class DoneTogether(Struct, frozen=True, gc=False):
    """All parts are done, in one commit: the reply to each, in their order."""

    replies: tuple[Reply, ...]


class Taken(Struct, frozen=True, gc=False):
    """Items with their payloads, locked to the requester, each with its token and its deadline; none if the wait is over.

    With `crowded` so many takes of the account wait that this one may not: without an item it is refused.
    """

    node: NodeName
    items: tuple[tuple[Item, bytes], ...] = ()
    crowded: int | None = None


class Touched(Struct, frozen=True, gc=False):
    """The locks, with their present deadlines; one that is released ends now."""

    node: NodeName
    entries: tuple[tuple[ItemId, Millis], ...]


class Signaled(Struct, frozen=True, gc=False):
    """The item that got the signal, and its state now. `again`: it had this signal already. `wakes`: it was held for it."""

    node: NodeName
    id: ItemId
    state: State
    again: bool = False
    wakes: bool = False


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


class Unanswered(Struct, frozen=True, gc=False):
    """The delivery whose answer is awaited; None if it is awaited no more."""

    delivery: Deliver | None


class FeaturesWanted(Struct, frozen=True, gc=False):
    """A full JID has come; it has to be asked what its client can do, for the level of its deliveries."""


class Doubted(Struct, frozen=True, gc=False):
    """A resource has left, and these keep what its account has: they have to be asked whether they are here."""

    jids: tuple[Jid, ...]


class ConnectionsFreed(Struct, frozen=True, gc=False):
    """So many locks of connections that are gone have ended."""

    locks: int


class GivenUp(Struct, frozen=True, gc=False):
    """So many items of a worker that does not answer are free again."""

    count: int


class Retrieved(Struct, frozen=True, gc=False):
    """Items of a node, oldest first, with their payloads."""

    node: Node
    items: tuple[tuple[Item, bytes], ...]
    part: Part = WHOLE


class SecretKept(Struct, frozen=True, gc=False):
    """A secret of the service."""

    value: bytes

    def __repr__(self) -> str:
        """Show only that there is one."""
        return "SecretKept(...)"


class KeyUsed(Struct, frozen=True, gc=False):
    """The record of a publish under a key, if it was used and is still remembered."""

    node: NodeName
    ids: tuple[ItemId, ...] | None


class Expired(Struct, frozen=True, gc=False):
    """Expired rows are ended, except those that cannot be read; the `schedules` are due, the longest overdue first."""

    schedules: tuple[str, ...] = ()
    """Their names."""
    unread: tuple[tuple[str, ...], ...] = ()
    """The keys of the rows."""


class Overdue(Struct, frozen=True, gc=False):
    """The expired rows, by their keys."""

    keys: tuple[tuple[str, ...], ...]


class Damaged(Struct, frozen=True, gc=False):
    """Items whose content is damaged, by node and id."""

    items: tuple[tuple[NodeName, ItemId], ...]


class SignalLinkMade(Struct, frozen=True, gc=False):
    """A link that sends the item a signal once, as a path below the address of the service, and until when it holds."""

    node: NodeName
    id: ItemId
    path: str
    until: Millis

    def __repr__(self) -> str:
        """Leave out the path: it is enough to use the link."""
        return f"SignalLinkMade({self.node!r}, {self.id!r})"


Reply = (
    Refused
    | Damaged
    | Done
    | LookedThrough
    | Withdrawn
    | SettledEach
    | Published
    | DoneTogether
    | Taken
    | Touched
    | Signaled
    | SignalLinkMade
    | Redriven
    | Cancelled
    | Recovered
    | Resent
    | Unanswered
    | ConnectionsFreed
    | GivenUp
    | Doubted
    | FeaturesWanted
    | Retrieved
    | SecretKept
    | Registrations
    | PushedNodes
    | AlertPage
    | AlertWatch
    | KeyUsed
    | Expired
    | Overdue
    | replies.NodeReply
    | messages.Reply
    | transactions.Reply
    | schedules.Reply
    | replies.PageReply
)


class Decision(Struct, frozen=True, gc=False):
    """A rule's answer. A refusal carries no change and no notice, except for entries of a list that could be changed.

    `then` is the request for the next slice of long work. Other requests are served before it, and the requester is
    answered after the last slice. The next slice waits until the notices to many of this one are sent. `work` is the
    amount of the changes if the request alone does not show it. `beside` are requests for work that is not waited for;
    the reaper submits them too, if the process ends before.
    """

    reply: Reply
    changes: tuple[Change, ...] = ()
    notices: tuple[Notice | News, ...] = ()
    then: Struct | None = None
    work: int = 0
    beside: tuple[Struct, ...] = ()


def refuse(refusal: Refusal, reason: str = "", *, limit: int | None = None) -> Decision:
    """Refuse: nothing changes and nothing is sent to others."""
    return Decision(Refused(refusal, reason, limit))


# A decision on several requests that came as one: each of them as if it had come alone.

R = TypeVar("R")


class DecidedInParts(Decision, frozen=True, gc=False):
    """`parts` are those requests that change anything, each with its own decision; `changes` are the changes of all."""

    parts: tuple[
        tuple[Any, Decision], ...
    ] = ()  # of the requests that there are, which a rule does not know


def steps(request: object, decision: Decision) -> Iterable[tuple[object, tuple[Change, ...]]]:
    """Return the requests, each with its own changes."""
    if type(decision) is DecidedInParts:
        return [(part, decided.changes) for part, decided in decision.parts]
    return ((request, decision.changes),)


def singly(
    requests: Sequence[R], decisions: Sequence[Decision]
) -> tuple[Sequence[R], Sequence[Decision]]:
    """Return the requests with the decisions, each part as if it had come alone."""
    asked: list[R] = []
    decided: list[Decision] = []
    for request, decision in zip(requests, decisions, strict=True):
        if type(decision) is DecidedInParts:
            asked += [part for part, _ in decision.parts]
            decided += [each for _, each in decision.parts]
        else:
            asked.append(request)
            decided.append(decision)
    return asked, decided
