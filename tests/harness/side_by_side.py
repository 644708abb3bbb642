"""Which tests stay together when `make test` runs several processes (pytest-xdist), and which begin.

A test is known by its id. Any process may run any unit; which one does depends on speed, and the
result of a test does not.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

TOGETHER: Final = ("tests/spark/test_spark_", "proof/spark_cluster/")
"""The tests of one Spark session, or of one cluster, which takes long to start, and much memory."""

APART: Final = (
    "tests/scenarios/",
    "tests/e2e/",
    "proof/",
    "tests/faces/grpc/test_kill",
    "tests/faces/rest/served/test_kills.py",
    "tests/faces/stomp/served/test_kills.py",
    "tests/faces/xmpp/test_kills.py",
)
"""Most of the time of each of these is waiting, or begins with a server of its own."""

FIRST: Final = (
    *TOGETHER,
    "proof/demo/",
    "proof/faults_run/",
    "proof/stores/test_power_loss.py",
    "tests/faces/grpc/test_google_system.py",
)
"""The longest tests, in this order, so that the end does not wait for one of them."""


def unit(test: str) -> str:
    """Return the name of the unit that goes to one process: a session, a test or a file."""
    if together := next((one for one in TOGETHER if test.startswith(one)), None):
        return together
    return test if test.startswith(APART) else test.partition("::")[0]


def turn(test: str) -> int:
    """Return the turn of the test: those of the same turn are in random order."""
    turns = [turn for turn, begin in enumerate(FIRST) if test.startswith(begin)]
    return min(turns, default=len(FIRST))


class Units(LoadScopeScheduling):
    """Gives the next unit to a process that has nearly nothing left, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
