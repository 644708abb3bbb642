"""The stream and the driver's check against a real server, without Spark."""

import logging

import pytest
from harness.servers.queue_script import error
from pyspark.sql.types import StringType

from pubqueue_spark import session
from pubqueue_spark.client.check import check
from pubqueue_spark.errors import OptionError, RowError, ServiceError
from pubqueue_spark.write.bundles import Bundles
from pubqueue_spark.write.forms import form
from pubqueue_spark.write.options import settings
from pubqueue_spark.write.payload import MAX_STANZA_BYTES
from pubqueue_spark.write.row_results import RowResults
from pubqueue_spark.write.rows import HEAD, Rows
from pubqueue_spark.write.schema import Columns
from pubqueue_spark.write.task import Destination, publish

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def own_pool():
    yield
    session.pool().close()


def write(connection, payloads, most=1, **options):
    chosen = settings(connection | {"node": "jobs", "retryBackoff": "0.01-0.1"} | options)
    rows = rows_of(chosen.node)
    bundles = Bundles(rows, most)
    results = RowResults(rows, bundles, chosen)
    destinations = [Destination(chosen.service, bundles, results)]
    (counts,) = publish(rows, destinations, ((payload,) for payload in payloads), chosen, "app-1")
    return counts


def rows_of(node):
    return Rows(Columns(0, StringType()), form(StringType(), "auto"), node, "run", 0)


def jobs(count):
    return [f"<job xmlns='urn:example:job' n='{n}'/>" for n in range(count)]


def test_every_row_arrives_exactly(connection, script):
    counts = write(connection, jobs(500))
    assert script.items == {"jobs": {f"run-0-{n}": payload_of(n) for n in range(500)}}
    assert (counts.done, counts.retries, counts.reconnects) == (500, 0, 0)
    assert script.publishes == 500


def payload_of(n):
    return f'<job xmlns="urn:example:job" n="{n}"></job>'


def test_an_element_without_namespace_arrives_without_one(connection, script):
    write(connection, ["<job><b/></job>", "<a:job xmlns:a='urn:x'><b/></a:job>"])
    assert list(script.items["jobs"].values()) == [
        "<job><b></b></job>",
        '<job xmlns="urn:x"><b xmlns=""></b></job>',  # the server writes prefixes its own way
    ]


def test_tasks_of_one_process_share_a_stream_with_its_name(connection, script):
    for _ in range(3):
        write(connection, jobs(2))
    (publisher,) = script.publishers
    assert publisher.startswith("etl@localhost/spark/app-1/")


def test_several_rows_travel_in_one_request(connection, script):
    counts = write(connection, jobs(500), most=100)
    assert script.items == {"jobs": {f"run-0-{n}": payload_of(n) for n in range(500)}}
    assert (counts.done, counts.rows, script.requests) == (5, 500, 5)


def test_of_several_rows_in_one_request_the_refused_one_alone_is_left_out(connection, script):
    bad = {"run-0-7", "run-0-142", "run-0-143", "run-0-499"}
    script.answer = lambda item: error("modify", "bad-request") if item in bad else None
    write(connection, jobs(500), most=100, onError="skip")
    assert set(script.items["jobs"]) == {f"run-0-{n}" for n in range(500)} - bad


def test_a_refused_row_is_named_among_several(connection, script):
    script.answer = lambda item: error("modify", "bad-request") if item == "run-0-42" else None
    with pytest.raises(RowError, match=r"refused row 42 of partition 0 \(item 'run-0-42'"):
        write(connection, jobs(500), most=100)


def the_session():
    (found,) = session.pool().sessions.values()
    return found


def test_several_rows_that_are_in_flight_when_the_stream_is_lost_come_again(connection, script):
    def cut_after_250(_item):
        if script.publishes == 250:
            loop = session.pool().loop
            loop.call_soon_threadsafe(the_session().drop)

    script.answer = cut_after_250
    counts = write(connection, jobs(1000), most=100)
    assert (len(script.items["jobs"]), counts.rows) == (1000, 1000)


def test_an_empty_partition_is_fine(connection, script):
    assert write(connection, []).done == 0


def test_a_stream_lost_in_mid_window_is_made_again_and_nothing_is_missing(connection, script):
    def cut_after_150(_item):
        if script.publishes == 150:
            loop = session.pool().loop
            loop.call_soon_threadsafe(the_session().drop)

    script.answer = cut_after_150
    counts = write(connection, jobs(500))
    assert len(script.items["jobs"]) == 500
    assert counts.done == 500
    assert counts.reconnects == 1
    assert len(script.publishers) == 1, "the same resource: the operator sees one publisher"


def test_a_refused_row_is_named(connection, script):
    script.answer = lambda item: error("modify", "bad-request") if item == "run-0-42" else None
    with pytest.raises(RowError, match=r"refused row 42 of partition 0 \(item 'run-0-42'"):
        write(connection, jobs(500))


