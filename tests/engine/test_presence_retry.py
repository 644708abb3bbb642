"""Presence and bounces while the store cannot write: they are kept, merged, and retried until they are stored."""

from contextlib import asynccontextmanager

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace, WatchedStore
from harness.patience import until
from harness.stores.store_reader import StoreReader

from pubqueue.engine import presence_retry
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.presence_retry import STRANGERS, Acquaintances, PresenceRetry
from pubqueue.model.decision import Refused
from pubqueue.model.entities import ItemId, Jid, Millis, State
from pubqueue.model.notices import Deliver
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.presence import Arrive, Bounce, Leave
from pubqueue.rules.unlock import Recover
from pubqueue.stores.sqlite import SqliteStore


def knowing(*people):
    acquaintances = Acquaintances()
    for jid in people:
        acquaintances.meet(jid)
    return PresenceRetry(acquaintances)


def kept(*words):
    retry = knowing()
    for word in words:
        retry.keep(word)
    return [word for word, _ in retry.some(1 << 30)]


BACK = Bounce(ANN, 1, 1, gone=False, bounced=True)
MORE = Bounce(ANN, 2, 2, gone=False, bounced=True)
COME, GO = Arrive(ANN), Leave(ANN)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ((GO, COME), [GO, COME]),
        ((COME, GO), [COME, GO]),
        ((GO, GO, GO), [GO]),
        ((COME, COME, GO, GO), [COME, GO]),
        ((COME, GO, COME), [GO, COME]),
        ((GO, COME, GO), [COME, GO]),
        ((GO, COME) * 1000, [GO, COME]),
        ((BACK, GO, BACK, MORE), [BACK, GO, MORE]),
    ],
)
def test_the_last_presence_of_an_address_is_kept_and_each_bounce_once(said, left):
    assert kept(*said) == left


def test_of_two_reports_of_one_kind_the_later_one_is_kept():
    """The address may have been at another instance in between."""
    assert kept(Leave(ANN, Millis(1)), Leave(ANN, Millis(3))) == [Leave(ANN, Millis(3))]


def test_kept_presence_goes_before_later_requests_of_its_address():
    retry = knowing(ANN)
    retry.keep(GO)
    retry.keep(Leave(BOB))
    requests = [(publishes("a"), print), (joins(ANN), print), (Arrive(ANN), print)]
    found = [request for request, _ in retry.before(requests)]
    assert found == [publishes("a"), GO, joins(ANN), Arrive(ANN)]
    assert len(retry) == 1


def strangers(count, *, long=False):
    tail = "x" * 1000 if long else ""
    return (Leave(Jid(f"bot{number}@evil.example/{tail}")) for number in range(count))


def test_words_of_strangers_have_a_room_of_their_own_and_take_none_from_others():
    retry = knowing(ANN)
    retry.keep(GO)
    retry.keep(BACK)
    for word in strangers(100_000):
        retry.keep(word)
    assert len(retry) < STRANGERS / 500
    words = [word for word, _ in retry.some(1 << 30)]
    assert words[:2] == [GO, BACK]
    assert words[-1] == Leave(Jid("bot99999@evil.example/"))


def test_the_room_is_measured_in_bytes():
    short, long = knowing(), knowing()
    for word in strangers(10_000):
        short.keep(word)
    for word in strangers(10_000, long=True):
        long.keep(word)
    assert len(short) > 3 * len(long) > 0


def test_a_stranger_that_becomes_known_loses_no_presence():
    acquaintances = Acquaintances()
    retry = PresenceRetry(acquaintances)
    retry.keep(COME)
    acquaintances.meet(ANN)
    retry.keep(GO)
    assert [word for word, _ in retry.some(1)] == [COME, GO]
    assert not retry


def test_the_number_of_remembered_accounts_is_limited(monkeypatch):
    monkeypatch.setattr("pubqueue.engine.presence_retry.REMEMBERED", 3)
    acquaintances = Acquaintances()
    for name in "abcad":
        acquaintances.meet(Jid(f"{name}@x/1"))
    assert [acquaintances.knows(Jid(f"{name}@x/2")) for name in "abcd"] == [True, False, True, True]
    assert len(acquaintances) == 3


class Stage:
    """A broker on a store that fails on demand."""

    def __init__(self, store, now=NOW):
        self.log = []
        self.store = WatchedStore(store, self.log)
        self.broker = Broker(
            self.store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: now,
        )
        self.face = WatchedFace(self.broker, self.log)

    async def do(self, *requests):
        for request in requests:
            self.broker.submit(request, self.log.append)
        await self.broker.settled()

    async def is_taken(self):
        """Wait until no presence is kept."""
        await until(lambda: not self.broker.presence_retry and self.broker.rounds is None)

    async def seen(self, name="a"):
        """Return the state of the item, and the subscribers."""

        def look(tx):
            reader = StoreReader(tx)
            return reader.item(JOBS, ItemId(name)), reader.subscribers(JOBS)

        item, subscriptions = await self.store.batch(look)
        return item.state, [each.jid for each in subscriptions]


