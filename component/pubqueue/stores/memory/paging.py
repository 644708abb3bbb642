"""Pages of every listing."""

from __future__ import annotations

from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pubqueue.app import listings as l
from pubqueue.core.addresses import account_of
from pubqueue.core.after import has_room
from pubqueue.core.model import Affiliation, State
from pubqueue.core.queue.dispatch import place
from pubqueue.core.reading.pages import ItemEntry, NodeEntry
from pubqueue.stores.memory import moving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue.app.rows import AffiliationRow, Contest
    from pubqueue.core.model import (
        Draft,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Subscription,
        SubscriptionState,
    )
    from pubqueue.core.reading.pages import EventEntry
    from pubqueue.core.transactions.model import Attempt, Record
    from pubqueue.stores.memory.contents import Contents
    from pubqueue.stores.memory.winners import Choice

    Rows = Iterable[Any]

LAST: Final = 1 << 62
"""Behind every number of an item."""


def page(
    contents: Contents, choice: Choice | None, which: l.Listing[Any], after: object, limit: int
) -> list[Any]:
    """Return so many rows of the listing behind `after` at most."""
    if isinstance(which, l.Contests | l.AgedEvents | l.Forgettable):
        return LIMITED[type(which)](contents, choice, which, limit)
    if type(which) in OF_WINNERS:
        return list(islice(OF_WINNERS[type(which)](choice, which), limit))
    if isinstance(which, l.Items) and which.newest:
        return _newest(contents, which, after, limit)
    if isinstance(which, l.Stride):
        return _stride(contents, which, after, limit)
    if isinstance(which, l.Counted):
        return _counted(contents, which, after, limit)
    return list(islice(LISTINGS[type(which)](contents, which, after), limit))


# --- nodes and those around them -----------------------------------------------------------------


def _nodes(contents: Contents, which: l.Nodes, after: NodeName | None) -> Iterator[Node]:
    return _such_nodes(contents, which, contents.nodes.names.behind(after))


def _such_nodes(contents: Contents, which: l.Nodes, names: Iterable[NodeName]) -> Iterator[Node]:
    for name in names:
        node = contents.nodes.nodes.rows[name].node
        kind = node.config.type
        typed = kind not in which.but and which.type in {None, kind}
        if typed and which.access in {None, node.config.access_model}:
            yield node


def _ready_nodes(
    contents: Contents, _which: l.ReadyNodes, after: NodeName | None
) -> Iterator[l.Look]:
    for name in contents.nodes.names.behind(after):
        folder, node = contents.items.folder(name), contents.nodes.nodes.rows[name].node
        ready = node.config.queueing and (folder.ready or folder.aside)
        found = ready and any(map(has_room, contents.nodes.subscribers(name)))
        yield l.Look(name, name if found else None)


def _free_subscriptions(
    contents: Contents, which: l.FreeSubscriptions, after: tuple[Any, ...] | None
) -> Iterable[Subscription]:
    subscribers = contents.nodes.subscribers(which.node)
    free = [one for one in subscribers if has_room(one) and (not after or place(one) > after)]
    return sorted(free, key=place)


def _subscribers(contents: Contents, which: l.Subscribers, after: Jid | None) -> Iterator[Jid]:
    return contents.nodes.listening(which.node, after)


def _subscriptions_of(
    contents: Contents, which: l.SubscriptionsOf, after: Jid | None
) -> Iterator[Subscription]:
    return _subscriptions(
        contents, which, contents.nodes.standing(which.node, which.state).behind(after)
    )


def _subscriptions(
    contents: Contents, which: l.SubscriptionsOf, jids: Iterable[Jid]
) -> Iterator[Subscription]:
    for jid in jids:
        yield contents.nodes.subscriptions.rows[which.node, jid].subscription


