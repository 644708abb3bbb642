"""The table of operations: each row can be asked, answered, carried as text, and logged."""

import pytest
from harness.facts import who
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pubqueue.app.operations import audit
from pubqueue.app.operations.cells import Cell, texts, value_of
from pubqueue.app.operations.given import Given
from pubqueue.app.operations.items import DEAD, ITEMS, PURGE, REDRIVE, RELEASE
from pubqueue.app.operations.model import Kind, UnfitError, fit
from pubqueue.app.operations.nodes import AFFILIATE, CONFIGURE, CREATE, QUEUES
from pubqueue.app.operations.service import END_SUBSCRIPTION
from pubqueue.app.operations.table import OPERATIONS
from pubqueue.app.operations.words import told
from pubqueue.app.rules import RULES
from pubqueue.core.model import State
from pubqueue.core.nodes.manage import Configure, Create, Purge
from pubqueue.core.nodes.nodeconfig import Settings
from pubqueue.core.queue.redrive import Redrive
from pubqueue.core.reading.read import ReadItems

BOSS = who("boss@x/desk")
SAMPLES = {
    Kind.NODE: "jobs",
    Kind.ITEM: "i1",
    Kind.JID: "bot@x",
    Kind.TEXT: "a",
    Kind.LINES: "lock_timeout=60",
    Kind.COUNT: "7",
    Kind.FLAG: "1",
}
MOMENTS = st.integers(min_value=0, max_value=4_000_000_000_000)
VALUES = {
    Cell.TEXT: st.text(min_size=1),
    Cell.COUNT: st.integers(),
    Cell.RATE: st.floats(allow_nan=False, allow_infinity=False),
    Cell.MOMENT: MOMENTS,
    Cell.SINCE: MOMENTS,
    Cell.FLAG: st.booleans(),
    Cell.NAMES: st.lists(st.text()).map(tuple),
}


def same(text):
    return text or None


def filled(operation):
    return Given(
        {
            one.name: (one.choices[0][0] if one.choices else SAMPLES[one.kind],)
            for one in operation.parameters
        }
    )


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_asks_what_the_core_knows(operation):
    request = operation.ask(BOSS, fit(operation, filled(operation), same))
    assert type(request) in RULES
    assert request.by is BOSS


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_what_an_operation_lacks_is_said(operation):
    for one in operation.parameters:
        if one.required and not one.usual:
            lacking = Given({**filled(operation), one.name: ()})
            with pytest.raises(UnfitError, match=f"^{one.name}: this has to be given"):
                fit(operation, lacking, same)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_pages_go_on_by_a_column(operation):
    names = [column.name for column in operation.columns]
    assert len(set(names)) == len(names)
    pages = any(one.name == "after" for one in operation.parameters)
    assert pages is (operation.place in names)


def test_what_cannot_be_undone_changes_something():
    assert {one.name for one in OPERATIONS.values() if one.sure} == {"purge", "delete"}
    assert all(one.changes for one in OPERATIONS.values() if one.sure)


@pytest.mark.parametrize(
    ("operation", "words", "sentence"),
    [
        (QUEUES, {"odd": ("1",)}, "odd: queues knows no such parameter"),
        (ITEMS, {"node": ("jobs", "more")}, "node: one value"),
        (ITEMS, {"node": ("jobs",), "after": ("-1",)}, "after: a whole number from 0"),
        (ITEMS, {"node": ("jobs",), "max": ("9" * 30,)}, "max: a whole number from 0"),
        (ITEMS, {"node": ("jobs",), "state": ("gone",)}, "state: one of dead, locked, "),
        (AFFILIATE, {"node": ("jobs",), "jid": (" ",)}, "jid: this has to be given"),
        (END_SUBSCRIPTION, {"node": ("jobs",), "worker": ("b@x",), "release": ("no",)}, "release"),
    ],
)
def test_what_cannot_be_meant_is_said(operation, words, sentence):
    with pytest.raises(UnfitError, match=f"^{sentence}"):
        fit(operation, Given(words), same)


