"""Pages of rows, and how they are read and counted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pubqueue.engine import listings
from pubqueue.model.entities import Affiliation, Jid, Node, State, Subscription, SubscriptionState
from pubqueue.model.records import Alert, Event, EventKind, Holding
from pubqueue.model.replies import EventEntry, NodeEntry
from pubqueue.model.sums import has_key
from pubqueue.model.transactions import APART, Attempt, Record, key_of
from pubqueue.stores.sql import commits, item_pages, kinds
from pubqueue.stores.sql.columns import (
    COVERED,
    affiliation_of,
    covered_sum,
    node_of,
    record_of,
    subscription_of,
)
from pubqueue.stores.sql.item_pages import BACK, BEHIND_ALL
from pubqueue.stores.sql.session import SqlSession, firsts, packed_keys, paged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.rows import AffiliationRow


R = TypeVar("R")


# Pages of nodes, subscriptions and affiliations.


def _nodes(session: SqlSession, which: listings.Nodes, after: str | None, limit: int) -> list[Node]:
    return found_nodes(session, which, after or "", limit)


def found_nodes(
    session: SqlSession, which: listings.Nodes, place: str, limit: int, back: str = ""
) -> list[Node]:
    """Return the nodes of the listing after a place, or before it."""
    access = () if which.access is None else (which.access.value,)
    if which.type is not None:
        query, values = "page_nodes_of", (which.type, *access, place, limit)
    elif which.but:
        query, values = "page_nodes_but", (*access, place, packed_keys(which.but), limit)
    else:
        query, values = "page_nodes_with" if access else "page_nodes", (*access, place, limit)
    return _made(session, session.rows(f"{query}{back}", *values))


def _nodes_named(
    session: SqlSession, which: listings.NodesNamed, after: str | None, limit: int
) -> list[Node]:
    ends = after or which.prefix, _behind(which.prefix)
    access = () if which.access is None else (which.access.value,)
    query = "nodes_named_with" if access else "nodes_named"
    return _made(session, session.rows(query, *access, *ends, limit))


def _nodes_of_account_named(
    session: SqlSession, which: listings.NodesOfAccountNamed, after: str | None, limit: int
) -> list[tuple[Node, Affiliation]]:
    begin, end = after or which.prefix, _behind(which.prefix)
    read = partial(session.rows, "nodes_of_account_named", which.account)
    return _affiliated(session, which.account, lambda name, n: read(name, end, n), begin, limit)


def _affiliated(
    session: SqlSession,
    account: Jid,
    read: Callable[[str, int], list[Any]],
    after: str,
    limit: int,
) -> list[tuple[Node, Affiliation]]:
    """Return nodes with the account's affiliations, which are the last columns; damaged ones are left out."""

    def page(behind: str, count: int) -> list[tuple[str, tuple[Node, Affiliation] | None]]:
        found: list[tuple[str, tuple[Node, Affiliation] | None]] = []
        for row in read(behind, count):
            node = _node(session, row[:-2])
            its = affiliation_of(node.name, row[0], account, *row[-2:])
            found.append((node.name, None if its.damaged else (node, its.affiliation)))
        return found

    return _whole(page, after, limit)


def _made(session: SqlSession, rows: list[Any]) -> list[Node]:
    return [_node(session, row) for row in rows]


