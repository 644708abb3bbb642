"""Relays in processes of their own, as operators run them; `proof/outbox` kills more of them."""

import pytest
from harness.databases.outboxes import made
from harness.processes.killed_relays import Found, bring_through

pytestmark = pytest.mark.e2e


async def test_each_committed_row_is_one_item_although_relays_are_killed(tmp_path):
    place = made(f"sqlite:///{tmp_path / 'shop.db'}")
    found = await bring_through(tmp_path, place, rows=60, kills=2, seed=1)
    assert found.wrong() == []
    assert found.codes == [0, 0], "stopped by SIGTERM"


def test_what_goes_wrong_is_found():
    found = Found([("a", "g"), ("b", "g"), ("c", None), ("d", None)], ["b", "a", "c", "c", "e"])
    assert sorted(found.wrong()) == [
        "c came 2 times",
        "d came 0 times",
        "e was rolled back, and came",
        "g came as ['b', 'a']",
    ]