def _subscriber_roles(
    contents: Contents, which: l.SubscriberRoles, after: Jid | None
) -> Iterator[tuple[Jid, Affiliation, SubscriptionState]]:
    people, subscriptions = contents.nodes.affiliations.rows, contents.nodes.subscriptions.rows
    for jid in contents.nodes.jids_in(which.node).behind(after):
        row = people.get((which.node, account_of(jid)))
        is_a = Affiliation.NONE if row is None else row.affiliation
        yield jid, is_a, subscriptions[which.node, jid].subscription.state


def _trims(contents: Contents, _which: l.Trims, after: NodeName | None) -> Iterator[NodeName]:
    return (name for name in sorted(contents.nodes.trims.rows) if after is None or name > after)


def _moved_to(contents: Contents, which: l.MovedTo, _after: object) -> Iterator[str]:
    uri = contents.nodes.moved.rows.get(which.node)
    return iter(() if uri is None else (uri,))


def _reviews(contents: Contents, _which: l.Reviews, after: NodeName | None) -> Iterator[NodeName]:
    return (name for name in sorted(contents.nodes.reviews.rows) if after is None or name > after)


def _former_subscribers(
    contents: Contents, which: l.FormerSubscribers, after: Jid | None
) -> Iterator[Jid]:
    return (jid for jid in contents.nodes.untold(which.node)[1] if after is None or jid > after)


def _untold_nodes(
    contents: Contents, _which: l.UntoldNodes, after: int | None
) -> Iterator[tuple[int, NodeName]]:
    for number, former in contents.nodes.former.rows.items():
        if number > (after or 0):
            yield number, former.name


def _affiliations_of(
    contents: Contents, which: l.AffiliationsOf, after: Jid | None
) -> Iterator[AffiliationRow]:
    return _such_people(contents, which, contents.nodes.people(which.node).behind(after))


def _such_people(
    contents: Contents, which: l.AffiliationsOf, accounts: Iterable[Jid]
) -> Iterator[AffiliationRow]:
    for account in accounts:
        row = contents.nodes.affiliations.rows[which.node, account]
        if which.roles is None or row.affiliation in which.roles:
            yield row


def _nodes_of_account(
    contents: Contents, which: l.NodesOfAccount, after: NodeName | None
) -> Iterator[tuple[Node, Affiliation]]:
    return _such_places(contents, which, contents.nodes.places(which.account).behind(after))


def _such_places(
    contents: Contents, which: l.NodesOfAccount, names: Iterable[NodeName]
) -> Iterator[tuple[Node, Affiliation]]:
    for name in names:
        node = contents.nodes.nodes.rows[name].node
        role = contents.nodes.affiliations.rows[name, which.account].affiliation
        wanted = which.roles is None or role in which.roles
        kind = node.config.type
        typed = kind not in which.but and (which.types is None or kind in which.types)
        if wanted and typed and (which.access is None or node.config.access_model in which.access):
            yield node, role


def _subscriptions_of_account(
    contents: Contents, which: l.SubscriptionsOfAccount, after: tuple[NodeName, Jid] | None
) -> Iterator[Subscription]:
    mine = contents.nodes.of_account(which.account, which.node)
    for one in sorted(mine, key=attrgetter("node", "jid")):
        if after is None or (one.node, one.jid) > after:
            yield one


def _backward(contents: Contents, which: l.Backward[Any], after: Any) -> Iterator[Any]:  # noqa: ANN401  # a place of that listing
    nodes = contents.nodes
    match which.of:
        case l.Nodes() as some:
            return _such_nodes(contents, some, nodes.names.in_front_of(after))
        case l.NodesOfAccount() as mine:
            names = nodes.places(mine.account).in_front_of(after)
            return _such_places(contents, mine, names)
        case l.AffiliationsOf() as people:
            accounts = nodes.people(people.node).in_front_of(after)
            return _such_people(contents, people, accounts)
        case l.SubscriptionsOf() as some:
            jids = nodes.standing(some.node, some.state).in_front_of(after)
            return _subscriptions(contents, some, jids)
        case l.SubscriptionsOfAccount() as mine:
            every = reversed(list(_subscriptions_of_account(contents, mine, None)))
            return (one for one in every if after is None or (one.node, one.jid) < after)
        case l.ItemIds(node=node):
            folder, items = contents.items.folder(node), contents.items.items.rows
            return (items[seq].id for seq in folder.seqs.in_front_of(after))
        case other:
            raise TypeError(f"{type(other).__name__} is not paged backward")


