"""Accounts that may retract items cancel them, and missing ones are named; dead items are cancelled by reason, in steps."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, EVE, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, touches, unlocks

from pubqueue.engine.facts import inspecting, queue, reading
from pubqueue.model.decision import Cancelled, Redriven, Refusal
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.model.notices import Retracted
from pubqueue.rules import dead_letters
from pubqueue.rules.dead_letters import Cancel, Discard, ReadReasons, Redrive
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.read import ReadItems
from pubqueue.rules.settle import Outcome
from pubqueue.rules.validity import MAX_NAMED

OWNER, ADMIN = who(BOSS), who(EVE, admin=True)


def ids(*names):
    return tuple(map(ItemId, names))


def there(shell, state=None, **words):
    page = shell.do(ReadItems(OWNER, JOBS, state=state, payloads=False, **words))
    return [entry.item.id for entry in page.entries]


def dies(shell, *reasons):
    """Let items 0, 1, ... die, each of its reason."""
    shell.batch(joins(ANN, len(reasons)))
    shell.batch(publishes(*map(str, range(len(reasons)))))
    for number, reason in enumerate(reasons):
        shell.do(unlocks(ANN, str(number), outcome=Outcome.REJECT, reason=reason))


# --- by id --------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [OWNER, ADMIN])
def test_an_item_goes_in_any_state_and_its_worker_is_notified(shell, by):
    shell.do(a_queue())
    dies(shell, "no")
    shell.batch(publishes("held"))
    shell.batch(publishes("late", delay=60), publishes("next"))
    done = shell.batch(Cancel(by, JOBS, ids("0", "held", "late", "next", "none")))
    (decision,) = done.decisions
    assert decision.reply == Cancelled(JOBS, 4, 1, ids("none"))
    assert decision.notices == (Retracted(ANN, JOBS, ids("held")),)
    assert there(shell) == []
    assert shell.do(touches(ANN, "held")).refusal is Refusal.ITEM_NOT_FOUND


def test_an_owner_that_held_the_item_before_may_cancel_it(shell):
    shell.do(a_queue())
    shell.batch(joins(BOSS), publishes("a"))
    shell.do(unlocks(BOSS, "a", delay=after(60) - after(0)))
    assert shell.do(Cancel(OWNER, JOBS, ids("a"))) == Cancelled(JOBS, 1)


def test_an_author_retracts_only_its_own_items(shell):
    shell.do(a_queue())
    shell.batch(publishes("mine"), publishes("yours", by=BOSS))
    assert shell.do(Cancel(who(ETL), JOBS, ids("mine", "yours"))).refusal is Refusal.NOT_YOURS
    for by in (BOB, ANN):
        assert shell.do(Cancel(who(by), JOBS, ids("mine"))).refusal is Refusal.NOT_YOURS
    assert there(shell) == ["mine", "yours"]
    assert shell.do(Cancel(who(ETL), JOBS, ids("mine", "none"))) == Cancelled(
        JOBS, 1, 0, ids("none")
    )
    assert shell.do(Cancel(who(ETL), JOBS, ids("none"))).refusal is Refusal.ITEM_NOT_FOUND


def test_a_request_for_dead_items_cancels_only_dead_items(shell):
    shell.do(a_queue())
    dies(shell, "no")
    shell.batch(publishes("held"))
    shell.batch(publishes("next"))
    reply = shell.do(Cancel(OWNER, JOBS, ids("0", "held", "next"), dead=True))
    assert reply == Cancelled(JOBS, 1, 0, ids("held", "next"))
    assert there(shell) == ["held", "next"]


def test_a_plain_node_has_nothing_to_cancel_and_a_request_has_a_bound(shell):
    plain = NodeName("plain")
    shell.do(Declare(ADMIN, plain, Settings({"queueing": False}), (BOSS,), ()))
    assert shell.do(Cancel(OWNER, plain, ids("a"))).refusal is Refusal.NOT_A_QUEUE
    assert shell.do(Cancel(OWNER, NodeName("none"), ids("a"))).refusal is Refusal.NODE_NOT_FOUND
    many = ids(*map(str, range(MAX_NAMED + 1)))
    assert shell.do(Cancel(OWNER, JOBS, many)).refusal is Refusal.TOO_MANY_ITEMS
    assert shell.do(Cancel(OWNER, JOBS, ids("a", "a"))).refusal is Refusal.BAD_REQUEST


# --- by reason ----------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """Let a step have few items."""
    for module, name in (
        (dead_letters, "CANCEL_SLICE"),
        (dead_letters, "DEATHS_SLICE"),
        (queue, "CANCEL_SLICE"),
        (reading, "CANCEL_SLICE"),
        (inspecting, "DEATHS_SLICE"),
    ):
        monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(reading, "MAX_ITEMS", 2)


REASONS = ("no row 1", "timed out", "no row 22", "no row 333", "timed out", "odd")


def test_reasons_are_counted_over_all_steps_the_commonest_first(shell, small):
    shell.do(a_queue())
    dies(shell, *REASONS)
    page = shell.do(ReadReasons(OWNER, JOBS))
    assert [(one.reason, one.count) for one in page.reasons] == [
        ("no row *", 3),
        ("timed out", 2),
        ("odd", 1),
    ]
    assert (page.looked, page.more, page.whole) == (6, False, True)
    first = shell.do(ReadReasons(OWNER, JOBS, most=1))
    rest = shell.do(ReadReasons(OWNER, JOBS, first.reasons[-1].reason))
    assert (first.more, [one.reason for one in rest.reasons]) == (True, ["timed out", "odd"])


def test_a_count_of_reasons_is_bounded(shell, small, monkeypatch):
    monkeypatch.setattr(dead_letters, "DEATHS_LOOKED_AT", 4)
    monkeypatch.setattr(dead_letters, "MAX_SHAPES", 1)
    shell.do(a_queue())
    dies(shell, *REASONS)
    page = shell.do(ReadReasons(OWNER, JOBS))
    assert [(one.reason, one.count) for one in page.reasons] == [("no row *", 3), ("*", 1)]
    assert (page.looked, page.whole) == (4, False)


def test_the_dead_of_a_reason_are_listed_page_by_page(shell, small):
    shell.do(a_queue())
    dies(shell, *REASONS)
    found, place, more = [], 0, True
    while more:
        page = shell.do(
            ReadItems(OWNER, JOBS, place, state=State.DEAD, payloads=False, reason="no row *")
        )
        found += [entry.item.id for entry in page.entries]
        assert page.through > place
        place, more = page.through, page.more
    assert found == ["0", "2", "3"]
    one = shell.do(
        ReadItems(OWNER, JOBS, max=1, state=State.DEAD, payloads=False, reason="timed out")
    )
    assert ([entry.item.id for entry in one.entries], one.more) == (["1"], True)


def test_the_dead_of_a_reason_are_discarded_in_one_request_of_many_steps(shell, small):
    shell.do(a_queue())
    dies(shell, *REASONS)
    assert shell.do(Discard(OWNER, JOBS, "no row *")) == Cancelled(JOBS, 3)
    assert there(shell, State.DEAD, max=9) == ["1", "4"]
    assert shell.do(Discard(OWNER, JOBS)) == Cancelled(JOBS, 3)
    assert there(shell) == []


def test_a_request_for_very_many_items_cancels_a_part_and_reports_its_end(
    shell, small, monkeypatch
):
    monkeypatch.setattr(dead_letters, "CANCEL_LOOKED_AT", 4)
    shell.do(a_queue())
    dies(shell, *REASONS)
    first = shell.do(Discard(OWNER, JOBS, "timed out"))
    assert (first.count, first.through > 0) == (1, True)
    assert shell.do(Discard(OWNER, JOBS, "timed out", first.through)) == Cancelled(JOBS, 1)
    part = shell.do(Redrive(OWNER, JOBS, reason="*o*"))
    assert (part.count, part.through > 0) == (4, True)


def test_the_dead_of_a_reason_live_again(shell, small):
    shell.do(a_queue())
    dies(shell, *REASONS)
    assert shell.do(Redrive(OWNER, JOBS, reason="no row *")) == Redriven(JOBS, 3)
    assert shell.do(ReadReasons(OWNER, JOBS)).reasons[0].reason == "timed out"


@pytest.mark.parametrize("request_of", [Discard, ReadReasons])
@pytest.mark.parametrize("by", [ETL, ANN, EVE])
def test_only_managers_of_the_node_may(shell, request_of, by):
    shell.do(a_queue())
    dies(shell, "no")
    assert shell.do(request_of(who(by), JOBS)).refusal is Refusal.FORBIDDEN
    assert shell.do(request_of(who(by), NodeName("none"))).refusal is Refusal.NODE_NOT_FOUND
    assert there(shell) == ["0"]
