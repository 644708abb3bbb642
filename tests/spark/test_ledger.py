"""What becomes of good and bad rows, by onError."""

import xml.etree.ElementTree as ET

import pytest
from pyspark.sql.types import StringType

from pubqueue_spark.bundles import Bundles
from pubqueue_spark.errors import RowError, ServiceError
from pubqueue_spark.forms import form
from pubqueue_spark.ledger import PartitionLedger
from pubqueue_spark.options import settings
from pubqueue_spark.rows import Rows
from pubqueue_spark.schema import Columns
from pubqueue_xeps.refusals import Refusal

CONFLICT = Refusal("cancel", "conflict")
DONE = ET.fromstring("<iq xmlns='jabber:client' type='result'/>")
SKIPPED = ET.fromstring(
    "<iq xmlns='jabber:client' type='result'><pubsub xmlns='http://jabber.org/protocol/pubsub'>"
    "<skipped xmlns='urn:x-pubqueue:0' version='41'/></pubsub></iq>"
)


def ledger(**options):
    chosen = settings({"service": "q", "jid": "a@b", "password": "x", "node": "jobs", **options})
    columns = Columns(0, StringType(), item_id=1)
    rows = Rows(columns, form(StringType(), "auto"), "jobs", "run", 2)
    return PartitionLedger(rows, Bundles(rows, 100), chosen)


def publish(books, payload="<a/>", item=None, number=5):
    return books._rows.publish([books._rows.item(number, (payload, item))])


def several(books, count):
    return books._rows.publish([books._rows.item(n, ("<a/>", None)) for n in range(count)])


def rows_of(publishes):
    return [[item.row for item in publish.items] for publish in publishes]


def test_every_item_counts_once():
    books = ledger()
    books.taken(publish(books), DONE)
    books.taken(publish(books, "<a><b/></a>", "x"), DONE)
    books.taken(publish(books, "<a/>", "x"), DONE)
    assert books.items == 2, "the second of an id replaces the first"
    assert books.bytes == 2 * len("<a xmlns=''/>")


def test_what_was_committed_before_is_counted_apart():
    books = ledger()
    books.taken(publish(books), SKIPPED)
    assert (books.items, books.replayed) == (0, 1)


def test_bad_rows_fail_the_task_by_default():
    books = ledger()
    with pytest.raises(RowError, match=r"^row 7 of partition 2 cannot become an item: it is\.$"):
        books.unfit(7, "<a", "it is")
    with pytest.raises(
        RowError, match=r"^q refused row 5 of partition 2 \(item 'x', node 'jobs'\)"
    ):
        books.refused(publish(books, item="x"), CONFLICT, 0)


def test_bad_rows_may_be_left_out_and_are_counted(caplog):
    books = ledger(onError="skip")
    assert books.unfit(7, "<hidden", "it is") is None
    assert books.refused(publish(books), CONFLICT, 0) == []
    assert books.left_out == 2
    assert len(caplog.records) == 1, "the first is told, a million are not"
    assert "row 7 of partition 2" in caplog.text
    assert "hidden" not in caplog.text


def test_bad_rows_may_go_to_a_node_of_their_own():
    books = ledger(onError="deadletter", deadLetterNode="bad")
    unfit = books.unfit(7, "<a", "it is")
    (refused,) = books.refused(publish(books, "<b/>", "x"), CONFLICT, 0)
    (letter,) = refused.items
    assert [it.node for it in (unfit, letter)] == ["bad", "bad"]
    assert [it.id for it in (unfit, letter)] == ["run-2-7", "run-2-5"]
    assert b'reason="it is"' in unfit.xml
    assert b"&lt;b/&gt;" in refused.body
    assert b"q: conflict, type cancel" in refused.body
    books.taken(books._rows.publish([unfit]), DONE)
    assert (books.items, books.dead_lettered, books.left_out) == (1, 1, 0)


def test_a_dead_letter_that_is_refused_fails_the_task():
    books = ledger(onError="deadletter", deadLetterNode="bad")
    letter = books.unfit(7, "<a", "it is")
    with pytest.raises(RowError, match=r"^q refused the dead letter of row 7"):
        books.refused(books._rows.publish([letter]), Refusal("modify", "not-acceptable"), 0)


def test_of_several_rows_each_counts():
    books = ledger()
    books.taken(several(books, 7), DONE)
    assert (books.items, books.bytes) == (7, 7 * len("<a xmlns=''/>"))
    books.taken(several(books, 7), SKIPPED)
    assert (books.items, books.replayed) == (7, 7)


def test_of_several_rows_the_bad_one_is_found_by_halves():
    books = ledger(onError="skip")
    asked, taken = [several(books, 10)], []
    while asked:
        publish = asked.pop(0)
        if any(item.row == 6 for item in publish.items):
            asked += books.refused(publish, CONFLICT, 0)
        else:
            taken.append(publish)
    assert books.left_out == 1
    assert sorted(n for rows in rows_of(taken) for n in rows) == [0, 1, 2, 3, 4, 5, 7, 8, 9]


def test_a_node_that_takes_fewer_at_once_gets_fewer():
    books = ledger()
    fewer = Refusal("cancel", "not-allowed", "max-items-exceeded")
    halves = books.refused(several(books, 10), fewer, 0)
    assert rows_of(halves) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    items = [books._rows.item(n, ("<a/>", None)) for n in range(12)]
    assert [len(it.items) for it in books._bundles.gather(items)] == [5, 5, 2]
    with pytest.raises(ServiceError, match=r"row 5 .* not-allowed \(max-items-exceeded\)"):
        books.refused(publish(books), fewer, 0)


def test_several_rows_are_named_by_the_first_and_the_last():
    books = ledger()
    with pytest.raises(ServiceError, match=r"refused rows 0 to 9 of partition 2 \(node 'jobs'\)"):
        books.refused(several(books, 10), Refusal("auth", "forbidden"), 0)


def test_a_refusal_that_is_not_the_row_s_fault_fails_the_task_whatever_is_chosen():
    books = ledger(onError="skip")
    with pytest.raises(ServiceError, match="forbidden"):
        books.refused(publish(books), Refusal("auth", "forbidden"), 0)


def test_too_many_bad_rows_fail_the_task():
    books = ledger(onError="skip", maxErrors="2")
    books.unfit(1, "", "a")
    books.unfit(2, "", "b")
    with pytest.raises(
        RowError,
        match=r"^partition 2 has more than maxErrors=2 bad rows; the last one: row 3 of .*: c\.$",
    ):
        books.unfit(3, "", "c")
