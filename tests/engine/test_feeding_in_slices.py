"""A publish that feeds more copies than one commit may add, on both stores: in slices, between which anything may happen, even the end of the process."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, EVE, after, draft, who
from harness.batches.queue_requests import joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.store_contents import misweighed, recount

from pubqueue.engine.listings import ItemIds, Items, Trims, Unfed
from pubqueue.engine.rows import FED_MESSAGES, FEEDINGS, Needs
from pubqueue.model.decision import Done, Published, Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, NodeName, State
from pubqueue.model.records import PublishKey, name_of_message
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete
from pubqueue.rules.publication import Publish
from pubqueue.rules.publish import FeedSlice, MarkPublish, ResumeFeeding
from pubqueue.rules.together import Together
from pubqueue.rules.trimming import ResumeTrims

NEWS, A, B, C = map(NodeName, ("news", "a", "b", "c"))
QUEUES = A, B, C
IDS = [f"i{number}" for number in range(5)]
COPIES = len(IDS) * len(QUEUES)
SLICE = 4
PUBLISHERS = Jid("etl@x"), Jid("eve@x")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr("pubqueue.rules.feed.MAX_COPIES", 3)
    monkeypatch.setattr("pubqueue.engine.facts.publishing.SLICE", SLICE)
    monkeypatch.setattr("pubqueue.engine.facts.publishing.JUDGED", 10)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Opens the store of a test, again for each process."""
    if request.param == "sqlite":
        return lambda: Shell(tmp_path / "queue.db")
    address = request.getfixturevalue("postgres").address
    return lambda: PostgresShell(address)


@pytest.fixture
def shell(place):
    made = place()
    wanted = Settings({"queueing": False, "access_model": "open"})
    made.do(Declare(who(BOSS, admin=True), NEWS, wanted, (Jid("boss@x"),), PUBLISHERS))
    for name in QUEUES:
        made.do(makes(name))
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    made.close()


def makes(node, **settings):
    wanted = Settings({"queueing": True, "access_model": "open", "source": NEWS} | settings)
    return Create(who(EVE, local=True), node, wanted)


def configures(node, **settings):
    return Configure(who(EVE), node, Settings(settings))


def ids(shell, node):
    return shell.look_within(lambda tx: tx.page(ItemIds(node), None, 99))


def left(shell):
    """Return the stored marks."""
    return shell.look_within(lambda tx: tx.page(Unfed(), None, 9))


def until(shell, request, kind):
    """Continue up to the first slice of that kind; return it."""
    while not isinstance(request, kind):
        request = shell.batch(request).decisions[0].then
    return request


def large(*names, **facts):
    return publishes(*(names or IDS), node=NEWS, **facts)


PUBLISHED = Published(NEWS, tuple(map(ItemId, IDS)))


def test_each_queue_gets_each_message_in_order_and_the_publisher_is_answered_at_the_end(shell):
    assert shell.do(large()) == PUBLISHED
    assert [ids(shell, name) for name in QUEUES] == [IDS] * 3
    assert left(shell) == []


def test_each_slice_adds_no_more_than_its_size(shell):
    request = until(shell, large(), FeedSlice)
    counts = []
    while request is not None:
        done = shell.batch(request)
        counts.append(sum(len(ids(shell, name)) for name in QUEUES))
        request = done.decisions[0].then
    assert counts == [4, 8, 12, 15]


@pytest.mark.parametrize("slices", range(5))
def test_after_a_kill_between_any_two_slices_the_next_process_goes_on(place, shell, slices):
    request = until(shell, large(), FeedSlice)
    for _ in range(slices):
        request = shell.batch(request).decisions[0].then
    assert sum(len(ids(shell, name)) for name in QUEUES) == min(slices * SLICE, COPIES)
    again = place()
    assert again.do(ResumeFeeding()) == Done()
    assert [ids(again, name) for name in QUEUES] == [IDS] * 3
    assert left(again) == []
    again.close()


def test_after_a_kill_before_the_mark_nothing_is_published(place, shell):
    request = until(shell, large(), MarkPublish)
    assert isinstance(request, MarkPublish)
    again = place()
    assert again.do(ResumeFeeding()) == Done()
    assert [ids(again, name) for name in QUEUES] == [[]] * 3
    again.close()


def test_its_rows_go_with_the_copies(shell):
    request = until(shell, large(), FeedSlice)
    wanted = Needs()
    wanted.of[FEEDINGS] = {request.mark}
    wanted.of[FED_MESSAGES] = {name_of_message(request.mark, n) for n in range(len(IDS))}

    def kept(tx):
        found = tx.load(wanted)
        return len(found.of[FEEDINGS]), len(found.of[FED_MESSAGES])

    seen = []
    while request is not None:
        seen.append(shell.look_within(kept))
        request = shell.batch(request).decisions[0].then
    assert [*seen, shell.look_within(kept)] == [(1, 5), (1, 4), (1, 3), (1, 1), (0, 0)]


