"""Fills stores before the service starts, by the interface of stores, without publishing items."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from harness.stores.rows import writes_of
from msgspec.structs import replace

from bench.load import NODE, SERVICE, payload
from pubqueue.config.settings import NodeSettings, Settings
from pubqueue.engine.context import now
from pubqueue.engine.rows import AffiliationRow, Needs, Write
from pubqueue.model.entities import (
    Affiliation,
    Item,
    ItemId,
    Jid,
    Node,
    NodeConfig,
    NodeName,
    State,
)
from pubqueue.model.sums import sum_of
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.wiring.serving import queue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pubqueue.engine.ports import Transaction

SLICE: Final = 10_000
"""Items or nodes that are written in one transaction."""
OWNER: Final = Jid("boss@localhost")
PUBLISHER: Final = Jid("publisher0@localhost")
BODY: Final = payload(200).encode()


async def backlog(path: Path, publishers: Sequence[str], count: int) -> None:
    """Make a store with this many waiting items in the queue of the benchmark."""
    await _declare(path, publishers)
    await waiting(path, count)


async def nodes(path: Path, publishers: Sequence[str], count: int) -> None:
    """Make a store with this many other queues, each with an owner and a waiting item."""
    await _declare(path, publishers)
    await others(path, count)


async def waiting(path: Path, count: int) -> None:
    """Add this many waiting items to the queue of the benchmark, which the store has."""
    await _fill(path, count, _add_items)


async def others(path: Path, count: int, owner: Jid = OWNER) -> None:
    """Add this many queues of the owner, each with a waiting item."""
    await _fill(path, count, partial(_add_nodes, owner))


async def _declare(path: Path, publishers: Sequence[str]) -> None:
    """Make the queue of the benchmark like its configuration file."""
    people = tuple(f"{name}@localhost" for name in publishers)
    node = NodeSettings(NODE, queueing=True, owners=(OWNER,), publishers=people)
    settings = Settings(jid=SERVICE, store=f"sqlite:///{path}", node=(node,))
    async with queue(settings):
        pass


async def _fill(path: Path, count: int, add: Callable[[range, Transaction], None]) -> None:
    store = SqliteStore(path)
    await store.open()
    for start in range(0, count, SLICE):
        await store.batch(partial(add, range(start, min(start + SLICE, count))))
    await store.close()


def _add_items(numbers: range, tx: Transaction) -> None:
    name = NodeName(NODE)
    (node,) = tx.load(Needs(nodes={name})).nodes
    more = len(numbers)
    fuller = replace(node, items=node.items + more, bytes=node.bytes + more * len(BODY))
    _write(tx, [Write(node, fuller)], [], [(name, f"waiting{number}") for number in numbers])


def _add_nodes(owner: Jid, numbers: range, tx: Transaction) -> None:
    names = [NodeName(f"other{number}") for number in numbers]
    config = NodeConfig(queueing=True)
    _write(
        tx,
        [Write(None, Node(name, config, owner, now(), items=1, bytes=len(BODY))) for name in names],
        [Write(None, AffiliationRow(name, owner, Affiliation.OWNER)) for name in names],
        [(name, "waiting") for name in names],
    )


def _write(
    tx: Transaction,
    nodes: list[Write[Node]],
    affiliations: list[Write[AffiliationRow]],
    places: Sequence[tuple[NodeName, str]],
) -> None:
    """Write nodes, and waiting items in these places."""
    at, first = now(), tx.number("item", len(places))
    items = [
        Item(
            *(seq, node, ItemId(name), State.QUEUED, PUBLISHER, at),
            size=len(BODY),
            sum=sum_of(ItemId(name), BODY),
        )
        for seq, (node, name) in enumerate(places, first)
    ]
    tx.write(
        writes_of(
            at,
            nodes=nodes,
            affiliations=affiliations,
            items=[Write(None, item) for item in items],
            payloads=dict.fromkeys((item.seq for item in items), BODY),
        )
    )
