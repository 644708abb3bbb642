"""A crowd is notified page by page, in order, beside other work; all subscribers are notified of a node's deletion."""

from contextlib import asynccontextmanager

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, NOW, who
from harness.batches.queue_requests import joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import commits, committed, in_slices, stages
from harness.batches.witness import WatchedFace, WatchedStore
from harness.patience import TIMEOUT, until
from msgspec.structs import replace

from pubqueue.engine import fan_out, outbox
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.facts import managing as pages
from pubqueue.engine.facts import publishing
from pubqueue.engine.fan_out import FanOut
from pubqueue.engine.listings import FormerSubscribers, Subscribers, UnnotifiedNodes
from pubqueue.model.decision import Done, Refusal
from pubqueue.model.entities import Jid, NodeName
from pubqueue.model.notices import NOBODY, Announce, Deleted, Purged, Retracted, ToAll, singly
from pubqueue.model.replies import SubscriberPage
from pubqueue.rules import audience
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.audience import SERVICE, NextSubscribers
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Delete, Purge
from pubqueue.rules.subscribe import Unsubscribe
from pubqueue.stores.sql.transaction import SqlTransaction
from pubqueue.stores.sqlite import SqliteStore

PAGE = 3
CROWD = [Jid(f"bot{number}@x/1") for number in range(8)]
OTHER = NodeName("other")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Let five subscribers be a crowd, and three a page."""
    monkeypatch.setattr(publishing, "CROWD", 4)
    for place in (pages, audience):
        monkeypatch.setattr(place, "PAGE", PAGE)


class SlowFace(WatchedFace):
    """A face that sends on demand; `most` is the largest number of waiting notices."""

    def __init__(self, broker, log):
        super().__init__(broker, log)
        self.waiting, self.calls, self.most = [], [], 0
        self.is_stuck = False

    def send_notices(self, notices):
        self.waiting += singly(notices)
        self.most = max(self.most, len(self.waiting))
        return ()

    def when_sent(self, _node, call):
        if self.is_stuck or self.waiting:
            self.calls.append(call)
        else:
            call()

    def send(self):
        """Send all waiting notices; return whether there were any."""
        sent, self.waiting = self.waiting, []
        calls, self.calls = self.calls, []
        self._log.extend(sent)
        for call in calls:
            call()
        return bool(sent or calls)


class Stage:
    def __init__(self, path):
        self.heard = []
        self.store = WatchedStore(SqliteStore(path), [])
        self.broker = Broker(
            self.store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: NOW,
        )
        self.face = SlowFace(self.broker, self.heard)

    async def do(self, *requests):
        """Run the requests, send all resulting notices, and return the replies."""
        replies = await self.answered(*requests)
        await self.reported()
        return replies

    async def answered(self, *requests):
        """Run the requests, let the notices wait, and return the replies."""
        replies = []
        for request in requests:
            self.broker.submit(request, replies.append)
        await self.broker.settled()
        return replies

    async def reported(self):
        await self.broker.settled()
        while self.face.send():
            await self.broker.settled()

    async def until_heard(self, count):
        """Send notices until this many have arrived; a page that cannot be read is read again."""

        async def is_heard():
            await self.reported()
            return len(self.heard) >= count

        await until(is_heard)

    def words(self, jid):
        """Return the notices of the subscriber, in order."""
        return [_word(one) for one in self.heard if one.to == jid]

    async def page(self, listing):
        return await self.store.batch(lambda tx: tx.page(listing, None, 99))


def _word(notice):
    match notice:
        case Announce():
            return notice.draft.id
        case Retracted():
            return f"-{notice.ids[0]}"
        case _:
            return type(notice).__name__.lower()


@asynccontextmanager
async def served(path):
    stage = Stage(path)
    await stage.store.inner.open()
    stage.broker.start()
    stage.face.up()
    await stage.reported()
    try:
        yield stage
    finally:
        await stage.broker.stop()
        await stage.store.inner.close()


def plain(name=JOBS):
    people = (Jid("boss@x"),), (Jid("etl@x"),)
    return Declare(who(BOSS, admin=True), name, Settings({"access_model": "open"}), *people)


def reads(jid, again=""):
    asked = replace(joins(jid), options=None)
    return replace(asked, subid=f"{asked.subid}{again}")


@pytest.fixture
async def stage(tmp_path):
    async with served(tmp_path / "queue.db") as stage:
        await stage.do(plain(), *map(reads, CROWD))
        stage.heard.clear()
        yield stage


async def test_each_of_a_crowd_is_notified_once(stage):
    await stage.do(publishes("a"))
    assert [one.to for one in stage.heard] == CROWD
    assert stage.words(CROWD[5]) == ["a"]


@pytest.mark.parametrize("run", [1, 2])
async def test_no_more_than_a_page_of_a_run_waits_to_be_sent(stage, monkeypatch, run):
    monkeypatch.setattr(fan_out, "MAX_RUN_NEWS", run)
    await stage.do(*(publishes(name) for name in "abcd"), Purge(who(BOSS), JOBS))
    assert stage.face.most == run * PAGE
    assert len(stage.heard) == 5 * len(CROWD)


async def test_a_run_ends_with_its_bytes_too(stage, monkeypatch):
    monkeypatch.setattr(fan_out, "MAX_RUN_BYTES", 2 * fan_out.EACH)
    await stage.do(publishes(*"abcde"))
    assert stage.face.most == 2 * PAGE
    for jid in CROWD:
        assert stage.words(jid) == [*"abcde"]


@pytest.fixture
def read(monkeypatch):
    """Return how many pages of subscribers have been read, in an empty list that grows."""
    found = []
    page = SqlTransaction.page

    def counted(self, which, after=None, limit=1):
        if isinstance(which, Subscribers):
            found.append(after)
        return page(self, which, after, limit)

    monkeypatch.setattr(SqlTransaction, "page", counted)
    return found


PAGES = [None, CROWD[2], CROWD[5]]


async def test_each_page_is_read_once_for_all_that_one_request_tells(stage, read):
    await stage.do(publishes(*"abcdefgh"))
    assert read == PAGES
    for jid in CROWD:
        assert stage.words(jid) == [*"abcdefgh"]


async def test_notices_during_a_run_are_sent_together_afterwards(stage, read):
    await stage.answered(publishes("a"))
    await stage.answered(*(publishes(name) for name in "bcd"), Purge(who(BOSS), JOBS))
    await stage.reported()
    assert read == 2 * PAGES
    for jid in CROWD:
        assert stage.words(jid) == ["a", "b", "c", "d", "purged"]


async def test_a_notice_in_the_middle_of_a_run_waits_for_the_next_one(stage):
    await stage.answered(publishes(*"ab"))
    stage.face.send()
    await stage.broker.settled()
    await stage.do(publishes("c"))
    for jid in CROWD:
        assert stage.words(jid) == [*"abc"]


async def test_the_end_of_a_node_goes_alone_behind_a_run(stage):
    await stage.answered(publishes(*"ab"), Delete(who(BOSS), JOBS))
    await stage.reported()
    for jid in CROWD:
        assert stage.words(jid)[-1] == "deleted"
        assert stage.words(jid).count("deleted") == 1


async def test_a_notice_to_few_ends_a_run(stage):
    await stage.answered(publishes(*"ab"))
    leavers = [Unsubscribe(who(jid), JOBS, jid) for jid in CROWD[4:]]
    await stage.answered(*leavers, publishes("c"))
    await stage.do(*(reads(jid, " again") for jid in CROWD[4:]), publishes("d"))
    for jid in CROWD[:4]:
        assert stage.words(jid) == [*"abcd"]


async def test_a_run_is_repeated_later_if_a_page_cannot_be_read(stage, monkeypatch):
    monkeypatch.setattr(fan_out, "RETRY", 0)
    await stage.answered(publishes(*"abc"))
    stage.store.failures = 1
    stage.face.send()
    await stage.broker.settled()
    stage.store.failures = 0
    await stage.until_heard(3 * len(CROWD))
    for jid in CROWD:
        assert stage.words(jid) == [*"abc"]


async def test_each_is_notified_in_the_order_of_events(stage):
    await stage.do(publishes("a"), publishes("b"))
    await stage.do(retracts(ETL, "a"), publishes("c"), Purge(who(BOSS), JOBS), publishes("d"))
    for jid in CROWD:
        assert stage.words(jid) == ["a", "b", "-a", "c", "purged", "d"]


async def test_remaining_subscribers_of_a_shrunk_crowd_are_notified_in_order(stage):
    await stage.answered(publishes("a"))
    leavers = [Unsubscribe(who(jid), JOBS, jid) for jid in CROWD[4:]]
    await stage.do(*leavers, publishes("b"))
    for jid in CROWD[:4]:
        assert stage.words(jid) == ["a", "b"]


async def test_the_news_of_another_node_do_not_wait(stage):
    await stage.do(plain(OTHER), replace(reads(ANN), node=OTHER, subid="other"))
    await stage.answered(publishes("a"))
    await stage.answered(publishes("b", node=OTHER))
    assert [one.to for one in stage.face.waiting] == [*CROWD[:PAGE], ANN]


@pytest.mark.parametrize("request_of", [publishes, lambda name: Purge(who(BOSS), JOBS)])
async def test_a_requester_is_answered_before_a_crowd_is_notified(stage, request_of):
    assert len(await stage.answered(request_of("a"))) == 1
    assert stage.heard == []


async def test_no_subscriber_of_a_crowd_is_loaded_to_be_notified(stage, monkeypatch):
    rows = []
    load = SqlTransaction.load
    monkeypatch.setattr(
        SqlTransaction, "load", lambda self, needs: rows.append(needs) or load(self, needs)
    )
    stage.broker.committer.forget()
    await stage.do(publishes("a"), Purge(who(BOSS), JOBS), Delete(who(BOSS), JOBS))
    assert not any(needs.subscribers for needs in rows)
    assert stage.words(CROWD[7]) == ["a", "purged", "deleted"]


async def test_a_page_that_cannot_be_read_is_read_later(stage, monkeypatch):
    monkeypatch.setattr(fan_out, "RETRY", 0)
    await stage.answered(publishes("a"))
    stage.store.failures = 1
    stage.face.send()
    await stage.broker.settled()
    stage.store.failures = 0
    await stage.until_heard(len(CROWD))
    assert [one.to for one in stage.heard] == CROWD


async def test_a_node_with_many_unsent_notices_is_behind(stage, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_BYTES", 3 * fan_out.EACH)
    for name in "abc":
        await stage.answered(publishes(name))
    assert stage.broker.outbox.is_behind(JOBS)
    assert not stage.broker.outbox.is_behind(OTHER)
    await stage.reported()
    assert not stage.broker.outbox.is_behind(JOBS)


# --- the end of a node ---------------------------------------------------------------------------


async def test_subscribers_are_notified_of_the_end_of_a_node_and_their_subscriptions_go(stage):
    assert await stage.do(Delete(who(BOSS), JOBS)) == [Done()]
    assert stage.heard == [Deleted(jid, JOBS) for jid in CROWD]
    assert await stage.page(FormerSubscribers(JOBS)) == []
    assert await stage.page(UnnotifiedNodes()) == []


async def test_subscriptions_go_as_their_subscribers_are_notified(stage):
    await stage.answered(Delete(who(BOSS), JOBS))
    left = [len(await stage.page(FormerSubscribers(JOBS)))]
    while stage.face.send():
        await stage.broker.settled()
        left.append(len(await stage.page(FormerSubscribers(JOBS))))
    assert left == [8, 5, 2, 0]
    assert stage.face.most == PAGE


@pytest.mark.parametrize("pages_sent", range(4))
async def test_after_a_kill_between_any_two_pages_all_are_notified(tmp_path, stage, pages_sent):
    await stage.answered(Delete(who(BOSS), JOBS))
    for _ in range(pages_sent):
        stage.face.send()
        await stage.broker.settled()
    async with served(tmp_path / "queue.db") as again:
        assert {one.to for one in [*stage.heard, *again.heard]} == set(CROWD)
        assert len(again.heard) == len(CROWD) - min(PAGE * pages_sent, len(CROWD))
        assert await again.page(UnnotifiedNodes()) == []


async def test_while_no_client_can_be_reached_no_subscription_ends(stage):
    stage.face.down()
    await stage.do(Delete(who(BOSS), JOBS))
    assert await stage.page(FormerSubscribers(JOBS)) == CROWD
    stage.face.up()
    await stage.reported()
    assert stage.heard == [Deleted(jid, JOBS) for jid in CROWD]


class ClosingOutbox:
    """An outbox that is open by default; callbacks for an empty outbox wait."""

    is_open = True

    def __init__(self):
        self.calls = []

    def send(self, _notices):
        return ()

    def when_sent(self, _node, call):
        self.calls.append(call)

    def set_behind(self, *_of):
        pass


def test_behind_an_end_that_is_put_off_in_the_middle_the_next_news_begin_with_the_first_page():
    outbox, asked = ClosingOutbox(), []
    news = FanOut(outbox, outbox.send, lambda request, answer: asked.append((request, answer)))
    news.keep([ToAll(Deleted(NOBODY, JOBS)), ToAll(Purged(NOBODY, JOBS))])
    _, answer = asked.pop()
    answer(SubscriberPage((ANN,), ANN))
    outbox.is_open = False
    outbox.calls.pop()()
    ((request, _),) = asked
    assert request == NextSubscribers(SERVICE, JOBS, None)


async def test_subscribers_to_a_new_node_are_not_notified_of_the_deletion_of_its_predecessor(
    stage,
):
    await stage.answered(Delete(who(BOSS), JOBS))
    await stage.do(plain(), reads(CROWD[6], " again"))
    assert [one.to for one in stage.heard] == [*CROWD[:6], CROWD[7]]
    await stage.do(publishes("a"))
    assert stage.words(CROWD[6]) == ["a"]
    assert await stage.page(Subscribers(JOBS)) == [CROWD[6]]


async def test_a_node_without_notify_delete_is_deleted_silently(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    settings = Settings({"access_model": "open", "notify_delete": False})
    shell.do(with_settings(settings))
    shell.batch(*map(reads, CROWD))
    assert shell.batch(Delete(who(BOSS), JOBS)).decisions[0].notices == ()
    assert shell.look_within(lambda tx: tx.page(UnnotifiedNodes(), None, 9)) == []
    shell.close()


def with_settings(settings):
    return Declare(who(BOSS, admin=True), JOBS, settings, (Jid("boss@x"),), (Jid("etl@x"),))


# --- commits -------------------------------------------------------------------------------------

FEW = [Jid(f"few{number}@x/1") for number in range(2)]
NAMES = [f"i{number}" for number in range(6)]
WHOLE = (0, 0, len(NAMES))


async def staged(stage, subscribers):
    await stage.do(plain(OTHER), *(replace(reads(jid, " o"), node=OTHER) for jid in subscribers))
    await stage.do(stages(*NAMES, node=OTHER))


@pytest.mark.parametrize(("subscribers", "most"), [(FEW, 4), (CROWD, 2 * PAGE)])
async def test_a_commit_notifies_of_its_items_slice_by_slice(stage, monkeypatch, subscribers, most):
    in_slices(monkeypatch, 2)
    await staged(stage, subscribers)
    assert await stage.do(commits(WHOLE)) == [committed(6)]
    assert stage.face.most == most
    for jid in subscribers:
        assert stage.words(jid) == NAMES


async def test_a_slice_of_a_commit_waits_for_the_notices_of_the_one_before(stage, monkeypatch):
    in_slices(monkeypatch, 2)
    await staged(stage, FEW)
    replies = []
    stage.broker.submit(commits(WHOLE), replies.append)
    await stage.broker.settled()
    assert [one.draft.id for one in stage.face.waiting if one.to == FEW[0]] == NAMES[:2]
    assert len(await stage.answered(publishes("x"))) == 1
    assert replies == []


async def test_at_the_end_requests_that_wait_for_a_commit_are_answered(stage, monkeypatch):
    in_slices(monkeypatch, 2)
    await staged(stage, FEW)
    replies = []
    stage.broker.submit(commits(WHOLE), replies.append)
    await stage.broker.settled()
    await stage.broker.drain(TIMEOUT)
    assert replies == [committed(6)]


async def test_while_many_notices_of_a_node_wait_nothing_more_is_committed_to_it(stage):
    await staged(stage, FEW)
    stage.broker.outbox.set_behind(stage.face, {OTHER})
    (refused,) = await stage.do(commits(WHOLE))
    assert refused.refusal is Refusal.STILL_NOTIFYING
    stage.broker.outbox.set_behind(stage.face, {JOBS})
    assert await stage.do(commits(WHOLE)) == [committed(6)]
    assert stage.words(FEW[0]) == NAMES
    assert stage.broker.outbox.is_behind(JOBS)
    stage.broker.outbox.set_behind(stage.face, None)
    assert not stage.broker.outbox.is_behind(JOBS)
