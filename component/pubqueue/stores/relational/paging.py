"""Pages of rows: a table from each listing to how its rows are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from pubqueue.app import listings as li
from pubqueue.app.rows import AffiliationRow
from pubqueue.core.event_log import Event, EventKind
from pubqueue.core.model import (
    Affiliation,
    Item,
    ItemId,
    Node,
    State,
    Subscription,
    SubscriptionState,
)
from pubqueue.core.reading.pages import EventEntry, ItemEntry, NodeEntry
from pubqueue.core.transactions.model import Attempt, Record
from pubqueue.stores.relational import moving, winners
from pubqueue.stores.relational.columns import (
    items_of,
    node_of,
    record_of,
    subscription_of,
    with_payloads,
)
from pubqueue.stores.relational.node_ids import packed_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.model import Jid, NodeName, Subscription
    from pubqueue.stores.relational.session import Session, Values

R = TypeVar("R")

LAST_OF_ALL: Final = (1 << 62, 0)
"""Later than any deadline, with a number."""
BEHIND_ALL: Final = 1 << 62
"""Greater than the number of every item."""


def page(session: Session, which: li.Listing[R], after: object, limit: int) -> list[R]:
    """Return rows of a listing behind `after`, so many at most."""
    found: list[R] = PAGES[type(which)](session, which, after, limit)
    return found


def _nodes(session: Session, which: li.Nodes, after: str | None, limit: int) -> list[Node]:
    return _found_nodes(session, which, after or "", limit)


def _found_nodes(
    session: Session, which: li.Nodes, place: str, limit: int, back: str = ""
) -> list[Node]:
    access = () if which.access is None else (which.access.value,)
    if which.type is not None:
        query, values = "page_nodes_of", (which.type, *access, place, limit)
    elif which.but:
        query, values = "page_nodes_but", (*access, place, packed_keys(which.but), limit)
    else:
        query, values = "page_nodes_with" if access else "page_nodes", (*access, place, limit)
    return [_node(session, row) for row in session.rows(f"{query}{back}", *values)]


def _node(session: Session, row: Any) -> Node:  # noqa: ANN401  # a node's columns
    session.nodes.note(row[1], row[0])
    return node_of(row)


def _ready_nodes(
    session: Session, _which: li.ReadyNodes, after: int | None, limit: int
) -> list[li.Look]:
    rows = session.rows("ready_nodes", after or 0, limit)
    return [li.Look(*row) for row in rows]


def _free_subscriptions(
    session: Session, which: li.FreeSubscriptions, after: tuple[Any, ...] | None, limit: int
) -> list[Subscription]:
    node = session.id(which.node)
    rows = session.rows("free_subscriptions", node, *(after or (-1.0, 0, "")), limit)
    return [subscription_of({node: which.node}, row) for row in rows]


def _subscribers(
    session: Session, which: li.Subscribers, after: Jid | None, limit: int
) -> list[Jid]:
    return [
        row[0] for row in session.rows("subscribers_of", session.id(which.node), after or "", limit)
    ]


def _subscriptions_of(
    session: Session, which: li.SubscriptionsOf, after: str | None, limit: int, back: str = ""
) -> list[Subscription]:
    node = session.id(which.node)
    rows = session.rows(f"subscriptions_of{back}", node, which.state.value, after or "", limit)
    return [subscription_of({node: which.node}, row) for row in rows]


def _subscriber_roles(
    session: Session, which: li.SubscriberRoles, after: Jid | None, limit: int
) -> list[tuple[Jid, Affiliation, SubscriptionState]]:
    rows = session.rows("subscriber_roles", session.id(which.node), after or "", limit)
    return [(jid, Affiliation(word), SubscriptionState(state)) for jid, word, state in rows]


def _reviews(
    session: Session, _which: li.Reviews, after: NodeName | None, limit: int
) -> list[NodeName]:
    return [row[0] for row in session.rows("reviews", after or "", limit)]


def _trims(
    session: Session, _which: li.Trims, after: NodeName | None, limit: int
) -> list[NodeName]:
    return [row[0] for row in session.rows("trims", after or "", limit)]


def _moved_to(session: Session, which: li.MovedTo, _after: object, limit: int) -> list[str]:
    return [row[0] for row in session.rows("moved_to", which.node)][:limit]


def _former_subscribers(
    session: Session, which: li.FormerSubscribers, after: Jid | None, limit: int
) -> list[Jid]:
    return [row[0] for row in session.rows("former_subscribers", which.node, after or "", limit)]


def _untold_nodes(
    session: Session, _which: li.UntoldNodes, after: int | None, limit: int
) -> list[tuple[int, NodeName]]:
    return session.rows("untold_nodes", after or 0, limit)


def _affiliations_of(
    session: Session, which: li.AffiliationsOf, after: str | None, limit: int, back: str = ""
) -> list[AffiliationRow]:
    node, roles = session.id(which.node), _packed(which.roles)
    rows = session.rows(f"affiliations_of{back}", node, after or "", limit, roles)
    return [AffiliationRow(which.node, jid, Affiliation(word)) for jid, word in rows]


def _nodes_of_account(
    session: Session, which: li.NodesOfAccount, after: str | None, limit: int, back: str = ""
) -> list[tuple[Node, Affiliation]]:
    filters = _packed(which.roles), _packed(which.access)
    types = _packed(which.types), _packed(which.but or None)
    values = which.account, after or "", *filters, limit, *types
    rows = session.rows(f"nodes_of_account{back}", *values)
    return [(_node(session, row[:-1]), Affiliation(row[-1])) for row in rows]


def _subscriptions_of_account(
    session: Session,
    which: li.SubscriptionsOfAccount,
    after: tuple[str, str] | None,
    limit: int,
    back: str = "",
) -> list[Subscription]:
    values = which.account, which.node, *(after or ("", "")), limit
    rows = session.rows(f"subscriptions_of_account{back}", *values)
    names = session.names({row[1] for row in rows})
    return [subscription_of(names, row) for row in rows]


BACK: Final = "_back"
"""How statements that page backward are called."""

BEHIND_WORDS: Final = chr(0x10FFFF)
"""Greater than every name and every JID: no printable character, so that none begins with it."""


def _backward(session: Session, which: li.Backward[Any], after: Any, limit: int) -> list[Any]:  # noqa: ANN401  # a place of that listing
    match which.of:
        case li.Nodes() as nodes:
            return _found_nodes(session, nodes, after or BEHIND_WORDS, limit, BACK)
        case li.NodesOfAccount() as mine:
            return _nodes_of_account(session, mine, after or BEHIND_WORDS, limit, BACK)
        case li.AffiliationsOf() as people:
            return _affiliations_of(session, people, after or BEHIND_WORDS, limit, BACK)
        case li.SubscriptionsOf() as some:
            return _subscriptions_of(session, some, after or BEHIND_WORDS, limit, BACK)
        case li.SubscriptionsOfAccount() as mine:
            place = after or (BEHIND_WORDS, "")
            return _subscriptions_of_account(session, mine, place, limit, BACK)
        case li.ItemIds() as ids:
            return _item_ids(session, ids, after or BEHIND_ALL, limit, BACK)
        case other:
            raise TypeError(f"{type(other).__name__} is not paged backward")


def _total(session: Session, which: li.Total, _after: object, limit: int) -> list[int]:
    match which.of:
        case li.Nodes(access=None):
            row = session.row("count_nodes")
        case li.Nodes(access=access, type=str(kind)):
            row = session.row("count_nodes_of", kind, str(access))
        case li.Nodes(access=access, but=but) if but:
            row = session.row("count_nodes_but", str(access), packed_keys(but))
        case li.Nodes(access=access):
            row = session.row("count_nodes_with", str(access))
        case li.AffiliationsOf(node=node, roles=roles):
            row = session.row("count_affiliations_of", session.id(node), _packed(roles))
        case li.NodesOfAccount(account=account) as mine:
            filters = _packed(mine.roles), _packed(mine.access)
            types = _packed(mine.types), _packed(mine.but or None)
            row = session.row("count_nodes_of_account", account, *filters, *types)
        case li.SubscriptionsOf(node=node, state=state):
            row = session.row("count_subscriptions_of", session.id(node), state.value)
        case li.SubscriptionsOfAccount(account=account, node=node):
            row = session.row("count_subscriptions_of_account", account, node)
        case other:
            raise TypeError(f"{type(other).__name__} is not counted")
    return [int(row[0])][:limit]


def _packed(words: tuple[str, ...] | None) -> str | None:
    return None if words is None else packed_keys(words)


def _item_ids(
    session: Session, which: li.ItemIds, after: int | None, limit: int, back: str = ""
) -> list[ItemId]:
    rows = session.rows(f"item_ids{back}", session.contents_of(which.node), after or 0, limit)
    return [ItemId(row[0]) for row in rows]


def _places(
    session: Session, which: li.Places, after: int | None, limit: int
) -> list[tuple[int, int]]:
    query = "created" if which.created else "modified"
    edge = BEHIND_ALL if which.backward else 0
    values = session.contents_of(which.node), after or edge, limit
    return session.rows(f"{query}{BACK}" if which.backward else query, *values)


def _place_of(session: Session, which: li.PlaceOf, _after: object, limit: int) -> list[int]:
    return [row[0] for row in session.rows("place_of", which.number)][:limit]


def _items(
    session: Session, which: li.Items, after: int | None, limit: int
) -> list[tuple[Item, bytes]]:
    numbers, place = which.numbers, after or (BEHIND_ALL if which.newest else 0)
    if which.holders is not None:
        numbers = _held(session, which, place)
    if numbers is not None:
        rows = _fitting(session, "numbered", (packed_keys(numbers[:limit]),), which.room)
    else:
        query = "newest" if which.newest else "oldest"
        values = session.contents_of(which.node), place, limit
        rows = _fitting(session, query, values, which.room)
    return with_payloads(session, reversed(rows) if which.newest else rows)


def _held(session: Session, which: li.Items, place: int) -> tuple[int, ...]:
    """Return the numbers of what the holders hold, the newest first if these are wanted."""
    rows = session.rows("held_numbers", session.contents_of(which.node), packed_keys(which.holders))
    if which.newest:
        return tuple(sorted((row[0] for row in rows if row[0] < place), reverse=True))
    return tuple(sorted(row[0] for row in rows if row[0] > place))


def _fitting(session: Session, query: str, values: Values, room: int) -> list[Any]:
    """Return rows as long as there is room for what is in their last column, one at least."""
    rows: list[Any] = []
    for row in session.stream(query, room, *values):
        room -= len(row[-1] or b"")
        if room < 0 and rows:
            break
        rows.append(row)
    return rows


def _dead(session: Session, which: li.DeadItems, after: int | None, limit: int) -> list[Item]:
    return items_of(
        session, session.rows("dead", session.contents_of(which.node), after or 0, limit)
    )


def _locks_from_last(
    session: Session, _which: li.LocksFromLast, after: tuple[int, int] | None, limit: int
) -> list[Item]:
    return items_of(session, session.rows("locks_from_last", *(after or LAST_OF_ALL), limit))


def _locks(
    session: Session, _which: li.Locks, after: tuple[int, int] | None, limit: int
) -> list[Item]:
    return items_of(session, session.rows("locks", *(after or (0, 0)), limit))


def _shown(
    session: Session, which: li.ItemEntries, after: int | None, limit: int
) -> list[ItemEntry]:
    query = "shown_dead" if which.state is State.DEAD else "shown"
    state = None if which.state is None else which.state.value
    contents = session.contents_of(which.node)
    values = contents, after or 0, which.until, state, which.payloads, limit
    rows = _fitting(session, query, values, which.room)
    items = items_of(session, rows)
    return [ItemEntry(item, *row[-2:]) for item, row in zip(items, rows, strict=True)]


def _stride(session: Session, which: li.Stride, after: int | None, limit: int) -> list[int]:
    rows = session.rows("stride", session.contents_of(which.node), after or 0, limit)
    return [row[0] for row in rows]


def _newest(session: Session, which: li.NewestItem, _after: object, limit: int) -> list[int]:
    query = "newest_death" if which.dead else "newest_item"
    return [int(session.row(query, session.contents_of(which.node))[0])][:limit]


def _tallies(
    session: Session, which: li.NodeEntries, after: str | None, limit: int
) -> list[NodeEntry]:
    counted = which.counted or (None, None)
    rows = session.rows("node_entries", packed_keys(which.nodes), after or "", limit, *counted)
    return [_tally(row) for row in rows]


def _tally(row: Any) -> NodeEntry:  # noqa: ANN401  # a row of that query
    node = node_of(row[:7])
    queued, locked, dead, free, oldest = row[7:]
    return NodeEntry(node, queued, locked, node.items - queued - locked - dead, dead, free, oldest)


def _counted(
    session: Session, which: li.Counted, after: tuple[int, int] | int | None, limit: int
) -> list[tuple[int, object]]:
    contents = session.contents_of(which.node)
    if which.state is State.DEAD:
        dead, looked, last = session.row("count_dead", contents, after or 0, limit)
        return [(dead, last if looked == limit else None)]
    priority, seq = after if isinstance(after, tuple) else (BEHIND_ALL, 0)
    (queued,) = session.row("count_queued", contents, priority, seq, limit)
    if queued < limit:
        return [(queued, None)]
    return [(queued, session.row("queued_end", contents, priority, seq, limit))]


def _events(session: Session, which: li.Events, after: int | None, limit: int) -> list[EventEntry]:
    names = None if which.nodes is None else packed_keys(which.nodes)
    roles = which.account, packed_keys(which.roles)
    rows = session.rows("events", after or 0, which.until, names, *roles, limit)
    return [EventEntry(seq, at, Event(EventKind(kind), *facts)) for seq, at, kind, *facts in rows]


def _log_ends(
    session: Session, _which: li.LogEnds, _after: object, limit: int
) -> list[tuple[int, int]]:
    return session.rows("log_ends")[:limit]


def _aged(session: Session, which: li.AgedEvents, _after: object, limit: int) -> list[int]:
    last = session.row("aged", which.before, limit)[0]
    return [] if last is None else [int(last)]


def _records(session: Session, which: li.Records, after: int | None, limit: int) -> list[Record]:
    query = "records"
    if which.waiting:
        query = "open_records"
    elif which.app is not None:
        query = "records_of_app"
    elif which.owner is not None:
        query = "records_of_owner"
    rows = session.rows(query, after or 0, which.app, which.owner, limit)
    return [record_of(row) for row in rows]


def _record(session: Session, which: li.RecordOf, _after: object, limit: int) -> list[Record]:
    rows = session.rows("record", which.app, which.version)
    return [record_of(row) for row in rows][:limit]


def _litter(session: Session, which: li.Sweepable, _after: object, limit: int) -> list[bool]:
    return [session.row("litter", which.before)[0] != 0][:limit]


def _forgettable(session: Session, which: li.Forgettable, _after: object, limit: int) -> list[int]:
    return [int(session.row("forgettable", which.now, limit)[0])]


def _attempts(session: Session, which: li.AttemptsOf, _after: object, limit: int) -> list[Attempt]:
    rows = session.rows("attempts_of", which.app, which.version, limit)
    return [Attempt(*row[:-1]) for row in rows]


# fmt: off
PAGES: Final[dict[type, Callable[[Session, Any, Any, int], list[Any]]]] = {
    li.Nodes:                 _nodes,
    li.ReadyNodes:            _ready_nodes,
    li.FreeSubscriptions:     _free_subscriptions,
    li.Subscribers:           _subscribers,
    li.SubscriptionsOf:       _subscriptions_of,
    li.SubscriberRoles:       _subscriber_roles,
    li.Reviews:               _reviews,
    li.Trims:                 _trims,
    li.MovedTo:               _moved_to,
    li.FormerSubscribers:     _former_subscribers,
    li.UntoldNodes:           _untold_nodes,
    li.AffiliationsOf:        _affiliations_of,
    li.NodesOfAccount:        _nodes_of_account,
    li.SubscriptionsOfAccount: _subscriptions_of_account,
    li.Total:                 _total,
    li.Backward:              _backward,
    li.ItemIds:               _item_ids,
    li.Places:                _places,
    li.PlaceOf:               _place_of,
    li.Items:                 _items,
    li.DeadItems:             _dead,
    li.LocksFromLast:         _locks_from_last,
    li.Locks:                 _locks,
    li.ItemEntries:           _shown,
    li.Stride:                _stride,
    li.NewestItem:            _newest,
    li.NodeEntries:           _tallies,
    li.Counted:               _counted,
    li.Events:                _events,
    li.LogEnds:               _log_ends,
    li.AgedEvents:            _aged,
    li.Records:               _records,
    li.RecordOf:              _record,
    li.Sweepable:             _litter,
    li.Forgettable:           _forgettable,
    li.AttemptsOf:            _attempts,
    li.WinnerRows:            moving.rows,
    li.Unmoved:               moving.unmoved,
    li.Winners:               winners.begin,
    li.Contests:              winners.contests,
    li.WinnerClasses:         winners.classes,
    li.TakenWinners:          winners.taken,
    li.WinningDrafts:         winners.drafts,
}
# fmt: on
