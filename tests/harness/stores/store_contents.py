"""Everything that a store shows through its seam, as values to compare; and its counts, recounted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.stores.rows import needs_of

from pubqueue.engine.listings import AffiliationsOf, DoneItems, Items, Nodes
from pubqueue.engine.rows import HOLDINGS, Needs
from pubqueue.model.entities import State
from pubqueue.model.records import Holding, weight
from pubqueue.model.waits import size_of

if TYPE_CHECKING:
    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.writes import RowCache
    from pubqueue.model.entities import Item, Jid, Node, NodeName, Subscription

ALL: Final = 1_000_000


def nodes(tx: Transaction) -> list[Node]:
    """Return every node, by name."""
    return tx.page(Nodes(), None, ALL)


def contents(tx: Transaction, node: NodeName) -> list[tuple[Item, bytes]]:
    """Return every item of the node with its payload, the oldest first."""
    return tx.page(Items(node), None, ALL)


def done(tx: Transaction, node: NodeName) -> list[Item]:
    """Return everything that is done in the node and kept, by its publish."""
    return tx.page(DoneItems(node), None, ALL)


def subscribers(tx: Transaction, node: NodeName) -> list[Subscription]:
    """Return every subscription to the node, the oldest first."""
    return tx.load(Needs(subscribers={node})).subscriptions


def everything(tx: Transaction) -> list[object]:
    """Return every node with its people, subscriptions and items, and the former holders of these."""
    seen: list[object] = []
    for node in nodes(tx):
        seen += [node, *tx.page(AffiliationsOf(node.name), None, ALL), *subscribers(tx, node.name)]
        rows = contents(tx, node.name)
        for item, payload in rows:
            seen += [item, payload]
        for item in done(tx, node.name):
            seen += [item, *tx.load(Needs(payloads={item.seq})).payloads]
        seen += sorted(tx.load(Needs(receipts={item.seq for item, _ in rows})).receipts)
    return seen


def next_token(tx: Transaction) -> int:
    """Return the token of the next lock; it is used up."""
    return tx.number("token", 1)


def recount(tx: Transaction) -> list[str]:
    """Return a sentence for every wrong count."""
    wrong = []
    for node in nodes(tx):
        items = [item for item, _ in contents(tx, node.name)]
        people = subscribers(tx, node.name)
        counted = len(items), sum(item.size for item in items), len(people)
        if (node.items, node.bytes, node.subscriptions) != counted:
            counts = node.items, node.bytes, node.subscriptions
            wrong.append(f"{node.name} counts {counts} for {counted}")
        kept = done(tx, node.name)
        counted_done = len(kept), sum(item.size for item in kept)
        if (node.done, node.done_bytes) != counted_done:
            counts_done = node.done, node.done_bytes
            wrong.append(f"{node.name} counts {counts_done} done for {counted_done}")
        holds = Counter(item.holder for item in items if item.state is State.LOCKED)
        wrong += [
            f"{one.jid} counts {one.in_flight} for {holds[one.jid]}"
            for one in people
            if one.in_flight != holds[one.jid]
        ]
    return wrong + overpaid(tx)


def overpaid(tx: Transaction) -> list[str]:
    """Return a sentence for every account for which the store adds up another sum than that of its nodes."""
    held: dict[Jid, Holding] = {}
    for node in nodes(tx):
        known = held.get(node.creator) or Holding(node.creator)
        held[node.creator] = known.more(1, node.items, node.bytes + node.done_bytes)
    found = {one.account: one for one in tx.load(needs_of(holdings={*held})).of[HOLDINGS]}
    return [
        f"{one} is added up as {found.get(jid)}"
        for jid, one in held.items()
        if found.get(jid) != one
    ]


def out_of_step(cache: RowCache, tx: Transaction) -> list[str]:
    """Return a sentence for every account for which a process has another sum than the store."""
    found = {
        one.account: one for one in tx.load(needs_of(holdings={*cache.of[HOLDINGS]})).of[HOLDINGS]
    }
    return [
        f"{one} is believed, and {found.get(jid)} is there"
        for jid, one in cache.of[HOLDINGS].items()
        if (one or Holding(jid)) != found.get(jid, Holding(jid))
    ]


def miscounted_joins(tx: Transaction) -> list[str]:
    """Return a sentence for every join that counts its members wrongly. Nothing may be left to be swept."""
    items = [item for node in nodes(tx) for item, _ in contents(tx, node.name)]
    members = Counter(item.joins for item in items)
    dead = Counter(item.joins for item in items if item.dead_letter is not None)
    counted = {
        item.seq: (item.wait.join.to_come, item.wait.join.dead)
        for item in items
        if item.wait is not None and item.wait.join is not None
    }
    return [
        f"join {seq} counts {known} for {members[seq]} with {dead[seq]} dead"
        for seq, known in counted.items()
        if known != (members[seq], dead[seq])
    ]


def misweighed(tx: Transaction) -> list[str]:
    """Return a sentence for every item with another size than its payload and its headers have."""
    return [
        f"item {item.id} of {node.name} counts for {item.size} bytes"
        for node in nodes(tx)
        for item, payload in contents(tx, node.name)
        if item.size != weight(payload, item.headers) + size_of(item.wait)
    ]
