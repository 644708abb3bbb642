"""Ids that turn out to be taken when a batch is committed: what `onError` says becomes of them.

A worker has the item `order-3` in hand, and the batch has another payload for it. Each replay of the
batch meets it again, so that a query would die for as long as the work takes, or for good if it is dead.
"""

import re

import pytest
from pyspark.sql import functions as f

from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.xep_0254 import queueing

pytestmark = [pytest.mark.spark, pytest.mark.e2e]
READING = ("service", "jid", "password", "host", "port", "tls")


@pytest.fixture
def locked(sink, component, background, connection, stored):
    """Have `order-3` locked by an account that may publish and take."""

    async def lock():
        where = {"host": connection["host"], "port": int(connection["port"]), "tls": "off"}
        client = make_client("etl@localhost/worker", connection["password"], **where)
        await login(client)
        await queueing(client).subscribe_queue("queue.localhost", "jobs", 1)
        return client

    sink.save(orders(sink, 3, 4))
    client = background.run(lock())
    assert [(name, state) for name, (state, _) in stored().items()] == [("order-3", "locked")]
    yield
    background.run(logout(client))


@pytest.fixture
def stored(sink):
    """Return what is in the node: item id -> state and payload."""

    def stored(node="jobs"):
        options = {k: v for k, v in sink.options.items() if k in READING} | {"node": node}
        rows = sink.spark.read.format("pubqueue").options(**options).load().collect()
        return {row.item_id: (row.state, row.payload) for row in rows}

    return stored


def orders(sink, first, end, text=""):
    words = f.format_string(f"<job xmlns='urn:example:job' n='%d'>{text}</job>", "id")
    name = f.concat(f.lit("order-"), "id")
    return sink.spark.range(first, end).select(words.alias("payload"), name.alias("item_id"))


def test_the_refusal_names_them_and_what_helps(sink, locked, stored):
    message = sink.failure(orders(sink, 0, 9, "new"))
    assert "item order-3 is in flight (node jobs)" in message
    assert "With onError=skip such items are left out" in message
    assert set(stored()) == {"order-3"}


def test_they_are_left_out(sink, locked, stored):
    sink.save(orders(sink, 0, 9, "new"), onError="skip")
    found = stored()
    assert len(found) == 9
    assert [name for name, (_, payload) in found.items() if "new" not in payload] == ["order-3"]


def test_they_go_to_the_dead_letter_node(sink, locked, stored):
    sink.save(orders(sink, 0, 9, "new"), onError="deadletter", deadLetterNode="bad")
    assert len(stored()) == 9
    ((name, (state, payload)),) = stored("bad").items()
    assert re.fullmatch(r"jobs/order-3\.\d+", name)
    assert (state, "new" in payload) == ("queued", True)
