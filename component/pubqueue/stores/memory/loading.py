"""Rows by their keys. Mostly few kinds are asked for, so each costs nothing where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.rows import Needs
    from pubqueue.core.model import Item, Subscription
    from pubqueue.stores.memory.contents import Contents
    from pubqueue.stores.memory.items import ItemTable
    from pubqueue.stores.memory.nodes import NodeTable
    from pubqueue.stores.memory.staging import Staging
    from pubqueue.stores.memory.table import K, Table, V


def load(contents: Contents, needs: Needs) -> Rows:
    """Return the rows that are there."""
    rows = Rows()
    _load_nodes(contents.nodes, needs, rows)
    _load_people(contents, needs, rows)
    _load_items(contents.items, needs, rows)
    if needs.apps or needs.versions or needs.attempts or needs.waiting:
        _load_transactions(contents.staging, needs, rows)
    if needs.staged or needs.noted:
        _load_staged(contents.staging, needs, rows)
    if needs.schedules:
        rows.schedules = _found(contents.schedules.schedules, needs.schedules)
    return rows


def _found(table: Table[K, V], keys: Iterable[K]) -> list[V]:
    rows = table.rows
    return [rows[key] for key in keys if key in rows]


def _load_nodes(nodes: NodeTable, needs: Needs, rows: Rows) -> None:
    if needs.nodes:
        rows.nodes = [kept.node for kept in _found(nodes.nodes, needs.nodes)]
    if needs.affiliations:
        rows.affiliations = _found(nodes.affiliations, needs.affiliations)
    if needs.subscriptions or needs.subscribers or needs.accounts or needs.jids:
        rows.subscriptions = _subscriptions(nodes, needs)
    if needs.resources:
        rows.resources = [jid for account in needs.resources for jid in nodes.here(account)]


def _load_people(contents: Contents, needs: Needs, rows: Rows) -> None:
    nodes, items = contents.nodes, contents.items
    rows.people = [
        jid
        for jid in needs.people
        if nodes.has_place(jid) or any(nodes.of_account(jid)) or items.held(jid)
    ]


def _subscriptions(nodes: NodeTable, needs: Needs) -> list[Subscription]:
    found: tuple[Iterable[Subscription], ...] = (
        *map(nodes.subscribers, needs.subscribers),
        *(nodes.of_account(account, node) for node, account in needs.subscriptions),
        *map(nodes.of_account, needs.accounts),
        *map(nodes.of_jid, needs.jids),
    )
    return list({(one.node, one.jid): one for some in found for one in some}.values())


def _load_items(items: ItemTable, needs: Needs, rows: Rows) -> None:
    if needs.items or needs.numbers or needs.held:
        rows.items = _items(items, needs)
    if needs.payloads:
        there = items.payloads.rows
        rows.payloads = [(seq, there[seq]) for seq in needs.payloads if seq in there]
    if needs.receipts:
        losers = items.receipts.rows
        rows.receipts = [(seq, jid) for seq in needs.receipts for jid in losers.get(seq, ())]
    if needs.finished:
        rows.finished = _found(items.finished, needs.finished)


def _items(items: ItemTable, needs: Needs) -> list[Item]:
    named = (items.find(*key) for key in needs.items)
    found = {item.seq: item for item in named if item is not None}
    if needs.numbers:
        found.update((item.seq, item) for item in _found(items.items, needs.numbers))
    for holder in needs.held:
        found.update((item.seq, item) for item in items.held(holder))
    return list(found.values())


def _load_transactions(staging: Staging, needs: Needs, rows: Rows) -> None:
    rows.apps = _found(staging.apps, needs.apps)
    rows.versions = [opened.version for opened in _found(staging.versions, needs.versions)]
    rows.attempts = [one.attempt for one in _found(staging.attempts, needs.attempts)]
    rows.waiting = _found(staging.waiting, needs.waiting)


def _load_staged(staging: Staging, needs: Needs, rows: Rows) -> None:
    for key in needs.staged:
        attempt = staging.attempts.rows.get((key.app, key.version, key.part, key.attempt))
        row = None if attempt is None else staging.rows(attempt.number).get((key.node, key.id))
        if row is not None:
            rows.staged.append((key, row.size))
    for noted in needs.noted:
        row = staging.noted((noted.app, noted.version), noted.node, noted.id)
        if row is not None:
            rows.noted.append((noted, row.draft.payload, row.known))
