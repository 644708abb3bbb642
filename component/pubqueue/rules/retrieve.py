"""Retrieve items (XEP-0060 6.5), also those after a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.decision import Decision, Read, Refusal, Refused, Retrieved, refuse
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Subscription,
    SubscriptionState,
    covers,
)
from pubqueue.model.replies import MAX_BYTES, NewerItems, Newest, Page, Part, RostersWanted
from pubqueue.model.several_subscriptions import find
from pubqueue.rules import access
from pubqueue.rules.access import Action

if TYPE_CHECKING:
    from pubqueue.model.entities import Item, ItemId, Jid, Node, NodeName, Principal


# Retrieve items (XEP-0060 6.5). On a queue: all for owners and publishers, one's own for workers.


class Order(Struct, frozen=True, gc=False):
    """The order in which items of a plain node are read: by when they were modified, or `created`; `descending` or not."""

    created: bool = False
    descending: bool = False


class Retrieve(Read, frozen=True, gc=False):
    """Request these items, the newest n, or a page of all, the oldest first.

    `room` is the number of bytes of payload that the face can put into one answer. With an `order`
    they are the first ones in that order. `subid` names the subscription of the requester (XEP-0060
    6.5.6); it does not affect the answer.
    """

    node: NodeName
    ids: tuple[ItemId, ...] = ()
    newest: int | None = None
    page: Page | None = None
    room: int = MAX_BYTES
    order: Order | None = None
    subid: str | None = None


class RetrieveFacts(Struct, frozen=True, gc=False):
    """The node and the requested rows, oldest first, as many as fit."""

    node: Node | None
    affiliation: Affiliation
    subscribed: bool
    items: tuple[tuple[Item, bytes], ...]
    part: Part
    after_missing: bool = False
    owners: tuple[Jid, ...] = ()
    mine: tuple[Subscription, ...] = ()
    """The subscriptions of the principal, as its full JID and as its account."""


def retrieve(request: Retrieve, facts: RetrieveFacts) -> Decision:
    """Decide which of the items the principal may see. Looking makes no lock and extends none (row 14)."""
    node = facts.node
    no = objection(
        request.by, node, facts.affiliation, subscribed=facts.subscribed, owners=facts.owners
    )
    if isinstance(no, RostersWanted):
        return Decision(no)
    if no is not None or node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND)
    if (unclear := _which(request.subid, facts.mine)) is not None:
        return refuse(unclear)
    if (why := _contradiction(request, node)) is not None:
        return refuse(Refusal.BAD_REQUEST, why)
    if facts.after_missing:
        return refuse(Refusal.ITEM_NOT_FOUND)
    items = facts.items
    if not node.config.persists and not node.items:  # XEP-0060 6.5.9.4
        return Decision(Refused(Refusal.UNSUPPORTED, setting="persistent-items"))
    if not sees_all(request.by, node, facts.affiliation):
        items = tuple(_for_worker(row) for row in items if holds(request.by, row[0]))
    return Decision(Retrieved(node, items, facts.part))


def _contradiction(request: Retrieve, node: Node) -> str | None:
    """Return why one thing that is requested would make another be ignored."""
    if request.order is not None and (node.config.queueing or request.ids):
        return "order applies only to requests for all items of a plain node"
    if request.ids and (request.newest is not None or request.page is not None):
        return "items are named by their ids, or counted, not both"
    if request.order is None and request.newest is not None and request.page is not None:
        return "the newest items are requested, or a page, not both"
    return None


def _which(subid: str | None, mine: tuple[Subscription, ...]) -> Refusal | None:
    """Return the fault of the subscription that the request names (XEP-0060 6.5.9.1, 6.5.9.2).

    A principal that does not subscribe need not name any.
    """
    found = [find(one, subid) for one in mine if one.state is SubscriptionState.SUBSCRIBED]
    if subid is not None and any(isinstance(one, Subscription) for one in found):
        return None
    return next((one for one in found if isinstance(one, Refusal)), None)


def objection(
    by: Principal,
    node: Node | None,
    affiliation: Affiliation,
    *,
    subscribed: bool,
    owners: tuple[Jid, ...] = (),
) -> Refusal | RostersWanted | None:
    """Return why the principal may not retrieve from the node at all; no item has to be loaded for that."""
    if node is None:
        return Refusal.NODE_NOT_FOUND
    affiliation = access.standing_of(by, affiliation)
    if (closed := access.barred(affiliation, node, known=subscribed)) is not None:
        return closed
    if affiliation is Affiliation.PUBLISH_ONLY:
        return Refusal.FORBIDDEN
    if subscribed or access.may(affiliation, Action.RETRIEVE, node):
        return None
    if node.config.access_model is AccessModel.AUTHORIZE:  # XEP-0060 6.5.9.3
        return Refusal.NOT_APPROVED
    if node.config.access_model in access.OF_ROSTERS and affiliation is Affiliation.NONE:
        return access.stranger(by, node, owners)
    return None if node.config.queueing else Refusal.FORBIDDEN


def sees_all(by: Principal, node: Node, affiliation: Affiliation) -> bool:
    """Return whether the principal sees every item; otherwise, in a queue, those that it holds (row 14)."""
    runs = access.standing_of(by, affiliation) in {Affiliation.OWNER, Affiliation.PUBLISHER}
    return runs or not node.config.queueing


def _for_worker(row: tuple[Item, bytes]) -> tuple[Item, bytes]:
    """Leave out the record of an earlier death: that is for operators of the queue."""
    item, payload = row
    return replace(item, dead_letter=None), payload


def holds(principal: Principal, item: Item) -> bool:
    """Return whether the item is locked to a JID that the principal covers."""
    return item.holder is not None and covers(item.holder, principal.jid)


# Read the items of a plain node after a number: for readers that follow it, each from its own position.
#
# The numbers of items are the service's and rise with its commits. An item that is overwritten has a new number, and is read once
# more. An account that may retrieve items of the node may read them in this way: subscribers can. A queue is not read: its items
# are delivered.

OF_PLAIN_NODES = (
    "only items of a plain node can be read behind a number: those of a queue are delivered"
)


class ReadNewer(Read, frozen=True, gc=False):
    """Request items numbered after `after`, the oldest first; without a number none, but the number to begin from now on.

    `room` is the number of bytes of payload that the face can put into one answer, which has one item however large.
    """

    node: NodeName
    after: int | None = None
    most: int | None = None
    room: int = MAX_BYTES


class ReadNewerFacts(Struct, frozen=True, gc=False):
    """The node, the principal's affiliation, and the next items, if it may see them.

    `newest` is the highest number of an item there, and `kept` whether the item of the number `after` still exists.
    """

    node: Node | None
    affiliation: Affiliation
    subscribed: bool
    items: tuple[tuple[Item, bytes], ...] = ()
    newest: int = 0
    kept: bool = True
    owners: tuple[Jid, ...] = ()


class AskNewest(Read, frozen=True, gc=False):
    """Request the highest number of an item in each of the nodes; only the service itself does."""

    nodes: tuple[NodeName, ...]


class AskNewestFacts(Struct, frozen=True, gc=False):
    """The numbers, of those of the nodes that exist and contain anything."""

    numbers: tuple[tuple[NodeName, int], ...]


def no_page(request: ReadNewer, facts: ReadNewerFacts) -> Refused | RostersWanted | None:
    """Return why there is no page for the principal; no item has to be loaded for that."""
    node = facts.node
    no = objection(
        *(request.by, node, facts.affiliation), subscribed=facts.subscribed, owners=facts.owners
    )
    if isinstance(no, RostersWanted):
        return no
    if no is not None or node is None:
        return Refused(no or Refusal.NODE_NOT_FOUND)
    if node.config.queueing:
        return Refused(Refusal.BAD_REQUEST, OF_PLAIN_NODES)
    if not node.config.keeps:  # XEP-0060 6.5.9.4
        return Refused(Refusal.UNSUPPORTED, setting="persistent-items")
    return None


def read_newer(request: ReadNewer, facts: ReadNewerFacts) -> Decision:
    """Decide whether the principal may have the items."""
    no = no_page(request, facts)
    if no is not None or facts.node is None:
        return Decision(no or Refused(Refusal.NODE_NOT_FOUND))
    after = facts.newest if request.after is None else request.after
    through = facts.items[-1][0].seq if facts.items else after
    more = through < facts.newest
    return Decision(NewerItems(facts.node, facts.items, through, facts.newest, more, facts.kept))


def ask_newest(request: AskNewest, facts: AskNewestFacts) -> Decision:
    """Return the number for each node, 0 if there is no item or no node."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    known = dict(facts.numbers)
    return Decision(Newest(tuple((name, known.get(name, 0)) for name in request.nodes)))
