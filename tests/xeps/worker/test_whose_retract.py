"""A retract without an answer is asked again, and the item is gone: whose retract deleted it?

Told to be done is only who deleted the item for certain.
"""

import pytest
from harness.servers.queue_service import in_turn, refuse, result, stamp

from pubqueue_xeps.errors import GoneUnconfirmed, LockLost, NotConfirmed

pytestmark = pytest.mark.e2e


def gone(iq):
    return [refuse(iq, "item-not-found")]


async def retract(service, worker_of, *answers, **lock):
    """Let the service answer a retract and its repetitions; return what became of the item."""
    service.script["retract"] = in_turn(*answers)
    async with worker_of(timings={"answer": 0.5}) as worker:
        service.deliver(worker.jid, "i1", **lock)
        item = await anext(worker)
        try:
            await item.retract()
        finally:
            assert item.state in {"retracted", "lost", "gone"}
        return item.state


async def test_ours_while_the_connection_stands_and_the_lock_has_not_timed_out(service, worker_of):
    """As when the component is killed behind its commit: it frees nothing by that."""
    assert await retract(service, worker_of, lambda _: [], gone) == "retracted"


async def test_not_known_once_the_lock_has_timed_out_by_the_services_clock(service, worker_of):
    with pytest.raises(GoneUnconfirmed):
        await retract(service, worker_of, lambda _: [], gone, deadline=stamp(-1))


async def test_not_known_where_the_service_reports_no_time(service, worker_of):
    service.script["time"] = lambda iq: [refuse(iq, "service-unavailable")]
    with pytest.raises(GoneUnconfirmed):
        await retract(service, worker_of, lambda _: [], gone)


async def test_not_known_after_a_notice_that_the_lock_ended(service, worker_of):
    def unlocked(iq):
        return [service.unlocked(iq)]

    with pytest.raises(GoneUnconfirmed):
        await retract(service, worker_of, unlocked, gone)


async def test_not_known_where_the_service_reports_no_locks(service, worker_of):
    service.script["query"] = lambda iq: [refuse(iq, "service-unavailable")]
    service.script["retract"] = in_turn(lambda _: [], gone)
    async with worker_of(timings={"answer": 0.5}) as worker:
        service.send(service.event(worker.jid, "<item id='i1'/>"))
        async with await anext(worker) as item:
            pass
        assert item.state == "gone"


async def test_an_acceptance_that_comes_late_counts(service, worker_of):
    kept = []

    def late(iq):
        return [result(kept[0]), refuse(iq, "item-not-found")]

    first = lambda iq: kept.append(iq) or []  # noqa: E731
    assert await retract(service, worker_of, first, late, deadline=stamp(-1)) == "retracted"


async def test_the_first_request_did_nothing_if_its_late_answer_shows_it(service, worker_of):
    """It met no item; and neither did those behind it."""
    kept = []

    def late(iq):
        return [refuse(kept[0], "item-not-found"), refuse(iq, "item-not-found")]

    with pytest.raises(LockLost):
        await retract(service, worker_of, lambda iq: kept.append(iq) or [], late)


async def test_what_was_asked_about_an_earlier_lock_did_not_delete_the_item(service, worker_of):
    def relock(_iq):
        service.deliver("bot@localhost/one", "i1", token=2, attempt=2)
        return []

    with pytest.raises(LockLost):
        await retract(service, worker_of, relock, gone, token=1)


async def twice(service, worker_of, answer, **lock):
    """Have a retract that gets no answer, and retract again what is then answered so; return what became of the item."""
    service.script["retract"] = lambda iq: []
    async with worker_of(timings={"patience": 0.2}) as worker:
        service.deliver(worker.jid, "i1", **lock)
        item = await anext(worker)
        with pytest.raises(NotConfirmed):
            await item.retract()
        service.script["retract"] = answer
        try:
            await item.retract()
        finally:
            assert item.state in {"retracted", "lost", "gone"}
        return item.state


async def test_a_second_retract_of_what_the_first_deleted_for_certain_is_done(service, worker_of):
    assert await twice(service, worker_of, gone) == "retracted"


async def test_a_second_retract_does_not_report_a_lost_lock_for_what_may_be_done(
    service, worker_of
):
    with pytest.raises(GoneUnconfirmed, match="'i1' is gone; whether this worker's"):
        await twice(service, worker_of, gone, deadline=stamp(-1))


@pytest.mark.parametrize("condition", ["conflict", "unexpected-request"])
async def test_a_second_retract_of_what_is_still_there_has_lost_its_lock(
    service, worker_of, condition
):
    with pytest.raises(LockLost):
        await twice(service, worker_of, lambda iq: [refuse(iq, condition)])
