"""Owners and administrators see the limited contents of queues, and the recent completion rate."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, EVE, JOBS, NOW, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks

from pubqueue.engine import observe
from pubqueue.engine.facts import inspecting, reading
from pubqueue.engine.observe import MAX_NODES, Rates
from pubqueue.model.changes import RemoveItem
from pubqueue.model.decision import Decision, Done, Refusal
from pubqueue.model.entities import Affiliation, ItemId, Jid, NodeName
from pubqueue.model.replies import NodePage
from pubqueue.operations.items import ITEMS
from pubqueue.operations.model import Given
from pubqueue.operations.nodes import QUEUES
from pubqueue.rules.definitions import ReadDefinitions
from pubqueue.rules.inspect import AskPowers, AskService, Peek, ReadHistory, ReadWorkers
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, SetAffiliations
from pubqueue.rules.read import ReadEvents, ReadNodes
from pubqueue.rules.settle import Outcome
from pubqueue.rules.unlock import Dismiss, FreeLocks

OWNER, ADMIN = who(BOSS), who(EVE, admin=True)


def ids(*names):
    return tuple(map(ItemId, names))


def test_workers_are_shown_with_what_they_hold_of_the_node(shell):
    other = NodeName("other")
    shell.do(a_queue())
    shell.do(a_queue(other))
    shell.batch(joins(ANN, 2), joins(BOB, 1), joins(ANN, 1, node=other))
    shell.batch(publishes("a", "b", "c"), publishes("z", node=other))
    page = shell.do(ReadWorkers(OWNER, JOBS))
    held = {one.subscription.jid: one.holds for one in page.workers}
    assert (set(held), page.more) == ({ANN, BOB}, False)
    assert sorted(len(each) for each in held.values()) == [1, 2]
    assert {item for each in held.values() for item in each} == set(ids("a", "b", "c"))


def test_workers_come_in_pages_with_only_the_number_of_very_many_items(shell, monkeypatch):
    monkeypatch.setattr(inspecting, "MAX_WORKERS", 1)
    monkeypatch.setattr(inspecting, "LOOKED_UP", 1)
    shell.do(a_queue())
    shell.batch(joins(ANN, 1), joins(BOB, 2))
    shell.batch(publishes("a", "b", "c"))
    first = shell.do(ReadWorkers(OWNER, JOBS))
    second = shell.do(ReadWorkers(OWNER, JOBS, first.workers[0].subscription.jid))
    assert [(page.workers[0].subscription.jid, page.more) for page in (first, second)] == [
        (ANN, True),
        (BOB, False),
    ]
    assert (len(first.workers[0].holds), second.workers[0].holds) == (1, None)


def test_the_nodes_one_may_run_are_named_up_to_a_bound(shell, monkeypatch):
    monkeypatch.setattr(inspecting, "MAX_NAMED", 2)
    for name in ("c", "a", "b"):
        shell.do(a_queue(NodeName(name)))
    for by in (OWNER, ADMIN):
        powers = shell.do(AskPowers(by))
        assert ([node.name for node in powers.nodes], powers.more) == (["a", "b"], True)
    assert shell.do(AskPowers(who(ETL))).nodes == ()  # it publishes


def test_the_storage_of_all_nodes_is_added_up_in_steps_as_at_once(shell, monkeypatch):
    for name in ("a", "b", "c"):
        shell.do(a_queue(NodeName(name)))
    shell.do(publishes("last", node=NodeName("c")))
    at_once = shell.do(AskService(ADMIN))
    monkeypatch.setattr(inspecting, "SUMMED", 2)
    assert (at_once.nodes, at_once.kept.accounts, at_once.kept.items) == (3, 1, 1)
    assert shell.do(AskService(ADMIN)).kept == at_once.kept


def test_a_managed_page_leaves_out_what_one_may_only_read(shell):
    shell.do(a_queue())
    assert [entry.node.name for entry in shell.do(ReadNodes(who(ETL))).entries] == [JOBS]
    refused = shell.do(ReadNodes(who(ETL), managed=True))
    assert refused.refusal.name == "FORBIDDEN"
    assert [entry.node.name for entry in shell.do(ReadNodes(OWNER, managed=True)).entries] == [JOBS]


def test_an_administrator_of_nothing_sees_an_empty_page(shell):
    assert shell.do(ReadNodes(ADMIN, managed=True)).entries == ()


def test_an_item_is_shown_with_its_last_error(shell):
    shell.do(a_queue())
    shell.batch(joins(ANN), publishes("a", payload=b"<job/>"))
    shell.do(unlocks(ANN, "a", outcome=Outcome.REJECT, reason="no such flight"))
    shown = shell.do(Peek(OWNER, JOBS, ItemId("a")))
    assert (shown.item.dead_letter.reason, shown.payload) == ("no such flight", b"<job/>")


def told(history):
    return [(step.event.kind.value, step.event.worker, step.event.detail) for step in history.steps]


def test_the_log_tells_the_whole_life_of_an_item_also_when_it_is_gone(shell):
    shell.do(a_queue(event_log=True))
    shell.batch(joins(ANN), publishes("a"))
    shell.batch(joins(BOB), unlocks(ANN, "a", outcome=Outcome.FAILED, reason="no seat"))
    shell.do(retracts(BOB, "a"))
    expected = [
        ("published", None, ""),
        ("delivered", ANN, ""),
        ("unlocked", ANN, "no seat"),
        ("delivered", BOB, ""),
        ("completed", BOB, ""),
    ]
    history = shell.do(ReadHistory(OWNER, JOBS, ItemId("a")))
    assert (history.item, history.more, told(history)) == (None, False, expected)
    first = shell.do(ReadHistory(OWNER, JOBS, ItemId("a"), max=2))
    second = shell.do(ReadHistory(OWNER, JOBS, ItemId("a"), first.through))
    assert (told(first), first.more) == (expected[:2], True)
    assert (told(second), second.more) == (expected[2:], False)
    assert [
        entry.event.kind.value
        for entry in shell.do(ReadEvents(OWNER, JOBS, max=4, item=ItemId("a"))).entries
    ] == [kind for kind, _, _ in expected[:4]]


def test_an_item_records_its_life_itself_if_its_node_keeps_no_log(shell):
    shell.do(a_queue())
    shell.batch(joins(ANN), publishes("a"))
    shell.now = after(5)
    shell.do(unlocks(ANN, "a", outcome=Outcome.REJECT, reason="no seat"))
    history = shell.do(ReadHistory(OWNER, JOBS, ItemId("a")))
    assert [(step.seq, step.at) for step in history.steps] == [(0, NOW), (0, NOW), (0, after(5))]
    assert told(history) == [
        ("published", None, ""),
        ("delivered", ANN, ""),
        ("dead", ANN, "no seat"),
    ]
    refused = shell.do(ReadHistory(OWNER, JOBS, ItemId("b")))
    assert refused.reason == "there is no item b in jobs, and it keeps no event log"


def test_the_history_of_a_dead_letter_begins_where_it_died_for_those_who_may_read_there(shell):
    graves = NodeName("graves")
    shell.do(a_queue(graves, event_log=True))
    shell.do(a_queue(event_log=True, dead_letter_node="graves"))
    shell.batch(joins(ANN), publishes("a"))
    shell.do(unlocks(ANN, "a", outcome=Outcome.REJECT, reason="no seat"))
    history = shell.do(ReadHistory(OWNER, graves, ItemId("a")))
    assert [(step.event.node, step.event.kind.value) for step in history.steps] == [
        (JOBS, "published"),
        (JOBS, "delivered"),
        (JOBS, "unlocked"),
        (JOBS, "dead"),
        (graves, "dead"),
    ]
    shell.do(SetAffiliations(OWNER, graves, ((EVE, Affiliation.OWNER),)))
    hers = shell.do(ReadHistory(who(EVE), graves, ItemId("a")))
    assert [(step.event.node, step.event.kind.value) for step in hers.steps] == [
        (JOBS, "published"),  # what the item itself records
        (graves, "dead"),
    ]
    assert shell.do(ReadHistory(who(EVE), JOBS, ItemId("a"))).refusal is Refusal.FORBIDDEN


def test_an_item_whose_lock_an_owner_ends_goes_to_another_worker(shell):
    shell.do(a_queue())
    shell.batch(joins(ANN), publishes("a"))
    done = shell.batch(joins(BOB), FreeLocks(OWNER, JOBS, ids("a")))
    assert [notice.to for notice in done.deliveries] == [BOB]


def test_a_dismissed_worker_gets_no_more_and_its_items_go_to_others(shell):
    shell.do(a_queue())
    shell.batch(joins(ANN, 2), publishes("a", "b"))
    done = shell.batch(joins(BOB, 2), Dismiss(OWNER, JOBS, ANN))
    assert sorted((notice.to, notice.item.id) for notice in done.deliveries) == [
        (BOB, "a"),
        (BOB, "b"),
    ]
    assert [one.subscription.jid for one in shell.do(ReadWorkers(OWNER, JOBS)).workers] == [BOB]


# --- how much was done of late -------------------------------------------------------------------


def finished(shell, counted, *names):
    """Do the items, and count them."""
    shell.batch(publishes(*names))
    request = retracts(ANN, *names)
    counted.note(shell.now, [request], shell.batch(request).decisions)


def test_the_rate_is_of_the_last_minutes(shell):
    counted = Rates()
    shell.do(a_queue())
    shell.batch(joins(ANN, 9))
    assert counted.per_minute(JOBS, NOW) == 0.0
    counted.note(NOW, [], [])
    finished(shell, counted, "a", "b")
    assert counted.per_minute(JOBS, after(1)) == 2.0  # of less than a minute, as if it were one
    shell.now = after(120)
    finished(shell, counted, "c", "d")
    assert counted.per_minute(JOBS, after(120)) == 2.0
    assert counted.per_minute(JOBS, after(360)) == pytest.approx(2 / 5, rel=0.05)
    assert counted.per_minute(JOBS, after(3_600)) == 0.0


def test_an_item_that_another_account_retracts_does_not_count_as_done(shell):
    counted = Rates()
    shell.do(a_queue())
    shell.batch(publishes("a"))
    request = retracts(BOSS, "a")
    counted.note(shell.now, [request], shell.batch(request).decisions)
    assert counted.per_minute(JOBS, shell.now) == 0.0


def test_no_more_nodes_are_remembered_than_a_bound(shell, monkeypatch):
    monkeypatch.setattr(observe, "MAX_NODES", 2)
    assert MAX_NODES > 2
    counted = Rates()
    shell.do(a_queue())
    shell.batch(joins(ANN), publishes("a"))
    request = retracts(ANN, "a")
    (change,) = shell.batch(request).decisions[0].changes
    for name in ("x", "y", "z"):
        item = RemoveItem(type(change.item)(**{**_fields(change.item), "node": NodeName(name)}))
        counted.note(NOW, [request], [Decision(Done(), (item,))])
    assert [counted.per_minute(NodeName(name), NOW) for name in ("x", "y", "z")] == [0.0, 1.0, 1.0]


def _fields(item):
    return {name: getattr(item, name) for name in item.__struct_fields__}


def test_nodes_are_found_by_a_part_of_their_names(shell, monkeypatch):
    monkeypatch.setattr(reading, "SEARCHED", 3)
    for number in range(8):
        shell.do(a_queue(NodeName(f"Queue {number}")))
    shell.do(a_queue(NodeName("other")))

    def found(wanted, after=None, limit=2):
        page = shell.do(ReadNodes(ADMIN, after, limit, containing=wanted))
        return [entry.node.name for entry in page.entries], page.more, page.through

    assert found("QUEUE") == (["Queue 0", "Queue 1"], True, "Queue 1")
    assert found("queue 5") == ([], True, "Queue 2")
    assert found("queue 5", "Queue 2") == (["Queue 5"], True, "Queue 5")
    assert found("queue 5", "Queue 5") == ([], True, "other")
    assert found("queue 5", "other") == ([], False, "other")


def test_nodes_can_be_asked_for_by_their_names(shell):
    names = [NodeName(name) for name in ("a", "b", "c", "d")]
    for name in names:
        shell.do(a_queue(name))
    wanted = (names[3], NodeName("none"), names[0], names[2], names[0])

    def found(after=None, by=ADMIN):
        page = shell.do(ReadNodes(by, after, 2, only=wanted))
        return [entry.node.name for entry in page.entries], page.more

    assert found() == (["a", "c"], True)
    assert found(names[2]) == (["d"], False)
    assert isinstance(shell.do(ReadNodes(who(ETL), None, 2, only=(NodeName("none"),))), NodePage)
    assert shell.do(ReadNodes(who(EVE), None, 2, only=wanted)).refusal is Refusal.FORBIDDEN


def affiliates(node, *people):
    return SetAffiliations(OWNER, node, tuple((jid, Affiliation.MEMBER) for jid in people))


def test_definitions_come_in_pages_with_their_affiliations(shell, monkeypatch):
    monkeypatch.setattr(reading, "EACH", 4)
    monkeypatch.setattr(reading, "TOGETHER", 8)
    for name, people in (("a", 1), ("b", 3), ("c", 2), ("d", 0)):
        shell.do(a_queue(NodeName(name)))
        shell.do(affiliates(NodeName(name), *(Jid(f"m{n}@x") for n in range(people))))
    shell.do(Create(who(EVE), NodeName("other"), Settings({"queueing": "1"})))

    def found(by=OWNER, **asked):
        page = shell.do(ReadDefinitions(by, **asked))
        rows = [(one.node, len(one.affiliations) if one.whole else None) for one in page.entries]
        return rows, page.more, page.through

    assert found() == ([("a", 3), ("b", None)], True, "b"), "no more have room with theirs"
    assert found(after=NodeName("b")) == ([("c", 4), ("d", 2)], False, "d")
    assert found(max=1) == ([("a", 3)], True, "a")
    assert found(ADMIN, after=NodeName("d")) == ([("other", 1)], False, "other")
    assert found(containing="O", by=ADMIN) == ([("other", 1)], False, "other")
    assert found(containing="none") == ([], False, None)
    assert found(only=(NodeName("c"),)) == ([("c", 4)], False, "c")
    (one,) = shell.do(ReadDefinitions(OWNER, only=(NodeName("d"),))).entries
    assert (OWNER.account, Affiliation.OWNER) in one.affiliations


def test_definitions_are_for_those_who_manage_nodes(shell):
    assert shell.do(ReadDefinitions(ADMIN)).entries == ()
    shell.do(a_queue())
    shell.do(SetAffiliations(OWNER, JOBS, ((Jid("etl@x"), Affiliation.PUBLISHER),)))
    for by in (who(ETL), who(ANN)):
        for asked in ({}, {"containing": "j"}, {"only": (JOBS,)}):
            assert shell.do(ReadDefinitions(by, **asked)).refusal is Refusal.FORBIDDEN
    none = (NodeName("none"),)
    for by in (OWNER, ADMIN, who(ANN)):
        assert shell.do(ReadDefinitions(by, only=none)).refusal is Refusal.NODE_NOT_FOUND


def test_queues_are_searched_by_their_state_and_sorted_by_what_they_hold(shell, monkeypatch):
    monkeypatch.setattr(reading, "MAX_NODES", 2)
    monkeypatch.setattr(reading, "COUNTED", 1)
    for number, name in enumerate(("a", "b", "c", "d")):
        shell.do(a_queue(NodeName(name)))
        shell.batch(publishes(*(f"{n}" for n in range(number)), node=NodeName(name)))
    shell.do(Configure(OWNER, NodeName("c"), Settings({"paused": "1"})))

    def found(**words):
        given = Given({name: (value,) for name, value in words.items()})
        reply = shell.do(QUEUES.ask(OWNER, given))
        answer = QUEUES.answer(reply, given)
        return [row[0] for row in answer.rows], answer.through if answer.more else ""

    assert found(sort="items") == (["d", "c", "b", "a"], "")
    assert found(sort="items", max="3") == (["d", "c", "b"], "-1:b")
    assert found(sort="items", max="3", after="-1:b") == (["a"], "")
    assert found(state="running") == (["a", "b", "d"], "")
    assert found(state="running", max="2") == (["a", "b"], "b")
    assert found(state="running", max="2", after="b") == (["d"], "")
    assert found(state="paused", match="C") == (["c"], "")
    assert found(match="b") == (["b"], "")


def test_items_are_searched_in_all_that_a_queue_holds(shell, monkeypatch):
    monkeypatch.setattr(reading, "MAX_ITEMS", 2)
    shell.do(a_queue())
    for name, priority in (("mail-1", 1), ("mail-2", 3), ("log-1", 9), ("mail-3", 2)):
        shell.do(publishes(name, priority=priority))

    def found(**words):
        given = Given({"node": (JOBS,)} | {name: (value,) for name, value in words.items()})
        answer = ITEMS.answer(shell.do(ITEMS.ask(OWNER, given)), given)
        return [row[0] for row in answer.rows], answer.through if answer.more else ""

    mails = ["mail-1", "mail-2", "mail-3"]
    assert found(match="MAIL") == (mails, "")
    names, through = found(match="mail", max="2")
    assert names == mails[:2]
    assert through.isdigit()
    assert not through.startswith("0")
    assert found(match="mail", max="2", after=through) == (mails[2:], "")
    assert found(match="mail", sort="priority") == (["mail-2", "mail-3", "mail-1"], "")
    names, through = found(sort="priority", max="2")
    assert names == ["log-1", "mail-2"]
    assert found(sort="priority", max="2", after=through) == (["mail-3", "mail-1"], "")
    assert shell.do(ITEMS.ask(who(EVE), Given(node=(JOBS,), match=("mail",)))).refusal is (
        Refusal.FORBIDDEN
    )
