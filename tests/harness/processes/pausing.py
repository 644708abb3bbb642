"""A process of its own that waits for a line in the middle of a batch: so a test can hang it there.

Started with the address of a PostgreSQL store and the moment, "batch" or "commit". It reports when it waits, and for that
batch and another one whether they were confirmed.
"""

import asyncio
import sys
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[2]))

from stores.steps import add, do

from pubqueue.engine.ports import StoreError
from pubqueue.stores.postgres.store import PostgresStore

EXECUTE = psycopg.Connection.execute


def wait() -> None:
    print("waiting", flush=True)
    sys.stdin.readline()


def job(tx, name: str, moment: str = "") -> None:
    do(tx, add(name))
    if moment == "batch":
        wait()


def wait_at_commit(connection, query, *values, **how):
    """Wait where the commit would be sent, the first time."""
    if query == "COMMIT":
        psycopg.Connection.execute = EXECUTE
        wait()
    return EXECUTE(connection, query, *values, **how)


async def main(address: str, moment: str) -> None:
    store = PostgresStore(address)
    await store.open()
    if moment == "commit":
        psycopg.Connection.execute = wait_at_commit
    for name in ("hung", "after"):
        try:
            await store.batch(lambda tx, name=name: job(tx, name, moment if name == "hung" else ""))
        except StoreError:
            print("refused", flush=True)
        else:
            print("confirmed", flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
