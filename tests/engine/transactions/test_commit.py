"""Commits through rules and store: all items appear, at once and once."""

import itertools

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, after, who
from harness.batches.queue_requests import a_queue, holds, joins, publishes, retracts, signals
from harness.batches.shell import Shell
from harness.batches.transactions import (
    APP,
    MORE,
    NEWS,
    commits,
    committed,
    ids,
    left_over,
    names,
    refusal,
    stages,
    sweep,
)
from harness.stores.store_contents import recount
from msgspec.structs import replace

from pubqueue.model.decision import Done, Refusal, Refused, Withdrawn
from pubqueue.model.entities import ItemId, Jid, NodeName, State
from pubqueue.model.notices import Announce, singly
from pubqueue.model.transactions import Committed, LastVersion, OnTaken, TakenId
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete
from pubqueue.rules.staging import AskLastVersion
from pubqueue.rules.subscribe import Subscribe

# --- commit ------------------------------------------------------------------------------------------


def test_the_winners_appear_by_part_and_then_as_they_came_and_the_losers_go(shell):
    shell.do(stages("b1", part=1, attempt=5))
    shell.do(stages("lost", part=0, attempt=3))
    shell.do(stages("a1", part=0, attempt=4))
    shell.do(stages("b2", part=1, attempt=5))
    shell.do(stages("a2", part=0, attempt=4))
    shell.do(stages("lost", part=2, attempt=6))
    assert shell.do(commits((1, 5, 2), (0, 4, 2))) == committed(4)
    assert names(shell) == ["a1", "a2", "b1", "b2"]
    sweep(shell)
    assert left_over(shell) == 0


def test_all_nodes_are_written_in_one_step_and_handed_out_at_once(shell):
    shell.do(joins(ANN, 9))
    shell.do(joins(ANN, 9, node=MORE))
    shell.do(stages("a"))
    shell.do(stages("b", node=MORE))
    outcome = shell.batch(commits((0, 0, 2)))
    assert [(n.item.node, n.item.id) for n in outcome.deliveries] == [(JOBS, "a"), (MORE, "b")]


def test_priority_delay_and_life_count_from_the_commit(shell):
    shell.do(stages("a", priority=4, delay=60, ttl=120))
    shell.wait(30)
    shell.do(commits((0, 0, 1)))
    item = shell.look(lambda tx: tx.item(JOBS, "a"))
    assert (item.priority, item.state, item.published) == (4, State.DELAYED, after(30))
    assert (item.due, item.expires, item.publisher) == (after(90), after(150), Jid("etl@x"))


@pytest.mark.parametrize("parts", [[(0, 4, 2)], [(0, 4, 0)], [(0, 4, 1), (1, 4, 1)], []])
def test_a_commit_that_names_another_number_is_refused_and_nothing_is_seen(shell, parts):
    shell.do(stages("a", attempt=4))
    before = shell.dump()
    reply = shell.do(commits(*parts))
    assert refusal(reply) is Refusal.NOT_AS_STAGED
    assert reply.reason
    assert shell.dump() == before
    assert shell.do(commits((0, 4, 1))) == committed(1)


def test_a_part_without_items_need_not_be_known(shell):
    shell.do(stages("a", attempt=4))
    assert shell.do(commits((0, 4, 1), (1, 5, 0))) == committed(1)
    assert shell.do(commits((0, 9, 0), version=2)) == committed(0, version=2)
    assert shell.do(AskLastVersion(who(ETL), APP)) == LastVersion(APP, 2, shell.now)


def test_a_repeated_commit_gets_the_same_answer(shell):
    shell.do(stages("a", "b"))
    shell.do(commits((0, 0, 2)))
    assert shell.do(commits((0, 0, 2))) == committed(2, already=True)
    assert shell.do(commits((0, 3, 99), version=0)) == committed(0, version=0, already=True)
    assert names(shell) == ["a", "b"]


def test_older_uncommitted_versions_go_with_it_and_newer_ones_stay(shell):
    for version in (1, 2, 3):
        shell.do(stages(f"v{version}", version=version))
    assert shell.do(commits((0, 0, 1), version=2)) == committed(1, version=2)
    sweep(shell)
    assert names(shell) == ["v2"]
    assert shell.do(commits((0, 0, 1), version=3)) == committed(1, version=3)
    assert names(shell) == ["v2", "v3"]