def _behind(prefix: str) -> str:
    """Return a name that is behind all that begin so, and in front of all others that follow."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _node(session: SqlSession, row: Any) -> Node:  # noqa: ANN401  # a node's columns
    session.nodes.note(row[1], row[0])
    return node_of(row)


def _free_subscriptions(
    session: SqlSession,
    which: listings.FreeSubscriptions,
    after: tuple[Any, ...] | None,
    limit: int,
) -> list[Subscription]:
    node = session.id(which.node)
    rows = session.rows("free_subscriptions", node, *(after or (-1.0, 0, "")), limit)
    return [subscription_of({node: which.node}, row) for row in rows]


def _subscribers(
    session: SqlSession, which: listings.Subscribers, after: Jid | None, limit: int
) -> list[Jid]:
    node = session.id(which.node)

    def page(behind: str, count: int) -> list[tuple[str, Jid | None]]:
        rows = session.rows("subscribers_of", node, behind, count)
        return [(jid, jid if has_key(known, node, jid) else None) for jid, known in rows]

    return _whole(page, after or "", limit)


def _whole(
    page: Callable[[str, int], list[tuple[str, R | None]]], after: str, limit: int
) -> list[R]:
    """Return the rows of a page without damaged ones; it is short only if no others follow."""
    found: list[R] = []
    while count := limit - len(found):
        rows = page(after, count)
        found += [row for _, row in rows if row is not None]
        if len(rows) < count:
            break
        after = rows[-1][0]
    return found


def _several_of(
    session: SqlSession, which: listings.SeveralOf, after: Jid | None, limit: int
) -> list[Subscription]:
    values = session.id(which.node), after or "", which.through, limit
    return [
        subscription_of({values[0]: which.node}, row) for row in session.rows("several_of", *values)
    ]


def subscriptions_of(
    session: SqlSession,
    which: listings.SubscriptionsOf,
    after: str | None,
    limit: int,
    back: str = "",
) -> list[Subscription]:
    """Return subscriptions to a node, by JID or backward."""
    node = session.id(which.node)
    rows = session.rows(f"subscriptions_of{back}", node, which.state.value, after or "", limit)
    return [subscription_of({node: which.node}, row) for row in rows]


def _moved_to(
    session: SqlSession, which: listings.MovedTo, _after: object, limit: int
) -> list[str]:
    return [row[0] for row in session.rows("moved_to", which.node)][:limit]


def _roles(
    _session: SqlSession, rows: list[Any]
) -> list[tuple[Jid, Affiliation, SubscriptionState]]:
    return [(jid, Affiliation(word), SubscriptionState(state)) for jid, word, state in rows]


def affiliations_of(
    session: SqlSession,
    which: listings.AffiliationsOf,
    after: str | None,
    limit: int,
    back: str = "",
) -> list[AffiliationRow]:
    """Return affiliations with a node, by account or backward."""
    node, roles = session.id(which.node), packed(which.roles)
    rows = session.rows(f"affiliations_of{back}", node, after or "", limit, roles)
    return [affiliation_of(which.node, node, *row) for row in rows]


def _affiliations_among(
    session: SqlSession, which: listings.AffiliationsAmong, _after: object, limit: int
) -> list[AffiliationRow]:
    rows = session.rows("affiliations_among", packed_keys(which.nodes), which.each, limit)
    return [affiliation_of(name, *row) for name, *row in rows]


def _row_sums(
    session: SqlSession, which: listings.RowSums, after: tuple[int, str] | None, limit: int
) -> list[listings.RowSum]:
    table, keys = which.table, len(COVERED[which.table][0])
    query, values = (
        (f"{table}_without_sum", (limit,))
        if which.missing
        else (f"sums_of_{table}", (*(after or (-1, "")), limit))
    )
    return [
        listings.RowSum((one, two), _key_of(table, row[:keys]), known, covered_sum(table, row))
        for one, two, known, *row in session.rows(query, *values)
    ]


def _key_of(table: str, key: Sequence[object]) -> str:
    """Return the key of a row in words."""
    return " ".join([table, *map(str, key)]).replace(APART, " ")


def connections_of(
    session: SqlSession, which: listings.ConnectionsOf, after: int | None, limit: int
) -> list[tuple[int, Jid]]:
    """Of the next subscriptions, return those of addresses that look like connections of an instance, and the last one."""
    rows = session.rows("connections_of", after or 0, _like(which), limit)
    return [(number, Jid(jid)) for number, jid in rows]


def holders_of(
    session: SqlSession, which: listings.HoldersOf, after: str | None, limit: int
) -> list[Jid]:
    """Return addresses that look like connections of an instance and hold items."""
    rows = session.rows("holders_of", after or "", _like(which), limit)
    return [Jid(jid) for (jid,) in rows]


def holders(
    session: SqlSession, _which: listings.Holders, after: str | None, limit: int
) -> list[Jid]:
    """Return addresses that hold items."""
    return [Jid(jid) for (jid,) in session.rows("holders_of", after or "", "%", limit)]


def _like(which: listings.ConnectionsOf | listings.HoldersOf) -> str:
    """Return the pattern of such addresses."""
    service = which.service.replace("!", "!!").replace("_", "!_").replace("%", "!%")
    return f"%@{service}/%.{which.instance}.%"


def nodes_of_account(
    session: SqlSession,
    which: listings.NodesOfAccount,
    after: str | None,
    limit: int,
    back: str = "",
) -> list[tuple[Node, Affiliation]]:
    """Return nodes with the account's affiliation, by name or backward."""
    filters = packed(which.roles), packed(which.access)
    types = packed(which.types), packed(which.but or None)
    read = partial(session.rows, f"nodes_of_account{back}", which.account)
    return _affiliated(
        *(session, which.account, lambda name, n: read(name, *filters, n, *types)),
        *(after or "", limit),
    )


