"""The counters: what a batch comes to, and that their number is bounded whatever the nodes are called."""

import pytest
from harness.batches.facts import ANN, ETL, JOBS, NOW, draft, held, who

from pubqueue.engine.observe import Took
from pubqueue.model.changes import AddItem
from pubqueue.model.decision import Decision, Done, Refusal, refuse
from pubqueue.model.entities import Jid, NodeName, State
from pubqueue.model.notices import Deliver, Purged
from pubqueue.monitor import counters
from pubqueue.monitor.counters import OTHERS, Tally
from pubqueue.rules.publication import Publish

TOOK = Took(0.002, 0.2)


def added(node=JOBS):
    return AddItem(node, draft("i1"), Jid("etl@x"), NOW, State.QUEUED, None, None)


def publish(node=JOBS):
    return Publish(who(ETL), node, (draft("i1"),))


def value(watch, name, **labels):
    return watch.registry.get_sample_value(f"pubqueue_{name}", labels)


def test_a_batch_is_counted_by_node_and_kind():
    watch = Tally()
    decisions = [Decision(Done(), (added(), added())), Decision(Done(), (added(NodeName("b")),))]
    deliveries = [Deliver(ANN, held(), b""), Purged(ANN, JOBS), Deliver(ANN, held(2), b"")]
    watch.committed([publish(), publish(NodeName("b"))], decisions, deliveries, TOOK)
    assert value(watch, "items_published_total", node=JOBS) == 2
    assert value(watch, "items_published_total", node="b") == 1
    assert value(watch, "items_delivered_total", node=JOBS) == 2
    assert value(watch, "requests_total") == 2
    assert value(watch, "batch_requests_bucket", le="2.0") == 1
    assert value(watch, "batch_deciding_seconds_bucket", le="0.0025") == 1
    assert value(watch, "batch_committing_seconds_sum") == pytest.approx(0.2)


def test_refusals_are_counted_by_condition_in_batches_and_beside_them():
    watch = Tally()
    no = refuse(Refusal.NODE_NOT_FOUND)
    watch.committed([publish()], [no], [], TOOK)
    watch.answered(no.reply)
    watch.answered(Done())
    assert value(watch, "requests_refused_total", condition="node-not-found") == 2
    assert value(watch, "reads_total") == 2


def test_nodes_beyond_the_bound_are_counted_together(monkeypatch):
    monkeypatch.setattr(counters, "MAX_NODES", 2)
    watch = Tally()
    names = [NodeName(name) for name in "abcd"]
    for name in [*names, *names]:
        watch.committed([publish(name)], [Decision(Done(), (added(name),))], [], TOOK)
    counts = {one: value(watch, "items_published_total", node=one) for one in ["a", "b", OTHERS]}
    assert counts == {"a": 2, "b": 2, OTHERS: 4}
    assert value(watch, "items_published_total", node="c") is None
