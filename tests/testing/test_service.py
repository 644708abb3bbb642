"""The service in the process: the real one, with time that a test lets pass."""

import asyncio
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import pytest
import structlog
from harness.patience import TIMEOUT, turns

from pubqueue.testing import Service
from pubqueue_xeps.client import login, logout, make_client
from pubqueue_xeps.client.xmpp_client import IN_PROCESS
from pubqueue_xeps.errors import LoginRefused, NoSuchNode, Refused, ServerUnreachable
from pubqueue_xeps.handlers import Handlers
from pubqueue_xeps.wire.publication import Retracted
from pubqueue_xeps.wire.refusals import Reject, Release
from pubqueue_xeps.worker.worker import Worker


@dataclass
class Order:
    number: int


async def nothing(_item):
    """Succeed."""


async def test_two_items_are_done_in_their_order(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    for name in "ab":
        service.publish("jobs", {"order": name}, id=name)
    seen = []

    async def handle(item):
        seen.append((item.id, item.payload.text, item.attempt, item.publisher))

    await service.work(handle, node="jobs")
    assert seen == [
        ("a", '{"order":"a"}', 1, "operator@localhost"),
        ("b", '{"order":"b"}', 1, "operator@localhost"),
    ]
    assert (service.done("jobs"), service.items("jobs")) == (["a", "b"], [])


async def test_what_fails_is_tried_again_until_it_is_dead_without_waiting(pubqueue_service):
    service = pubqueue_service
    service.create("jobs", max_failures=5, backoff_min=60, backoff_max=3600)
    service.publish("jobs", Order(7), id="a")
    attempts = []

    async def fail(item):
        attempts.append(item.attempt)
        raise ZeroDivisionError

    begun = time.monotonic()
    await service.work(fail, node="jobs")
    assert time.monotonic() - begun < 60  # the machine's, of minutes and hours of the service's
    assert attempts == [1, 2, 3, 4, 5]
    (kept,) = service.items("jobs")
    assert (kept.id, kept.state, kept.attempts, kept.failures, kept.reason) == (
        *("a", "dead", 5, 5),
        "ZeroDivisionError",
    )
    assert kept.payload == b"""<json xmlns='urn:xmpp:json:0'>{"number":7}</json>"""
    assert (service.dead("jobs"), service.attempts("jobs", "a")) == (["a"], 5)


async def test_what_is_dead_goes_to_its_dead_letter_node(pubqueue_service):
    service = pubqueue_service
    service.create("dead")
    service.create("jobs", dead_letter_node="dead")
    service.publish("jobs", "x", id="a")

    async def reject(_item):
        raise Reject("no good")

    await service.work(reject, node="jobs")
    assert service.items("jobs") == []
    assert [(item.id, item.reason) for item in service.items("dead")] == [("a", "no good")]


async def test_a_delay_ends_when_the_test_ends_it(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", 1, id="a", delay=60)
    service.advance(59.999)
    (kept,) = service.items("jobs")
    assert (kept.state, kept.due_in) == ("delayed", 0.001)
    service.advance(0.001)
    (kept,) = service.items("jobs")
    assert (kept.state, kept.due_in) == ("queued", None)


async def test_a_released_item_waits_and_comes_back(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", 1, id="a")

    async def release_once(item):
        if item.attempt == 1:
            raise Release(delay=600)

    await service.work(release_once, node="jobs")
    assert (service.done("jobs"), service.attempts("jobs", "a")) == (["a"], 2)


async def test_a_lock_times_out_under_a_worker_that_hangs(pubqueue_service):
    service = pubqueue_service
    service.create("jobs", lock_timeout=30)
    service.publish("jobs", 1, id="a")
    async with Worker(**service.account("slow"), node="jobs", signals=()) as worker:
        item = await anext(worker)
        service.advance(29)
        assert [kept.state for kept in service.items("jobs")] == ["locked"]
        service.advance(1)
        async with asyncio.timeout(TIMEOUT):
            await item.lock_lost.wait()
        assert [kept.failures for kept in service.items("jobs")] == [1]


async def test_an_item_may_be_too_old(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", 1, id="a", ttl=60)
    service.advance(61)
    assert [(kept.id, kept.reason) for kept in service.items("jobs")] == [
        ("a", "the time to live ended")
    ]


async def test_the_items_of_a_worker_that_goes_are_for_another_at_once(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", 1, id="a")
    client = Worker(**service.account("first"), node="jobs", signals=())
    async with client as worker:
        await anext(worker)
    await service.work(nothing, node="jobs")
    assert service.done("jobs") == ["a"]


async def test_several_workers_share_a_queue(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    by = set()
    both = asyncio.Barrier(2)

    def handler(name):
        async def handle(_item):
            by.add(name)
            if len(by) < 2:
                await turns()
            await both.wait()

        return handle

    for number in range(2):
        service.publish("jobs", number)
    workers = [
        Worker(**service.account(name), node="jobs", requests=1, signals=()) for name in ("a", "b")
    ]
    async with asyncio.timeout(TIMEOUT):
        await asyncio.gather(
            *(
                service.run(worker, handler(name), node="jobs")
                for worker, name in zip(workers, "ab", strict=True)
            )
        )
    assert by == {"a", "b"}


async def test_more_items_than_a_page_or_a_batch_has_are_due_at_once(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    for number in range(1100):
        service.publish("jobs", number, delay=10)
    service.advance(10)
    items = service.items("jobs")
    assert (len(items), {item.state for item in items}) == (1100, {"queued"})


async def test_headers_and_elements_come_as_they_were_given(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", Element("{urn:x}job", {"of": "<\"&'é"}), headers={"kind": "a & b"})
    seen = []

    async def handle(item):
        seen.append((item.payload.tag, item.payload.attrib, dict(item.headers)))

    await service.work(handle, node="jobs")
    assert seen == [("{urn:x}job", {"of": "<\"&'é"}, {"kind": "a & b"})]


async def test_ids_need_not_be_plain(pubqueue_service):
    service = pubqueue_service
    service.create("jobs & <more>")
    name = service.publish("jobs & <more>", 1, id="a'\"<&>")
    await service.work(nothing, node="jobs & <more>")
    assert service.done("jobs & <more>") == [name]


def test_it_is_there_for_code_that_blocks(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", 1, id="a")
    asyncio.run(service.work(nothing, node="jobs"))
    assert service.done("jobs") == ["a"]


async def test_a_wait_that_fails_is_reported_with_the_state(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", 1, id="a")
    with pytest.raises(
        TimeoutError, match=r"^'jobs' is not settled within 0.01 seconds: a queued$"
    ):
        await service.settled("jobs", within=0.01)


async def test_a_missing_node_is_reported(pubqueue_service):
    service = pubqueue_service
    with pytest.raises(LookupError, match="there is no node 'jobs'"):
        service.items("jobs")
    with pytest.raises(LookupError, match="there is no node 'jobs'"):
        await service.settled("jobs")
    with pytest.raises(NoSuchNode):
        service.publish("jobs", 1)
    with pytest.raises((NoSuchNode, LookupError)):
        await service.work(nothing, node="jobs")


def test_options_that_do_not_fit_are_named(pubqueue_service):
    service = pubqueue_service
    with pytest.raises(ValueError, match="max_failures"):
        service.create("jobs", max_failures=0)
    with pytest.raises(ValueError, match="no_such"):
        service.create("jobs", no_such=1)
    with pytest.raises(ValueError, match="takes seconds, 0 or more"):
        service.advance(-1)


def test_a_setting_may_be_named_in_full(pubqueue_service):
    service = pubqueue_service
    service.create("jobs", **{"pubsub#max_items": 1})
    service.publish("jobs", 1)
    with pytest.raises(Refused, match="full"):
        service.publish("jobs", 2)


async def test_a_test_begins_without_what_another_left(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", 1, id="a")
    async with Worker(**service.account(), node="jobs", signals=()) as worker:
        await anext(worker)
        service.clear()
        with pytest.raises(LookupError):
            service.items("jobs")
        service.create("jobs")
        assert (service.items("jobs"), service.done("jobs")) == ([], [])


async def test_a_wrong_password_is_refused(pubqueue_service):
    given = pubqueue_service.account()
    client = make_client(
        given["jid"], "wrong", host=given["host"], port=given["port"], tls=given["tls"]
    )
    with pytest.raises(LoginRefused):
        await login(client)


async def test_it_ends_without_a_trace_and_cannot_be_reached_then():
    before = set(threading.enumerate())
    with Service() as service:
        given = service.account()
        place = given["host"], given["port"]
        assert place in IN_PROCESS
    assert place not in IN_PROCESS
    assert set(threading.enumerate()) <= before
    client = make_client(
        given["jid"], given["password"], host=given["host"], port=given["port"], tls="off"
    )
    with pytest.raises(ServerUnreachable):
        await login(client)
    with pytest.raises(RuntimeError, match="does not run"):
        service.items("jobs")


async def test_what_it_logs_goes_to_the_standard_logger_and_nothing_else_does(
    pubqueue_service, caplog, capsys
):
    with caplog.at_level("INFO", "pubqueue.service"):
        pubqueue_service.create("jobs")
        pubqueue_service.publish("jobs", 1)
        await pubqueue_service.work(nothing, node="jobs")
        structlog.get_logger().info("mine")
    assert any(line.startswith("event=worker.subscribed ") for line in caplog.messages)
    assert [line.split("] ")[1].strip() for line in capsys.readouterr().out.splitlines()] == [
        "mine"
    ]


ALONE = """
import structlog
from pubqueue.testing import Service
before = structlog.get_config()
with Service() as one, Service():
    assert structlog.get_config() != before
assert structlog.get_config() == before and not structlog.is_configured()
structlog.configure(processors=[structlog.processors.JSONRenderer()])
before = structlog.get_config()
with Service():
    pass
assert structlog.get_config() == before
"""


def test_structlog_is_as_it_was_when_it_has_ended():
    ran = subprocess.run(
        [sys.executable, "-Ic", ALONE], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


async def test_two_services_know_nothing_of_each_other(pubqueue_service):
    with Service() as other:
        other.create("jobs")
        with pytest.raises(LookupError):
            pubqueue_service.items("jobs")


async def test_another_client_of_the_same_full_jid_takes_its_place(pubqueue_service):
    given = pubqueue_service.account()
    clients = [
        make_client(
            "bot@localhost/one",
            given["password"],
            host=given["host"],
            port=given["port"],
            tls="off",
        )
        for _ in range(2)
    ]
    lost = clients[0].wait_until("stream_error", timeout=TIMEOUT)
    await login(clients[0])
    waiting = asyncio.ensure_future(lost)
    await login(clients[1])
    assert (await waiting)["condition"] == "conflict"
    for client in clients:
        await logout(client)


async def test_what_no_handler_knows_is_dead_with_its_type(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", {"type": "mail"}, id="a")
    await service.work(Handlers(unknown_tries=3), node="jobs")
    assert [item.reason for item in service.items("jobs")] == ["no handler for type 'mail'"]
    assert service.attempts("jobs", "a") == 3


async def test_a_retract_reports_whether_a_worker_had_the_item(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", 1, id="a", delay=60)
    service.publish("jobs", 2, id="b")
    assert service.retract("jobs", "a") == Retracted("jobs", "a", there=True, locked=False)
    with pytest.raises(LookupError, match="there is no item 'a' in 'jobs'"):
        service.retract("jobs", "a")
    async with Worker(**service.account(), node="jobs", signals=()) as worker:
        item = await anext(worker)
        assert service.retract("jobs", "b") == Retracted("jobs", "b", there=True, locked=True)
        async with asyncio.timeout(TIMEOUT):
            await item.lock_lost.wait()
