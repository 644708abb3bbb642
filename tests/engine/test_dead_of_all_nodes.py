"""The dead items of all nodes are counted in one list: by node and reason, in steps, as far as the principal manages the nodes."""

from harness.batches.facts import ANN, BOB, BOSS, EVE, JOBS, NOW, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, unlocks

from pubqueue.engine.facts import reading
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Affiliation, NodeName
from pubqueue.rules import dead_letters
from pubqueue.rules.dead_letters import Order, ReadDeaths
from pubqueue.rules.nodes import SetAffiliations
from pubqueue.rules.settle import Outcome

OWNER = who(BOSS)
MAILS = NodeName("mails")


def lay(shell):
    """Let items die: three in one queue at Ann, of two reasons, and one in another queue, later, at Bob."""
    for name in (JOBS, MAILS):
        shell.do(a_queue(name))
    shell.batch(joins(ANN, 3), joins(BOB, node=MAILS))
    shell.batch(publishes("a", "b", "c"), publishes("z", node=MAILS))
    for name, why in (("a", "no seat 12"), ("b", "no seat 14"), ("c", "timed out")):
        shell.do(unlocks(ANN, name, outcome=Outcome.REJECT, reason=why))
    shell.now = after(60)
    shell.do(unlocks(BOB, "z", node=MAILS, outcome=Outcome.REJECT, reason="no seat 7"))


def shown(page):
    return [(one.node, one.reason, one.count) for one in page.groups]


def test_they_are_counted_by_node_and_reason_in_each_order(shell):
    lay(shell)
    page = shell.do(ReadDeaths(OWNER))
    of_jobs, late, of_mails = (
        (JOBS, "no seat *", 2),
        (JOBS, "timed out", 1),
        (MAILS, "no seat *", 1),
    )
    assert shown(page) == [of_jobs, late, of_mails]
    assert (page.total, page.nodes, page.more, page.whole) == (4, 2, False, True)
    assert [(one.first, one.last) for one in page.groups] == [
        (NOW, NOW),
        (NOW, NOW),
        (after(60), after(60)),
    ]
    orders = {
        Order.REASON: [of_jobs, of_mails, late],
        Order.QUEUE: [of_jobs, late, of_mails],
        Order.AGE: [of_jobs, late, of_mails],
        Order.WORKER: [of_jobs, late, of_mails],
    }
    for order, expected in orders.items():
        assert shown(shell.do(ReadDeaths(OWNER, order))) == expected
    workers = shell.do(ReadDeaths(OWNER, Order.WORKER)).groups
    assert [one.worker for one in workers] == ["ann@x", "ann@x", "bob@x"]
    assert shown(shell.do(ReadDeaths(OWNER, containing="MAIL"))) == [of_mails]
    assert shown(shell.do(ReadDeaths(OWNER, reason="timed *"))) == [late]


def test_they_come_in_pages_and_from_steps_as_at_once(shell, monkeypatch):
    lay(shell)
    at_once = shell.do(ReadDeaths(OWNER))
    for nodes, items in ((1, 500), (500, 1), (1, 2)):
        monkeypatch.setattr(reading, "WALKED", nodes)
        monkeypatch.setattr(reading, "DEATHS_SLICE", items)
        assert shell.do(ReadDeaths(OWNER)) == at_once
    first = shell.do(ReadDeaths(OWNER, most=2))
    second = shell.do(ReadDeaths(OWNER, after=first.through))
    assert (first.groups + second.groups, first.more, second.more) == (at_once.groups, True, False)


def test_what_was_not_looked_at_is_said_and_too_many_reasons_are_one(shell, monkeypatch):
    lay(shell)
    monkeypatch.setattr(reading, "DEATHS_SLICE", 2)
    monkeypatch.setattr(dead_letters, "DEATHS_LOOKED_AT", 2)
    page = shell.do(ReadDeaths(OWNER))
    assert (page.total, page.whole) == (2, False)
    monkeypatch.setattr(dead_letters, "DEATHS_LOOKED_AT", 50_000)
    monkeypatch.setattr(dead_letters, "MAX_GROUPS", 1)
    assert shown(shell.do(ReadDeaths(OWNER))) == [
        (JOBS, "no seat *", 2),
        (JOBS, "*", 1),
        (MAILS, "*", 1),
    ]


def test_only_those_of_nodes_that_one_manages_are_counted(shell):
    lay(shell)
    assert shell.do(ReadDeaths(who(EVE))).refusal is Refusal.FORBIDDEN
    shell.do(SetAffiliations(OWNER, MAILS, ((EVE, Affiliation.OWNER),)))
    assert shown(shell.do(ReadDeaths(who(EVE)))) == [(MAILS, "no seat *", 1)]
    assert shell.do(ReadDeaths(who(EVE, admin=True))).total == 4
