"""Loads rows by their keys: one statement for each kind, however many keys there are."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine.rows import HELD, Rows
from pubqueue.model.entities import Jid
from pubqueue.stores.sql.columns import items_of, node_of, subscription_of
from pubqueue.stores.sql.kinds import load_kind
from pubqueue.stores.sql.node_ids import packed_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue.engine.rows import Needs
    from pubqueue.stores.sql.session import SqlSession


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
    found = [(Jid(row[0]), row[1], row[2]) for row in asked]
    rows.resources = [jid for jid, *_ in found]
    rows.active = {jid: since for jid, since, _ in found if since}
    rows.able = {jid: able != 0 for jid, _, able in found if able is not None}


# fmt: off
LOADERS: Final[dict[str, Callable[[SqlSession, Needs, Rows], Iterator[None]]]] = {
    "payloads":  _payloads,
    "receipts":  _receipts,
    "resources": _resources,
}
# fmt: on
"""By the name of the keys, the generator that asks for the rows, and on its second step makes them."""
