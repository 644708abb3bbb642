"""Jobs of millions of rows on two cores, with a service that is so slow that each half of the commit outlasts every timeout."""

import pytest
from harness.processes import slowed

from proof.spark_cluster import million

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

TIMEOUT = 180.0
"""Seconds without any progress after which a driver gives up: progressTimeout, for the 5 retries and once more."""


@pytest.mark.parametrize("rows", [1_000_000, 5_000_000])
def test_a_commit_takes_the_time_that_its_rows_need(rows):
    pause = 1.2 * TIMEOUT / (rows / slowed.SLICE)
    found = million.write(rows, pause=pause)
    assert (found.visible, found.records, found.staged) == (rows, [rows], 0), found.figures
    assert found.commit > 2 * TIMEOUT, "the service was not slow"


def test_a_driver_killed_twice_in_its_commit_leaves_a_million_rows_whole():
    rows = 1_000_000
    pause = 60.0 / (rows / slowed.SLICE)
    found = million.write(rows, pause=pause, kill=million.MOMENTS)
    judging, moving = found.seen
    assert (judging.items, judging.records, moving.records) == (0, [], [rows])
    assert (found.visible, found.records) == (rows, [rows]), found.figures
    assert any("are judged" in line for line in found.progress)
