"""After a crash, deliveries that may not have been sent are sent again, to their holders."""

import pytest
from harness.batches.facts import ANN, BOB, NOW
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.witness import WatchedFace

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.redelivery import LAG
from pubqueue.model.entities import Millis
from pubqueue.model.notices import Deliver
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.presence import Arrive
from pubqueue.stores.sqlite import SqliteStore


class Lives:
    """A store, and one process after another on it; each ends like a crash."""

    def __init__(self, path):
        self.path, self.now = path, NOW
        self._open = []

    async def begin(self, *, up=True, beside=False):
        """Start another process, `beside` the earlier ones or after their end; return the notices of its face."""
        if not beside:
            await self.kill()
        store = SqliteStore(self.path)
        await store.open()
        self.broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            instance=await store.instances.enter(),
            clock=lambda: self.now,
        )
        self._open.append((self.broker, store))
        said = []
        self.face = WatchedFace(self.broker, said)
        self.broker.start()
        if up:
            self.face.up()
            await self.broker.settled()
        return said

    async def do(self, *requests):
        for request in requests:
            await self.broker.handle(request)
        await self.broker.settled()

    async def let_pass(self):
        """Send deliveries, and run a batch that records this."""
        for _ in range(2):
            self.now = Millis(self.now + LAG)
            await self.do(Arrive(BOB))

    async def kill(self):
        """End all processes like a crash."""
        for broker, store in self._open:
            await broker.stop()
            await store.close()
        self._open.clear()


@pytest.fixture
async def lives(tmp_path):
    lives = Lives(tmp_path / "queue.db")
    await lives.begin()
    await lives.do(a_queue(lock_timeout=3600, max_queue_requests=5000), joins(ANN, 5000))
    yield lives
    await lives.kill()


def sent(said):
    return [
        (one.to, one.item.id, one.item.token, one.item.acquired)
        for one in said
        if isinstance(one, Deliver)
    ]


async def test_an_unconfirmed_delivery_is_repeated_to_its_holder_under_its_token(lives):
    await lives.do(publishes("a", "b"), retracts(ANN, "b"))
    said = await lives.begin()
    (again,) = sent(said)
    assert again[:2] == (ANN, "a")
    assert again[3] == 1
    assert sent(await lives.begin()) == [again]


async def test_a_delivery_that_was_certainly_sent_is_not_repeated(lives):
    await lives.do(publishes("a"))
    await lives.let_pass()
    await lives.do(publishes("b"))
    assert [item for _, item, *_ in sent(await lives.begin())] == ["b"]


async def test_each_of_two_processes_records_its_own_deliveries(lives):
    await lives.do(publishes("a"))
    first = lives.broker
    await lives.begin(beside=True)
    await lives.do(publishes("b"))
    lives.broker = first
    await lives.let_pass()
    said = await lives.begin()
    await lives.broker.undelivered.act_for(1)
    assert {item for _, item, *_ in sent(said)} == {"b"}


async def test_a_process_with_a_released_number_has_nothing_to_send_again(lives):
    await lives.begin(beside=True)
    await lives.broker.undelivered.note_all_delivered()
    await lives.do(publishes("a"))
    said = await lives.begin(beside=True)
    await lives.do(publishes("b"))
    assert [item for _, item, *_ in sent(said)] == ["b"]


async def test_a_process_that_joins_does_not_repeat_what_another_delivered_before_it_was_up(lives):
    first = lives.broker
    said = await lives.begin(up=False, beside=True)
    await lives.do(Arrive(BOB))  # its first batch
    joined, lives.broker = lives.broker, first
    await lives.do(publishes("a"))
    lives.face.up()
    await joined.settled()
    assert sent(said) == []


async def test_after_an_end_in_order_nothing_comes_again(lives):
    await lives.do(publishes("a"))
    lives.face.down()
    await lives.broker.undelivered.note_all_delivered()
    assert sent(await lives.begin()) == []