def test_what_is_usual_is_meant_where_nothing_is_given():
    words = fit(AFFILIATE, Given(node=("jobs",), jid=("bot@x",)), same)
    assert words.one("affiliation") == "member"
    assert fit(ITEMS, Given(node=("jobs",), state=("",)), same).one("state") == "all"


def test_a_jid_is_normalised_by_who_knows_how_and_refused_where_it_is_none():
    words = Given(node=("jobs",), jid=("BOT@X",), affiliation=("member",))
    assert fit(AFFILIATE, words, str.lower).one("jid") == "bot@x"
    with pytest.raises(UnfitError, match=r"^jid: a JID looks like"):
        fit(AFFILIATE, words, lambda _text: None)


def test_requests_are_what_was_given():
    words = fit(REDRIVE, Given(node=("jobs",), item=("a", "b", "a")), same)
    assert REDRIVE.ask(BOSS, words) == Redrive(BOSS, "jobs", ("a", "b"))
    assert REDRIVE.ask(BOSS, Given(node=("jobs",))) == Redrive(BOSS, "jobs", None)
    assert PURGE.ask(BOSS, Given(node=("jobs",))) == Purge(BOSS, "jobs")
    expected = ReadItems(BOSS, "jobs", 5, max=9, state=State.DEAD, payloads=False)
    assert DEAD.ask(BOSS, Given(node=("jobs",), after=("5",), max=("9",))) == expected
    with pytest.raises(UnfitError, match=r"^item: choose"):
        RELEASE.ask(BOSS, Given(node=("jobs",)))


def test_settings_are_called_as_in_forms_or_shorter():
    lines = ("lock_timeout=60", "pubsub#max_items = 9", "x-queueing#enabled=1", "title=a=b")
    wanted = {"lock_timeout": "60", "max_items": "9", "queueing": "1", "title": "a=b"}
    request = CONFIGURE.ask(BOSS, Given(node=("jobs",), settings=lines))
    assert request == Configure(BOSS, "jobs", Settings(wanted))
    assert CREATE.ask(BOSS, Given(name=("new",))) == Create(BOSS, "new", Settings())
    for none in ((), ("lock_timeout",)):
        with pytest.raises(UnfitError, match=r"^settings: "):
            CONFIGURE.ask(BOSS, Given(node=("jobs",), settings=none))


@given(st.sampled_from(list(Cell)).flatmap(lambda cell: st.tuples(st.just(cell), VALUES[cell])))
def test_a_cell_survives_as_text(drawn):
    cell, value = drawn
    assert value_of(cell, texts(cell, value)) == value


@pytest.mark.parametrize("cell", Cell)
def test_nothing_is_nothing(cell):
    assert texts(cell, None) == ()
    assert value_of(cell, ()) == (() if cell is Cell.NAMES else None)
    assert told(cell, None, 0) == ""


def test_people_read_words():
    said = [
        told(Cell.SINCE, 1_000, 66_000),
        told(Cell.MOMENT, 1_001, None),
        told(Cell.RATE, 1.25, None),
        told(Cell.FLAG, value=True, now=None),
        told(Cell.NAMES, ("a", "b"), None),
    ]
    assert said == ["1 min 5 s", "1970-01-01T00:00:01.001Z", "1.2", "yes", "a, b"]


def test_who_changed_what_is_logged_and_who_looks_is_not():
    given = Given(node=("jobs",), item=("a", "b"), to=("other",), settings=("title=secret",))
    with capture_logs() as logs:
        audit.performed(REDRIVE, BOSS, given)
        audit.performed(ITEMS, BOSS, given)
    (line,) = logs
    assert line.pop("log_level") == "info"
    assert line == {
        "event": "operation",
        "operation": "redrive",
        "by": "boss@x/desk",
        "node": "jobs",
        "to": "other",
        "items": 2,
        "settings": "title",
    }
