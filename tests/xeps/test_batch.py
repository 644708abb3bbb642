"""Batches of a plain slixmpp client, against the real component behind a real Prosody."""

import sqlite3
from contextlib import closing
from xml.etree.ElementTree import Element

import pytest
from harness.servers.live import component
from slixmpp.exceptions import IqError

from pubqueue_xeps.batch import Batch, Committed
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import NoSuchNode, Refused, ServiceUnavailable

pytestmark = pytest.mark.e2e
SERVICE = "queue.localhost"
NODES = """
[transactions]
items_per_account = 20
[[node]]
name = "jobs"
queueing = true
publishers = ["bot@localhost", "other@localhost"]
[[node]]
name = "shut"
queueing = true
publishers = ["bot@localhost"]
options = { "x-queueing#publish_paused" = true }
"""


@pytest.fixture
async def client(prosody, tmp_path):
    async with component(prosody, tmp_path, NODES):
        made = make_client(
            "bot@localhost/one", "secret", host=prosody.host, port=prosody.c2s_port, tls="off"
        )
        await login(made)
        yield made
        await logout(made)


@pytest.fixture
def there(tmp_path):
    """Return what is in the queue, by looking into its file."""

    def look():
        with closing(sqlite3.connect(tmp_path / "pubqueue.db")) as file:
            found = file.execute("SELECT id, payload, priority FROM item ORDER BY seq")
            return [(name, payload.decode(), priority) for name, payload, priority in found]

    return look


def job(text):
    made = Element("{urn:example:job}job")
    made.text = text
    return made


def names(rows):
    return [row[0] for row in rows]


async def test_what_is_published_in_a_batch_appears_when_it_ends(client, there):
    async with Batch(client, SERVICE, app="a", version=1) as batch:
        assert await batch.publish("jobs", job("one"), id="i1", priority=4) == "i1"
        assert await batch.publish("jobs", job("two")) == "a-1-0"
        assert there() == []
    assert (batch.committed, batch.skipped) == (Committed(2, 0, already=False), False)
    found = there()
    assert [(row[0], row[2]) for row in found] == [("i1", 4), ("a-1-0", 0)]
    assert "one" in found[0][1]


async def test_a_batch_that_is_run_again_publishes_nothing(client, there):
    for _ in range(2):
        async with Batch(client, SERVICE, app="a", version=1) as batch:
            await batch.publish("jobs", job("one"), id="i1")
    assert (batch.committed, batch.skipped) == (Committed(1, 0, already=True), True)
    assert names(there()) == ["i1"]


async def test_what_a_run_that_died_has_left_is_dropped_by_the_next(client, there):
    dead = Batch(client, SERVICE, app="a", version=1)
    await dead.publish("jobs", job("old"), id="old")
    async with Batch(client, SERVICE, app="a", version=1) as batch:
        await batch.publish("jobs", job("new"), id="new")
    assert names(there()) == ["new"]


async def test_an_exception_drops_what_is_staged(client, there):
    async def fail(batch):
        async with batch:
            await batch.publish("jobs", job("one"))
            raise RuntimeError("no more")

    batch = Batch(client, SERVICE, app="a", version=1)
    with pytest.raises(RuntimeError, match="no more"):
        await fail(batch)
    assert (there(), batch.committed) == ([], None)
    async with Batch(client, SERVICE, app="a", version=1) as batch:
        await batch.publish("jobs", job("two"), id="i2")
    assert names(there()) == ["i2"]


async def test_the_same_id_again_takes_the_place_of_the_first(client, there):
    async with Batch(client, SERVICE, app="a", version=1) as batch:
        await batch.publish("jobs", job("one"), id="i1")
        await batch.publish("jobs", job("two"), id="i1")
    assert batch.committed == Committed(1, 0, already=False)
    assert "two" in there()[0][1]


async def test_an_empty_batch_is_committed_as_well(client):
    async with Batch(client, SERVICE, app="a", version=1) as batch:
        pass
    assert batch.committed == Committed(0, 0, already=False)


