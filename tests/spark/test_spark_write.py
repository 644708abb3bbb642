"""The whole way: a DataFrame, real tasks, a real server, a scripted queue."""

import asyncio
import re
from pathlib import Path

import pytest
from harness.servers.queue_script import error
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from pubqueue_xeps.client.xmpp_client import login, logout, make_client

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

# The scripted queue keeps no transactions.
AT_ONCE = {"visibility": "immediate"}


def frame(spark, rows, partitions=2):
    return spark.range(0, rows, 1, partitions).select(
        f.format_string("<job xmlns='urn:example:job' n='%d'/>", "id").alias("payload"),
        f.format_string("order-%d", "id").alias("item_id"),
    )


def save(data, connection, **options):
    data.write.format("pubqueue").mode("append").options(
        **connection | AT_ONCE | {"node": "jobs", "retryBackoff": "0.01-0.1"} | options
    ).save()


def failure(data, connection, **options):
    with pytest.raises(PySparkException) as caught:
        save(data, connection, **options)
    assert connection["password"] not in str(caught.value)
    return str(caught.value)


def payload_of(n):
    return f'<job xmlns="urn:example:job" n="{n}"></job>'


def test_every_row_arrives_exactly_under_the_ids_of_the_column(spark, connection, script):
    save(frame(spark, 500), connection)
    assert script.items == {"jobs": {f"order-{n}": payload_of(n) for n in range(500)}}
    assert script.publishes == 500


def test_rows_without_id_get_one_and_later_jobs_reuse_the_streams(spark, connection, script):
    data = frame(spark, 20).drop("item_id")
    for _ in range(3):
        save(data, connection)
    assert len(script.items["jobs"]) == 60
    assert len(script.publishers) <= 2, "one stream for each worker process"
    assert all(
        re.fullmatch(r"etl@localhost/spark/local-\d+/[\w.-]+/\d+-[0-9a-f]{6}", who)
        for who in script.publishers
    )


def test_each_row_has_its_node_priority_delay_and_ttl(spark, connection, script):
    rows = [("<a/>", "1", "other", 7, 1.5, None), ("<b/>", "2", None, None, None, 60.0)]
    columns = "payload string, item_id string, node string, priority int, delay double, ttl double"
    save(spark.createDataFrame(rows, columns), connection)
    assert script.items == {"other": {"1": "<a></a>"}, "jobs": {"2": "<b></b>"}}
    assert script.meta == {"1": {"priority": "7", "delay": "1.5"}, "2": {"ttl": "60"}}


def test_a_task_that_fails_after_20_rows_and_is_tried_again_makes_no_second_item(
    spark, connection, script, tmp_path
):
    flag = tmp_path / "failed-once"

    def fail_once(rows):
        for number, row in enumerate(rows):
            if number == 20 and not flag.exists():
                flag.touch()
                raise RuntimeError("out of luck")
            yield row

    data = frame(spark, 50, partitions=1).drop("item_id")
    failing = spark.createDataFrame(data.rdd.mapPartitions(fail_once), data.schema)
    save(failing, connection)
    assert flag.exists()
    assert sorted(script.items["jobs"].values()) == sorted(payload_of(n) for n in range(50))


def test_a_task_that_fails_while_its_rows_are_in_flight_leaves_nothing_behind(
    spark, connection, script
):
    refused = []

    def refuse_once(item):
        if item == "order-30" and not refused:
            refused.append(item)
            return error("modify", "bad-request")
        return None

    script.answer = refuse_once
    save(frame(spark, 100, partitions=1), connection)
    assert len(script.items["jobs"]) == 100
    assert script.publishes > 100, "the second attempt began anew"


def test_a_stream_lost_in_mid_job_loses_nothing(spark, connection, script, prosody, background):
    async def kick():
        """Log in with the very resource of the publisher: the server disconnects the older one."""
        client = make_client(
            next(iter(script.publishers)),
            connection["password"],
            host=prosody.host,
            port=prosody.c2s_port,
            tls="off",
        )
        await login(client)
        await logout(client)

    def kick_at_150(item):
        """From then on answer nothing, so that the job cannot end, until something comes again."""
        if script.publishes == 150:
            kicks.append(asyncio.create_task(kick()))
        repeated.update({item} & seen)
        seen.add(item)
        return "" if kicks and not repeated else None

    kicks, seen, repeated = [], set(), set()
    script.answer = kick_at_150
    save(frame(spark, 1000, partitions=1), connection)
    assert len(script.items["jobs"]) == 1000
    background.run(asyncio.wait_for(kicks[0], None))
    assert script.publishes > 1000, "what was in flight was sent again"


def test_without_transactions_the_default_is_refused(spark, connection, script):
    message = failure(frame(spark, 1), connection, visibility="commit")
    assert (
        "option visibility: queue.localhost keeps no transactions (feature urn:x-pubqu" in message
    )
    message = failure(frame(spark, 1), connection, txnAppId="a", txnVersion="1")
    assert "option txnAppId: queue.localhost keeps no transactions" in message


def test_a_refused_row_fails_the_job_with_row_and_reason(spark, connection, script):
    script.answer = lambda item: error("cancel", "conflict") if item == "order-5" else None
    assert (
        "queue.localhost refused row 5 of partition 0 (item 'order-5', node 'jobs'): conflict,"
    ) in failure(frame(spark, 10, 1), connection)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nodde": "x"}, "option 'nodde' is unknown; did you mean 'node'?"),
        ({"port": "70000"}, "option port: '70000' cannot be used; it takes: whole number from 1"),
    ],
)
def test_what_is_wrong_for_the_whole_job_fails_once_on_the_driver(
    spark, connection, script, options, sentence
):
    assert sentence in failure(frame(spark, 4), connection, **options)
    assert script.publishes == 0


def test_overwrite_is_refused_and_the_queue_is_left_alone(spark, connection, script):
    with pytest.raises(PySparkException, match="use mode\\('append'\\)"):
        frame(spark, 1).write.format("pubqueue").mode("overwrite").options(
            **connection | AT_ONCE
        ).save()


def test_the_password_is_in_no_plan_and_in_nothing_that_the_history_shows(
    spark, connection, script, capfd
):
    save(frame(spark, 1), connection)
    runs = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = "".join(
        runs.apply(n).physicalPlanDescription() + runs.apply(n).details()
        for n in range(runs.size())
    )
    logs = Path(spark.conf.get("spark.eventLog.dir")).rglob("events_*")
    history = "".join(log.read_text() for log in logs)
    out, err = capfd.readouterr()
    for shown in (plans, history):
        assert "pubqueue" in shown
    for shown in (plans, history, out, err):
        assert connection["password"] not in shown


def test_many_small_tasks_share_the_streams(spark, connection, script):
    save(frame(spark, 64, partitions=12), connection)
    assert len(script.items["jobs"]) == 64
    assert len(script.publishers) <= 2
