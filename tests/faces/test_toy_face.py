"""A toy face, made as CONTRIBUTING.md says, beside one that speaks to JIDs on the same queue.

Everything that a queue promises holds between the two faces as within one.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
from harness.batches.facts import ANN, JOBS, NOW
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.toy_face import SERVICE, LineFace
from harness.patience import TIMEOUT
from harness.stores.store_reader import StoreReader

from pubqueue.config.settings import NodeSettings, Settings
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.faces.table import FACES, Row
from pubqueue.faces.xmpp.xml.payload import PAYLOADS
from pubqueue.model.decision import Refused
from pubqueue.model.entities import ItemId, Jid, NodeName, State, connection
from pubqueue.model.notices import NOBODY, Deliver, Purged, Retracted, ToEach
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores import store_at
from pubqueue.wiring.serving import serve


class MailFace:
    """As the XMPP face is to the outbox: addresses with an @ that are not the service's; `said` are its notices."""

    def __init__(self, broker):
        self._broker = broker
        self._up = False
        self.said = []
        broker.outbox.attach(self)

    largest = 1 << 18

    def claims(self, address):
        return "@" in address and connection(address, SERVICE) is None

    def reaches(self, address):
        return self._up and self.claims(address)

    def send_notices(self, notices):
        if not self._up:
            return notices
        self.said += notices
        return ()

    def when_sent(self, _node, call):
        call()

    def set_up(self, *, up):
        self._up = up
        self._broker.outbox.set_up(self, up=up)

    def rest(self):
        """Return what was said since the last time: of deliveries to whom and what."""
        said, self.said = self.said, []
        return [(n.to, n.item.id, n.payload) if isinstance(n, Deliver) else n for n in said]


# --- what the tests stand on ---------------------------------------------------------------------

LINES = NodeName("lines")
MAILS = NodeName("mails")
NOBODYS = Jid("post:1")
GONE = Jid(f"etl@{SERVICE}/line.0.999")
"""An address of the face, and no line that is connected."""
WORK = b"<work/>"


class Stage:
    """One broker on a store in memory, with both faces up."""

    def __init__(self, broker, store):
        self._broker, self._store = broker, store
        self.line_face, self.mail_face = LineFace(broker), MailFace(broker)
        self.line_face.go_up()
        self.mail_face.set_up(up=True)

    async def do(self, *requests):
        """Have requests done, as a face would, and all that follows from them."""
        replies = []
        for request in requests:
            self._broker.submit(request, replies.append)
        await self._broker.settled()
        assert not any(isinstance(reply, Refused) for reply in replies), replies

    async def item(self, node, name):
        return await self._store.batch(lambda tx: StoreReader(tx).item(node, ItemId(name)))

    def send(self, *notices):
        return self._broker.outbox.send(notices)


@asynccontextmanager
async def a_broker():
    store = store_at("memory:")
    await store.open()
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
        payloads=PAYLOADS,
    )
    broker.start()
    for node in (JOBS, LINES, MAILS):
        await broker.handle(a_queue(node, publish_model="open"))
    yield broker, store
    await broker.stop()
    await store.close()


@pytest.fixture
async def stage():
    async with a_broker() as (broker, store):
        yield Stage(broker, store)


# --- from one face to the other ------------------------------------------------------------------


async def test_a_notice_of_many_items_to_both_faces_is_cut_once(stage):
    audience = (GONE, Jid("ann@x/1"), NOBODYS)
    news = [Purged(NOBODY, node) for node in (LINES, MAILS)]
    stage.send(*(ToEach(audience, what) for what in news))
    first, second = stage.mail_face.said
    assert (first.to, first.what, second.what) == ((Jid("ann@x/1"),), *news)
    assert first.to is second.to


async def test_what_a_line_puts_is_handed_to_a_jid(stage):
    await stage.do(joins(ANN))
    line = stage.line_face.connect("etl")
    line.say("PUT jobs a bread & butter")
    assert await line.hear() == "OK"
    await stage.do()
    payload = b'<text xmlns="urn:example:line">bread &amp; butter</text>'
    assert stage.mail_face.rest() == [(ANN, "a", payload)]
    assert (await stage.item(JOBS, "a")).publisher == f"etl@{SERVICE}"


