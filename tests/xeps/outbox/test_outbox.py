"""What a transaction of the user adds is there if it is committed, with each kind of connection on each database."""

from contextlib import closing, suppress

import pytest
from harness.databases.outboxes import result

from pubqueue import Backlog, NewItem, NotPublished, Outbox


async def test_what_is_committed_is_there_and_what_is_rolled_back_is_not(place, kind):
    outbox = place.outbox
    async with kind(place) as connection:
        name = await result(outbox.add(connection, "jobs", {"n": 1}))
        given = await result(
            outbox.add(connection, "mails", NewItem(payload="x", id="m1"), group="g")
        )
    with suppress(LookupError):
        async with kind(place) as connection:
            await result(outbox.add(connection, "jobs", 2))
            raise LookupError
    assert given == "m1"
    assert place.rows("node, id, grp") == [("jobs", name, None), ("mails", "m1", "g")]


async def test_each_kind_reads_and_changes_refused_rows(place, kind):
    outbox = place.outbox
    for name in ("a", "b", "c"):
        place.add("jobs", 1, id=name)
    async with kind(place) as connection:
        assert (await result(outbox.backlog(connection))).waiting == 3
    place.execute("UPDATE outbox_of_tests SET refused = 'no', held_until = 9223372036854775807")
    async with kind(place) as connection:
        assert await result(outbox.refused(connection, limit=1)) == [
            NotPublished("jobs", "a", None, "no", 0)
        ]
        assert await result(outbox.drop(connection, node="jobs", id="a")) == 1
        assert await result(outbox.retry(connection, id="b")) == 1
        assert await result(outbox.retry(connection, node="mails")) == 0
    assert place.rows("id, refused, held_until < 1") == [("b", None, True), ("c", "no", False)]


async def test_each_kind_creates_the_table(place, kind):
    other = Outbox("another_outbox")
    async with kind(place) as connection:
        await result(other.create_table(connection))
        await result(other.create_table(connection))
        backlog = await result(other.backlog(connection))
    assert backlog == Backlog(0, 0, None)
    place.execute("DROP TABLE another_outbox")


@pytest.mark.parametrize("table", ["", "a b", "a.b.c", "x" * 49, 'a"b', "1a", "a;"])
def test_a_name_that_needs_quotes_is_refused(table):
    with pytest.raises(ValueError, match="table is"):
        Outbox(table)


def test_headers_are_those_of_the_code_that_adds(sqlite):
    traced = Outbox(
        sqlite.outbox.table, headers=lambda given: {**(given or {}), "traceparent": "t"}
    )
    with closing(sqlite.connect()) as connection:
        traced.add(connection, "jobs", 1, headers={"tenant": "north"})
        connection.commit()
    ((item,),) = sqlite.rows("item")
    assert '"headers":{"tenant":"north","traceparent":"t"}' in item
