"""How long done items are kept, and how many."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, NOW, after, held, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.changes import RemoveItem
from pubqueue.model.decision import Decision, Done, LookedThrough
from pubqueue.model.entities import Affiliation, NodeName, State
from pubqueue.rules.seek import DropDone, DropDoneFacts, drop_done, end_of, is_over, surplus
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
    assert retract(held()) == (RemoveItem(held(), done_at=NOW),)
    assert retract(held(), node=queue()) == (RemoveItem(held()),)


def test_an_item_that_an_owner_withdraws_is_gone():
    owner = {"by": BOSS, "affiliation": Affiliation.OWNER}
    assert retract(waiting(), **owner) == (RemoveItem(waiting()),)
    assert retract(held(), **owner) == (RemoveItem(held()),)


def test_a_kept_item_is_also_remembered_for_deduplication():
    node = queue(keep_done=True, dedup_window=60)
    kept = retract(held(), node=node, digests=(b"d",))
    assert kept == (RemoveItem(held(), after(60), b"d", NOW),)


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
    ],
)
def test_the_oldest_go_first_for_their_age_or_their_bytes(config, size, gone):
    node = replace(queue(keep_done=True, **config), done=4, done_bytes=size)
    assert surplus(node, OLDEST, NOW) == OLDEST[:gone]


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
    assert settle(request, facts) == Decision(Done(), (RemoveItem(item, done_at=NOW),))
