"""Two components on one store, behind ejabberd, which gives every stanza to either of them. One is killed in
the middle, again and again: nothing is lost, nothing is done twice, and no two hold an item at a time."""

import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from faults_run.plan import Fault, Plan
from faults_run.report import told
from faults_run.run import Run

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
async def test_two_instances_under_load_lose_nothing_and_never_lock_an_item_twice(tmp_path):
    outcome = await Run(PLAN, "ejabberd", tmp_path, lambda _done, _what: None).run(patience=400)
    assert outcome.good, told(outcome)
    assert set(outcome.faults) == {Fault.COMPONENT, Fault.COMPONENT_RESTART}
    with closing(sqlite3.connect(tmp_path / "pubqueue.db")) as store:
        events = store.execute("SELECT kind, item FROM event ORDER BY seq").fetchall()
    held = set()
    for kind, item in events:
        if kind == "delivered":
            assert item not in held
            held.add(item)
        elif kind in {"completed", "unlocked", "expired"}:
            held.remove(item)
    assert held == set()
    counted = Counter(events)
    for item in outcome.confirmed:
        assert (counted["published", item], counted["completed", item]) == (1, 1)
