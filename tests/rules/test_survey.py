"""Who may add and read samples, and how long they are kept."""

from harness.batches.facts import ETL, JOBS, NOW, who

from pubqueue.model.changes import NoteSamples
from pubqueue.model.decision import Decision, Done, Refusal
from pubqueue.model.records import KEPT, Sample, SamplePage, slot_of
from pubqueue.rules.survey import (
    CLEARED,
    KeepFacts,
    KeepSamples,
    ReadSamples,
    SamplesFacts,
    keep_samples,
    read_samples,
)

ADMIN = who(ETL, admin=True)
ONE = Sample(JOBS, slot_of(NOW), queued=3)


def test_samples_are_added_and_old_ones_removed():
    change = NoteSamples((ONE,), slot_of(NOW) - KEPT, CLEARED)
    assert keep_samples(KeepSamples(ADMIN, (ONE,)), KeepFacts(NOW)) == Decision(Done(), (change,))


def test_administrators_see_samples():
    asked = ReadSamples(ADMIN, (JOBS,), slot_of(NOW))
    page = SamplePage((ONE,), NOW)
    assert read_samples(asked, SamplesFacts((ONE,), NOW)) == Decision(page)
    assert page.of(JOBS) == [ONE]


def test_other_accounts_neither_add_nor_read_samples():
    kept = keep_samples(KeepSamples(who(ETL), (ONE,)), KeepFacts(NOW))
    seen = read_samples(ReadSamples(who(ETL), (JOBS,), NOW), SamplesFacts((), NOW))
    assert [one.reply.refusal for one in (kept, seen)] == [Refusal.FORBIDDEN] * 2
    assert (kept.changes, seen.changes) == ((), ())


def test_a_minute_begins_with_its_first_millisecond():
    assert slot_of(120_000) == slot_of(179_999) == 120_000
    assert slot_of(180_000) == 180_000
