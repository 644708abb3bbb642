"""The indexes of conformance and the tests say the same."""

import re
from collections import Counter

import pytest
from harness.documents.conformance import ALL, NONE, ROOT, SERVERS, XEPS

of_each = pytest.mark.parametrize("index", ALL, ids=lambda index: index.page.name)


@of_each
def test_every_row_is_there_once_and_in_order(index):
    assert [row[0] for row in index.rows()] == list(index.names)


def faults(index, row):
    """Yield what is wrong with a row."""
    status, file = row[index.columns - 2 : index.columns]
    tests = row[index.columns]
    if not row[1]:
        yield "it says nothing"
    if not re.fullmatch(index.statuses, status):
        yield f"{status!r} is no status"
    if status.startswith(("held", "part")):
        if tests == NONE:
            yield "no test claims it"
        if file == NONE:
            yield "no file is named"
    if status in {"not yet", "does not apply"} and tests != NONE:
        yield "tests claim it: say which part of it holds"
    for name in re.findall(r"`([^`]+)`", file):
        if not (index.files / name).exists():
            yield f"there is no file {name}"


@of_each
def test_each_row_keeps_its_word(index):
    wrong = {row[0]: found for row in index.rows() if (found := list(faults(index, row)))}
    assert wrong == {}


@of_each
def test_the_index_shows_what_the_tests_claim(index):
    assert index.claims().keys() <= set(index.names)
    text = index.page.read_text()
    assert index.filled() == text, "run tools/conformance"
    links = set(re.findall(r"\]\((?:\.\./)+(tests/[^)]+)\)", text))
    assert [link for link in sorted(links) if not (ROOT / link).exists()] == []


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("| R1 | it is | held | `engine/face.py` | [a](b) |", []),
        ("| R1 |  | hold | - | - |", ["it says nothing", "'hold' is no status"]),
        ("| R1 | it is | part: some | - | - |", ["no test claims it", "no file is named"]),
        ("| R1 | it is | not yet | - | [a](b) |", ["tests claim it: say which part of it holds"]),
        ("| R1 | it is | elsewhere: there | `gone.py` | - |", ["there is no file gone.py"]),
    ],
)
def test_what_is_wrong_with_a_row_is_found(row, found):
    grpc = ALL[2]
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert list(faults(grpc, cells)) == found


def test_the_index_of_the_xeps_has_levels_and_counts_its_rows():
    assert len(XEPS.names) == 295
    rows = XEPS.rows()
    assert [row[0] for row in rows if row[3] not in {"M", "S", "Y"} or not row[2]] == []
    counts = Counter(row[4].partition(":")[0] for row in rows)
    summary = f"{counts['held']} held, {counts['part']} in part, {counts['not yet']} not yet."
    assert summary in XEPS.page.read_text()


def test_the_queue_holds_on_every_server():
    shown = {
        name: servers
        for name, *_, tests, servers in XEPS.rows()
        if name[:2] in {"K-", "Q-", "W-"} and tests != NONE
    }
    assert shown.pop("Q-056") == "ejabberd"  # Prosody lets no second component in
    assert shown == dict.fromkeys(shown, ", ".join(SERVERS))
