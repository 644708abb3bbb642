"""Facts for lists: nodes, ids of items, affiliations, an account's own subscriptions; one page of each.

Rights are judged before a row of a list is read, and no more of a list is read than the page has: a
listing costs the same however long it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.app.store.item_listings import ItemIds
from pubqueue.app.store.listings import (
    AffiliationsOf,
    Backward,
    Nodes,
    NodesNamed,
    NodesOfAccount,
    NodesOfAccountNamed,
    NodesPushed,
    SubscriptionsOfAccount,
    Total,
)
from pubqueue.model.entities import AccessModel, Affiliation, ItemId, Jid
from pubqueue.model.replies import part_of, room_of
from pubqueue.model.several_subscriptions import listed, read_name
from pubqueue.rules import access, discovery, nodes
from pubqueue.rules.discovery import AffiliationFacts, NodeListFacts, SubscriptionFacts, named
from pubqueue.rules.nodes import NodeFacts
from pubqueue.rules.registrations import ListPushedFacts

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from pubqueue.app.facts.context import Context
    from pubqueue.app.store.listings import Listing, SubscriptionsOf
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import Node, NodeName, Subscription
    from pubqueue.model.replies import Page, Part
    from pubqueue.rules.discovery import (
        ListItems,
        ListMyAffiliations,
        ListMySubscriptions,
        ListNodes,
    )
    from pubqueue.rules.nodes import GetAffiliations
    from pubqueue.rules.registrations import ListPushed

    R = TypeVar("R")
    Known = list[tuple[Node, Affiliation]]


def for_nodes(context: Context, request: ListNodes) -> NodeListFacts:
    """Return nodes that the principal may see, each with its affiliation."""
    rows, page = context.rows, request.page
    if request.prefix:
        found, more = _seen(rows, request, room_of(page))
        return NodeListFacts(tuple(found), part_of(page, more=more, total=None))
    room, back = room_of(page), page is not None and page.before is not None
    found, more = _seen(rows, request, room) if room else ([], True)
    part = drop_former(page, len(found), more=more, total=lambda: _all_seen(rows, request))
    if back:
        part = backward(part, more=more)
    return NodeListFacts(tuple(reversed(found) if back else found), part)


def for_pushed(context: Context, request: ListPushed) -> ListPushedFacts:
    """Return the next nodes whose items are pushed."""
    if not request.by.admin:
        return ListPushedFacts(())
    return ListPushedFacts(tuple(context.rows.page(NodesPushed(), request.after, request.most + 1)))


def _seen(rows: WorkingSet, request: ListNodes, room: int) -> tuple[Known, bool]:
    """Return up to n nodes that the principal may see, the nearest first, and whether there are more."""
    found: Known = []
    place = _name(request.page)
    while True:
        known = _next_known(rows, request, place, room + 1)
        found += [entry for entry in known if discovery.sees(request.by, *entry)]
        if len(found) > room:
            return found[:room], True
        if len(known) <= room:
            return found, False
        place = known[-1][0].name


def _next_known(rows: WorkingSet, request: ListNodes, place: str | None, count: int) -> Known:
    """Return the next nodes that the principal may see or has an affiliation with."""
    back = request.page is not None and request.page.before is not None
    open_to_it, mine = _listings(request)
    known = {
        node.name: (node, Affiliation.NONE)
        for listing in open_to_it
        for node in rows.page(Backward(listing) if back else listing, place, count)
    }
    if mine is not None:
        entries = rows.page(Backward(mine) if back else mine, place, count)
        known.update({entry[0].name: entry for entry in entries})
    return [known[name] for name in sorted(known, reverse=back)[:count]]


def _listings(
    request: ListNodes, access_of_mine: tuple[AccessModel, ...] | None = None
) -> tuple[list[Any], Any]:
    """Return the listings of nodes that the principal may see: those open to it, and those that it has an affiliation with."""
    by, types, prefix = request.by, request.types, request.prefix
    if prefix and by.admin:
        return [NodesNamed(prefix)], None
    if prefix:
        opened = [NodesNamed(prefix, model) for model in access.SEEN_BY_ALL]
        return opened, NodesOfAccountNamed(by.account, prefix)
    if types is None:
        if by.admin:
            return [Nodes()], None
        open_to_it = [Nodes(model) for model in access.SEEN_BY_ALL]
        return open_to_it, NodesOfAccount(by.account, access=access_of_mine)
    models = tuple(AccessModel) if by.admin else access.SEEN_BY_ALL
    if types.included is None:
        open_to_it = [Nodes(model, but=types.excluded) for model in models]
        mine = NodesOfAccount(by.account, access=access_of_mine, but=types.excluded)
    else:
        open_to_it = [Nodes(model, kind) for model in models for kind in types.included]
        mine = NodesOfAccount(by.account, access=access_of_mine, types=types.included)
    return open_to_it, None if by.admin else mine


def _all_seen(rows: WorkingSet, request: ListNodes) -> int:
    """Count the nodes that the principal may see; those that exclude it are included, because they are few."""
    open_to_it, mine = _listings(request, access.SEEN_BY_KNOWN)
    seen = sum(total_of(rows, listing) for listing in open_to_it)
    return seen if mine is None else seen + total_of(rows, mine)


def for_items(context: Context, request: ListItems) -> NodeFacts:
    """Return the node and ids of its items, the oldest first."""
    rows, page = context.rows, request.page
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    known = NodeFacts(context.now, node, affiliation, part=part_of(page, more=False, total=0))
    if node is None:
        return known
    subscribed = rows.subscribed(node.name, request.by.account)
    if not discovery.sees_items(request.by, node, affiliation, subscribed=subscribed):
        return known
    after, missing = place_of(rows, node, page)
    if missing:
        return NodeFacts(context.now, node, affiliation, after_missing=True)
    found, part = _part(rows, ItemIds(node.name), after or None, page, lambda: node.items)
    return replace(known, items=tuple(found), part=part, subscribed=subscribed)


def place_of(rows: WorkingSet, node: Node, page: Page | None) -> tuple[int, bool]:
    """Return the number of the item at which the page begins or ends, and whether that item is missing."""
    name = None if page is None else page.before or page.after
    if name is None:
        return 0, False
    item = rows.item(node.name, ItemId(name))
    return (0, True) if item is None else (item.seq, False)


def for_get_affiliations(context: Context, request: GetAffiliations) -> NodeFacts:
    """Return the affiliations of the node, if the principal may know them."""
    rows, page = context.rows, request.page
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    if node is None or not nodes.manages(request.by, node, affiliation):
        return NodeFacts(context.now, node, affiliation)
    listing = AffiliationsOf(node.name)
    found, part = _part(rows, listing, _name(page), page, lambda: total_of(rows, listing))
    people = tuple((row.account, row.affiliation) for row in found)
    return NodeFacts(context.now, node, affiliation, affiliations=people, part=part)


def for_my_affiliations(context: Context, request: ListMyAffiliations) -> AffiliationFacts:
    """Return the account's affiliations with the requested nodes."""
    rows, by, page = context.rows, request.by, request.page
    if request.node is not None:
        node = rows.node(request.node)
        mine = [] if node is None else [(node.name, rows.affiliation(node.name, by.account))]
        return AffiliationFacts(tuple(mine), part_of(page, more=False, total=len(mine)))
    if by.admin:
        nodes, part = _part(rows, Nodes(), _name(page), page, lambda: total_of(rows, Nodes()))
        return AffiliationFacts(tuple((node.name, Affiliation.NONE) for node in nodes), part)
    listing = NodesOfAccount(by.account)
    found, part = _part(rows, listing, _name(page), page, lambda: total_of(rows, listing))
    return AffiliationFacts(tuple((node.name, role) for node, role in found), part)


