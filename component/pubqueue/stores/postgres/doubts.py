"""Settings of a server that lose what is confirmed when its power fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from psycopg import Connection

MEANING: Final = {
    "fsync": "a loss of power may destroy everything",
    "full_page_writes": "a loss of power may destroy pages, unless the file system prevents it",
    "synchronous_commit": "pubqueue turns it on for itself, others on this server may lose what they wrote",
}


def doubts(connection: Connection) -> list[str]:
    """Return a sentence about each of these settings that the server has off; what a session sets for itself does not count."""
    rows = connection.execute(
        "SELECT name FROM pg_settings WHERE name = ANY($1::text[]) AND reset_val = 'off' ORDER BY name",
        (list(MEANING),),
    )
    return [f"the server has {name} off: {MEANING[name]}" for (name,) in rows]
