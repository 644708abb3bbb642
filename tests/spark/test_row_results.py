"""What becomes of good and bad rows, by onError."""

import xml.etree.ElementTree as ET

import pytest
from pyspark.sql.types import StringType

from pubqueue_spark.errors import RowError, ServiceError
from pubqueue_spark.write.bundles import Bundles
from pubqueue_spark.write.forms import form
from pubqueue_spark.write.options import settings
from pubqueue_spark.write.row_results import RowResults
from pubqueue_spark.write.rows import Rows
from pubqueue_spark.write.schema import Columns
from pubqueue_xeps.wire.refusals import Refusal

CONFLICT = Refusal("cancel", "conflict")
DONE = ET.fromstring("<iq xmlns='jabber:client' type='result'/>")
SKIPPED = ET.fromstring(
    "<iq xmlns='jabber:client' type='result'><pubsub xmlns='http://jabber.org/protocol/pubsub'>"
    "<skipped xmlns='urn:x-pubqueue:0' version='41'/></pubsub></iq>"
)


ROWS = Rows(Columns(0, StringType(), item_id=1), form(StringType(), "auto"), "jobs", "run", 2)


def results(bundles=None, **options):
    chosen = settings({"service": "q", "jid": "a@b", "password": "x", "node": "jobs", **options})
    return RowResults(ROWS, bundles or Bundles(ROWS, 100), chosen)


def publish(payload="<a/>", item=None, number=5):
    return ROWS.publish([ROWS.item(number, (payload, item))])


def several(count):
    return ROWS.publish([ROWS.item(n, ("<a/>", None)) for n in range(count)])


def rows_of(publishes):
    return [[item.row for item in publish.items] for publish in publishes]


def test_every_item_counts_once():
    found = results()
    found.taken(publish(), DONE)
    found.taken(publish("<a><b/></a>", "x"), DONE)
    found.taken(publish("<a/>", "x"), DONE)
    assert found.items == 2, "the second of an id replaces the first"
    assert found.bytes == 2 * len("<a xmlns=''/>")


def test_what_was_committed_before_is_counted_apart():
    found = results()
    found.taken(publish(), SKIPPED)
    assert (found.items, found.replayed) == (0, 1)


def test_an_answer_about_another_item_fails_the_task():
    other = ET.fromstring(
        "<iq xmlns='jabber:client' type='result'><pubsub xmlns='http://jabber.org/protocol/pubsub'>"
        "<publish node='jobs'><item id='a'/><item id='c'/></publish></pubsub></iq>"
    )
    found, sent = (
        results(),
        ROWS.publish([ROWS.item(n, ("<a/>", name)) for n, name in enumerate("ab")]),
    )
    with pytest.raises(ServiceError, match=r"rows 0 to 1 of partition 2 .* names the item 'c'"):
        found.taken(sent, other)
    assert found.items == 0


def test_bad_rows_fail_the_task_by_default():
    found = results()
    with pytest.raises(RowError, match=r"^row 7 of partition 2 cannot become an item: it is\.$"):
        found.unfit(7, "<a", "it is")
    with pytest.raises(
        RowError, match=r"^q refused row 5 of partition 2 \(item 'x', node 'jobs'\)"
    ):
        found.refused(publish(item="x"), CONFLICT, 0)


def test_bad_rows_may_be_left_out_and_are_counted(caplog):
    found = results(onError="skip")
    assert found.unfit(7, "<hidden", "it is") is None
    assert found.refused(publish(), CONFLICT, 0) == []
    assert found.left_out == 2
    assert len(caplog.records) == 1, "the first is told, a million are not"
    assert "row 7 of partition 2" in caplog.text
    assert "hidden" not in caplog.text


def test_bad_rows_may_go_to_a_node_of_their_own():
    found = results(onError="deadletter", deadLetterNode="bad")
    unfit = found.unfit(7, "<a", "it is")
    (refused,) = found.refused(publish("<b/>", "x"), CONFLICT, 0)
    (letter,) = refused.items
    assert [it.node for it in (unfit, letter)] == ["bad", "bad"]
    assert [it.id for it in (unfit, letter)] == ["run-2-7", "run-2-5"]
    assert b'reason="it is"' in unfit.xml
    assert b"&lt;b/&gt;" in refused.body
    assert b"q: conflict, type cancel" in refused.body
    found.taken(ROWS.publish([unfit]), DONE)
    assert (found.items, found.dead_lettered, found.left_out) == (1, 1, 0)


def test_a_dead_letter_that_is_refused_fails_the_task():
    found = results(onError="deadletter", deadLetterNode="bad")
    letter = found.unfit(7, "<a", "it is")
    with pytest.raises(RowError, match=r"^q refused the dead letter of row 7"):
        found.refused(ROWS.publish([letter]), Refusal("modify", "not-acceptable"), 0)


def test_of_several_rows_each_counts():
    found = results()
    found.taken(several(7), DONE)
    assert (found.items, found.bytes) == (7, 7 * len("<a xmlns=''/>"))
    found.taken(several(7), SKIPPED)
    assert (found.items, found.replayed) == (7, 7)


def test_of_several_rows_the_bad_one_is_found_by_halves():
    found = results(onError="skip")
    asked, taken = [several(10)], []
    while asked:
        publish = asked.pop(0)
        if any(item.row == 6 for item in publish.items):
            asked += found.refused(publish, CONFLICT, 0)
        else:
            taken.append(publish)
    assert found.left_out == 1
    assert sorted(n for rows in rows_of(taken) for n in rows) == [0, 1, 2, 3, 4, 5, 7, 8, 9]


def test_a_node_that_takes_fewer_at_once_gets_fewer():
    bundles = Bundles(ROWS, 100)
    found = results(bundles)
    fewer = Refusal("cancel", "not-allowed", "max-items-exceeded")
    halves = found.refused(several(10), fewer, 0)
    assert rows_of(halves) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    items = [ROWS.item(n, ("<a/>", None)) for n in range(12)]
    assert [len(it.items) for it in bundles.gather(items)] == [5, 5, 2]
    with pytest.raises(ServiceError, match=r"row 5 .* not-allowed \(max-items-exceeded\)"):
        found.refused(publish(), fewer, 0)


def test_several_rows_are_named_by_the_first_and_the_last():
    found = results()
    with pytest.raises(ServiceError, match=r"refused rows 0 to 9 of partition 2 \(node 'jobs'\)"):
        found.refused(several(10), Refusal("auth", "forbidden"), 0)


def test_a_refusal_that_is_not_the_row_s_fault_fails_the_task_whatever_is_chosen():
    found = results(onError="skip")
    with pytest.raises(ServiceError, match="forbidden"):
        found.refused(publish(), Refusal("auth", "forbidden"), 0)


def test_too_many_bad_rows_fail_the_task():
    found = results(onError="skip", maxErrors="2")
    found.unfit(1, "", "a")
    found.unfit(2, "", "b")
    with pytest.raises(
        RowError,
        match=r"^partition 2 has more than maxErrors=2 bad rows; the last one: row 3 of .*: c\.$",
    ):
        found.unfit(3, "", "c")