def subscriptions_of_account(
    session: SqlSession,
    which: listings.SubscriptionsOfAccount,
    after: tuple[str, str] | None,
    limit: int,
    back: str = "",
) -> list[Subscription]:
    """Return subscriptions of an account, by node and JID or backward."""
    values = which.account, which.node, *(after or ("", "")), limit
    rows = session.rows(f"subscriptions_of_account{back}", *values)
    names = session.names({row[1] for row in rows})
    return [subscription_of(names, row) for row in rows]


def _tallies(
    session: SqlSession, which: listings.NodeEntries, after: str | None, limit: int
) -> list[NodeEntry]:
    counted = which.counted or (None, None)
    rows = session.rows("node_entries", packed_keys(which.nodes), after or "", limit, *counted)
    return [_tally(row) for row in rows]


def _tally(row: Any) -> NodeEntry:  # noqa: ANN401  # a row of that query
    *facts, queued, locked, held, oldest_held, dead, free, oldest = row
    node = node_of(facts)
    delayed = node.items - queued - locked - held - dead
    counts = node, queued, locked, delayed, dead, free, oldest
    return NodeEntry(*counts, held=held, oldest_held=oldest_held)


def _counted(
    session: SqlSession, which: listings.Counted, after: tuple[int, int] | int | None, limit: int
) -> list[tuple[int, object]]:
    contents = session.contents_of(which.node)
    if which.state is State.DEAD:
        dead, looked, last = session.row("count_dead", contents, after or 0, limit)
        return [(dead, last if looked == limit else None)]
    queued, behind = 0, after
    if not isinstance(after, int):
        priority, place = after or (BEHIND_ALL, 0)
        (queued,) = session.row("count_queued", contents, priority, place, limit)
        if queued == limit:
            return [(queued, session.row("queued_end", contents, priority, place, limit))]
        behind = 0
    waiting, looked, last = session.row("count_line", contents, behind, limit - queued)
    return [(queued + waiting, last if looked == limit - queued else None)]


def _too_large(
    session: SqlSession, which: listings.TooLarge, _after: object, _limit: int
) -> list[int]:
    contents = session.contents_of(which.node)
    return [session.row("count_too_large", contents, which.byte_count, listings.SIZES)[0]]


def packed(words: tuple[str, ...] | None) -> str | None:
    """Return the words as one value of a statement; None for any."""
    return None if words is None else packed_keys(words)


# fmt: off
NODE_PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    listings.Nodes:                 _nodes,
    listings.NodesNamed:            _nodes_named,
    listings.NodesOfAccountNamed:   _nodes_of_account_named,
    listings.NodesPushed:           paged("nodes_pushed", "", _made),
    listings.Alerts:                paged("all_alerts", "", lambda _, rows: [Alert(*row) for row in rows]),
    listings.ReadyNodes:            paged("ready_nodes", 0, lambda _, rows: [listings.Look(*row) for row in rows]),
    listings.FreeSubscriptions:     _free_subscriptions,
    listings.Subscribers:           _subscribers,
    listings.SubscriptionsOf:       subscriptions_of,
    listings.SeveralOf:             _several_of,
    listings.SubscriberRoles:       paged("subscriber_roles", "", _roles, of=SqlSession.id),
    listings.Reviews:               paged("reviews", "", firsts),
    listings.Trims:                 paged("trims", "", firsts),
    listings.Seeks:                 paged("seeks_under_way", "", firsts),
    listings.Keeping:               paged("queues_that_keep", "", firsts),
    listings.DroppingDead:          paged("nodes_that_drop_dead", "", firsts),
    listings.NodeSums:              paged("node_sums", ("", 0), lambda _, rows: [(last, Holding(*facts)) for *facts, last in rows]),
    listings.MovedTo:               _moved_to,
    listings.FormerSubscribers:     paged("former_subscribers", "", firsts, of=lambda _, node: node),
    listings.UnnotifiedNodes:       paged("unnotified_nodes", 0, lambda _, rows: rows),
    listings.AffiliationsOf:        affiliations_of,
    listings.AffiliationsAmong:     _affiliations_among,
    listings.RowSums:               _row_sums,
    listings.NodesOfAccount:        nodes_of_account,
    listings.ConnectionsOf:         connections_of,
    listings.HoldersOf:             holders_of,
    listings.Holders:               holders,
    listings.KnownResources:        paged("known_resources", "", firsts),
    listings.SubscriptionsOfAccount: subscriptions_of_account,
    listings.NodeEntries:           _tallies,
    listings.Counted:               _counted,
    listings.TooLarge:              _too_large,
}
# fmt: on


