"""Converts rows to the structs of the model and back."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from pubqueue.engine.rows import AffiliationRow
from pubqueue.model.entities import (
    Affiliation,
    DeadLetter,
    Headers,
    Item,
    Level,
    Node,
    NodeConfig,
    State,
    Subscription,
    SubscriptionState,
    Terms,
)
from pubqueue.model.joins import member_of
from pubqueue.model.sums import UNREADABLE, has_key, sealed, sum_of_row, unsealed
from pubqueue.model.transactions import OnTaken, Record, Totals
from pubqueue.model.waits import DAMAGED, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pubqueue.model.entities import Jid, NodeName
    from pubqueue.stores.sql.session import SqlSession


_HEADERS: Final = msgspec.json.Decoder(Headers)
_WAIT: Final = msgspec.msgpack.Decoder(Wait)
_CONFIG: Final = msgspec.json.Decoder(NodeConfig)
_TERMS: Final = msgspec.json.Decoder(tuple[Terms, ...])

_STATES: Final = {state.value: state for state in State}
_STANDINGS: Final = {state.value: state for state in SubscriptionState}


def packed(headers: Headers) -> str | None:
    """Return headers as a column: a list of pairs in JSON, NULL if there are none."""
    return msgspec.json.encode(headers).decode() if headers else None


def unpacked(text: str | None) -> Headers:
    """Return the headers of a column; of one that is damaged a value that no item has."""
    try:
        return _HEADERS.decode(text) if text else ()
    except msgspec.DecodeError:
        return UNREADABLE


def packed_wait(wait: Wait | None) -> bytes | None:
    """Return what an item waits for as a column with its checksum, NULL if there is nothing; that of a damaged one does not match."""
    if wait is None:
        return None
    column = sealed(msgspec.msgpack.encode(wait))
    return column[:-1] + bytes((column[-1] ^ 1,)) if wait.damaged else column


def unpacked_wait(column: bytes | None) -> Wait | None:
    """Return what such a column has; of one that is damaged only that it is."""
    if column is None:
        return None
    content = unsealed(bytes(column))
    try:
        return DAMAGED if content is None else _WAIT.decode(content)
    except msgspec.DecodeError:  # a bit of the first byte has flipped
        return DAMAGED


def packed_config(config: NodeConfig) -> str:
    """Return a node's settings as a column."""
    return msgspec.json.encode(config).decode()


@lru_cache(maxsize=1024)
def unpacked_config(text: str) -> NodeConfig:
    """Return a node's settings. The result is cached by the text, so a changed node never gets old settings."""
    return _CONFIG.decode(text)


def packed_terms(several: tuple[Terms, ...]) -> str | None:
    """Return several subscriptions of a JID as a column: a list in JSON, NULL if there is only one."""
    return msgspec.json.encode(several).decode() if several else None


@lru_cache(maxsize=1024)
def unpacked_terms(text: str) -> tuple[Terms, ...]:
    """Return the subscriptions of such a column."""
    return _TERMS.decode(text)


# The checksums of rows that are no items: of the columns that decide what a row means, and not of the counts that each batch changes.


