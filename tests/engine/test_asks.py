"""Whatever ends a question, its author is told in the commit that ends it; on both stores."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, who
from harness.batches.queue_requests import (
    a_queue,
    joins,
    publishes,
    retracts,
    settles_each,
    unlocks,
)
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.store_contents import misweighed, recount
from msgspec.structs import replace

from pubqueue.model.decision import Decision
from pubqueue.model.entities import Affiliation, ItemId, Jid, Millis, NodeName, State
from pubqueue.rules import asks
from pubqueue.rules.dead_letters import Cancel, Discard, Redrive
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete, Purge, SetAffiliations
from pubqueue.rules.presence import Leave
from pubqueue.rules.seek import Seek
from pubqueue.rules.settle import Outcome
from pubqueue.rules.together import Together

ASKER = Jid("etl@x")
PLACE = NodeName(f"replies/{ASKER}")
GRAVES = NodeName("graves")
REJECT = {"outcome": Outcome.REJECT, "reason": "no such flight"}


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    made.do(a_queue(GRAVES))
    made.do(a_queue(max_failures=1))
    makes_place(made)
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    made.close()


def makes_place(shell, **settings):
    wanted = Settings({"access_model": "whitelist", "publish_model": "open"} | settings)
    shell.do(Create(who(ETL), PLACE, wanted))


def asking(*names, **facts):
    """Publish questions, each in a request of its own."""
    return [
        publishes(name, headers=(("reply-to", PLACE), ("correlation-id", f"r/{name}")), **facts)
        for name in names
    ]


def asked(shell, *names, **facts):
    shell.batch(*asking(*names, **facts))


def told(shell):
    """Return what is in the node for replies, by id: why each question has ended, or what was replied."""
    rows = shell.look(lambda tx: list(tx.contents(PLACE)))
    return {item.id.removeprefix("r/"): _reason(payload) for item, payload in rows}


def _reason(payload):
    text = payload.decode()
    return text.partition('reason="')[2].partition('"')[0] if "<died" in text else text


def expires(shell):
    shell.wait(3600)
    shell.do(Expire())


def rejects(shell):
    shell.batch(joins(ANN, 9))
    shell.batch(unlocks(ANN, "q", **REJECT))


def purges(shell):
    shell.do(Purge(who(BOSS), JOBS))
    assert told(shell) == {}
    shell.do(Expire())


def deletes(shell):
    shell.do(Delete(who(BOSS), JOBS))
    shell.do(Expire())


def times_out(shell):
    shell.batch(joins(ANN, 9))
    expires(shell)


def leaves(shell):
    shell.batch(joins(ANN, 9))
    shell.do(Leave(ANN))


def is_full(shell):
    shell.do(Configure(who(BOSS), JOBS, Settings({"expired": "truncate", "max_items": 1})))
    shell.do(publishes("more"))


def is_dropped(shell):
    shell.do(Configure(who(BOSS), JOBS, Settings({"expired": "truncate"})))
    expires(shell)


def settles_one(shell):
    found = shell.batch(joins(ANN, 9))
    token = found.deliveries[0].item.token
    shell.do(settles_each(unlocks(ANN, **REJECT), ("q", token)))


def with_others(shell):
    shell.batch(joins(ANN, 9))
    parts = publishes("x", by=ANN), unlocks(ANN, "q", **REJECT)
    shell.do(SetAffiliations(who(BOSS), JOBS, ((Jid("ann@x"), Affiliation.PUBLISHER),)))
    shell.do(Together(who(ANN), parts))


# fmt: off
WAYS = {
    "rejected":              (rejects,     "no such flight"),
    "settled by its lock":   (settles_one, "no such flight"),
    "with others":           (with_others, "no such flight"),
    "its lock timed out":    (times_out,   "the lock timed out"),
    "its worker left":       (leaves,      "the worker went away"),
    "too old":               (expires,     asks.TOO_OLD),
    "too old, and dropped":  (is_dropped,  asks.TOO_OLD),
    "dropped for others":    (is_full,     "its queue was full, and dropped its oldest items"),
    "cancelled":             (lambda shell: shell.do(Cancel(who(BOSS), JOBS, (ItemId("q"),))), asks.WITHDRAWN),
    "retracted":             (lambda shell: shell.do(retracts(ETL, "q")), asks.WITHDRAWN),
    "replaced":              (lambda shell: shell.do(publishes("q", payload=b"<other/>")), asks.REPLACED),
    "purged":                (purges,      asks.PURGED),
    "its queue was deleted": (deletes,     asks.PURGED),
    "led past it":           (lambda shell: shell.do(Seek(who(BOSS), JOBS, Millis(shell.now + 1))), ""),
}
# fmt: on


@pytest.mark.parametrize("way", WAYS)
def test_the_author_is_told_whatever_ends_a_question(shell, way):
    ends, reason = WAYS[way]
    shell.batch(*asking("q", ttl=60), publishes("unasked", ttl=60))
    ends(shell)
    if way == "led past it":  # to now: a queue that keeps nothing is purged
        shell.do(Expire())
        reason = asks.PURGED
    assert told(shell) == {"q": reason}


def test_what_is_done_ends_nothing(shell):
    asked(shell, "q")
    shell.batch(joins(ANN, 9))
    shell.do(retracts(ANN, "q"))
    assert told(shell) == {}


def test_what_was_replied_stays(shell):
    asked(shell, "q")
    shell.do(publishes("r/q", by=ANN, node=PLACE, payload=b"<reply/>"))
    rejects(shell)
    assert told(shell) == {"q": "<reply/>"}


def test_a_redrive_withdraws_it_and_the_next_death_is_told_again(shell):
    shell.do(Configure(who(BOSS), JOBS, Settings({"dead_letter_node": GRAVES})))
    asked(shell, "q")
    rejects(shell)
    assert told(shell) == {"q": "no such flight"}
    shell.do(Redrive(who(BOSS), GRAVES))
    assert told(shell) == {}
    shell.batch(unlocks(ANN, "q", outcome=Outcome.REJECT, reason="still none"))
    assert told(shell) == {"q": "still none"}
    shell.do(Discard(who(BOSS), GRAVES))  # dead before: nothing new
    assert told(shell) == {"q": "still none"}


def test_nobody_is_told_where_there_is_no_such_node_or_no_right(shell):
    asked(shell, "q")
    shell.do(Delete(who(ETL), PLACE))
    rejects(shell)
    assert shell.look(lambda tx: tx.node(PLACE)) is None
    others = publishes("q2", headers=(("reply-to", "replies/ann@x"), ("correlation-id", "r/q2")))
    shell.do(Create(who(ANN), NodeName("replies/ann@x"), Settings({"publish_model": "open"})))
    shell.do(others)
    shell.do(Cancel(who(BOSS), JOBS, (ItemId("q2"),)))
    assert shell.look(lambda tx: tx.item_ids(NodeName("replies/ann@x"))) == []


def test_a_node_that_is_full_refuses_it_and_the_question_dies_all_the_same(shell):
    shell.do(Configure(who(ETL), PLACE, Settings({"max_items": 1, "publish_node_full": "reject"})))
    asked(shell, "a", "b", ttl=60)
    expires(shell)
    assert list(told(shell)) == ["a"]
    left = shell.look(lambda tx: list(tx.contents(JOBS)))
    assert [item.state for item, _ in left] == [State.DEAD] * 2


def test_questions_with_one_address_and_one_that_moves_there_do_not_collide(shell):
    """The dead item takes the very id that its reply would have."""
    shell.do(Delete(who(ETL), PLACE))
    shell.do(a_queue(PLACE, publish_model="open"))
    shell.do(Configure(who(BOSS, admin=True), JOBS, Settings({"dead_letter_node": PLACE})))
    one = publishes("r/q", headers=(("reply-to", PLACE), ("correlation-id", "r/q")), ttl=60)
    shell.batch(one, replace(one, drafts=(replace(one.drafts[0], id=ItemId("other")),)))
    expires(shell)
    assert sorted(shell.look(lambda tx: tx.item_ids(PLACE))) == ["other", "r/q"]


def test_many_purged_questions_are_told_in_slices(shell, monkeypatch):
    monkeypatch.setattr(asks, "SLICE", 3)
    asked(shell, *"abcdefgh")
    shell.do(publishes("unasked"))
    shell.do(Purge(who(BOSS), JOBS))
    counts = []
    while len(told(shell)) < 8:
        decision = shell.batch(Expire()).decisions[0]
        counts.append(len(told(shell)))
        assert isinstance(decision, Decision)
        assert len(counts) < 9
    assert counts == [3, 6, 8]