# Pages of rows: a table with the reading function of each listing.


def page(session: SqlSession, which: listings.Listing[R], after: object, limit: int) -> list[R]:
    """Return up to `limit` rows of a listing after `after`."""
    found: list[R] = PAGES[type(which)](session, which, after, limit)
    return found


BEHIND_WORDS: Final = chr(0x10FFFF)
"""Greater than every name and every JID: it is not a printable character, so none begins with it."""


def _backward(
    session: SqlSession,
    which: listings.Backward[Any],
    after: Any,  # noqa: ANN401  # a place of that listing
    limit: int,
) -> list[Any]:
    match which.of:
        case listings.Nodes() as nodes:
            return found_nodes(session, nodes, after or BEHIND_WORDS, limit, BACK)
        case listings.NodesOfAccount() as mine:
            return nodes_of_account(session, mine, after or BEHIND_WORDS, limit, BACK)
        case listings.AffiliationsOf() as people:
            return affiliations_of(session, people, after or BEHIND_WORDS, limit, BACK)
        case listings.SubscriptionsOf() as some:
            return subscriptions_of(session, some, after or BEHIND_WORDS, limit, BACK)
        case listings.SubscriptionsOfAccount() as mine:
            place = after or (BEHIND_WORDS, "")
            return subscriptions_of_account(session, mine, place, limit, BACK)
        case listings.ItemIds() as ids:
            return item_pages.item_ids(session, ids, after or BEHIND_ALL, limit, BACK)
        case other:
            raise TypeError(f"{type(other).__name__} is not paged backward")


def _total(session: SqlSession, which: listings.Total, _after: object, limit: int) -> list[int]:
    match which.of:
        case listings.Nodes(access=None):
            row = session.row("count_nodes")
        case listings.Nodes(access=access, type=str(kind)):
            row = session.row("count_nodes_of", kind, str(access))
        case listings.Nodes(access=access, but=but) if but:
            row = session.row("count_nodes_but", str(access), packed_keys(but))
        case listings.Nodes(access=access):
            row = session.row("count_nodes_with", str(access))
        case listings.AffiliationsOf(node=node, roles=roles):
            row = session.row("count_affiliations_of", session.id(node), packed(roles))
        case listings.NodesOfAccount(account=account) as mine:
            filters = packed(mine.roles), packed(mine.access)
            types = packed(mine.types), packed(mine.but or None)
            row = session.row("count_nodes_of_account", account, *filters, *types)
        case listings.SubscriptionsOf(node=node, state=state):
            row = session.row("count_subscriptions_of", session.id(node), state.value)
        case listings.SubscriptionsOfAccount(account=account, node=node):
            row = session.row("count_subscriptions_of_account", account, node)
        case listings.HeldBy(holder=holder, node=node):
            contents = None if node is None else session.contents_of(node)
            row = session.row("count_held_by", holder, contents)
        case other:
            raise TypeError(f"{type(other).__name__} is not counted")
    return [int(row[0])][:limit]


def _events(
    session: SqlSession, which: listings.Events, after: int | None, limit: int
) -> list[EventEntry]:
    names = None if which.nodes is None else packed_keys(which.nodes)
    roles = which.account, packed_keys(which.roles)
    rows = session.rows("events", after or 0, which.until, names, *roles, limit, which.item)
    return [EventEntry(seq, at, Event(EventKind(kind), *facts)) for seq, at, kind, *facts in rows]


