"""What publishers of transactions ask, each in one short call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.asks import publishes
from harness.facts import ETL, who

from pubqueue.core.commit import CommitVersion, Part
from pubqueue.core.transactions import UNTOLD, Mark, Told
from pubqueue.core.txn import AbortVersion, StagePublish

if TYPE_CHECKING:
    from harness.shell import Shell

APP = "nightly"


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
    told: Told = UNTOLD,
) -> CommitVersion:
    """Commit these attempts, each as (part, attempt, items)."""
    return CommitVersion(who(by), app, version, tuple(Part(*part) for part in parts), told)


def aborts(*, version: int = 1, by: str = ETL, app: str = APP, admin: bool = False) -> AbortVersion:
    return AbortVersion(who(by, admin=admin), app, version)


def left_over(shell: Shell) -> int:
    """Return how many rows of transactions are in the store beside apps and records of committed ones."""
    tables = ("attempt", "staged", "staged_usage", "txn WHERE committed IS NULL")
    return sum(shell.connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables)
