"""Pending subscriptions, and leases, in batches: deliveries, and how much is done at once."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, after, who
from harness.batches.queue_requests import joins, publishes
from harness.batches.shell import Shell
from msgspec.structs import replace
from structlog.testing import capture_logs

from pubqueue.engine.facts import managing as pages
from pubqueue.engine.facts import publishing
from pubqueue.engine.facts.queue import AT_ONCE
from pubqueue.engine.listings import Reviews, SubscriptionsOf
from pubqueue.engine.operator_log import log_decisions
from pubqueue.model.changes import Approve, EndSubscription
from pubqueue.model.decision import Done, Refusal, Retrieved
from pubqueue.model.entities import Jid, SubscriptionState
from pubqueue.model.notices import Deliver, singly
from pubqueue.model.replies import Page
from pubqueue.rules import audience
from pubqueue.rules.audience import ResumeReviews
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.retrieve import Retrieve
from pubqueue.rules.subscribe import Lease, Options, Subscribe
from pubqueue.rules.subscribers import Answer, SetSubscriptions, Wish

PENDING = SubscriptionsOf(JOBS, SubscriptionState.PENDING)
STAND = SubscriptionsOf(JOBS)
CROWD = [Jid(f"bot{number:04}@x/1") for number in range(AT_ONCE + 100)]


def declares(**settings):
    people = {"owners": (Jid("boss@x"),), "publishers": (Jid("etl@x"),)}
    wanted = Settings({"access_model": "authorize"} | settings)
    return Declare(who(BOSS, admin=True), JOBS, wanted, **people)


def listens(jid, options=None):
    return Subscribe(who(jid), JOBS, Jid(jid), f"{JOBS}-{jid}", options)


def listed(shell, listing):
    return [one.jid for one in shell.look_within(lambda tx: tx.page(listing, None, 9_999))]


def test_a_worker_is_handed_nothing_before_it_is_approved_and_at_once_then(shell):
    shell.do(declares(queueing=True))
    waiting = shell.batch(joins(ANN, 2), publishes("a", "b", "c"))
    assert waiting.deliveries == ()
    approved = shell.batch(Answer(who(BOSS), JOBS, ANN, allow=True))
    assert [type(one) for one in approved.deliveries] == [Deliver, Deliver]


def test_a_pending_subscriber_is_not_a_subscriber_for_other_rules(shell):
    shell.do(declares(publish_model="subscribers"))
    shell.do(listens(ANN))
    assert shell.do(publishes("a", by=ANN)).refusal is Refusal.FORBIDDEN
    assert shell.do(Retrieve(who(ANN), JOBS)).refusal is Refusal.NOT_APPROVED
    (reported,) = shell.batch(publishes("b")).decisions
    assert reported.notices == ()
    shell.do(Answer(who(BOSS), JOBS, ANN, allow=True))
    (reported,) = shell.batch(publishes("c", by=ANN)).decisions
    assert [one.to for one in singly(reported.notices)] == [ANN]
    assert isinstance(shell.do(Retrieve(who(ANN), JOBS, page=Page())), Retrieved)


@pytest.mark.parametrize("slices", range(3))
def test_opening_a_node_grants_all_pending_subscriptions_even_after_a_kill(
    tmp_path, shell, monkeypatch, slices
):
    monkeypatch.setattr(publishing, "CROWD", 4)
    for place in (pages, audience, audience):
        monkeypatch.setattr(place, "PAGE", 3)
    shell.do(declares())
    shell.batch(*map(listens, CROWD[:8]))
    assert listed(shell, PENDING) == CROWD[:8]
    request = Configure(who(BOSS), JOBS, Settings({"access_model": "open"}))
    for _ in range(slices):
        request = shell.batch(request).decisions[0].then
    again = Shell(tmp_path / "queue.db")
    again.do(ResumeReviews() if slices else request)
    assert (listed(again, PENDING), listed(again, STAND)) == ([], CROWD[:8])
    assert listed_reviews(again) == []
    again.close()


def listed_reviews(shell):
    return shell.look_within(lambda tx: tx.page(Reviews(), None, 9))


def test_leases_that_end_together_end_in_slices(shell):
    shell.do(declares(access_model="open"))
    lease = Options(lease=Lease(after(100)))
    shell.batch(*(listens(jid, lease) for jid in CROWD))
    shell.now = after(101)
    counts = []
    while True:
        (done,) = shell.batch(Expire()).decisions
        ended = sum(isinstance(change, EndSubscription) for change in done.changes)
        if not ended:
            break
        assert len(done.notices) == ended
        counts.append(ended)
    assert counts == [AT_ONCE, 100]
    (node,) = shell.look(lambda tx: tx.nodes())
    assert node.subscriptions == 0


def test_the_log_has_the_reason_why_a_subscription_ended(shell):
    shell.do(declares(queueing=True))
    owner = who(BOSS)
    ends = {
        "an owner has denied it": Answer(owner, JOBS, ANN, allow=False),
        "an owner has ended it": SetSubscriptions(owner, JOBS, (Wish(ANN, "none", None, ""),)),
        "its lease is over": Expire(),
    }
    for why, request in ends.items():
        shell.do(replace(joins(ANN), options=Options(1, lease=Lease(after(9)))))
        shell.now = after(10) if isinstance(request, Expire) else shell.now
        with capture_logs() as logged:
            log_decisions([request], shell.batch(request).decisions)
        assert [(line["event"], line["why"]) for line in logged] == [("worker.unsubscribed", why)]


def test_an_answer_that_comes_twice_in_one_batch_counts_once(shell):
    shell.do(declares())
    shell.do(listens(ANN))
    yes, no = (Answer(who(BOSS), JOBS, ANN, allow=allow) for allow in (True, False))
    first, second = shell.batch(yes, no).decisions
    assert (first.changes, second.changes) == ((Approve(JOBS, ANN),), ())
    assert second.reply == Done()
    assert shell.do(publishes("a", by=ETL)).ids == ("a",)
