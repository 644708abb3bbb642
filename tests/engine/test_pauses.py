"""No batch does more than a limited amount of work, however much is pending; rows and steps are counted, not time."""

from pathlib import Path

import pytest
from bench.loads import LOADS
from bench.pauses import measure

ROWS = 5_500
"""More than the largest slice: a sweep of 4,000 rows, and what the trickle does beside it."""
STEPS = 1_000
"""Thousands of instructions of SQLite."""
SIZES = {
    "ripen-nodes": 300,
    "recovery": 5_000,
    "dear-stanzas": 15,
    "pipelined-reads": 300,
    "large-publishes": 12,
    "strangers": 6_000,
    "publishes-together": 3_000,
    "settles-together": 3_000,
    "items-for-some": 300,
    "feed-many": 60,
    "feed-large": 120,
    "feed-in-slices": 60,
    "items-for-many": 1_200,
}
"""Of loads that take long to lay, or are many stanzas."""
USUAL = 12_000


@pytest.mark.parametrize("name", [name for name in LOADS if name != "commit-large"])
async def test_the_work_of_one_batch_is_bounded(name, tmp_path: Path):
    pause = await measure(LOADS[name], SIZES.get(name, USUAL), tmp_path)
    assert pause.effort.rows <= ROWS
    assert pause.effort.steps <= STEPS
    assert all(pause.waits.values())
