"""Who watches the service cannot harm it."""

from harness.asks import a_queue, joins, publishes
from harness.facts import ANN, BOSS, NOW, who
from harness.witness import WatchedFace
from structlog.testing import capture_logs

from pubqueue.app.broker import Broker
from pubqueue.core.decision import Published
from pubqueue.core.nodes.access import CreationPolicy
from pubqueue.core.notices import Deliver
from pubqueue.core.reading.pages import NodePage
from pubqueue.core.reading.read import ReadNodes
from pubqueue.stores.sqlite.in_memory import MemoryStore


class Broken:
    """A watch that fails at whatever it is told."""

    def committed(self, requests, decisions, deliveries, took):
        raise RuntimeError("a label too many")

    def answered(self, reply):
        raise RuntimeError("a label too many")


async def test_a_watch_that_fails_costs_a_line_in_the_log_and_nobody_his_work():
    store = MemoryStore()
    await store.open()
    broker = Broker(
        store,
        clock=lambda: NOW,
        policy=CreationPolicy.ANYONE,
        same_payload=lambda one, other: one == other,
        watch=Broken(),
    )
    said = []
    face = WatchedFace(broker, said)
    broker.start()
    face.up()
    with capture_logs() as logs:
        for request in (a_queue(), joins(ANN), publishes("a")):
            reply = await broker.handle(request)
        page = await broker.handle(ReadNodes(who(BOSS)))
        await broker.settled()
    assert isinstance(reply, Published)
    assert isinstance(page, NodePage)
    assert [one.item.id for one in said if isinstance(one, Deliver)] == ["a"]
    assert {one["event"] for one in logs} >= {"watch.failed"}
    assert not broker.task.done()
    await broker.stop()
    await store.close()
