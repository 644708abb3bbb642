"""What is written into a row, and what is claimed: without a database."""

import xml.etree.ElementTree as ET
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue import NewItem
from pubqueue_xeps.client.publications import MAX_REQUEST_BYTES, request
from pubqueue_xeps.outbox.rows import (
    Release,
    Row,
    Settled,
    Statements,
    free_followers,
    stored,
)


def row_of(node, new):
    name, item = stored(node, new, MAX_REQUEST_BYTES)
    return Row(1, node, name, new.group, item, 1)


@pytest.mark.parametrize(
    "new",
    [
        NewItem(payload={"b": 1, "a": "ä"}, id="i1", priority=-3),
        NewItem(
            payload="a;b\r\nc",
            id="i2",
            type="text/csv",
            headers={"Kind": "x", "content-type": "no"},
        ),
        NewItem(payload=b"\x00\xff", id="i3", type="application/octet-stream", group="g"),
        NewItem(payload=ET.fromstring("<a xmlns='urn:a'>&amp;<b/></a>"), id="i4", delay=60),
        NewItem(payload=None, id="i5", ttl=timedelta(hours=1)),
    ],
)
def test_what_is_published_is_what_was_added(new):
    """Up to the milliseconds that have passed of a delay."""
    sent = request("jobs", row_of("jobs", new).new_item(), MAX_REQUEST_BYTES, "")[1].inner
    wanted = request("jobs", new, MAX_REQUEST_BYTES, "")[1].inner

    def words(body):
        root = ET.fromstring(body)
        for meta in root.iter("{urn:x-pubqueue:0}meta"):
            for name in ("delay", "ttl"):
                if name in meta.attrib:
                    meta.set(name, str(round(float(meta.get(name)))))
        return ET.tostring(root)

    assert words(sent) == words(wanted)


def test_an_item_without_an_id_gets_one():
    first, second = (stored("jobs", NewItem(payload=1), MAX_REQUEST_BYTES)[0] for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("node", "new", "error"),
    [
        ("", NewItem(payload=1), "node is empty"),
        ("a\x00b", NewItem(payload=1), "U\\+0000"),
        ("jobs", NewItem(payload=float("nan"), id="x"), "payload of 'x' has NaN"),
        ("jobs", NewItem(payload=object(), id="x"), "payload of 'x' has no form in JSON"),
        ("jobs", NewItem(payload=1, id=""), "id is ''"),
        ("jobs", NewItem(payload=1, group=""), "group is empty"),
        ("jobs", NewItem(payload=1, priority=True), "priority is True"),
        ("jobs", NewItem(payload=1, headers={"a": 1}), "header 'a' has a value"),
        ("jobs", NewItem(payload=1, delay=-1), "delay is -1"),
        ("jobs", NewItem(payload="x" * MAX_REQUEST_BYTES), "bytes as it is sent"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(node, new, error):
    with pytest.raises((TypeError, ValueError), match=error):
        stored(node, new, MAX_REQUEST_BYTES)


def test_a_time_that_has_passed_meanwhile_delays_no_more_and_expires():
    item = msgspec.json.encode({"xml": "<a/>", "due": 1, "expires": 1}).decode()
    new = Row(1, "jobs", "i", None, item, 1).new_item()
    assert (new.delay, new.ttl) == (None, 0.0)


def test_a_row_that_something_else_has_written_is_an_error():
    with pytest.raises(msgspec.MsgspecError):
        Row(1, "jobs", "i", None, '{"xml": 7}', 1).new_item()


def test_an_unknown_database_is_refused():
    with pytest.raises(ValueError, match="sqlite and postgresql, not of mysql"):
        Statements("t", "mysql")


FOUND = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("gh"), st.sampled_from([0, 1])), max_size=30
).map(lambda rows: [(number, *row) for number, row in enumerate(rows)])


@given(FOUND, st.integers(0, 30))
def test_followers_are_claimed_without_a_gap(found, most):
    claimed = free_followers(found, most)
    assert len(claimed) <= most
    for key in {row[1:3] for row in found}:
        of_group = [row for row in found if row[1:3] == key]
        mine = [row for row in of_group if row[0] in claimed]
        assert mine == of_group[: len(mine)], "those that come first"
        assert all(row[3] for row in mine), "and none that another has"


def test_rows_that_share_their_fate_share_a_statement():
    rows = [Row(number, "jobs", str(number), None, "", 1) for number in range(5)]
    settled = Settled(
        [8, 9],
        [(rows[0], "why")],
        [
            Release(rows[1], "c1", 0, is_tried=False),
            Release(rows[2], "c1", 0, is_tried=False),
            Release(rows[3], "c1", 1000, is_tried=True),
            Release(rows[4], "c2", 1000, is_tried=True),
        ],
    )
    found = Statements("t", "sqlite").settle(settled)
    assert [statement.sql.rpartition("IN ")[2] for statement in found] == [
        "(8, 9)",
        found[1].sql,
        "(1, 2)",
        "(3)",
        "(4)",
    ]
    assert not Settled([], [], [])
    assert Statements("t", "sqlite").settle(Settled([], [], [])) == []
