"""What a refusal means to a client: ask again, or not."""

import asyncio

import pytest
from harness.servers.queue_service import refuse

from pubqueue_xeps.errors import Refused, ServiceUnavailable
from pubqueue_xeps.wire.refusals import (
    Failed,
    Outcome,
    Refusal,
    Reject,
    Release,
    failure,
    outcome_of,
)
from pubqueue_xeps.worker.settlement import Answer, answer_of

DISK_FULL = Refusal("wait", "internal-server-error")
FAULT = Refusal("cancel", "internal-server-error")
AWAY = [
    Refusal("cancel", "remote-server-not-found"),
    Refusal("cancel", "service-unavailable"),
    Refusal("wait", "resource-constraint"),
]


@pytest.mark.parametrize("refusal", [DISK_FULL, *AWAY])
def test_a_service_that_is_away_for_a_while_is_asked_again(refusal):
    assert refusal.is_transient
    assert answer_of(refusal) is Answer.AGAIN
    assert isinstance(failure(refusal, "queue.localhost", "jobs"), ServiceUnavailable)


def test_a_service_that_has_met_a_fault_of_its_own_is_not_asked_again():
    assert not FAULT.is_transient
    assert answer_of(FAULT) is None
    assert isinstance(failure(FAULT, "queue.localhost", "jobs"), Refused)


# Whose fault it is: outcomes from exceptions, and what of them goes over the wire.


OURS = "{urn:x-pubqueue:0}"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Release(), Outcome("release")),
        (Release(60), Outcome("release", 60)),
        (Failed("seats are down", 30), Outcome("failed", 30, "seats are down")),
        (Reject("no such flight"), Outcome("reject", reason="no such flight")),
        (ValueError("the passenger's name"), Outcome("failed", reason="ValueError")),
        (asyncio.CancelledError(), Outcome("release")),
        (KeyboardInterrupt(), Outcome("release")),
    ],
)
def test_what_an_exception_says(error, outcome):
    assert outcome_of(error) == outcome


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf")])
def test_a_delay_that_is_none_is_refused_where_it_is_written(delay):
    with pytest.raises(ValueError, match=f"delay is {delay}; it takes seconds, 0 or more"):
        Release(delay)


def test_a_reason_is_cut_and_cleaned():
    reason = Outcome("reject", reason="\x00" + 2000 * "x").attributes()["reason"]
    assert reason == "\ufffd" + 1022 * "x"


def beside(iq):
    """Return what stands beside the verb."""
    return [(child.tag.removeprefix(OURS), dict(child.attrib)) for child in iq[0][1:]]


async def given_back(worker, service, error, token=17):
    """Return how an item is given back whose block raises `error`."""
    service.deliver(worker.jid, "i1", token=token)
    try:
        async with await anext(worker) as item:
            raise error
    finally:
        assert item.state == "unlocked"
    return beside(await service.next("unlock"))


@pytest.mark.e2e
async def test_an_item_that_is_released_or_rejected_does_not_end_the_loop(service, worker_of):
    async with worker_of() as worker:
        assert await given_back(worker, service, Release(2.5)) == [
            ("lock", {"token": "17"}),
            ("outcome", {"type": "release", "delay": "2.500"}),
        ]
        assert await given_back(worker, service, Reject("a'b<c>\""), token=18) == [
            ("lock", {"token": "18"}),
            ("outcome", {"type": "reject", "reason": "a'b<c>\""}),
        ]


@pytest.mark.e2e
async def test_any_other_exception_is_a_failure_and_its_text_stays_here(service, worker_of):
    async with worker_of() as worker:
        with pytest.raises(ValueError, match="secret"):
            await given_back(worker, service, ValueError("secret"))
        assert beside(await service.next("unlock")) == [
            ("lock", {"token": "17"}),
            ("outcome", {"type": "failed", "reason": "ValueError"}),
        ]


@pytest.mark.e2e
async def test_an_author_unlocks_with_an_outcome(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            await item.unlock(Outcome("failed", delay=1, reason="later"))
        outcome = {"type": "failed", "delay": "1.000", "reason": "later"}
        assert beside(await service.next("unlock"))[1:] == [("outcome", outcome)]


@pytest.mark.e2e
async def test_a_service_that_knows_no_outcomes_gets_a_plain_unlock(service, worker_of):
    service.script["query"] = lambda iq: [refuse(iq, "service-unavailable")]
    async with worker_of() as worker:
        assert not await given_back(worker, service, Reject("no such flight"))


@pytest.mark.e2e
async def test_whether_outcomes_are_known_is_asked_again_with_each_subscription(service, worker_of):
    info = service.script["query"]
    service.script["query"] = lambda iq: [refuse(iq, "service-unavailable")]
    async with worker_of(timings={"refresh": 0.05}) as worker:
        await service.subscriber()
        service.script["query"] = info
        await service.subscriber()
        await service.subscriber()
        assert [name for name, _ in await given_back(worker, service, Release())] == [
            "lock",
            "outcome",
        ]


@pytest.mark.e2e
async def test_run_logs_what_each_handler_raised(service, worker_of):
    errors = {"one": Release(), "two": Reject("never"), "three": ZeroDivisionError()}

    async def handler(item):
        raise errors[item.id]

    worker = worker_of()
    running = asyncio.create_task(worker.run(handler))
    jid = await service.subscriber()
    said = []
    for name in errors:
        service.deliver(jid, name)
        said.append(beside(await service.next("unlock"))[1][1])
    await worker.drain()
    await running
    assert said == [
        {"type": "release"},
        {"type": "reject", "reason": "never"},
        {"type": "failed", "reason": "ZeroDivisionError"},
    ]


async def for_ever(item):
    await asyncio.Event().wait()


@pytest.mark.e2e
async def test_a_handler_that_the_end_cancels_has_not_failed(service, worker_of):
    worker = worker_of(grace=0.05)
    running = asyncio.create_task(worker.run(for_ever))
    service.deliver(await service.subscriber(), "i1")
    await service.heard(worker.jid)
    worker.stop()
    assert beside(await service.next("unlock"))[1:] == [("outcome", {"type": "release"})]
    await running


@pytest.mark.e2e
async def test_a_handler_whose_own_task_was_cancelled_costs_no_place(service, worker_of):
    """The cancellation of something that a handler waited for is not the worker's."""

    async def handler(item):
        if item.id == "i1":
            raise asyncio.CancelledError

    worker = worker_of()
    running = asyncio.create_task(worker.run(handler))
    jid = await service.subscriber()
    service.deliver(jid, "i1")
    assert beside(await service.next("unlock"))[1:] == [("outcome", {"type": "release"})]
    service.deliver(jid, "i2")
    await service.next("retract")
    await worker.drain()
    await running
