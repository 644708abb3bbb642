"""The table of operations: each row can be requested, answered, written as text, and logged."""

import pytest
from harness.batches.facts import NIGHTLY, NOW, who
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from structlog.testing import capture_logs

from pubqueue.cli.operations import BY_HAND, ELSEWHERE, command_of
from pubqueue.engine.table import RULES
from pubqueue.model.decision import Cancelled
from pubqueue.model.entities import State, seconds
from pubqueue.model.schedules import Definition, SchedulePage
from pubqueue.operations import table
from pubqueue.operations.dead import DEAD, DISCARD, REASONS, REDRIVE
from pubqueue.operations.items import CANCEL, EVENTS, ITEMS, PURGE, RELEASE
from pubqueue.operations.model import (
    Cell,
    Given,
    Of,
    ParameterKind,
    Readers,
    UnfitError,
    cell_text,
    fit,
    texts,
    value_of,
)
from pubqueue.operations.nodes import AFFILIATE, CONFIGURE, CREATE, QUEUES
from pubqueue.operations.schedules import ADD, CHANGE, DEFINING, FIRE, SHOW
from pubqueue.operations.service import END_SUBSCRIPTION
from pubqueue.operations.table import OPERATIONS
from pubqueue.rules.dead_letters import Cancel, Discard, ReadReasons, Redrive
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Purge
from pubqueue.rules.read import ReadItems
from pubqueue.rules.schedules import AddSchedule

