"""Requests of publishers with transactions, each in one short call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.batches.facts import ETL, JOBS, who
from harness.batches.queue_requests import publishes

from pubqueue.engine.facts import transactions
from pubqueue.model.decision import Done, Published, Refused
from pubqueue.model.entities import ItemId, NodeName, seconds
from pubqueue.model.transactions import NO_TOTALS, Committed, Mark, Totals
from pubqueue.rules.commit import CommitVersion, Part
from pubqueue.rules.expire import Expire
from pubqueue.rules.staging import AbortVersion, StagePublish

if TYPE_CHECKING:
    from harness.batches.shell import Shell

APP = "nightly"
MORE, NEWS = NodeName("more"), NodeName("news")
HOUR = seconds(3600)


def stages(
    *names: str,
    version: int = 1,
    part: int = 0,
    attempt: int = 0,
    immediate: bool = False,
    app: str = APP,
    **facts: Any,
) -> StagePublish:
    """Publish items of these names in a transaction; `facts` as for any publish."""
    mark = Mark(app, version, part, attempt, immediate=immediate)
    return StagePublish(publishes(*names, **facts), mark)


def commits(
    *parts: tuple[int, int, int],
    version: int = 1,
    by: str = ETL,
    app: str = APP,
    totals: Totals = NO_TOTALS,
    **taken: Any,
) -> CommitVersion:
    """Commit these attempts, each as (part, attempt, items)."""
    named = tuple(Part(*part) for part in parts)
    return CommitVersion(who(by), app, version, named, totals, **taken)


def aborts(
    *attempts: tuple[int, int],
    version: int = 1,
    by: str = ETL,
    app: str = APP,
    admin: bool = False,
) -> AbortVersion:
    """Abort these attempts, each as (part, attempt), or the version."""
    return AbortVersion(who(by, admin=admin), app, version, attempts or None)


def left_over(shell: Shell) -> int:
    """Return how many rows of transactions are in the store, apart from apps and records of committed ones."""
    tables = ("attempt", "staged", "staged_usage", "txn WHERE committed IS NULL")
    return sum(shell.connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables)


def ids(shell, node=JOBS):
    """Return the items of a node, in their order, with their payloads."""
    found = shell.look(lambda tx: [(i.id, p) for i, p in tx.contents(node)])
    return [(name, payload.decode().strip("</>")) for name, payload in found]


def names(shell, node=JOBS):
    return [name for name, _ in ids(shell, node)]


def refusal(reply):
    assert isinstance(reply, Refused), reply
    return reply.refusal


def staged(*given, node=JOBS):
    return Published(node, tuple(map(ItemId, given)))


def committed(published, known=0, *, version=1, already=False):
    return Committed(version, published, known, already)


def in_slices(monkeypatch, size=1):
    """Let commits be too large for one batch, and go in slices of this many winners."""
    monkeypatch.setattr(transactions, "MAX_WINNERS", 0)
    monkeypatch.setattr(transactions, "SLICE", size)


def sweep(shell):
    """Let the reaper do its pending work."""
    while (moment := shell.look(lambda tx: tx.next_due())) is not None and moment <= shell.now:
        assert shell.do(Expire()) == Done()
