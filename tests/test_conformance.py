"""The conformance index and the tests say the same."""

import re
from collections import Counter

import pytest
from harness.documents.conformance import INDEX, NONE, ROOT, SERVERS, claims, filled, rows

TEXT = INDEX.read_text()
ROWS = rows(TEXT)
BLOCKS = {
    "K": 10,
    "D": 11,
    "E": 5,
    "S": 22,
    "U": 6,
    "O": 17,
    "I": 15,
    "T": 9,
    "P": 21,
    "R": 7,
    "C": 9,
    "G": 11,
    "X": 6,
    "M": 7,
    "B": 5,
    "L": 10,
    "N": 13,
    "Q": 59,
    "W": 7,
    "QS": 45,
}
STATUS = re.compile(r"held|part: .+|not yet|does not apply")


def test_every_row_is_there_once_and_in_order():
    wanted = [f"{block}-{n:03}" for block, count in BLOCKS.items() for n in range(1, count + 1)]
    assert [row.id for row in ROWS] == wanted
    assert len(wanted) == 295


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_keeps_its_word(row):
    assert row.situation
    assert row.section
    assert row.level in {"M", "S", "Y"}
    assert STATUS.fullmatch(row.status), f"{row.status!r} is no status"
    built, shown = row.file != NONE, row.tests != NONE
    if row.status in {"not yet", "does not apply"}:
        assert not shown, "tests claim the row: say which part of it holds"
    else:
        assert built, "no file is named"
        assert shown, "no test is named"


def test_the_queue_holds_on_every_server():
    shown = {
        row.id: row.servers
        for row in ROWS
        if row.id[:2] in {"K-", "Q-", "W-"} and row.tests != NONE
    }
    assert shown.pop("Q-056") == "ejabberd"  # Prosody lets no second component in
    assert shown == dict.fromkeys(shown, ", ".join(SERVERS))


def test_the_files_named_exist():
    for row in ROWS:
        if row.file != NONE:
            for file in re.findall(r"`([^`]+)`", row.file):
                assert (ROOT / "component" / "pubqueue" / file).exists(), f"{row.id}: {file}"


def test_the_index_shows_what_the_tests_claim():
    known = {row.id for row in ROWS}
    assert claims().keys() <= known, f"no such rows: {claims().keys() - known}"
    assert filled(TEXT) == TEXT, "run tools/conformance"


def test_the_tests_named_exist():
    for link in set(re.findall(r"\]\(\.\./(tests/[^)]+)\)", TEXT)):
        assert (ROOT / link).exists(), link


def test_the_summary_counts_the_rows():
    counts = Counter(row.status.partition(":")[0] for row in ROWS)
    assert f"{counts['held']} held, {counts['part']} in part, {counts['not yet']} not yet." in TEXT
