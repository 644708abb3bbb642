"""Two components on one store, behind ejabberd, which gives every stanza to either of them. One is killed in
the middle, again and again: nothing is lost, nothing is done twice, and no two hold an item at a time."""

from collections import Counter
from contextlib import contextmanager

import pytest
from faults_run.places import PostgresPlace, SqlitePlace
from faults_run.plan import Fault, Plan
from faults_run.report import told
from faults_run.run import Run
from harness.postgres import Postgres

PLAN = Plan(
    items=2000,
    seed=1,
    workers=4,
    lock_timeout=20,
    instances=2,
    kinds=(Fault.COMPONENT, Fault.COMPONENT_RESTART, Fault.COMPONENT),
    log=True,
)


@contextmanager
def in_a_file(folder):
    yield SqlitePlace(folder / "pubqueue.db")


@contextmanager
def in_postgres(_folder):
    with Postgres() as server:
        yield PostgresPlace(server)


@pytest.mark.e2e
@pytest.mark.covers("Q-056", on=["ejabberd"])
@pytest.mark.parametrize("kept", [in_a_file, in_postgres])
async def test_two_instances_under_load_lose_nothing_and_never_lock_an_item_twice(tmp_path, kept):
    with kept(tmp_path) as place:
        run = Run(PLAN, "ejabberd", tmp_path, lambda _done, _what: None, place)
        outcome = await run.run(patience=400)
        events = place.events()
    assert outcome.good, told(outcome)
    assert set(outcome.faults) == {Fault.COMPONENT, Fault.COMPONENT_RESTART}
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
