"""Changes of whether an address can be reached."""

from harness.batches.facts import ANN, JOBS, window

from pubqueue.model.changes import Recount
from pubqueue.model.decision import Decision, Done
from pubqueue.rules.presence import ReachChanged, ReachFacts, reach_changed


def test_its_window_is_counted_again_in_each_of_its_queues():
    facts = ReachFacts((window(ANN),))
    assert reach_changed(ReachChanged(ANN), facts) == Decision(Done(), (Recount(JOBS, ANN),))


def test_an_address_without_subscriptions_changes_nothing():
    assert reach_changed(ReachChanged(ANN), ReachFacts(())) == Decision(Done())
