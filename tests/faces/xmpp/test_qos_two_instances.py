"""Two instances on one store: a server may route each answer to either of them."""

import pytest
from harness.stanzas.leveled_service import leveled
from harness.stanzas.leveled_words import (
    BEE,
    HOW,
    changes,
    comes,
    deliveries,
    error,
    locked,
    published,
    queue,
    received,
    result,
    shape,
    subscribes,
)

from pubqueue.engine.ports import Instance


@pytest.fixture
async def both(tmp_path):
    async with (
        leveled(tmp_path, HOW, instance=Instance(1)) as one,
        leveled(tmp_path, HOW, instance=Instance(2)) as other,
    ):
        await one.say(queue())
        yield one, other


async def delivered(one, level):
    """Return the request of a delivery."""
    await one.say(subscribes(**{"x-queueing#qos": level}), comes())
    return (await one.say(*published("a")))[-1]


async def answers(service):
    return await service.store.connection.run(
        lambda c: c.execute("SELECT arrived FROM answered").fetchall()
    )


@pytest.mark.covers("QS-043")
async def test_a_worker_that_answered_another_instance_gets_no_repetition_and_loses_nothing(both):
    one, other = both
    asked = await delivered(one, "acknowledged")
    assert await other.say(result(asked), result(asked)) == []
    assert await answers(one) == [(1,)]
    assert await one.wait(1000) == await other.wait(1000) == []
    assert await locked(one) == {"a": BEE}


@pytest.mark.covers("QS-043")
async def test_an_answer_to_the_last_attempt_may_reach_another_instance(both):
    one, other = both
    asked = await delivered(one, "acknowledged")
    assert len(await one.wait(15)) == HOW.attempts - 1
    assert await other.say(result(asked)) == []
    assert await one.wait(1000) == []
    assert await locked(one) == {"a": BEE}


@pytest.mark.covers("QS-043")
async def test_after_received_the_service_sends_deliver_and_awaits_its_answer(both):
    one, other = both
    asked = await delivered(one, "assured")
    (then,) = await other.say(received(asked))
    assert (shape(then), then.get("id")) == ("deliver", f"{asked.get('id')}-deliver")
    assert await answers(one) == [(0,)]
    assert await one.wait(1000) == []
    (again,) = await other.wait(5)
    assert again.get("id") == then.get("id")
    assert await one.say(result(then)) == []
    assert await answers(one) == [(1,)]
    assert await other.wait(1000) == []
    assert await locked(one) == {"a": BEE}


@pytest.mark.covers("QS-043")
async def test_the_answer_to_deliver_may_reach_another_instance(both):
    one, other = both
    asked = await delivered(one, "assured")
    (then,) = await one.say(received(asked))
    assert await other.say(result(then)) == []
    assert await one.wait(1000) == await other.wait(1000) == []
    assert await locked(one) == {"a": BEE}


@pytest.mark.covers("QS-043")
async def test_an_error_may_reach_another_instance(both):
    one, other = both
    asked = await delivered(one, "acknowledged")
    said = await other.say(error(asked, "cancel", "service-unavailable"))
    ended = [each.get("subscription") for stanza in said for each in stanza.iter("{*}subscription")]
    assert ended == ["none"]
    assert await locked(one) == {}
    assert await one.wait(1000) == []


async def test_one_instance_alone_writes_nothing_for_an_answer(both):
    one, _ = both
    asked = await delivered(one, "acknowledged")
    assert len(await one.wait(5)) == 1
    before = await changes(one)
    assert await one.say(result(asked), result(asked)) == []
    assert await changes(one) == before


@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_a_delivery_that_may_be_lost_is_repeated_at_its_level(tmp_path, level):
    async with leveled(tmp_path, HOW) as first:
        await first.say(queue())
        asked = await delivered(first, level)
        before = first.raw[-1]
    async with leveled(tmp_path, HOW, instance=Instance(0)) as second:
        assert second.greeted == [before]
        said = await second.say(received(asked) if level == "assured" else result(asked))
        assert [shape(one) for one in said] == ["deliver"] * (level == "assured")
        if said:
            assert await second.say(result(said[0])) == []
        assert await second.wait(1000) == []
        assert await locked(second) == {"a": BEE}


async def test_what_is_not_repeated_waits_for_its_lock_timeout(both):
    one, other = both
    await delivered(one, "acknowledged")
    assert await other.wait(1000) == []
    assert await locked(one) == {"a": BEE}
    assert deliveries(await one.wait(5)) == [(BEE, "a", "acknowledged")]
