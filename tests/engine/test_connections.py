"""Connections of an instance that is gone are freed, and no others; and calls that would come all at once come in turns."""

from contextlib import asynccontextmanager
from itertools import groupby

import pytest
from harness.batches.facts import ANN, JOBS, NOW, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace
from harness.patience import turns
from harness.stores.store_reader import StoreReader
from structlog.testing import capture_logs

from pubqueue.engine import reaper, table
from pubqueue.engine.broker import Broker
from pubqueue.engine.connections import InTurns
from pubqueue.engine.context import Terms
from pubqueue.engine.facts import queue as facts
from pubqueue.engine.listings import ConnectionsOf, HeldBy, Holders, Total
from pubqueue.engine.reaper import free_connections
from pubqueue.engine.rows import HELD
from pubqueue.model.decision import Refused
from pubqueue.model.entities import ItemId, Jid, Principal
from pubqueue.model.replies import Subscribed
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.presence import FreeConnections
from pubqueue.rules.subscribe import Unsubscribe
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.in_memory import MemoryStore

SERVICE = Jid("queue.x")
LINES = [Jid(f"bee@{SERVICE}/line.7.{number}") for number in range(5)]
LOOKS_SO, OTHERS = Jid(f"bee@{SERVICE}/line.x.7.1"), Jid(f"bee@{SERVICE}/line.8.1")


async def test_only_connections_of_the_instance_are_freed(monkeypatch):
    monkeypatch.setattr(reaper, "PAGE", 2)
    store = MemoryStore()
    await store.open()
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
        service=Principal(SERVICE, admin=True),
    )
    WatchedFace(broker, []).up()
    broker.start()
    people = [*LINES, LOOKS_SO, OTHERS, ANN]
    await broker.handle(a_queue(access_model="open"))
    for number, jid in enumerate(people):
        await broker.handle(joins(jid))
        await broker.handle(publishes(f"{number}"))
    for jid in (*LINES[2:], OTHERS):  # they hold what they have, without a subscription
        await broker.handle(Unsubscribe(who(jid), JOBS, jid))
    await free_connections(broker, store, 7)
    await broker.settled()

    async def holder(number):
        item = await store.read(lambda tx: StoreReader(tx).item(JOBS, ItemId(f"{number}")))
        return item.holder, item.failed

    held = [await holder(number) for number in range(len(people))]
    assert held == [*[(None, 0)] * len(LINES), (LOOKS_SO, 0), (OTHERS, 0), (ANN, 0)]
    await broker.stop()
    await store.close()


async def test_what_is_freed_of_its_own_number_is_of_an_earlier_start():
    store = MemoryStore()
    await store.open()
    service = Principal(SERVICE, admin=True)
    broker = Broker(store, Terms(CreationPolicy.ANYONE), clock=lambda: NOW, service=service)
    WatchedFace(broker, []).up()
    broker.start()
    before = [Jid(f"bee@{SERVICE}/line.0.{name}") for name in ("1", "0123abcd-1")]
    newcomer = Jid(f"bee@{SERVICE}/line.0.{broker.new_name(1)}")
    await broker.handle(a_queue(access_model="open"))
    for jid in (*before, newcomer):
        await broker.handle(joins(jid))
    await free_connections(broker, store, 0)
    for jid in (*before, newcomer):
        reply = await broker.handle(Unsubscribe(who(jid), JOBS, jid))
        assert isinstance(reply, Refused) == (jid != newcomer)
    await broker.stop()
    await store.close()


@asynccontextmanager
async def started(path, **terms):
    """A broker of a process that starts on the store."""
    store = SqliteStore(path)
    await store.open()
    service = Principal(SERVICE, admin=True)
    broker = Broker(
        store, Terms(CreationPolicy.ANYONE, **terms), clock=lambda: NOW, service=service
    )
    broker.start()
    try:
        yield broker, store
    finally:
        await broker.stop()
        await store.close()


