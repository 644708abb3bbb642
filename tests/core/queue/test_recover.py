"""After a clock was set back: no lock lasts longer than a new one."""

from harness.batches.facts import ANN, NOW, after, held, queue

from pubqueue.model.changes import Extend
from pubqueue.model.decision import Decision, Recovered
from pubqueue.rules.unlock import Recover, RecoverFacts, recover


def test_a_lock_lasts_no_longer_than_a_new_one():
    short, long = queue(lock_timeout=30), queue(lock_timeout=300)
    first, second, third = (held(n, deadline=after(4000)) for n in (1, 2, 3))
    facts = RecoverFacts(NOW, ((first, short), (second, short), (third, long)))
    changes = Extend(first, after(30)), Extend(second, after(30)), Extend(third, after(300))
    assert recover(Recover(), facts) == Decision(Recovered((ANN,)), changes)


def test_otherwise_nothing_changes():
    facts = RecoverFacts(NOW, ((held(1, deadline=after(30)), queue(lock_timeout=30)),))
    assert recover(Recover(), facts) == Decision(Recovered((ANN,)))


def test_items_after_a_slice_come_in_the_next():
    last = after(40), 7
    facts = RecoverFacts(NOW, (), last)
    assert recover(Recover(), facts) == Decision(Recovered(()), then=Recover(last))
