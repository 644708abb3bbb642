"""Done items are kept, and come back, in queues that keep them; slice by slice, whatever happens meanwhile."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.replay import reported, there
from harness.stores.store_contents import done, misweighed, recount
from msgspec.structs import replace

from pubqueue.engine.listings import Seeks
from pubqueue.model.decision import Done, LookedThrough, Refusal, Refused
from pubqueue.model.entities import Finish, ItemId, NodeName, State
from pubqueue.model.records import PublishKey
from pubqueue.operations.items import HISTORY, ITEMS, history_note
from pubqueue.operations.table import CONTENTS
from pubqueue.rules import seek
from pubqueue.rules.inspect import Peek, ReadHistory
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete, Purge
from pubqueue.rules.read import ReadItems
from pubqueue.rules.seek import DropDone, ResumeSeeks, Seek
from pubqueue.rules.settle import Outcome, Settle, Verb

NAMES = [f"i{n}" for n in range(8)]
END = LookedThrough(NodeName(""))


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    made.do(a_queue(keep_done=1, item_expire=1_000, event_log=1))
    made.do(joins(ANN, 99))
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    assert made.look_within(reported) == made.look_within(there)
    made.close()


@pytest.fixture
def small(monkeypatch):
    """Let three items be a slice."""
    monkeypatch.setattr(seek, "SEEK_SLICE", 3)


def works(shell, *names, at=0, **more):
    """Publish items, and let Ann do them; the last one at this second."""
    shell.now = after(at)
    shell.batch(publishes(*names, **more))
    assert shell.do(retracts(ANN, *names)) == Done()


def seeks(since, by=BOSS):
    return Seek(who(by), JOBS, after(since))


def waits(shell):
    """Return the ids of the items in the queue."""
    return [str(name) for name in shell.look(lambda tx: tx.item_ids(JOBS))]


def kept_names(shell):
    return [str(item.id) for item in shell.look_within(lambda tx: done(tx, JOBS))]


def configures(shell, **settings):
    assert isinstance(shell.do(Configure(who(BOSS), JOBS, Settings(settings))), Done)


def looks(shell, at):
    """Let the reaper look through everything at this second."""
    shell.now = after(at)
    assert shell.do(DropDone()) == END


def test_done_items_leave_the_queue_and_come_back(shell):
    works(shell, "a", headers=(("k", "v"),), priority=3, group="g")
    assert (waits(shell), kept_names(shell)) == ([], ["a"])
    node = shell.look(lambda tx: tx.node(JOBS))
    assert (node.items, node.done) == (0, 1)
    found = shell.batch(seeks(-1)).decisions[0]
    found = shell.batch(found.then).decisions[0]
    back = shell.batch(found.then)
    (delivery,) = back.deliveries
    assert (delivery.to, delivery.payload) == (ANN, b"<job/>")
    item = delivery.item
    assert (item.headers, item.priority, item.group) == ((("k", "v"),), 3, "g")
    assert (item.acquired, item.expires) == (1, after(1_000))
    assert (waits(shell), kept_names(shell)) == (["a"], [])
    assert shell.do(retracts(ANN, "a")) == Done()


def test_only_since_the_moment_it_is_led_to(shell):
    for at, name in enumerate("abc"):
        works(shell, name, at=at)
    shell.now = after(9)
    assert shell.do(seeks(1)) == Done()
    assert (waits(shell), kept_names(shell)) == (["b", "c"], ["a"])


def test_older_waiting_items_are_marked_as_done(shell):
    shell.batch(publishes("a"))
    shell.now = after(5)
    shell.batch(publishes("b"))
    assert shell.do(seeks(5)) == Done()
    assert (waits(shell), kept_names(shell)) == (["b"], ["a"])
    assert shell.do(retracts(ANN, "a")) == Refused(Refusal.ITEM_NOT_FOUND)
    shell.do(seeks(0))
    assert waits(shell) == ["a", "b"]


def test_a_seek_to_now_leaves_what_comes_later(shell):
    shell.batch(publishes("a"))
    first = shell.batch(seeks(0.001)).decisions[0]
    shell.batch(publishes("b"))  # in the same millisecond, behind the mark
    step = first
    while step.then is not None:
        step = shell.batch(step.then).decisions[0]
    assert (waits(shell), kept_names(shell)) == (["b"], ["a"])


def test_items_that_are_done_during_a_seek_do_not_come_back(shell, small):
    works(shell, *NAMES[:5])
    shell.batch(publishes("late"))
    shell.now = after(1)
    step = shell.batch(seeks(-1)).decisions[0]
    shell.now = after(2)
    shell.batch(retracts(ANN, "late"))
    while step.then is not None:
        step = shell.batch(step.then).decisions[0]
    assert (waits(shell), kept_names(shell)) == (NAMES[:5], ["late"])


@pytest.mark.parametrize("slices", range(7))
def test_after_a_kill_between_any_two_slices_it_goes_on(shell, small, slices):
    works(shell, *NAMES[:4])
    works(shell, *NAMES[4:], at=1)
    shell.batch(publishes("new", "newer"))
    shell.now = after(2)
    request = seeks(1)
    for _ in range(slices):
        request = shell.batch(request).decisions[0].then or request
    shell.rows.cache.forget()  # another process begins
    shell.now = after(3)
    assert shell.do(ResumeSeeks()) == Done()
    assert shell.look_within(lambda tx: tx.page(Seeks(), None, 9)) == []
    expected = [*NAMES[4:], "new", "newer"] if slices else ["new", "newer"]
    assert waits(shell) == expected


def test_each_step_may_be_made_again(shell, small):
    works(shell, *NAMES)
    shell.batch(publishes("old"))
    shell.now = after(1)
    works(shell, "new", at=1)
    step = shell.batch(seeks(1)).decisions[0].then
    while (then := shell.batch(step).decisions[0].then) is not None:
        shell.batch(step)
        step = then
    assert (waits(shell), kept_names(shell)) == (["new"], [*NAMES, "old"])


def test_a_later_seek_ends_the_one_under_way(shell, small):
    works(shell, *NAMES)
    step = shell.batch(seeks(-1)).decisions[0].then
    for _ in range(2):
        step = shell.batch(step).decisions[0].then
    shell.now = after(1)
    assert shell.do(seeks(1)) == Done()
    assert waits(shell) == []
    assert shell.do(step) == Done()
    assert (waits(shell), kept_names(shell)) == ([], NAMES)


def test_an_old_lock_settles_nothing_that_came_back(shell):
    shell.batch(publishes("a"))
    old = shell.look(lambda tx: tx.item(JOBS, "a"))
    shell.do(retracts(ANN, "a"))
    shell.do(seeks(-1))
    late = Settle(who(ANN), JOBS, ("a",), Verb.RETRACT, token=old.token, late=True)
    assert shell.do(late).refusal is Refusal.LOCK_LOST
    assert waits(shell) == ["a"]


def test_its_id_is_free_and_the_newer_one_stays(shell):
    works(shell, "a", payload=b"<one/>")
    shell.batch(publishes("a", payload=b"<two/>"))
    shell.do(seeks(-1))
    assert (waits(shell), kept_names(shell)) == (["a"], ["a"])
    item = shell.look(lambda tx: tx.item(JOBS, "a"))
    assert shell.look(lambda tx: tx.payload(item)) == b"<two/>"


def test_in_one_batch_it_comes_back_and_has_another_payload(shell):
    shell.do(a_queue(NodeName("quiet"), keep_done=1))
    works(shell, "a")
    step = shell.batch(seeks(-1)).decisions[0].then
    step = shell.batch(step).decisions[0].then
    configures(shell, paused=1)
    shell.batch(step, publishes("a", payload=b"<two/>"))
    item = shell.look(lambda tx: tx.item(JOBS, "a"))
    assert (item.state, item.size) == (State.QUEUED, 6)
    assert shell.look(lambda tx: tx.payload(item)) == b"<two/>"


def test_an_id_that_is_remembered_comes_back_and_is_remembered_again(shell):
    configures(shell, dedup_window=60)
    works(shell, "a")
    assert shell.do(publishes("a")).ids == ("a",)
    assert waits(shell) == []
    shell.do(seeks(-1))
    assert waits(shell) == ["a"]
    shell.do(retracts(ANN, "a"))
    assert kept_names(shell) == ["a"]


def test_a_done_item_is_dropped_after_its_time(shell, small):
    works(shell, *NAMES)
    works(shell, "late", at=500)
    looks(shell, 999.999)
    assert len(kept_names(shell)) == 9
    shell.now = after(1_000)
    shell.do(seeks(-1))
    assert waits(shell) == ["late"]
    looks(shell, 1_000)
    assert kept_names(shell) == []


def test_the_oldest_go_for_their_bytes(shell, small):
    works(shell, *NAMES)
    configures(shell, max_bytes=3 * len(b"<job/>"))
    looks(shell, 1)
    assert kept_names(shell) == NAMES[5:]
    assert shell.do(publishes("a", "b", "c")).ids, "what is done takes no room from what waits"


def test_a_queue_that_no_longer_keeps_it_loses_it(shell, small):
    works(shell, *NAMES)
    configures(shell, keep_done=0)
    shell.do(seeks(-1))
    assert waits(shell) == []
    looks(shell, 1)
    assert kept_names(shell) == []


def test_many_queues_are_looked_through(shell, monkeypatch):
    monkeypatch.setattr(seek, "SEEK_LOOKED_AT", 2)
    for name in map(NodeName, "abcde"):
        shell.do(a_queue(name, keep_done=1))
        shell.do(joins(ANN, node=name))
        shell.batch(publishes("x", node=name))
        shell.do(retracts(ANN, "x", node=name))
        shell.do(Configure(who(BOSS), name, Settings({"keep_done": 0})))
    seen = LookedThrough(NodeName(""))
    for _ in range(3):
        seen = shell.do(DropDone(seen.up_to))
    assert seen == END
    assert [shell.look(lambda tx, n=n: tx.node(NodeName(n))).done for n in "abcde"] == [0] * 5


@pytest.mark.parametrize("way", [Purge, Delete])
def test_done_items_are_removed_by_a_purge_and_with_the_queue(shell, way):
    works(shell, "a")
    assert not isinstance(shell.do(way(who(BOSS), JOBS)), Refused)
    if way is Delete:
        shell.do(a_queue(keep_done=1, event_log=1))
    shell.do(seeks(-1))
    assert (waits(shell), kept_names(shell)) == ([], [])


@pytest.mark.parametrize(("by", "no"), [(ETL, Refusal.FORBIDDEN), (ANN, Refusal.FORBIDDEN)])
def test_only_an_owner_seeks(shell, by, no):
    works(shell, "a")
    assert shell.do(seeks(-1, by)).refusal is no
    assert kept_names(shell) == ["a"]


def test_large_items_come_back_one_by_one(shell, monkeypatch):
    monkeypatch.setattr(seek, "MAX_BYTES", 7)
    works(shell, *NAMES[:3])
    steps, step = 0, shell.batch(seeks(-1)).decisions[0]
    while step.then is not None:
        steps, step = steps + 1, shell.batch(step.then).decisions[0]
    assert (steps, waits(shell)) == (4, NAMES[:3])


def test_a_key_that_was_used_answers_as_before(shell):
    request = replace(publishes("a"), key=PublishKey("k", after(60), strict=True))
    shell.batch(request)
    shell.do(retracts(ANN, "a"))
    shell.do(seeks(-1))
    assert shell.do(request).again


def test_a_listing_mentions_items_that_are_done(shell):
    works(shell, "a", "b")
    shell.do(publishes("c"))
    owner = who(BOSS)
    page = shell.do(ReadItems(owner, JOBS, payloads=False))
    assert ([entry.item.id for entry in page.entries], page.done) == (["c"], 2)
    note = "1 item of jobs. It also keeps 2 done items: choose their state to list them."
    assert ITEMS.answer(page, None).note == note
    assert shell.do(ReadItems(owner, JOBS, state=State.QUEUED, payloads=False)).done == 0
    refused = shell.do(Peek(owner, JOBS, ItemId("z")))
    assert refused.reason == "there is no item z in jobs"


def of_done(shell, **more):
    """Return a page of what is done: the ids, and whether more follow."""
    page = shell.do(ReadItems(who(BOSS), JOBS, state=State.DONE, **more))
    return [str(entry.item.id) for entry in page.entries], page.more, page


def test_what_is_done_is_listed_with_who_has_done_it(shell):
    works(shell, *NAMES[:3], headers=(("k", "v"),))
    shell.do(publishes("waits"))
    names, more, page = of_done(shell)
    assert (names, more, page.done) == (NAMES[:3], False, 0)
    first = page.entries[0]
    assert (first.payload, first.size, first.item.headers) == (b"<job/>", 6, (("k", "v"),))
    assert first.item.finish == Finish(after(0), ANN, after(0))
    assert (first.item.acquired, first.item.failed) == (1, 0)
    names, more, page = of_done(shell, max=2, payloads=False)
    assert (names, more, page.entries[0].payload) == (NAMES[:2], True, None)
    assert of_done(shell, max=2, after=page.through)[:2] == (NAMES[2:3], False)
    (row, *_) = ITEMS.answer(page, None).rows
    cells = dict(zip([column.name for column in ITEMS.columns], row, strict=True))
    assert (cells["state"], cells["done"], cells["worker"]) == ("done", after(0), ANN)
    assert (cells["due"], cells["delivered"], cells["acquired"]) == (None, after(0), 1)


def test_a_page_of_what_is_done_ends_at_its_bytes(shell):
    works(shell, *NAMES[:3])
    assert of_done(shell, room=7)[:2] == (NAMES[:1], True)


def test_what_was_done_after_a_failure_is_of_the_worker_that_has_done_it(shell):
    shell.batch(publishes("a"))
    shell.batch(joins(BOB, 9))
    shell.now = after(2)
    (delivery,) = shell.batch(unlocks(ANN, "a", outcome=Outcome.FAILED)).deliveries
    shell.now = after(9)
    shell.do(retracts(delivery.to, "a"))
    (entry,) = of_done(shell)[2].entries
    assert entry.item.finish == Finish(after(9), BOB, after(2))
    assert (entry.item.acquired, entry.item.failed) == (2, 1)


def test_one_item_that_is_done_is_looked_at(shell):
    works(shell, "a")
    shell.now = after(3)
    works(shell, "a", at=3, payload=b"<second/>")
    peeked = shell.do(Peek(who(BOSS), JOBS, ItemId("a")))
    assert (peeked.item.state, peeked.payload) == (State.DONE, b"<second/>")
    shell.do(publishes("a", payload=b"<third/>"))
    assert shell.do(Peek(who(BOSS), JOBS, ItemId("a"))).payload == b"<third/>"
    assert shell.do(Peek(who(ETL), JOBS, ItemId("a"))).refusal is Refusal.FORBIDDEN


def steps_told(shell, name="a", by=BOSS):
    reply = shell.do(ReadHistory(who(by), JOBS, ItemId(name)))
    return reply, [(step.at, step.event.kind.value, step.event.worker) for step in reply.steps]


@pytest.mark.parametrize("log", [0, 1])
def test_the_history_of_what_is_done_has_its_worker_and_times(shell, log):
    configures(shell, event_log=log)
    works(shell, "a")
    reply, steps = steps_told(shell)
    assert steps == [
        (after(0), "published", None),
        (after(0), "delivered", ANN),
        (after(0), "completed", ANN),
    ]
    note = history_note(reply).partition("\n")[0]
    assert note == f"a in jobs is done by {ANN}, delivered 1 time."


def test_what_a_seek_has_finished_was_done_by_nobody(shell):
    configures(shell, event_log=0)
    shell.batch(publishes("a"))
    shell.now = after(5)
    shell.do(seeks(5))
    assert of_done(shell)[2].entries[0].item.finish == Finish(after(5), None, None)
    _, steps = steps_told(shell)
    assert steps[-1] == (after(5), "retracted", None)


def test_the_reply_is_shown_to_who_may_read_it(shell):
    place = NodeName("replies/etl@x")
    wanted = {"access_model": "whitelist", "publish_model": "open", "event_log": 1}
    shell.do(Create(who(ETL), place, Settings(wanted)))
    asks = (("reply-to", place), ("correlation-id", "jobs/a"))
    shell.batch(publishes("a", headers=asks))
    shell.do(publishes("jobs/a", by=ANN, node=place, payload=b"<answer/>"))
    shell.do(retracts(ANN, "a"))
    for by, sees in ((who(BOSS), False), (who(BOSS, admin=True), True), (who(ETL), True)):
        reply = shell.do(ReadHistory(by, JOBS, ItemId("a")))
        assert (reply.result is not None) is sees
        last = HISTORY.answer(reply, None).rows[-1]
        assert (last[1] == "replied") is sees
    assert (last[2], last[-1]) == ("ann@x", "<answer/>")
    assert HISTORY.columns[-1].name in CONTENTS  # which viewers are not shown


def test_what_is_done_goes_after_its_time_and_beyond_its_number(shell, small):
    configures(shell, done_ttl=60)
    works(shell, *NAMES)
    works(shell, "late", at=50)
    looks(shell, 59.999)
    assert len(kept_names(shell)) == 9
    shell.now = after(60)
    shell.do(seeks(-1))
    assert waits(shell) == ["late"]  # the others are too old to come back
    shell.do(retracts(ANN, "late"))
    looks(shell, 60)
    assert kept_names(shell) == ["late"]
    configures(shell, done_ttl="", done_max=2)
    works(shell, "x", "y", at=61)
    looks(shell, 61)
    assert kept_names(shell) == ["x", "y"]
