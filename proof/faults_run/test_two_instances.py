"""Two components on one store, behind ejabberd, which gives every stanza to either of them. One is killed in
the middle, again and again: nothing is lost, nothing is done twice, and no two hold an item at a time."""

from collections import Counter
from dataclasses import replace

import pytest

from proof.faults_run.plan import Fault, Plan
from proof.faults_run.report import reported
from proof.faults_run.run import Run

PLAN = Plan(
    items=2000,
    seed=1,
    workers=4,
    lock_timeout=20,
    instances=2,
    kinds=(Fault.COMPONENT, Fault.COMPONENT_RESTART, Fault.COMPONENT),
    log=True,
)


@pytest.mark.e2e
@pytest.mark.covers("Q-056", on=["ejabberd"])
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_two_instances_under_load_lose_nothing_and_never_lock_an_item_twice(tmp_path, store):
    plan = replace(PLAN, store=store)
    outcome = await Run(plan, "ejabberd", tmp_path, lambda _done, _what: None).run(patience=400)
    assert outcome.good, reported(outcome)
    assert set(outcome.faults) == {Fault.COMPONENT, Fault.COMPONENT_RESTART}
    once_at_a_time(outcome.events)
    counted = Counter(outcome.events)
    for item in outcome.confirmed:
        assert (counted["published", item], counted["completed", item]) == (1, 1)


@pytest.mark.e2e
async def test_two_instances_under_load_keep_the_order_and_the_limit_of_groups(tmp_path):
    plan = replace(PLAN, items=800, store="postgres", groups=12)
    outcome = await Run(plan, "ejabberd", tmp_path, lambda _done, _what: None).run(patience=400)
    assert outcome.good, reported(outcome)
    for group in {plan.group(item) for item in outcome.confirmed}:
        events = [(kind, item) for kind, item in outcome.events if plan.group(item) == group]
        assert most_at_a_time(events) == 1
        published = [item for kind, item in events if kind == "published"]
        delivered = dict.fromkeys(item for kind, item in events if kind == "delivered")
        assert list(delivered) == published


@pytest.mark.e2e
@pytest.mark.covers("QS-043", on=["ejabberd"])
@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_two_instances_under_load_deliver_at_a_level(tmp_path, level):
    kinds = Fault.COMPONENT, Fault.WORKER, Fault.STALL, Fault.COMPONENT_RESTART
    plan = replace(PLAN, items=1000, store="postgres", level=level, kinds=kinds)
    outcome = await Run(plan, "ejabberd", tmp_path, lambda _done, _what: None).run(patience=400)
    assert outcome.good, reported(outcome)
    once_at_a_time(outcome.events)
    counted = Counter(outcome.events)
    for item in outcome.confirmed:
        assert (counted["published", item], counted["completed", item]) == (1, 1)


def most_at_a_time(events):
    """Return how many items were in work at a time, as a log tells it."""
    held, most = set(), 0
    for kind, item in events:
        if kind == "delivered":
            held.add(item)
        elif kind in {"completed", "unlocked", "expired"}:
            held.remove(item)
        most = max(most, len(held))
    return most


def once_at_a_time(events):
    """Say that nothing is given to two at a time, and all is settled."""
    held = set()
    for kind, item in events:
        if kind == "delivered":
            assert item not in held
            held.add(item)
        elif kind in {"completed", "unlocked", "expired"}:
            held.remove(item)
    assert held == set()