def test_a_service_under_pressure_is_given_time(connection, script):
    seen = set()

    def wait_once(item):
        if item in seen:
            return None
        seen.add(item)
        return error("wait", "resource-constraint")

    script.answer = wait_once
    counts = write(connection, jobs(50), maxInFlight="16")
    assert (counts.done, counts.retries) == (50, 50)
    assert len(script.items["jobs"]) == 50


def test_a_service_that_went_away_fails_with_a_sentence(connection, prosody):
    with pytest.raises(
        ServiceError, match=r"after 2 retries: .*; check that the service is running"
    ):
        write(connection, jobs(3), retries="2")


def test_the_largest_row_arrives_and_a_larger_one_is_refused_here(connection, script):
    rows = rows_of("jobs")
    frame = len(rows.publish([rows.item(0, ("<a/>",))]).body)
    fits = MAX_STANZA_BYTES - HEAD - frame
    assert write(connection, [f"<a>{'x' * (fits - 3)}</a>"]).done == 1
    with pytest.raises(RowError, match="it makes a stanza of"):
        write(connection, [f"<a>{'x' * (fits - 2)}</a>"])


def test_a_wrong_password_in_a_task_is_a_sentence_without_it(connection):
    with pytest.raises(ServiceError, match=r"partition 0 found no way in: .* wrong name") as caught:
        write(connection, jobs(1), password="wr0ngwr0ng")
    assert "wr0ng" not in str(caught.value)


def test_neither_password_nor_payload_is_logged_even_at_debug(connection, script, caplog):
    with caplog.at_level(logging.DEBUG):
        check(settings(connection | {"node": "jobs"}))
        write(connection, ["<job>n0t-for-l0gs</job>"])
    assert "n0t-for-l0gs" not in caplog.text
    assert connection["password"] not in caplog.text
    assert "auth" not in caplog.text


def test_the_check_accepts_a_queue_and_reports_the_features_of_the_service(connection, script):
    assert "urn:xmpp:pubsub:queueing:0" in check(settings(connection | {"node": "jobs"}))
    check(settings(connection))


@pytest.mark.parametrize("standing", ["owner", "publisher", "publish-only"])
def test_the_check_lets_a_publisher_pass(connection, script, standing):
    script.standing = standing
    check(settings(connection | {"node": "jobs"}))


def test_the_check_accepts_any_account_at_an_open_node(connection, script):
    script.standing, script.publish_model = "none", "open"
    check(settings(connection | {"node": "jobs"}))


@pytest.mark.parametrize(("standing", "model"), [("none", "publishers"), ("outcast", "open")])
def test_the_check_refuses_an_account_without_the_right_to_publish(
    connection, script, standing, model
):
    script.standing, script.publish_model = standing, model
    assert refusal(OptionError, connection, node="jobs") == (
        f"option node: etl@localhost may not publish to 'jobs' (it is: {standing});"
        " let the node's owner make it a publisher."
    )


def test_the_check_looks_at_the_node_for_dead_letters_too(connection, script):
    bad = {"node": "jobs", "onError": "deadletter", "deadLetterNode": "bda"}
    assert refusal(OptionError, connection, **bad).startswith(
        "option deadLetterNode: queue.localhost answers for 'bda': item-not-found"
    )
    check(settings(connection | bad | {"deadLetterNode": "news"}))


def refusal(kind, connection, **options):
    with pytest.raises(kind) as caught:
        check(settings(connection | options))
    return str(caught.value)


def test_the_check_refuses_an_unknown_node(connection, script):
    assert refusal(OptionError, connection, node="jbos") == (
        "option node: queue.localhost answers for 'jbos': item-not-found, type cancel;"
        " create the node, or correct its name."
    )


def test_the_check_refuses_a_node_that_is_no_queue(connection, script):
    assert "'news' is not a work queue" in refusal(OptionError, connection, node="news")


def test_the_check_refuses_a_wrong_password_without_showing_it(connection, script):
    message = refusal(ServiceError, connection, password="wr0ngwr0ng")
    assert message.startswith("option jid=etl@localhost: localhost at 127.0.0.1:")
    assert "wrong name or password" in message
    assert "wr0ng" not in message


def test_the_check_refuses_a_service_that_is_not_there(connection, prosody):
    message = refusal(ServiceError, connection, node="jobs", retryBackoff="0.01-0.1")
    assert message.startswith("option service: queue.localhost does not answer as a service should")


def test_the_check_refuses_a_service_without_queues(connection, script):
    assert "localhost has no work queues" in refusal(OptionError, connection, service="localhost")


def test_tls_is_off_only_on_loopback(connection):
    message = refusal(OptionError, connection, host="xmpp.example.org")
    assert message.startswith("options jid=etl@localhost, host=xmpp.example.org, tls=off,")


def test_a_pool_that_was_closed_can_be_used_again(connection, script):
    write(connection, jobs(1))
    session.pool().close()
    assert write(connection, jobs(2)).done == 2


def test_a_forked_process_has_a_pool_of_its_own(monkeypatch):
    mine = session.pool()
    monkeypatch.setattr("os.getpid", lambda: -1)
    forked = session.pool()
    assert forked is not mine
    monkeypatch.undo()
    assert session.pool() not in (mine, forked)
