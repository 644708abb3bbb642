"""The worker on the real component, behind Prosody and behind ejabberd."""

import asyncio
from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from harness.batches import inside
from harness.batches.inside import held_items, session_of
from harness.patience import LOOK, until
from harness.processes.program import write_config
from harness.processes.warm import WarmProgram
from harness.servers.behind import SERVICE, behind_both, client_of, publishing, serving, worker_at
from harness.servers.live import listener

from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.xmpp_client import login, logout
from pubqueue_xeps.errors import LockLost, NoSuchNode, NotAQueue
from pubqueue_xeps.wire.refusals import Reject, Release
from pubqueue_xeps.xep_0254 import queueing

pytestmark = pytest.mark.e2e
QUICK = Timings(answer=2, backoff_min=0.05, backoff_max=0.5)
NODES = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost", "second@localhost"]
[node.options]
"x-queueing#backoff_min" = 0

[[node]]
name = "short"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost", "second@localhost"]
[node.options]
"x-queueing#lock_timeout" = 1
"x-queueing#backoff_min" = 0

[[node]]
name = "plain"
"""


server = behind_both("etl", "bot", "second")
program = serving(NODES)


@pytest.fixture
async def leaping(server, tmp_path):
    """The same, with a time that stands still until the test lets it leap."""
    async with WarmProgram(write_config(tmp_path, listener(server), NODES)) as started:
        yield started


@pytest.fixture
def worker_of(server):
    return partial(worker_at, server, timings=QUICK)


async def passes(seconds, program):
    """Let its time leap so far."""
    end = program.clock.now() + seconds
    while (left := end - program.clock.now()) > 0:
        await program.leap(left)


def cut(worker):
    inside.cut(session_of(worker))


async def test_two_workers_share_the_items_and_each_is_done_once(server, program, worker_of):
    names = [f"i{n}" for n in range(100)]
    done, all_done = Counter(), asyncio.Event()

    async def handler(item):
        assert item.payload.get("nr") == item.id
        done[item.id] += 1
        if len(done) == len(names):
            all_done.set()

    workers = [worker_of(f"{name}@localhost", requests=4) for name in ("bot", "second")]
    async with publishing(server) as publish, asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(worker.run(handler))
        await publish(*names)
        await all_done.wait()
        for worker in workers:
            await worker.drain()
    assert done == Counter(names)


async def test_headers_come_along_each_time(server, program, worker_of):
    said = {"trace": "1", "unit": "µs", "kind": "<a&b>"}
    async with publishing(server) as publish, worker_of() as worker:
        await publish("i1", headers=said)
        async with await anext(worker) as first:
            assert first.headers == said
            raise Release
        async with await anext(worker) as second:
            assert (second.attempt, second.headers) == (2, said)


async def test_what_a_handler_gives_up_comes_again(server, program, worker_of):
    async with publishing(server) as publish, worker_of() as worker:
        await publish("i1")
        with pytest.raises(ZeroDivisionError):
            async with await anext(worker) as first:
                raise ZeroDivisionError
        async with await anext(worker) as second:
            assert (second.id, second.token > first.token) == ("i1", True)
        assert (first.state, second.state) == ("unlocked", "retracted")


async def test_a_retract_counts_when_nothing_is_left(server, program, worker_of):
    async with publishing(server) as publish, worker_of() as worker:
        await publish("i1")
        async with await anext(worker) as item:
            assert item.published <= item.deadline
        assert item.state == "retracted"
        await publish("i1")  # the id is free again
        assert (await anext(worker)).id == "i1"


async def test_the_lock_of_a_slow_worker_goes_to_another(server, leaping, worker_of):
    async with publishing(server) as publish, worker_of(node="short", touch_for=0) as slow:
        coming = asyncio.ensure_future(anext(slow))  # what is not begun soon goes back
        await publish("i1", node="short")
        item = await coming
        async with worker_of("second@localhost/two", node="short") as quick:
            coming = asyncio.ensure_future(anext(quick))
            await passes(1.1, leaping)
            async with await coming as again:
                assert (again.id, item.attempt, again.attempt) == ("i1", 1, 2)
                with pytest.raises(LockLost):
                    await item.retract()
            assert again.state == "retracted"


async def test_an_author_extends_a_lock(server, program, worker_of):
    async with publishing(server) as publish, worker_of(touch_for=0) as worker:
        await publish("i1")
        async with await anext(worker) as item:
            first = item.deadline
            assert await item.touch(1) == first  # a deadline never comes nearer
            assert await item.touch() == item.deadline > first


async def test_locks_are_extended_behind_a_handlers_back(server, leaping, worker_of):
    """The lock lasts a second; the worker that waits for it gets nothing in more than two."""
    async with publishing(server) as publish, worker_of(node="short") as slow:
        coming = asyncio.ensure_future(anext(slow))  # what is not begun soon goes back
        await publish("i1", node="short")
        async with await coming as item:
            first = item.deadline
            async with worker_of("second@localhost/two", node="short") as idle:
                coming = asyncio.ensure_future(anext(idle))
                for _ in range(3):
                    before = item.deadline
                    await passes(0.9, leaping)
                    await until(lambda before=before: item.deadline > before, every=LOOK)
                assert not coming.done()
                coming.cancel()
            assert item.deadline - first > timedelta(seconds=2)
        assert (item.state, item.attempt) == ("retracted", 1)


async def test_a_rejected_item_does_not_come_again_and_a_released_one_does(
    server, program, worker_of
):
    seen, over = [], asyncio.Event()

    async def handler(item):
        seen.append((item.id, item.attempt))
        if item.id == "bad":
            raise Reject("there is no such flight")
        if item.attempt == 1:
            raise Release(0.1)
        over.set()

    worker = worker_of()
    async with publishing(server) as publish:
        await publish("bad", "good")
        running = asyncio.create_task(worker.run(handler))
        await over.wait()
        await worker.drain()
        await running
        async with worker_of() as after:
            await publish("last")
            assert (await anext(after)).id == "last"
    assert seen == [("bad", 1), ("good", 1), ("good", 2)]


async def test_a_worker_alone_whose_connection_broke_gets_its_item_back(server, program, worker_of):
    """The service frees it, and hands it out again to the same worker, who has it in hand."""
    async with publishing(server) as publish, worker_of() as worker:
        await publish("i1")
        async with await anext(worker) as item:
            cut(worker)
        assert (item.attempt, item.state) == (2, "retracted")


async def test_a_worker_whose_connection_broke_may_lose_its_item(server, program, worker_of):
    async with publishing(server) as publish, worker_of() as worker:
        await publish("i1")
        item = await anext(worker)
        async with worker_of("second@localhost/two") as other:
            cut(worker)
            again = await anext(other)
            with pytest.raises(LockLost):
                await item.retract()
            await again.retract()


async def test_another_worker_gets_what_a_vanished_one_had(server, program, worker_of):
    async with publishing(server) as publish, worker_of("second@localhost/two") as other:
        async with worker_of() as vanishing:
            await publish("i1", "i2")
            held = {(await anext(vanishing)).id, (await anext(other)).id}
            assert held == {"i1", "i2"}
        held_items(other).release_all()
        assert {(await anext(other)).id} < held


async def test_a_worker_gets_what_a_session_that_ended_unheard_had(server, program, worker_of):
    """Without directed presence the service is not told of the end; its locks are not waited for."""
    async with publishing(server) as publish:
        unheard = client_of(server, "bot@localhost/one")
        await login(unheard)
        await queueing(unheard).subscribe_queue(SERVICE, "jobs", 2, jid="bot@localhost/one")
        await publish("i1", "i2")
        await logout(unheard)
        async with worker_of(requests=2) as worker:
            assert {(await anext(worker)).id, (await anext(worker)).id} == {"i1", "i2"}


async def test_a_retract_waits_for_a_component_that_was_killed(server, program, worker_of):
    async with publishing(server) as publish, worker_of() as worker:
        await publish("i1", "i2")
        item = await anext(worker)
        await program.kill()
        retracted = asyncio.create_task(item.retract())
        await program.start()
        await retracted
        assert item.state == "retracted"
        async with await anext(worker) as another:
            assert another.id == "i2"
        assert another.state == "retracted"


async def test_what_was_not_begun_goes_to_others_when_a_worker_stops(server, program, worker_of):
    async with publishing(server) as publish, worker_of(requests=3) as stopping:
        await publish("i1", "i2", "i3")
        async with await anext(stopping) as item:
            stopping.stop()
            async with worker_of("second@localhost/two", requests=3) as other:
                assert {(await anext(other)).id, (await anext(other)).id} == {"i2", "i3"}
        assert (item.id, item.state) == ("i1", "retracted")


@pytest.mark.parametrize(
    ("node", "error"),
    [
        ("nowhere", NoSuchNode("queue.localhost has no node 'nowhere'.")),
        (
            "plain",
            NotAQueue(
                "'plain' at queue.localhost is not a work queue: bad-request, invalid-options"
                " (pubsub#queue_requests: only queues have this option)."
            ),
        ),
    ],
)
async def test_a_wrong_node_is_one_sentence(program, worker_of, node, error):
    with pytest.raises(type(error)) as caught:
        await worker_of(node=node).__aenter__()
    assert str(caught.value) == str(error)
