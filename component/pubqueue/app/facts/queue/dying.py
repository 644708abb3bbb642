"""Facts for items that die: the dead-letter nodes of their nodes, and the account that publishes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.facts.queue.publishing import existing
from pubqueue.app.store.listings import AffiliationsOf
from pubqueue.model.entities import Affiliation, Draft, NodeName, Principal, PublishModel
from pubqueue.rules.expire import Heritage, Owner, admitting, passes_on, refusal
from pubqueue.rules.feed import elsewhere
from pubqueue.rules.give_back import Copy, DeadLetterPlace, Onward, room_for
from pubqueue.rules.publication import Known

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.facts.context import Context
    from pubqueue.model.entities import Item, ItemId, Jid, Node

    Dying = tuple[Item, Node] | None

MAX_OWNERS: Final = 100
"""Up to how many owners of a queue, the first by name, are checked for the right to publish to its dead-letter node."""


def places(context: Context, dying: Iterable[Dying]) -> tuple[DeadLetterPlace | None, ...]:
    """Return the place for each item that dies with its node; None if there is none, or an item does not die."""
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
    queues = admitting(heritage.to, item)
    may = queues or (heritage.place,)
    free = [place for place in may if rows.item(place.name, item.id) is None]
    to, taken = free[0] if free else may[0], not free
    payload = b"" if taken else rows.payload(item)
    no, onward = "", None
    if not taken and not rows.lacking:
        has_type = any(one.config.type for one in (heritage.place, *queues))
        space = context.payloads.space_of(payload) if has_type else ""
        no = refusal(heritage, item, len(payload), space)
    if queues and not taken and not no:
        onward = _onward(context, item, to, queues, payload)
    room, left = room_for(to, node, context.allowance(to.creator))
    return DeadLetterPlace(to.name, True, taken, room, no, left, onward)  # noqa: FBT003


def _onward(
    context: Context, item: Item, first: Node, queues: tuple[Node, ...], payload: bytes
) -> Onward:
    """Return the first queue, and the others with the ids under which they accept the item: none if they have it already."""
    rows = context.rows
    copies: list[Copy] = []
    draft = Draft(item.id, payload)
    for queue in queues:
        allowance = None if queue is first else context.allowance(queue.creator)
        if queue is first or (name := _free_id(context, queue, draft)) is None:
            continue
        copies.append(Copy(queue, name, allowance))
    return Onward(first, payload if copies and not rows.lacking else b"", tuple(copies))


def _free_id(context: Context, queue: Node, draft: Draft) -> ItemId | None:
    """Return the id of a copy in a queue; None if this very item exists there, or was done, under its own id or the other."""
    known, _ = existing(context, queue, draft)
    if known is Known.NEW:
        return draft.id
    if known is not Known.OTHER:
        return None
    other = elsewhere(draft.id, context.payloads.fingerprint(draft.payload))
    return other if context.rows.item(queue.name, other) is None else None


def _heritage(context: Context, node: Node, name: NodeName) -> Heritage | None:
    """Return the dead-letter node and the account that may publish there; the operator if the queue has no owner."""
    rows = context.rows
    place = rows.node(name)
    if place is None:
        return None
    found = rows.page(AffiliationsOf(node.name, (Affiliation.OWNER,)), None, MAX_OWNERS)
    accounts = [row.account for row in found]
    owners = tuple([_owner(context, account, place) for account in accounts])
    trusted = {*accounts, *context.terms.operators, context.service.account}
    fed = [rows.node(feed.queue) for feed in place.config.feeds] if passes_on(place) else []
    to = tuple([queue for queue in fed if queue is not None])
    return Heritage(node, place, owners or (Owner(context.service),), trusted, to)


def _owner(context: Context, account: Jid, place: Node) -> Owner:
    rows, by = context.rows, Principal(account, admin=account in context.terms.operators)
    listens = place.config.publish_model is PublishModel.SUBSCRIBERS
    subscribed = listens and rows.subscribed(place.name, account)
    return Owner(by, rows.affiliation(place.name, account), subscribed)
