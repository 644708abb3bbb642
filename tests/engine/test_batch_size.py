"""Which requests go into the next batch: large requests do not delay small ones, and each account's requests stay in order."""

import random

import pytest
from harness.batches.facts import ANN, BOB, ETL, JOBS, who
from harness.batches.queue_requests import publishes, retracts, settles_each, touches, unlocks
from hypothesis import given, settings
from hypothesis import strategies as st

from pubqueue.engine.batch_size import (
    LONG,
    MAX_BATCH_ITEMS,
    MAX_BATCH_REQUESTS,
    MAX_UNPASSED_ITEMS,
    MIN_BATCH_REQUESTS,
    PUBLISHED,
    SETTLED,
    SMALL,
    WaitingRequests,
    weight,
)
from pubqueue.model.changes import SetAvailable
from pubqueue.model.decision import Decision, Done
from pubqueue.model.entities import Jid, account_of
from pubqueue.model.transactions import Mark
from pubqueue.rules.audience import NotifyFormer
from pubqueue.rules.expire import Expire
from pubqueue.rules.presence import Arrive, Bounce, Leave
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.together import Together, together
from pubqueue.rules.validity import MAX_NAMED, MAX_PUBLISHED

IDS = [f"i{number}" for number in range(MAX_PUBLISHED)]
UNLOCK = unlocks(BOB, *IDS[:MAX_NAMED])
PUBLISH = publishes(*IDS)
TOGETHER = Together(who(ETL), tuple(retracts(ETL, name) for name in IDS))


def waiting_of(requests):
    waiting = WaitingRequests()
    for one in requests:
        waiting.add(one, print)
    return waiting


def next_batch(waiting):
    return [one for one, _ in waiting.take_batch()]


def shared(*requests):
    """Return the requests that the next batch takes, and the rest."""
    waiting = waiting_of(requests)
    return next_batch(waiting), [one for one, _ in waiting.take_all()]


@pytest.mark.parametrize(
    "large", [UNLOCK, PUBLISH, TOGETHER], ids=["unlocks", "publishes", "together"]
)
def test_small_requests_are_in_the_next_batch_however_large_others_are(large):
    small = [retracts(ANN, "a"), touches(ANN, "b"), publishes("c", by="other@x")]
    waiting = waiting_of([large] * 20 + small)
    assert next_batch(waiting) == small
    assert next_batch(waiting) == [large]
    waiting.add(small[0], print)
    waiting.add(large, print)
    assert next_batch(waiting) == [small[0]]
    assert [next_batch(waiting) for _ in range(20)] == [[large]] * 20
    assert not waiting


def test_large_requests_get_every_second_batch_however_many_small_ones_wait():
    waiting, taken = waiting_of([PUBLISH] * 5), []
    for number in range(10):
        for at in range(MAX_BATCH_REQUESTS):
            waiting.add(retracts(ANN, f"{number}.{at}"), print)
        taken.append(next_batch(waiting))
    assert [batch == [PUBLISH] for batch in taken] == [False, True] * 5


def test_a_small_request_after_many_presences_is_in_the_next_batch():
    crowd = [Jid(f"bot{number}@evil.example/{'x' * 9}") for number in range(2000)]
    words = [word for jid in crowd for word in (Arrive(jid), Leave(jid))]
    small = [publishes(name) for name in "abc"]
    taken, left = shared(*words, *small)
    assert taken == [*words[: len(taken) - 3], *small]
    assert left == words[len(taken) - 3 :]
    assert sum(map(weight, taken[:-3])) <= MAX_UNPASSED_ITEMS


def many(account, count):
    return [publishes(f"{account}.{n}", by=f"{account}@x") for n in range(count)]


def test_an_account_with_few_requests_does_not_wait_for_the_thousands_of_another():
    flood, other, few = many("eve", 3_000), many("mallory", 1_000), many("bob", 3)
    taken, left = shared(*flood, *other, *few)
    assert taken[-3:] == few
    assert len(taken) == MAX_BATCH_REQUESTS
    half = (MAX_BATCH_REQUESTS - 3) // 2
    assert taken[:-3] == [*flood[: half + 1], *other[:half]]
    assert left == [*flood[half + 1 :], *other[half:]]


def test_a_large_request_does_not_wait_for_all_large_ones_of_another_account():
    mine = publishes(*IDS[:5], by="bob@x")
    waiting = waiting_of([*[PUBLISH] * 50, mine, PUBLISH])
    assert next_batch(waiting) == [PUBLISH]
    assert next_batch(waiting) == [mine, PUBLISH]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=400), st.randoms())
def test_all_are_taken_once_and_each_account_in_its_order(asked, draw):
    waiting = WaitingRequests()
    came, seen = [], []
    for number, (account, is_large) in enumerate(asked):
        one = publishes(*(IDS[:400] if is_large else [str(number)]), by=f"{account}@x")
        came.append(one)
        waiting.add(one, print)
        if draw.random() < 0.1:
            waiting.took(waiting.room, draw.random() / 4)
        if draw.random() < 0.02:
            seen += next_batch(waiting)
    while waiting:
        seen += next_batch(waiting)
    for account in "abcde":
        by = [[id(one) for one in all_ if one.by.jid == f"{account}@x"] for all_ in (came, seen)]
        assert by[0] == by[1]
    assert len(came) == len(seen)


def test_batches_that_take_long_have_fewer_requests_and_quick_ones_more_again():
    waiting = WaitingRequests()
    waiting.took(MAX_BATCH_REQUESTS, 4 * LONG)
    assert waiting.room == MAX_BATCH_REQUESTS // 4
    waiting.took(1, 4 * LONG)
    assert waiting.room == MIN_BATCH_REQUESTS, "never fewer"
    waiting.took(MIN_BATCH_REQUESTS - 1, LONG / 2)
    assert waiting.room == MIN_BATCH_REQUESTS, "it had no need of more"
    for _ in range(20):
        waiting.took(waiting.room, LONG / 2)
    assert waiting.room == MAX_BATCH_REQUESTS


