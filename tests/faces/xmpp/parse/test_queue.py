"""Publishes and transactions as they are read: what is missing, wrong, twice or absurd is refused in its own words."""

import itertools

import pytest
from faces.xmpp.parse.reading_of import request, says

from pubqueue.engine.table import RULES
from pubqueue.faces.xmpp.parse import queue
from pubqueue.faces.xmpp.parse.iq import Iq
from pubqueue.faces.xmpp.render import replies
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.xml.refusals import StanzaError, words
from pubqueue.model.entities import Draft, ItemId, Jid, NodeName, Principal, State
from pubqueue.model.transactions import (
    AtWork,
    Committed,
    Mark,
    OnTaken,
    Phase,
    TakenId,
    Totals,
    key_of,
)
from pubqueue.rules.commit import CommitVersion, Part
from pubqueue.rules.publication import Publish
from pubqueue.rules.staging import AbortVersion, AskLastVersion, ListTransactions, StagePublish
from pubqueue_xeps.wire import ns

JOB = "<job xmlns='urn:work'/>"

NO_APP = "app has to be a name of 1 to 255 bytes, without control characters"


def publish(item=f"<item id='i'>{JOB}</item>", beside="", node="node='jobs'"):
    return request("set", ns.PUBSUB, f"<publish {node}>{item}</publish>{beside}")


def meta(said):
    return publish(beside=f"<meta xmlns='{ns.PUBQUEUE}' {said}/>")


@pytest.mark.parametrize(
    ("item", "detail"),
    [
        ("<item>text</item>", "invalid-payload"),
        (f"<item>text{JOB}</item>", "invalid-payload"),
        (f"<item>{JOB}{JOB}</item>", "invalid-payload"),
        (f"<item id=''>{JOB}</item>", "an item id has 1 to 1023 bytes and no control characters"),
        (
            f"<item id='{'i' * 1024}'>{JOB}</item>",
            "an item id has 1 to 1023 bytes and no control characters",
        ),
        (f"<item xmlns='urn:x' id='i'>{JOB}</item>", "publish may contain only items"),
        (f"<entry id='i'>{JOB}</entry>", "publish may contain only items"),
        (f"<item id='i'>{JOB}</item>" * 2, "an item id occurs twice in one request"),
    ],
)
def test_an_item_has_one_payload_and_one_id(item, detail):
    assert says(publish(item)) == ("bad-request", detail)


@pytest.mark.parametrize(("levels", "good"), [(1, True), (100, True), (101, False), (5000, False)])
def test_a_payload_has_a_hundred_levels(levels, good):
    answer = publish(f"<item>{'<a>' * levels}{'</a>' * levels}</item>")
    assert isinstance(answer, Publish) if good else says(answer)[1] == "invalid-payload"


def test_an_item_without_id_is_given_one():
    answer = publish(f"<item>{JOB}</item><item>{JOB}</item>")
    assert answer.drafts == tuple(Draft(f"new-{n}", JOB.encode(), type="urn:work") for n in (1, 2))


@pytest.mark.parametrize("name", ["delay", "ttl"])
@pytest.mark.parametrize(
    "span", ["NaN", "-NaN", "inf", "-inf", "1e400", "-1", "-0.001", "", "x", "0x1", "3162240001"]
)
def test_a_span_of_time_is_a_number_of_seconds(name, span):
    assert says(meta(f"{name}='{span}'"))[0] == "bad-request"


@pytest.mark.parametrize("number", ["1.5", "x", "NaN", "1000001", "-1000001", "9" * 5000])
def test_a_priority_is_a_whole_number(number):
    condition, text = says(meta(f"priority='{number}'"))
    assert condition == "bad-request"
    assert len(text) < 200


def test_metadata_is_of_every_item():
    (draft,) = meta("delay='1.5' priority='-7' ttl='60'").drafts
    assert (draft.delay, draft.priority, draft.ttl) == (1500, -7, 60_000)


@pytest.mark.parametrize(
    "beside",
    [
        "<publish-options/>",
        "<meta xmlns='urn:other'/>",
        "<publish node='jobs'/>",
        f"<x xmlns='{ns.DATA}'/>",
    ],
)
def test_what_is_not_understood_is_not_passed_over(beside):
    assert isinstance(publish(beside=beside), StanzaError)


HEADER = b"<stream:stream xmlns='jabber:component:accept' xmlns:stream='s'>"
BEE = Principal("bee@localhost/one")
MARK = "app='a' version='1'"
MINE = key_of(BEE.account, "a")


