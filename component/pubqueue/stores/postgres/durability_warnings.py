"""Settings of a server that lose confirmed data when its power fails, or when a standby takes over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from psycopg import Connection

MEANING: Final = {
    "fsync": "a loss of power may destroy everything",
    "full_page_writes": "a loss of power may destroy pages, unless the file system prevents it",
    "synchronous_commit": "pubqueue turns it on for itself, others on this server may lose what they wrote",
}

DIFFERENT: Final = 1.0
"""Seconds by which clocks may differ without a warning."""

LOCAL: Final = """\
the server has synchronous standbys and synchronous_commit local: pubqueue waits for them all the same, \
others on this server may lose what they wrote when one takes over"""
NOBODY: Final = """\
the server has synchronous_standby_names and no standby is connected: nothing is confirmed until one is"""
LAGGING: Final = """\
the server has a standby and no synchronous_standby_names: \
what was confirmed last may be lost when it takes over"""


def doubts(connection: Connection) -> list[str]:
    """Return a sentence about each of these settings. Values that a session sets for itself do not count."""
    rows = connection.execute(
        "SELECT name FROM pg_settings WHERE name = ANY($1::text[]) AND reset_val = 'off' ORDER BY name",
        (list(MEANING),),
    )
    off = [f"the server has {name} off: {MEANING[name]}" for (name,) in rows]
    return off + _about_standbys(connection) + about_clocks(connection)


def about_clocks(connection: Connection) -> list[str]:
    """Return a sentence if the clocks differ: deadlines and logs are then on different times."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    ahead = round(time.time() - row[0], 1) if row is not None else 0.0
    if abs(ahead) < DIFFERENT:
        return []
    side = "ahead of" if ahead > 0 else "behind"
    return [
        f"the clock of this machine is {abs(ahead):g} s {side} the database's; deadlines go by that of the database"
    ]


def _about_standbys(connection: Connection) -> list[str]:
    """Return a sentence if a commit may be lost when a standby takes over. Every role can see whether there are standbys."""
    row = connection.execute(
        "SELECT current_setting('synchronous_standby_names') != '',"
        " (SELECT reset_val = 'local' FROM pg_settings WHERE name = 'synchronous_commit'),"
        " EXISTS (SELECT 1 FROM pg_stat_replication)"
    ).fetchone()
    named, local, connected = row or (False, False, False)
    if not named:
        return [LAGGING] if connected else []
    return [sentence for sentence, applies in ((LOCAL, local), (NOBODY, not connected)) if applies]
