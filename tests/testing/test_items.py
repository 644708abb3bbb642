"""An item for a handler alone."""

import asyncio
from datetime import UTC, datetime, timedelta
from xml.etree.ElementTree import Element

import pytest

from pubqueue.testing import Call, make_item
from pubqueue_xeps.wire.refusals import Outcome, Reject, Release


async def test_an_item_is_retracted_where_a_worker_would_retract_it():
    item = make_item({"order": 7}, id="a", headers={"kind": "order"}, attempt=3)
    assert (item.id, item.node, item.headers, item.attempt) == ("a", "jobs", {"kind": "order"}, 3)
    assert item.payload.text == '{"order":7}'
    async with item:
        pass
    assert (item.state, item.calls) == ("retracted", [Call("retract")])


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (Release(delay=60), Outcome("release", 60)),
        (Reject("no good"), Outcome("reject", reason="no good")),
    ],
)
async def test_an_item_is_unlocked_with_what_the_handler_raised(raised, outcome):
    item = make_item()
    async with item:
        raise raised
    assert (item.state, item.outcome, item.payload) == ("unlocked", outcome, None)


async def test_any_other_exception_is_a_failure_and_goes_on_its_way():
    item = make_item()
    with pytest.raises(ZeroDivisionError):
        async with item:
            raise ZeroDivisionError
    assert item.outcome == Outcome("failed", reason="ZeroDivisionError")


def test_no_event_loop_is_needed_to_make_one():
    item = make_item(Element("{urn:x}job"), publisher="etl@localhost")

    async def handle():
        await item.touch(60)
        await item.unlock()

    asyncio.run(handle())
    assert item.calls == [Call("touch", seconds=60), Call("unlock")]
    assert (item.payload.tag, item.publisher) == ("{urn:x}job", "etl@localhost")


def test_its_lock_ends_at_its_deadline():
    before = datetime.now(UTC)
    item = make_item(lock_timeout=30)
    assert before <= item.deadline - timedelta(seconds=30) <= datetime.now(UTC)


def test_a_lock_may_be_lost():
    item = make_item()
    item.become("lost")
    assert item.lock_lost.is_set()


def test_it_has_the_number_of_its_failures():
    assert (make_item(attempt=4, failures=2).failures, make_item().failures) == (2, 0)
