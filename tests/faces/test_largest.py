"""A queue with items that one of its faces cannot carry: these wait for a worker of another, and nothing else waits with them."""

import pytest
from faces.test_toy_face import Stage, a_broker
from harness.batches.facts import ANN, BOB, BOSS, JOBS, who
from harness.batches.queue_requests import joins, publishes, retracts

from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.survey import Problem, ReadSurvey

SMALL, LARGE = b"<small/>", b"<large>" + b"." * 300_000 + b"</large>"
ADMIN = who("admin@x", admin=True)


@pytest.fixture
async def stage():
    """JIDs get 256 KiB at most, lines anything."""
    async with a_broker() as (broker, store):
        stage = Stage(broker, store)
        stage.broker = broker
        await stage.do(allow(1_000_000))
        yield stage


def allow(size):
    return Configure(who(BOSS), JOBS, Settings({"max_payload_size": size}))


def puts(*names, payload=LARGE, **more):
    return publishes(*names, payload=payload, **more)


def given(stage):
    """Return what JIDs were given since the last time."""
    return [(said[0], said[1]) for said in stage.mail_face.rest() if isinstance(said, tuple)]


def lines_of(line):
    """Return the items that a line was given since the last time."""
    return [said.split()[2] for said in line.rest() if said.startswith("ITEM")]


async def problems(stage):
    replies = []
    stage.broker.submit(ReadSurvey(ADMIN, containing=JOBS), replies.append)
    await stage.broker.settled()
    (row,) = replies[0].rows
    return row.problems, row.entry.too_large


async def test_a_worker_is_not_given_what_its_face_cannot_carry(stage):
    await stage.do(joins(ANN, 9), puts("a"), puts("b", payload=SMALL), puts("c"))
    assert given(stage) == [(ANN, "b")]
    assert await problems(stage) == ((Problem.TOO_LARGE,), 2)
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 9")
    await stage.do()
    assert lines_of(line) == ["a", "c"]
    assert given(stage) == []
    assert await problems(stage) == ((), 0)


async def test_very_many_large_items_hold_up_no_small_one_behind_them(stage):
    await stage.do(*(puts(f"large{number}") for number in range(20)))
    await stage.do(*(puts(f"small{number}", payload=SMALL) for number in range(3)))
    await stage.do(joins(ANN, 1))
    for number in range(3):
        assert given(stage) == [(ANN, f"small{number}")]
        await stage.do(retracts(ANN, f"small{number}"))
    assert given(stage) == []


async def test_those_of_one_batch_are_distinguished_too(stage):
    await stage.do(joins(ANN, 9), joins(BOB, 9))
    await stage.do(puts("a"), puts("b", payload=SMALL, priority=-1), puts("c", priority=3))
    assert [name for _, name in given(stage)] == ["b"]


async def test_a_worker_that_can_have_the_item_gets_it_in_its_turn(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 1")
    await stage.do(puts("a"), puts("b"), puts("c", payload=SMALL))
    assert lines_of(line) == ["a"]
    await stage.do(joins(ANN, 9))
    assert given(stage) == [(ANN, "c")]
    line.say("DONE jobs a")
    await stage.do()
    assert lines_of(line) == ["b"]


async def test_items_that_are_larger_than_their_node_allows_by_now_are_met_as_well(stage):
    await stage.do(puts("a"), puts("b", payload=SMALL), puts("c"), puts("d", payload=SMALL))
    await stage.do(allow(65_536), joins(ANN, 9))
    assert given(stage) == [(ANN, "b"), (ANN, "d")]
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 9")
    await stage.do()
    assert lines_of(line) == ["a", "c"]


async def test_without_workers_that_is_the_problem(stage):
    await stage.do(puts("a"))
    assert await problems(stage) == ((Problem.NO_WORKERS,), 0)


async def test_a_worker_that_can_have_them_is_enough_even_if_it_is_busy(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 1")
    await stage.do(joins(ANN, 1), puts("a"), puts("b"))
    assert await problems(stage) == ((), 0)


async def test_single_items_are_not_looked_at_where_all_are_small(stage, monkeypatch):
    await stage.do(allow(262_144))
    looked = []
    monkeypatch.setattr(stage.broker.outbox, "largest_of", looked.append)
    await stage.do(joins(ANN, 9), *(puts(f"i{n}", payload=SMALL) for n in range(5)))
    assert len(given(stage)) == 5
    assert looked == []
