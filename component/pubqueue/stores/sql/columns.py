"""From rows to the nouns of the model and back: what the columns hold."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pubqueue.core.model import (
    DeadLetter,
    Headers,
    Item,
    Node,
    NodeConfig,
    State,
    Subscription,
    SubscriptionState,
    Terms,
)
from pubqueue.core.transactions.model import OnTaken, Record, Totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pubqueue.core.model import NodeName
    from pubqueue.stores.sql.session import SqlSession

_STATES: Final = {state.value: state for state in State}
_STANDINGS: Final = {state.value: state for state in SubscriptionState}


def packed(headers: Headers) -> str | None:
    """Return headers as a column: a list of pairs in JSON, NULL where there are none."""
    return msgspec.json.encode(headers).decode() if headers else None


def unpacked(text: str | None) -> Headers:
    """Return the headers of a column."""
    return msgspec.json.decode(text, type=Headers) if text else ()


def packed_config(config: NodeConfig) -> str:
    """Return a node's settings as a column."""
    return msgspec.json.encode(config).decode()


@lru_cache(maxsize=1024)
def unpacked_config(text: str) -> NodeConfig:
    """Return a node's settings; the text is the key, so a changed node is never mistaken."""
    return msgspec.json.decode(text, type=NodeConfig)


def packed_terms(several: tuple[Terms, ...]) -> str | None:
    """Return several subscriptions of a JID as a column: a list in JSON, NULL where there is one."""
    return msgspec.json.encode(several).decode() if several else None


@lru_cache(maxsize=1024)
def unpacked_terms(text: str) -> tuple[Terms, ...]:
    """Return the subscriptions of such a column."""
    return msgspec.json.decode(text, type=tuple[Terms, ...])


def node_of(row: Sequence[Any]) -> Node:
    """Make a node of its columns; the first is its id."""
    _, name, config, *facts = row
    return Node(name, unpacked_config(config), *facts)


def subscription_of(names: Mapping[int, NodeName], row: Sequence[Any]) -> Subscription:
    """Make a subscription of its columns; the first is its place in the order of their coming."""
    _, node, jid, subid, requests, in_flight, last_served, available, unanswered, *terms = row
    state, deliver, expire, remind, temporary, several = terms
    return Subscription(
        *(names[node], jid, subid, requests, in_flight, last_served, available != 0, unanswered),
        *(_STANDINGS[state], deliver != 0, expire, remind, temporary != 0),
        several=unpacked_terms(several) if several else (),
    )


def item_of(names: Mapping[int, NodeName], row: Sequence[Any]) -> Item:
    """Make an item of its columns; what comes after them is not looked at. Spelled out, for it is hot."""
    return Item(
        row[1],
        names[row[0]],
        row[2],
        _STATES[row[3]],
        row[4],
        row[5],
        row[6],
        row[7],
        row[8],
        row[9],
        row[10],
        row[11],
        row[12],
        row[13],
        row[14],
        row[15],
        row[16] != 0,
        row[17],
        () if row[18] is None else unpacked(row[18]),
        None if row[19] is None else DeadLetter(*row[19:24]),
        None if row[24] is None else (row[24], row[25]),
        row[26] or "",
        row[27] or 0,
        row[28],
        row[29],
    )


def items_of(session: SqlSession, rows: Sequence[Sequence[Any]]) -> list[Item]:
    """Make items of rows; those of a node that was purged or deleted since are not there any more."""
    names = session.holding({row[0] for row in rows})
    return [item_of(names, row) for row in rows if row[0] in names]


def with_payloads(session: SqlSession, rows: Iterable[Sequence[Any]]) -> list[tuple[Item, bytes]]:
    """Make items of rows of which the last column is the payload."""
    found = list(rows)
    return [(item, row[-1]) for item, row in zip(items_of(session, found), found, strict=True)]


def record_of(row: Sequence[Any]) -> Record:
    """Make a transaction's record of its columns."""
    row_id, app, owner, version, began, committed, items, size, *counts, on_taken, place = row
    totals, choice = Totals(*counts), OnTaken(on_taken)
    return Record(row_id, app, owner, version, began, committed, items, size, totals, choice, place)
