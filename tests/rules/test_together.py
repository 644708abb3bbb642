"""Combined requests: the first refused part refuses all, and changes and notices are in the order of the parts."""

import pytest
from harness.batches.facts import ANN, BOB, ETL, JOBS, NOW, draft, held, who
from harness.batches.queue_requests import holds, publishes, retracts
from msgspec.structs import replace

from pubqueue.model.changes import AddItem, RemoveItem
from pubqueue.model.decision import (
    Decision,
    Done,
    DoneTogether,
    Published,
    Refusal,
    Refused,
    refuse,
    singly,
    steps,
)
from pubqueue.model.entities import State
from pubqueue.model.notices import Retracted
from pubqueue.rules.publication import MAX_BYTES
from pubqueue.rules.together import Together, Volume, names_by_node, together, unfit
from pubqueue.rules.trimming import TrimItems
from pubqueue.rules.validity import MAX_BYTES_TOGETHER, too_many

PARTS = (retracts(ETL, "i1"), publishes("a", "b"), retracts(ETL, "i2"))
FIRST = Decision(Done(), (RemoveItem(held(1)),), (Retracted(ANN, JOBS, ("i1",)),))
SECOND = Decision(Published(JOBS, ("a", "b")))
THIRD = Decision(Done(), (RemoveItem(held(2)),), (Retracted(BOB, JOBS, ("i2",)),))
ALL = Together(who(ETL), PARTS)


def test_all_are_done_in_their_order():
    done = together(ALL, [FIRST, SECOND, THIRD])
    assert done.reply == DoneTogether((Done(), SECOND.reply, Done()))
    assert done.changes == FIRST.changes + THIRD.changes
    assert done.notices == FIRST.notices + THIRD.notices
    assert done.then is None


@pytest.mark.parametrize("at", range(3))
def test_the_first_refusal_is_that_of_all_and_names_its_part(at):
    before = [FIRST, SECOND, THIRD][:at]
    parts = {refusal: [*before, refuse(refusal, "why", limit=3)] for refusal in Refusal}
    assert {refusal: together(ALL, each) for refusal, each in parts.items()} == {
        refusal: Decision(Refused(refusal, "why", 3, part=at)) for refusal in Refusal
    }


def test_a_combined_request_without_parts_does_nothing():
    assert together(Together(who(ETL), ()), []).reply == DoneTogether(())


def test_each_change_is_made_and_counted_for_its_part():
    done = together(ALL, [FIRST, SECOND, THIRD])
    assert list(steps(ALL, done)) == [(PARTS[0], FIRST.changes), (PARTS[2], THIRD.changes)]
    asked, decided = singly([PARTS[0], ALL], [Decision(Done()), done])
    assert (asked, decided) == ([PARTS[0], PARTS[0], PARTS[2]], [Decision(Done()), FIRST, THIRD])


def test_a_node_that_is_to_be_trimmed_is_and_then_all_is_answered():
    trims = replace(SECOND, then=TrimItems(JOBS, SECOND.reply))
    done = together(ALL, [FIRST, trims, THIRD])
    assert done.then == TrimItems(JOBS, done.reply)


def test_all_parts_are_of_one_account_whichever_its_connections():
    assert unfit(ALL) is None
    assert unfit(Together(who("etl@x/other"), PARTS)) is None
    no = unfit(Together(who(ETL), (*PARTS, retracts(ANN, "i3"))))
    assert (no.refusal, no.part) == (Refusal.BAD_REQUEST, 3)


def test_all_that_is_named_counts_and_a_part_is_never_nothing():
    parts = (*PARTS, publishes(node="other"))
    assert names_by_node(Together(who(ETL), parts)) == {JOBS: 4, "other": 1}
    assert names_by_node(Together(who(ETL), (holds(ETL, "i1", "go"), *parts))) == {
        JOBS: 5,
        "other": 1,
    }
    many = tuple(publishes(node="other") for _ in range(1001))
    assert too_many(Together(who(ETL), many[1:])) is None
    assert too_many(Together(who(ETL), many)) == Refused(Refusal.TOO_MANY_ITEMS, limit=1000)


def test_all_payloads_together_are_bounded():
    half = b"<a>" + b"x" * (MAX_BYTES_TOGETHER // 2 - 7) + b"</a>"
    both = (publishes("a", payload=half), publishes("b", payload=half))
    assert too_many(Together(who(ETL), both)) is None
    no = too_many(Together(who(ETL), (*both, publishes("c", payload=b"<c/>"))))
    assert (no.refusal, no.limit) == (Refusal.PAYLOAD_TOO_BIG, MAX_BYTES_TOGETHER)


def test_the_changes_of_all_parts_are_limited_including_fed_items():
    volume = Volume()
    many = Decision(Done(), tuple(RemoveItem(held(seq)) for seq in range(1, 1001)))
    assert [volume.exceeded_by(many) for _ in range(3)] == [None] * 3
    assert volume.exceeded_by(FIRST).refusal is Refusal.TOO_MANY_ITEMS
    large = AddItem(
        JOBS, draft(payload=b"x" * (MAX_BYTES // 4)), ETL, NOW, State.QUEUED, None, None
    )
    volume = Volume()
    assert [volume.exceeded_by(Decision(Done(), (large,))) for _ in range(4)] == [None] * 4
    assert volume.exceeded_by(Decision(Done(), (large,))).refusal is Refusal.TOO_MANY_ITEMS