@pytest.fixture
async def stage(tmp_path, monkeypatch):
    monkeypatch.setattr(presence_retry, "RETRY", 0.01)
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    stage = Stage(store)
    stage.broker.start()
    stage.face.up()
    await stage.do(a_queue(backoff_min=1), Arrive(ANN), joins(ANN), publishes("a"))
    stage.log.clear()
    yield stage
    await stage.broker.stop()
    await store.close()


async def test_a_worker_that_leaves_while_the_store_cannot_write_has_left(stage):
    assert await stage.seen() == (State.LOCKED, [ANN])
    stage.store.failures = 3
    await stage.do(Leave(ANN))
    await stage.is_taken()
    assert await stage.seen() == (State.QUEUED, [])


async def test_a_later_session_that_another_instance_serves_outlives_what_is_kept(stage, tmp_path):
    stage.store.failures = 1_000_000
    await stage.do(Leave(ANN))
    async with beside(stage, tmp_path) as other:
        await other.do(Leave(ANN), Arrive(ANN, Millis(NOW + 1)), joins(ANN), publishes("b"))
        assert await other.seen("b") == (State.LOCKED, [ANN])
        stage.store.failures = 0
        await stage.is_taken()
        assert await other.seen("b") == (State.LOCKED, [ANN])


@asynccontextmanager
async def beside(stage, folder):
    """Run another instance on the store of a stage."""
    store = SqliteStore(folder / "queue.db")
    await store.open()
    other = Stage(store, Millis(NOW + 1))
    other.broker.start()
    other.face.up()
    yield other
    await other.broker.stop()
    await store.close()


@pytest.mark.parametrize("shown", [Arrive(ANN, Millis(NOW + 2)), joins(ANN, at=Millis(NOW + 2))])
async def test_a_report_that_waits_in_line_ends_no_session_that_another_instance_serves(
    stage, tmp_path, shown
):
    """What it has shown counts, also if it has got nothing yet; what it got before the report ends."""
    async with beside(stage, tmp_path) as other:
        await other.do(joins(ANN), shown)
        await stage.do(Leave(ANN, Millis(NOW + 1)))
        # the item waits before its next try
        assert await other.seen() == (State.DELAYED, [ANN])
        await stage.do(Leave(ANN, Millis(NOW + 2)))
        assert await other.seen() == (State.DELAYED, [])


async def test_a_worker_that_leaves_returns_and_subscribes_meanwhile_is_subscribed(stage):
    stage.store.failures = 2
    await stage.do(Leave(ANN))
    await stage.do(Arrive(ANN), joins(ANN))
    assert sum(isinstance(said, Refused) for said in stage.log) == 3
    stage.store.failures = 0
    await stage.do(joins(ANN))
    await stage.is_taken()
    assert (await stage.seen())[1] == [ANN]


async def test_a_bounce_that_meets_the_failing_store_frees_its_item(stage):
    await stage.do(joins(BOB))
    stage.log.clear()
    item = await stage.store.batch(lambda tx: StoreReader(tx).item(JOBS, ItemId("a")))
    stage.store.failures = 1
    await stage.do(Bounce(ANN, item.seq, item.token, gone=False, bounced=True))
    await stage.is_taken()
    assert [said.to for said in stage.log if isinstance(said, Deliver)] == [BOB]


async def test_while_words_are_kept_others_are_served(stage, monkeypatch):
    monkeypatch.setattr(presence_retry, "RETRY", 3600)
    stage.store.failures = 1
    await stage.do(Leave(ANN))
    stage.log.clear()
    await stage.do(publishes("b"))
    assert "commit" in stage.log
    assert len(stage.broker.presence_retry) == 1


async def test_a_leave_is_retried_once_when_the_service_ends(stage, monkeypatch):
    monkeypatch.setattr(presence_retry, "RETRY", 3600)
    stage.store.failures = 1
    await stage.do(Leave(ANN))
    await stage.broker.stop()
    assert await stage.seen() == (State.QUEUED, [])


async def test_in_an_outage_no_stranger_takes_the_place_of_a_holder(stage, monkeypatch):
    monkeypatch.setattr(presence_retry, "RETRY", 3600)
    stage.store.failures = 1 << 30
    await stage.do(Leave(ANN), *strangers(20_000))
    stage.store.failures = 0
    stage.broker.presence_retry.retry_now()
    await stage.is_taken()
    assert await stage.seen() == (State.QUEUED, [])


async def test_a_holder_of_items_from_before_the_start_is_remembered(stage, monkeypatch):
    other = Stage(stage.store)
    monkeypatch.setattr(presence_retry, "RETRY", 3600)
    other.broker.start()
    await other.do(Recover())
    assert other.broker.acquaintances.knows(ANN)
    await other.broker.stop()