@pytest.mark.parametrize("settings", [{"publish_paused": True}, {"max_items": 4}])
def test_a_queue_that_refuses_refuses_it_for_all_and_nothing_is_changed(shell, settings):
    shell.do(configures(C, **settings))
    before = shell.dump()
    no = shell.do(large())
    assert isinstance(no, Refused)
    assert "feeds the queue 'c'" in no.reason
    assert shell.dump() == before


def test_an_account_that_may_not_publish_is_refused_at_once(shell):
    done = shell.batch(large(by=ANN)).decisions[0]
    assert (done.reply.refusal, done.then) == (Refusal.FORBIDDEN, None)


def test_a_publisher_that_lost_its_right_is_refused_at_the_mark(shell):
    request = until(shell, large(), MarkPublish)
    shell.do(Configure(who(BOSS), NEWS, Settings({"publish_paused": True})))
    assert shell.do(request).refusal is Refusal.PUBLISH_PAUSED
    assert [ids(shell, name) for name in QUEUES] == [[]] * 3


def test_a_filter_leaves_out_what_it_leaves_out_and_counts_nothing_of_it(shell):
    shell.do(configures(B, filter="attributes:big", max_items=2))
    drafts = [draft(name, headers=(("big", "1"),) if name in {"i1", "i3"} else ()) for name in IDS]
    assert shell.do(Publish(who(ETL), NEWS, tuple(drafts))) == PUBLISHED
    assert [ids(shell, name) for name in QUEUES] == [IDS, ["i1", "i3"], IDS]


def test_an_id_that_is_taken_comes_in_under_another_one(shell):
    shell.do(joins(ANN, node=A))
    shell.do(Publish(who(EVE), A, (draft("i1", b"<other/>"),)))
    assert shell.do(large()) == PUBLISHED
    assert len(ids(shell, A)) == 6
    assert [ids(shell, name) for name in (B, C)] == [IDS] * 2


def test_changes_during_the_slices(shell):
    """A deleted queue gets nothing more, a new one under its name nothing at all, and a paused one all of it."""
    request = until(shell, large(), FeedSlice)
    request = shell.batch(request).decisions[0].then
    shell.do(Delete(who(EVE), A))
    shell.do(configures(B, publish_paused=True))
    shell.now = after(1)
    shell.do(makes(A))
    assert shell.do(request) == PUBLISHED
    assert [ids(shell, name) for name in QUEUES] == [[], IDS, IDS]


def test_other_requests_are_served_between_the_slices(shell):
    request = until(shell, large(), FeedSlice)
    shell.do(joins(ANN, 9, node=A))
    first = shell.batch(request)
    assert [notice.item.id for notice in first.deliveries] == ["i0", "i1"]
    assert isinstance(shell.do(retracts(ANN, "i0", node=A)), Done)
    assert shell.do(first.decisions[0].then) == PUBLISHED
    assert ids(shell, A) == IDS[1:]


def test_two_processes_that_go_on_with_it_make_each_copy_once(place, shell):
    request = until(shell, large(), FeedSlice)
    other = place()
    other_request = until(other, ResumeFeeding(), FeedSlice)
    while request is not None:
        request = shell.batch(request).decisions[0].then
        if isinstance(other_request, FeedSlice):
            other_request = other.batch(other_request).decisions[0].then
    assert [ids(shell, name) for name in QUEUES] == [IDS] * 3
    other.close()


def test_under_a_key_it_is_done_once(shell):
    key = PublishKey("k", 60_000)
    wanted = Publish(who(ETL), NEWS, tuple(map(draft, IDS)), key=key)
    assert shell.do(wanted) == PUBLISHED
    again = shell.do(wanted)
    assert (again.ids, again.again) == (PUBLISHED.ids, True)
    assert [ids(shell, name) for name in QUEUES] == [IDS] * 3


def test_the_same_publish_twice_at_the_same_moment_has_two_marks(shell):
    requests = [until(shell, large(), MarkPublish) for _ in range(2)]
    marked = shell.batch(*requests).decisions
    assert len({one.then.mark for one in marked}) == 2
    for one in marked:
        assert shell.do(one.then) == one.reply
    assert [ids(shell, name) for name in QUEUES] == [IDS] * 3, "ids that are there change nothing"


def test_within_a_transaction_of_a_client_it_is_refused(shell):
    no = shell.do(Together(who(ETL), (large(),)))
    assert no.refusal is Refusal.TOO_MANY_ITEMS


def test_a_queue_that_drops_its_oldest_is_trimmed(shell):
    shell.do(configures(B, max_items=2, expired="truncate"))
    assert shell.do(large()) == PUBLISHED
    assert shell.look_within(lambda tx: tx.page(Trims(), None, 9)) == [B]
    shell.do(ResumeTrims())
    rows = shell.look_within(lambda tx: tx.page(Items(B), None, 9))
    assert [item.id for item, _ in rows if item.state is State.QUEUED][:2] == ["i3", "i4"]