async def test_an_end_in_order_keeps_what_could_not_be_sent_again(lives):
    """As if the service were started and stopped while its server is away."""
    await lives.do(publishes("a"))
    await lives.begin(up=False)
    await lives.broker.undelivered.note_all_delivered()
    said = await lives.begin()
    assert [item for _, item, *_ in sent(said)] == ["a"]
    await lives.do(publishes("b"))
    lives.face.down()
    lives.broker.undelivered.stream_broke()
    await lives.broker.undelivered.note_all_delivered()
    assert "b" in [item for _, item, *_ in sent(await lives.begin())]


async def test_many_go_in_slices_and_each_once(lives, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.facts.queue.RESEND_LOOKED_AT", 7)
    monkeypatch.setattr("pubqueue.engine.facts.queue.MAX_BYTES", 20)
    names = [f"i{n}" for n in range(20)]
    await lives.do(publishes(*names), retracts(ANN, "i3"))
    said = await lives.begin()
    assert [item for _, item, *_ in sent(said)] == [name for name in names if name != "i3"]


async def test_a_repetition_that_fails_stays_with_its_holder_and_is_retried_once(lives):
    await lives.do(publishes("a"))
    said = await lives.begin(up=False)
    lives.face.silent = True
    lives.face.up()
    await lives.broker.settled()
    assert sent(said) == []
    lives.face.down()
    lives.face.silent = False
    await lives.do(joins(BOB))
    lives.face.up()
    await lives.broker.settled()
    assert [(to, item) for to, item, *_ in sent(said)] == [(ANN, "a")]


async def test_deliveries_on_a_broken_stream_are_repeated(lives):
    said = await lives.begin()
    await lives.do(publishes("a"))
    await lives.let_pass()
    await lives.do(publishes("b"), publishes("c"), retracts(ANN, "c"))
    lives.face.down()
    lives.broker.undelivered.stream_broke()
    lives.face.up()
    await lives.broker.settled()
    reported = sent(said)
    assert [item for _, item, *_ in reported] == ["a", "b", "c", "b"]
    assert reported[1] == reported[3]


@pytest.mark.parametrize(("later", "times"), [(LAG - 1, 2), (LAG, 1)])
async def test_a_broken_stream_loses_what_was_sent_for_an_instance_that_died(lives, later, times):
    await lives.do(publishes("a"))
    said = await lives.begin(beside=True)
    await lives.broker.undelivered.act_for(0)
    lives.now = Millis(lives.now + later)
    lives.face.down()
    lives.broker.undelivered.stream_broke()
    lives.face.up()
    await lives.broker.settled()
    assert [item for _, item, *_ in sent(said)] == ["a"] * times


async def test_a_note_just_after_a_delivery_does_not_prove_that_it_was_sent(lives):
    said = await lives.begin()
    await lives.let_pass()
    lives.now = Millis(lives.now + LAG - 1)
    await lives.do(publishes("a"))
    lives.now = Millis(lives.now + 1)
    await lives.do(Arrive(BOB))  # it comes with the note
    lives.face.down()
    lives.broker.undelivered.stream_broke()
    lives.face.up()
    await lives.broker.settled()
    assert [item for _, item, *_ in sent(said)] == ["a", "a"]


async def test_a_stream_that_breaks_long_after_the_last_delivery_has_taken_none_along(lives):
    said = await lives.begin()
    await lives.do(publishes("a"))
    lives.now = Millis(lives.now + LAG)
    lives.face.down()
    lives.broker.undelivered.stream_broke()
    lives.face.up()
    await lives.broker.settled()
    assert len(sent(said)) == 1


async def test_no_delivery_is_recorded_as_sent_while_repetitions_are_pending(lives):
    await lives.do(publishes("a"))
    await lives.begin()
    await lives.do(publishes("b"))
    lives.face.silent = True
    lives.face.down()
    lives.broker.undelivered.stream_broke()
    lives.face.up()
    await lives.broker.settled()
    await lives.let_pass()
    await lives.let_pass()
    assert [item for _, item, *_ in sent(await lives.begin())] == ["a", "b"]


async def test_a_server_that_reads_on_after_a_while_has_lost_nothing(lives):
    said = await lives.begin()
    await lives.do(publishes("a"))
    lives.face.down()
    lives.face.up()
    await lives.broker.settled()
    assert len(sent(said)) == 1
