"""Loads rows by their keys: one statement for each kind that is asked for, however many keys there are."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pubqueue.app.rows import AffiliationRow, Finished, NotedKey, Rows, StagedKey
from pubqueue.core.model import Affiliation, Jid
from pubqueue.core.transactions.model import App, Attempt, StagedTotals, Version
from pubqueue.stores.relational.columns import items_of, node_of, subscription_of
from pubqueue.stores.relational.node_ids import packed_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.rows import Needs
    from pubqueue.core.model import Item, Node, NodeName, Subscription
    from pubqueue.stores.relational.session import Session


def load(session: Session, needs: Needs) -> Rows:
    """Return the rows that are there. Nodes come first: that makes their ids known to the others."""
    rows = Rows()
    if needs.nodes:
        rows.nodes = _nodes(session, needs)
    if needs.affiliations:
        rows.affiliations = _affiliations(session, needs)
    if needs.subscriptions or needs.subscribers or needs.accounts or needs.jids:
        rows.subscriptions = _subscriptions(session, needs)
    if needs.items or needs.numbers or needs.held:
        rows.items = _items(session, needs)
    if needs.payloads:
        rows.payloads = _keyed(session, "payloads", needs.payloads)
    if needs.receipts:
        rows.receipts = _keyed(session, "receipts", needs.receipts)
    if needs.finished:
        rows.finished = _finished(session, needs)
    if needs.resources:
        rows.resources = [Jid(row[0]) for row in _keyed(session, "resources", needs.resources)]
    _load_transactions(session, needs, rows)
    return rows


def _load_transactions(session: Session, needs: Needs, rows: Rows) -> None:
    """Add the rows of transactions."""
    if needs.apps:
        rows.apps = [App(*row) for row in _keyed(session, "apps", needs.apps)]
    if needs.versions:
        rows.versions = [_version(row) for row in _keyed(session, "versions", needs.versions)]
    if needs.attempts:
        rows.attempts = [Attempt(*row) for row in _keyed(session, "attempts", needs.attempts)]
    if needs.waiting:
        rows.waiting = [StagedTotals(*row) for row in _keyed(session, "waiting", needs.waiting)]
    if needs.staged:
        rows.staged = _staged(session, needs)
    if needs.noted:
        rows.noted = _noted(session, needs)


def _keyed(session: Session, query: str, keys: object) -> list[Any]:
    return session.rows(query, packed_keys(keys))


def _by_node(session: Session, query: str, pairs: Iterable[tuple[NodeName, str]]) -> list[Any]:
    """Run a statement whose keys are lists by node; of nodes that are not there there are no rows."""
    lists: dict[NodeName, list[str]] = {}
    for node, key in pairs:
        lists.setdefault(node, []).append(key)
    ids = session.contents(lists) if query == "items" else session.ids(lists)
    keys = {str(ids[node]): some for node, some in lists.items() if node in ids}
    return _keyed(session, query, keys) if keys else []


def _nodes(session: Session, needs: Needs) -> list[Node]:
    rows = _keyed(session, "nodes", needs.nodes)
    for row in rows:
        session.nodes.note(row[1], row[0])
        session.nodes.note_contents(row[1], row[7])
    return [node_of(row[:7]) for row in rows]


def _affiliations(session: Session, needs: Needs) -> list[AffiliationRow]:
    rows = _by_node(session, "affiliations", needs.affiliations)
    names = session.names({row[0] for row in rows})
    return [AffiliationRow(names[node], jid, Affiliation(word)) for node, jid, word in rows]


def _subscriptions(session: Session, needs: Needs) -> list[Subscription]:
    rows: list[Any] = []
    if needs.subscriptions:
        rows += _by_node(session, "subscriptions", needs.subscriptions)
    if needs.subscribers:
        ids = session.ids(needs.subscribers)
        here = [ids[node] for node in needs.subscribers if node in ids]
        rows += _keyed(session, "subscribers", here) if here else []
    if needs.accounts:
        rows += _keyed(session, "accounts", needs.accounts)
    if needs.jids:
        rows += _keyed(session, "jids", needs.jids)
    names = session.names({row[1] for row in rows})
    return [subscription_of(names, row) for row in sorted(set(rows), key=itemgetter(0))]


def _items(session: Session, needs: Needs) -> list[Item]:
    parts = []
    if needs.items:
        parts.append(_by_node(session, "items", needs.items))
    if needs.numbers:
        parts.append(_keyed(session, "numbers", needs.numbers))
    if needs.held:
        parts.append(_keyed(session, "held", needs.held))
    rows = parts[0]
    if len(parts) > 1:
        rows = list({row[1]: row for part in parts for row in part}.values())
    return items_of(session, rows)


def _finished(session: Session, needs: Needs) -> list[Finished]:
    rows = _by_node(session, "finished", needs.finished)
    names = session.names({row[0] for row in rows})
    return [Finished(names[node], *facts) for node, *facts in rows]


def _version(row: tuple[Any, ...]) -> Version:
    app, number, owner, immediate, *facts = row
    return Version(app, number, owner, immediate != 0, *facts)


def _staged(session: Session, needs: Needs) -> list[tuple[StagedKey, int]]:
    lists: dict[tuple[object, ...], dict[str, list[str]]] = {}
    for key in needs.staged:
        nodes = lists.setdefault((key.app, key.version, key.part, key.attempt), {})
        nodes.setdefault(key.node, []).append(key.id)
    keys = [(*place, nodes) for place, nodes in lists.items()]
    return [(StagedKey(*row[:-1]), row[-1]) for row in _keyed(session, "staged", keys)]


def _noted(session: Session, needs: Needs) -> list[tuple[NotedKey, bytes, bool]]:
    """Take one of the attempts that have noted an id: they noted the same."""
    lists: dict[tuple[object, ...], dict[str, list[str]]] = {}
    for key in needs.noted:
        lists.setdefault((key.app, key.version), {}).setdefault(key.node, []).append(key.id)
    found: dict[NotedKey, tuple[bytes, bool]] = {}
    keys = [(*place, nodes) for place, nodes in lists.items()]
    for app, version, node, item, payload, known in _keyed(session, "noted", keys):
        found.setdefault(NotedKey(app, version, node, item), (payload, known != 0))
    return [(key, *facts) for key, facts in found.items()]