async def test_what_a_jid_publishes_is_handed_to_a_line_which_gets_it_done(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 1")
    assert await line.hear() == "OK"
    await stage.do(publishes("a", payload=WORK))
    assert await line.hear() == "ITEM jobs a <work/>"
    line.say("DONE jobs a")
    assert [await line.hear(), await line.hear()] == ["OK", "GONE jobs a"]
    assert await stage.item(JOBS, "a") is None
    assert stage.mail_face.rest() == []


async def test_the_rules_know_a_line_from_a_jid_and_from_another_line(stage):
    line, other = stage.line_face.connect("etl"), stage.line_face.connect("joe")
    line.say("TAKE jobs 1")
    await stage.do(publishes("a"))
    other.say("DONE jobs a")
    assert await other.hear() == "NO NOT_YOURS"
    other.say("TAKE jobs 1")
    assert await other.hear() == "OK"
    other.say("DONE jobs a")
    assert await other.hear() == "NO LOCKED_BY_ANOTHER"
    await stage.do(joins(ANN))
    assert (await stage.item(JOBS, "a")).holder == line.address


async def test_a_window_is_shared_out_between_the_faces(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 2")
    await stage.do(joins(ANN, 2), publishes("a"), publishes("b"), publishes("c"), publishes("d"))
    assert len(stage.mail_face.rest()) == 2
    assert [words.split(" ")[0] for words in line.rest()] == ["OK", "ITEM", "ITEM"]


async def test_a_line_that_hangs_up_leaves_its_work_to_a_jid(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 1")
    await stage.do(publishes("a", payload=WORK))
    stage.line_face.hang_up(line)
    await stage.do(joins(ANN))
    assert stage.mail_face.rest() == [(ANN, "a", WORK)]


async def test_a_worker_is_notified_across_faces_that_its_item_was_retracted(stage):
    line = stage.line_face.connect("etl")
    line.say("PUT jobs a text")
    await stage.do(joins(ANN))
    stage.mail_face.rest()
    line.say("DONE jobs a")
    await stage.do()
    assert stage.mail_face.rest() == [Retracted(ANN, JOBS, (ItemId("a"),))]
    assert line.rest() == ["OK", "OK"]


@pytest.mark.parametrize(
    "words", ["", "EAT jobs", "TAKE jobs", "PUT jobs a", "PUT jobs  text", "PUT jobs a \x01"]
)
async def test_an_item_that_other_faces_cannot_send_is_refused(stage, words):
    line = stage.line_face.connect("etl")
    line.say(words)
    assert await line.hear() == "NO WORDS"


# --- a face that is down -------------------------------------------------------------------------


async def test_a_face_that_is_down_stops_its_own_deliveries_only(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE lines 5")
    await stage.do(joins(ANN, 5, node=MAILS))
    stage.line_face.go_down()
    await stage.do(publishes("a", node=LINES), publishes("b", node=MAILS, payload=WORK))
    assert stage.mail_face.rest() == [(ANN, "b", WORK)]
    assert line.rest() == ["OK"]
    waits = await stage.item(LINES, "a")
    assert (waits.state, waits.acquired) == (State.QUEUED, 0)
    stage.line_face.go_up()
    assert await line.hear() == "ITEM lines a <job/>"


async def test_the_other_face_may_be_the_one_that_is_down(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE lines 5")
    await stage.do(joins(ANN, 5, node=MAILS))
    stage.mail_face.set_up(up=False)
    await stage.do(publishes("a", node=LINES), publishes("b", node=MAILS, payload=WORK))
    assert line.rest() == ["OK", "ITEM lines a <job/>"]
    assert stage.mail_face.rest() == []
    stage.mail_face.set_up(up=True)
    await stage.do()
    assert stage.mail_face.rest() == [(ANN, "b", WORK)]


async def test_what_a_face_that_is_down_would_have_got_goes_to_the_other(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 5")
    await stage.do(joins(ANN, 1))
    stage.line_face.go_down()
    await stage.do(publishes("a", payload=WORK), publishes("b", payload=WORK))
    assert stage.mail_face.rest() == [(ANN, "a", WORK)]
    stage.line_face.go_up()
    await stage.do()
    assert line.rest() == ["OK", "ITEM jobs b <work/>"]


async def test_what_is_done_at_a_face_is_answered_while_another_is_down(stage):
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 1")
    await stage.do(publishes("a"))
    stage.mail_face.set_up(up=False)
    line.say("DONE jobs a")
    await stage.do()
    assert line.rest() == ["OK", "ITEM jobs a <job/>", "OK", "GONE jobs a"]


# --- addresses that nobody claims ----------------------------------------------------------------


async def test_a_notice_without_a_face_comes_back_from_the_outbox(stage):
    notices = [Retracted(NOBODYS, JOBS, ()), Purged(ANN, JOBS)]
    assert stage.send(*notices) == notices[:1]
    assert stage.mail_face.rest() == notices[1:]


async def test_nothing_is_handed_to_an_address_that_no_face_claims(stage):
    await stage.do(joins(NOBODYS), publishes("a", payload=WORK))
    waits = await stage.item(JOBS, "a")
    assert (waits.state, waits.acquired, waits.failed) == (State.QUEUED, 0, 0)
    await stage.do(joins(ANN))
    assert stage.mail_face.rest() == [(ANN, "a", WORK)]


async def test_nothing_is_handed_to_a_line_that_is_not_connected_or_does_not_read(stage):
    full = stage.line_face.connect("joe")
    full.say("TAKE jobs 1")
    stage.line_face.fill(full, full=True)
    await stage.do(joins(GONE), publishes("a"))
    waits = await stage.item(JOBS, "a")
    assert (waits.state, waits.acquired) == (State.QUEUED, 0)
    stage.line_face.fill(full, full=False)
    assert [await full.hear(), await full.hear()] == ["OK", "ITEM jobs a <job/>"]


async def test_an_item_that_a_face_cannot_send_goes_to_another_without_a_failure(
    stage, monkeypatch
):
    monkeypatch.setattr(stage.line_face, "reaches", lambda _address: True)
    await stage.do(joins(GONE), publishes("a"))
    back = await stage.item(JOBS, "a")
    assert (back.holder, back.acquired, back.failed, back.released) == (None, 1, 0, 1)
    line = stage.line_face.connect("etl")
    line.say("TAKE jobs 1")
    assert [await line.hear(), await line.hear()] == ["OK", "ITEM jobs a <job/>"]


async def test_a_face_alone_leaves_what_is_not_its_own():
    async with a_broker() as (broker, store):
        face = LineFace(broker)
        face.go_up()
        for request in (joins(NOBODYS), publishes("a")):
            await broker.handle(request)
        await broker.settled()
        waits = await store.batch(lambda tx: StoreReader(tx).item(JOBS, ItemId("a")))
        assert (waits.holder, waits.acquired) == (None, 0)
        line = face.connect("etl")
        line.say("TAKE jobs 1")
        assert [await line.hear(), await line.hear()] == ["OK", "ITEM jobs a <job/>"]
        await broker.handle(retracts(line.address, "a"))


# --- a row of the wiring's table -----------------------------------------------------------------


async def test_a_row_of_the_table_is_all_that_it_takes_to_be_served(monkeypatch):
    faces, ready, stop = [], asyncio.Event(), asyncio.Event()

    def made(broker, _settings, _accounts, on_ready):
        faces.append(LineFace(broker, on_ready))
        return faces[-1]

    monkeypatch.setattr("pubqueue.wiring.faces.FACES", {"line": Row(make=made)})
    options = {"pubsub#publish_model": "open", "pubsub#access_model": "open"}
    node = NodeSettings("jobs", queueing=True, options=options)
    settings = Settings(jid="queue.example.org", secret="s", store="memory:", node=(node,))
    serving = asyncio.create_task(serve(settings, stop=stop, on_ready=ready.set))
    async with asyncio.timeout(TIMEOUT):
        await ready.wait()
        line = faces[0].connect("etl")
        line.say("TAKE jobs 1")
        line.say("PUT jobs a text")
        assert [await line.hear() for _ in range(3)] == ["OK", "OK", "ITEM jobs a text"]
        stop.set()
        await serving


def test_the_face_that_claims_every_address_is_the_last_of_the_table():
    assert list(FACES)[-1] == "xmpp"