def _columns(key: str, rest: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(key.split()), tuple(rest.split())


# fmt: off
COVERED: Final = {
    "node": _columns("name", "config creator created"),
    "affiliation": _columns("node_id jid", "affiliation"),
    "subscription": _columns("node_id jid", "subid state deliver expire remind temporary several lock_timeout qos"),
    "schedule": _columns("name", "definition source author fired_through due last error tries paused revision"),
    "registration": _columns("name", "account node queueing words disabled failures error position following runner until revision"),
    "txn_app": _columns("name", "owner version committed"),
    "txn": _columns("app_id version", "owner immediate began until committed on_taken dead_letter_node"),
}
# fmt: on
"""By table the columns of the key and the others, in the order of the statements."""


def covered_sum(table: str, columns: Sequence[object], *, damaged: bool = False) -> int:
    """Return the checksum of a row of the table. That of a row that is known to be damaged is one that does not match."""
    keys = len(COVERED[table][0])
    return sum_of_row(columns[:keys], columns[keys:]) ^ damaged


def is_whole(table: str, known: int | None, columns: Sequence[object]) -> bool:
    """Return whether the row is what was written, as far as that is known."""
    return known is None or known == covered_sum(table, columns)


def node_of(row: Sequence[Any]) -> Node:
    """Make a node from its columns; the first is its id."""
    _, name, config, *facts, known = row
    if is_whole("node", known, (name, config, *facts[:2])):
        return Node(name, unpacked_config(config), *facts)
    return replace(Node(name, _readable(config), *facts), damaged=True)


@lru_cache(maxsize=64)
def _readable(text: str) -> NodeConfig:
    """Return what can be read of damaged settings; who loads them closes the node (`engine/damage.py`)."""
    try:
        return unpacked_config(text)
    except msgspec.DecodeError:
        return NodeConfig(queueing='"queueing":false' not in text)


def affiliation_of(
    node: NodeName, number: int, jid: Jid, word: str, known: int | None
) -> AffiliationRow:
    """Make an affiliation with a node, which has this number, from its columns."""
    if is_whole("affiliation", known, (number, jid, word)):
        return AffiliationRow(node, jid, Affiliation(word))
    return AffiliationRow(node, jid, Affiliation.OUTCAST, damaged=True)


def subscription_of(names: Mapping[int, NodeName], row: Sequence[Any]) -> Subscription:
    """Make a subscription from its columns; the first is its position in the order of creation."""
    _, node, jid, subid, requests, in_flight, last_served, *now, known = row
    available, unanswered, quiet, *terms = now
    state, deliver, expire, remind, temporary, several, lock_timeout, qos = terms
    if not is_whole("subscription", known, (node, jid, subid, *terms)):
        counts = requests, in_flight, last_served, False, unanswered
        times = True, expire, remind
        one = Subscription(names[node], jid, subid, *counts, SubscriptionState.PENDING, *times)
        return replace(one, damaged=True)
    return Subscription(
        *(names[node], jid, subid, requests, in_flight, last_served, available != 0, unanswered),
        *(_STANDINGS[state], deliver != 0, expire, remind, temporary != 0),
        lock_timeout=lock_timeout,
        qos=None if qos is None else Level(qos),
        several=unpacked_terms(several) if several else (),
        quiet=quiet != 0,
    )


def item_of(names: Mapping[int, NodeName], row: Sequence[Any]) -> Item:
    """Make an item from its columns; further columns are ignored. It is written out, because it is hot."""
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
        row[30],
        None if row[32] is None else unpacked_wait(row[32]),
        0 if row[31] is None else member_of(row[31], row[1]),
    )


def items_of(session: SqlSession, rows: Sequence[Sequence[Any]]) -> list[Item]:
    """Make items from rows; leave out those of nodes that were purged or deleted since."""
    names = session.holding({row[0] for row in rows})
    return [item_of(names, row) for row in rows if row[0] in names]


def with_payloads(session: SqlSession, rows: Iterable[Sequence[Any]]) -> list[tuple[Item, bytes]]:
    """Make items from rows whose last column is the payload."""
    found = list(rows)
    return [(item, row[-1]) for item, row in zip(items_of(session, found), found, strict=True)]


def record_of(row: Sequence[Any]) -> Record:
    """Make a transaction's record from its columns; under a name that is damaged it is damaged, too."""
    *facts, on_taken, place, app_id, immediate, until, known, of_app = row
    row_id, app, owner, version, began, committed, items, size, *counts = facts
    columns = app_id, version, owner, immediate, began, until, committed, on_taken, place
    totals = Totals(*counts)
    if not (is_whole("txn", known, columns) and has_key(of_app, app)):
        one = Record(row_id, app, owner, version, began, committed, items, size, totals)
        return replace(one, damaged=True)
    choice = OnTaken(on_taken)
    return Record(row_id, app, owner, version, began, committed, items, size, totals, choice, place)


# How long a process counts as alive after its last sign of life, and which process may judge that.
#
# Only a process that was itself in touch with the store all the time may judge: while the store was unreachable, or the whole
# machine was suspended, no process could write. A judgement may still be wrong; then the batches of the judged process are
# fenced, and it enters again. So these times decide how soon unfinished work is taken over, and never what is kept.

LEASE: Final = 10.0
"""Seconds without a sign of life after which the number of a process may be taken: it hangs, or its machine is gone."""

GAP: Final = 3.0
"""Seconds between two of our own signs of life (one is written each second) after which we judge no process for a lease."""


def since_start() -> float:
    """Return the seconds since the machine was started, sleep included. Setting the clock does not change them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseWatch:
    """Whether this process has been in touch with the store long enough to judge that others have not."""

    def __init__(self, clock: Callable[[], float] = since_start) -> None:
        self._clock = clock
        self._since = -LEASE
        self._last: float | None = None

    def touched(self, *, anew: bool = False) -> None:
        """Note a write to the store; `anew` if the connection to it had been lost."""
        now = self._clock()
        if anew or (self._last is not None and now - self._last > GAP):
            self._since = now
        self._last = now

    @property
    def may_judge(self) -> bool:
        """Whether there was no gap for the length of a lease; at the start there was none."""
        now = self._clock()
        gone = self._last is not None and now - self._last > GAP
        return not gone and now - self._since >= LEASE
