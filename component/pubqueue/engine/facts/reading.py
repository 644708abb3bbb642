"""Facts for requests that read items and the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.engine import listings
from pubqueue.engine.facts.managing import backward, drop_former, owners_to_notify, place_of
from pubqueue.engine.facts.publishing import oldest
from pubqueue.model import replies
from pubqueue.model.entities import Affiliation, Millis, NodeName, State
from pubqueue.model.replies import Part, part_of, room_of
from pubqueue.rules import access, read, retrieve
from pubqueue.rules.access import Action
from pubqueue.rules.audience import CROWD
from pubqueue.rules.dead_letters import (
    CANCEL_SLICE,
    DEATHS_SLICE,
    Candidate,
    DeathsFacts,
    RedriveFacts,
    is_of,
    matches,
)
from pubqueue.rules.definitions import EACH, MOST, TOGETHER, DefinitionFacts, Known
from pubqueue.rules.inspect import objection
from pubqueue.rules.retrieve import AskNewestFacts, Order, ReadNewerFacts, RetrieveFacts, no_page
from pubqueue.rules.survey import slice_of
from pubqueue.rules.trimming import DEAD_LOOKED_AT, DEAD_SLICE, DropDeadFacts, outlived

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.engine.context import Context
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.entities import Item, ItemId, Jid, Node, Principal
    from pubqueue.model.replies import ItemEntry, Page
    from pubqueue.rules.dead_letters import ReadDeaths, Redrive
    from pubqueue.rules.definitions import ReadDefinitions
    from pubqueue.rules.retrieve import AskNewest, ReadNewer, Retrieve
    from pubqueue.rules.survey import ReadSurvey
    from pubqueue.rules.trimming import DropDead

    Rows = list[tuple[Item, bytes]]
    Holders = tuple[Jid, ...] | None


# Facts for reads: pages of events, items and nodes, up to the size of an answer.

MAX_EVENTS: Final = 1_000
MAX_ITEMS: Final = 500
MAX_NODES: Final = 50
"""The maximum in one answer, whatever is requested."""

SEARCHED: Final = 2_000
"""Nodes whose names are examined for one answer."""

SCANNED: Final = 20_000
"""Events of all nodes, or items in all states, that are looked at for one answer, so that none takes long."""

COUNTED: Final = 100_000
"""Up to how many items of the nodes are counted for one answer. A node that has more is on a page alone, and is counted in slices, between which other readers have their turn."""

OBSERVERS: Final = access.holders_of(Action.OBSERVE)
MANAGERS: Final = access.holders_of(Action.MANAGE)


def _log_ends(rows: WorkingSet) -> tuple[int, int]:
    return next(iter(rows.page(listings.LogEnds())), (0, 0))


def for_events(context: Context, request: read.ReadEvents) -> read.ReadFacts:
    """Return events of the readable nodes."""
    rows = context.rows
    by, named = request.by, request.node
    nodes = _known(rows, by, None, 1) if named is None else _one(rows, by, named)
    if not read.readable(by, nodes):
        return read.ReadFacts(nodes, None)
    oldest, newest = _log_ends(rows)
    after = max(request.after, oldest - 1)
    end = newest if request.until is None else min(request.until, newest)
    until = min(end, after + SCANNED)
    limit = _bounded(request.max, MAX_EVENTS)
    if named is not None and request.item is not None:
        of_item = rows.page(listings.EventsOf(named, request.item), after, limit)
        found, until = [entry for entry in of_item if entry.seq <= end], end
    else:
        names = None if named is None else (named,)
        mine = None if by.admin or named is not None else by.account
        listing = listings.Events(names, until, mine, OBSERVERS, request.item)
        found = rows.page(listing, after, limit)
    through = found[-1].seq if len(found) == limit else max(until, request.after)
    page = replies.EventPage(tuple(found), oldest, newest, through, more=through < end)
    return read.ReadFacts(nodes, page)


def for_items(context: Context, request: read.ReadItems) -> read.ReadFacts:
    """Return items of a readable node."""
    rows = context.rows
    nodes = _one(rows, request.by, request.node)
    if not read.readable(request.by, nodes):
        return read.ReadFacts(nodes, None)
    dead, done = request.state is State.DEAD, request.state is State.DONE
    newest = next(iter(rows.page(listings.NewestItem(request.node, dead, done))), 0)
    end = newest if request.until is None else min(request.until, newest)
    looked_at = end
    if request.state not in {None, State.DEAD, State.DONE}:
        far = rows.page(listings.Stride(request.node), request.after, SCANNED)
        looked_at = min([end, *far])
    limit = _bounded(request.max, MAX_ITEMS)
    listing = listings.ItemEntries(
        request.node, looked_at, request.state, request.payloads, request.room
    )
    if dead and request.reason:
        return read.ReadFacts(nodes, _of_reason(rows, request, listing, limit, newest))
    found = rows.page(listing, request.after, limit + 1)
    shown = tuple(found[:limit])
    more = len(found) > limit or _entries_go_on(rows, listing, shown)
    through = _number(shown[-1], dead=dead) if more else max(looked_at, request.after)
    more = more or looked_at < end
    kept = sum(one.node.done for one in nodes) if request.state is None else 0
    return read.ReadFacts(
        nodes, replies.ItemPage(request.node, shown, newest, through, more, dead, kept)
    )


def _of_reason(
    rows: WorkingSet,
    request: read.ReadItems,
    listing: listings.ItemEntries,
    limit: int,
    newest: int,
) -> replies.ItemPage:
    """Return those of the next dead items that have a reason, perhaps few or none."""
    found = rows.page(listing, request.after, MAX_ITEMS + 1)
    matching = [
        entry
        for entry in found[:MAX_ITEMS]
        if entry.item.dead_letter and matches(request.reason, entry.item.dead_letter.reason)
    ]
    shown, more = tuple(matching[:limit]), len(found) > MAX_ITEMS
    through = (
        _number(found[MAX_ITEMS - 1], dead=True) if more else max(listing.until, request.after)
    )
    if len(matching) > limit:
        more, through = True, _number(shown[-1], dead=True)
    return replies.ItemPage(request.node, shown, newest, through, more, dead=True)


def _entries_go_on(
    rows: WorkingSet, listing: listings.ItemEntries, shown: tuple[ItemEntry, ...]
) -> bool:
    """Return whether items follow that the store left out because the page was full."""
    if not shown or not listing.payloads:
        return False
    last = _number(shown[-1], dead=listing.state is State.DEAD)
    return bool(rows.page(replace(listing, payloads=False), last, 1))


def _number(shown: ItemEntry, *, dead: bool) -> int:
    """Return the number by which pages are ordered."""
    letter = shown.item.dead_letter
    return letter.number if dead and letter is not None else shown.item.seq


def for_read_nodes(context: Context, request: read.ReadNodes) -> read.ReadFacts:
    """Return readable nodes, with their counts."""
    rows, by = context.rows, request.by
    limit = _bounded(request.max, MAX_NODES)
    roles = MANAGERS if request.managed else OBSERVERS
    behind, through = _wanted(rows, request, limit + 1, roles)
    nodes = behind[:1] or _known(rows, by, None, 1, roles)
    if not (by.admin or read.readable(by, nodes)):
        return read.ReadFacts(nodes, None)
    owned = {known.node.name for known in behind if read.owns(by, known)}
    names = _countable(known.node for known in behind[:limit])
    counted = None
    if behind and behind[0].node.items > COUNTED:
        counting = _count_on(rows, names[0], request.counted)
        if counting.state is not None:
            return read.ReadFacts(nodes, None, then=replace(request, counted=counting))
        counted = counting.queued, counting.dead
    entries = rows.page(listings.NodeEntries(names, counted), None, limit)
    shown = tuple(
        # the counts of a long node come from several moments, so those in neither state may seem to be fewer than
        # none
        replace(
            entry,
            delayed=max(0, entry.delayed),
            owned=entry.node.name in owned,
            rate=context.rate(entry.node.name),
            failing=context.failing(entry.node.name),
            too_large=_too_large(context, entry.node) if entry.queued else 0,
        )
        for entry in entries
    )
    more = len(behind) > len(names)
    if more or through is None:
        through = names[-1] if names else request.after
        page = replies.NodePage(shown, more=more, now=context.now, through=through)
    else:
        page = replies.NodePage(shown, more=True, now=context.now, through=through)
    return read.ReadFacts(nodes, page)


def for_definitions(context: Context, request: ReadDefinitions) -> DefinitionFacts:
    """Return the next nodes that the principal manages, as many as have their affiliations in one answer."""
    rows, by = context.rows, request.by
    limit = _bounded(request.max, MOST)
    behind, through = _wanted(rows, request, limit + 1, MANAGERS)
    some = behind[:1] or (() if request.only else _known(rows, by, None, 1, MANAGERS))
    one = next(iter(some), None)
    if one is None or not read.owns(by, one):
        return DefinitionFacts(one)
    shown = {known.node.name: known for known in behind[:limit]}
    people: dict[NodeName, list[tuple[Jid, Affiliation]]] = {name: [] for name in shown}
    found = rows.page(listings.AffiliationsAmong(tuple(shown), EACH + 1), None, TOGETHER + 1)
    for row in found:
        people[row.node].append((row.account, row.affiliation))
    names = list(shown)
    if (
        len(found) > TOGETHER
    ):  # those of the last one are not complete, and of others there are none
        names = names[: names.index(found[-1].node)]
    more = len(behind) > len(names) or through is not None
    if through is None or len(names) < len(shown):
        through = names[-1] if names else request.after
    return DefinitionFacts(
        one, tuple(_with_people(shown[n], people[n]) for n in names), more, through
    )


def _with_people(known: read.NodeAccess, people: list[tuple[Jid, Affiliation]]) -> Known:
    return Known(known, tuple(people) if len(people) <= EACH else None)


def _too_large(context: Context, node: Node) -> int:
    """Return how many items wait for a worker whose protocol can carry them, while other workers are available."""
    most = node.config.max_payload_size
    if not node.config.queueing or most <= context.least() or node.subscriptions > CROWD:
        return 0  # a crowd is not searched
    rows = context.rows
    there = (one.jid for one in rows.subscribers(node.name) if one.available)
    largest = max(map(context.largest_of, there), default=most)
    if most <= largest:
        return 0
    return next(iter(rows.page(listings.TooLarge(node.name, largest))), 0)


WALKED: Final = 500
"""Nodes that are walked in one step when dead items are looked for in all of them."""


def for_deaths(context: Context, request: ReadDeaths) -> DeathsFacts:
    """Return the next dead items of the nodes that the principal manages."""
    rows, by = context.rows, request.by
    behind = request.behind
    wanted = request.containing.casefold()
    if request.only is not None:
        one = _one(rows, by, request.only)
        nodes, more = [known.node.name for known in one if read.owns(by, known)], False
    else:
        nodes = [] if request.at is None or not behind else [request.at]
        nodes += [known.node.name for known in _known(rows, by, request.at, WALKED, MANAGERS)]
        more = len(nodes) >= WALKED
    items: list[Item] = []
    for walked, name in enumerate(nodes, 1):
        if wanted not in name.casefold():
            continue
        left = DEATHS_SLICE - len(items)
        found = rows.page(listings.DeadItems(name), behind or None, left)
        items += found
        behind = 0
        if len(found) == left:
            return DeathsFacts(True, tuple(items), walked, (name, found[-1].seq))  # noqa: FBT003  # it manages one
    place = (nodes[-1], 0) if more else None
    return DeathsFacts(bool(nodes) or request.walked > 0, tuple(items), len(nodes), place)


def for_drop_dead(context: Context, request: DropDead) -> DropDeadFacts:
    """Return dead items that have to go, of the next node that has any."""
    rows = context.rows
    names = rows.page(listings.DroppingDead(), request.after or None, DEAD_LOOKED_AT)
    for name in names:
        node = rows.node(name)
        if node is not None and (gone := _outlived(context, node)):
            return DropDeadFacts(tuple(gone))
    return DropDeadFacts(next=names[-1] if len(names) == DEAD_LOOKED_AT else NodeName(""))


def _outlived(context: Context, node: Node) -> list[Item]:
    rows, most = context.rows, node.config.dead_max
    over = [] if most is None else rows.page(listings.DeathBeyond(node.name), None, most)
    listing = listings.ItemEntries(node.name, LAST, State.DEAD, payloads=False, room=LAST)
    found = [entry.item for entry in rows.page(listing, 0, DEAD_SLICE)]
    return outlived(node.config, found, over[0] if over else 0, context.now)


def for_survey(context: Context, request: ReadSurvey) -> read.ReadFacts:
    """Return the next slice of nodes for a survey."""
    return for_read_nodes(context, slice_of(request))


def _wanted(
    rows: WorkingSet,
    request: read.ReadNodes | ReadDefinitions,
    count: int,
    roles: tuple[Affiliation, ...],
) -> tuple[tuple[read.NodeAccess, ...], NodeName | None]:
    """Return the next of the requested nodes, and where the search for them ended if it ended early."""
    by, after = request.by, request.after
    if request.only is not None:
        names = sorted(name for name in set(request.only) if after is None or name > after)
        found = [known for name in names[:count] for known in _one(rows, by, name)]
        return tuple(found), None
    if not request.containing:
        return _known(rows, by, after, count, roles), None
    wanted = request.containing.casefold()
    looked_at = _known(rows, by, after, SEARCHED, roles)
    matching = tuple(known for known in looked_at if wanted in known.node.name.casefold())
    ended_early = len(looked_at) == SEARCHED and len(matching) < count
    return matching[:count], looked_at[-1].node.name if ended_early else None


def _countable(nodes: Iterable[Node]) -> tuple[NodeName, ...]:
    """Return the first of the nodes whose items can be counted for one answer."""
    names: list[NodeName] = []
    items = 0
    for node in nodes:
        items += node.items
        if names and items > COUNTED:
            break
        names.append(node.name)
    return tuple(names)


def _count_on(rows: WorkingSet, name: NodeName, so_far: read.Counting | None) -> read.Counting:
    """Count another slice of a node's items: first those that are queued, then the dead."""
    now = so_far if so_far is not None and so_far.node == name else read.Counting(name)
    if now.state is None:
        return now
    found, end = next(
        iter(rows.page(listings.Counted(name, now.state), now.behind, SCANNED)), (0, None)
    )
    queueing = now.state is State.QUEUED
    queued, dead = (found, 0) if queueing else (0, found)
    state = now.state if end is not None else State.DEAD if queueing else None
    return read.Counting(name, now.queued + queued, now.dead + dead, state, end)


