"""Loads rows by their keys, items that can be delivered, and rows that have expired."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pubqueue.engine.ports import FAR
from pubqueue.engine.rows import HELD, Due, Passed, Ready, Rows, Sign, up_to
from pubqueue.model.entities import Jid, Millis
from pubqueue.rules.expire import item_key, lease_key, of_version
from pubqueue.stores.sql.columns import (
    is_whole,
    item_of,
    items_of,
    node_of,
    subscription_of,
    with_payloads,
)
from pubqueue.stores.sql.kinds import load_kind
from pubqueue.stores.sql.session import packed_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pubqueue.engine.rows import Needs, Rank, Reach
    from pubqueue.model.entities import Item, NodeName, Subscription
    from pubqueue.rules.expire import Key
    from pubqueue.stores.sql.session import SqlSession, Values


# Reads items that can be delivered, and rows that have expired.

T = TypeVar("T")

START: Final = Passed()


def ready(
    session: SqlSession, rooms: Mapping[NodeName, int], now: Millis, byte_count: int, reach: Reach
) -> Ready:
    """Return the next items of each node, until their payloads exceed `byte_count`, at least one."""
    ids = session.contents(rooms)
    here = {node: room for node, room in rooms.items() if room > 0 and node in ids}
    if not here:
        return Ready([])
    places = max(here.values()) + max(1, reach.places // len(here))
    begins = {node: reach.behind.get(node, START) for node in here}
    rows: list[Any] = []
    sizes = reach.sizes
    alone = here
    if len(here) > 1:
        alone = {n: r for n, r in here.items() if begins[n] != START or n in sizes}
    for node, room in alone.items():
        where = ids[node], now, room, places
        some = _of_one(session, node, where, byte_count, reach)
        rows += some
        byte_count -= sum(len(row[-1]) for row in some)
        if byte_count <= 0:
            return Ready(with_payloads(session, rows))
    if others := {ids[node]: room for node, room in here.items() if node not in alone}:
        some = _of_many(session, others, now, byte_count, places)
        rows += some
        byte_count -= sum(len(row[-1]) for row in some)
    found = with_payloads(session, rows)
    if byte_count <= 0 or reach.places >= FAR.places:
        return Ready(found)
    return Ready(found, _passed(session, here, begins, found, places))


def _of_one(
    session: SqlSession, node: NodeName, where: Values, byte_count: int, reach: Reach
) -> list[Any]:
    """Read row by row, so that no payload is read needlessly; leave out those that are too large."""
    rows = []
    begin, size = reach.behind.get(node, START), reach.sizes.get(node)
    bound = () if size is None else (size,)
    query = "ready" if size is None else "ready_of_size"
    if reach.is_alone:
        query = "ready_alone"
    for row in session.stream(query, byte_count, *where, *_columns(begin), *bound):
        rows.append(row)
        byte_count -= len(row[-1])
        if byte_count <= 0:
            break
    return rows


def _columns(begin: Passed) -> tuple[int, int, int, int]:
    return -begin.queued[0], begin.queued[1], -begin.aside[0], begin.aside[1]


def _of_many(
    session: SqlSession, rooms: Mapping[int, int], now: Millis, byte_count: int, places: int
) -> list[Any]:
    """First find the items of all nodes, because they do not come in the order of each node."""
    most = max(rooms.values())
    found = session.rows("ready_places", packed_keys(list(rooms)), now, most, places)
    by_node: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    for node, aside, *rank in found:
        by_node.setdefault((node, aside), []).append(tuple(rank))
    chosen: list[int] = []
    for node, room in rooms.items():
        for aside in (0, 1):
            for _, _, seq, size in sorted(by_node.get((node, aside), ()))[:room]:
                if byte_count <= 0 and chosen:
                    break
                chosen.append(seq)
                byte_count -= size
    rows = {row[1]: row for row in session.rows("ready_items", packed_keys(chosen))}
    return [rows[seq] for seq in chosen]


def _passed(
    session: SqlSession,
    rooms: Mapping[NodeName, int],
    begins: Mapping[NodeName, Passed],
    found: Iterable[tuple[Item, bytes]],
    places: int,
) -> dict[NodeName, Passed]:
    """Return where the scan ended in queues with fewer items than there is room for, but more than were scanned."""
    living: dict[NodeName, tuple[list[Item], list[Item]]] = {node: ([], []) for node in rooms}
    for item, _ in found:
        living[item.node][item.aside].append(item)
    short = [node for node, room in rooms.items() if len(living[node][0]) < room]
    if not short:
        return {}
    ids = session.contents(short)
    keys = [(ids[node], *_columns(begins[node])) for node in short]
    ends: dict[int, dict[int, Rank]] = {}
    for contents, aside, *rank in session.rows("ready_ends", packed_keys(keys), places):
        ends.setdefault(contents, {})[aside] = (rank[0], rank[1])
    return {
        node: Passed(
            _passed_to(living[node][0], end.get(0), begins[node].queued),
            _passed_to(living[node][1], end.get(1), begins[node].aside),
        )
        for node in short
        if (end := ends.get(ids[node])) is not None
    }


def _passed_to(living: Sequence[Item], end: Rank | None, begin: Rank) -> Rank:
    """Return the place up to which no item lives, as far as was scanned."""
    if end is None:
        return begin
    return up_to(living[0]) if living else end


def due(session: SqlSession, now: Millis, limit: int) -> Due:
    """Return what has expired at `now`, up to `limit` of each kind."""
    unread: list[Key] = []
    return Due(
        locks=_ready_items(session, "due_locks", now, limit, unread),
        lives=_ready_items(session, "due_lives", now, limit, unread),
        delayed=_due(session, now, limit, unread),
        versions=_versions(session, now, limit, unread),
        leases=_leases(session, now, limit, unread),
        unread=unread,
    )


def _due(session: SqlSession, now: Millis, limit: int, unread: list[Key]) -> list[Item]:
    """Return delayed items that are due, and held ones whose time is over, the first to be due first."""
    found = _ready_items(session, "due_delayed", now, limit, unread)
    held = _ready_items(session, "due_held", now, limit, unread)
    return sorted([*found, *held], key=lambda item: item.due or 0)[:limit] if held else found


def _ready_items(
    session: SqlSession, query: str, now: Millis, limit: int, unread: list[Key]
) -> list[Item]:
    rows = session.rows_as_found(query, now, limit)
    names = session.holding({row[0] for row in rows})
    there = [row for row in rows if row[0] in names]
    return _read(
        there,
        partial(item_of, names),
        lambda row: item_key(names[row[0]], _name(row[2])),
        unread,
        texts=-1,  # the last column, what the item waits for, is bytes
    )


def _versions(
    session: SqlSession, now: Millis, limit: int, unread: list[Key]
) -> list[tuple[str, int]]:
    """Return open versions that have expired; of one that is damaged it is not known."""

    def read(row: Sequence[Any]) -> tuple[str, int]:
        app, *columns, known = row
        if not is_whole("txn", known, columns):
            raise ValueError("the row is damaged")
        return app, columns[1]

    rows = session.rows_as_found("due_versions", now, limit)
    return _read(rows, read, lambda row: of_version(_name(row[0]), row[2]), unread)


def _leases(session: SqlSession, now: Millis, limit: int, unread: list[Key]) -> list[Subscription]:
    rows = session.rows_as_found("due_leases", now, limit)
    names = session.names({row[1] for row in rows})
    return _read(
        rows,
        partial(subscription_of, names),
        lambda row: lease_key(names[row[1]], _name(row[2])),
        unread,
    )


def _read(
    rows: Iterable[Sequence[Any]],
    read: Callable[[Sequence[Any]], T],
    key: Callable[[Sequence[Any]], Key],
    unread: list[Key],
    texts: int | None = None,
) -> list[T]:
    """Read rows one by one, and note the keys of unreadable ones, which do not prevent others from ending."""
    found = []
    for row in rows:
        try:
            if bytes in map(type, row[:texts]):
                raise ValueError("a text is none")  # noqa: TRY301  # as other damage
            found.append(read(row))
        except Exception:  # a damaged row may raise anything
            unread.append(key(row))
    return found


def _name(found: str | bytes) -> str:
    """Return the key of a row as text, even if it is damaged."""
    return found if isinstance(found, str) else found.hex()


def next_due(session: SqlSession) -> Millis | None:
    """Return when the next lock, delay, lifetime or wait for a commit ends; a time in the past if something is to be swept."""
    moment = session.row("next_due")[0]
    return None if moment is None else Millis(moment)


# Loads rows by their keys: one statement for each kind, however many keys there are.


def load(session: SqlSession, needs: Needs) -> Rows:
    """Return the rows that exist. All statements are sent before the first answer is read.

    Nodes whose ids are not known are loaded first, because the other statements need the ids.
    """
    rows = Rows()
    loaders: list[Iterator[None]] = []
    if needs.nodes:
        loaders.append(nodes := _nodes(session, needs, rows))
        next(nodes)
        if not session.knows(needs.nodes):
            next(nodes, None)
    for kind in needs.of:
        loaders.append(one := load_kind(session, kind, needs, rows))
        next(one)
    for name, loader in LOADERS.items():
        if getattr(needs, name):
            loaders.append(one := loader(session, needs, rows))
            next(one)
    if needs.subscriptions or needs.subscribers or needs.accounts or needs.jids:
        loaders.append(one := _subscriptions(session, needs, rows))
        next(one)
    if needs.items or needs.numbers or needs.held:
        loaders.append(one := _items(session, needs, rows))
        next(one)
    for one in loaders:
        next(one, None)
    return rows


def _nodes(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = session.ask_keys("nodes", needs.nodes)
    yield
    for row in asked:
        session.nodes.note(row[1], row[0])
        session.nodes.note_contents(row[1], row[-1])
        rows.nodes.append(node_of(row[:-1]))


def _subscriptions(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked: list[Iterable[Any]] = []
    if needs.subscriptions:
        asked.append(session.ask_by_node("subscriptions", needs.subscriptions))
    if needs.subscribers:
        ids = session.ids(needs.subscribers)
        here = [ids[node] for node in needs.subscribers if node in ids]
        asked.append(session.ask_keys("subscribers", here) if here else ())
    if needs.accounts:
        asked.append(session.ask_keys("accounts", needs.accounts))
    if needs.jids:
        asked.append(session.ask_keys("jids", needs.jids))
    yield
    found = {row for some in asked for row in some}
    names = session.names({row[1] for row in found})
    rows.subscriptions = [subscription_of(names, row) for row in sorted(found, key=itemgetter(0))]


def _items(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked: list[Iterable[Any]] = []
    if needs.items:
        asked.append(session.ask_by_node("items", needs.items))
    if needs.numbers:
        asked.append(session.ask_keys("numbers", needs.numbers))
    if needs.held:
        asked.append(session.ask("held", packed_keys(needs.held), HELD + 1))
    yield
    if len(asked) == 1:
        rows.items = items_of(session, list(asked[0]))
    else:
        found = {row[1]: row for some in asked for row in some}
        rows.items = items_of(session, list(found.values()))


def _payloads(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = session.ask_keys("payloads", needs.payloads)
    yield
    rows.payloads = list(asked)


def _receipts(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = session.ask_keys("receipts", needs.receipts)
    yield
    rows.receipts = list(asked)


def _resources(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = session.ask_keys("resources", needs.resources)
    yield
    found = [(Jid(row[0]), *row[1:]) for row in asked]
    rows.resources = [jid for jid, *_ in found]
    rows.active = {jid: Sign(*sign) for jid, *sign, _, _ in found if any(sign)}
    rows.able = {jid: able != 0 for jid, _, _, able, _ in found if able is not None}
    rows.present = [jid for jid, *_, present in found if present]


# fmt: off
LOADERS: Final[dict[str, Callable[[SqlSession, Needs, Rows], Iterator[None]]]] = {
    "payloads":  _payloads,
    "receipts":  _receipts,
    "resources": _resources,
}
# fmt: on
"""By the name of the keys, the generator that asks for the rows, and on its second step makes them."""
