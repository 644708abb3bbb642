"""How long done items are kept, and how many."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, NOW, after, held, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.changes import DropRow, PurgeNode, PutRow, RemoveItem, Revive
from pubqueue.model.decision import Decision, Done, LookedThrough, Refusal
from pubqueue.model.entities import Affiliation, ItemId, NodeName, State
from pubqueue.model.notices import Retracted
from pubqueue.model.records import SeekMark
from pubqueue.model.replies import Emptied
from pubqueue.rules.nodes import NodeFacts
from pubqueue.rules.seek import (
    MAX_BYTES,
    SEEK_SLICE,
    DropDone,
    DropDoneFacts,
    ResumeSeeks,
    ResumeSeeksFacts,
    Seek,
    SeekFacts,
    SeekItems,
    SeekItemsFacts,
    drop_done,
    end_of,
    is_over,
    resume,
    seek,
    seek_items,
    surplus,
)
from pubqueue.rules.settle import Settle, SettleFacts, Verb, settle

KEEPS = queue(keep_done=True, item_expire=100)


def done(seq, age=0, size=10, **more):
    """Return a done item that was published this many seconds ago."""
    return waiting(seq, state=State.DONE, published=after(-age), taken=NOW, size=size, **more)


def retract(item, *, by=ANN, node=KEEPS, affiliation=Affiliation.NONE, **facts):
    request = Settle(who(by), JOBS, (item.id,), Verb.RETRACT)
    known = SettleFacts(NOW, node, affiliation, (item,), frozenset(), subscribed=True, **facts)
    return settle(request, known).changes


def test_an_item_that_its_worker_retracts_is_kept():
    assert retract(held()) == (RemoveItem(held(), done_at=NOW, done_by=ANN),)
    assert retract(held(), node=queue()) == (RemoveItem(held()),)


def test_an_item_that_an_owner_withdraws_is_gone():
    owner = {"by": BOSS, "affiliation": Affiliation.OWNER}
    assert retract(waiting(), **owner) == (RemoveItem(waiting()),)
    assert retract(held(), **owner) == (RemoveItem(held()),)


def test_a_kept_item_is_also_remembered_for_deduplication():
    node = queue(keep_done=True, dedup_window=60)
    kept = retract(held(), node=node, digests=(b"d",))
    assert kept == (RemoveItem(held(), after(60), b"d", NOW, ANN),)


@pytest.mark.parametrize(
    ("own", "of_queue", "end"),
    [
        (None, None, None),
        (after(9), None, after(9)),
        (None, 60, after(60)),
        (after(9), 60, after(9)),
        (after(90), 60, after(60)),
    ],
)
def test_a_life_ends_by_its_own_span_or_that_of_the_queue(own, of_queue, end):
    config = queue(item_expire=of_queue).config
    item = waiting(expires=own)
    assert end_of(item, config) == end
    assert [is_over(item, config, after(at)) for at in (8.999, 9)] == [False, end == after(9)]


OLDEST = [done(1, age=200), done(2, age=100), done(3, age=99), done(4)]


@pytest.mark.parametrize(
    ("config", "size", "gone"),
    [
        ({"item_expire": 100}, 40, 2),
        ({"item_expire": 250}, 40, 0),
        ({}, 40, 0),
        ({"max_bytes": 40}, 40, 0),
        ({"max_bytes": 39}, 40, 1),
        ({"max_bytes": 30}, 41, 2),
        ({"max_bytes": 1}, 9_999, 4),
        ({"max_bytes": 35, "item_expire": 100}, 40, 2),
        ({"max_bytes": 15, "item_expire": 100}, 40, 3),
        ({"done_max": 4}, 40, 0),
        ({"done_max": 3}, 40, 1),
        ({"done_max": 3, "max_bytes": 15}, 40, 3),
        ({"done_ttl": 10}, 40, 0),
    ],
)
def test_the_oldest_go_first_for_their_age_or_their_bytes(config, size, gone):
    node = replace(queue(keep_done=True, **config), done=4, done_bytes=size)
    assert surplus(node, OLDEST, NOW) == OLDEST[:gone]


def test_what_was_done_long_ago_goes_whenever_it_was_published():
    node = replace(queue(keep_done=True, done_ttl=10), done=3, done_bytes=30)
    ends = [done(1, age=200), done(2, age=1), done(3, age=1)]
    ends[:2] = [replace(one, taken=after(-10)) for one in ends[:2]]
    assert surplus(node, ends, NOW) == ends[:2]
    assert surplus(node, ends, after(-0.001)) == []


@pytest.mark.parametrize("node", [queue(), plain(keep_done=True)])
def test_a_node_that_does_not_keep_it_keeps_nothing(node):
    assert surplus(replace(node, done=4, done_bytes=40), OLDEST, NOW) == OLDEST


def test_a_slice_is_dropped_and_then_the_next():
    request = DropDone(NodeName("a"))
    node = replace(KEEPS, done=4, done_bytes=40)
    found = drop_done(request, DropDoneFacts(NOW, node, tuple(OLDEST)))
    gone = tuple(map(RemoveItem, OLDEST[:2]))
    assert found == Decision(LookedThrough(NodeName("a")), gone, then=request)


@pytest.mark.parametrize("node", [None, replace(KEEPS, done=1)])
def test_where_nothing_has_to_go_the_look_goes_on_or_ends(node):
    facts = DropDoneFacts(NOW, node, (done(1),), NodeName("z"))
    assert drop_done(DropDone(), facts) == Decision(LookedThrough(NodeName("z")))


def test_a_late_retract_keeps_it_too():
    item = waiting(avoid=ANN, token=7, acquired=1)
    request = Settle(who(ANN), JOBS, (item.id,), Verb.RETRACT, token=7, late=True)
    receipts = frozenset({(item.seq, ANN)})
    facts = SettleFacts(NOW, KEEPS, Affiliation.NONE, (item,), receipts, subscribed=True)
    assert settle(request, facts) == Decision(Done(), (RemoveItem(item, done_at=NOW, done_by=ANN),))


# A queue seeks to a moment: older items are done, and items that were done since then wait again.

KEEPS_FOR = queue(keep_done=True, item_expire=1_000, items=3)
MARK = SeekMark(JOBS, after(-60), NOW, 100)
OWNER = Affiliation.OWNER
LATER = after(5)


def ask(since, *, node=KEEPS_FOR, by=OWNER, mark=None):
    facts = SeekFacts(NodeFacts(NOW, node, by, None), 100, mark)
    return seek(Seek(who(BOSS), JOBS, since), facts)


def step(*items, request=None, node=KEEPS_FOR, mark=MARK, there=(), now=LATER):
    known = SeekItemsFacts(now, node, mark, items, frozenset(map(ItemId, there)))
    return seek_items(request or SeekItems(MARK, Done()), known)


def back(*items, reply=Done(), place=(MARK.since, 0), **known):  # noqa: B008  # a value
    return step(*items, request=SeekItems(MARK, reply, place=place), **known)


def done_item(seq, age=0, at=0.0, **more):
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
        (KEEPS_FOR, Affiliation.PUBLISHER, Refusal.FORBIDDEN),
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
    first, other = done_item(1, age=60), done_item(2, age=10, expires=after(9))
    found = back(first, other)
    lives = Revive(first, JOBS, after(940)), Revive(other, JOBS, after(9))
    assert found == Decision(Done(), (*lives, DropRow(SeekMark, JOBS)))


@pytest.mark.parametrize(
    "item",
    [
        done_item(1, at=0.001),
        done_item(1, age=996),
        done_item(1, expires=after(5)),
        done_item(7),
    ],
    ids=["it was done later", "too old", "its own life has ended", "another one has its id"],
)
def test_something_stays_as_it_is(item):
    assert back(item, there=["i7"]).changes == (DropRow(SeekMark, JOBS),)


def test_the_first_of_two_items_with_one_id_comes_back():
    first, second = done_item(1, id="a"), done_item(2, id="a")
    assert back(first, second).changes == (
        Revive(first, JOBS, after(1_000)),
        DropRow(SeekMark, JOBS),
    )


def test_a_queue_that_keeps_no_longer_brings_nothing_back():
    assert back(done_item(1), node=queue()) == Decision(Done(), (DropRow(SeekMark, JOBS),))


def test_items_come_back_in_slices():
    items = [done_item(n) for n in range(1, SEEK_SLICE + 1)]
    found = back(*items)
    assert len(found.changes) == SEEK_SLICE
    assert found.then == SeekItems(MARK, Done(), place=(NOW, SEEK_SLICE))


def test_a_slice_has_so_many_bytes_and_at_least_one_item():
    large = [done_item(n, size=MAX_BYTES // 2 + 1) for n in (1, 2, 3)]
    found = back(*large)
    assert (len(found.changes), found.then.place) == (1, (NOW, 1))
    huge = back(done_item(1, size=MAX_BYTES + 1), done_item(2))
    assert (len(huge.changes), huge.then.place) == (1, (NOW, 1))


@pytest.mark.parametrize("mark", [None, replace(MARK, at=after(1))])
def test_a_seek_ends_with_its_mark(mark):
    for place in (None, (MARK.since, 0)):
        request = SeekItems(MARK, Done(), place=place)
        assert step(done_item(1), request=request, mark=mark) == Decision(Done())
    assert step(request=SeekItems(MARK), node=None) == Decision(Done())


def test_continuing_another_process_s_seek_asks_for_its_next_slice():
    assert resume(ResumeSeeks(), ResumeSeeksFacts(MARK)) == Decision(Done(), then=SeekItems(MARK))
    assert resume(ResumeSeeks(), ResumeSeeksFacts(None)) == Decision(Done())
    assert back(reply=None) == Decision(Done(), (DropRow(SeekMark, JOBS),), then=ResumeSeeks())


def test_each_holder_is_notified_once():
    old = [held(n, published=after(-61), holder=BOB) for n in (1, 2)]
    assert step(*old).notices == (Retracted(BOB, JOBS, (ItemId("i1"), ItemId("i2"))),)
