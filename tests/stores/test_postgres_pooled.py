"""A pooler before PostgreSQL: one that keeps sessions will do, one that gives them away is refused in a sentence."""

import os

import pytest
from harness.databases.pgbouncer import pooled
from harness.starts import warm_start
from stores.steps import EMPTY, add, ids, make

from pubqueue.engine.ports import ForeignStoreError
from pubqueue.model import changes as c
from pubqueue.stores.postgres.store import PostgresStore


@pytest.mark.parametrize("robin", [False, True])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_one_that_keeps_no_sessions_is_refused(postgres, mode, robin):
    with pooled(postgres.address, mode, robin=robin) as address:
        store = PostgresStore(address)
        with pytest.raises(ForeignStoreError, match="a pooler is between, which keeps no sessions"):
            await store.open()
        await store.close()


async def test_one_that_keeps_sessions_will_do(postgres):
    with pooled(postgres.address, "session") as address:
        store = PostgresStore(address)
        await store.open()
        await store.instances.enter()
        await make(store, c.CreateNode(EMPTY), add("a"))
        await store.instances.renew()
        assert await ids(store) == ["a"]
        await store.close()


@pytest.mark.parametrize("command", ["serve", "check"])
def test_start_and_check_report_it_in_one_sentence(postgres, command):
    with pooled(postgres.address, "transaction") as address:
        words = (command, "--jid", "q.x", "--store", address)
        done = warm_start.run(*words, env=os.environ | {"PUBQUEUE_SECRET": "s"})
    assert done.returncode == 1
    assert "a pooler is between, which keeps no sessions" in done.stderr
    assert "Traceback" not in done.stderr