async def test_refusals_are_one_sentence(client):
    batch = Batch(client, SERVICE, app="a", version=1)
    with pytest.raises(NoSuchNode, match="has no such node") as raised:
        await batch.publish("none", job("x"), id="i1")
    error = raised.value
    assert (error.condition, error.node, error.id) == ("item-not-found", "none", "i1")
    with pytest.raises(ServiceUnavailable, match="publishing to this node is paused"):
        await batch.publish("shut", job("x"))
    with pytest.raises(ValueError, match="which XML cannot carry"):
        await batch.publish("jobs", job("\x00"))
    for n in range(20):
        await Batch(client, SERVICE, app="a", version=2).publish("jobs", job("x"), id=f"i{n}")
    with pytest.raises(ServiceUnavailable, match="wait for a commit"):
        await batch.publish("jobs", job("x"))
    assert await batch.commit() == Committed(0, 0, already=False)
    assert await Batch(client, SERVICE, app="a", version=0).commit() == Committed(
        0, 0, already=True
    )


async def test_what_is_not_as_it_was_staged_is_not_committed(client, there):
    batch = Batch(client, SERVICE, app="a", version=1)
    await batch.publish("jobs", job("x"))
    await batch.abort()
    with pytest.raises(Refused, match=r"is named with 1 items of attempt \d+, and 0 are staged"):
        await batch.commit()
    assert there() == []


async def test_an_abort_drops_nothing_that_another_run_has_staged(client, there):
    lost = Batch(client, SERVICE, app="a", version=1)
    batch = Batch(client, SERVICE, app="a", version=1)
    for each in (lost, batch):
        await each.publish("jobs", job("x"))
    await lost.abort()
    assert await batch.commit() == Committed(1, 0, already=False)


async def test_a_service_that_knows_no_transactions_would_publish_at_once(prosody, service):
    made = make_client(
        "bot@localhost/one", "secret", host=prosody.host, port=prosody.c2s_port, tls="off"
    )
    await login(made)
    with pytest.raises(Refused, match=r"^queue\.localhost does not know transactions\.$"):
        async with Batch(made, SERVICE, app="a", version=1):
            pytest.fail("never begun")
    await logout(made)


async def test_a_damaged_mark_is_an_error_until_an_administrator_says_what_comes_next(
    prosody, tmp_path, there
):
    def damage(app):
        with closing(sqlite3.connect(tmp_path / "pubqueue.db")) as file, file:
            found = file.execute("UPDATE txn_app SET version = 1 WHERE name LIKE ?", (f"%{app}",))
            assert found.rowcount == 1

    async def asked(who, element):
        made = make_client(who, "secret", host=prosody.host, port=prosody.c2s_port, tls="off")
        await login(made)
        iq = made.make_iq_set(sub=element, ito=SERVICE)
        try:
            return await iq.send(timeout=20)
        finally:
            await logout(made)

    async def publishes(version, app="a"):
        async with Batch(mine, SERVICE, app=app, version=version) as batch:
            await batch.publish("jobs", job("one"), id=f"{app}{version}")
        return batch

    await prosody.account("other", "secret")
    admins = 'admins = ["other@localhost"]\n'
    async with component(prosody, tmp_path, admins + NODES) as program:
        mine = make_client(
            "bot@localhost/one", "secret", host=prosody.host, port=prosody.c2s_port, tls="off"
        )
        await login(mine)
        for version in (1, 2):
            await publishes(version)
        damage("a")
        for version in (1, 2, 3):
            with pytest.raises(Refused, match="mark of the app's last commit is damaged") as no:
                await publishes(version)
            assert no.value.condition == "internal-server-error"
        await publishes(1, app="b")
        assert names(there()) == ["a1", "a2", "b1"]
        assert "event=row.damaged" in program.log
        assert program.log.count("row.damaged") == 1
        abort = Element("{urn:x-pubqueue:0}abort", app="a", version="3", account="bot@localhost")
        with pytest.raises(IqError) as forbidden:
            await asked("bot@localhost/two", abort)
        assert forbidden.value.condition == "internal-server-error"
        assert (await asked("other@localhost/x", abort))["type"] == "result"
        assert (await publishes(2)).skipped
        assert (await publishes(3)).committed == Committed(1, 0, already=False)
        assert names(there()) == ["a1", "a2", "b1", "a3"]
        await logout(mine)
