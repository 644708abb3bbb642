"""The index of REST and the tests say the same."""

import re

import pytest
from harness.documents.conformance import NONE, ROOT
from harness.documents.protocol_conformance import REST, STATUS

TEXT = REST.page.read_text()
ROWS = REST.rows(TEXT)
COUNTS = {"R": 36, "H": 34, "W": 26}


def test_every_row_is_there_once_and_in_order():
    wanted = [f"{block}{n:02}" for block, count in COUNTS.items() for n in range(1, count + 1)]
    assert [row[0] for row in ROWS] == wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_keeps_its_word(row):
    _, behaviour, status, file, tests = row
    assert behaviour
    assert STATUS.fullmatch(status), f"{status!r} is no status"
    if status.startswith(("held", "part")):
        assert tests != NONE, "no test claims it"
        assert file != NONE
        for name in re.findall(r"`([^`]+)`", file):
            assert (ROOT / "component" / "pubqueue" / "faces" / "rest" / name).exists(), name


def test_the_index_shows_what_the_tests_claim():
    assert REST.claims().keys() <= {row[0] for row in ROWS}
    assert REST.filled(TEXT) == TEXT, "run tools/conformance"