async def lay(path, count, items=1, window=1):
    """Make a store in which connections of a dead instance hold items."""
    async with started(path) as (broker, _):
        WatchedFace(broker, []).up()
        await broker.handle(a_queue(access_model="open"))
        for number in range(count):
            await broker.handle(joins(Jid(f"bee@{SERVICE}/line.7.{number}"), window))
        for number in range(items * count):
            await broker.handle(publishes(f"{number}"))
        await broker.settled()


class KilledError(Exception):
    """The service ends here."""


async def left(store):
    """Return how many subscriptions and holders there are."""
    rows = await store.read(lambda tx: tx.page(ConnectionsOf(SERVICE, 7), None, 1_000))
    return len(rows), len(await store.read(lambda tx: tx.page(Holders(), None, 1_000)))


async def statements_of_freeing(path, count):
    """Free so many connections, and return the statements of batches; one that runs for each of many rows counts once."""
    await lay(path, count)
    async with started(path) as (broker, store):
        run = []
        store.connection.raw.set_trace_callback(run.append)
        await free_connections(broker, store, 7)
        assert await left(store) == (0, 0)
    return [
        head for head, _ in groupby(line.partition("'")[0].rstrip("0123456789") for line in run)
    ]


async def test_a_slice_of_connections_takes_as_many_statements_as_one(tmp_path):
    one = await statements_of_freeing(tmp_path / "one.db", 4)
    many = await statements_of_freeing(tmp_path / "many.db", reaper.TOGETHER)
    assert (many.count("COMMIT"), len(many)) == (one.count("COMMIT"), len(one)), [*one, *many]


async def test_others_have_their_turn_before_the_next_slice(tmp_path, monkeypatch):
    monkeypatch.setattr(reaper, "TOGETHER", 2)
    await lay(tmp_path / "queue.db", 5)
    async with started(tmp_path / "queue.db") as (broker, store):
        order, handle = [], broker.handle

        async def beside(request):
            name = f"new{len(order)}"
            broker.submit(publishes(name), lambda _reply: order.append("other"))
            reply = await handle(request)
            order.append((await left(store))[1])
            return reply

        monkeypatch.setattr(broker, "handle", beside)
        await free_connections(broker, store, 7)
    assert order == ["other", 3, "other", 1, "other", 0]


async def test_what_one_connection_holds_is_freed_in_slices(tmp_path, monkeypatch):
    monkeypatch.setattr(facts, "AT_ONCE", HELD + 1)
    await lay(tmp_path / "queue.db", 2, items=3 * HELD, window=3 * HELD)
    decided, rule = [], table.RULES[FreeConnections]

    def decide(request, known):
        decided.append((len(request.jids), len(known.held)))
        return rule.decide(request, known)

    monkeypatch.setitem(table.RULES, FreeConnections, rule._replace(decide=decide))
    async with started(tmp_path / "queue.db") as (broker, store):
        await free_connections(broker, store, 7)
        assert await left(store) == (0, 0)
    assert sum(freed for _, freed in decided) == 6 * HELD
    assert max(freed for _, freed in decided) == HELD + 1