STATES = (
    *("new", "queued", "signaled", "delayed", "locked", "held", "dead", "finished", "ahead"),
    "withdrawn",
)


def meet(shell, state):
    """Make an item `a` with the payload <job/> in this state."""
    shell.do(a_queue(NodeName("trial"), max_failures=1, dedup_window=60, lock_timeout=10))
    node = NodeName("trial")
    if state == "new":
        return node
    shell.do(publishes("a", node=node, delay=9 if state == "delayed" else 0))
    if state == "signaled":
        shell.do(signals("a", "yes", node=node))
    if state in {"locked", "held", "dead", "finished", "ahead"}:
        shell.do(joins(ANN, 1, node=node))
    if (
        state == "ahead"
    ):  # it was finished while the clock was ahead, longer ago than it is remembered
        shell.wait(86_400)
    if state in {"finished", "ahead"}:
        assert shell.do(retracts(ANN, "a", node=node)) == Done()
    if state == "ahead":
        shell.wait(-86_400)
    if state == "held":
        assert shell.do(holds(ANN, "a", "yes", node=node)) == Done()
    if state == "withdrawn":
        assert shell.do(retracts(BOSS, "a", node=node)) == Done()
    if state == "dead":
        shell.wait(11)
        assert shell.do(Expire()) == Done()
    return node


@pytest.mark.parametrize(("state", "payload"), [*itertools.product(STATES, [b"<job/>", b"<new/>"])])
def test_ids_that_are_there_are_treated_as_a_publish_treats_them(tmp_path, state, payload):
    """The same story twice, once with a publish and once with a commit, ends the same."""
    ends = []
    for how in ("publish", "commit"):
        shell = Shell(tmp_path / f"{how}.db")
        node = meet(shell, state)
        if how == "publish":
            reply = shell.do(publishes("a", node=node, payload=payload))
        else:
            shell.do(stages("a", node=node, payload=payload))
            reply = shell.do(commits((0, 0, 1)))
        kind = reply.refusal if isinstance(reply, Refused) else "done"
        items = shell.look(lambda tx, n=node: tx.contents(n))
        ends.append(
            (kind, [(replace(item, transaction=None, seq=0), found) for item, found in items])
        )
        if kind != "done":
            assert reply.reason.startswith("item a is ")
            assert names(shell, node) == ["a"]
        assert shell.look_within(recount) == []
        shell.close()
    assert ends[0] == ends[1]


@pytest.mark.parametrize("state", ["queued", "locked", "dead"])
@pytest.mark.parametrize("by", [BOSS, ETL])
def test_a_commit_publishes_a_withdrawn_item_again(shell, state, by):
    node = meet(shell, state)
    taken = Withdrawn(locked=("a",)) if state == "locked" else Done()
    assert shell.do(retracts(by, "a", node=node)) == taken
    shell.do(stages("a", node=node))
    assert shell.do(commits((0, 0, 1))) == committed(1)
    assert names(shell, node) == ["a"]


def story_of_taken_ids(shell):
    """Make `locked` and `dead` in the node trial, and stage them with other payloads beside `new`."""
    node = meet(shell, "dead")
    shell.do(publishes("locked", node=node))
    for name, part in (("new", 0), ("a", 1), ("locked", 1)):
        shell.do(stages(name, node=node, part=part, payload=b"<x/>"))
    return node


TAKEN = (
    TakenId(NodeName("trial"), ItemId("a"), State.DEAD),
    TakenId(NodeName("trial"), ItemId("locked"), State.LOCKED),
)
PARTS = (0, 0, 1), (1, 0, 2)


def test_a_refused_commit_names_the_ids_that_are_taken_and_may_be_repeated(shell):
    node = story_of_taken_ids(shell)
    reply = shell.do(commits(*PARTS))
    assert reply.reason == (
        "item a is dead here, to be redriven or retracted (node trial);"
        " item locked is in flight (node trial)"
    )
    again = shell.do(commits(*PARTS, on_taken=OnTaken.SKIP))
    assert again == Committed(1, 1, 0, already=False, taken=2, named=TAKEN)
    assert dict(ids(shell, node)) == {"a": "job", "locked": "job", "new": "x"}
    assert shell.look_within(recount) == []
    sweep(shell)
    assert left_over(shell) == 0