BOSS = who("boss@x/desk")
SAMPLES = {
    ParameterKind.NODE: "jobs",
    ParameterKind.ITEM: "i1",
    ParameterKind.JID: "bot@x",
    ParameterKind.TEXT: "1:a",
    ParameterKind.LINES: "a: b=60",
    ParameterKind.COUNT: "7",
    ParameterKind.NUMBER: "7",
    ParameterKind.PAYLOAD: "<job xmlns='urn:x'/>",
    ParameterKind.FLAG: "1",
}
WHOLE = {
    "name": ("a",),
    "cron": ("0 3 * * *",),
    "node": ("jobs",),
    "payload": ("<job xmlns='urn:x'>", " a", "</job>"),
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


def payload(text):
    if not text.startswith("<"):
        raise ValueError("no element")
    return text.encode(), "urn:x"


SAME = Readers(same, payload)


def filled(operation):
    found = {
        one.name: (one.choices[0][0] if one.choices else SAMPLES[one.kind],)
        for one in operation.parameters
        if one.name not in {"reason", "at"}  # items are named, or a reason; a link begins with `at`
    }
    if operation in (ITEMS, DEAD):
        found["after"] = ("7",)  # a number, in the order of the numbers
    return Given(found)


def asks(operation, words):
    return operation.ask(BOSS, fit(operation, Given(words), SAME))


def test_each_operation_asks_what_the_core_knows():
    requests = {name: asks(one, filled(one)) for name, one in OPERATIONS.items()}
    assert {name for name, one in requests.items() if type(one) not in RULES} == set()
    assert {name for name, one in requests.items() if one.by is not BOSS} == set()


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_each_optional_parameter_is_asked_for(operation):
    """One of its values makes another request than none."""
    whole = filled(operation)
    by_reason = any(one.name == "reason" for one in operation.parameters)  # `after` goes on with it
    for one in operation.parameters:
        if one.required or one.name not in whole or (one.name == "after" and by_reason):
            continue
        flags = ("0", "1") if one.kind is ParameterKind.FLAG else whole[one.name]
        values = [value for value, _ in one.choices] or flags
        if one.name == "sort" and operation in (ITEMS, DEAD):
            whole = whole.without("after")  # in other orders it is a place
        asked = [asks(operation, whole | {one.name: (value,)}) for value in values]
        rest = {name: value for name, value in whole.items() if name != one.name}
        assert any(each != asks(operation, rest) for each in asked), one.name


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_missing_parameter_is_named(operation):
    for one in operation.parameters:
        if one.required and not one.usual:
            lacking = Given({**filled(operation), one.name: ()})
            with pytest.raises(UnfitError, match=f"^{one.name}: this has to be given"):
                fit(operation, lacking, SAME)


def test_pages_go_on_by_a_column():
    names = {name: [it.name for it in one.columns] for name, one in OPERATIONS.items()}
    assert {name: it for name, it in names.items() if len(set(it)) != len(it)} == {}
    paged = {
        name for name, one in OPERATIONS.items() if "after" in (it.name for it in one.parameters)
    }
    assert paged == {name for name, one in OPERATIONS.items() if one.place in names[name]}


NO_STATE = "what it lists has no states"
NO_REASON = "what it lists has no error, or nothing else that went wrong"
OF_ONE = "it describes one thing, a few lines that are read as a whole"
LOG = "a log of any length is read by its numbers; a node and an item choose what is read"
WITHOUT = {
    "overview": {"reason": NO_REASON},
    "queues": {"reason": NO_REASON},
    "definitions": {
        "state": "a state is no part of a definition",
        "reason": NO_REASON,
        "sort": "by name, so that two exports of the same nodes are the same text",
    },
    "settings": dict.fromkeys(("match", "sort", "state", "reason"), OF_ONE),
    "members": {"reason": NO_REASON},
    "dead": {"state": "it is a state"},
    "reasons": {"state": NO_STATE, "reason": "its rows are reasons, of which a part is searched"},
    "deaths": {"state": "it is a state"},
    "item": dict.fromkeys(("match", "sort", "state", "reason"), OF_ONE),
    "events": dict.fromkeys(("match", "sort", "state", "reason"), LOG),
    "workers": {"reason": NO_REASON},
    "connections": {"reason": NO_REASON},
    "kept-messages": {"state": NO_STATE, "reason": NO_REASON},
    "alerts": {"reason": "its rows are reasons, of which a part is searched"},
}
"""By what a list cannot be searched, and why not."""
ALSO = {("overview", "match"): "containing", ("members", "state"): "affiliation"}
"""Parameters with other names."""


def test_each_list_can_be_searched_and_sorted_or_there_is_a_reason_why_not():
    lacking = {}
    for name, one in OPERATIONS.items():
        if one.changes or one.single:
            continue
        own = {it.name for it in one.parameters}
        wanted = ("match", "sort", "state", "reason")
        lacking[name] = {word for word in wanted if ALSO.get((name, word), word) not in own}
    assert {name: words for name, words in lacking.items() if words} == {
        name: set(reasons) for name, reasons in WITHOUT.items()
    }


def test_the_commands_of_lists_have_these_options():
    """A list that has no command of its own is a part of another one."""
    also = ALSO | {("overview", "match"): "match"}
    for name, one in OPERATIONS.items():
        command = BY_HAND.get(name) or command_of(one)
        options = {option for it in command.params for option in it.opts}
        if one.changes or one.single or name in ELSEWHERE:
            continue
        for word in {"match", "sort", "state", "reason"} - WITHOUT.get(name, {}).keys():
            assert f"--{also.get((name, word), word)}" in options, (name, word)
    of_delete = {option for it in BY_HAND["delete"].params for option in it.opts}
    assert {"--match", "--state"} <= of_delete


def test_irreversible_operations_change_something():
    final = {one.name for one in OPERATIONS.values() if one.final}
    assert final == {"purge", "delete", "discard", "cancel"}
    assert {one.name for one in OPERATIONS.values() if one.sure} == final - {"cancel"}
    assert all(OPERATIONS[name].changes for name in final)


def test_what_takes_something_away_is_not_asked_for_by_chance():
    takes = {one.name for one in OPERATIONS.values() if one.takes_away}
    final = {one.name for one in OPERATIONS.values() if one.final}
    words = ("remove", "end", "drop", "delete", "release")
    named = {name for name in OPERATIONS if any(word in name.split("-") for word in words)}
    assert takes == final | named


def test_a_question_says_what_it_is_about_and_what_cannot_be_undone():
    asked = [one for one in OPERATIONS.values() if one.actions]
    assert {one.name for one in asked} == {one.name for one in OPERATIONS.values() if one.question}
    assert all(one.changes and one.question.count("{}") == 1 for one in asked)
    what = Of.REASON.value.format(node="jobs", reason="no {} *")
    assert DISCARD.question_about(what) == (
        "Delete the dead items of jobs that died of “no {} *”? This cannot be undone."
    )
    assert RELEASE.question_about(Of.ITEMS.value.format(node="jobs", items="2 items")) == (
        "Release 2 items of jobs? Other workers can get them at once, and no failure is counted."
    )
    assert PURGE.confirmation("jobs") == (
        "All items of jobs will be deleted, those that workers hold too. This cannot be undone."
    )
    assert CANCEL.confirmation("jobs") == ""


@pytest.mark.parametrize(
    ("operation", "words", "sentence"),
    [
        (QUEUES, {"odd": ("1",)}, "odd: queues knows no such parameter"),
        (ITEMS, {"node": ("jobs", "more")}, "node: one value"),
        (EVENTS, {"node": ("jobs",), "after": ("-1",)}, "after: a whole number from 0"),
        (ITEMS, {"node": ("jobs",), "max": ("9" * 30,)}, "max: a whole number from 0"),
        (ITEMS, {"node": ("jobs",), "max": ("9" * 5_000,)}, "max: a whole number from 0"),
        (ITEMS, {"node": ("jobs",), "state": ("gone",)}, "state: one of dead, locked, "),
        (AFFILIATE, {"node": ("jobs",), "jid": (" ",)}, "jid: this has to be given"),
        (ADD, {"name": ("a",), "payload": ("odd",)}, "cron: this has to be given"),
        (ADD, WHOLE | {"payload": ("odd",)}, "payload: no element"),
        (ADD, WHOLE | {"payload": (" ", "")}, "payload: this has to be given"),
        (ADD, WHOLE | {"priority": ("high",)}, "priority: a number"),
        (ADD, WHOLE | {"ttl": ("nan",)}, "ttl: a number"),
        (ADD, WHOLE | {"ttl": ("1e999",)}, "ttl: a number"),
        (ADD, WHOLE | {"ttl": ("-1.7976931348623157e308",)}, "ttl: a number"),
        (ADD, WHOLE | {"priority": ("1e18",)}, "priority: a number"),
        (ADD, WHOLE | {"missed": ("never",)}, "missed: one of once, skip, all"),
        (END_SUBSCRIPTION, {"node": ("jobs",), "worker": ("b@x",), "release": ("no",)}, "release"),
    ],
)
def test_an_invalid_parameter_is_named(operation, words, sentence):
    with pytest.raises(UnfitError, match=f"^{sentence}"):
        fit(operation, Given(words), SAME)


def test_defaults_apply_to_missing_parameters():
    words = fit(AFFILIATE, Given(node=("jobs",), jid=("bot@x",)), SAME)
    assert words.one("affiliation") == "member"
    assert fit(ITEMS, Given(node=("jobs",), state=("",)), SAME).one("state") == "all"


def test_a_jid_is_normalised_by_its_library_and_refused_if_invalid():
    words = Given(node=("jobs",), jid=("BOT@X",), affiliation=("member",))
    assert fit(AFFILIATE, words, Readers(str.lower, payload)).one("jid") == "bot@x"
    with pytest.raises(UnfitError, match=r"^jid: a JID looks like"):
        fit(AFFILIATE, words, Readers(lambda _text: None, payload))


def test_requests_are_what_was_given():
    words = fit(REDRIVE, Given(node=(" jobs",), item=("a ", "a", " ")), SAME)
    assert REDRIVE.ask(BOSS, words) == Redrive(BOSS, " jobs", ("a ", "a"))
    words = fit(REDRIVE, Given(node=("jobs",), item=("a", "b", "a")), SAME)
    assert REDRIVE.ask(BOSS, words) == Redrive(BOSS, "jobs", ("a", "b"))
    assert REDRIVE.ask(BOSS, Given(node=("jobs",))) == Redrive(BOSS, "jobs", None)
    assert PURGE.ask(BOSS, Given(node=("jobs",))) == Purge(BOSS, "jobs")
    expected = ReadItems(BOSS, "jobs", 5, max=9, state=State.DEAD, payloads=False)
    assert DEAD.ask(BOSS, Given(node=("jobs",), after=("5",), max=("9",))) == expected
    for operation, most in ((CANCEL, 500), (DISCARD, 500)):
        many = Given(node=("jobs",), item=tuple(map(str, range(most + 1))))
        with pytest.raises(UnfitError, match=r"^item: choose an item at least, and 500 at most"):
            operation.ask(BOSS, many)
    named = Given(node=("jobs",), item=("a",))
    assert CANCEL.ask(BOSS, named) == Cancel(BOSS, "jobs", ("a",))
    assert DISCARD.ask(BOSS, named) == Cancel(BOSS, "jobs", ("a",), dead=True)
    of_reason = Given(node=("jobs",), reason=("no *",), after=("7",))
    assert DISCARD.ask(BOSS, of_reason) == Discard(BOSS, "jobs", "no *", 7)
    assert REDRIVE.ask(BOSS, of_reason) == Redrive(BOSS, "jobs", reason="no *", after=7)
    assert DEAD.ask(BOSS, of_reason).reason == "no *"
    assert REASONS.ask(BOSS, Given(node=("jobs",))) == ReadReasons(BOSS, "jobs")
    for operation in (DISCARD, REDRIVE):
        with pytest.raises(UnfitError, match=r"^reason: name items, or a reason"):
            operation.ask(BOSS, Given(named | {"reason": ("no *",)}))
    with pytest.raises(UnfitError, match=r"^item: choose"):
        RELEASE.ask(BOSS, Given(node=("jobs",)))


def test_removed_items_are_counted_and_missing_ones_are_named():
    reply = Cancelled("jobs", 2, 1, ("c", "d"))
    answer = CANCEL.answer(reply, Given())
    assert (answer.rows, answer.warns) == (((2, 1, ("c", "d")),), True)
    assert answer.note == (
        "2 items of jobs cancelled. 1 of them was in flight: the workers are notified."
        " Not found, perhaps already done: c, d."
    )
    assert CANCEL.answer(Cancelled("jobs", 1), Given()).warns is False
    many = CANCEL.answer(Cancelled("jobs", 0, 0, tuple(map(str, range(12)))), Given())
    assert many.note.endswith("0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more.")
    part = DISCARD.answer(Cancelled("jobs", 9, through=77), Given())
    assert (part.rows, part.through, part.more) == (((9, 0, (), "77"),), "77", True)


def test_settings_are_called_as_in_forms_or_shorter():
    lines = ("lock_timeout=60", "pubsub#max_items = 9", "x-queueing#enabled=1", "title=a=b")
    wanted = {"lock_timeout": "60", "max_items": "9", "queueing": "1", "title": "a=b"}
    request = CONFIGURE.ask(BOSS, Given(node=("jobs",), settings=lines))
    assert request == Configure(BOSS, "jobs", Settings(wanted))
    assert CREATE.ask(BOSS, Given(name=("new",))) == Create(BOSS, "new", Settings())
    for none in ((), ("lock_timeout",)):
        with pytest.raises(UnfitError, match=r"^settings: "):
            CONFIGURE.ask(BOSS, Given(node=("jobs",), settings=none))


def test_a_schedule_is_what_was_given_and_what_is_usual():
    usual = Definition("a", "0 3 * * *", "UTC", "jobs", b"<job xmlns='urn:x'>\n a\n</job>", "urn:x")
    assert ADD.ask(BOSS, fit(ADD, Given(WHOLE), SAME)) == AddSchedule(BOSS, usual)
    more = {
        "priority": ("-2",),
        "ttl": ("1.5",),
        "headers": ("kind: a:b", "kind:c"),
        "group": ("g",),
    }
    wanted = replace(
        usual,
        priority=-2,
        ttl=seconds(1.5),
        headers=(("kind", "a:b"), ("kind", "c")),
        group="g",
    )
    assert ADD.ask(BOSS, fit(ADD, Given(WHOLE | more), SAME)) == AddSchedule(BOSS, wanted)
    for odd, words in (
        ({"priority": ("1.5",)}, "priority: a whole number"),
        ({"headers": ("kind",)}, "headers: a header is a name, a colon, a value"),
        ({"headers": (": a",)}, "headers: a header is a name, a colon, a value"),
    ):
        with pytest.raises(UnfitError, match=f"^{words}"):
            ADD.ask(BOSS, fit(ADD, Given(WHOLE | odd), SAME))


def test_a_described_schedule_can_be_used_as_input():
    what = fit(
        ADD, Given({**WHOLE, "ttl": ("1.5",), "headers": ("kind: a",), "group": ("g",)}), SAME
    )
    known = replace(NIGHTLY, definition=ADD.ask(BOSS, what).definition)
    (row,) = SHOW.answer(SchedulePage(NOW, (known,)), Given()).rows
    cells = dict(zip(SHOW.columns, row, strict=True))
    texts_by_name = {column.name: texts(column.cell, value) for column, value in cells.items()}
    again = {one.name: texts_by_name[one.name] for one in DEFINING} | {"schedule": ("a",)}
    assert CHANGE.ask(BOSS, fit(CHANGE, Given(again), SAME)).definition == known.definition


@given(st.sampled_from(list(Cell)).flatmap(lambda cell: st.tuples(st.just(cell), VALUES[cell])))
def test_a_cell_survives_as_text(drawn):
    cell, value = drawn
    assert value_of(cell, texts(cell, value)) == value


@pytest.mark.parametrize("cell", Cell)
def test_empty_input_is_none(cell):
    assert texts(cell, None) == ()
    assert value_of(cell, ()) == (() if cell is Cell.NAMES else None)
    assert cell_text(cell, None, 0) == ""


def test_people_read_words():
    said = [
        cell_text(Cell.SINCE, 1_000, 66_000),
        cell_text(Cell.MOMENT, 1_001, None),
        cell_text(Cell.RATE, 1.25, None),
        cell_text(Cell.FLAG, value=True, now=None),
        cell_text(Cell.NAMES, ("a", "b"), None),
    ]
    assert said == ["1 min 5 s", "1970-01-01T00:00:01.001Z", "1.2", "yes", "a, b"]


def test_changes_are_logged_with_their_account_and_reads_are_not():
    given = Given(node=("jobs",), item=("a", "b"), to=("other",), settings=("title=secret",))
    with capture_logs() as logs:
        table.performed(REDRIVE, BOSS, given)
        table.performed(ITEMS, BOSS, given)
    (line,) = logs
    assert line.pop("log_level") == "info"
    assert line == {
        "event": "operation.performed",
        "operation": "redrive",
        "by": "boss@x/desk",
        "node": "jobs",
        "to": "other",
        "items": 2,
        "settings": "title",
    }


@pytest.mark.parametrize(
    ("operation", "given", "said"),
    [
        (CREATE, {"name": ("new",)}, {"node": "new"}),
        (ADD, {"name": ("a",), "node": ("jobs",)}, {"node": "jobs", "name": "a"}),
        (FIRE, {"schedule": ("a",)}, {"schedule": "a"}),
    ],
)
def test_the_log_line_names_the_target(operation, given, said):
    with capture_logs() as logs:
        table.performed(operation, BOSS, Given(given))
    known = {"event", "log_level", "operation", "by"}
    assert {key: value for key, value in logs[0].items() if key not in known} == said
