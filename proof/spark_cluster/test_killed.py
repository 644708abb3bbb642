"""Whatever is killed, and whenever: each row is in the queue once. The payloads are random.

Another attempt of a task computes other payloads, so no two attempts publish the same: what the
service does about equal items cannot help here.
"""

import re
import sys

import pytest
from harness.patience import TIMEOUT, wait_until
from harness.processes import doomed
from harness.processes.program import Program
from harness.servers.relay import Relay
from harness.stores.queue_store import assert_once

from proof.spark_cluster import jobs
from proof.spark_cluster.driver import JobFailedError
from proof.spark_cluster.trial import HELD
from pubqueue_demo.process import ChildError

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

TXN = {"txnAppId": "nightly", "txnVersion": "7"}
SOON = {"progressTimeout": "2"}


@pytest.fixture(scope="module")
def driver(driver_on, cluster):
    with driver_on(cluster.master) as driver:
        yield driver


@pytest.mark.usefixtures("component")
def test_a_python_worker_killed_after_it_published(driver, trial):
    driver.run(jobs.write, trial.fault("worker"), rows=600, partitions=3)
    assert trial.happened("worker")
    assert len(trial.notes) == 4, "one task ran twice"
    assert_once(trial.store, 600)


@pytest.mark.usefixtures("component")
def test_an_executor_killed_behind_a_shuffle_has_the_stage_run_again(driver, trial):
    driver.run(jobs.write, trial.fault("executor"), rows=800, partitions=4)
    assert trial.happened("executor")
    assert trial.notes.count("0 0") == 2, "in another attempt of the stage, numbers begin anew"
    assert_once(trial.store, 800)


@pytest.mark.usefixtures("component")
def test_a_speculative_copy_that_wins(driver_on, cluster, trial):
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "1s",
    }
    with driver_on(cluster.master, **speculation) as driver:
        driver.run(jobs.write, trial.fault("stall"), rows=600, partitions=3)
    assert trial.happened("stall")
    assert len(trial.notes) >= 4, "a task ran twice at once"
    assert_once(trial.store, 600)


@pytest.mark.usefixtures("component")
@pytest.mark.parametrize("when", ["before commit", "after commit"])
def test_a_driver_killed_and_its_job_run_again_with_another_partitioning(driver_on, trial, when):
    """The second driver is as new as the first: Spark numbers its tasks as it did the first's."""
    with driver_on("local[2,3]") as first, pytest.raises(ChildError):
        first.run(jobs.write, trial.fault(when) | TXN, rows=600, partitions=2)
    assert trial.happened(when)
    with driver_on("local[2,3]") as second:
        for partitions in (3, 2):
            second.run(jobs.write, trial.options | TXN, rows=600, partitions=partitions)
            assert_once(trial.store, 600)


@pytest.mark.usefixtures("component")
def test_a_stream_whose_commit_took_effect_without_an_answer(driver, trial):
    place = trial.stream
    with pytest.raises(JobFailedError):
        driver.run(jobs.stream, trial.fault("planner after commit"), **place)
    assert trial.happened("planner after commit")
    driver.run(jobs.stream, trial.options, **place)
    assert_once(trial.store, 300, batches=3)


@pytest.mark.usefixtures("component")
def test_a_stream_whose_commit_log_lost_its_last_entry(driver, trial):
    place = trial.stream
    driver.run(jobs.stream, trial.options, **place)
    for entry in (trial.folder / "checkpoint" / "commits").glob("*2*"):
        entry.unlink()
    driver.run(jobs.stream, trial.options, **place)
    assert_once(trial.store, 300, batches=3)


@pytest.mark.usefixtures("component")
def test_two_drivers_on_one_checkpoint(driver, driver_on, trial):
    """The first comes back when the second, which took it for dead, has done all of its work."""
    place = trial.stream
    driver.send(jobs.stream, trial.fault(HELD), **place)
    trial.wait_for(HELD)
    with driver_on("local[2,3]") as second:
        second.run(jobs.stream, trial.options, **place)
    assert_once(trial.store, 300, batches=3)
    trial.note("go on")
    assert "CONCURRENT" in driver.failure()
    assert_once(trial.store, 300, batches=3)


def test_a_component_killed_while_items_are_staged(driver, component, trial):
    async def kill_and_start():
        await component.kill()
        await component.start()

    accident = trial.meanwhile(kill_and_start)
    driver.run(jobs.write, trial.fault(HELD) | SOON, rows=4000)
    accident.result(timeout=TIMEOUT)
    assert_once(trial.store, 4000)


@pytest.mark.parametrize("point", ["applied", "committed"])
def test_a_component_killed_in_mid_commit(driver, enter, configuration, trial, point):
    command = (sys.executable, doomed.__file__, f"{point}@CommitVersion", "1")
    with enter(Program(configuration, command)) as first:
        driver.send(jobs.write, trial.options | SOON, rows=1000)
        assert trial.background.run(first.ended(300), 310) == -9
    with enter(Program(configuration)):
        driver.result()
        assert_once(trial.store, 1000)


@pytest.mark.usefixtures("component")
def test_a_server_restarted_in_mid_batch(driver, trial, prosody):
    accident = trial.meanwhile(prosody.restart)
    driver.run(jobs.write, trial.fault(HELD), rows=4000)
    accident.result(timeout=TIMEOUT)
    assert_once(trial.store, 4000)


@pytest.mark.usefixtures("component")
def test_a_network_that_goes_silent_and_then_delivers_what_it_had(driver, enter, trial, prosody):
    """What the first stream was given arrives after all, when a second one has sent it again."""
    mark = {"txnAppId": "silent", "txnVersion": "1"}
    with enter(Relay(prosody.host, prosody.c2s_port)) as relay:
        relay.stall_after(100_000, 6)
        where = trial.options | SOON | mark | {"port": str(relay.port)}
        driver.run(jobs.write, where, rows=4000)
    line = r"version 1 of 'silent' .* (\d+) reconnects"
    (reconnects,) = wait_until(lambda: re.findall(line, driver.log.read_text()))
    assert int(reconnects) > 0
    assert_once(trial.store, 4000)
