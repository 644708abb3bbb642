"""Whether a dead-letter node takes an item that dies: the death is a publish by the owners of the item's node.

A queue that names a dead-letter node can do there what its owners can do themselves, and nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import in_words
from pubqueue.core.model import Affiliation
from pubqueue.core.nodes.references import is_meant
from pubqueue.core.queue.publish import turned_away

if TYPE_CHECKING:
    from collections.abc import Container

    from pubqueue.core.model import Item, Jid, Node, Principal


class Owner(Struct, frozen=True, gc=False):
    """An owner of the item's node, and what it is to the dead-letter node."""

    by: Principal
    affiliation: Affiliation = Affiliation.NONE
    subscribed: bool = False


class Heritage(Struct, frozen=True, gc=False):
    """A queue, the node that it names for its dead items, and the account that publishes them there.

    `trusted` are the accounts that may have made that node since the queue named it.
    """

    queue: Node
    place: Node
    owners: tuple[Owner, ...]
    trusted: Container[Jid]


def refusal(heritage: Heritage, item: Item, size: int, space: str) -> str:
    """Return why the dead-letter node refuses the item, empty if it takes it.

    `size` and `space` are the bytes and the namespace of its payload.
    """
    place = heritage.place
    if not is_meant(heritage.queue.config, "dead_letter_node", place, heritage.trusted):
        return f"{place.creator} recreated it, so it is not the node that was meant"
    if not place.config.persists:
        return "it does not keep items"
    obstacle = "this node has no owner"
    for owner in heritage.owners:
        to = owner.by, owner.affiliation, place
        no = turned_away(*to, item, size, space, subscribed=owner.subscribed)
        if no is None:
            return ""
        obstacle = f"{in_words(no)}, for {owner.by.account}"
    return obstacle