def read(parser, child):
    (stanza,) = StreamParser().feed(HEADER + f"<iq type='set'>{child}</iq>".encode())
    ids = itertools.count(1)
    return parser(Iq(stanza, BEE, lambda: f"new-{next(ids)}"))


def staged(*beside):
    item = "<item id='i'><job xmlns='urn:work'/></item>"
    inner = f"<publish node='jobs'>{item}</publish>{''.join(beside)}"
    return read(queue.publish, f"<pubsub xmlns='{ns.PUBSUB}'>{inner}</pubsub>")


def txn(said):
    return f"<txn xmlns='{ns.PUBQUEUE}' {said}/>"


def commit(inner="", said=MARK):
    return read(queue.commit, f"<commit xmlns='{ns.PUBQUEUE}' {said}>{inner}</commit>")


def fault(answer):
    """Return how a request is refused: by its reader, or whatever is stored by the core."""
    if not isinstance(answer, StanzaError):
        answer = words(RULES[type(answer)].fault(answer))
    assert answer.condition == "bad-request"
    return answer.text


def test_a_mark_beside_a_publish_stages_it():
    request = staged(txn("app='a b' version='7' part='3' attempt='1187'"))
    assert isinstance(request, StagePublish)
    assert request.mark == Mark(key_of(BEE.account, "a b"), 7, 3, 1187)
    assert request.publish == staged()
    assert staged(txn(MARK)).mark == Mark(MINE, 1)
    assert staged(txn(f"{MARK} visibility='commit'")).mark == Mark(MINE, 1)
    assert staged(txn(f"{MARK} visibility='immediate'")).mark == Mark(MINE, 1, immediate=True)


def test_metadata_may_stand_before_it_or_behind_it():
    meta = f"<meta xmlns='{ns.PUBQUEUE}' priority='5'/>"
    before, behind = staged(meta, txn(MARK)), staged(txn(MARK), meta)
    assert before == behind
    assert before.publish.drafts[0].priority == 5


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("version='1'", NO_APP),
        ("app='' version='1'", NO_APP),
        (f"app='{'é' * 128}' version='1'", NO_APP),
        ("app='a&#10;b' version='1'", NO_APP),
        ("app='a'", "version has to be a whole number from 0"),
        ("app='a' version=''", "version has to be a whole number from 0"),
        ("app='a' version='-1'", "version has to be a whole number from 0"),
        ("app='a' version='1.0'", "version has to be a whole number from 0"),
        ("app='a' version='٣'", "version has to be a whole number from 0"),
        (f"app='a' version='{'9' * 19}'", "version has to be a whole number from 0"),
        (f"{MARK} part='x'", "part has to be a whole number from 0"),
        (f"{MARK} attempt='-2'", "attempt has to be a whole number from 0"),
        (f"{MARK} visibility='now'", "visibility must be commit or immediate"),
    ],
)
def test_a_mark_that_cannot_be_read_is_not_passed_over(words, text):
    assert fault(staged(txn(words))).removeprefix("txn: ").startswith(text)


def test_a_publish_belongs_to_one_transaction():
    assert fault(staged(txn(MARK), txn(MARK))) == "a publish belongs to one transaction"


def test_a_commit_names_its_parts_as_elements_or_as_a_list():
    parts = Part(3, 1187, 500), Part(4, 1190, 0)
    expected = CommitVersion(BEE, MINE, 1, parts)
    elements = (
        "<part n='3' attempt='1187' items='500' bytes='7'/><part n='4' attempt='1190' items='0'/>"
    )
    assert commit(elements) == expected
    assert commit("<parts>3:1187:500:7\n 4:1190:0:0</parts>") == expected
    assert commit("<parts/>") == commit() == CommitVersion(BEE, MINE, 1, ())


def test_four_thousand_parts_fit_into_a_stanza_as_a_list():
    text = " ".join(f"{n}:{1_000_000 + n}:100000:20000000" for n in range(6000))
    assert len(text) < 200_000
    assert len(commit(f"<parts>{text}</parts>").parts) == 6000


def test_a_writer_s_own_account_is_kept():
    request = commit(said=f"{MARK} skipped='1' dead-lettered='2' seconds='0.25'")
    assert request.totals == Totals(1, 2, 0.25)


def test_a_commit_asks_for_its_progress_and_is_told():
    assert not commit().progress
    assert commit(said=f"{MARK} progress='true'").progress
    assert commit(said=f"{MARK} progress='1'").progress
    assert not commit(said=f"{MARK} progress='false'").progress
    assert replies.committed(AtWork(7, Phase.JUDGING, 3, 9), "") == (
        b'<committing xmlns="urn:x-pubqueue:0" version="7" phase="judging" done="3" of="9"/>'
    )