def _total(contents: Contents, which: l.Total, _after: object) -> Iterator[int]:
    yield sum(1 for _ in LISTINGS[type(which.of)](contents, which.of, None))


def _node_entries(contents: Contents, which: l.NodeEntries, _after: object) -> Iterator[NodeEntry]:
    for name in which.nodes:
        node = contents.nodes.node(name)
        if node is not None:
            entry = _node_entry(contents, node)
            if which.counted is not None:
                queued, dead = which.counted
                delayed = node.items - queued - entry.locked - dead
                entry = replace(entry, queued=queued, delayed=delayed, dead=dead)
            yield entry


def _counted(
    contents: Contents, which: l.Counted, after: object, limit: int
) -> list[tuple[int, object]]:
    folder = contents.items.folder(which.node)
    order: Any = folder.dead_letters if which.state is State.DEAD else folder.ready
    places = list(islice(order.behind(after), limit))
    states = [contents.items.items.rows[seq].state for _, seq in places]
    end = places[-1] if len(places) == limit else None
    return [(states.count(which.state), end)]


def _node_entry(contents: Contents, node: Node) -> NodeEntry:
    folder = contents.items.folder(node.name)
    free = sum(
        max(0, one.queue_requests - one.in_flight)
        for one in contents.nodes.subscribers(node.name)
        if one.available
    )
    first = min((seq for _, seq in folder.ready), default=None)
    oldest = None if first is None else contents.items.items.rows[first].published
    return NodeEntry(
        node,
        queued=folder.counts[State.QUEUED],
        locked=folder.counts[State.LOCKED],
        delayed=folder.counts[State.DELAYED],
        dead=folder.counts[State.DEAD],
        window_free=free,
        oldest=oldest,
    )


# --- items ---------------------------------------------------------------------------------------


def _item_ids(contents: Contents, which: l.ItemIds, after: int | None) -> Iterator[ItemId]:
    for seq in contents.items.folder(which.node).seqs.behind(after):
        yield contents.items.items.rows[seq].id


def _places(contents: Contents, which: l.Places, after: int | None) -> Iterator[tuple[int, int]]:
    items = contents.items
    seqs = items.folder(which.node).seqs
    every = ((items.place(seq) if which.created else seq, seq) for seq in seqs)
    for at, seq in sorted(every, reverse=which.backward):
        if after is None or (at < after if which.backward else at > after):
            yield at, seq


def _place_of(contents: Contents, which: l.PlaceOf, _after: object) -> Iterator[int]:
    yield contents.items.place(which.number)


def _items(contents: Contents, which: l.Items, after: int | None) -> Iterator[tuple[Item, bytes]]:
    return _fitting(_rows_of(contents, which, after), which.room)


def _fitting(rows: Iterable[tuple[Item, bytes]], room: int) -> Iterator[tuple[Item, bytes]]:
    """Let rows pass as long as there is room for their payloads, one at least."""
    for at, row in enumerate(rows):
        room -= len(row[1])
        if at and room < 0:
            return
        yield row


def _rows_of(contents: Contents, which: l.Items, after: int | None) -> Iterator[tuple[Item, bytes]]:
    if which.numbers is not None:
        for seq in which.numbers:
            if seq in contents.items.items.rows:
                yield contents.items.with_payload(seq)
        return
    if which.holders is None:
        for seq in contents.items.folder(which.node).seqs.behind(after):
            yield contents.items.with_payload(seq)
        return
    for seq in _held(contents, which):
        if after is None or seq > after:
            yield contents.items.with_payload(seq)