def for_trim(context: Context, request: read.Trim) -> read.TrimFacts:
    """Return the ends of the log, and the last of its oldest events that is too old."""
    rows = context.rows
    aged = rows.page(
        listings.AgedEvents(Millis(context.now - request.kept_for)), None, read.TRIM_SLICE
    )
    return read.TrimFacts(*_log_ends(rows), next(iter(aged), None))


def _known(
    rows: WorkingSet,
    by: Principal,
    after: NodeName | None,
    count: int,
    roles: tuple[Affiliation, ...] = OBSERVERS,
) -> tuple[read.NodeAccess, ...]:
    """Return the next nodes with which the principal has one of these affiliations, by name."""
    if by.admin:
        return tuple(
            read.NodeAccess(node, Affiliation.NONE)
            for node in rows.page(listings.Nodes(), after, count)
        )
    mine = rows.page(listings.NodesOfAccount(by.account, roles), after, count)
    return tuple(read.NodeAccess(node, role) for node, role in mine)


def _one(rows: WorkingSet, by: Principal, name: NodeName) -> tuple[read.NodeAccess, ...]:
    node = rows.node(name)
    if node is None:
        return ()
    return (read.NodeAccess(node, *rows.rights(name, by.account)),)


def _bounded(wanted: int | None, most: int) -> int:
    return most if wanted is None else max(1, min(wanted, most))


