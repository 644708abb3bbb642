"""The rows of an outbox, and the statements for them. Nothing here talks to a database.

A row is an item that waits to be published, in the order of `seq`. A relay claims rows for the time of a lease, publishes them, and
deletes what was confirmed. Whatever becomes of the relay, rows whose lease is over can be claimed by another, which publishes them
again under the same ids.

A group keeps its order although any number of relays run. Only the first row of a group can be claimed by itself, whatever its state;
the rows after it go to the relay that claims the first, in the same transaction. So a group is with one relay at a time, and one whose
first row was refused, or waits to be tried again, waits as a whole.

Leases are measured by the clock of the database, so that clocks of machines do not matter.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import msgspec

from pubqueue_xeps.client.publications import request
from pubqueue_xeps.wire.payloads.wrapper import Wrapped
from pubqueue_xeps.wire.publication import NewItem, new_id, wrapped, written
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.times import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue_xeps.wire.times import When

Dialect = Literal["sqlite", "postgresql"]

NAME: Final = re.compile(r"([A-Za-z_]\w{0,47}\.)?[A-Za-z_]\w{0,47}", re.ASCII)
"""A name of a table, perhaps with its schema: what needs no quotes, and leaves room for the names of indexes."""

FOR_EVER: Final = (1 << 63) - 1
"""The end of the lease of a refused row."""

WINDOW: Final = 1000
"""Rows that one look goes through: a long group that waits costs no more than this."""

MAX_RUN: Final = 20
"""Rows of one group that are claimed together."""


# An item, as a row has it.


class StoredItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is published, beside node, id and group: the payload in the form that is sent, times by the clock of the machine that added it."""

    xml: str
    headers: dict[str, str] | None = None
    priority: int | None = None
    due: int | None = None
    """When it may be delivered first, in milliseconds since 1970."""
    expires: int | None = None
    """The end of its time to live, in milliseconds since 1970."""


_STORED: Final = msgspec.json.Decoder(StoredItem)


class Row(NamedTuple):
    """A claimed row."""

    seq: int
    node: str
    id: str
    group: str | None
    item: str
    tries: int
    """How often it was claimed, this time included."""

    def new_item(self) -> NewItem:
        """Return the item to publish now; raise msgspec.MsgspecError if something else has changed the row."""
        stored = _STORED.decode(self.item)
        return NewItem(
            payload=Wrapped(stored.xml.encode(), ""),
            id=self.id,
            priority=stored.priority,
            delay=_left(stored.due) or None,
            ttl=_left(stored.expires),
            headers=stored.headers,
            group=self.group,
        )


def stored(node: str, new: NewItem, largest: int) -> tuple[str, str]:
    """Return the id of an item, and the item as a row has it.

    Raises TypeError or ValueError for an item that cannot be sent, as `Publisher.publish` does.
    """
    if not node:
        raise ValueError("node is empty; it takes the name of a node")
    if new.hold is not None or new.joins is not None or new.join:
        raise ValueError("an item of an outbox is not held, and is no member of a join")
    name, _ = request(
        node, replace(new, id=new_id() if new.id is None else new.id), largest, publishing.KNOWN
    )
    sent = wrapped(new)
    headers: dict[str, str | None] = dict(sent.headers or {})
    item = StoredItem(
        xml=written(sent.payload),
        headers={name: value for name, value in headers.items() if value is not None} or None,
        priority=sent.priority,
        due=_moment("delay", sent.delay),
        expires=_moment("ttl", sent.ttl),
    )
    assert publishing.identified(name) == name, "it was checked with the request"
    return name, msgspec.json.encode(item).decode()


def _moment(name: str, span: When | None) -> int | None:
    return None if span is None else round((time.time() + until(name, span)) * 1000)


def _left(moment: int | None) -> float | None:
    return None if moment is None else max(0.0, moment / 1000 - time.time())


# What has become of claimed rows.


class Release(NamedTuple):
    """A row that was not published, and can be claimed again."""

    row: Row
    claim: str
    pause: int
    """Milliseconds until it may be claimed again."""
    is_tried: bool
    """Whether it was sent; a row that was not tried does not count its claim."""


@dataclass(slots=True)
class Settled:
    """What has become of claimed rows, in one transaction."""

    published: list[int]
    refused: list[tuple[Row, str]]
    """Rows with the reason, which the service or the library has given."""
    released: list[Release]

    def __bool__(self) -> bool:
        return bool(self.published or self.refused or self.released)