async def test_a_service_that_is_killed_while_it_frees_goes_on_at_the_next_start(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(reaper, "TOGETHER", 2)
    await lay(tmp_path / "queue.db", 5)
    async with started(tmp_path / "queue.db") as (broker, store):
        handle = broker.handle

        async def ends(request):
            await handle(request)
            raise KilledError

        monkeypatch.setattr(broker, "handle", ends)
        with pytest.raises(KilledError):
            await free_connections(broker, store, 7)
        assert await left(store) == (3, 3)
    async with started(tmp_path / "queue.db") as (broker, store):
        await free_connections(broker, store, 7)
        assert await left(store) == (0, 0)


async def test_a_connection_that_cannot_be_freed_keeps_no_other_from_it(tmp_path, monkeypatch):
    await lay(tmp_path / "queue.db", 5)
    bad, rule = Jid(f"bee@{SERVICE}/line.7.2"), table.RULES[FreeConnections]

    def fails(request, known):
        assert bad not in request.jids
        return rule.decide(request, known)

    monkeypatch.setitem(table.RULES, FreeConnections, rule._replace(decide=fails))
    async with started(tmp_path / "queue.db") as (broker, store):
        with capture_logs() as logs:
            await free_connections(broker, store, 7)
        assert await left(store) == (1, 1)
        assert await store.read(lambda tx: tx.page(Total(HeldBy(bad)), None, 1)) == [1]
    assert {one["jid"] for one in logs if one["event"] == "connection.not_freed"} == {bad}


@pytest.mark.parametrize("most", [2, 1])
async def test_a_subscription_beyond_a_limit_is_judged_again_when_former_ones_are_freed(
    tmp_path, most
):
    await lay(tmp_path / "queue.db", 2)
    async with started(tmp_path / "queue.db", max_subscriptions=most) as (broker, store):
        bees = [Jid(f"bee@{SERVICE}/line.0.{broker.new_name(number)}") for number in (1, 2)]
        replies = []
        with broker.freeing():
            for bee in bees:
                broker.submit(joins(bee), replies.append)
            await broker.settled()
            assert replies == []
            await free_connections(broker, store, 7)
        await broker.settled()
        assert [isinstance(reply, Subscribed) for reply in replies] == [True, most == 2]


async def test_many_calls_come_in_order_a_few_in_each_turn_and_one_that_fails_ends_no_other():
    made, in_turns = [], InTurns(3, "call.failed")

    def call(number):
        made.append(number)
        if number == 4:
            raise ValueError("no")

    with capture_logs() as logs:
        for number in range(8):
            in_turns.call(lambda number=number: call(number))
        assert made == [0, 1, 2]
        await turns()
        assert made == [0, 1, 2, 3, 4, 5]
        in_turns.call(lambda: call(8))
        await turns()
        assert made == list(range(9))
        in_turns.call(lambda: call(9))
        assert made == list(range(9)), "the turn has had its three"
        await turns()
        assert made == list(range(10))
    assert [one["event"] for one in logs] == ["call.failed"]


async def test_a_call_alone_is_made_at_once_however_often():
    made, in_turns = [], InTurns(1, "call.failed")
    for number in range(3):
        in_turns.call(lambda number=number: made.append(number))
        assert made == list(range(number + 1))
        await turns(2)


async def test_one_call_of_each_is_made_after_the_other_and_who_is_new_comes_first():
    """Who comes again and again is not new: only those who have had no turn for some time come before others who wait."""
    made, in_turns, order = [], InTurns(2, "call.failed"), []

    def ask(name):
        in_turns.call(lambda: made.append(name), name[0])

    async def turn():
        before = len(made)
        await turns()
        order.append(" ".join(made[before:]))

    for name in ("a0", "a1", "a2", "a3", "a4", "a5", "b0"):
        ask(name)
    assert made == ["a0", "a1"], "as long as the turn has room, nobody waits"
    await turn()
    ask("b1")
    ask("c0")
    for _ in range(4):
        await turn()
    assert order == ["a2 b0", "c0 a3", "b1 a4", "a5", ""]


async def test_calls_that_take_long_end_the_turn():
    now, made = 0.0, []

    def call(seconds):
        nonlocal now
        now += seconds
        made.append(seconds)

    in_turns = InTurns(9, "call.failed", 2.0, lambda: now)
    for seconds in (1, 0.5, 1, 3, 0.5, 0.5):
        in_turns.call(lambda seconds=seconds: call(seconds))
    assert made == [1, 0.5, 1]
    await turns()
    assert made == [1, 0.5, 1, 3]
    await turns()
    assert made == [1, 0.5, 1, 3, 0.5, 0.5]
