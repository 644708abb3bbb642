"""Facts for items that die: the dead-letter nodes of their nodes, and the account that publishes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.store.listings import AffiliationsOf
from pubqueue.core.model import Affiliation, NodeName, Principal, PublishModel
from pubqueue.core.queue.dead_letters import Heritage, Owner, refusal
from pubqueue.core.queue.give_back import DeadLetterPlace, room_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.facts.context import Context
    from pubqueue.core.model import Item, Jid, Node

    Dying = tuple[Item, Node] | None

MAX_OWNERS: Final = 100
"""Owners of a queue, the first by name, that are checked for the right to publish to its dead-letter node."""


def places(context: Context, dying: Iterable[Dying]) -> tuple[DeadLetterPlace | None, ...]:
    """Return the place for each item that dies with its node; None where there is none, or an item does not die."""
    known: dict[NodeName, Heritage | None] = {}
    return tuple([None if one is None else _place(context, *one, known) for one in dying])


def _place(
    context: Context, item: Item, node: Node, known: dict[NodeName, Heritage | None]
) -> DeadLetterPlace | None:
    name = NodeName(node.config.dead_letter_node)
    if not name:
        return None
    if node.name not in known:
        known[node.name] = _heritage(context, node, name)
    heritage, rows = known[node.name], context.rows
    if heritage is None:
        return DeadLetterPlace(name, exists=False, taken=False)
    taken = rows.item(name, item.id) is not None
    payload = b"" if taken else rows.payload(item)
    no = ""
    if not taken and not rows.lacking:
        space = context.space_of(payload) if heritage.place.config.type else ""
        no = refusal(heritage, item, len(payload), space)
    room, left = room_for(heritage.place, node, context.allowance(heritage.place.creator))
    return DeadLetterPlace(name, exists=True, taken=taken, room=room, refuses=no, left=left)


def _heritage(context: Context, node: Node, name: NodeName) -> Heritage | None:
    """Return the dead-letter node and the account that may publish there; the operator if the queue has no owner."""
    rows = context.rows
    place = rows.node(name)
    if place is None:
        return None
    found = rows.page(AffiliationsOf(node.name, (Affiliation.OWNER,)), None, MAX_OWNERS)
    accounts = [row.account for row in found]
    owners = tuple([_owner(context, account, place) for account in accounts])
    trusted = {*accounts, *context.operators, context.service.account}
    return Heritage(node, place, owners or (Owner(context.service),), trusted)


def _owner(context: Context, account: Jid, place: Node) -> Owner:
    rows, by = context.rows, Principal(account, admin=account in context.operators)
    listens = place.config.publish_model is PublishModel.SUBSCRIBERS
    subscribed = listens and rows.subscribed(place.name, account)
    return Owner(by, rows.affiliation(place.name, account), subscribed)
