"""The cost of committing an immediately visible version does not depend on how much was published in it."""

import pytest
from harness.batches.queue_requests import a_queue
from harness.batches.shell import Shell
from harness.batches.transactions import commits, stages

from pubqueue.model.transactions import Committed
from pubqueue.rules.validity import MAX_PUBLISHED

SMALL, LARGE = 20, 2_000
A_BIT = 300
"""Instructions of SQLite that a deeper index may cost."""


@pytest.mark.parametrize("attempts", [1, 4])
def test_immediately_visible_items_are_not_counted_again(tmp_path, attempts):
    costs = []
    for size in (SMALL, LARGE):
        shell = Shell(tmp_path / f"{size}.db")
        shell.do(a_queue())
        parts = []
        for part in range(attempts):
            names = [f"{part}-{number}" for number in range(size)]
            for at in range(0, size, MAX_PUBLISHED):
                shell.do(stages(*names[at : at + MAX_PUBLISHED], part=part, immediate=True))
            parts.append((part, 0, size))
        steps = []
        shell.connection.set_progress_handler(lambda steps=steps: steps.append(1), 1)
        reply = shell.do(commits(*parts))
        costs.append(len(steps))
        assert reply == Committed(1, size * attempts, 0, already=False)
        shell.close()
    assert costs[1] <= costs[0] + A_BIT, costs
