"""The whole way to the component itself: what its store holds after a job, and after accidents."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from pubqueue_spark.payload import DEEPEST

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def frame(spark, rows, partitions=2):
    return spark.range(0, rows, 1, partitions).select(
        f.format_string("<job xmlns='urn:example:job' n='%d'/>", "id").alias("payload"),
        f.format_string("order-%d", "id").alias("item_id"),
    )


def save(data, connection, **options):
    data.write.format("pubqueue").mode("append").options(
        **connection
        | {"node": "jobs", "visibility": "immediate", "retries": "30", "retryBackoff": "0.1-0.5"}
        | options
    ).save()


def stored(component, column):
    """Return item id -> column, of all items in the store."""
    with closing(sqlite3.connect(f"file:{component.store}?mode=ro", uri=True)) as store:
        return dict(store.execute(f"SELECT id, {column} FROM item"))


def numbers(component):
    """Return item id -> the number in its payload."""
    return {
        item: int(payload.decode().split("n=")[1].strip("'\"/>").split("'")[0].split('"')[0])
        for item, payload in stored(component, "payload").items()
    }


def in_the_middle(background, component, accident, *, after):
    """Begin the accident when the store holds so many items; returns what to wait for."""

    async def watch():
        # another process's store has no event to wait for
        while len(stored(component, "state")) < after:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await accident()

    return asyncio.run_coroutine_threadsafe(watch(), background.loop)


def test_500_rows_arrive_exactly(spark, connection, component):
    save(frame(spark, 500), connection)
    assert numbers(component) == {f"order-{n}": n for n in range(500)}
    assert set(stored(component, "publisher").values()) == {"etl@localhost"}


def test_a_second_run_with_the_same_ids_adds_nothing(spark, connection, component):
    save(frame(spark, 50), connection)
    before = stored(component, "seq")
    save(frame(spark, 50), connection)
    assert stored(component, "seq") == before


def test_priority_delay_and_ttl_reach_the_item(spark, connection, component):
    rows = [("<a/>", "1", 7, 3600.0, None), ("<a/>", "2", None, None, 60.0)]
    columns = "payload string, item_id string, priority int, delay double, ttl double"
    save(spark.createDataFrame(rows, columns), connection)
    assert stored(component, "state") == {"1": "delayed", "2": "queued"}
    assert stored(component, "priority") == {"1": 7, "2": 0}
    assert stored(component, "expires - published") == {"1": None, "2": 60_000}


def test_a_namespace_and_its_absence_survive(spark, connection, component):
    save(
        spark.createDataFrame(
            [("<a><b xmlns='urn:x'/></a>", "1")], "payload string, item_id string"
        ),
        connection,
    )
    assert stored(component, "payload") == {"1": b"<a xmlns=''><b xmlns='urn:x'/></a>"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"node": "jbos"}, "option node: queue.localhost answers for 'jbos': item-not-found"),
        ({"node": "private"}, "forbidden, type auth"),
        ({"node": "small", "retries": "2"}, "after 2 retries: conflict (node-full), type cancel"),
        ({"password": "wr0ngwr0ng"}, "refused etl@localhost: wrong name or password"),
    ],
)
def test_a_refusal_of_the_service_is_a_sentence(spark, connection, component, options, sentence):
    with pytest.raises(PySparkException) as caught:
        save(frame(spark, 20, 1), connection, **options)
    assert sentence in str(caught.value)


def test_the_deepest_payload_that_is_let_out_is_let_in(spark, connection, component):
    deep = "<a>" * DEEPEST + "</a>" * DEEPEST
    save(spark.createDataFrame([(deep, "1")], "payload string, item_id string"), connection)
    assert set(stored(component, "state")) == {"1"}


def test_a_server_that_restarts_in_mid_job_costs_nothing(
    spark, connection, component, background, prosody
):
    accident = in_the_middle(background, component, prosody.restart, after=300)
    save(frame(spark, 4000), connection)
    accident.result(timeout=30)
    assert numbers(component) == {f"order-{n}": n for n in range(4000)}


def test_a_component_killed_in_mid_job_costs_nothing(spark, connection, component, background):
    async def kill_and_start():
        await component.kill()
        await component.start()

    accident = in_the_middle(background, component, kill_and_start, after=300)
    # what it had received and not answered is never answered: the stream counts as mute
    save(frame(spark, 4000), connection, progressTimeout="2")
    accident.result(timeout=30)
    assert numbers(component) == {f"order-{n}": n for n in range(4000)}
