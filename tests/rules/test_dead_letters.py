"""Redrive: dead items requeued."""

import pytest
from harness.batches.facts import BOSS, JOBS, NOW, held, queue, waiting, who
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.model.changes import Revive
from pubqueue.model.decision import Decision, Redriven, Refusal, Refused
from pubqueue.model.entities import Affiliation, DeadLetter, ItemId, NodeName, State
from pubqueue.rules.dead_letters import (
    MAX_SHAPE_LENGTH,
    Candidate,
    Redrive,
    RedriveFacts,
    matches,
    redrive,
    shape,
)

SOURCE = NodeName("source")
DIED = DeadLetter(1, NOW, "worn out")
CAME = DeadLetter(2, NOW, "worn out", SOURCE)
OWNER, PUBLISHER, NONE = Affiliation.OWNER, Affiliation.PUBLISHER, Affiliation.NONE


def dead_here(seq=1):
    """Return an item that died where it is."""
    return Candidate(waiting(seq, state=State.DEAD, dead_letter=DIED), taken=False)


def dead_letter(seq=1, *, taken=False, **changes):
    """Return a dead item from SOURCE that waits in the dead-letter node."""
    return Candidate(waiting(seq, dead_letter=CAME, **changes), taken)


def ask(*candidates, ids=None, to=None, affiliation=OWNER, target=PUBLISHER, **known):
    targets = {SOURCE: (queue(name=SOURCE), target)} if target else {}
    facts = RedriveFacts(
        NOW, queue(), affiliation, candidates, **({"missing": (), "targets": targets} | known)
    )
    names = None if ids is None else tuple(map(ItemId, ids))
    return redrive(Redrive(who(BOSS), JOBS, names, to), facts)


def refusal(decision):
    assert decision.changes == ()
    return decision.reply.refusal if isinstance(decision.reply, Refused) else None


def test_dead_items_go_back_to_where_they_came_from():
    here, there = dead_here(1), dead_letter(2)
    changes = Revive(here.item, JOBS), Revive(there.item, SOURCE)
    assert ask(here, there) == Decision(Redriven(JOBS, 2), changes)


def test_dead_items_may_be_redriven_to_another_node():
    candidate = dead_here()
    assert ask(candidate, to=SOURCE).changes == (Revive(candidate.item, SOURCE),)


OBSTACLES = [
    (dead_letter(taken=True), PUBLISHER, Refusal.ITEM_EXISTS),
    (dead_letter(), NONE, Refusal.FORBIDDEN),
    (dead_letter(), None, Refusal.NODE_NOT_FOUND),
    (Candidate(held(dead_letter=CAME), taken=False), PUBLISHER, Refusal.ITEM_LOCKED),
]


@pytest.mark.parametrize(("candidate", "target", "expected"), OBSTACLES)
def test_named_items_go_all_or_none(candidate, target, expected):
    decision = ask(dead_here(2), candidate, ids=["i2", "i1"], target=target)
    assert refusal(decision) is expected


@pytest.mark.parametrize(("candidate", "target", "_expected"), OBSTACLES)
def test_without_names_those_go_that_can(candidate, target, _expected):
    free = dead_here(2)
    expected = Decision(Redriven(JOBS, 1), (Revive(free.item, JOBS),))
    assert ask(candidate, free, target=target) == expected


@pytest.mark.parametrize("to", [None, SOURCE])
@pytest.mark.parametrize("item", [waiting(), held()])
def test_live_items_are_not_redriven(item, to):
    decision = ask(Candidate(item, taken=False), ids=["i1"], to=to)
    assert refusal(decision) in {Refusal.ITEM_NOT_FOUND, Refusal.ITEM_LOCKED}
    if to is None and item.state is State.QUEUED:
        assert decision.reply.reason == "item i1 is not dead"


FULL = {SOURCE: (queue(name=SOURCE, items=2, max_items=3), PUBLISHER)}


def test_no_more_go_than_the_target_takes():
    first, second, here = dead_letter(1), dead_letter(2), dead_here(3)
    expected = Decision(Redriven(JOBS, 2), (Revive(first.item, SOURCE), Revive(here.item, JOBS)))
    assert ask(first, second, here, targets=FULL) == expected


def test_a_full_target_refuses_named_items():
    named = dead_letter(1), dead_letter(2)
    assert refusal(ask(*named, ids=["i1", "i2"], targets=FULL)) is Refusal.NODE_FULL
    assert ask(named[0], ids=["i1"], targets=FULL).changes == (Revive(named[0].item, SOURCE),)


def test_a_missing_item_refuses_them_all():
    decision = ask(dead_here(), ids=["i1", "i9"], missing=(ItemId("i9"),))
    assert refusal(decision) is Refusal.ITEM_NOT_FOUND
    assert decision.reply.reason == f"{JOBS} has no item i9"


def test_the_target_has_to_be_there():
    assert refusal(ask(dead_here(), to=NodeName("nowhere"))) is Refusal.NODE_NOT_FOUND


@pytest.mark.parametrize("affiliation", set(Affiliation) - {OWNER})
def test_only_owners_redrive(affiliation):
    assert refusal(ask(dead_here(), affiliation=affiliation)) is Refusal.FORBIDDEN


def test_without_the_node_there_are_no_dead():
    facts = RedriveFacts(NOW, None, NONE, (), (), {})
    assert refusal(redrive(Redrive(who(BOSS), JOBS), facts)) is Refusal.NODE_NOT_FOUND


# Reasons of deaths: variable parts are left out, and the rest matches the original items.


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("no such flight", "no such flight"),
        ("timed out after 31.5 s, item 42", "timed out after * s, item *"),
        ("no row 3f2a9c1e-00aa-4bcd-8123-0123456789ab", "no row *"),
        ("at 0x7f12ab of deadbeef01", "at * of *"),
        ("decade 2026-11-22", "decade *-*-*"),
        ("first\nsecond 7", "first*"),
        ("", "*"),
        ("a" * 500, "a" * MAX_SHAPE_LENGTH + "*"),
        ("**", "*"),
    ],
)
def test_variable_parts_are_left_out(reason, shown):
    assert shape(reason) == shown


@given(st.text() | st.text("ab 01.*\n", max_size=400))
def test_a_shape_matches_what_it_was_made_of(reason):
    assert matches(shape(reason), reason)
    assert shape(shape(reason)) == shape(reason)


@pytest.mark.parametrize(
    ("pattern", "reason", "does"),
    [
        ("", "anything", True),
        ("*", "", True),
        ("abc", "abc", True),
        ("abc", "abcd", False),
        ("a*c", "abc", True),
        ("a*c", "ac", True),
        ("a*a", "a", False),
        ("*b*", "abc", True),
        ("a*b*c", "acb", False),
        ("a*bc*c", "abc", False),
        ("a*bc*c", "abcc", True),
        ("a?c", "abc", False),
        ("[a]", "a", False),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_does(pattern, reason, does):
    assert matches(pattern, reason) is does
