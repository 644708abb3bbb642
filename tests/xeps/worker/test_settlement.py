"""Locks are extended while the work goes on, by the service's clock, and within bounds."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from harness.batches.inside import cut, held_items, session_of
from harness.patience import turns
from harness.servers.queue_service import TIME, answer, refuse, stamp

from pubqueue.testing import make_item
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import LockLost, NotConfirmed, Refused
from pubqueue_xeps.item import Item
from pubqueue_xeps.wire.times import ServiceClock, read_time
from pubqueue_xeps.worker.settlement import LockExtender
from pubqueue_xeps.worker.waiting_items import WaitingItems
from pubqueue_xeps.worker.weights import Turns
from pubqueue_xeps.xep_0254.queueing import Delivered, Lock


def test_the_services_time_goes_on_with_the_monotonic_clock(monkeypatch):
    clock = ServiceClock()
    reported = datetime(2030, 1, 1, tzinfo=UTC)
    clock.set(reported, asked=100)
    monkeypatch.setattr(time, "time", lambda: pytest.fail("the clock of this machine was asked"))
    assert clock.left(reported + timedelta(seconds=60), now=110) == 50


def test_until_it_knows_the_time_it_uses_the_clock_of_this_machine(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: datetime(2030, 1, 1, tzinfo=UTC).timestamp())
    assert ServiceClock().left(datetime(2030, 1, 1, 0, 1, tzinfo=UTC), now=7) == 60


@pytest.mark.parametrize("text", ["2030-01-01T00:00:00Z", "2030-01-01T02:00:00+02:00"])
def test_times_are_read_with_their_zone(text):
    assert read_time(text) == datetime(2030, 1, 1, tzinfo=UTC)


KEEPING = "pubqueue locks"
"""The task that extends locks."""


async def test_what_leaves_the_queue_is_not_kept():
    waiting = WaitingItems(Turns({"jobs": 1}))
    a, b, c = (make_item(id=name) for name in "abc")
    for item in (a, b, c, None):
        waiting.put_nowait(item)
    waiting.leave(a)
    waiting.leave(b)
    waiting.leave(make_item(id="not here"))
    assert [await waiting.get(), await waiting.get(), waiting.qsize()] == [c, None, 0]


async def test_nodes_are_taken_from_in_turn():
    waiting = WaitingItems(Turns(dict.fromkeys("abc", 1)))
    for place in ("a/1", "a/2", "a/3", "b/1", "b/2", "c/1"):
        node, name = place.split("/")
        waiting.put_nowait(make_item(id=name, node=node))
    waiting.put_nowait(None)
    taken = []
    while (item := await waiting.get()) is not None:
        taken.append("/".join(item.place))
    assert taken == ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]


async def test_a_pick_skips_a_node_that_has_nothing():
    waiting = WaitingItems(Turns(dict.fromkeys("abc", 1)))
    for place in ("a/1", "a/2", "b/1", "a/3", "b/2"):
        node, name = place.split("/")
        waiting.put_nowait(make_item(id=name, node=node))

    def of_b(items):
        return next((item for item in items if item.node == "b"), None)

    def any_one(items):
        return next(iter(items), None)

    picked = [await waiting.pick(each) for each in (of_b, of_b, any_one, any_one)]
    assert ["/".join(item.place) for item in picked] == ["b/1", "b/2", "a/1", "a/2"]


def id_of(iq):
    return iq.find(".//{*}item").get("id")


def watched(keeper, now):
    """Return the items whose locks are to be extended."""
    return keeper.watched(now)


def until(seconds):
    """Lock an item for so long."""
    return {"deadline": stamp(seconds)}


@pytest.mark.e2e
async def test_a_lock_is_extended_at_half_its_time_as_often_as_it_needs(service, worker_of):
    service.lock_timeout = 1
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", **until(1))
        began = time.monotonic()
        async with await anext(worker) as item:
            first = item.deadline
            for _ in range(3):
                touch = (await service.next("touch"))[0]
                assert dict(touch.attrib) == {"node": "jobs"}
                assert touch[0].get("id") == "i1"
            assert time.monotonic() - began > 1.2
            assert item.deadline > first
        assert item.state == "retracted"


@pytest.mark.e2e
@pytest.mark.parametrize("ahead", [-3600, 3600])
async def test_a_clock_that_is_wrong_by_an_hour_does_no_harm(service, worker_of, ahead):
    service.script["time"] = lambda iq: [answer(iq, TIME.format(stamp(ahead)))]
    async with worker_of() as worker:
        began = time.monotonic()
        service.deliver(worker.jid, "i1", **until(ahead + 2))
        await anext(worker)
        await service.next("touch")  # within 10 seconds, and not in an hour
        assert time.monotonic() - began > 0.5


@pytest.mark.e2e
async def test_a_service_without_a_time_is_assumed_to_have_ours(service, worker_of):
    service.script["time"] = lambda iq: [refuse(iq, "service-unavailable")]
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", **until(1))
        await anext(worker)
        assert id_of(await service.next("touch")) == "i1"


@pytest.mark.e2e
async def test_a_clock_that_is_set_meanwhile_is_noticed(service, worker_of):
    """The service goes an hour ahead; locks that it grants from then on do not last an hour more."""
    async with worker_of(requests=2, timings={"refresh": 0.2}) as worker:
        service.deliver(worker.jid, "i1", **until(60))
        await anext(worker)
        await service.next("time")
        service.script["time"] = lambda iq: [answer(iq, TIME.format(stamp(3600)))]
        service.deliver(worker.jid, "i2", **until(3602))
        await anext(worker)
        while id_of(await service.next("touch")) != "i2":
            pass


async def test_the_touching_has_an_end():
    """It begins with the work, not with the delivery."""
    line, holder = SimpleNamespace(extended=True), SimpleNamespace(locked=lambda: [item])
    keeper = LockExtender(holder, line, Timings(), touch_for=60)
    lock = Lock(1, datetime(2030, 1, 1, tzinfo=UTC), 1, None)
    item = Item(Delivered("queue.localhost", "jobs", "i1", None, None, lock), holder)
    item.begun = 1000
    assert watched(keeper, 2000) == [item], "waiting, it is given back at half-time"
    item.become("in hand")
    assert (watched(keeper, 1059), watched(keeper, 1060)) == ([item], [])


class Held:
    """A worker with one item, in a session that can extend locks and does not know the time."""

    extended = True

    def __init__(self, item):
        self.item = item

    def locked(self):
        return [self.item]

    async def ready(self):
        """It is."""

    async def ask_time(self):
        return None


async def test_a_lock_is_extended_when_half_of_its_time_has_passed():
    lock = Lock(1, datetime.now(UTC) + timedelta(seconds=600), 1, None)
    item = Item(Delivered("queue.localhost", "jobs", "i1", None, None, lock), None)
    item.become("in hand")
    held = Held(item)
    keeper = LockExtender(held, held, Timings(refresh=3600), touch_for=600)
    keeping = asyncio.create_task(keeper.keep())
    await turns(9)
    keeping.cancel()
    assert keeper.wakes_at - item.locked == pytest.approx(300, abs=10)


@pytest.mark.e2e
async def test_no_touching_is_asked_for_by_0(service, worker_of):
    async with worker_of(touch_for=0):
        assert KEEPING not in {task.get_name() for task in asyncio.all_tasks()}
    async with worker_of():
        assert KEEPING in {task.get_name() for task in asyncio.all_tasks()}


@pytest.mark.parametrize("seconds", [-1, float("nan")])
async def test_a_bound_that_is_none_is_refused(worker_of, seconds):
    with pytest.raises(ValueError, match=f"touch_for is {seconds}; it takes seconds, 0 or more"):
        worker_of(touch_for=seconds)


@pytest.mark.e2e
async def test_a_service_that_cannot_extend_locks_is_not_asked_to(service, worker_of):
    service.script["query"] = lambda iq: [refuse(iq, "service-unavailable")]
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", **until(0.1))
        async with await anext(worker) as item:
            assert await item.touch() is None
            assert held_items(worker).keeper.wakes_at == float("inf")
    asked = await service.next("touch", "time", "retract")
    assert id_of(asked) == "i1"
    assert len(asked[0]) == 1


@pytest.mark.e2e
async def test_what_is_not_begun_at_half_time_is_given_back(service, worker_of):
    async with worker_of(requests=2) as worker:
        service.deliver(worker.jid, "begun", **until(60))
        service.deliver(worker.jid, "waiting", **until(1))
        await anext(worker)
        unlock = await service.next("unlock", "touch")
        assert (id_of(unlock), len(unlock[0].findall("{urn:x-pubqueue:0}outcome"))) == (
            "waiting",
            0,
        )
        assert [item.id for item in held_items(worker).locked()] == ["begun"]
        service.deliver(worker.jid, "waiting", token=9, attempt=2)
        assert (await anext(worker)).token == 9


@pytest.mark.e2e
async def test_an_author_extends_a_lock(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", **until(60))
        item = await anext(worker)
        deadline = await item.touch(2.5)
        assert (await service.next("touch"))[0].get("seconds") == "2.500"
        assert deadline == item.deadline > datetime.now(UTC) + timedelta(seconds=200)


@pytest.mark.e2e
@pytest.mark.parametrize("condition", ["conflict", "unexpected-request", "item-not-found"])
async def test_a_refused_touch_means_that_the_lock_is_lost(service, worker_of, condition):
    service.script["touch"] = lambda iq: [refuse(iq, condition)]
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", **until(1))
        async with await anext(worker) as item:
            await item.lock_lost.wait()
            assert item.state == "lost"
            with pytest.raises(LockLost):
                await item.touch()
            with pytest.raises(LockLost):
                await item.retract()
    assert (await service.next("retract", "unlock", "unavailable")).get("type") == "unavailable"


@pytest.mark.e2e
async def test_a_lock_that_is_lost_may_come_back(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            assert not item.lock_lost.is_set()
            service.send(service.unlocked_at(worker.jid, "i1"))
            await item.lock_lost.wait()
            service.deliver(worker.jid, "i1", attempt=2)
            await service.heard(worker.jid)
            assert not item.lock_lost.is_set()
        assert item.state == "retracted"


@pytest.mark.e2e
async def test_a_late_refusal_is_about_the_lock_before(service, worker_of):
    def relock(iq):
        service.deliver(worker.jid, "i1", token=2, attempt=2)
        return [refuse(iq, "unexpected-request")]

    service.script["touch"] = relock
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", token=1, **until(1))
        item = await anext(worker)
        await service.next("touch")
        await service.heard(worker.jid)
        assert (item.state, item.token) == ("in hand", 2)


@pytest.mark.e2e
async def test_a_touch_that_met_a_trouble_is_asked_again(service, worker_of):
    def answered(iq):
        trouble = next(troubles, None)
        return [service.touched(iq)] if trouble is None else trouble(iq)

    troubles = iter([lambda iq: [], lambda iq: [refuse(iq, "remote-server-timeout")]])
    service.script["touch"] = answered
    async with worker_of(timings={"answer": 0.5}) as worker:
        service.deliver(worker.jid, "i1", **until(1))
        item = await anext(worker)
        for _ in range(3):
            await service.next("touch")
        await service.heard(worker.jid)
        assert item.deadline > datetime.now(UTC) + timedelta(seconds=200)


@pytest.mark.e2e
async def test_a_touch_goes_on_over_a_lost_connection(service, worker_of):
    service.script["touch"] = lambda iq: cut(session_of(worker)) or []
    async with worker_of() as worker:
        service.deliver(await service.subscriber(), "i1", **until(60))
        item = await anext(worker)
        touching = asyncio.create_task(item.touch())
        await service.next("touch")
        service.script["touch"] = lambda iq: [service.touched(iq)]
        assert await touching == item.deadline


@pytest.mark.e2e
async def test_patience_with_a_touch_has_an_end(service, worker_of):
    service.script["touch"] = lambda iq: []
    async with worker_of(timings={"patience": 0.2}) as worker:
        service.deliver(worker.jid, "i1")
        with pytest.raises(NotConfirmed, match="touch of 'i1' was not confirmed in time") as raised:
            await (await anext(worker)).touch()
        assert (raised.value.node, raised.value.id) == ("jobs", "i1")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (lambda iq: refuse(iq, "bad-request"), "The touch of 'i1' was refused: bad-request"),
        (lambda iq: answer(iq, ""), "The touch of 'i1' was answered without a deadline"),
    ],
)
async def test_a_touch_that_is_refused_for_good_is_reported_once(
    service, worker_of, caplog, said, sentence
):
    service.script["touch"] = lambda iq: [said(iq)]
    async with worker_of(requests=2) as worker:
        service.deliver(worker.jid, "i1", **until(1))
        item = await anext(worker)
        with pytest.raises(Refused, match=sentence) as raised:
            await item.touch()
        assert (raised.value.node, raised.value.id) == ("jobs", "i1")
        for _ in range(2):
            await service.next("touch")
        await service.heard(worker.jid)
        assert sentence in caplog.text
        assert (item.state, watched(held_items(worker).keeper, 0)) == ("in hand", [])