# Facts for readers that follow a plain node: its items after a number, as many as fit into one answer.

LAST: Final = 1 << 62
"""A number that no item has; a higher one is not a number of the store."""


def for_newer(context: Context, request: ReadNewer) -> ReadNewerFacts:
    """Return the next items; none if the principal may not see any, and none of a queue."""
    rows = context.rows
    node = rows.node(request.node)
    rights = rows.rights(request.node, request.by.account)
    facts = ReadNewerFacts(node, *rights, owners=owners_to_notify(rows, node))
    if rows.lacking or no_page(request, facts) is not None:
        return facts
    newest = next(iter(rows.page(listings.NewestItem(request.node, dead=False))), 0)
    if request.after is None:
        return replace(facts, newest=newest)
    after = max(0, min(request.after, LAST))
    limit = MAX_ITEMS if request.most is None else max(1, min(request.most, MAX_ITEMS))
    found = rows.page(listings.Items(request.node, room=request.room), after, limit)
    kept = not after or _is_kept(rows, request, after)
    return replace(facts, items=tuple(found), newest=newest, kept=kept)


def _is_kept(rows: WorkingSet, request: ReadNewer, number: int) -> bool:
    """Return whether the item of the number is still in the node."""
    return [item.seq for item in oldest(rows, request.node, 1, number - 1)] == [number]