def test_a_commit_decides_what_becomes_of_ids_that_are_taken():
    assert commit().on_taken is OnTaken.FAIL
    assert commit(said=f"{MARK} on-taken='skip'").on_taken is OnTaken.SKIP
    request = commit(said=f"{MARK} on-taken='dead-letter' dead-letter-node='bad'")
    assert (request.on_taken, request.dead_letter_node) == (OnTaken.DEAD_LETTER, "bad")
    assert fault(commit(said=f"{MARK} on-taken='x'")).endswith(
        "on-taken must be fail, skip or dead-letter"
    )
    for said in ("on-taken='dead-letter'", "on-taken='skip' dead-letter-node='bad'"):
        assert fault(commit(said=f"{MARK} {said}")).startswith(
            "commit: a dead-letter node goes with"
        )


def test_ids_that_were_taken_are_named_in_the_result():
    named = (TakenId(NodeName("jobs"), ItemId("a<1"), State.DEAD),)
    reply = Committed(7, 9, 0, already=False, taken=3, named=named)
    item = '<item node="jobs" id="a&lt;1" state="dead"/>'
    start = (
        '<committed xmlns="urn:x-pubqueue:0" version="7" published="9" known="0" already="false"'
    )
    assert replies.committed(reply, "") == f'{start} taken="3">{item}</committed>'.encode()
    assert replies.committed(Committed(7, 9, 0, already=False), "") == f"{start}/>".encode()


NAMED_TWICE = "commit: a part is named twice"


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("<part n='1' items='1'/><part n='1' attempt='2' items='1'/>", NAMED_TWICE),
        ("<parts>1:1:1:1 1:2:1:1</parts>", NAMED_TWICE),
        ("<part n='1'/>", "commit: items has to be a whole number from 0"),
        ("<part items='1'/>", "commit: n has to be a whole number from 0"),
        ("<part n='1' items='1' bytes='x'/>", "commit: bytes has to be a whole number from 0"),
        ("<parts>1:1:1</parts>", "commit: an entry of parts must be n:attempt:items:bytes"),
        ("<parts>1:1:one:1</parts>", "commit: items has to be a whole number from 0"),
        *(
            (mixed, "commit: commit contains either part elements or one list in parts")
            for mixed in (
                "<part n='1' items='1'/><parts>2:1:1:1</parts>",
                "<parts>1:1:1:1</parts><parts>2:1:1:1</parts>",
                "<odd/>",
                "<part xmlns='urn:odd' n='1' items='1'/>",
            )
        ),
    ],
)
def test_a_commit_that_cannot_be_read_is_refused(inner, text):
    assert fault(commit(inner)) == text


@pytest.mark.parametrize("value", ["-1", "x", "nan", "inf", "1e400", ""])
def test_seconds_are_a_number(value):
    assert fault(commit(said=f"{MARK} seconds='{value}'")).startswith("commit: ")


def test_a_number_beyond_all_bounds_is_read_as_one_and_left_to_the_core():
    for digits in (19, 5000):
        assert fault(commit(said=f"app='a' version='{'9' * digits}'")).startswith("version")
    assert commit(said=f"app='a' version='{'0' * 40}7'").version == 7


def test_the_other_requests_are_read():
    def asked(parser, words):
        return read(parser, f"<x xmlns='{ns.PUBQUEUE}' {words}/>")

    assert asked(queue.abort, MARK) == AbortVersion(BEE, MINE, 1)
    assert asked(queue.ask, "app='a'") == AskLastVersion(BEE, MINE)
    listed = asked(queue.records, "state='open' app='a' after='7' max='5'")
    assert listed == ListTransactions(BEE, open=True, app=MINE, after=7, max=5)
    assert asked(queue.records, "") == ListTransactions(BEE, open=False)
    assert asked(queue.records, "max='0'").max == 1
    assert fault(asked(queue.abort, "app='a'")).startswith("abort: version")
    theirs = key_of(Jid("etl@localhost"), "a")
    assert asked(queue.abort, f"{MARK} account='etl@localhost/x'").app == theirs
    assert asked(queue.ask, "app='a' account='etl@localhost'").app == theirs
    assert asked(queue.records, "app='a' account='etl@localhost'").app == theirs
    for parser, said in ((queue.abort, MARK), (queue.ask, "app='a'")):
        assert fault(asked(parser, f"{said} account='@'")).endswith("account is not a valid JID")
    assert fault(asked(queue.ask, "")).startswith("app")
    assert fault(asked(queue.records, "app=''")).startswith("app")
    for said in ("state='both'", "after='-1'", "max='x'"):
        assert fault(asked(queue.records, said)).startswith("transactions: ")
