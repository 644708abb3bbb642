"""Who may make a link that sends a signal, what it says, and for how long it has an effect."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, EVE, JOBS, NOW, after, held, queue, waiting, who
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from pubqueue.model.changes import PutRow, TakeSignal
from pubqueue.model.decision import Refusal, Refused, Signaled
from pubqueue.model.entities import Affiliation, ItemId, Millis, NodeName, State
from pubqueue.model.records import ServiceSecret
from pubqueue.model.waits import Wait
from pubqueue.rules import signal_links, waits
from pubqueue.rules.signal_links import (
    LONGEST,
    MAX_TEXT,
    SECRET,
    USUAL,
    MakeSignalLink,
    MakeSignalLinkFacts,
    fault_of_link,
)
from pubqueue.rules.waits import SignalFacts

I1 = ItemId("i1")
OURS, OTHER = ServiceSecret(SECRET, b"ours"), ServiceSecret(SECRET, b"other")
KEPT = waiting(1, state=State.HELD, token=7, acquired=1, wait=Wait(("yes",), 5, holds=3))


def asks(
    item=KEPT, *, by=BOSS, affiliation=Affiliation.OWNER, secret=OURS, within=USUAL, name="yes"
):
    request = MakeSignalLink(who(by), JOBS, I1, name, "link-1", OTHER, within)
    facts = SignalFacts(NOW, queue(), affiliation, item)
    return signal_links.make_signal_link(request, MakeSignalLinkFacts(facts, secret))


def link_of(decision, secret=OURS):
    return signal_links.read(decision.reply.path.removeprefix("/answer/"), secret.value)


def uses(link, item, now=NOW, affiliation=Affiliation.OWNER):
    """Use a link for an item; return what the rule decides."""
    return waits.signal(link.signal("5"), SignalFacts(now, queue(), affiliation, item))


@pytest.mark.parametrize(
    ("by", "affiliation", "refusal"),
    [
        (BOSS, Affiliation.OWNER, None),
        (BOSS, Affiliation.PUBLISHER, None),
        (ETL, Affiliation.NONE, None),  # its author
        (EVE, Affiliation.NONE, Refusal.FORBIDDEN),
        (ANN, Affiliation.MEMBER, Refusal.FORBIDDEN),
    ],
)
def test_who_may_signal_may_make_a_link(by, affiliation, refusal):
    reply = asks(by=by, affiliation=affiliation).reply
    assert (reply.refusal if isinstance(reply, Refused) else None) is refusal


def test_a_stranger_does_not_learn_which_items_exist():
    none = Affiliation.NONE
    assert asks(by=EVE, affiliation=none).reply == asks(None, by=EVE, affiliation=none).reply
    assert asks(None).reply.refusal is Refusal.ITEM_NOT_FOUND


def test_the_first_link_is_made_under_the_secret_that_is_kept_then():
    made = asks(secret=None)
    assert made.changes == (PutRow(OTHER),)
    assert link_of(made, OTHER).name == "yes"
    assert asks().changes == ()
    assert made.reply.path not in repr(made.reply)


def test_a_link_sends_its_signal_once():
    made = asks(within=Millis(60_000))
    assert made.reply.until == after(60)
    link = link_of(made)
    sent = uses(link, KEPT)
    assert sent.reply == Signaled(JOBS, I1, State.QUEUED, wakes=True)
    (change,) = sent.changes
    assert isinstance(change, TakeSignal)
    assert (change.signal.name, change.signal.data, change.signal.by) == ("yes", "5", "boss@x")
    again = uses(link, replace(KEPT, wait=KEPT.wait.with_signal(change.signal)))
    assert (again.reply.again, again.changes) == (True, ())


def with_holds(item, count):
    return replace(item, wait=Wait(("yes",), 5, holds=count))


@pytest.mark.parametrize(
    ("made_for", "used_for", "is_over"),
    [
        (KEPT, KEPT, False),
        (KEPT, with_holds(waiting(1), 3), True),  # it was woken
        (KEPT, with_holds(held(1), 3), True),  # and is at its next worker
        (KEPT, with_holds(KEPT, 4), True),  # and is held again, for another answer
        (held(1), held(1), False),  # the answer is quicker than the hold
        (held(1), with_holds(KEPT, 1), False),
        (held(1), waiting(1), False),  # its worker has died before it could hold it
        (held(1), with_holds(waiting(1), 1), True),
        (with_holds(held(1), 3), KEPT, True),  # that was the wait before
        (with_holds(held(1), 3), with_holds(KEPT, 4), False),
        (KEPT, replace(KEPT, seq=9), True),  # another item under its id
    ],
)
def test_a_link_is_for_one_wait(made_for, used_for, is_over):
    reply = uses(link_of(asks(made_for)), used_for).reply
    assert isinstance(reply, Refused) is is_over
    if is_over:
        assert reply == Refused(Refusal.ITEM_NOT_FOUND, waits.OVER)


def test_a_link_is_over_when_its_time_is():
    link = link_of(asks(within=Millis(60_000)))
    assert isinstance(uses(link, KEPT, after(59)).reply, Signaled)
    assert uses(link, KEPT, after(60)).reply.refusal is Refusal.ITEM_NOT_FOUND


def test_who_may_signal_no_more_has_no_links():
    link = link_of(asks())
    assert uses(link, KEPT, affiliation=Affiliation.NONE).reply.refusal is Refusal.FORBIDDEN


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"within": Millis(0)}, "within"),
        ({"within": Millis(LONGEST + 1)}, "within"),
        ({"name": ""}, "signal"),
        ({"name": "y" * 256}, "signal"),
        ({"name": "\ud800"}, "signal"),
    ],
)
def test_bounds_of_a_link(changed, setting):
    request = MakeSignalLink(who(BOSS), JOBS, I1, "yes", "1", OTHER)
    assert fault_of_link(request) is None
    assert fault_of_link(replace(request, within=LONGEST)) is None
    assert fault_of_link(replace(request, **changed)).setting == setting


def test_the_longest_link_fits_into_the_first_line_of_a_request():
    names = {"node": NodeName("n" * 1023), "item": ItemId("i" * 1023), "name": "y" * 255}
    link = replace(link_of(asks()), **names, account="a" * 2047, id="0" * 32)
    text = signal_links.written(link, OURS.value)
    assert len(text) < MAX_TEXT
    assert signal_links.read(text, OURS.value) == link
    assert signal_links.read("A" * (MAX_TEXT + 1), OURS.value) is None


@given(some.data())
def test_a_text_that_was_changed_is_no_link(data):
    text = asks().reply.path.removeprefix("/answer/")
    at = data.draw(some.integers(0, len(text) - 1))
    other = data.draw(some.characters(exclude_categories=()))
    changed = text[:at] + other + text[at + 1 :]
    # the last character has bits that stand for nothing
    found = signal_links.read(changed, OURS.value)
    is_last = at == len(text) - 1
    assert found is None or ((is_last or changed == text) and found == link_of(asks()))
    assert signal_links.read(text, OTHER.value) is None


@given(some.text())
def test_any_other_text_is_no_link(text):
    assert signal_links.read(text, OURS.value) is None