def test_items_with_taken_ids_go_to_a_dead_letter_node_in_the_same_step(shell):
    node = story_of_taken_ids(shell)
    shell.do(joins(ANN, 9, node=MORE))
    asked = {"on_taken": OnTaken.DEAD_LETTER, "dead_letter_node": MORE}
    outcome = shell.batch(commits(*PARTS, **asked))
    assert outcome.decisions[0].reply == Committed(1, 1, 0, already=False, taken=2, named=TAKEN)
    assert dict(ids(shell, node)) == {"a": "job", "locked": "job", "new": "x"}
    moved = [f"trial/{name}.{shell.now}" for name in ("a", "locked")]
    assert ids(shell, MORE) == [(name, "x") for name in moved]
    reported = [(n.item.node, n.item.id) for n in outcome.deliveries]
    assert [name for where, name in reported if where == MORE] == moved
    assert shell.look_within(recount) == []
    sweep(shell)
    assert left_over(shell) == 0
    assert shell.do(commits(*PARTS, **asked)) == committed(3, already=True)


def test_a_dead_letter_node_that_is_not_there_leaves_all_as_it_was(shell):
    story_of_taken_ids(shell)
    before = shell.dump()
    asked = {"on_taken": OnTaken.DEAD_LETTER, "dead_letter_node": NodeName("nowhere")}
    assert refusal(shell.do(commits(*PARTS, **asked))) is Refusal.NODE_NOT_FOUND
    assert shell.dump() == before


def test_payloads_are_compared_by_meaning(shell):
    shell.same = lambda one, other: one.lower() == other.lower()
    shell.do(publishes("a", "b"))
    shell.do(stages("a", payload=b"<JOB/>"))
    shell.do(stages("b", payload=b"<new/>"))
    assert shell.do(commits((0, 0, 2))) == committed(1, 1)
    assert ids(shell) == [("a", "job"), ("b", "new")]


def test_the_last_of_two_parts_with_one_id_counts(shell):
    shell.do(stages("a", "b", payload=b"<one/>"))
    shell.do(stages("a", part=1, payload=b"<two/>"))
    shell.do(publishes("b"))
    assert shell.do(commits((0, 0, 2), (1, 0, 1))) == committed(2, 1)
    assert sorted(ids(shell)) == [("a", "two"), ("b", "one")]


def test_a_full_node_refuses_the_whole_version(shell):
    shell.do(Configure(who(BOSS), JOBS, Settings({"max_items": 2})))
    shell.do(stages("a", "b"))
    shell.do(stages("x", node=MORE))
    shell.do(stages("c"))
    reply = shell.do(commits((0, 0, 4)))
    assert (reply.refusal, reply.limit) == (Refusal.NODE_FULL, 2)
    assert (names(shell), names(shell, MORE)) == ([], [])


def test_a_node_that_is_gone_by_then_refuses_the_whole_version(shell):
    shell.do(stages("a"))
    shell.do(stages("x", node=MORE))
    shell.do(Delete(who(BOSS), MORE))
    assert refusal(shell.do(commits((0, 0, 2)))) is Refusal.NODE_NOT_FOUND
    assert names(shell) == []


def test_a_right_that_is_lost_by_then_refuses_the_whole_version(shell):
    shell.do(stages("a"))
    shell.do(Configure(who(BOSS), JOBS, Settings({"publish_paused": True})))
    assert refusal(shell.do(commits((0, 0, 1)))) is Refusal.PUBLISH_PAUSED


def test_a_plain_node_is_overwritten_and_announced(shell):
    shell.do(Create(who(BOSS, admin=True), NEWS, Settings({"publish_model": "open"})))
    shell.do(Subscribe(who(ANN), NEWS, ANN, "sub-1", None))
    shell.do(publishes("old", "b", node=NEWS))
    request = stages("a", "b", node=NEWS, payload=b"<news/>")
    shell.do(request)
    shell.do(stages("b", node=NEWS, payload=b"<last/>", part=1))
    (decision,) = shell.batch(commits((0, 0, 2), (1, 0, 1))).decisions
    assert decision.reply == committed(2, 1)
    assert ids(shell, NEWS) == [("old", "job"), ("a", "news"), ("b", "last")]
    notices = list(singly(decision.notices))
    reported = [(n.to, n.node, n.draft.id, n.draft.payload) for n in notices]
    assert reported == [(ANN, NEWS, "a", b"<news/>"), (ANN, NEWS, "b", b"<last/>")]
    assert all(isinstance(notice, Announce) for notice in notices)