def _held(contents: Contents, which: l.Items) -> list[int]:
    holders = set(which.holders or ())
    held = (item for holder in holders for item in contents.items.held(holder))
    return sorted(item.seq for item in held if item.node == which.node)


def _newest(
    contents: Contents,
    which: l.Items,
    place: Any,  # noqa: ANN401  # a number
    limit: int,
) -> list[tuple[Item, bytes]]:
    seqs: Iterable[int] = contents.items.folder(which.node).seqs.in_front_of(place)
    if which.holders is not None:
        seqs = (seq for seq in reversed(_held(contents, which)) if place is None or seq < place)
    rows = map(contents.items.with_payload, islice(seqs, limit))
    return list(_fitting(rows, which.room))[::-1]


def _dead_items(contents: Contents, which: l.DeadItems, after: int | None) -> Iterator[Item]:
    for seq in contents.items.folder(which.node).dead.behind(after):
        yield contents.items.items.rows[seq]


def _locks_from_last(
    contents: Contents, _which: l.LocksFromLast, after: tuple[int, int] | None
) -> Iterator[Item]:
    for key in reversed(contents.items.locks):
        if after is None or key < after:
            yield contents.items.items.rows[key[1]]


def _locks(contents: Contents, _which: l.Locks, after: tuple[Millis, int] | None) -> Iterator[Item]:
    for _, seq in contents.items.locks.behind(after):
        yield contents.items.items.rows[seq]


def _shown_items(
    contents: Contents, which: l.ItemEntries, after: int | None
) -> Iterator[ItemEntry]:
    used = 0
    for at, item in enumerate(_in_pages(contents, which, after)):
        payload = contents.items.payloads.rows[item.seq]
        used += len(payload) if which.payloads else 0
        if at and used > which.room:
            return
        yield ItemEntry(item, len(payload), payload if which.payloads else None)


def _in_pages(contents: Contents, which: l.ItemEntries, after: int | None) -> Iterator[Item]:
    folder, rows = contents.items.folder(which.node), contents.items.items.rows
    if which.state is State.DEAD:
        for number, seq in folder.dead_letters.behind(None if after is None else (after, LAST)):
            if number > which.until:
                return
            yield rows[seq]
        return
    for seq in folder.seqs.behind(after):
        if seq > which.until:
            return
        if which.state in {None, rows[seq].state}:
            yield rows[seq]


def _stride(contents: Contents, which: l.Stride, after: Any, limit: int) -> list[int]:  # noqa: ANN401  # a number
    seqs = contents.items.folder(which.node).seqs
    return list(islice(seqs.behind(after), limit - 1, limit))


def _newest_item(contents: Contents, which: l.NewestItem, _after: object) -> Iterator[int]:
    folder = contents.items.folder(which.node)
    if not which.dead:
        yield folder.seqs.last() or 0
    else:
        last = folder.dead_letters.last()
        yield 0 if last is None else last[0]


# --- the event log -------------------------------------------------------------------------------


def _events(contents: Contents, which: l.Events, after: int | None) -> Iterator[EventEntry]:
    wanted = None if which.nodes is None else set(which.nodes)
    people = contents.nodes.affiliations.rows
    for logged, number in contents.log.between(after or 0, which.until):
        name = contents.nodes.by_number.get(number)
        if name is None or (wanted is not None and name not in wanted):
            continue
        if which.account is not None:
            row = people.get((name, which.account))
            if row is None or row.affiliation not in which.roles:
                continue
        yield logged


def _log_ends(contents: Contents, _which: l.LogEnds, _after: object) -> Iterator[tuple[int, int]]:
    yield contents.log.ends()


