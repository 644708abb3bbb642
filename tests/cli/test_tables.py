"""Tables at 80 columns: names are whole, prose is wrapped, and what matters least is left out."""

import io

import pytest
from rich.console import Console

from pubqueue.cli import tables
from pubqueue.operations.dead import DEAD
from pubqueue.operations.items import EVENTS, ITEMS
from pubqueue.operations.model import Cell
from pubqueue.operations.nodes import MEMBERS, QUEUES
from pubqueue.operations.schedules import SCHEDULES
from pubqueue.operations.service import WORKERS

NAME = "a3f6c1b0-77aa-4b1e-9d2f-0c5e8d1f4a21"
ACCOUNT = "rebooking-worker@workers.example.org/7"
PROSE = "the seat map of flight 4711 could not be read: connection refused by peer"
OF_TEXT = {
    "state": "paused, closed to publishers",
    "error": PROSE,
    "holder": ACCOUNT,
    "last_holder": ACCOUNT,
    "jid": ACCOUNT,
    "affiliation": "publisher",
    "origin": "jobs",
    "node": "flights-delayed",
    "times": "30 7 * * MON Europe/Berlin",
    "source": "the configuration file",
}


def value(column):
    match column.cell:
        case Cell.TEXT:
            return OF_TEXT.get(column.name, NAME)
        case Cell.COUNT:
            return 12_345
        case Cell.RATE:
            return 1234.5
        case Cell.NAMES:
            return (NAME, NAME)
        case Cell.FLAG:
            return True
        case _:
            return 1_700_000_000_000


def drawn(operation, room):
    row = {one.name: None if one.name in tables.RARE else value(one) for one in operation.columns}
    console = Console(file=io.StringIO(), width=room, highlight=False, color_system=None)
    console.print(tables.table(operation.columns, [row], 1_700_000_200_000, room))
    return console.file.getvalue()


@pytest.mark.parametrize("room", [80, 100, 200])
@pytest.mark.parametrize(
    "operation", [QUEUES, ITEMS, DEAD, MEMBERS, SCHEDULES], ids=lambda it: it.name
)
def test_names_are_whole_and_the_first_column_stays(operation, room):
    lines = drawn(operation, room).splitlines()
    assert max(map(len, lines)) <= room
    (first, *_) = operation.columns
    assert any(line.startswith(first.label.split()[0]) for line in lines)
    words = {word for line in lines for word in line.split()}
    assert str(value(first)) in words
    if room == 200:
        labels = " ".join(lines[:4])
        assert all(
            column.label.split()[-1] in labels for column in operation.columns if not column.more
        )


def test_a_name_in_a_list_is_whole():
    assert drawn(WORKERS, 80).count(NAME) == 2


def test_prose_is_wrapped_at_its_words():
    words = {word for line in drawn(ITEMS, 80).splitlines() for word in line.split()}
    assert set(PROSE.split()) <= words


def test_a_name_wider_than_the_terminal_is_broken_and_not_lost():
    row = {"jid": "a" * 100, "affiliation": "owner"}
    console = Console(file=io.StringIO(), width=60, highlight=False, color_system=None)
    console.print(tables.table(MEMBERS.columns, [row], None, 60))
    assert console.file.getvalue().count("a") >= 100


def test_without_a_terminal_every_line_is_whole():
    assert "Milliseconds" not in drawn(EVENTS, tables.UNBOUNDED)
    assert len(drawn(ITEMS, tables.UNBOUNDED).splitlines()) == 2


def test_columns_that_few_rows_have_are_shown_with_these():
    row = {column.name: value(column) for column in ITEMS.columns}
    console = Console(file=io.StringIO(), width=400, highlight=False, color_system=None)
    console.print(tables.table(ITEMS.columns, [row], 1_700_000_200_000, 400))
    shown = console.file.getvalue()
    assert "Waits for" in shown
    assert "Waits for" not in drawn(ITEMS, 400)
