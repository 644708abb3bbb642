"""The contents of a store's file, counted by hand: for after the death of the store, or of the machine.

The file and its log are copied first, so that the store finds them as it left them.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ITEMS: Final = """SELECT node.name, item.id, state FROM item
    JOIN contents ON contents.id = item.node_id JOIN node ON node.id = contents.node_id"""
# Each finds rows that should not be: a sentence for each row.
# fmt: off
WRONG: Final = (
    "SELECT 'integrity: ' || integrity_check FROM pragma_integrity_check WHERE integrity_check != 'ok'",
    "SELECT 'a row of ' || \"table\" || ' belongs to nothing' FROM pragma_foreign_key_check",
    """SELECT 'item ' || id || ' lacks its payload' FROM (SELECT * FROM item WHERE headers IS NULL AND length(payload) = 0 AND size > 0) i
       WHERE size != coalesce((SELECT length(payload) FROM large_payload WHERE seq = i.seq), 0)""",
    """SELECT 'the payload of item ' || seq || ' is left over' FROM large_payload WHERE seq NOT IN (
       SELECT seq FROM item WHERE length(payload) = 0 UNION ALL SELECT seq FROM done_item WHERE length(payload) = 0
       UNION ALL SELECT seq FROM large_payload_gone)""",
    """SELECT name || ' counts ' || items || ' items' FROM node
       WHERE items != (SELECT count(*) FROM item WHERE node_id IN (SELECT id FROM contents WHERE node_id = node.id))""",
    """SELECT name || ' counts ' || bytes || ' bytes' FROM node WHERE bytes != (SELECT coalesce(sum(size), 0) FROM item
       WHERE node_id IN (SELECT id FROM contents WHERE node_id = node.id))""",
    """SELECT name || ' counts ' || done || ' done of ' || done_bytes || ' bytes' FROM node WHERE (done, done_bytes) !=
       (SELECT count(*), coalesce(sum(size), 0) FROM done_item WHERE node_id IN (SELECT id FROM contents WHERE node_id = node.id))""",
    """SELECT 'item ' || id || ' is in its queue and done' FROM item WHERE seq IN (SELECT seq FROM done_item)""",
    """SELECT 'item ' || id || ' counts for ' || size || ' bytes' FROM item WHERE headers IS NULL AND length(payload) NOT IN (0, size)""",
    """SELECT name || ' counts ' || subscriptions || ' subscriptions' FROM node
       WHERE subscriptions != (SELECT count(*) FROM subscription WHERE node_id = node.id)""",
    """SELECT jid || ' counts ' || in_flight || ' items' FROM subscription AS s WHERE in_flight !=
       (SELECT count(*) FROM item WHERE node_id IN (SELECT id FROM contents WHERE node_id = s.node_id) AND state = 'locked' AND holder = s.jid)""",
    """SELECT jid || ' holds more than its window' FROM subscription WHERE in_flight > queue_requests""",
    """SELECT 'item ' || id || ' is ' || state || ', and held by ' || coalesce(holder, 'nobody') FROM item
       WHERE (state = 'locked') != (holder IS NOT NULL) OR (state = 'locked') != (deadline IS NOT NULL)""",
    "SELECT 'the token of ' || id || ' is yet to be given' FROM item, sequence WHERE name = 'token' AND item.token >= next",
    """SELECT 'version ' || version || ' counts ' || items || ' staged items' FROM txn AS t WHERE committed IS NULL
       AND items != (SELECT count(*) FROM staged WHERE txn_id = t.id)""",
    """SELECT 'attempt ' || number || ' counts ' || items || ' items' FROM attempt AS a WHERE txn_id IS NOT NULL AND NOT committed
       AND (items, known) != (SELECT count(*), coalesce(sum(CAST(staged.known AS integer)), 0) FROM staged WHERE attempt_id = a.id)""",
    """SELECT 'items of ' || account || ' that wait are counted as ' || items FROM staged_usage WHERE items !=
       (SELECT coalesce(sum(t.items), 0) FROM txn t JOIN txn_app p ON p.id = t.app_id
        WHERE t.committed IS NULL AND account IN (p.owner, ''))""",
    "SELECT 'two locks have the token ' || token FROM item WHERE token > 0 GROUP BY token HAVING count(*) > 1",
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Count:
    """The result: the state of every item of the store by its node and id, and the faults."""

    items: dict[tuple[str, str], str]
    wrong: tuple[str, ...]

    def of(self, node: str) -> dict[str, str]:
        """Return the state of every item of a node by its id."""
        return {name: state for (place, name), state in self.items.items() if place == node}


@contextmanager
def copied(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a copy of a store to which no process writes at present."""
    with tempfile.TemporaryDirectory() as folder:
        for file in path.parent.glob(f"{path.name}*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, folder)
        with closing(sqlite3.connect(Path(folder) / path.name)) as copy:
            yield copy


def recount(path: Path) -> Count:
    """Count a store to which no process writes at present."""
    with copied(path) as copy:
        rows = copy.execute(ITEMS).fetchall()
        items = {(node, name): state for node, name, state in rows}
        wrong = [row[0] for query in WRONG for row in copy.execute(query)]
    return Count(items, (*wrong, *twice(rows)))


def twice(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return a sentence if there are items that exist twice."""
    more = len(rows) - len({(node, name) for node, name, _ in rows})
    return [f"{more} items are there twice"] if more else []
