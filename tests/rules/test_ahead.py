"""Groups that are sent ahead: the rules as tables. Items are named by letters in the order of their turns, or of their publish."""

import pytest
from harness.batches.facts import JOBS
from msgspec.structs import replace

from pubqueue.model.after import after
from pubqueue.model.changes import Release
from pubqueue.model.entities import Item, ItemId, Jid, Millis, Node, NodeConfig, State
from pubqueue.model.notices import Unlocked
from pubqueue.rules.ahead import (
    deliverable,
    fail_first,
    holders_of,
    recall,
    recalls,
    release_first,
    told,
    turns,
)
from pubqueue.rules.dispatch import TakeWindow, dispatch
from pubqueue.rules.give_back import Case

NOW = Millis(1_000_000)
ANN, BOB = Jid("ann@x"), Jid("bob@x")


def item(name, *, turn=True, holder=None, state=State.QUEUED, priority=0, **facts):
    """Return an item of group g, in the order of the letters."""
    seq = ord(name)
    known = Item(
        *(seq, JOBS, ItemId(name), State.LOCKED if holder else state, Jid("etl@x"), NOW, priority),
        holder=holder,
        group="g",
        turn=seq if turn else 0,
    )
    return replace(known, **facts)


def group(text):
    """Read the items with turns: a capital is locked, one with `~` behind it is delayed, with `!` its lifetime has ended."""
    found = []
    for at, letter in enumerate(text):
        if letter in "~!":
            continue
        mark = text[at + 1 : at + 2]
        one = item(letter.lower(), holder=ANN if letter.isupper() else None)
        if mark == "~":
            one = replace(one, state=State.DELAYED, due=Millis(NOW + 5))
        if mark == "!":
            one = replace(one, expires=NOW)
        found.append(one)
    return found


def names(items):
    return "".join(one.id for one in items)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ("", ""),
        ("ABC", ""),
        ("ABc", ""),
        ("AbC", "c"),
        ("aBC", "bc"),
        ("Ab~CD", "cd"),
        ("a!BC", ""),  # the one before will not be delivered any more
        ("AB!C", ""),  # a lifetime that ends while it is locked
        ("a!bC", "c"),
    ],
)
def test_what_is_locked_behind_one_that_is_not_comes_back(taken, expected):
    assert names(back.item for back in recalls(reversed(group(taken)), NOW)) == expected


def test_what_comes_back_waits_in_its_group_and_nothing_is_counted():
    one = item("a", holder=ANN, failed=2, released=1, acquired=3, failure="why")
    back = after(recall(one))
    assert back is not None
    assert (back.state, back.turn, back.holder, back.avoid) == (State.QUEUED, 0, None, None)
    assert (back.failed, back.released, back.failure) == (2, 1, "why")


@pytest.mark.parametrize(
    ("taken", "line", "room", "end", "begin"),
    [
        ("", "abc", 9, "", "a"),  # nobody holds it
        ("a", "bc", 9, "", ""),
        ("abc", "d", 9, "bc", ""),
        ("A", "bcdef", 2, "", "bc"),
        ("A", "bcdef", 9, "", "bcd"),  # the limit
        ("A", "bcdef", 0, "", ""),
        ("Ab", "cdef", 2, "", "c"),
        ("Abc", "def", 1, "c", ""),
        ("Abc", "def", 0, "bc", ""),
        ("ABCD", "ef", 9, "", ""),
        ("ABCDE", "f", 9, "", ""),  # the limit was higher before
        ("ABCDe", "f", 9, "e", ""),
        ("a~", "bc", 9, "", ""),  # nothing goes ahead of what waits for its next attempt
        ("a~bc", "d", 9, "bc", ""),
        ("Ab~", "cd", 9, "", ""),
        ("Abc~d", "e", 9, "d", ""),
        ("a~b~", "c", 9, "", ""),
        ("a!", "bc", 9, "", "b"),
    ],
)
def test_turns_begin_as_far_as_there_is_room_and_end_if_there_is_none(
    taken, line, room, end, begin
):
    waiting = [item(name, turn=False) for name in reversed(line)]
    found = turns(4, reversed(group(taken)), waiting, room, NOW)
    assert (names(found.end), names(found.begin)) == (end, begin)