def _aged_events(contents: Contents, _choice: object, which: l.AgedEvents, limit: int) -> list[int]:
    found = contents.log.aged(which.before, limit)
    return [] if found is None else [found]


# --- transactions --------------------------------------------------------------------------------


def _records(contents: Contents, which: l.Records, after: int | None) -> Iterator[Record]:
    for record in contents.staging.listed(waiting=which.waiting, after=after):
        if which.app in {None, record.app} and which.owner in {None, record.owner}:
            yield record


def _record_of(contents: Contents, which: l.RecordOf, _after: object) -> Iterator[Record]:
    record = contents.staging.record_of((which.app, which.version))
    if record is not None:
        yield record


def _sweepable(contents: Contents, which: l.Sweepable, _after: object) -> Iterator[bool]:
    staging = contents.staging
    oldest = staging.committed.first()
    old = oldest is not None and oldest[0] < which.before
    yield bool(staging.dropped.rows) or old or bool(staging.idle(which.before))


def _forgettable(
    contents: Contents, _choice: object, which: l.Forgettable, limit: int
) -> list[int]:
    return [len(contents.items.outdated(which.now, limit))]


def _attempts_of(contents: Contents, which: l.AttemptsOf, _after: object) -> Iterator[Attempt]:
    for one in contents.staging.attempts_of((which.app, which.version)):
        yield one.attempt


def _contests(_contents: Contents, choice: Choice, which: l.Contests, limit: int) -> list[Contest]:
    return choice.contests(which.node, which.absorbing, limit)


def _winning_drafts(choice: Choice, which: l.WinningDrafts) -> list[Draft]:
    return choice.drafts(which.node)


# fmt: off
LISTINGS: Final[dict[type, Callable[[Contents, Any, Any], Rows]]] = {
    l.Nodes:                 _nodes,
    l.ReadyNodes:            _ready_nodes,
    l.FreeSubscriptions:     _free_subscriptions,
    l.Subscribers:           _subscribers,
    l.SubscriptionsOf:       _subscriptions_of,
    l.SubscriberRoles:       _subscriber_roles,
    l.Reviews:               _reviews,
    l.Trims:                 _trims,
    l.MovedTo:               _moved_to,
    l.FormerSubscribers:     _former_subscribers,
    l.UntoldNodes:           _untold_nodes,
    l.AffiliationsOf:        _affiliations_of,
    l.NodesOfAccount:        _nodes_of_account,
    l.SubscriptionsOfAccount: _subscriptions_of_account,
    l.Total:                 _total,
    l.Backward:              _backward,
    l.NodeEntries:           _node_entries,
    l.ItemIds:               _item_ids,
    l.Places:                _places,
    l.PlaceOf:               _place_of,
    l.Items:                 _items,
    l.DeadItems:             _dead_items,
    l.LocksFromLast:         _locks_from_last,
    l.Locks:                 _locks,
    l.ItemEntries:           _shown_items,
    l.NewestItem:            _newest_item,
    l.Events:                _events,
    l.LogEnds:               _log_ends,
    l.Records:               _records,
    l.RecordOf:              _record_of,
    l.Sweepable:             _sweepable,
    l.AttemptsOf:            _attempts_of,
    l.WinnerRows:            moving.winner_rows,
    l.Unmoved:               moving.unmoved,
}

LIMITED: Final[dict[type, Callable[[Contents, Any, Any, int], list[Any]]]] = {
    l.AgedEvents:  _aged_events,
    l.Contests:    _contests,
    l.Forgettable: _forgettable,
}
"""Those to which the limit is more than a number of rows."""

OF_WINNERS: Final[dict[type, Callable[[Any, Any], Rows]]] = {
    l.Winners:       lambda choice, _which: choice.meet(),
    l.WinnerClasses: lambda choice, which: choice.classes(which.node),
    l.TakenWinners:  lambda choice, which: choice.taken(which.node),
    l.WinningDrafts: _winning_drafts,
}
# fmt: on
