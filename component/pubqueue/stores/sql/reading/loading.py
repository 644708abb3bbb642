"""Loads rows by their keys: one statement for each kind that is asked for, however many keys there are."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pubqueue.app.store.rows import HELD, AffiliationRow, Finished, NotedKey, Rows, StagedKey
from pubqueue.core.limits.quotas import Holding
from pubqueue.core.model import Affiliation, Jid
from pubqueue.core.transactions.model import App, Attempt, StagedTotals, Version
from pubqueue.stores.sql.columns import items_of, node_of, subscription_of
from pubqueue.stores.sql.node_ids import packed_keys
from pubqueue.stores.sql.schedules import load_schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue.app.store.rows import Needs
    from pubqueue.core.model import NodeName
    from pubqueue.stores.sql.session import SqlSession


def load(session: SqlSession, needs: Needs) -> Rows:
    """Return the rows that are there. All that is needed is asked for before the first answer is looked at.

    But nodes whose ids are not known come first: that makes them known to the others.
    """
    rows = Rows()
    loaders: list[Iterator[None]] = []
    if needs.nodes:
        loaders.append(nodes := _nodes(session, needs, rows))
        next(nodes)
        if not session.knows(needs.nodes):
            next(nodes, None)
    for kind, loader in LOADERS.items():
        if getattr(needs, kind):
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


def _keyed(session: SqlSession, query: str, keys: object) -> Iterable[Any]:
    return session.ask(query, packed_keys(keys))


def _by_node(
    session: SqlSession, query: str, pairs: Iterable[tuple[NodeName, str]]
) -> Iterable[Any]:
    """Run a statement whose keys are lists by node; of nodes that are not there there are no rows."""
    lists: defaultdict[NodeName, list[str]] = defaultdict(list)
    for node, key in pairs:
        lists[node].append(key)
    ids = session.contents(lists) if query == "items" else session.ids(lists)
    keys = {str(ids[node]): some for node, some in lists.items() if node in ids}
    return _keyed(session, query, keys) if keys else ()


def _nodes(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "nodes", needs.nodes)
    yield
    for row in asked:
        session.nodes.note(row[1], row[0])
        session.nodes.note_contents(row[1], row[9])
        rows.nodes.append(node_of(row[:9]))


def _affiliations(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _by_node(session, "affiliations", needs.affiliations)
    yield
    found = list(asked)
    names = session.names({row[0] for row in found})
    rows.affiliations = [
        AffiliationRow(names[node], jid, Affiliation(word)) for node, jid, word in found
    ]


def _subscriptions(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked: list[Iterable[Any]] = []
    if needs.subscriptions:
        asked.append(_by_node(session, "subscriptions", needs.subscriptions))
    if needs.subscribers:
        ids = session.ids(needs.subscribers)
        here = [ids[node] for node in needs.subscribers if node in ids]
        asked.append(_keyed(session, "subscribers", here) if here else ())
    if needs.accounts:
        asked.append(_keyed(session, "accounts", needs.accounts))
    if needs.jids:
        asked.append(_keyed(session, "jids", needs.jids))
    yield
    found = {row for some in asked for row in some}
    names = session.names({row[1] for row in found})
    rows.subscriptions = [subscription_of(names, row) for row in sorted(found, key=itemgetter(0))]


def _items(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked: list[Iterable[Any]] = []
    if needs.items:
        asked.append(_by_node(session, "items", needs.items))
    if needs.numbers:
        asked.append(_keyed(session, "numbers", needs.numbers))
    if needs.held:
        asked.append(session.ask("held", packed_keys(needs.held), HELD + 1))
    yield
    if len(asked) == 1:
        rows.items = items_of(session, list(asked[0]))
    else:
        found = {row[1]: row for some in asked for row in some}
        rows.items = items_of(session, list(found.values()))


def _payloads(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "payloads", needs.payloads)
    yield
    rows.payloads = list(asked)


def _receipts(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "receipts", needs.receipts)
    yield
    rows.receipts = list(asked)


def _finished(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _by_node(session, "finished", needs.finished)
    yield
    found = list(asked)
    names = session.names({row[0] for row in found})
    rows.finished = [Finished(names[node], *facts) for node, *facts in found]


def _resources(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "resources", needs.resources)
    yield
    found = [(Jid(row[0]), row[1]) for row in asked]
    rows.resources = [jid for jid, _ in found]
    rows.heard = {jid: since for jid, since in found if since}


def _people(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "people", needs.people)
    yield
    rows.people = [Jid(row[0]) for row in asked]


def _apps(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "apps", needs.apps)
    yield
    rows.apps = [App(*row) for row in asked]


def _versions(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "versions", needs.versions)
    yield
    rows.versions = [_version(row) for row in asked]


def _attempts(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "attempts", needs.attempts)
    yield
    rows.attempts = [Attempt(*row) for row in asked]


def _waiting(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "waiting", needs.waiting)
    yield
    rows.waiting = [StagedTotals(*row) for row in asked]


def _holdings(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    asked = _keyed(session, "holdings", needs.holdings)
    yield
    rows.holdings = [Holding(*row) for row in asked]


def _version(row: tuple[Any, ...]) -> Version:
    app, number, owner, immediate, *facts = row
    return Version(app, number, owner, immediate != 0, *facts)


def _staged(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    lists: dict[tuple[object, ...], dict[str, list[str]]] = {}
    for key in needs.staged:
        nodes = lists.setdefault((key.app, key.version, key.part, key.attempt), {})
        nodes.setdefault(key.node, []).append(key.id)
    asked = _keyed(session, "staged", [(*place, nodes) for place, nodes in lists.items()])
    yield
    rows.staged = [(StagedKey(*row[:-1]), row[-1]) for row in asked]


def _noted(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    """Take one of the attempts that have noted an id: they noted the same."""
    lists: dict[tuple[object, ...], dict[str, list[str]]] = {}
    for key in needs.noted:
        lists.setdefault((key.app, key.version), {}).setdefault(key.node, []).append(key.id)
    asked = _keyed(session, "noted", [(*place, nodes) for place, nodes in lists.items()])
    yield
    found: dict[NotedKey, tuple[bytes, bool]] = {}
    for app, version, node, item, payload, known in asked:
        found.setdefault(NotedKey(app, version, node, item), (payload, known != 0))
    rows.noted = [(key, *facts) for key, facts in found.items()]


# fmt: off
LOADERS: Final[dict[str, Callable[[SqlSession, Needs, Rows], Iterator[None]]]] = {
    "affiliations": _affiliations,
    "payloads":     _payloads,
    "receipts":     _receipts,
    "finished":     _finished,
    "resources":    _resources,
    "people":       _people,
    "apps":         _apps,
    "versions":     _versions,
    "attempts":     _attempts,
    "waiting":      _waiting,
    "staged":       _staged,
    "noted":        _noted,
    "schedules":    load_schedules,
    "holdings":     _holdings,
}
# fmt: on
"""Of each kind of key that is a kind of row too what asks for the rows, and on its second step makes them."""