def for_newest(context: Context, request: AskNewest) -> AskNewestFacts:
    """Return the highest number in each of the nodes."""
    found = context.rows.page(listings.NewestItems(request.nodes), None, len(request.nodes))
    return AskNewestFacts(tuple(found))


# Facts for retrieving and redriving items: those that the principal may see, as many as fit into one answer.

MAX_PAGE: Final = 500
"""Up to how many items one answer has."""

REVIVED: Final = 1000
"""Up to how many dead items one redrive without names takes."""


def for_redrive(context: Context, request: Redrive) -> RedriveFacts:
    """Return the dead, and the nodes that they may go to."""
    rows = context.rows
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    may = objection(request.by, node, affiliation) is None
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
        return rows.page(listings.DeadItems(request.node), request.after or None, CANCEL_SLICE), ()
    if request.ids is None:
        return rows.page(listings.DeadItems(request.node), None, REVIVED), ()
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
    taken = rows.item(to, item.id) is not None
    return Candidate(item, taken, len(payload), space, damaged=item.seq in rows.cache.damaged)


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
    listing = listings.Items(node.name, holders, room=request.room)
    if request.order is not None and not node.config.queueing:
        return _ordered(rows, request, node, after)
    if request.newest is not None:
        return _newest(rows, request, node, listing)
    if request.page is not None and request.page.before is not None:
        return _in_front(rows, request.page, node, listing, after)
    limit = room_of(request.page, MAX_PAGE)
    found = rows.page(listing, after, limit + 1) if limit else []
    shown = found[:limit]
    more = not limit or len(found) > limit or _items_go_on(rows, listing, shown)
    part = drop_former(
        request.page, len(shown), more=more, total=lambda: _seen(rows, node, holders)
    )
    return shown, part


