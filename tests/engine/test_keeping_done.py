"""Done items are kept, and come back, in queues that keep them; slice by slice, whatever happens meanwhile."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.replay import reported, there
from harness.stores.store_contents import done, misweighed, recount
from msgspec.structs import replace

from pubqueue.engine.listings import Seeks
from pubqueue.model.decision import Done, LookedThrough, Refusal, Refused
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.model.records import PublishKey
from pubqueue.operations.items import ITEMS
from pubqueue.rules import seek
from pubqueue.rules.inspect import Peek
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete, Purge
from pubqueue.rules.read import ReadItems
from pubqueue.rules.seek import DropDone, ResumeSeeks, Seek
from pubqueue.rules.settle import Settle, Verb

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
    note = "1 item of jobs. It keeps 2 done items, which no list shows."
    assert ITEMS.answer(page, None).note == note
    assert shell.do(ReadItems(owner, JOBS, state=State.QUEUED, payloads=False)).done == 0
    refused = shell.do(Peek(owner, JOBS, ItemId("a")))
    assert refused.refusal is Refusal.ITEM_NOT_FOUND
    assert refused.reason == (
        "there is no item a in jobs, apart from those that are done (2), which cannot be shown"
    )