def test_an_item_of_a_higher_priority_does_not_go_ahead_of_a_ready_one():
    line = [
        item(name, turn=False, priority=priority)
        for name, priority in (("b", 1), ("c", 1), ("d", 2))
    ]
    assert names(turns(9, group("A"), line, 9, NOW).begin) == "bc"
    low = [*group("A"), item("a", priority=0, seq=1)]
    assert names(turns(9, low, line, 9, NOW).begin) == ""


@pytest.mark.parametrize(
    ("taken", "ready", "expected"),
    [
        ("abc", "abc", "a"),
        ("Abc", "bc", "bc"),
        ("Abcd", "bd", "b"),  # another is missing, and the last would go ahead of it
        ("Abc", "c", ""),
        ("Ab~c", "c", ""),
        ("Ab~c", "bc", "b"),  # put aside for another subscriber
        ("a!b", "b", "b"),
        ("aB", "a", "a"),
    ],
)
def test_what_is_ready_is_delivered_in_order(taken, ready, expected):
    numbers = {ord(name) for name in ready}
    assert names(deliverable(reversed(group(taken)), numbers, NOW)) == expected


def test_a_group_has_the_holders_of_its_locked_items():
    assert holders_of(group("ABc")) == {ANN}
    assert holders_of(group("ab")) == frozenset()
    assert holders_of([item("a", holder=ANN), item("b", holder=BOB)]) == {ANN, BOB}


def cases(*items, **config):
    node = Node(JOBS, NodeConfig(queueing=True, **config), Jid("boss@x"), NOW)
    return [Case(one, node) for one in items]


@pytest.mark.parametrize("end", [fail_first, release_first])
def test_of_locks_that_end_together_only_the_first_of_the_group_counts(end):
    others = replace(item("x", holder=BOB), group="h"), replace(item("y", holder=BOB), group="")
    ending = cases(*group("CB"), *others, replace(others[1], seq=7), group_ahead=True)
    ended = end(ending, NOW, "why") if end is fail_first else end(ending, NOW)
    assert [change.is_recalled for change in ended] == [True, False, False, False, False]
    assert [change.item for change in ended] == [case.item for case in ending]


@pytest.mark.parametrize("end", [fail_first, release_first])
def test_in_other_queues_each_counts(end):
    ending = cases(*group("AB"), group_limit=2)
    ended = end(ending, NOW, "why") if end is fail_first else end(ending, NOW)
    assert [type(change) for change in ended] == [Release, Release]
    assert not any(change.is_recalled for change in ended)


def test_each_holder_is_told_once():
    recalled = [item("a", holder=ANN), item("b", holder=ANN), item("c", holder=BOB)]
    assert told(recalled) == [Unlocked(ANN, JOBS, ("a", "b")), Unlocked(BOB, JOBS, ("c",))]


def handed(items, carriers, **config):
    """Deliver to a take of Ann's that may have what `carriers` say."""
    node = Node(JOBS, NodeConfig(queueing=True, **config), Jid("boss@x"), NOW)
    take = TakeWindow(1, ANN, 0, 9, 9, 0)
    made = dispatch(*(node, items, ()), now=NOW, first_token=1, carriers=carriers, takes=(take,))
    return names(change.item for change in made)


def test_nothing_of_a_group_is_delivered_after_one_that_cannot_be():
    items = [item("b"), item("c"), replace(item("d"), group="h"), replace(item("e"), group="")]
    nobody = {ord("b"): frozenset()}
    assert handed(items, nobody, group_ahead=True) == "de"
    assert handed(items, nobody) == "cde"