# The statements.


class Statement(NamedTuple):
    """A statement with named parameters, `:name`, and their values."""

    sql: str
    values: dict[str, Any]


NOW: Final[dict[Dialect, str]] = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}
"""The time of the database, in milliseconds since 1970."""

NUMBER: Final[dict[Dialect, str]] = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
}
"""A number that rises and is never used again."""


CREATE: Final = """\
CREATE TABLE IF NOT EXISTS {table} (
    seq {number},
    node TEXT NOT NULL,
    id TEXT NOT NULL,
    grp TEXT,
    item TEXT NOT NULL,
    added BIGINT NOT NULL,
    holder TEXT,
    held_until BIGINT NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    refused TEXT
)"""


# ruff: noqa: S608 - the names of tables were checked, numbers are numbers, and values are parameters
class Statements:
    """The statements for one table in one dialect."""

    def __init__(self, table: str, dialect: str) -> None:
        if dialect not in get_args(Dialect):
            known = " and ".join(get_args(Dialect))
            raise ValueError(f"An outbox can be in a database of {known}, not of {dialect}.")
        self._table = table
        self._dialect: Dialect = dialect  # type: ignore[assignment]  # it is one
        self._now = NOW[self._dialect]

    def create(self) -> list[str]:
        """Create the table and its indexes, unless they exist."""
        name = self._table.rpartition(".")[2]
        table, index = self._table, f"CREATE INDEX IF NOT EXISTS {name}"
        return [
            CREATE.format(table=table, number=NUMBER[self._dialect]),
            f"{index}_groups ON {table} (node, grp, seq) WHERE grp IS NOT NULL",
            f"{index}_held ON {table} (holder) WHERE holder IS NOT NULL",
            f"{index}_refused ON {table} (seq) WHERE refused IS NOT NULL",
        ]

    def add(self, node: str, name: str, group: str | None, item: str) -> Statement:
        """Add a row."""
        return Statement(
            f"INSERT INTO {self._table} (node, id, grp, item, added)"
            f" VALUES (:node, :id, :grp, :item, {self._now})",
            {"node": node, "id": name, "grp": group, "item": item},
        )

    def end_of_window(self, after: int) -> Statement:
        """Read the number of the last row of the window behind a number; none if fewer rows are there."""
        return Statement(
            f"SELECT seq FROM {self._table} WHERE held_until <= {self._now} AND seq > :after"
            f" ORDER BY seq LIMIT 1 OFFSET {WINDOW - 1}",
            {"after": after},
        )

    def claim(
        self, claim: str, most: int, lease: int, *, after: int = 0, until: int = FOR_EVER
    ) -> Statement:
        """Claim rows without a group and first rows of groups, the oldest first, in a window; `lease` is in milliseconds."""
        # where readers lock nothing, SQLite has one writer at a time, and claims are one after the other
        picked = (
            f"SELECT o.seq FROM {self._table} o WHERE o.held_until <= {self._now}"
            " AND o.seq > :after AND o.seq <= :until"
            f" AND (o.grp IS NULL OR NOT EXISTS (SELECT 1 FROM {self._table} e"
            " WHERE e.node = o.node AND e.grp = o.grp AND e.seq < o.seq))"
            " ORDER BY o.seq LIMIT :most"
        )
        change = (
            f"UPDATE {self._table} SET holder = :claim, held_until = {self._now} + :lease,"
            " tries = tries + 1 WHERE seq IN"
        )
        values = {"claim": claim, "most": most, "lease": lease, "after": after, "until": until}
        if self._dialect == "sqlite":
            return Statement(f"{change} ({picked})", values)
        # evaluated once: a join could lock more rows than it returns
        once = f"WITH picked AS MATERIALIZED ({picked} FOR UPDATE SKIP LOCKED)"
        return Statement(f"{once} {change} (SELECT seq FROM picked)", values)

    def followers(self, claim: str) -> Statement:
        """Read the rows that come next in the groups of a claim: number, node, group, and whether each is free.

        None is skipped that is locked: it is waited for, or a later one would be taken before it.
        """
        lock = " FOR UPDATE OF f" if self._dialect == "postgresql" else ""
        return Statement(
            f"SELECT f.seq, f.node, f.grp, CASE WHEN f.held_until <= {self._now} THEN 1 ELSE 0 END"
            f" FROM {self._table} h JOIN {self._table} f"
            " ON f.node = h.node AND f.grp = h.grp AND f.seq > h.seq"
            " WHERE h.holder = :claim AND h.grp IS NOT NULL AND f.seq < COALESCE("
            f"(SELECT x.seq FROM {self._table} x WHERE x.node = h.node AND x.grp = h.grp"
            f" AND x.seq > h.seq ORDER BY x.seq LIMIT 1 OFFSET {MAX_RUN - 1}), {FOR_EVER})"
            f" ORDER BY f.seq{lock}",
            {"claim": claim},
        )

    def claim_too(self, claim: str, numbers: Sequence[int], lease: int) -> Statement:
        """Claim these rows as well."""
        return Statement(
            f"UPDATE {self._table} SET holder = :claim, held_until = {self._now} + :lease,"
            f" tries = tries + 1 WHERE seq IN ({_list(numbers)})",
            {"claim": claim, "lease": lease},
        )

    def claimed(self, claim: str) -> Statement:
        """Read the rows of a claim, in their order."""
        return Statement(
            f"SELECT seq, node, id, grp, item, tries FROM {self._table}"
            " WHERE holder = :claim ORDER BY seq",
            {"claim": claim},
        )

    def settle(self, settled: Settled) -> list[Statement]:
        """Delete what was published, mark what was refused, and release the others."""
        found: list[Statement] = []
        if settled.published:
            # whoever holds them by now: they are published
            deleted = f"DELETE FROM {self._table} WHERE seq IN ({_list(settled.published)})"
            found.append(Statement(deleted, {}))
        marked = (
            f"UPDATE {self._table} SET refused = :why, holder = NULL, held_until = {FOR_EVER}"
            " WHERE seq = :seq"
        )
        found += [Statement(marked, {"why": why, "seq": row.seq}) for row, why in settled.refused]
        alike: dict[tuple[str, int, bool], list[int]] = {}
        for row, claim, pause, is_tried in settled.released:
            alike.setdefault((claim, pause, is_tried), []).append(row.seq)
        for (claim, pause, is_tried), numbers in alike.items():
            released = (
                f"UPDATE {self._table} SET holder = NULL, held_until = {self._now} + :pause,"
                f" tries = tries - :untried WHERE holder = :claim AND seq IN ({_list(numbers)})"
            )
            values = {"pause": pause, "untried": int(not is_tried), "claim": claim}
            found.append(Statement(released, values))
        return found

    def release(self, claims: str) -> Statement:
        """Release at once all rows of the claims that match a pattern of LIKE."""
        return Statement(
            f"UPDATE {self._table} SET holder = NULL, held_until = 0, tries = tries - 1"
            " WHERE holder LIKE :claims",
            {"claims": claims},
        )

    def refused(self, most: int) -> Statement:
        """Read refused rows, the oldest first."""
        return Statement(
            f"SELECT node, id, grp, refused, tries FROM {self._table}"
            " WHERE refused IS NOT NULL ORDER BY seq LIMIT :most",
            {"most": most},
        )

    def retry(self, node: str | None, name: str | None) -> Statement:
        """Let refused rows be claimed again."""
        chosen, values = _chosen(node, name)
        freed = f"UPDATE {self._table} SET refused = NULL, held_until = 0, tries = 0"
        return Statement(f"{freed} WHERE {chosen}", values)

    def drop(self, node: str | None, name: str | None) -> Statement:
        """Delete refused rows."""
        chosen, values = _chosen(node, name)
        return Statement(f"DELETE FROM {self._table} WHERE {chosen}", values)

    def backlog(self) -> Statement:
        """Count the rows and the refused ones, and read the age of the oldest in milliseconds."""
        return Statement(
            f"SELECT COUNT(*), COUNT(refused), {self._now} - MIN(added) FROM {self._table}", {}
        )


def _chosen(node: str | None, name: str | None) -> tuple[str, dict[str, Any]]:
    given = {"node": node, "id": name}
    values = {column: value for column, value in given.items() if value is not None}
    return " AND ".join(["refused IS NOT NULL", *(f"{one} = :{one}" for one in values)]), values


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(str(int(number)) for number in numbers)


def free_followers(found: Iterable[Sequence[Any]], most: int) -> list[int]:
    """Return the numbers of up to `most` rows to claim of those that `followers` has read: in each group those before the first that is not free."""
    stopped: set[tuple[str, str]] = set()
    free: list[int] = []
    for seq, node, group, is_free in found:
        if not is_free or len(free) >= most:
            stopped.add((node, group))
        elif (node, group) not in stopped:
            free.append(seq)
    return free