def _events_of(
    session: SqlSession, which: listings.EventsOf, after: int | None, limit: int
) -> list[EventEntry]:
    node = which.node
    rows = session.rows("events_of", session.id(node), which.item, after or 0, limit)
    return [
        EventEntry(seq, at, Event(EventKind(kind), node, *facts)) for seq, at, kind, *facts in rows
    ]


def _log_ends(
    session: SqlSession, _which: listings.LogEnds, _after: object, limit: int
) -> list[tuple[int, int]]:
    return session.rows("log_ends")[:limit]


def _aged(session: SqlSession, which: listings.AgedEvents, _after: object, limit: int) -> list[int]:
    last = session.row("aged", which.before, limit)[0]
    return [] if last is None else [int(last)]


def _records(
    session: SqlSession, which: listings.Records, after: int | None, limit: int
) -> list[Record]:
    query = "records"
    if which.waiting:
        query = "open_records"
    elif which.app is not None:
        query = "records_of_app"
    elif which.owner is not None:
        query = "records_of_owner"
    rows = session.rows(query, after or 0, which.app, which.owner, limit)
    return [record_of(row) for row in rows]


def _record(
    session: SqlSession, which: listings.RecordOf, _after: object, limit: int
) -> list[Record]:
    rows = session.rows("record", which.app, which.version)
    return [record_of(row) for row in rows][:limit]


SOME: Final = 20
"""Records that are read together to find one that is whole."""


def _newest_record(
    session: SqlSession, which: listings.NewestRecord, _after: object, limit: int
) -> list[Record]:
    """Return the newest record that is whole, of an app whose row is damaged."""
    for app in commits.damaged_apps(session, which.app):
        highest = listings.UNBOUNDED
        while rows := session.rows("newest_records", app, highest, SOME):
            found = [record_of((row[0], which.app, *row[2:])) for row in rows]
            if whole := [one for one in found if not one.damaged]:
                return whole[:limit]
            highest = found[-1].version - 1
    return []


def _litter(
    session: SqlSession, which: listings.Sweepable, _after: object, limit: int
) -> list[bool]:
    return [session.row("anything_to_sweep", which.before)[0] != 0][:limit]


def _forgettable(
    session: SqlSession, which: listings.Forgettable, _after: object, limit: int
) -> list[int]:
    return [int(session.row("forgettable", which.now, limit)[0])]


def _apps(session: SqlSession, which: listings.AppsOf, _after: object, limit: int) -> list[int]:
    """Count by the names, which begin with the account."""
    first, behind = key_of(which.account, ""), which.account + chr(ord(APART) + 1)
    return [int(session.row("count_apps", first, behind, limit)[0])]


def _attempts(
    session: SqlSession, which: listings.AttemptsOf, _after: object, limit: int
) -> list[Attempt]:
    rows = session.rows("attempts_of", which.app, which.version, limit)
    return [Attempt(*row[:-1]) for row in rows]


# fmt: off
PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    **NODE_PAGES,
    **item_pages.ITEM_PAGES,
    **kinds.REGISTRATION_PAGES,
    **kinds.FORWARDED_PAGES,
    **kinds.MESSAGE_PAGES,
    **kinds.SCHEDULE_PAGES,
    **kinds.SAMPLE_PAGES,
    listings.Total:                 _total,
    listings.Backward:              _backward,
    listings.Events:                _events,
    listings.EventsOf:              _events_of,
    listings.LogEnds:               _log_ends,
    listings.AgedEvents:            _aged,
    listings.Records:               _records,
    listings.RecordOf:              _record,
    listings.NewestRecord:          _newest_record,
    listings.Sweepable:             _litter,
    listings.Forgettable:           _forgettable,
    listings.AppsOf:                _apps,
    listings.AttemptsOf:            _attempts,
    listings.WinnerRows:            item_pages.rows,
    listings.Unmoved:               item_pages.unmoved,
    listings.Winners:               item_pages.begin,
    listings.Conflicts:              item_pages.conflicts,
    listings.WinnerClasses:         item_pages.classes,
    listings.WinningBytes:          item_pages.byte_counts,
    listings.TakenWinners:          item_pages.taken,
    listings.WinningDrafts:         item_pages.drafts,
}
# fmt: on
