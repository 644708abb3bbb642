"""Available presence: which addresses are recorded, and which get deliveries again."""

import pytest
from harness.batches.facts import ANN, BOB, JOBS, window
from msgspec.structs import replace

from pubqueue.model.changes import ForgetResource, NoteActivity, NoteResource, SetAvailable
from pubqueue.model.decision import Decision, Done
from pubqueue.model.entities import Jid, NodeName
from pubqueue.rules.presence import MAX_RESOURCES, Arrive, ArriveFacts, arrive, note_here

OTHER = NodeName("other")
ACCOUNT = Jid("ann@x")


def test_a_returning_subscriber_gets_deliveries_again():
    away = window(available=False)
    facts = ArriveFacts((away, replace(window(BOB), node=OTHER)), (ANN,))
    changes = (NoteActivity(ANN), SetAvailable(JOBS, ANN, available=True))
    assert arrive(Arrive(ANN), facts) == Decision(Done(), changes)


def test_an_arrival_is_recorded_once_and_only_for_resources():
    new = (NoteResource(ANN), NoteActivity(ANN))
    assert arrive(Arrive(ANN), ArriveFacts((), is_somebody=True)).changes == new
    assert arrive(Arrive(ANN), ArriveFacts((window(),))).changes == new
    again = arrive(Arrive(ANN), ArriveFacts((), (ANN,), is_somebody=True))
    assert again.changes == (NoteActivity(ANN),)
    assert arrive(Arrive(ACCOUNT), ArriveFacts((), is_somebody=True)).changes == ()


def test_nothing_is_stored_for_a_stranger():
    assert arrive(Arrive(ANN), ArriveFacts(())) == Decision(Done())


def test_the_known_resources_of_an_account_are_limited():
    here = tuple(Jid(f"ann@x/{n}") for n in range(MAX_RESOURCES))
    facts = ArriveFacts((), here, is_somebody=True)
    new = Jid("ann@x/new")
    assert arrive(Arrive(new), facts).changes[:2] == (NoteResource(new), ForgetResource(here[0]))
    few = ArriveFacts((), here[1:], is_somebody=True)
    assert arrive(Arrive(new), few).changes == (NoteResource(new), NoteActivity(new))


@pytest.mark.parametrize(
    ("came", "known", "noted", "forgotten"),
    [
        ((), 3, [], 0),
        ((ANN, ANN, ACCOUNT), 0, [ANN], 0),
        ((ANN, BOB), MAX_RESOURCES, [ANN, BOB], 2),
        ((ANN,), MAX_RESOURCES - 1, [ANN], 0),
        (tuple(Jid(f"ann@x/{n}-") for n in range(MAX_RESOURCES + 5)), 7, None, 7),
    ],
)
def test_beyond_the_bound_the_oldest_are_dropped(came, known, noted, forgotten):
    here = tuple(Jid(f"ann@x/old{n}") for n in range(known))
    changes = [*note_here(came, here)]
    found = [one.jid for one in changes if isinstance(one, NoteResource)]
    assert found == (list(came[-MAX_RESOURCES:]) if noted is None else noted)
    gone = [one.jid for one in changes if isinstance(one, ForgetResource)]
    assert gone == list(here[:forgotten])
