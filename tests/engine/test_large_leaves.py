"""A worker that holds very many items leaves, or is dismissed: its locks end slice by slice, and others are served in between."""

from harness.batches.facts import ANN, BOB, BOSS, JOBS, NOW, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.shell import Shell
from harness.batches.witness import WatchedFace, WatchedStore
from structlog.testing import capture_logs

from pubqueue.engine import presence_retry
from pubqueue.engine.batch_size import MAX_BATCH_ITEMS, WaitingRequests
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.facts.queue import AT_ONCE
from pubqueue.engine.listings import HeldBy, Total
from pubqueue.engine.operator_log import log_decisions
from pubqueue.engine.presence_retry import Acquaintances, PresenceRetry
from pubqueue.engine.reader import at_the_end
from pubqueue.engine.rows import HELD
from pubqueue.model.changes import EndSubscription, GiveUp, Release
from pubqueue.model.entities import Jid, account_of
from pubqueue.model.notices import Deliver, Unlocked
from pubqueue.model.records import EventKind
from pubqueue.model.replies import Freed
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.audience import NotifyFormer
from pubqueue.rules.presence import WORKER_LOST, Arrive, FreeLeft, Leave
from pubqueue.rules.unlock import Dismiss, FreeHeld
from pubqueue.stores.sqlite import SqliteStore

MANY = 2 * AT_ONCE + 30
ACCOUNT = account_of(ANN)
TABLET = Jid(f"{ACCOUNT}/tablet")


def lay(shell, holder=ANN, **settings):
    """Let a worker hold very many items."""
    shell.do(a_queue(max_failures=9, max_queue_requests=10_000, **settings))
    names = [f"i{number}" for number in range(MANY)]
    for at in range(0, MANY, AT_ONCE):
        shell.do(publishes(*names[at : at + AT_ONCE]))
    rest = shell.batch(joins(holder, 10_000)).rest
    while rest:
        rest = shell.batch(rest=rest).rest
    shell.do(Arrive(ANN))
    assert held_by(shell, holder) == MANY


def held_by(shell, jid):
    return sum(shell.look_within(lambda tx: tx.page(Total(HeldBy(jid)))))


def steps(shell, request):
    """Do a request slice by slice."""
    while request is not None:
        (decision,) = shell.batch(request).decisions
        yield decision
        request = decision.then


def ends(decision):
    return sum(isinstance(change, Release | GiveUp) for change in decision.changes)


def test_no_slice_ends_more_locks_than_a_batch_takes_and_all_of_them_end(shell):
    lay(shell)
    first, *others = steps(shell, Leave(ANN))
    assert (ends(first), EndSubscription(JOBS, ANN) in first.changes) == (HELD, True)
    assert all(ends(one) <= AT_ONCE for one in others)
    assert ends(first) + sum(map(ends, others)) == MANY
    assert held_by(shell, ANN) == 0


def test_all_items_of_an_account_are_freed_when_its_last_resource_leaves(shell):
    lay(shell, holder=ACCOUNT)
    for _ in steps(shell, Leave(ANN)):
        pass
    assert held_by(shell, ACCOUNT) == 0


def test_while_another_resource_is_here_the_account_keeps_what_it_holds(shell):
    lay(shell, holder=ACCOUNT)
    shell.do(Arrive(TABLET))
    (only,) = steps(shell, Leave(ANN))
    assert (ends(only), held_by(shell, ACCOUNT)) == (0, MANY)


def test_between_two_slices_nothing_is_handed_to_the_leaver(shell):
    lay(shell, unsubscribe_on_unavailable=False)
    slices = 0
    request = Leave(ANN)
    while request is not None:
        done = shell.batch(request, everywhere=True)
        assert not done.deliveries
        request, slices = done.decisions[0].then, slices + 1
    assert slices > MANY // AT_ONCE


def test_a_worker_that_returns_between_two_slices_keeps_its_new_items(shell):
    lay(shell, unsubscribe_on_unavailable=False)
    rest = shell.batch(Leave(ANN)).decisions[0].then
    back = shell.batch(Arrive(ANN), publishes("new", "newer"))
    given = {notice.item.id for notice in back.deliveries}
    assert {"new", "newer"} <= given
    assert {notice.to for notice in back.deliveries} == {ANN}
    for decision in steps(shell, rest):
        assert not {one.item.id for one in decision.changes} & given
    kept = shell.look_within(lambda tx: tx.page(HeldBy(ANN), None, MANY))
    assert given <= {item.id for item in kept}
    assert all(item.token >= rest.unused for item in kept)


def test_a_kill_between_two_slices_loses_nothing_and_the_rest_times_out(shell, tmp_path):
    lay(shell)
    shell.batch(Leave(ANN))
    shell.close()
    again = Shell(tmp_path / "queue.db")
    assert held_by(again, ANN) == MANY - HELD
    for _ in steps(again, Leave(ANN)):  # the server says it again, or else the locks time out
        pass
    assert held_by(again, ANN) == 0
    assert len(again.look(lambda tx: tx.contents(JOBS))) == MANY
    again.close()