def test_small_work_stays_in_order():
    asked = [publishes(*IDS[:100]), retracts(ANN, "a"), publishes(*IDS[:300]), touches(BOB, "b")]
    assert shared(*asked) == (asked, [])


def test_a_request_waits_for_earlier_large_requests_of_its_account():
    small, other = publishes("last"), publishes("other", by="other@x")
    waiting = waiting_of([*[PUBLISH] * 3, small, other, small])
    assert next_batch(waiting) == [other]
    assert [next_batch(waiting) for _ in range(4)] == [*[[PUBLISH]] * 3, [small, small]]


def test_a_publish_waits_for_earlier_staged_items_of_its_account():
    staged, behind = StagePublish(PUBLISH, Mark("app", 1)), publishes("b")
    waiting = waiting_of([staged, behind])
    assert [next_batch(waiting), next_batch(waiting)] == [[staged], [behind]]


def test_another_connection_of_the_account_waits_too():
    behind = publishes("b", by=f"{account_of(Jid(ETL))}/other")
    waiting = waiting_of([PUBLISH, behind])
    assert [next_batch(waiting), next_batch(waiting)] == [[PUBLISH], [behind]]


def test_unavailable_presence_waits_for_earlier_requests_of_its_account():
    waiting = [UNLOCK, UNLOCK, Leave(BOB), Bounce(BOB, 1, 1, gone=True)]
    assert shared(*waiting) == (waiting[:1], waiting[1:])


def test_requests_of_the_service_itself_stay_in_order():
    asked = [NotifyFormer(JOBS), NotifyFormer(JOBS), Expire(), publishes("a")]
    assert shared(*asked) == (asked[3:], asked[:3])


def test_an_id_that_is_settled_counts_more_than_one_that_is_published():
    assert weight(UNLOCK) == SETTLED * MAX_NAMED == MAX_BATCH_ITEMS
    each = settles_each(retracts(ANN), *[(f"i{number}",) for number in range(MAX_NAMED)])
    assert weight(each) == weight(UNLOCK)
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


def test_requests_without_room_go_into_later_batches_one_of_each_account_in_turn():
    waiting = waiting_of([UNLOCK] * 3)
    last = unlocks(ANN, *IDS[:MAX_NAMED])
    waiting.add(last, print)
    batches = []
    while waiting:
        batches.append(next_batch(waiting))
        if len(batches) == 1:
            waiting.add(retracts(ANN, "a"), print)
    assert batches == [[UNLOCK], [last], [retracts(ANN, "a")], [UNLOCK], [UNLOCK]]


def fed(request, copies):
    """Return the decision about a publish whose items go into this many nodes."""
    return Decision(Done(), work=copies * len(request.drafts))


def test_requests_that_are_put_back_run_first_except_publishes_that_feed_many_queues():
    dear = [publishes(f"d{number}", by="bulk@x") for number in range(40)]
    small = [publishes(name, by="other@x", node="elsewhere") for name in "abc"]
    waiting = waiting_of([*dear[:20], *small, *dear[20:]])
    batch = waiting.take_batch()
    assert len(batch) == 43
    waiting.learn(dear[:10], [fed(one, 101) for one in dear[:10]])
    waiting.put_back(batch[10:])
    assert next_batch(waiting) == small
    waiting.add(small[0], print)
    assert next_batch(waiting) == dear[10:20]
    assert next_batch(waiting) == small[:1]
    assert next_batch(waiting) == dear[20:30]
    waiting.learn(dear[20:21], [fed(dear[20], 2)])
    assert next_batch(waiting) == dear[30:]
    assert not waiting
    assert shared(*dear)[0] == dear


def test_requests_that_are_put_back_keep_the_order_of_each_account():
    order = [publishes("a", by="x@x"), publishes("b", by="x@x", node="elsewhere")]
    waiting = waiting_of(order)
    batch = waiting.take_batch()
    waiting.learn(order[:1], [fed(order[0], 101)])
    waiting.put_back(batch)
    waiting.add(publishes("c", by="x@x", node="elsewhere"), print)
    assert [one.drafts[0].id for one in next_batch(waiting)] == ["a", "b", "c"]


def test_a_combined_request_weighs_as_its_parts_and_may_fill_a_batch():
    few = Together(who(ETL), (publishes("a"), retracts(ETL, "b", "c")))
    assert weight(few) == PUBLISHED + 2 * SETTLED
    assert weight(TOGETHER) == SETTLED * len(IDS) > MAX_BATCH_ITEMS
    waiting = waiting_of([publishes(*IDS[:999]), TOGETHER, TOGETHER, publishes("a", by="other@x")])
    assert [len(next_batch(waiting)) for _ in range(4)] == [1, 1, 1, 1]
    assert not waiting


def test_a_combined_request_weighs_as_its_publishes_to_a_node_that_feeds_many():
    apart = publishes("a", by="x@x")
    as_one = Together(who("x@x"), (apart,))
    small = publishes("b", by="other@x", node="elsewhere")
    waiting = waiting_of([as_one, as_one, small])
    batch = waiting.take_batch()
    own = Decision(Done(), (SetAvailable(JOBS, Jid("x@x"), available=True),), work=101)
    waiting.learn([as_one], [together(as_one, [own])])
    waiting.put_back(batch[1:])
    assert [next_batch(waiting), next_batch(waiting)] == [[small], [as_one]]
