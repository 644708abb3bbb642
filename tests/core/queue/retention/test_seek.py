"""A queue seeks to a moment: older items are done, and items that were done since then wait again."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, NOW, after, held, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.changes import DropRow, PurgeNode, PutRow, RemoveItem, Revive
from pubqueue.model.decision import Decision, Done, Refusal
from pubqueue.model.entities import Affiliation, ItemId, State
from pubqueue.model.notices import Retracted
from pubqueue.model.records import SeekMark
from pubqueue.model.replies import Emptied
from pubqueue.rules.nodes import NodeFacts
from pubqueue.rules.seek import (
    MAX_BYTES,
    SEEK_SLICE,
    ResumeSeeks,
    ResumeSeeksFacts,
    Seek,
    SeekFacts,
    SeekItems,
    SeekItemsFacts,
    resume,
    seek,
    seek_items,
)

KEEPS = queue(keep_done=True, item_expire=1_000, items=3)
MARK = SeekMark(JOBS, after(-60), NOW, 100)
OWNER = Affiliation.OWNER
LATER = after(5)


def ask(since, *, node=KEEPS, by=OWNER, mark=None):
    facts = SeekFacts(NodeFacts(NOW, node, by, None), 100, mark)
    return seek(Seek(who(BOSS), JOBS, since), facts)


def step(*items, request=None, node=KEEPS, mark=MARK, there=(), now=LATER):
    known = SeekItemsFacts(now, node, mark, items, frozenset(map(ItemId, there)))
    return seek_items(request or SeekItems(MARK, Done()), known)


def back(*items, reply=Done(), place=(MARK.since, 0), **known):  # noqa: B008  # a value
    return step(*items, request=SeekItems(MARK, reply, place=place), **known)


def done(seq, age=0, at=0.0, **more):
    """Return an item that was done at that moment and published this many seconds before NOW."""
    return waiting(seq, state=State.DONE, published=after(-age), taken=after(at), **more)


@pytest.mark.parametrize("since", [after(-60), NOW, after(60)])
def test_a_seek_begins_with_a_mark(since):
    mark = SeekMark(JOBS, since, NOW, 100)
    assert ask(since) == Decision(Done(), (PutRow(mark),), then=SeekItems(mark, Done()))


@pytest.mark.parametrize("since", [NOW, after(60)])
def test_where_nothing_is_kept_it_is_a_purge_to_now_and_on(since):
    node = queue(items=3)
    assert ask(since, node=node) == Decision(Emptied(JOBS, 3), (PurgeNode(JOBS, 3),))


def test_where_nothing_is_kept_what_is_older_goes_in_slices():
    assert ask(after(-60), node=queue()).then == SeekItems(MARK, Done())
    old = waiting(1, published=after(-61))
    assert step(old, node=queue()).changes == (RemoveItem(old),)


def test_a_purge_would_leave_a_seek_under_way():
    assert ask(NOW, node=queue(), mark=MARK).then is not None


@pytest.mark.parametrize(
    ("node", "by", "no"),
    [
        (None, OWNER, Refusal.NODE_NOT_FOUND),
        (KEEPS, Affiliation.PUBLISHER, Refusal.FORBIDDEN),
        (plain(), OWNER, Refusal.NOT_A_QUEUE),
    ],
)
def test_only_an_owner_of_a_queue_may(node, by, no):
    found = ask(after(-60), node=node, by=by)
    assert (found.reply.refusal, found.changes, found.then) == (no, (), None)


def test_older_items_are_done_even_if_locked():
    old, locked = waiting(1, published=after(-61)), held(2, published=after(-60.001))
    newer = waiting(3, published=after(-60))
    found = step(old, locked, newer)
    gone = tuple(RemoveItem(item, done_at=after(5)) for item in (old, locked))
    notices = (Retracted(ANN, JOBS, (locked.id,)),)
    assert found == Decision(
        Done(), gone, notices, then=SeekItems(MARK, Done(), place=(after(-60), 0))
    )


def test_later_items_are_not_older_however_late_the_moment():
    mark = replace(MARK, since=after(60))
    before, behind = waiting(100), waiting(101)
    later = waiting(3, published=after(0.001))
    found = step(before, behind, later, mark=mark, request=SeekItems(mark, Done()))
    assert found.changes == (RemoveItem(before, done_at=after(5)),)


def test_the_queue_is_looked_through_in_slices_as_long_as_there_is_something_older():
    old = [waiting(n, published=after(-61)) for n in range(SEEK_SLICE)]
    assert step(*old).then == SeekItems(MARK, Done(), after=SEEK_SLICE - 1)
    new = [waiting(n, published=after(-1)) for n in range(SEEK_SLICE)]
    assert step(*new).then == SeekItems(MARK, Done(), place=(MARK.since, 0))


def test_done_items_come_back_with_their_remaining_time_to_live():
    first, other = done(1, age=60), done(2, age=10, expires=after(9))
    found = back(first, other)
    lives = Revive(first, JOBS, after(940)), Revive(other, JOBS, after(9))
    assert found == Decision(Done(), (*lives, DropRow(SeekMark, JOBS)))


@pytest.mark.parametrize(
    "item",
    [
        done(1, at=0.001),
        done(1, age=996),
        done(1, expires=after(5)),
        done(7),
    ],
    ids=["it was done later", "too old", "its own life has ended", "another one has its id"],
)
def test_something_stays_as_it_is(item):
    assert back(item, there=["i7"]).changes == (DropRow(SeekMark, JOBS),)


def test_the_first_of_two_items_with_one_id_comes_back():
    first, second = done(1, id="a"), done(2, id="a")
    assert back(first, second).changes == (
        Revive(first, JOBS, after(1_000)),
        DropRow(SeekMark, JOBS),
    )


def test_a_queue_that_keeps_no_longer_brings_nothing_back():
    assert back(done(1), node=queue()) == Decision(Done(), (DropRow(SeekMark, JOBS),))


def test_items_come_back_in_slices():
    items = [done(n) for n in range(1, SEEK_SLICE + 1)]
    found = back(*items)
    assert len(found.changes) == SEEK_SLICE
    assert found.then == SeekItems(MARK, Done(), place=(NOW, SEEK_SLICE))


def test_a_slice_has_so_many_bytes_and_at_least_one_item():
    large = [done(n, size=MAX_BYTES // 2 + 1) for n in (1, 2, 3)]
    found = back(*large)
    assert (len(found.changes), found.then.place) == (1, (NOW, 1))
    huge = back(done(1, size=MAX_BYTES + 1), done(2))
    assert (len(huge.changes), huge.then.place) == (1, (NOW, 1))


@pytest.mark.parametrize("mark", [None, replace(MARK, at=after(1))])
def test_a_seek_ends_with_its_mark(mark):
    for place in (None, (MARK.since, 0)):
        request = SeekItems(MARK, Done(), place=place)
        assert step(done(1), request=request, mark=mark) == Decision(Done())
    assert step(request=SeekItems(MARK), node=None) == Decision(Done())


def test_continuing_another_process_s_seek_asks_for_its_next_slice():
    assert resume(ResumeSeeks(), ResumeSeeksFacts(MARK)) == Decision(Done(), then=SeekItems(MARK))
    assert resume(ResumeSeeks(), ResumeSeeksFacts(None)) == Decision(Done())
    assert back(reply=None) == Decision(Done(), (DropRow(SeekMark, JOBS),), then=ResumeSeeks())


def test_each_holder_is_notified_once():
    old = [held(n, published=after(-61), holder=BOB) for n in (1, 2)]
    assert step(*old).notices == (Retracted(BOB, JOBS, (ItemId("i1"), ItemId("i2"))),)
