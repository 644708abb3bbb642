"""What waits in the process has a bound, whatever comes in and however many are to hear of it."""

import asyncio

import pytest
from harness.patience import TIMEOUT, turns, until
from harness.servers.stage import PAYLOAD, staged

from pubqueue.engine import outbox, task
from pubqueue.engine.facts import managing as crowd_facts
from pubqueue.engine.facts import publishing
from pubqueue.faces.flow import AT_ONCE
from pubqueue.faces.xmpp.stream import component, to_many
from pubqueue.faces.xmpp.stream.component import HIGH_WATER_BYTES
from pubqueue.faces.xmpp.xml.stanza import MAX_ANSWER_BYTES, MAX_STANZA_BYTES
from pubqueue.model.limits import ACCOUNT, EVERYBODY
from pubqueue.rules import audience

PEOPLE = 400


@pytest.fixture
async def stage(monkeypatch):
    # tests hold up the store until they have read a flood, however long that takes
    monkeypatch.setattr(task, "STALLED_AFTER", TIMEOUT)
    async with staged() as stage:
        yield stage


async def an_audience(stage, node="news", count=PEOPLE):
    for number in range(count):
        by = f"reader@localhost/{number}"
        inner = f"<subscribe node='{node}' jid='{by}'/>"
        assert await stage.ask(f"s{number}", inner, by=by) == "result"


async def test_a_publish_to_many_is_written_as_the_server_reads_it(stage):
    await an_audience(stage)
    stage.server.stop_reading()
    await stage.server.send(stage.publish("i1", "news"))
    await until(lambda: stage.is_clogged)
    await turns(100)
    assert stage.unsent_bytes < HIGH_WATER_BYTES + 3 * PAYLOAD < PEOPLE * PAYLOAD / 10
    assert 0 < stage.to_many.byte_count < PAYLOAD + PEOPLE * 10 + 1000
    # others are served meanwhile: what is said to them stands behind what is written, not behind all
    await stage.server.send(stage.iq("ping", "", by="eve@localhost/x", kind="get"))
    stage.server.read_on()
    heard = []
    while len(heard) < PEOPLE + 2:
        stanza = (await stage.server.receive()).tree
        if not stanza.get("id").startswith("told-"):
            heard.append(stanza)
    names = [stanza.get("id") for stanza in heard]
    assert names[0] == "i1"
    assert names.index("ping") < PEOPLE / 2
    messages = [stanza for stanza in heard if stanza.tag.endswith("message")]
    assert [m.get("to") for m in messages] == [f"reader@localhost/{n}" for n in range(PEOPLE)]
    assert {len(m.findtext(".//{x}x")) for m in messages} == {PAYLOAD}
    assert stage.to_many.byte_count == 0


async def test_a_crowd_is_notified_page_by_page_as_the_server_reads(stage, monkeypatch):
    monkeypatch.setattr(publishing, "CROWD", 100)
    for place in (crowd_facts, audience):
        monkeypatch.setattr(place, "PAGE", 30)
    await an_audience(stage, count=120)
    stage.server.stop_reading()
    await stage.server.send(stage.publish("i1", "news") + stage.publish("i2", "news"))
    await until(lambda: stage.is_clogged)
    await turns(100)
    (queue,) = stage.to_many._queues.values()
    assert [len(reported.to) for reported in queue] == [30]
    stage.server.read_on()
    reported = []
    while len(reported) < 240:
        stanza = (await stage.server.receive()).tree
        if stanza.tag.endswith("message"):
            reported.append((stanza.find(".//{*}item").get("id"), stanza.get("to")))
    crowd_of = sorted(f"reader@localhost/{number}" for number in range(120))
    assert reported == [(name, jid) for name in ("i1", "i2") for jid in crowd_of]


