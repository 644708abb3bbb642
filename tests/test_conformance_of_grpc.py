"""The index of gRPC and the tests say the same."""

import re

import pytest
from harness.documents.conformance import NONE, ROOT
from harness.documents.protocol_conformance import GRPC, STATUS

TEXT = GRPC.page.read_text()
ROWS = GRPC.rows(TEXT)
COUNT = 52


def test_every_row_is_there_once_and_in_order():
    assert [row[0] for row in ROWS] == [f"G{n}" for n in range(1, COUNT + 1)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_keeps_its_word(row):
    _, behaviour, status, file, tests = row
    assert behaviour
    assert STATUS.fullmatch(status), f"{status!r} is no status"
    if status.startswith(("held", "part")):
        assert tests != NONE, "no test claims it"
        assert file != NONE
        for name in re.findall(r"`([^`]+)`", file):
            assert (ROOT / "component" / "pubqueue" / name).exists(), name


def test_the_index_shows_what_the_tests_claim():
    assert GRPC.claims().keys() <= {row[0] for row in ROWS}
    assert GRPC.filled(TEXT) == TEXT, "run tools/conformance"
