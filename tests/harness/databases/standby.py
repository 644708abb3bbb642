"""A standby of a throw-away PostgreSQL: it follows by streaming, and takes over on demand."""

from __future__ import annotations

from typing import Final

from harness.databases.postgres import Postgres, PostgresError
from harness.patience import TIMEOUT, wait_until

FOLLOWERS: Final = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
SYNCHRONOUS: Final = f"{FOLLOWERS} AND sync_state IN ('sync', 'quorum')"


class Standby(Postgres):
    """Made from a running primary; entered when it follows it."""

    def __init__(self, primary: Postgres, **settings: str) -> None:
        super().__init__(anew=True, **settings)
        self._primary = primary

    def promote(self) -> None:
        """Take over: return when it can be written to."""
        if self.ask("SELECT pg_promote(true, %s)", TIMEOUT) != [(True,)]:
            raise PostgresError("the standby did not take over")

    def follows(self) -> None:
        """Return when it follows the primary."""
        wait_until(lambda: self._primary.ask(FOLLOWERS) == [(1,)])

    def _lay(self) -> None:
        self._run(
            "pg_basebackup",
            f"--dbname=postgresql://postgres@{self.host}:{self._primary.port}",
            "--checkpoint=fast",
            "--write-recovery-conf",
            "--no-sync",
        )

    def _furnish(self) -> None:
        self.follows()


def wait_for_standbys(primary: Postgres, names: str = "*") -> None:
    """Let no commit of the primary be answered before a standby has it; return when that holds."""
    primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    primary.ask("SELECT pg_reload_conf()")
    wait_until(lambda: primary.ask(SYNCHRONOUS) == [(1,)])
