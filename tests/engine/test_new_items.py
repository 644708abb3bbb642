"""Readers of plain nodes read their items after a number, and are called when any process writes new ones."""

import asyncio
import tracemalloc
from contextlib import asynccontextmanager

import pytest
from harness.batches.facts import BOSS, ETL, EVE, JOBS, who
from harness.batches.queue_requests import a_queue, publishes
from harness.batches.shell import Shell
from harness.batches.transactions import commits, stages
from harness.patience import TIMEOUT, turns

from pubqueue.engine import fan_out, reaper
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms, now
from pubqueue.engine.facts import reading
from pubqueue.engine.ports import StoreError
from pubqueue.engine.reaper import OtherProcesses
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, NodeName
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Delete
from pubqueue.rules.retrieve import ReadNewer
from pubqueue.rules.settle import Settle, Verb
from pubqueue.stores import store_at
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.store import SqliteSession

NEWS, OTHER = NodeName("news"), NodeName("other")
LARGE = 200_000


def declares(node=NEWS, **settings):
    people = {"owners": (Jid("boss@x"),), "publishers": (Jid("etl@x"),)}
    return Declare(who(BOSS, admin=True), node, Settings(settings), **people)


def puts(*names, node=NEWS, **more):
    return publishes(*names, node=node, **more)


def newer(after=0, by=EVE, node=NEWS, **more):
    return ReadNewer(who(by), node, after, **more)


def ids(reply):
    return [item.id for item, _ in reply.items]


class TestPages:
    """Reading, on rows of a store."""

    @pytest.fixture
    def shell(self, tmp_path):
        shell = Shell(tmp_path / "queue.db")
        shell.batch(declares(), declares(OTHER))
        yield shell
        shell.close()

    def test_items_come_by_number_page_by_page(self, shell):
        for name in "abc":
            shell.batch(puts(name), puts(name, node=OTHER))
        first = shell.do(newer(most=2))
        assert (ids(first), first.more, first.kept) == (["a", "b"], True, True)
        rest = shell.do(newer(first.through))
        assert (ids(rest), rest.more, rest.kept) == (["c"], False, True)
        assert rest.through == rest.newest
        end = shell.do(newer(rest.through))
        assert (ids(end), end.through, end.more) == ([], rest.through, False)

    def test_an_overwritten_item_is_returned_again(self, shell):
        shell.batch(puts("a"), puts("b"))
        known = shell.do(newer())
        shell.do(puts("a", payload=b"<new/>"))
        again = shell.do(newer(known.through))
        assert [(item.id, payload) for item, payload in again.items] == [("a", b"<new/>")]

    def test_a_reader_at_a_removed_item_is_notified(self, shell):
        shell.batch(puts("a"), puts("b"), puts("c"))
        first = shell.do(newer(most=1))
        shell.do(Settle(who(ETL), NEWS, (ItemId("a"),), Verb.RETRACT))
        left = shell.do(newer(first.through))
        assert (ids(left), left.kept) == (["b", "c"], False)

    def test_without_a_number_one_begins_with_what_comes(self, shell):
        shell.do(puts("a"))
        begin = shell.do(newer(None))
        assert ids(begin) == []
        shell.do(puts("b"))
        assert ids(shell.do(newer(begin.through))) == ["b"]

    def test_an_answer_is_bounded_in_items_and_in_bytes(self, shell, monkeypatch):
        monkeypatch.setattr(reading, "MAX_ITEMS", 3)
        shell.do(puts(*"abcdef", payload=b"1234567890"))
        assert ids(shell.do(newer(most=100))) == list("abc")
        page = shell.do(newer(room=25))
        assert (ids(page), page.more) == (["a", "b"], True)
        assert ids(shell.do(newer(room=1))) == ["a"]

    @pytest.mark.parametrize("number", [-1, 1 << 63, 1 << 200])
    def test_any_number_is_answered(self, shell, number):
        shell.do(puts("a"))
        assert ids(shell.do(newer(number))) == (["a"] if number < 0 else [])

    def test_a_queue_and_what_is_closed_are_not_read(self, shell):
        shell.batch(a_queue(access_model="whitelist"), puts("a", node=JOBS))
        assert shell.do(newer(node=JOBS)).refusal in {Refusal.FORBIDDEN, Refusal.CLOSED_NODE}
        assert shell.do(newer(node=JOBS, by=BOSS)).refusal is Refusal.BAD_REQUEST
        assert shell.do(newer(node=NodeName("no"))).refusal is Refusal.NODE_NOT_FOUND


class Follower:
    """Reads a node on each call, like a face, from its position."""

    def __init__(self, broker, node=NEWS):
        self._broker, self._node = broker, node
        self._through = 0
        self.heard = asyncio.Queue()
        self.calls = 0
        self.end = broker.new_items.wait(node, self.read)

    def read(self):
        self.calls += 1
        self._broker.submit(newer(self._through, node=self._node), self._take)

    def _take(self, reply):
        if isinstance(reply, Refused):
            self.heard.put_nowait(reply.refusal)
            return
        fresh = [item for item, _ in reply.items if item.seq > self._through]
        self._through = max(self._through, reply.through)
        for item in fresh:
            self.heard.put_nowait(item.id)

    async def next(self):
        async with asyncio.timeout(TIMEOUT):
            return await self.heard.get()


