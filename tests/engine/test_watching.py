"""Observers cannot harm the service."""

from harness.batches.facts import ANN, BOSS, NOW, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace
from structlog.testing import capture_logs

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Payloads, Terms
from pubqueue.engine.observe import Phase
from pubqueue.model.decision import Published
from pubqueue.model.notices import Deliver
from pubqueue.model.replies import NodePage
from pubqueue.monitor.process import ProcessObserver, ProcessObservers
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.read import ReadNodes
from pubqueue.stores.sqlite.in_memory import MemoryStore


class Broken(ProcessObserver):
    """An observer that fails at every event."""

    def ready(self):
        raise RuntimeError("a label too many")

    def at_work(self, broker, traffic):
        raise RuntimeError("a label too many")

    def at_rest(self, phase):
        raise RuntimeError("a label too many")

    def committed(self, requests, decisions, deliveries, took):
        raise RuntimeError("a label too many")

    def answered(self, reply):
        raise RuntimeError("a label too many")


class Noting(ProcessObserver):
    """An observer that records events."""

    def __init__(self):
        self.reported = []

    def ready(self):
        self.reported.append("ready")

    def at_work(self, broker, traffic):
        self.reported.append("at work")

    def at_rest(self, phase):
        self.reported.append(phase.value)

    def committed(self, requests, decisions, deliveries, took):
        self.reported += [type(request).__name__ for request in requests]

    def answered(self, reply):
        self.reported.append(type(reply).__name__)


def test_progress_is_reported_to_all_callers_even_if_one_fails():
    noting = Noting()
    observers = ProcessObservers((Broken(), noting))
    with capture_logs() as logs:
        observers.at_rest(Phase.STARTING)
        observers.ready()
        observers.at_work(None, ())
        observers.at_rest(Phase.STOPPING)
    assert noting.reported == ["starting", "ready", "at work", "stopping"]
    assert [one["event"] for one in logs] == ["watch.failed"] * 4
    assert [one.get("phase") for one in logs] == ["starting", None, "at work", "stopping"]


def test_an_observer_passes_over_what_it_has_no_use_for():
    observers = ProcessObservers((ProcessObserver(),))
    with capture_logs() as logs:
        observers.ready()
        observers.at_work(None, ())
        observers.at_rest(Phase.WAITING)
        observers.committed([], [], [], None)
        observers.answered(None)
    assert logs == []


async def test_a_failing_observer_costs_a_line_in_the_log_only():
    noting = Noting()
    store = MemoryStore()
    await store.open()
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
        payloads=Payloads(lambda one, other: one == other),
        observers=(Broken(), noting),
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
    assert {"Publish", "NodePage"} <= set(noting.reported), "the next one is told all the same"
    assert not broker.task.done()
    await broker.stop()
    await store.close()
