"""What SQLite itself says, within the transaction of a store."""

from harness.batches.inside import session_in


async def ask(store, statement, *values):
    """Run a statement of the test's own on the store's connection."""
    return await store.batch(
        lambda tx: session_in(tx).connection.execute(statement, values).fetchall()
    )
