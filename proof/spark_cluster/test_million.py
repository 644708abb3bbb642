"""A driver that is killed in the middle of a long commit, and the job that is run again: the rows are there whole, or not at all.

`proof/millions` has the same with a million rows, and `python -m proof.spark_cluster.million --kill` with any number.
"""

import pytest
from harness.processes import slowed

from proof.spark_cluster import million

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

ROWS = 20_000
HALF = 25.0
"""Seconds that each half of the commit takes at least: the driver reports its progress every five."""


def test_a_driver_killed_while_its_rows_are_judged_and_another_while_they_are_moved():
    found = million.write(
        ROWS, payload=60, pause=HALF / (ROWS / slowed.SLICE), kill=million.MOMENTS
    )
    judging, moving = found.seen
    assert (judging.items, judging.records) == (0, []), "nothing is there before the mark"
    assert moving.records == [ROWS], "the mark has all of them"
    assert (found.visible, found.records) == (ROWS, [ROWS]), found.figures
    assert found.staged == 0, "of both drivers"
    assert any("are judged" in line for line in found.progress)
