"""Connections of an instance that is gone are freed, and no others; and calls that would come all at once come in turns."""

from harness.batches.facts import ANN, JOBS, NOW, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace
from harness.patience import turns
from harness.stores.store_reader import StoreReader
from structlog.testing import capture_logs

from pubqueue.engine import reaper
from pubqueue.engine.broker import Broker
from pubqueue.engine.connections import InTurns
from pubqueue.engine.context import Terms
from pubqueue.engine.reaper import free_connections
from pubqueue.model.decision import Refused
from pubqueue.model.entities import ItemId, Jid, Principal
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.subscribe import Unsubscribe
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
