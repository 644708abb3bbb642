"""Only an owner may end locks of others, and another account's subscription."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, EVE, JOBS, NOW, held, plain, queue, waiting, who

from pubqueue.model.changes import EndSubscription, Release
from pubqueue.model.decision import Decision, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, State
from pubqueue.model.notices import Unlocked
from pubqueue.model.replies import Freed
from pubqueue.rules.unlock import Dismiss, FreeFacts, FreeLocks, dismiss, free_locks

OWNER = Affiliation.OWNER


def free(*items, affiliation=OWNER, node=None, by=BOSS, admin=False):
    names = tuple(ItemId(f"i{at}") for at, _ in enumerate(items, 1))
    facts = FreeFacts(NOW, node or queue(), affiliation, items)
    return free_locks(FreeLocks(who(by, admin=admin), JOBS, names), facts)


def let_go(*items, affiliation=OWNER, subscribed=True, freeing=True, node=None):
    facts = FreeFacts(NOW, queue() if node is None else node, affiliation, items, subscribed)
    return dismiss(Dismiss(who(BOSS), JOBS, ANN, freeing), facts)


def refusal(decision):
    assert decision.changes == decision.notices == ()
    return decision.reply.refusal if isinstance(decision.reply, Refused) else None


def released(item):
    """Return the change that ends its lock at once, without a failure."""
    return Release(item, State.QUEUED, None, item.failed, item.released + 1)


def test_locks_end_without_a_failure_and_each_holder_is_notified_once():
    one, two, three = held(1), held(2, BOB), held(3)
    assert free(one, two, three) == Decision(
        Freed(JOBS, 3),
        (released(one), released(two), released(three)),
        (
            Unlocked(ANN, JOBS, (ItemId("i1"), ItemId("i3"))),
            Unlocked(BOB, JOBS, (ItemId("i2"),)),
        ),
    )


def test_all_locks_end_or_none():
    decision = free(held(1), None)
    assert refusal(decision) is Refusal.ITEM_NOT_FOUND
    assert decision.reply.reason == "jobs has no item i2"
    assert refusal(free(held(1), waiting(2))) is Refusal.LOCK_LOST


@pytest.mark.parametrize("affiliation", set(Affiliation) - {OWNER})
def test_only_owners_end_locks_and_subscriptions(affiliation):
    assert refusal(free(held(), affiliation=affiliation)) is Refusal.FORBIDDEN
    assert refusal(let_go(held(), affiliation=affiliation)) is Refusal.FORBIDDEN


def test_an_administrator_counts_as_owner():
    assert free(held(), affiliation=Affiliation.NONE, by=EVE, admin=True).reply == Freed(JOBS, 1)


def test_where_there_is_no_node_nothing_ends():
    facts = FreeFacts(NOW, None, OWNER)
    assert refusal(dismiss(Dismiss(who(BOSS), JOBS, ANN), facts)) is Refusal.NODE_NOT_FOUND


def test_a_subscription_ends_and_with_it_what_is_held():
    item = held(1)
    assert let_go(item) == Decision(
        Freed(JOBS, 1),
        (EndSubscription(JOBS, ANN), released(item)),
        (Unlocked(ANN, JOBS, (item.id,)),),
    )


def test_or_its_locks_stay():
    assert let_go(held(1), freeing=False) == Decision(Freed(JOBS, 0), (EndSubscription(JOBS, ANN),))


def test_a_subscription_to_a_node_that_is_no_queue_ends_likewise():
    assert let_go(node=plain()).changes == (EndSubscription(JOBS, ANN),)


def test_an_account_without_subscription_cannot_be_dismissed():
    assert refusal(let_go(subscribed=False)) is Refusal.NOT_SUBSCRIBED
