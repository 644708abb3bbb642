"""Publishes under keys, on both stores: done once, however often they come, and remembered for a time."""

import pytest
from harness.batches.facts import EVE, JOBS, draft, who
from harness.batches.queue_requests import a_queue, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.rows import needs_of
from harness.stores.store_contents import misweighed, out_of_step, recount
from msgspec.structs import replace

from pubqueue.engine.rows import KEY_TOTALS, USED_KEYS
from pubqueue.model.decision import DoneTogether, Published, Refusal
from pubqueue.model.entities import ItemId, Jid, Millis, NodeName
from pubqueue.model.records import ROW, KeyTotal, PublishKey, mark_of_key
from pubqueue.rules import publish_keys
from pubqueue.rules.access import AutoCreation
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.publication import Publish
from pubqueue.rules.together import Together

OTHER, NEW = NodeName("other"), NodeName("new")
ACCOUNT = Jid("etl@x")
MINUTE = Millis(60_000)


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    if request.param == "sqlite":
        shell = Shell(tmp_path / "queue.db")
    else:
        postgres = request.getfixturevalue("running_postgres")
        postgres.wipe()
        shell = PostgresShell(postgres.address)
    shell.batch(a_queue(access_model="open", publish_model="open"), a_queue(OTHER))
    yield shell
    for look in (recount, misweighed):
        assert shell.look_within(look) == []
    assert shell.look_within(lambda tx: out_of_step(shell.rows.cache, tx)) == []
    shell.close()


def under(key, *names, strict=False, **facts):
    """Return a publish under a key that is remembered for a minute."""
    return replace(publishes(*names, **facts), key=PublishKey(key, MINUTE, strict))


def ids(shell, node=JOBS):
    return list(shell.look(lambda tx: tx.item_ids(node)))


def remembered(shell, key="k", node=JOBS):
    """Return the row of a key, and the count of all keys of its account."""
    mark = mark_of_key(ACCOUNT, node, key)
    needs = needs_of(used_keys={mark}, key_totals={ACCOUNT})
    found = shell.look_within(lambda tx: tx.load(needs).of)
    return found.get(USED_KEYS, []), found.get(KEY_TOTALS, [])


def test_a_repetition_has_the_answer_of_the_first_after_a_restart_too(shell):
    first = Published(JOBS, ("a", "b"))
    again = replace(first, again=True)
    assert shell.do(under("k", "a", "b")) == first
    assert shell.do(under("k", "x", "y")) == again  # a face makes new ids for each request
    shell.rows.cache.forget()
    assert shell.do(under("k", "x", "y", payload=b"<other/>")) == again
    assert shell.do(under("k", "x", by="etl@x/other")) == again
    assert ids(shell) == ["a", "b"]


def test_a_repeated_key_does_nothing_after_its_items_are_done(shell):
    shell.batch(under("k", "a"), retracts("etl@x", "a"))
    assert shell.do(under("k", "a")) == Published(JOBS, ("a",), again=True)
    assert ids(shell) == []


def test_another_key_another_node_and_another_account_are_not_meant(shell):
    shell.do(under("k", "a"))
    others = under("l", "b"), under("k", "c", by=EVE), under("k", "d", node=OTHER)
    assert [one.reply.again for one in shell.batch(*others).decisions] == [False] * 3
    assert (ids(shell), ids(shell, OTHER)) == (["a", "b", "c"], ["d"])


def test_only_one_of_several_simultaneous_requests_publishes(shell):
    decisions = shell.batch(*(under("k", name) for name in "abc")).decisions
    assert [one.reply.again for one in decisions] == [False, True, True]
    assert {one.reply.ids for one in decisions} == {("a",)}
    assert ids(shell) == ["a"]


def test_a_strict_key_refuses_other_contents(shell):
    shell.do(under("k", "a"))
    assert shell.do(under("k", "b", strict=True)).again
    other = under("k", "b", strict=True, payload=b"<other/>")
    assert shell.do(other).refusal is Refusal.KEY_REUSED
    assert ids(shell) == ["a"]


def test_a_refused_publish_leaves_its_key_unused(shell):
    assert shell.do(under("k", "a", node=NEW)).refusal is Refusal.NODE_NOT_FOUND
    assert remembered(shell, node=NEW) == ([], [])
    shell.creation = AutoCreation.ALWAYS
    made = Publish(who("etl@x/1"), NEW, (draft("a"),), Settings({"queueing": True}))
    assert shell.do(replace(made, key=PublishKey("k", MINUTE))) == Published(NEW, ("a",))
    assert shell.do(under("k", "b", node=NEW)).again
    assert ids(shell, NEW) == ["a"]


def test_keys_are_forgotten_in_time_and_count_no_more(shell):
    shell.batch(under("k", "a"), under("l", "b"))
    assert remembered(shell)[1] == [KeyTotal(ACCOUNT, 2 * (ROW + 1))]
    shell.wait(61)
    assert not shell.do(under("k", "c")).again  # not yet forgotten, but of no account any more
    assert remembered(shell)[1] == [KeyTotal(ACCOUNT, 2 * (ROW + 1))]
    shell.do(Expire())
    assert remembered(shell)[1] == [KeyTotal(ACCOUNT, ROW + 1)]
    shell.wait(61)
    shell.batch(under("m", "d"), Expire(), under("n", "e"))
    assert remembered(shell) == ([], [KeyTotal(ACCOUNT, 2 * (ROW + 1))])
    shell.wait(61)
    shell.do(Expire())
    assert remembered(shell, "n") == ([], [])


def test_the_keys_of_an_account_are_bounded_for_it_alone(shell, monkeypatch):
    monkeypatch.setattr(publish_keys, "MAX_KEPT", 2 * (ROW + 1))
    replies = [one.reply for one in shell.batch(*(under(name, name) for name in "abc")).decisions]
    assert [isinstance(reply, Published) for reply in replies] == [True, True, False]
    assert replies[2].refusal is Refusal.TOO_MANY_KEYS
    assert shell.do(under("a", "x")).again
    assert shell.do(under("c", "c", by=EVE)) == Published(JOBS, ("c",))
    assert ids(shell) == ["a", "b", "c"]


def test_a_combined_request_uses_all_of_its_keys_or_none(shell):
    parts = under("k", "a"), under("k", "b"), retracts("etl@x", "gone")
    no = shell.do(Together(who("etl@x"), parts))
    assert no.refusal is Refusal.ITEM_NOT_FOUND
    assert remembered(shell) == ([], [])
    done = shell.do(Together(who("etl@x"), parts[:2]))
    first = Published(JOBS, ("a",))
    assert done == DoneTogether((first, replace(first, again=True)))
    assert shell.do(under("k", "c")).again
    assert remembered(shell)[1] == [KeyTotal(ACCOUNT, ROW + 1)]
    assert shell.look(lambda tx: tx.item(JOBS, ItemId("a"))) is not None
