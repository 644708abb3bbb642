"""Workers drain the queue while Spark fills it: nothing is lost, and nothing is done twice."""

import asyncio

import pytest
from harness.patience import wait_until
from harness.stores.queue_store import items, records

from proof.faults_run.notes import Notes
from proof.faults_run.plan import Plan
from proof.faults_run.workers import PASSWORD, Workers
from proof.spark_cluster import jobs

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

BATCHES = 10
ROWS = 10_000
TIMEOUT = 400.0


@pytest.fixture
def workers(background, prosody, component, tmp_path):
    """Two workers, each a process; returns their notes once they have been dismissed."""
    notes = Notes(tmp_path)
    workers = Workers(prosody, Plan(BATCHES * ROWS, seed=1, workers=2, requests=64), notes)
    for name in workers.names:
        background.run(prosody.account(name, PASSWORD))
    working = [
        asyncio.run_coroutine_threadsafe(workers.keep_running(name), background.loop)
        for name in workers.names
    ]

    def stop():
        background.run(workers.stop())
        for each in working:
            each.result(timeout=60)
        notes.read()
        return notes

    yield stop
    background.run(workers.stop())


def test_100_000_items_written_by_2_tasks_while_workers_drain_them(
    driver_on, component, options, workers
):
    with driver_on("local[2,3]") as driver:
        for batch in range(BATCHES):
            mark = {"txnAppId": "drained", "txnVersion": str(batch)}
            driver.run(jobs.write_numbered, options | mark, first=batch * ROWS, rows=ROWS)
    wait_until(lambda: not items(component.store), every=0.2, within=TIMEOUT, why="items are left")
    notes = workers()
    assert notes.results.keys() == {str(n) for n in range(BATCHES * ROWS)}, "lost 0"
    assert set(notes.results.values()) == {1}, "duplicates 0"
    assert (notes.redelivered, notes.late) == (0, 0)
    assert records(component.store) == [ROWS] * BATCHES