def _ordered(rows: WorkingSet, request: Retrieve, node: Node, number: int) -> tuple[Rows, Part]:
    """Return a page of all items in the requested order (XEP-0413), after an item or before one."""
    order, page = request.order or Order(), request.page
    back = page is not None and page.before is not None
    limit = min(room_of(page, MAX_PAGE), request.newest or MAX_PAGE)
    place = rows.page(listings.PlaceOf(number))[0] if number and order.created else number
    listing = listings.Places(node.name, order.created, backward=order.descending is not back)
    places = rows.page(listing, place or None, limit + 1) if limit else []
    numbers = tuple([seq for _, seq in places[:limit]])
    found = rows.page(listings.Items(node.name, numbers=numbers, room=request.room), None, limit)
    more = not limit or len(places) > len(found)
    if page is None and len(found) == request.newest:
        more = False  # that is all that was requested
    part = drop_former(page, len(found), more=more, total=lambda: node.items)
    if back:
        return found[::-1], backward(part, more=more)
    return found, part


def _newest(
    rows: WorkingSet, request: Retrieve, node: Node, listing: listings.Items
) -> tuple[Rows, Part]:
    """Return the last n; if there is no room for all, the very last."""
    wanted = request.newest or 0
    found = rows.page(replace(listing, newest=True), None, min(wanted, MAX_PAGE))
    total = _seen(rows, node, listing.holders)
    cut = len(found) < min(wanted, total)
    part = part_of(request.page, more=cut, total=total)
    return found, replace(part, begins=len(found) == total, backward=True)


def _in_front(
    rows: WorkingSet, page: Page, node: Node, listing: listings.Items, before: int
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


def _items_go_on(rows: WorkingSet, listing: listings.Items, shown: Rows) -> bool:
    """Return whether items follow that the store left out because the page was full."""
    return bool(shown) and bool(rows.page(replace(listing, room=0), shown[-1][0].seq, 1))


def _named(rows: WorkingSet, request: Retrieve, holders: Holders) -> tuple[Rows, Part]:
    """Return the named items; payloads are loaded only of those that the principal may see."""
    names = dict.fromkeys(request.ids[:MAX_PAGE])
    there = [item for name in names if (item := rows.item(request.node, name)) is not None]
    seen = sorted(item.seq for item in there if holders is None or item.holder in holders)
    listing = listings.Items(request.node, numbers=tuple(seen), room=request.room)
    found = rows.page(listing, None, len(seen)) if seen else []
    cut = len(found) < len(seen) or len(request.ids) > MAX_PAGE
    return found, Part(more=cut, begins=False)