@asynccontextmanager
async def process(store):
    await store.open()
    watch = OtherProcesses(store)
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=now,
        instance=await store.instances.enter(),
    )
    broker.start()
    watch.start(broker)
    try:
        yield broker
    finally:
        await watch.stop()
        await broker.stop()
        await store.close()


@pytest.fixture
def store():
    return store_at("memory:")


@pytest.fixture
async def broker(store):
    async with process(store) as broker:
        for node in (NEWS, OTHER):
            await broker.handle(declares(node))
        yield broker


async def test_a_waiting_reader_is_called_for_new_and_existing_items(broker):
    await broker.handle(puts("a"))
    follower = Follower(broker)
    assert await follower.next() == "a"
    await broker.handle(puts("b", "c"))
    assert [await follower.next(), await follower.next()] == ["b", "c"]


async def test_items_of_a_commit_are_items_too(broker):
    follower = Follower(broker)
    await broker.handle(stages("a", node=NEWS))
    await broker.handle(commits((0, 0, 1)))
    assert await follower.next() == "a"


async def test_a_reader_of_another_node_is_not_called(broker):
    one, other = Follower(broker), Follower(broker, OTHER)
    await broker.handle(puts("a"))
    assert await one.next() == "a"
    await broker.settled()
    assert other.calls == 1  # for what may have been there
    assert other.heard.empty()


async def test_an_ended_reader_is_not_called_and_causes_no_reads(broker, store, monkeypatch):
    follower = Follower(broker)
    await broker.handle(puts("a"))
    assert await follower.next() == "a"
    follower.end()
    follower.end()
    await broker.settled()
    read = []
    monkeypatch.setattr(store, "read", read.append)
    await broker.handle(puts("b"))
    await broker.settled()
    assert read == []


async def test_a_call_that_fails_keeps_no_other_from_its_own(broker):
    def fails():
        raise ValueError("no")

    broker.new_items.wait(NEWS, fails)
    follower = Follower(broker)
    await broker.handle(puts("a"))
    assert await follower.next() == "a"


async def test_a_node_that_is_deleted_is_something_new(broker):
    follower = Follower(broker)
    await broker.handle(puts("a"))
    assert await follower.next() == "a"
    await broker.handle(Delete(who(BOSS), NEWS))
    assert await follower.next() is Refusal.NODE_NOT_FOUND


async def test_many_nodes_are_looked_at_in_parts(broker, monkeypatch):
    monkeypatch.setattr(fan_out, "MAX_NODES", 2)
    names = [NodeName(f"n{number}") for number in range(7)]
    for name in names:
        await broker.handle(declares(name))
    followers = [Follower(broker, name) for name in names]
    for name in names:
        await broker.handle(puts(f"of-{name}", node=name))
    assert [await each.next() for each in followers] == [f"of-{name}" for name in names]


async def test_a_store_that_does_not_answer_is_asked_again(broker, store, monkeypatch):
    monkeypatch.setattr(fan_out, "RETRY", 0.01)
    follower = Follower(broker)
    await broker.handle(puts("a"))
    assert await follower.next() == "a"
    failures, read = 3, store.read

    async def fails(job):
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise StoreError("gone")
        return await read(job)

    monkeypatch.setattr(store, "read", fails)
    await broker.handle(puts("b"))
    while await follower.next() != "b":
        follower.read()


async def test_items_of_another_process_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(reaper, "PROCESSES_PERIOD", 0.01)
    path = tmp_path / "queue.db"
    async with process(SqliteStore(path)) as one, process(SqliteStore(path)) as other:
        await one.handle(declares())
        follower = Follower(other)
        for number in range(3):
            await one.handle(puts(f"i{number}"))
            assert await follower.next() == f"i{number}"


async def test_a_thousand_followers_are_called_a_few_in_each_turn(broker):
    called = []
    for number in range(1000):
        broker.new_items.wait(NEWS, lambda number=number: called.append(number))
    async with asyncio.timeout(TIMEOUT):
        most = 0
        while len(called) < 1000:
            before = len(called)
            await turns()
            most = max(most, len(called) - before)
    assert called == list(range(1000))
    assert most == fan_out.CALLS


async def test_a_follower_that_ends_before_its_turn_is_not_called(broker, monkeypatch):
    called = []
    ends = [
        broker.new_items.wait(NEWS, lambda number=number: called.append(number))
        for number in range(fan_out.CALLS + 1)
    ]
    async with asyncio.timeout(TIMEOUT):
        while not called:
            await turns()
    ends[-1]()
    await broker.settled()
    await turns(3)
    assert called == list(range(fan_out.CALLS))


async def test_behind_a_page_that_is_full_no_other_payload_is_loaded(broker, monkeypatch):
    await broker.handle(puts("a", "b", payload=b"<a>1234567890</a>"))
    loaded, stream = [], SqliteSession.stream

    def counting(self, query, room, *values):
        for row in stream(self, query, room, *values):
            loaded.append(row[-1])
            yield row

    monkeypatch.setattr(SqliteSession, "stream", counting)
    page = await broker.handle(newer(room=1))
    assert (ids(page), page.more, loaded) == (["a"], True, [b"<a>1234567890</a>"])


async def test_the_reader_keeps_no_answer(broker):
    await broker.handle(puts("a", payload=b"<a>%b</a>" % (b"x" * LARGE)))
    await broker.handle(newer())
    tracemalloc.start()
    try:
        await broker.handle(newer())
        await broker.settled()
        assert tracemalloc.get_traced_memory()[0] < LARGE // 2
    finally:
        tracemalloc.stop()
