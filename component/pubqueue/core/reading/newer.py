"""Read the items of a plain node after a number: for readers that follow it, each from its own position.

The numbers of items are the service's and rise with its commits. An item that is overwritten has a new number, and is read once
more. An account that may retrieve items of the node may read them in this way: subscribers can. A queue is not read: its items
are delivered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, Refusal, Refused, refuse
from pubqueue.core.nodes.replies import RostersWanted
from pubqueue.core.reading.listing import MAX_BYTES
from pubqueue.core.reading.pages import NewerItems, Newest
from pubqueue.core.reading.retrieve import objection

if TYPE_CHECKING:
    from pubqueue.core.model import Affiliation, Item, Jid, Node, NodeName, Principal

OF_PLAIN_NODES = (
    "only items of a plain node can be read behind a number: those of a queue are delivered"
)


class ReadNewer(Struct, frozen=True, gc=False):
    """Request items numbered after `after`, the oldest first; without a number none, but the number to begin from now on.

    `room` is the number of bytes of payload that the face can put into one answer, which has one item however large.
    """

    by: Principal
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


class AskNewest(Struct, frozen=True, gc=False):
    """Request the highest number of an item in each of the nodes; only the service itself does."""

    by: Principal
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
