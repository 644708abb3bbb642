"""Redrive: dead items live again."""

import pytest
from harness.facts import BOSS, JOBS, NOW, held, queue, waiting, who

from pubqueue.core.changes import Revive
from pubqueue.core.decision import (
    Decision,
    Redriven,
    Refusal,
    Refused,
)
from pubqueue.core.model import Affiliation, ItemId, NodeName, State
from pubqueue.core.redrive import Grave, Redrive, RedriveFacts, redrive

SOURCE = NodeName("source")
OWNER, PUBLISHER, NONE = Affiliation.OWNER, Affiliation.PUBLISHER, Affiliation.NONE


def buried(seq=1):
    """Return an item that died where it is."""
    return Grave(waiting(seq, state=State.DEAD), None, taken=False)


def entombed(seq=1, *, taken=False, **changes):
    """Return an item that came dead from SOURCE and waits in the dead-letter node."""
    return Grave(waiting(seq, **changes), SOURCE, taken)


def ask(*graves, ids=None, to=None, affiliation=OWNER, target=PUBLISHER, **known):
    targets = {SOURCE: (queue(name=SOURCE), target)} if target else {}
    facts = RedriveFacts(
        NOW, queue(), affiliation, graves, **({"missing": (), "targets": targets} | known)
    )
    names = None if ids is None else tuple(map(ItemId, ids))
    return redrive(Redrive(who(BOSS), JOBS, names, to), facts)


def refusal(decision):
    assert decision.changes == ()
    return decision.reply.refusal if isinstance(decision.reply, Refused) else None


def test_dead_items_go_back_to_where_they_came_from():
    here, there = buried(1), entombed(2)
    changes = Revive(here.item, JOBS), Revive(there.item, SOURCE)
    assert ask(here, there) == Decision(Redriven(JOBS, 2), changes)


def test_they_may_be_sent_elsewhere():
    grave = buried()
    assert ask(grave, to=SOURCE).changes == (Revive(grave.item, SOURCE),)


OBSTACLES = [
    (entombed(taken=True), PUBLISHER, Refusal.ITEM_EXISTS),
    (entombed(), NONE, Refusal.FORBIDDEN),
    (entombed(), None, Refusal.NODE_NOT_FOUND),
    (Grave(held(), SOURCE, taken=False), PUBLISHER, Refusal.ITEM_LOCKED),
]


@pytest.mark.parametrize(("grave", "target", "expected"), OBSTACLES)
def test_named_items_go_all_or_none(grave, target, expected):
    decision = ask(buried(2), grave, ids=["i2", "i1"], target=target)
    assert refusal(decision) is expected


@pytest.mark.parametrize(("grave", "target", "_expected"), OBSTACLES)
def test_without_names_those_go_that_can(grave, target, _expected):
    free = buried(2)
    expected = Decision(Redriven(JOBS, 1), (Revive(free.item, JOBS),))
    assert ask(grave, free, target=target) == expected


@pytest.mark.parametrize("to", [None, SOURCE])
@pytest.mark.parametrize("item", [waiting(), held()])
def test_what_lives_is_not_moved(item, to):
    decision = ask(Grave(item, None, taken=False), ids=["i1"], to=to)
    assert refusal(decision) in {Refusal.ITEM_NOT_FOUND, Refusal.ITEM_LOCKED}


def test_a_missing_item_refuses_them_all():
    decision = ask(buried(), ids=["i1", "i9"], missing=(ItemId("i9"),))
    assert refusal(decision) is Refusal.ITEM_NOT_FOUND


def test_the_target_has_to_be_there():
    assert refusal(ask(buried(), to=NodeName("nowhere"))) is Refusal.NODE_NOT_FOUND


@pytest.mark.parametrize("affiliation", set(Affiliation) - {OWNER})
def test_only_owners_redrive(affiliation):
    assert refusal(ask(buried(), affiliation=affiliation)) is Refusal.FORBIDDEN


def test_without_the_node_there_are_no_dead():
    facts = RedriveFacts(NOW, None, NONE, (), (), {})
    assert refusal(redrive(Redrive(who(BOSS), JOBS), facts)) is Refusal.NODE_NOT_FOUND
