"""A request that names too much is refused before anything is loaded, for any account, and nothing of it is done."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, who
from harness.batches.queue_requests import (
    a_queue,
    publishes,
    retracts,
    settles_each,
    touches,
    unlocks,
)
from harness.batches.shell import Shell

from pubqueue.engine import table
from pubqueue.engine.working_set import WorkingSet
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Affiliation, ItemId, Jid, Policy
from pubqueue.model.transactions import Mark
from pubqueue.rules.dead_letters import Cancel, Redrive
from pubqueue.rules.nodes import SetAffiliations, SetPolicy
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import SetSubscriptions, Wish
from pubqueue.rules.together import Together
from pubqueue.rules.unlock import FreeLocks
from pubqueue.rules.validity import (
    MAX_ENTRIES,
    MAX_NAMED,
    MAX_PUBLISHED,
    MAX_TOGETHER,
    SIZES,
    size_of,
    too_many,
)

BY = who(BOSS, admin=True)


def names(count):
    return tuple(ItemId(f"i{number}") for number in range(count))


def stages(count):
    return StagePublish(publishes(*names(count)), Mark("app", 1))


def done_together(count):
    return Together(who(ETL), tuple(publishes(name) for name in names(count)))


def affiliates(count):
    return SetAffiliations(
        BY, JOBS, tuple((Jid(f"{n}@x"), Affiliation.MEMBER) for n in names(count))
    )


def gives(count):
    given = tuple((Jid(f"{n}@x"), Affiliation.MEMBER) for n in names(count))
    return SetPolicy(BY, JOBS, Policy("{}", given))


def subscribes(count):
    wishes = tuple(Wish(Jid(f"{n}@x"), "subscribed", None, f"s{n}") for n in names(count))
    return SetSubscriptions(BY, JOBS, wishes)


# fmt: off
MAKES = {
    "publish":       (MAX_PUBLISHED, lambda count: publishes(*names(count))),
    "staged":        (MAX_PUBLISHED, stages),
    "together":      (MAX_TOGETHER,  done_together),
    "retract":       (MAX_NAMED,     lambda count: retracts(ANN, *names(count))),
    "unlock":        (MAX_NAMED,     lambda count: unlocks(ANN, *names(count))),
    "touch":         (MAX_NAMED,     lambda count: touches(ANN, *names(count))),
    "each":          (MAX_NAMED,     lambda count: settles_each(retracts(ANN), *zip(names(count), strict=True))),
    "cancel":        (MAX_NAMED,     lambda count: Cancel(BY, JOBS, names(count))),
    "release":       (MAX_NAMED,     lambda count: FreeLocks(BY, JOBS, names(count))),
    "redrive":       (MAX_NAMED,     lambda count: Redrive(BY, JOBS, names(count))),
    "affiliations":  (MAX_ENTRIES,   affiliates),
    "policy":        (MAX_ENTRIES,   gives),
    "subscriptions": (MAX_ENTRIES,   subscribes),
}
# fmt: on

BOUNDED_ELSEWHERE = {
    "Declare",  # the file of the operator
    "DeclareSchedules",
    "Retrieve",  # a page, whatever is named
    "ReadNodes",
    "ReadDefinitions",
    "AskNewest",  # the service asks of itself
    "Forward",  # likewise, a page
    "LookAtFed",  # what is left of a publish
    "ReadDeaths",  # the groups of its own steps, up to a thousand
    "Hold",  # names of signals, in its own bounds
    "Search",  # a page, whatever is looked for
    "NoteAlerts",  # a slice of what the service has looked at
    "MarkPublish",
    "SeekItems",  # goes on in slices
    "GiveUpUnanswered",  # what a window has in flight
    "TrimItems",  # goes on in slices, one node after the other
    "EndForward",
    "EndDamaged",  # slices of what the service has found
    "ReadSamples",
    "KeepSamples",  # by the service itself
    "ReadReasons",
    "AskService",  # a page of sums
    "Expire",
    "FreeLeft",
    "FreeConnections",  # slices of those that the service has found
    "Recover",
    "Resend",
    "CommitVersion",  # by the slice, whatever the parts have
    "LookAtWinners",
    "AbortVersion",
}
"""Requests that name several things, and how much of that one batch does is bounded by something else."""


@pytest.mark.parametrize(("most", "make"), MAKES.values(), ids=MAKES)
def test_requests_up_to_a_size_are_accepted_and_larger_ones_load_nothing(
    most, make, tmp_path, monkeypatch
):
    shell = Shell(tmp_path / "queue.db")
    shell.do(a_queue())
    assert too_many(make(most)) is None
    assert size_of(make(most)) == most
    before = shell.dump()
    shell.rows.cache.forget()

    def load(_rows):
        raise AssertionError("something was loaded")

    with monkeypatch.context() as patched:
        patched.setattr(WorkingSet, "load", load)
        done = shell.batch(make(most + 1), make(most + 1)).decisions
    assert {one.reply.refusal for one in done} <= {Refusal.TOO_MANY_ITEMS, Refusal.BAD_REQUEST}
    assert {one.changes for one in done} == {()}
    said = {str(one.reply.limit or one.reply.reason) for one in done}
    assert all(str(most) in words for words in said)
    assert shell.dump() == before
    shell.close()


def test_every_request_that_names_many_has_its_bound():
    kinds = {kind.__name__: kind for kind in (*table.RULES, Together)}
    several = {
        name
        for name, kind in kinds.items()
        if any("tuple[" in str(of) or of == "Publish" for of in kind.__annotations__.values())
    }
    assert several - {kind.__name__ for kind in SIZES} <= BOUNDED_ELSEWHERE
    assert not BOUNDED_ELSEWHERE & {kind.__name__ for kind in SIZES}
    assert {type(make(1)) for _, make in MAKES.values()} == set(SIZES)


def test_a_request_about_one_thing_has_the_size_of_one():
    assert size_of(Redrive(BY, JOBS)) == 0
    assert size_of(a_queue()) == 1
    assert size_of(retracts(ANN, "a")) == 1