def test_slices_are_reported_as_slices(shell):
    lay(shell)
    lines = []
    request = Leave(ANN)
    while request is not None:
        with capture_logs() as logged:
            decisions = shell.batch(request).decisions
            log_decisions([request], decisions)
        lines += logged
        request = decisions[0].then
    people = [line for line in lines if line["event"] != "worker.unsubscribed"]
    assert people == [
        {"event": "worker.left", "jid": ANN, "locks": HELD, "more": True, "log_level": "info"},
        {"event": "worker.freed", "jid": ANN, "locks": MANY, "log_level": "info"},
    ]


def test_each_item_has_its_event_with_the_reason(shell):
    lay(shell, event_log=True)
    for _ in steps(shell, Leave(ANN)):
        pass
    failures = shell.connection.execute("SELECT failed, count(*) FROM item GROUP BY failed")
    assert list(failures) == [(1, MANY)]
    reported = shell.connection.execute(
        "SELECT kind, detail, count(*) FROM event GROUP BY kind, detail"
    )
    assert (EventKind.UNLOCKED.value, WORKER_LOST, MANY) in list(reported)


def test_a_dismissed_worker_is_notified_of_all_items_and_the_answer_counts_them(shell):
    lay(shell)
    decisions = list(steps(shell, Dismiss(who(BOSS), JOBS, ANN)))
    assert [ends(one) for one in decisions] == [AT_ONCE, AT_ONCE, MANY - 2 * AT_ONCE]
    assert decisions[-1].reply == Freed(JOBS, MANY)
    reported = [notice for one in decisions for notice in one.notices]
    assert {type(notice) for notice in reported} == {Unlocked}
    assert sum(len(notice.ids) for notice in reported) == MANY
    assert at_the_end(decisions[0].then) == Freed(JOBS, AT_ONCE), "what is committed"


def test_a_worker_that_subscribes_again_has_its_held_items_in_flight(shell):
    lay(shell)
    shell.batch(Dismiss(who(BOSS), JOBS, ANN, freeing=False))
    shell.do(joins(ANN, 10_000))
    (row,) = shell.look(lambda tx: tx.subscribers(JOBS))
    assert row.in_flight == MANY


def batch_of(requests):
    """Return how many of the requests that had no room the next batch takes."""
    waiting = WaitingRequests()
    for one in (NotifyFormer(JOBS), *requests):
        waiting.add(one, print)
    assert [one for one, _ in waiting.take_batch()] == [NotifyFormer(JOBS)]
    return len(waiting.take_batch())


def test_a_batch_takes_as_many_leavers_as_it_has_room_for():
    leaves = [Leave(Jid(f"bot{number}@x/1")) for number in range(512)]
    assert batch_of(leaves) * HELD == MAX_BATCH_ITEMS
    assert batch_of([FreeLeft(ANN, (ANN,), 9)] * 9) * AT_ONCE == MAX_BATCH_ITEMS
    assert batch_of([FreeHeld(JOBS, ANN, 9, 0, 0)] * 9) * AT_ONCE == MAX_BATCH_ITEMS
    words = PresenceRetry(Acquaintances())
    for leave in leaves:
        words.keep(leave)
    assert len(words.some(MAX_BATCH_ITEMS)) * HELD == MAX_BATCH_ITEMS


def test_pending_releases_are_kept_while_workers_come_and_go():
    words = PresenceRetry(Acquaintances())
    rest = FreeLeft(ANN, (ANN,), 9)
    for word in (rest, Arrive(ANN), Leave(ANN), Arrive(ANN), Leave(ANN)):
        words.keep(word)
    assert [word for word, _ in words.some(1 << 30)] == [rest, Arrive(ANN), Leave(ANN)]


async def test_a_store_that_fails_between_two_slices_leaves_nothing_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(presence_retry, "RETRY", 0.01)
    shell = Shell(tmp_path / "queue.db")
    lay(shell)
    shell.close()
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    log = []
    watched = WatchedStore(store, log)
    broker = Broker(
        watched,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
    )
    WatchedFace(broker, log)
    broker.start()

    def fail_next(_reply):
        watched.failures = 2

    broker.submit(Leave(ANN), print)
    broker.submit(publishes("other"), fail_next)  # answered when the first slice is committed
    while sum(await store.read(lambda tx: tx.page(Total(HeldBy(ANN))))):
        await broker.settled()
    assert log.count("failure") == 2
    await broker.stop()
    await store.close()


async def test_others_are_served_between_the_slices(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    lay(shell)
    shell.close()
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    log = []
    broker = Broker(
        WatchedStore(store, log),
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
    )
    face = WatchedFace(broker, log)
    broker.start()
    face.up()
    await broker.settled()
    log.clear()
    broker.submit(Leave(ANN), lambda _reply: log.append("left"))
    broker.submit(joins(BOB, 1), lambda _reply: log.append("joined"))
    await broker.settled()
    assert log.index("joined") < log.index("left")
    assert any(isinstance(one, Deliver) and one.to == BOB for one in log[: log.index("left")])
    assert log[: log.index("left")].count("commit") > MANY // AT_ONCE
    await broker.stop()
    await store.close()
