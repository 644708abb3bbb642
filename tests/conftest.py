"""What holds for all tests: Hypothesis, and who runs beside whom when `make test` uses several processes.

`make test` draws the same examples every time, `make fuzz` new ones and more of them.
"""

import pytest
from hypothesis import settings

# minutes, and Java's memory several times over: `make test-spark` names the folder
collect_ignore = ["spark_cluster"]

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("repeatable")

APART = ("tests/scenarios/", "tests/faults/", "tests/e2e/")
"""Each of these tests may run in any process: most of their time is waiting. Else a file stays together."""

FIRST = (
    "tests/spark/",
    "tests/e2e/test_demo.py",
    "tests/e2e/test_two_instances.py",
    "tests/e2e/test_faults_run.py",
    "tests/examples/",
)
"""What takes longest begins first, so that the end does not wait for one of them."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in the same hook
def pytest_collection_modifyitems(items):
    """Say what stays together (pytest-xdist: `--dist loadgroup`), and begin with what takes long."""
    for item in items:
        if "spark" in item.fixturenames:  # a session takes long to begin, and much memory
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif not item.nodeid.startswith(APART):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=_turn)  # stable: the order is random otherwise


def _turn(item):
    turns = [turn for turn, begin in enumerate(FIRST) if item.nodeid.startswith(begin)]
    return min(turns, default=len(FIRST))