async def test_a_publisher_faster_than_the_notices_is_asked_to_wait(stage, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_BYTES", 3 * PAYLOAD)
    monkeypatch.setattr(
        component, "SLICE", 1 << 20
    )  # turns of the loop are counted below, no time passes
    await an_audience(stage, count=100)
    stage.server.stop_reading()
    for number in range(8):
        await stage.server.send(stage.publish(f"i{number}", "news"))
        await stage.server.send(stage.publish(f"o{number}", "other"))
    await turns(200)
    stage.server.read_on()
    answers = {}
    while len(answers) < 16:
        stanza = (await stage.server.receive()).tree
        if stanza.tag.endswith("iq"):
            answers[stanza.get("id")] = stanza
    refused = [name for name, stanza in answers.items() if stanza.get("type") == "error"]
    assert 0 < len(refused) < 8
    assert all(name.startswith("i") for name in refused)
    assert {
        answers[name].find("{*}error/{*}resource-constraint") is not None for name in refused
    } == {True}
    assert {answers[name].find("{*}error").get("type") for name in refused} == {"wait"}


async def test_news_end_with_their_stream(stage):
    await an_audience(stage)
    stage.server.stop_reading()
    await stage.server.send(stage.publish("i1", "news"))
    await until(lambda: stage.to_many)
    await stage.server.drop()
    await stage.server.reconnected(1)
    assert not stage.to_many
    assert await stage.ask("ping", "", kind="get") == "result"


@pytest.mark.parametrize(
    ("count", "size"), [(5_000, 10), (EVERYBODY.byte_count // PAYLOAD * 6 // 5, PAYLOAD)]
)
async def test_while_enough_waits_nothing_more_is_taken(stage, count, size):
    stage.store.may_go.clear()
    flood = "".join(
        stage.publish(f"i{number}", "other", size, by=f"boss{number % 10}@localhost/x")
        for number in range(count)
    )
    sending = asyncio.create_task(stage.server.send(flood))
    await until(lambda: stage.waiting.is_full)
    await turns(100)
    waiting, most = stage.waiting, EVERYBODY.byte_count
    assert waiting.count == EVERYBODY.requests or most <= waiting.byte_count < most + 2 * PAYLOAD
    assert not stage.is_reading
    assert len(stage.unread) < 2 * EVERYBODY.requests
    stage.store.may_go.set()
    await sending
    seen = [(await stage.server.receive()).tree for _ in range(count)]
    numbers = [int(stanza.get("id")[1:]) for stanza in seen]
    for boss in range(10):  # accounts take turns, and each has its answers in order
        assert [one for one in numbers if one % 10 == boss] == list(range(boss, count, 10))
    assert {stanza.get("type") for stanza in seen} == {"result"}
    assert (waiting.count, waiting.byte_count, stage.is_reading) == (0, 0, True)


@pytest.mark.parametrize("written", ["at once", "the ordinary way"])
async def test_an_account_with_enough_under_way_is_asked_to_wait_and_others_are_served(
    stage, written
):
    stage.store.may_go.clear()
    count = ACCOUNT.requests + 500
    flood = "".join(stage.publish(f"i{number}", "other", 10) for number in range(count))
    if written != "at once":
        flood = flood.replace("<pubsub", " <pubsub")
    other = stage.publish("others", "other", 10, by="boss1@localhost/x")
    ping = stage.iq("ping", "", by="eve@localhost/x", kind="get")
    sending = asyncio.create_task(stage.server.send(flood + other + ping))
    # the answers that come while nothing is committed: refusals, and the ping behind the flood
    heard = []
    while not heard or heard[-1].get("id") != "ping":
        heard.append((await stage.server.receive()).tree)
    refused = heard[:-1]
    assert [one.get("id") for one in refused] == [f"i{n}" for n in range(ACCOUNT.requests, count)]
    for one in refused:
        assert (one.find("{*}error").get("type"), len(one)) == ("wait", 1)
        assert one.find("{*}error/{*}resource-constraint") is not None
    assert not stage.waiting.is_full
    stage.store.may_go.set()
    await sending
    seen = [(await stage.server.receive()).tree for _ in range(ACCOUNT.requests + 1)]
    assert {stanza.get("type") for stanza in seen} == {"result"}
    assert await stage.ask("again", stage_items(1)) == "result"


async def test_large_answers_are_made_as_the_server_reads_them(stage):
    for number in range(4):
        assert await stage.ask(f"i{number}", stage_items(number)) == "result"
    stage.server.stop_reading()
    questions = [
        stage.iq(f"q{n}", "<items node='news'/>", kind="get", by=f"boss{n % 10}@localhost/x")
        for n in range(300)
    ]
    sending = asyncio.create_task(stage.server.send("".join(questions)))
    await until(lambda: stage.is_clogged and stage.waiting_reads)
    await turns(100)
    assert (
        stage.unsent_bytes < HIGH_WATER_BYTES + AT_ONCE * MAX_ANSWER_BYTES < 300 * 4 * PAYLOAD / 10
    )
    assert not stage.pauses, "who waits to read stops nobody"
    stage.server.read_on()
    await sending
    answers = [(await stage.server.receive()).tree for _ in range(300)]
    answers = {one.get("id"): one.get("type") for one in answers if "told" not in one.get("id")}
    while len(answers) < 300:
        one = (await stage.server.receive()).tree
        if "told" not in one.get("id"):
            answers[one.get("id")] = one.get("type")
    assert set(answers.values()) == {"result"}


async def test_an_account_that_reads_much_at_once_is_asked_to_wait_and_others_are_served(
    stage, monkeypatch
):
    """Pipelined reads of one account: what others ask comes behind a few of them at most."""
    monkeypatch.setattr(component, "SLICE", 1 << 20)  # all of it before anything is answered
    for number in range(4):
        assert await stage.ask(f"i{number}", stage_items(number)) == "result"
    questions = [stage.iq(f"q{n}", "<items node='news'/>", kind="get") for n in range(300)]
    other = stage.iq("other", "<items node='other'/>", kind="get", by="boss1@localhost/x")
    publish = stage.publish("publish", "other", 1, by="boss1@localhost/x")
    await stage.server.send("".join(questions) + other + publish)
    order, kinds = [], {}
    while len(order) < 302:
        one = (await stage.server.receive()).tree
        if "told" not in one.get("id"):
            order.append(one.get("id"))
            kinds[one.get("id")] = one.get("type")
    read = [name for name in order if kinds[name] == "result"]
    assert len(read) <= ACCOUNT.reads + AT_ONCE + 2
    assert set(read) >= {f"q{n}" for n in range(ACCOUNT.reads)} | {"other", "publish"}
    assert read.index("publish") <= 2 * AT_ONCE
    assert read.index("other") <= 2 * AT_ONCE
    assert stage.waiting.reads == 0


def stage_items(number):
    item = f"<item id='{number}'><x xmlns='x'>{'x' * 40_000}</x></item>"
    return f"<publish node='news'>{item}</publish>"


async def test_a_notice_to_many_is_cut_where_a_message_would_be_too_large(stage):
    await an_audience(stage, count=3)
    names = [f"{number:04}{'x' * 1015}" for number in range(500)]
    for part in (names[:200], names[200:400], names[400:]):
        items = "".join(f"<item id='{name}'><x xmlns='x'/></item>" for name in part)
        assert await stage.ask("all", f"<publish node='news'>{items}</publish>") == "result"
    gone = "".join(f"<item id='{name}'/>" for name in names)
    await stage.server.send(stage.iq("gone", f"<retract node='news' notify='1'>{gone}</retract>"))
    heard = {}
    while sum(map(len, heard.values())) < 3 * len(names):
        stanza = await stage.server.receive()
        assert len(stanza.raw) < MAX_STANZA_BYTES
        ids = [retract.get("id") for retract in stanza.tree.iterfind(".//{*}event//{*}retract")]
        if ids:
            heard[stanza.tree.get("to")] = heard.get(stanza.tree.get("to"), []) + ids
    assert heard == {f"reader@localhost/{number}": names for number in range(3)}


class Echoing:
    """What the server hears: messages are counted, and echoes sent back as far as the test says."""

    def __init__(self, stage):
        self._stage = stage
        self.messages = 0
        self._waiting = []

    async def until(self, name):
        """Hear the answer of this name."""
        while (stanza := await self.next()) is not None and stanza.get("id") != name:
            pass

    async def until_reported(self, count):
        """Hear so many messages in all, sending back every echo."""
        while self.messages < count:
            await self.send_back()
            await self.next()
        await self.send_back()

    async def send_back(self):
        waiting, self._waiting = self._waiting, []
        await self._stage.server.send("".join(waiting))

    async def next(self):
        stanza = await self._stage.server.receive()
        self.messages += stanza.tree.tag.endswith("message")
        if (stanza.tree.get("id") or "").startswith("told-"):
            self._waiting.append(stanza.raw)
        return stanza.tree


async def test_notices_are_written_as_far_as_the_echo_of_those_before_has_come_back(stage):
    await an_audience(stage, count=50)
    echoing = Echoing(stage)
    await stage.server.send(stage.publish("i1", "news"))
    await echoing.until_reported(50)
    await stage.server.send(stage.publish("i2", "news"))
    await echoing.until("i2")
    for number in range(3):  # whoever asks is answered, and no more news are written
        await stage.server.send(stage.iq(f"ping{number}", "", kind="get"))
        await echoing.until(f"ping{number}")
    assert 50 < echoing.messages < 56
    await echoing.until_reported(100)


async def test_an_echo_that_fails_to_come_is_not_waited_for_long(stage, monkeypatch):
    monkeypatch.setattr(to_many, "PROBE_TIMEOUT", 0.01)
    await an_audience(stage, count=50)
    echoing = Echoing(stage)
    await stage.server.send(stage.publish("i1", "news"))
    await echoing.until_reported(50)
    await stage.server.send(stage.publish("i2", "news"))
    while echoing.messages < 100:
        await echoing.next()
