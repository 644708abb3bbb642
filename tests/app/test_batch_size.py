"""What goes into the next batch: large requests make nobody wait who asks little, and each account is served in its order."""

import random

import pytest
from harness.batches.facts import ANN, BOB, ETL, JOBS
from harness.batches.queue_requests import publishes, retracts, touches, unlocks

from pubqueue.app.batch_size import (
    MAX_BATCH_ITEMS,
    MAX_BATCH_REQUESTS,
    MAX_UNPASSED_ITEMS,
    PUBLISHED,
    SETTLED,
    SMALL,
    WaitingRequests,
    weight,
)
from pubqueue.core.addresses import account_of
from pubqueue.core.limits.request_sizes import MAX_NAMED, MAX_PUBLISHED
from pubqueue.core.model import Jid
from pubqueue.core.nodes.large_audience import NotifyFormer
from pubqueue.core.queue.expire import Arrive, Bounce, Expire, Leave
from pubqueue.core.transactions.model import Mark
from pubqueue.core.transactions.staging import StagePublish

IDS = [f"i{number}" for number in range(MAX_PUBLISHED)]
UNLOCK = unlocks(BOB, *IDS[:MAX_NAMED])
PUBLISH = publishes(*IDS)


def waiting_of(requests):
    waiting = WaitingRequests()
    for one in requests:
        waiting.add(one, print)
    return waiting


def next_batch(waiting):
    return [one for one, _ in waiting.take_batch()]


def shared(*requests):
    """Return what the next batch takes, and what it leaves."""
    waiting = waiting_of(requests)
    return next_batch(waiting), [one for one, _ in waiting.take_all()]


@pytest.mark.parametrize("large", [UNLOCK, PUBLISH], ids=["unlocks", "publishes"])
def test_who_asks_little_is_in_the_next_batch_however_much_others_ask(large):
    small = [retracts(ANN, "a"), touches(ANN, "b"), publishes("c", by="other@x")]
    waiting = waiting_of([large] * 20 + small)
    assert next_batch(waiting) == small
    assert next_batch(waiting) == [large]
    waiting.add(small[0], print)
    waiting.add(large, print)
    assert next_batch(waiting) == [small[0]]
    assert [next_batch(waiting) for _ in range(20)] == [[large]] * 20
    assert not waiting


def test_who_asks_much_has_every_second_batch_however_many_ask_little():
    waiting, taken = waiting_of([PUBLISH] * 5), []
    for number in range(10):
        for at in range(MAX_BATCH_REQUESTS):
            waiting.add(retracts(ANN, f"{number}.{at}"), print)
        taken.append(next_batch(waiting))
    assert [batch == [PUBLISH] for batch in taken] == [False, True] * 5


def test_who_asks_little_behind_a_crowd_that_comes_and_goes_is_in_the_next_batch():
    crowd = [Jid(f"bot{number}@evil.example/{'x' * 9}") for number in range(2000)]
    words = [word for jid in crowd for word in (Arrive(jid), Leave(jid))]
    small = [publishes(name) for name in "abc"]
    taken, left = shared(*words, *small)
    assert taken == [*words[: len(taken) - 3], *small]
    assert left == words[len(taken) - 3 :]
    assert sum(map(weight, taken[:-3])) <= MAX_UNPASSED_ITEMS


def test_what_is_no_great_work_stays_in_its_order():
    asked = [publishes(*IDS[:100]), retracts(ANN, "a"), publishes(*IDS[:300]), touches(BOB, "b")]
    assert shared(*asked) == (asked, [])


def test_what_an_account_asks_behind_its_own_large_requests_waits_for_these():
    small, other = publishes("last"), publishes("other", by="other@x")
    waiting = waiting_of([*[PUBLISH] * 3, small, other, small])
    assert next_batch(waiting) == [other]
    assert [next_batch(waiting) for _ in range(4)] == [*[[PUBLISH]] * 3, [small, small]]


def test_what_is_published_behind_what_the_account_stages_waits_too():
    staged, behind = StagePublish(PUBLISH, Mark("app", 1)), publishes("b")
    waiting = waiting_of([staged, behind])
    assert [next_batch(waiting), next_batch(waiting)] == [[staged], [behind]]


def test_another_connection_of_the_account_waits_too():
    behind = publishes("b", by=f"{account_of(Jid(ETL))}/other")
    waiting = waiting_of([PUBLISH, behind])
    assert [next_batch(waiting), next_batch(waiting)] == [[PUBLISH], [behind]]


def test_who_leaves_behind_its_own_requests_leaves_after_them():
    waiting = [UNLOCK, UNLOCK, Leave(BOB), Bounce(BOB, 1, 1, gone=True)]
    assert shared(*waiting) == (waiting[:1], waiting[1:])


def test_what_the_service_asks_of_itself_stays_in_its_order():
    asked = [NotifyFormer(JOBS), NotifyFormer(JOBS), Expire(), publishes("a")]
    assert shared(*asked) == (asked[3:], asked[:3])


def test_an_id_that_is_settled_counts_more_than_one_that_is_published():
    assert weight(UNLOCK) == SETTLED * MAX_NAMED == MAX_BATCH_ITEMS
    assert weight(PUBLISH) == PUBLISHED * MAX_PUBLISHED == MAX_BATCH_ITEMS


@pytest.mark.parametrize("seed", range(20))
def test_all_is_taken_once_and_in_the_order_of_each_account(seed):
    chance = random.Random(seed)
    people = [f"p{number}@x/1" for number in range(6)]
    requests = [drawn(chance, number, people) for number in range(chance.randrange(1, 1500))]
    waiting, coming, seen = WaitingRequests(), list(requests), []
    while coming or waiting:
        for _ in range(min(len(coming), chance.randrange(700))):
            waiting.add(coming.pop(0), print)
        count, taken = len(waiting), next_batch(waiting)
        assert len(waiting) == count - len(taken)
        assert bool(taken) == bool(count)
        assert len(taken) <= MAX_BATCH_REQUESTS
        large = [weight(one) for one in taken if weight(one) > SMALL]
        assert sum(large[:-1]) < MAX_BATCH_ITEMS
        seen += taken
    for jid in people:
        own = [one for one in requests if one.by.jid == jid]
        assert [one for one in seen if one.by.jid == jid] == own
    assert len(seen) == len(requests)


def drawn(chance, number, people):
    count = chance.choice([1, 1, 1, 1, 1, 3, 100, 500])
    names = [f"{number}.{at}" for at in range(count)]
    by = chance.choice(people)
    return publishes(*names, by=by) if chance.random() < 0.5 else unlocks(by, *names)


def test_what_has_no_room_is_taken_by_later_batches_before_what_comes_after():
    waiting = waiting_of([UNLOCK] * 3)
    last = unlocks(ANN, *IDS[:MAX_NAMED])
    waiting.add(last, print)
    batches = []
    while waiting:
        batches.append(next_batch(waiting))
        if len(batches) == 1:
            waiting.add(retracts(ANN, "a"), print)
    assert batches == [[UNLOCK], [UNLOCK], [UNLOCK], [last], [retracts(ANN, "a")]]
