"""What becomes of good and bad rows, by onError."""

import xml.etree.ElementTree as ET

import pytest
from pyspark.sql.types import StringType

from pubqueue_spark.errors import RowError, ServiceError
from pubqueue_spark.forms import form
from pubqueue_spark.ledger import PartitionLedger
from pubqueue_spark.options import settings
from pubqueue_spark.refusals import Refusal
from pubqueue_spark.rows import Rows
from pubqueue_spark.schema import Columns

CONFLICT = Refusal("cancel", "conflict")
DONE = ET.fromstring("<iq xmlns='jabber:client' type='result'/>")
SKIPPED = ET.fromstring(
    "<iq xmlns='jabber:client' type='result'><pubsub xmlns='http://jabber.org/protocol/pubsub'>"
    "<skipped xmlns='urn:x-pubqueue:0' version='41'/></pubsub></iq>"
)


def ledger(**options):
    chosen = settings({"service": "q", "jid": "a@b", "password": "x", "node": "jobs", **options})
    columns = Columns(0, StringType(), item_id=1)
    return PartitionLedger(Rows(columns, form(StringType(), "auto"), "jobs", "run", 2), chosen)


def publish(books, payload="<a/>", item=None, number=5):
    return books._rows.publish(number, (payload, item))


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
    assert books.refused(publish(books), CONFLICT, 0) is None
    assert books.left_out == 2
    assert len(caplog.records) == 1, "the first is told, a million are not"
    assert "row 7 of partition 2" in caplog.text
    assert "hidden" not in caplog.text


def test_bad_rows_may_go_to_a_node_of_their_own():
    books = ledger(onError="deadletter", deadLetterNode="bad")
    unfit = books.unfit(7, "<a", "it is")
    refused = books.refused(publish(books, "<b/>", "x"), CONFLICT, 0)
    assert [it.node for it in (unfit, refused)] == ["bad", "bad"]
    assert [it.item_id for it in (unfit, refused)] == ["run-2-7", "run-2-5"]
    assert b'reason="it is"' in unfit.body
    assert b"&lt;b/&gt;" in refused.body
    assert b"q: conflict, type cancel" in refused.body
    books.taken(unfit, DONE)
    assert (books.items, books.dead_lettered, books.left_out) == (1, 1, 0)


def test_a_dead_letter_that_is_refused_fails_the_task():
    books = ledger(onError="deadletter", deadLetterNode="bad")
    letter = books.unfit(7, "<a", "it is")
    with pytest.raises(RowError, match=r"^q refused the dead letter of row 7"):
        books.refused(letter, Refusal("modify", "not-acceptable"), 0)


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
