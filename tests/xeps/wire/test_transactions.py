"""The words of transactions."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from lxml import etree

from pubqueue_xeps.wire.requests import transactions
from pubqueue_xeps.wire.requests.transactions import (
    AtWork,
    Committed,
    Mark,
    OnTaken,
    Part,
    TakenId,
    Totals,
)

SCHEMA = etree.XMLSchema(
    etree.parse(Path(__file__).parents[3] / "xeps" / "schemas" / "x-pubqueue.xsd")
)
OURS = "{urn:x-pubqueue:0}"
MARK = Mark("it's <mine>", 41)
TOTALS = Totals(skipped=1, dead_lettered=2, seconds=1.5)


def read(question):
    found = ET.fromstring(b"<iq>" + question.body)[0]
    SCHEMA.assertValid(etree.fromstring(ET.tostring(found)))
    return found


def iq(inner):
    return ET.fromstring(f"<iq xmlns='jabber:client' type='result'>{inner}</iq>")


@pytest.mark.parametrize(
    ("visibility", "more"), [("commit", {}), ("immediate", {"visibility": "immediate"})]
)
def test_a_publish_is_marked_with_part_and_attempt(visibility, more):
    text = MARK.beside(3, 1187, visibility)
    SCHEMA.assertValid(etree.fromstring(text))
    found = ET.fromstring(text)
    assert found.tag == f"{OURS}txn"
    words = {"app": "it's <mine>", "version": "41", "part": "3", "attempt": "1187"}
    assert found.attrib == words | more


def test_a_commit_names_each_part_and_what_it_holds():
    found = read(transactions.commit(MARK, [Part(3, 1187, 500, 101000), Part(4, 9, 1, 2)], TOTALS))
    assert found.tag == f"{OURS}commit"
    assert found.attrib == {
        "app": "it's <mine>",
        "version": "41",
        "skipped": "1",
        "dead-lettered": "2",
        "seconds": "1.500",
    }
    assert [it.attrib for it in found] == [
        {"n": "3", "attempt": "1187", "items": "500", "bytes": "101000"},
        {"n": "4", "attempt": "9", "items": "1", "bytes": "2"},
    ]


def test_a_commit_of_very_many_parts_still_fits_a_stanza():
    parts = [Part(n, 2**53 - n, 10**4, 10**6) for n in range(6000)]
    question = transactions.commit(MARK, parts, TOTALS)
    (found,) = read(question)
    assert found.tag == f"{OURS}parts"
    assert found.text.split()[:2] == [
        "0:9007199254740992:10000:1000000",
        "1:9007199254740991:10000:1000000",
    ]
    assert len(found.text.split()) == 6000
    assert len(question.body) < 256 * 1024


def test_abort_and_the_question_name_the_app():
    assert read(transactions.abort(MARK)).attrib == {"app": "it's <mine>", "version": "41"}
    questions = transactions.aborts(MARK, [Part(n, 7, 2) for n in range(1500)])
    named = [read(question).findtext(f"{OURS}parts").split() for question in questions]
    assert [len(each) for each in named] == [1000, 500]
    assert named[1][-1] == "1499:7:2:0"
    asked = transactions.last("it's")
    assert (asked.kind, read(asked).tag, read(asked).attrib) == (
        "get",
        f"{OURS}txn",
        {"app": "it's"},
    )


def test_an_app_of_which_nothing_is_committed_has_no_version():
    assert transactions.read_last(iq("<txn xmlns='urn:x-pubqueue:0' app='a' version='0'/>")) == 0
    assert transactions.read_last(iq("<txn xmlns='urn:x-pubqueue:0' app='a'/>")) is None


@pytest.mark.parametrize(
    ("already", "found"), [("false", False), ("true", True), ("0", False), ("1", True)]
)
def test_the_answer_to_a_commit_is_read(already, found):
    answer = iq(
        f"<committed xmlns='urn:x-pubqueue:0' version='4' published='9' known='2' already='{already}'/>"
    )
    assert transactions.read_committed(answer) == Committed(published=9, known=2, already=found)


def test_a_commit_asks_for_its_progress():
    plain, asking = (transactions.commit(MARK, [], progress=it) for it in (False, True))
    assert (read(plain).get("progress"), read(asking).get("progress")) == (None, "true")


@pytest.mark.parametrize(
    ("phase", "words"),
    [("judging", "judged"), ("moving", "committed, and moved to their nodes")],
)
def test_the_progress_of_a_commit_is_read_and_said(phase, words):
    text = (
        f"<committing xmlns='urn:x-pubqueue:0' version='4' phase='{phase}' done='1500' of='20000'/>"
    )
    SCHEMA.assertValid(etree.fromstring(text))
    found = transactions.read_progress(iq(text))
    assert found == AtWork(phase == "moving", 1500, 20000)
    assert str(found) == f"1,500 of 20,000 items are {words}"


def test_the_result_of_a_commit_is_no_progress():
    answer = "<committed xmlns='urn:x-pubqueue:0' version='4' published='9' known='2' already='1'/>"
    assert transactions.read_progress(iq(answer)) is None


def test_a_commit_decides_what_becomes_of_taken_ids():
    def said(on_taken):
        found = read(transactions.commit(MARK, [], None, on_taken))
        return found.get("on-taken"), found.get("dead-letter-node")

    assert said(OnTaken()) == (None, None)
    assert said(OnTaken("skip")) == ("skip", None)
    assert said(OnTaken("dead-letter", "bad")) == ("dead-letter", "bad")


def test_the_ids_that_were_taken_are_read():
    inner = "<item node='jobs' id='a' state='dead'/>"
    start = "<committed xmlns='urn:x-pubqueue:0' version='4' published='9' known='0' already='0'"
    found = transactions.read_committed(iq(f"{start} taken='2'>{inner}</committed>"))
    named = (TakenId("jobs", "a", "dead"),)
    assert found == Committed(9, 0, already=False, taken=2, named=named)


def test_generated_ids_belong_to_the_batch():
    assert Mark("a", 1).ids == Mark("a", 1).ids
    assert len({Mark("a", 1).ids, Mark("b", 1).ids, Mark("a", 2).ids}) == 3
    assert Mark("it's <mine>", 41).ids.isascii()


def test_a_commit_that_fits_no_stanza_reports_what_to_do():
    parts = [Part(n, 2**53, 10**4, 10**6) for n in range(9000)]
    with pytest.raises(ValueError, match=r"9000 tasks does not fit .* coalesce"):
        transactions.commit(MARK, parts, TOTALS)


def test_an_invalid_answer_is_reported():
    with pytest.raises(ValueError, match="has no figures"):
        transactions.read_committed(iq(""))
