"""The format with two services: a batch is whole over both, whatever happens between their commits, and a read has both."""

import logging
import os
from collections import Counter
from types import SimpleNamespace

import pytest
from harness.patience import wait_until
from harness.processes.spark_accidents import first
from harness.servers.several import SERVICES, several
from harness.stores.queue_store import left, visible
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from pubqueue_demo.prosody import Prosody
from pubqueue_spark import session
from pubqueue_spark.errors import OptionError, RowError, ServiceError
from pubqueue_spark.read import open_read, tables
from pubqueue_spark.read.options import settings as read_settings
from pubqueue_spark.write import finish, open_write, task
from pubqueue_spark.write.options import settings as write_settings
from pubqueue_spark.write.placement import noted
from pubqueue_xeps.wire.requests.transactions import Mark
from pubqueue_xeps.wire.services import read_services

pytestmark = pytest.mark.e2e
A, B, C, _ = SERVICES
MARK = {"txnAppId": "nightly", "txnVersion": "7"}
ROWS = StructType().add("payload", StringType())
WITH_IDS = StructType().add("payload", StringType()).add("item_id", StringType())
NODES = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
[node.options]
"x-queueing#event_log" = true
"""


@pytest.fixture(scope="module")
def server(background):
    prosody = Prosody(component=A, more_components=SERVICES[1:])
    background.run(prosody.__aenter__())
    background.run(prosody.account("etl", "secret"))
    yield prosody
    background.run(prosody.__aexit__(None, None, None))


@pytest.fixture
def stores(background, server, tmp_path):
    """Serve all of them; return the store of each."""
    behind = several(server, tmp_path, NODES, (A, B, C))
    background.run(behind.__aenter__())
    yield {name: tmp_path / name / "pubqueue.db" for name in (A, B, C)}
    session.pool().close()
    background.run(behind.__aexit__(None, None, None))


@pytest.fixture
def options(server):
    return {
        "services": f"{A}, {B}",
        "node": "jobs",
        "jid": "etl@localhost",
        "password": "secret",
        "host": server.host,
        "port": str(server.c2s_port),
        "tls": "off",
        "retries": "30",
        "retryBackoff": "0.01-0.1",
    }


@pytest.fixture
def in_task(monkeypatch):
    """Write the rows of a partition in a task of Spark, as far as the sink sees one."""

    def in_task(part, writer, rows):
        local = {"spark.app.id": "app-1"}
        stub = SimpleNamespace(
            partitionId=lambda: part, taskAttemptId=lambda: part, getLocalProperty=local.get
        )
        monkeypatch.setattr(task.TaskContext, "get", lambda: stub)
        return writer.write(iter(rows))

    return in_task


def batch(options, schema=ROWS, **more):
    return open_write.batch(options | more, schema, overwrite=False)


def jobs(*numbers):
    return [(f"<job xmlns='urn:example:job' n='{n}'/>",) for n in numbers]


def placed(number, *services):
    """Return the service of a row without an id."""
    element = f"<job xmlns='urn:example:job' n='{number}'/>"
    return read_services(services).place(element)


def found(stores):
    """Return what is visible, at each service, when nothing is staged any more."""
    for store in stores.values():
        wait_until(lambda store=store: not left(store), within=60, why="staged items are left")
    return {name: visible(store) for name, store in stores.items()}


def shares(numbers, *services):
    wanted = {name: Counter() for name in (A, B, C)}
    for number in numbers:
        wanted[placed(number, *services)][number] += 1
    return wanted


def test_a_batch_is_once_at_the_services_of_its_rows(options, stores, in_task, caplog):
    writer = batch(options, **MARK)
    in_task(0, writer, jobs(0, 1, 77))  # an attempt that did not win
    done = [in_task(0, writer, jobs(*range(30))), in_task(1, writer, jobs(*range(30, 60)))]
    assert {it.service for it in done[0].written} == {A, B}
    assert found_now(stores) == Counter(), "nothing is visible before the commit"
    with caplog.at_level(logging.INFO, "pubqueue_spark"):
        writer.commit(done)
    assert found(stores) == shares(range(60), A, B)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(" items")[0] for line in lines] == [
        f"version 7 of 'nightly' to {name}: {shares(range(60), A, B)[name].total()}"
        for name in (A, B)
    ]


def found_now(stores):
    return sum((visible(store) for store in stores.values()), Counter())


def test_rows_with_ids_go_where_any_publisher_would_send_them(options, stores, in_task):
    writer = batch(options, WITH_IDS, **MARK)
    rows = [(*job, f"order-{n}") for n, job in enumerate(jobs(*range(40)))]
    writer.commit([in_task(0, writer, rows)])
    rule = read_services([A, B])
    at = {n: rule.place(f"order-{n}") for n in range(40)}
    assert found(stores)[A] == Counter(n for n, place in at.items() if place == A)


@pytest.fixture
def ends_between(monkeypatch):
    """Have the driver end when one service has committed, and the other is about to be asked."""

    def ends_between():
        real, asked = finish.ask_until_done, []

        def ask(settings, question, reported):
            asked.append(settings.service)
            if len(asked) > 1:
                raise KeyboardInterrupt
            return real(settings, question, reported)

        monkeypatch.setattr(finish, "ask_until_done", ask)
        return lambda: monkeypatch.setattr(finish, "ask_until_done", real)

    return ends_between


@pytest.fixture
def half(options, stores, in_task, ends_between):
    """Leave a batch committed at the first service and not at the second."""
    writer = batch(options, **MARK)
    done = [in_task(0, writer, jobs(*range(20))), in_task(1, writer, jobs(*range(20, 40)))]
    lives = ends_between()
    with pytest.raises(KeyboardInterrupt):
        writer.commit(done)
    lives()
    now = {name: visible(store) for name, store in stores.items()}
    wanted = shares(range(40), A, B)
    assert now == {A: wanted[A], B: Counter(), C: Counter()}


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("replay", ["skip", "fail"])
def test_a_batch_of_which_a_part_is_committed_is_completed_by_the_next_run(
    options, stores, in_task, caplog, replay
):
    writer = batch(options, **MARK, onReplay=replay)
    # another order, other partitions, other generated ids
    done = [in_task(2, writer, jobs(*range(39, -1, -1)))]
    writer.commit(done)
    assert found(stores) == shares(range(40), A, B)
    assert "is not written again" not in caplog.text
    if replay == "fail":
        with pytest.raises(OptionError, match="was committed to queue-a"):
            batch(options, **MARK, onReplay=replay)
        return
    again = batch(options, **MARK)
    again.commit([in_task(0, again, jobs(*range(40)))])
    assert found(stores) == shares(range(40), A, B)
    assert "is not written again" in caplog.text


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("other", [f"{A}, {B}, {C}", f"{A}, {C}"])
def test_another_list_of_services_does_not_complete_it(options, stores, in_task, other):
    before = found_now(stores)
    writer = batch(options, **MARK, services=other)
    done = in_task(0, writer, jobs(*range(40)))
    with pytest.raises(ServiceError, match="with another list of services, and may not be compl"):
        writer.commit([done])
    writer.abort([done])
    assert found_now(stores) == before
    # the order of the list does not matter
    writer = batch(options, **MARK, services=f"{B}, {A}")
    writer.commit([in_task(0, writer, jobs(*range(40)))])
    assert found(stores) == shares(range(40), A, B)
    # and the next batch may have it
    writer = batch(options, txnAppId="nightly", txnVersion="8", services=other)
    writer.commit([in_task(0, writer, jobs(*range(100, 120)))])
    assert found_now(stores) == Counter([*range(40), *range(100, 120)])


def test_an_abort_drops_what_is_staged_at_each(options, stores, in_task):
    writer = batch(options, **MARK)
    writer.abort([in_task(0, writer, jobs(*range(20)))])
    assert found(stores) == shares([], A, B)


def test_bad_rows_are_counted_over_all_services(options, stores, in_task):
    writer = batch(options, **MARK, onError="skip", maxErrors="2")
    done = in_task(0, writer, [*jobs(*range(10)), ("no xml",), ("<none",)])
    writer.commit([done])
    assert sum(it.left_out for it in done.written) == 2
    assert found(stores) == shares(range(10), A, B)
    with pytest.raises(RowError, match="more than maxErrors=2 bad rows"):
        in_task(0, writer, [*jobs(*range(10)), ("<a",), ("<b",), ("<c",)])


def test_a_draining_service_gets_no_rows_and_the_note_is_of_those_that_get_some(
    options, stores, in_task
):
    writer = batch(options, **MARK, services=f"{A},{B}=draining,{C}")
    done = in_task(0, writer, jobs(*range(30)))
    writer.commit([done])
    assert found(stores) == shares(range(30), A, C)
    assert noted(Mark("a", 1), (A, C)) == noted(Mark("a", 1), (C, A))
    assert noted(Mark("a", 1), (A, C)) != noted(Mark("a", 1), (A, B))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"services": f"{A},{A}"}, "option services: "),
        ({"services": A, "service": A}, "options service, services: give one of them"),
    ],
)
def test_a_list_that_cannot_be_used_is_one_sentence(options, given, says):
    for settings in (write_settings, lambda found: read_settings(found, stream=False)):
        with pytest.raises(OptionError, match=says):
            settings({"jid": "a@b", "password": "x"} | given)


# Reading.


def rows_of(reader, parts):
    return [row for part in parts for row in reader.read(part)]


def reading(options, table, **more):
    chosen = {name: value for name, value in options.items() if name != "node"}
    given = chosen | {"table": table} | more
    return given, tables.schema(table, service=True)


def published(options, in_task, *numbers, version="1"):
    writer = batch(options, txnAppId="of reads", txnVersion=version)
    writer.commit([in_task(0, writer, jobs(*numbers))])


def test_a_batch_read_has_the_rows_of_all_with_their_service(options, stores, in_task):
    published(options, in_task, *range(20))
    reader = open_read.batch(*reading(options, "items"))
    rows = rows_of(reader, reader.partitions())
    names = tables.schema("items", service=True).names
    found = {(row[names.index("service")], row[names.index("payload")]) for row in rows}
    assert len(rows) == 20
    assert Counter(service for service, _ in found) == {
        name: count.total() for name, count in shares(range(20), A, B).items() if count
    }
    later = reading(options, "items", startingOffsets=f'{{"{A}": 1000000, "{B}": 0}}')
    reader = open_read.batch(*later)
    assert {row[-1] for row in rows_of(reader, reader.partitions())} == {B}
    with pytest.raises(OptionError, match="it takes: the number of each service"):
        open_read.batch(*reading(options, "items", startingOffsets='{"seq": 3}'))


def test_a_stream_has_an_offset_for_each_and_reads_a_new_one_from_its_beginning(
    options, stores, in_task
):
    published(options, in_task, *range(20))
    stream = open_read.stream(*reading(options, "events", startingOffsets="earliest"))
    start = stream.initialOffset()
    assert set(start) == {A, B}
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    first_rows = rows_of(stream, stream.partitions(start, end))
    published(options | {"services": f"{A},{B},{C}"}, in_task, *range(100, 130), version="2")

    again = open_read.stream(*reading(options | {"services": f"{A},{B},{C}"}, "events"))
    newest = again.latestOffset(end, again.getDefaultReadLimit())
    assert set(newest) == {A, B, C}
    more = rows_of(again, again.partitions(end, newest))
    seen = [(row[-1], row[0]) for row in [*first_rows, *more]]
    assert len(seen) == len(set(seen)), "no event is read twice"
    published_events = [row for row in [*first_rows, *more] if row[2] == "published"]
    assert len(published_events) == 50
    assert {row[-1] for row in more} == {A, B, C}
    with pytest.raises(OptionError, match="the checkpoint is of a query with the option service"):
        again.latestOffset({"seq": 3}, again.getDefaultReadLimit())


def test_a_limit_is_divided_among_them(options, stores, in_task):
    published(options, in_task, *range(20))
    given = reading(options, "events", startingOffsets="earliest", maxEventsPerTrigger="4")
    stream = open_read.stream(*given)
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert {name: end[name] - start[name] for name in (A, B)} == {A: 2, B: 2}


# With Spark.


@pytest.mark.spark
def test_a_driver_that_is_killed_between_two_commits(spark, accident, options, stores, tmp_path):
    flag = tmp_path / "flag"

    def commit(go, messages):
        from pubqueue_spark.write import finish as module  # noqa: PLC0415  # in Spark's process

        real, asked = module.ask_until_done, []

        def ask(settings, question, reported):
            asked.append(settings.service)
            if len(asked) > 1 and first(flag):
                os._exit(1)
            return real(settings, question, reported)

        module.ask_until_done = ask
        go(messages)

    source = accident(commit=commit)
    words = f.format_string("<job xmlns='urn:example:job' n='%d'></job>", "id")

    def save(partitions):
        frame = spark.range(0, 60, 1, partitions).select(words.alias("payload"))
        frame.write.format(source).mode("append").options(**options | MARK).save()

    with pytest.raises(Py4JJavaError, match="exited unexpectedly"):
        save(2)
    now = {name: visible(store).total() for name, store in stores.items()}
    assert now[A] > 0
    assert now[B] == 0
    save(3)
    assert found_now(stores) == Counter(range(60))
