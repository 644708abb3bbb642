"""Pages of rows: a table with the reading function of each listing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from pubqueue.engine import listings as it
from pubqueue.engine import listings as li
from pubqueue.engine import listings as ve
from pubqueue.model.records import Event, EventKind
from pubqueue.model.replies import EventEntry
from pubqueue.model.transactions import Attempt, Record
from pubqueue.stores.sql import (
    forwarded,
    kept_messages,
    moving,
    registrations,
    samples,
    schedules,
    winners,
)
from pubqueue.stores.sql.columns import record_of
from pubqueue.stores.sql.node_ids import packed_keys
from pubqueue.stores.sql.reading import item_pages, node_pages
from pubqueue.stores.sql.reading.item_pages import BACK, BEHIND_ALL
from pubqueue.stores.sql.reading.node_pages import packed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.stores.sql.session import SqlSession

R = TypeVar("R")


def page(session: SqlSession, which: li.Listing[R], after: object, limit: int) -> list[R]:
    """Return up to `limit` rows of a listing after `after`."""
    found: list[R] = PAGES[type(which)](session, which, after, limit)
    return found


BEHIND_WORDS: Final = chr(0x10FFFF)
"""Greater than every name and every JID: it is not a printable character, so none begins with it."""


def _backward(session: SqlSession, which: li.Backward[Any], after: Any, limit: int) -> list[Any]:  # noqa: ANN401  # a place of that listing
    match which.of:
        case li.Nodes() as nodes:
            return node_pages.found_nodes(session, nodes, after or BEHIND_WORDS, limit, BACK)
        case li.NodesOfAccount() as mine:
            return node_pages.nodes_of_account(session, mine, after or BEHIND_WORDS, limit, BACK)
        case li.AffiliationsOf() as people:
            return node_pages.affiliations_of(session, people, after or BEHIND_WORDS, limit, BACK)
        case li.SubscriptionsOf() as some:
            return node_pages.subscriptions_of(session, some, after or BEHIND_WORDS, limit, BACK)
        case li.SubscriptionsOfAccount() as mine:
            place = after or (BEHIND_WORDS, "")
            return node_pages.subscriptions_of_account(session, mine, place, limit, BACK)
        case it.ItemIds() as ids:
            return item_pages.item_ids(session, ids, after or BEHIND_ALL, limit, BACK)
        case other:
            raise TypeError(f"{type(other).__name__} is not paged backward")


def _total(session: SqlSession, which: li.Total, _after: object, limit: int) -> list[int]:
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
            row = session.row("count_affiliations_of", session.id(node), packed(roles))
        case li.NodesOfAccount(account=account) as mine:
            filters = packed(mine.roles), packed(mine.access)
            types = packed(mine.types), packed(mine.but or None)
            row = session.row("count_nodes_of_account", account, *filters, *types)
        case li.SubscriptionsOf(node=node, state=state):
            row = session.row("count_subscriptions_of", session.id(node), state.value)
        case li.SubscriptionsOfAccount(account=account, node=node):
            row = session.row("count_subscriptions_of_account", account, node)
        case it.HeldBy(holder=holder, node=node):
            contents = None if node is None else session.contents_of(node)
            row = session.row("count_held_by", holder, contents)
        case other:
            raise TypeError(f"{type(other).__name__} is not counted")
    return [int(row[0])][:limit]


def _events(
    session: SqlSession, which: li.Events, after: int | None, limit: int
) -> list[EventEntry]:
    names = None if which.nodes is None else packed_keys(which.nodes)
    roles = which.account, packed_keys(which.roles)
    rows = session.rows("events", after or 0, which.until, names, *roles, limit)
    return [EventEntry(seq, at, Event(EventKind(kind), *facts)) for seq, at, kind, *facts in rows]


def _log_ends(
    session: SqlSession, _which: li.LogEnds, _after: object, limit: int
) -> list[tuple[int, int]]:
    return session.rows("log_ends")[:limit]


def _aged(session: SqlSession, which: li.AgedEvents, _after: object, limit: int) -> list[int]:
    last = session.row("aged", which.before, limit)[0]
    return [] if last is None else [int(last)]


def _records(session: SqlSession, which: ve.Records, after: int | None, limit: int) -> list[Record]:
    query = "records"
    if which.waiting:
        query = "open_records"
    elif which.app is not None:
        query = "records_of_app"
    elif which.owner is not None:
        query = "records_of_owner"
    rows = session.rows(query, after or 0, which.app, which.owner, limit)
    return [record_of(row) for row in rows]


def _record(session: SqlSession, which: ve.RecordOf, _after: object, limit: int) -> list[Record]:
    rows = session.rows("record", which.app, which.version)
    return [record_of(row) for row in rows][:limit]


def _litter(session: SqlSession, which: ve.Sweepable, _after: object, limit: int) -> list[bool]:
    return [session.row("anything_to_sweep", which.before)[0] != 0][:limit]


def _forgettable(
    session: SqlSession, which: li.Forgettable, _after: object, limit: int
) -> list[int]:
    return [int(session.row("forgettable", which.now, limit)[0])]


def _attempts(
    session: SqlSession, which: ve.AttemptsOf, _after: object, limit: int
) -> list[Attempt]:
    rows = session.rows("attempts_of", which.app, which.version, limit)
    return [Attempt(*row[:-1]) for row in rows]


# fmt: off
PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    **node_pages.PAGES,
    **item_pages.PAGES,
    **registrations.PAGES,
    **forwarded.PAGES,
    **kept_messages.PAGES,
    **schedules.PAGES,
    **samples.PAGES,
    li.Total:                 _total,
    li.Backward:              _backward,
    li.Events:                _events,
    li.LogEnds:               _log_ends,
    li.AgedEvents:            _aged,
    ve.Records:               _records,
    ve.RecordOf:              _record,
    ve.Sweepable:             _litter,
    li.Forgettable:           _forgettable,
    ve.AttemptsOf:            _attempts,
    ve.WinnerRows:            moving.rows,
    ve.Unmoved:               moving.unmoved,
    ve.Winners:               winners.begin,
    ve.Conflicts:              winners.conflicts,
    ve.WinnerClasses:         winners.classes,
    ve.WinningBytes:          winners.byte_counts,
    ve.TakenWinners:          winners.taken,
    ve.WinningDrafts:         winners.drafts,
}
# fmt: on