def for_my_subscriptions(context: Context, request: ListMySubscriptions) -> SubscriptionFacts:
    """Return the account's subscriptions to the requested nodes."""
    rows, page = context.rows, request.page
    if request.node is not None and rows.node(request.node) is None:
        return SubscriptionFacts(found=False, entries=())
    subid, name = read_name(_name(page))
    place = None if name is None else named(name)
    if name is not None and place is None:
        return SubscriptionFacts(found=True, entries=(), after_missing=True)
    listing = SubscriptionsOfAccount(request.by.account, request.node)
    found, part = _subscriptions(rows, listing, place, page, (subid, place))
    return SubscriptionFacts(found=True, entries=tuple(found), part=part)


def subscriptions_part(
    rows: WorkingSet, listing: SubscriptionsOf, page: Page | None
) -> tuple[list[Subscription], Part]:
    """Return subscriptions to a node, by JID and id, and the description of their part of the whole."""
    subid, name = read_name(_name(page))
    at = None if name is None else (listing.node, Jid(name))
    return _subscriptions(rows, listing, name, page, (subid, at))


def _subscriptions(
    rows: WorkingSet,
    listing: Listing[Subscription],
    after: object,
    page: Page | None,
    within: tuple[str | None, tuple[NodeName, Jid] | None],
) -> tuple[list[Subscription], Part]:
    """Return a page of subscriptions: first the remaining ones of the JID `within`, with which the last page ended."""
    room = room_of(page)
    back = page is not None and page.before is not None
    subid, at = within
    found: list[Subscription] = []
    row = None if subid is None or at is None else rows.subscription(*at)
    if row is not None and subid is not None:
        each = listed(row, backward=back)
        found += [one for one in each if (one.subid < subid if back else one.subid > subid)]
    for row in rows.page(Backward(listing) if back else listing, after, room + 1) if room else ():
        found += listed(row, backward=back)
    more = len(found) > room or not room
    part = drop_former(page, len(found[:room]), more=more, total=lambda: total_of(rows, listing))
    if back:
        return found[:room][::-1], backward(part, more=more)
    return found[:room], part


def _name(page: Page | None) -> str | None:
    return None if page is None else page.before or page.after


def _part(
    rows: WorkingSet,
    listing: Listing[R],
    after: object,
    page: Page | None,
    total: Callable[[], int],
) -> tuple[list[R], Part]:
    """Return the rows of a page, and the description of their part of the listing."""
    room = room_of(page)
    back = page is not None and page.before is not None
    which = Backward(listing) if back else listing
    found = rows.page(which, after, room + 1) if room else []
    more = len(found) > room or not room
    part = drop_former(page, len(found[:room]), more=more, total=total)
    if back:
        return found[:room][::-1], backward(part, more=more)
    return found[:room], part


def backward(part: Part, *, more: bool) -> Part:
    """Return the description of a part that was read from its end: `more` is before it."""
    return replace(part, more=False, begins=not more, backward=True)


def next_part(
    rows: WorkingSet, listing: Listing[R], page: Page | None, total: Callable[[], int]
) -> tuple[list[R], Part]:
    """Return the rows of a page from the cache, and the description of their part of the listing."""
    return _part(rows, listing, _name(page), page, total)


def drop_former(page: Page | None, shown: int, *, more: bool, total: Callable[[], int]) -> Part:
    """Return the description of a part; the total is counted only if the part itself does not show it."""
    part = part_of(page, more=more, total=None)
    if not more and part.begins:
        return part_of(page, more=more, total=shown)
    return part_of(page, more=more, total=total())


def total_of(rows: WorkingSet, listing: Listing[R]) -> int:
    """Count the rows of a listing."""
    return sum(rows.page(Total(listing)))
