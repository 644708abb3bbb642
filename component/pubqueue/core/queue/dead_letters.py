"""Whether a dead-letter node accepts an item that dies: the death is a publish by the owners of the item's node.

A queue that names a dead-letter node has exactly the rights of its owners there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.decision import in_words
from pubqueue.core.model import Affiliation
from pubqueue.core.nodes.references import is_meant
from pubqueue.core.publishing.filters import admits, indexed
from pubqueue.core.publishing.places import MAX_BYTES, misfit
from pubqueue.core.queue.publish import turned_away

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from pubqueue.core.model import Item, Jid, Node, Principal

NAMED: Final = 3
"""Up to how many queues a reason names."""


class Owner(Struct, frozen=True, gc=False):
    """An owner of the item's node, and its affiliation with the dead-letter node."""

    by: Principal
    affiliation: Affiliation = Affiliation.NONE
    subscribed: bool = False


class Heritage(Struct, frozen=True, gc=False):
    """A queue, the node that it names for its dead items, and the account that publishes them there.

    `trusted` are the accounts that may have created that node since the queue named it. `to` are the queues that get the
    item, if the node only passes items on to them.
    """

    queue: Node
    place: Node
    owners: tuple[Owner, ...]
    trusted: Container[Jid]
    to: tuple[Node, ...] = ()


def passes_on(place: Node) -> bool:
    """Return whether a dead-letter node keeps no items itself, and passes a dead item on to all the queues that it feeds."""
    return not place.config.persists and not place.config.queueing


def admitting(queues: Iterable[Node], item: Item) -> tuple[Node, ...]:
    """Return the queues whose filters admit the item."""
    index = indexed(item.headers)
    return tuple([queue for queue in queues if admits(queue.config.filter, index)])


def refusal(heritage: Heritage, item: Item, size: int, space: str) -> str:
    """Return why the dead-letter node refuses the item, empty if it accepts it.

    `size` and `space` are the bytes and the namespace of its payload.
    """
    place = heritage.place
    if not is_meant(heritage.queue.config, "dead_letter_node", place, heritage.trusted):
        return f"{place.creator} recreated it, so it is not the node that was meant"
    if passes_on(place):
        obstacle = _not_passed_on(heritage, item, size, space)
        if obstacle:
            return obstacle
    obstacle = "this node has no owner"
    for owner in heritage.owners:
        to = owner.by, owner.affiliation, place
        no = turned_away(*to, item, size, space, subscribed=owner.subscribed)
        if no is None:
            return ""
        obstacle = f"{in_words(no)}, for {owner.by.account}"
    return obstacle


def _not_passed_on(heritage: Heritage, item: Item, size: int, space: str) -> str:
    """Return why one of the queues that the node feeds refuses the item, empty if all accept it: it goes to all of them, or to none."""
    if not heritage.to:
        return "it does not keep items"
    to = admitting(heritage.to, item)
    if not to:
        names = ", ".join([queue.name for queue in heritage.to[:NAMED]])
        return f"the filter of {names} leaves it out"
    if (len(to) - 1) * size > MAX_BYTES:
        return f"it feeds {len(to)} queues, which is too much for {size} bytes"
    for queue in to:
        if queue.config.publish_paused:
            return f"publishing to {queue.name} is paused"
        if (no := misfit(size, space, item.headers, queue.config)) is not None:
            return f"{queue.name}: {in_words(no)}"
    return ""
