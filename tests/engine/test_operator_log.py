"""The operator log: workers that come and go, and why items died, never their payload."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from structlog.testing import capture_logs

from pubqueue.engine.operator_log import ONE_BY_ONE, OperatorLog, log_decisions
from pubqueue.model.changes import NoteLeftOut
from pubqueue.model.decision import Decision, Done
from pubqueue.model.entities import Jid, Millis, mark_of
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.presence import Arrive, Bounce, Departure, FreeConnections, Leave
from pubqueue.rules.settle import Outcome
from pubqueue.rules.subscribe import Unsubscribe

SECRET = b"<job>the payload</job>"


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.do(a_queue(max_failures=1))
    yield shell
    shell.close()


def reported(shell, *requests):
    """Run the requests in one batch and return its log entries, without the level."""
    with capture_logs() as logged:
        log_decisions(requests, shell.batch(*requests).decisions)
    assert {line.pop("log_level") for line in logged} <= {"info"}
    assert "payload" not in str(logged)
    return logged


def test_workers_that_come_subscribe_unsubscribe_and_go_are_logged(shell):
    assert reported(shell, Arrive(ANN), joins(ANN, 2)) == [
        {"event": "worker.subscribed", "node": JOBS, "jid": ANN, "requests": 2},
        {"event": "worker.arrived", "jid": ANN},
    ]
    assert reported(shell, Arrive(ANN), joins(ANN, 2), publishes("a", payload=SECRET)) == []
    why = "it went away"
    assert reported(shell, Leave(ANN)) == [
        {"event": "worker.left", "jid": ANN, "locks": 1},
        {"event": "worker.unsubscribed", "node": JOBS, "jid": ANN, "why": why},
        {
            "event": "item.dead",
            "node": JOBS,
            "item": "a",
            "reason": "the worker went away",
            "failed": 1,
            "holder": ANN,
        },
    ]
    assert reported(shell, Leave(ANN)) == []
    assert reported(shell, joins(ANN), Unsubscribe(who(ANN), JOBS, ANN))[2:] == [
        {
            "event": "worker.unsubscribed",
            "node": JOBS,
            "jid": ANN,
            "why": "it asked for it",
        }
    ]


def test_workers_of_one_client_that_go_together_are_logged_one_by_one_or_as_a_sum(shell):
    bees = [Jid(f"bee@x/{number}") for number in range(ONE_BY_ONE + 1)]
    for bee in bees:
        shell.do(joins(bee))
    shell.batch(publishes("a", payload=SECRET))
    one = FreeConnections((bees[0],), Departure.LOST)
    gone = {"node": JOBS, "jid": bees[0], "why": "it went away"}
    first, second, _dead = reported(shell, one)
    assert first == {"event": "worker.left", "jid": bees[0], "locks": 1}
    assert second == {"event": "worker.unsubscribed", **gone}
    sums = {"event": "workers.left", "account": "bee@x", "workers": ONE_BY_ONE, "locks": 0}
    assert reported(shell, FreeConnections(tuple(bees), Departure.CLOSED)) == [sums]
    shell.do(joins(bees[0]))
    assert reported(shell, FreeConnections((bees[0],), Departure.INSTANCE_DIED)) == []


def test_excluded_and_unreachable_workers_are_logged_with_the_reason(shell):
    shell.do(joins(ANN))
    closed = Configure(who(BOSS), JOBS, Settings({"access_model": "whitelist"}))
    assert [line["why"] for line in reported(shell, closed)] == ["the node was closed to it"]
    shell.do(Configure(who(BOSS), JOBS, Settings({"access_model": "open"})))
    shell.batch(joins(ANN), publishes("a"))
    item = shell.look(lambda tx: tx.item(JOBS, "a"))
    mark = mark_of(f"{JOBS}-{ANN}")
    back = Bounce(ANN, item.seq, item.token, gone=True, bounced=True, mark=mark)
    assert reported(shell, back) == [
        {"event": "delivery.bounced", "to": ANN, "gone": True},
        {"event": "worker.unsubscribed", "node": JOBS, "jid": ANN, "why": "deliveries come back"},
    ]


def test_errors_about_deliveries_that_were_not_made_are_not_reported(shell):
    """Strangers can send as many as they like."""
    shell.batch(joins(ANN), publishes("a"))
    for back in (
        Bounce(Jid("eve@elsewhere/x"), 1, 1, gone=True, bounced=True),
        Bounce(ANN, 1, 999, gone=False, bounced=True),
        Bounce(ANN, 999, 1, gone=True, bounced=True),
    ):
        assert reported(shell, back) == []


def test_a_worker_s_own_reason_is_reported_and_work_is_not(shell):
    shell.batch(joins(ANN, 2), publishes("a", "b"))
    assert reported(shell, retracts(ANN, "a")) == []
    rejected = unlocks(ANN, "b", outcome=Outcome.REJECT, reason="departed")
    assert [
        (line["event"], line["item"], line["reason"]) for line in reported(shell, rejected)
    ] == [("item.dead", "b", "departed")]


def test_many_deaths_are_logged_as_a_sum(shell):
    few, many = (tuple(f"{kind}{n}" for n in range(5 + kind)) for kind in (0, 1))
    assert (len(few), len(many)) == (ONE_BY_ONE, ONE_BY_ONE + 1)
    for names in (few, many):
        shell.do(publishes(*names, ttl=1))
        shell.wait(2)
        logged = reported(shell, Expire())
        assert len(logged) == (len(few) if names == few else 1)
    assert logged == [
        {"event": "items.dead", "node": JOBS, "items": 6, "reason": "the time to live ended"}
    ]


def test_the_place_of_a_dead_item_is_reported(shell):
    shell.batch(
        a_queue(Jid("graves")), Configure(who(BOSS), JOBS, Settings({"dead_letter_node": "graves"}))
    )
    shell.batch(joins(ANN), publishes("a"))
    (*_, death) = reported(shell, Leave(ANN))
    assert (death["event"], death["moved_to"]) == ("item.dead", "graves")


def test_what_a_guest_leaves_out_is_logged_once_a_minute():
    def leaves_out(items, at):
        missed = NoteLeftOut(JOBS, items, Millis(at), "publish paused")
        log.committed([None], [Decision(Done(), (missed,))], (), None)

    log = OperatorLog()
    with capture_logs() as logged:
        for items, at in ((1, 0), (2, 1_000), (3, 59_999), (4, 60_000), (5, 60_001)):
            leaves_out(items, at)
    assert [(line["event"], line["log_level"], line["items"]) for line in logged] == [
        ("items.left_out", "warning", 1),
        ("items.left_out", "warning", 9),
    ]
    assert {(line["node"], line["reason"]) for line in logged} == {(JOBS, "publish paused")}
