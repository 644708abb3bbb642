"""Facts for retrieving and redriving items: those that the principal may see, as many as fit into one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.app.facts.nodes.listing import backward, drop_former, place_of
from pubqueue.app.facts.nodes.managing import owners_to_notify
from pubqueue.app.store.item_listings import DeadItems, Items, PlaceOf, Places
from pubqueue.model.replies import Part, part_of, room_of
from pubqueue.rules import dead_letters, retrieve
from pubqueue.rules.dead_letters import CANCEL_SLICE, Candidate, RedriveFacts, is_of
from pubqueue.rules.retrieve import Order, RetrieveFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import Item, ItemId, Jid, Node
    from pubqueue.model.replies import Page
    from pubqueue.rules.dead_letters import Redrive
    from pubqueue.rules.retrieve import Retrieve

    Rows = list[tuple[Item, bytes]]
    Holders = tuple[Jid, ...] | None

MAX_PAGE: Final = 500
"""Up to how many items one answer has."""

REVIVED: Final = 1000
"""Up to how many dead items one redrive without names takes."""


def for_redrive(context: Context, request: Redrive) -> RedriveFacts:
    """Return the dead, and the nodes that they may go to."""
    rows = context.rows
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    may = dead_letters.redrive_objection(request.by, node, affiliation) is None
    dead, missing = _dead(rows, request) if may else ([], ())
    looked, through = len(dead), 0
    if request.reason and request.ids is None:
        through = dead[-1].seq if len(dead) == CANCEL_SLICE else 0
        dead = [item for item in dead if is_of(request.reason, item)]
    candidates = tuple(_candidate(context, request, item) for item in dead)
    names = {request.to} if request.to else {one.origin for one in candidates}
    nodes = [(name, rows.counted(name)) for name in names if name]
    return RedriveFacts(
        now=context.now,
        node=node,
        affiliation=affiliation,
        candidates=candidates,
        missing=missing,
        targets={
            name: (target, rows.affiliation(name, request.by.account))
            for name, target in nodes
            if target is not None
        },
        looked=looked,
        through=through,
        allowances={
            name: context.allowance(target.creator) for name, target in nodes if target is not None
        },
    )


def _dead(rows: WorkingSet, request: Redrive) -> tuple[list[Item], tuple[ItemId, ...]]:
    if request.ids is None and request.reason:
        return rows.page(DeadItems(request.node), request.after or None, CANCEL_SLICE), ()
    if request.ids is None:
        return rows.page(DeadItems(request.node), None, REVIVED), ()
    found = [rows.item(request.node, name) for name in request.ids]
    there = [item for item in found if item is not None]
    known = {item.id for item in there}
    return there, tuple(name for name in request.ids if name not in known)


def _candidate(context: Context, request: Redrive, item: Item) -> Candidate:
    rows, candidate = context.rows, Candidate(item, taken=False)
    to = request.to or candidate.origin or item.node
    if to == item.node:
        return candidate
    target, payload = rows.node(to), rows.payload(item)
    typed = target is not None and target.config.type and not rows.lacking
    space = context.payloads.space_of(payload) if typed else ""
    return Candidate(item, rows.item(to, item.id) is not None, len(payload), space)


def for_retrieve(context: Context, request: Retrieve) -> RetrieveFacts:
    """Return the requested rows, as many as fit into one answer; none if the principal may not see any."""
    rows, principal = context.rows, request.by
    node = rows.node(request.node)
    affiliation, subscribed = rows.rights(request.node, principal.account)
    owners = owners_to_notify(rows, node)
    no = retrieve.objection(principal, node, affiliation, subscribed=subscribed, owners=owners)
    nothing = part_of(request.page, more=False, total=0)
    if no is not None or node is None:
        return RetrieveFacts(node, affiliation, subscribed, (), nothing, owners=owners)
    mine = tuple(
        one
        for jid in dict.fromkeys((principal.jid, principal.account))
        if (one := rows.subscription(node.name, jid)) is not None
    )
    everything = retrieve.sees_all(principal, node, affiliation)
    holders = None if everything else (principal.jid, principal.account)
    after, missing = place_of(rows, node, request.page)
    if missing or rows.lacking:
        return RetrieveFacts(
            node, affiliation, subscribed, (), nothing, after_missing=missing, mine=mine
        )
    found, part = _page(rows, request, node, holders, after)
    return RetrieveFacts(node, affiliation, subscribed, tuple(found), part, mine=mine)


def _page(
    rows: WorkingSet, request: Retrieve, node: Node, holders: Holders, after: int
) -> tuple[Rows, Part]:
    """Return rows, oldest first, as many as there is room for, and the description of their part of the whole."""
    if request.ids:
        return _named(rows, request, holders)
    listing = Items(node.name, holders, room=request.room)
    if request.order is not None and not node.config.queueing:
        return _ordered(rows, request, node, after)
    if request.newest is not None:
        return _newest(rows, request, node, listing)
    if request.page is not None and request.page.before is not None:
        return _in_front(rows, request.page, node, listing, after)
    limit = room_of(request.page, MAX_PAGE)
    found = rows.page(listing, after, limit + 1) if limit else []
    shown = found[:limit]
    more = not limit or len(found) > limit or _goes_on(rows, listing, shown)
    part = drop_former(
        request.page, len(shown), more=more, total=lambda: _seen(rows, node, holders)
    )
    return shown, part


def _ordered(rows: WorkingSet, request: Retrieve, node: Node, number: int) -> tuple[Rows, Part]:
    """Return a page of all items in the requested order (XEP-0413), after an item or before one."""
    order, page = request.order or Order(), request.page
    back = page is not None and page.before is not None
    limit = min(room_of(page, MAX_PAGE), request.newest or MAX_PAGE)
    place = rows.page(PlaceOf(number))[0] if number and order.created else number
    listing = Places(node.name, order.created, backward=order.descending is not back)
    places = rows.page(listing, place or None, limit + 1) if limit else []
    numbers = tuple([seq for _, seq in places[:limit]])
    found = rows.page(Items(node.name, numbers=numbers, room=request.room), None, limit)
    more = not limit or len(places) > len(found)
    if page is None and len(found) == request.newest:
        more = False  # that is all that was requested
    part = drop_former(page, len(found), more=more, total=lambda: node.items)
    if back:
        return found[::-1], backward(part, more=more)
    return found, part


def _newest(rows: WorkingSet, request: Retrieve, node: Node, listing: Items) -> tuple[Rows, Part]:
    """Return the last n; if there is no room for all, the very last."""
    wanted = request.newest or 0
    found = rows.page(replace(listing, newest=True), None, min(wanted, MAX_PAGE))
    total = _seen(rows, node, listing.holders)
    cut = len(found) < min(wanted, total)
    part = part_of(request.page, more=cut, total=total)
    return found, replace(part, begins=len(found) == total, backward=True)


def _in_front(
    rows: WorkingSet, page: Page, node: Node, listing: Items, before: int
) -> tuple[Rows, Part]:
    """Return the last ones before an item, or of all if `before` is 0."""
    listing, limit = replace(listing, newest=True), room_of(page, MAX_PAGE)
    found = rows.page(listing, before or None, limit) if limit else []
    ahead = rows.page(replace(listing, room=0), found[0][0].seq, 1) if found else []
    part = part_of(page, more=False, total=_seen(rows, node, listing.holders))
    return found, replace(part, begins=not ahead, backward=True)


def _seen(rows: WorkingSet, node: Node, holders: Holders) -> int:
    """Count the items of a node that the principal sees: all, or those that it holds."""
    if holders is None:
        return node.items
    return sum([rows.count_held(holder, node.name) for holder in set(holders)])


def _goes_on(rows: WorkingSet, listing: Items, shown: Rows) -> bool:
    """Return whether items follow that the store left out because the page was full."""
    return bool(shown) and bool(rows.page(replace(listing, room=0), shown[-1][0].seq, 1))


def _named(rows: WorkingSet, request: Retrieve, holders: Holders) -> tuple[Rows, Part]:
    """Return the named items; payloads are loaded only of those that the principal may see."""
    names = dict.fromkeys(request.ids[:MAX_PAGE])
    there = [item for name in names if (item := rows.item(request.node, name)) is not None]
    seen = sorted(item.seq for item in there if holders is None or item.holder in holders)
    listing = Items(request.node, numbers=tuple(seen), room=request.room)
    found = rows.page(listing, None, len(seen)) if seen else []
    cut = len(found) < len(seen) or len(request.ids) > MAX_PAGE
    return found, Part(more=cut, begins=False)
