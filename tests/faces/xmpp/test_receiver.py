"""The service as receiver of carried messages: what it keeps, does, answers and refuses, and in which order."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from harness.patience import TIMEOUT
from harness.servers.stage import SERVICE, staged

from pubqueue.engine import reaper
from pubqueue.faces.xmpp import receiver
from pubqueue.faces.xmpp.parse.iq import Carried, Step
from pubqueue.faces.xmpp.settings import QosSettings, XmppTerms
from pubqueue.model.entities import Jid, Millis, NodeName, Principal
from pubqueue.model.records import MAX_REASON_LENGTH
from pubqueue.monitor.gauges import SilentStoreError, of_kept_messages, of_messages
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure

ANN, BEE, EVE = "ann@localhost/etl", "bee@localhost/x", "eve@elsewhere/y"
QOS = "urn:xmpp:qos"
SMALL = Carried(Step.ASSURED, "1", "m", b"x")
ITEM = "<item id='{}'><work xmlns='urn:example:work'>{}</work></item>"
QUEUE = """<create node='jobs'/><configure><x xmlns='jabber:x:data' type='submit'>
<field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#node_config</value></field>
<field var='x-queueing#enabled'><value>1</value></field>
<field var='pubsub#access_model'><value>open</value></field>
<field var='pubsub#publish_model'><value>open</value></field></x></configure>"""
OPTIONS = """<subscribe node='jobs' jid='{}'/><options><x xmlns='jabber:x:data' type='submit'>
<field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#subscribe_options</value></field>
<field var='pubsub#queue_requests'><value>50</value></field></x></options>"""


def publishes(item, *, node="jobs", beside="", attributes="id='m1'", text=None):
    """Return a message that publishes an item."""
    pubsub = f"<publish node='{node}'>{ITEM.format(item, text or item)}</publish>{beside}"
    inner = f"<pubsub xmlns='http://jabber.org/protocol/pubsub'>{pubsub}</pubsub>"
    return f"<message xmlns='jabber:client' {attributes}>{inner}</message>"


class Play:
    """Sends and receives on a stage where the queue `jobs` has a worker, `bee`."""

    def __init__(self, stage):
        self.stage = stage

    async def ask(self, name, inner, by=ANN, kind="set"):
        await self.stage.server.send(
            f"<iq type='{kind}' id='{name}' from='{by}' to='{SERVICE}'>{inner}</iq>"
        )

    async def next(self):
        return (await self.stage.server.receive()).tree

    async def step(self, name, step, inner="", msg_id="m", by=ANN):
        """Ask for a step; return the answer."""
        words = f" msgId='{msg_id}'" if step != "acknowledged" else ""
        await self.ask(name, f"<{step} xmlns='{QOS}'{words}>{inner}</{step}>", by)
        return await self.stage.answer(name)

    async def events(self):
        """Return what else is sent for what came so far: the last answer is of a later batch, and follows what that batch causes."""
        await self.ask("last", f"<deliver xmlns='{QOS}' msgId='none'/>", by="boss9@localhost/z")
        found = []
        while (stanza := await self.next()).get("id") != "last":
            found.append(stanza)
        await self.ask("ping", "<ping xmlns='urn:xmpp:ping'/>")
        while (stanza := await self.next()).get("id") != "ping":
            found.append(stanza)
        return found

    async def nothing(self):
        """See that nothing more is sent for what came so far."""
        assert await self.events() == []

    def set_terms(self, **terms):
        self.stage.face.adopt(XmppTerms(qos=QosSettings(**terms)))


@asynccontextmanager
async def playing(*, worker=True):
    async with staged() as stage, asyncio.timeout(TIMEOUT):
        assert await stage.ask("queue", QUEUE) == "result"
        if worker:
            assert await stage.ask("join", OPTIONS.format(BEE), by=BEE) == "result"
        yield Play(stage)


def is_delivery(stanza):
    items = stanza.find("{http://jabber.org/protocol/pubsub#event}event/{*}items")
    return stanza.get("to") == BEE and items is not None


def item_of(stanza):
    return stanza.find("{*}event/{*}items/{*}item")


def condition(stanza):
    return stanza.find("{*}error")[0].tag.rpartition("}")[2]


@pytest.mark.covers("QS-003", "QS-004", "QS-005", "QS-006", "QS-029")
async def test_acknowledged_is_answered_before_its_delivery():
    async with playing() as play:
        forged = publishes("a", attributes="from='eve@elsewhere/y' to='boss@localhost' id='m1'")
        await play.ask("q", f"<acknowledged xmlns='{QOS}'>{forged}</acknowledged>")
        result = await play.next()
        assert (result.get("type"), result.get("id"), len(result)) == ("result", "q", 0)
        delivery = await play.next()
        assert is_delivery(delivery)
        assert item_of(delivery).get("publisher") == "ann@localhost"
        await play.nothing()


@pytest.mark.covers("QS-009")
async def test_acknowledged_twice_is_answered_twice_and_one_item():
    async with playing() as play:
        for name in ("q1", "q2"):
            answer = await play.step(name, "acknowledged", publishes("a"))
            assert answer.get("type") == "result"
        found = await play.events()
        assert sum(map(is_delivery, found)) <= 1


@pytest.mark.covers("QS-039")
async def test_acknowledged_and_refused_is_the_result_and_then_an_error():
    async with playing() as play:
        for attributes, name in (("id='m1'", "m1"), ("", "q")):
            message = publishes("a", node="none", attributes=attributes)
            await play.ask("q", f"<acknowledged xmlns='{QOS}'>{message}</acknowledged>")
            assert (await play.next()).get("type") == "result"
            error = await play.next()
            assert (error.tag.rpartition("}")[2], error.get("id")) == ("message", name)
            assert (error.get("type"), condition(error)) == ("error", "item-not-found")
            assert len(error) == 1  # without echo
        bad = publishes("a").replace("<work", "<other/><work")
        await play.ask("q", f"<acknowledged xmlns='{QOS}'>{bad}</acknowledged>")
        assert (await play.next()).get("type") == "result"
        assert condition(await play.next()) == "bad-request"


@pytest.mark.covers("QS-002")
async def test_a_plain_message_publishes_without_an_answer():
    async with playing() as play:
        addressed = f"from='{ANN}' to='{SERVICE}' id='m1'"
        await play.stage.server.send(
            publishes("a", attributes=addressed).replace("xmlns='jabber:client' ", "")
        )
        assert is_delivery(await play.next())
        for more in (f"{addressed} type='error'", f"from='{ANN}' to='{SERVICE}' type='chat'"):
            name = "b" if "error" in more else "c"
            text = publishes(name, attributes=more).replace("xmlns='jabber:client' ", "")
            await play.stage.server.send(text)
        found = await play.events()
        assert [item_of(one).get("id") for one in found] == ["c"]


@pytest.mark.parametrize(("attributes", "node", "error"), [
    (f"from='{ANN}' to='{SERVICE}' id='m'", "none", "item-not-found"),
    (f"from='{ANN}' to='x@{SERVICE}' id='m'", "jobs", "service-unavailable"),
    (f"from='{EVE}' to='{SERVICE}' id='m'", "news", "forbidden"),
])  # fmt: skip
@pytest.mark.covers("QS-002")
async def test_a_plain_message_that_is_refused_is_answered_by_an_error(attributes, node, error):
    async with playing() as play:
        text = publishes("a", node=node, attributes=attributes).replace(
            "xmlns='jabber:client' ", ""
        )
        await play.stage.server.send(text)
        refused = await play.next()
        assert (refused.get("type"), refused.get("id"), condition(refused)) == ("error", "m", error)
        await play.nothing()


@pytest.mark.covers("QS-010", "QS-013", "QS-014", "QS-029")
async def test_assured_is_in_the_queue_when_its_delivery_is_asked_for():
    async with playing() as play:
        for name in ("1", "1"):
            await play.ask(name, f"<assured xmlns='{QOS}' msgId='m'>{publishes('a')}</assured>")
            received = (await play.next())[0]
            assert (received.tag, received.get("msgId")) == (f"{{{QOS}}}received", "m")
        await play.nothing()
        for number in range(5):
            await play.ask(f"d{number}", f"<deliver xmlns='{QOS}' msgId='m'/>")
        found = [await play.next() for _ in range(6)]
        answers = [one for one in found if not is_delivery(one)]
        assert [one.get("type") for one in answers] == ["result"] * 5
        assert not is_delivery(found[0])  # the answer comes before what it causes
        await play.nothing()


@pytest.mark.covers("QS-038")
async def test_deliveries_have_their_effect_in_the_order_in_which_they_were_asked_for():
    async with playing() as play:
        for name in "abcd":
            await play.step(name, "assured", publishes(name), msg_id=name)
        recent = play.stage.face.messages.recent
        for name in "bd":  # these are read from the store
            recent.forget(receiver.mark_of(Jid(ANN), name))
        for name in "dbca":
            await play.ask(f"d{name}", f"<deliver xmlns='{QOS}' msgId='{name}'/>")
        found = [await play.next() for _ in range(8)]
        answers = [one.get("id") for one in found if not is_delivery(one)]
        assert answers == ["dd", "db", "dc", "da"]
        assert [item_of(one).get("id") for one in found if is_delivery(one)] == list("dbca")


@pytest.mark.covers("QS-015")
async def test_a_message_that_is_replaced_while_it_is_read_is_read_again():
    async with playing() as play:
        await play.step("1", "assured", publishes("a"))
        recent = play.stage.face.messages.recent
        mark = receiver.mark_of(Jid(ANN), "m")
        stale = replace(SMALL, message=publishes("stale").encode())
        recent.add(mark, stale, b"another digest")
        answer = await play.step("d", "deliver")
        assert answer.get("type") == "result"
        assert item_of(await play.next()).get("id") == "a"


@pytest.mark.covers("QS-036")
async def test_what_asks_nothing_is_refused_at_its_delivery_again_and_again():
    async with playing() as play:
        await play.step(
            "1", "assured", "<message xmlns='jabber:client'><body>hello</body></message>"
        )
        for name in ("d1", "d2"):
            answer = await play.step(name, "deliver")
            assert (answer.get("type"), condition(answer)) == ("error", "feature-not-implemented")
        bad = publishes("a").replace("<work", "<other/><work")
        await play.step("2", "assured", bad, msg_id="n")
        for name in ("d3", "d4"):
            answer = await play.step(name, "deliver", msg_id="n")
            assert (condition(answer), answer.find("{*}error")[1].tag.rpartition("}")[2]) == (
                "bad-request",
                "invalid-payload",
            )


LONG = "x" * 50_000
OPTION = f"""<publish-options><x xmlns='jabber:x:data' type='submit'>
<field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>
<field var='{LONG}'><value>1</value></field></x></publish-options>"""


@pytest.mark.parametrize(
    "beside", [OPTION, f"<meta xmlns='urn:x-pubqueue:0' delay='{LONG}'/>"], ids=["core", "face"]
)
async def test_an_answer_that_repeats_a_message_is_short_at_once_and_when_it_is_remembered(beside):
    async with playing() as play:
        await play.step("1", "assured", publishes("a", beside=beside))
        said = [(await play.step(name, "deliver"))[-1].findtext("{*}text") for name in ("d", "e")]
        assert said[0] == said[1]
        assert len(said[0]) == MAX_REASON_LENGTH


@pytest.mark.parametrize("step", ["acknowledged", "assured", "deliver"])
async def test_refusals_cost_their_sender_what_reading_them_costs(step):
    async with playing(worker=False) as play:
        inner = "" if step == "deliver" else publishes("a", node="none")
        charged = []
        admission = play.stage.waiting
        charge = admission.charge
        admission.charge = lambda by, seconds: (
            charged.append((by.jid, seconds)),
            charge(by, seconds),
        )
        await play.step("q", step, inner, by=EVE)
        ((jid, seconds),) = charged
        assert (jid, seconds > 0) == (EVE, True)


async def test_a_delivery_of_what_never_came_is_one_request():
    async with playing(worker=False) as play:
        asked, submit = [], play.stage.broker.submit
        play.stage.broker.submit = lambda *request: (asked.append(request[0]), submit(*request))
        for name in "abc":
            answer = await play.step(name, "deliver", msg_id=name)
            assert condition(answer) == "item-not-found"
        assert [type(request).__name__ for request in asked] == ["DeliverMessage"] * 3


@pytest.mark.covers("QS-037")
async def test_a_refusal_that_passes_leaves_it_held_and_its_delivery_may_be_asked_for_again():
    async with playing() as play:
        boss = Principal(Jid("boss@localhost"), admin=True)
        await play.step("1", "assured", publishes("a"))
        for paused, kind in ((True, "error"), (False, "result")):
            wanted = Configure(boss, NodeName("jobs"), Settings({"publish_paused": paused}))
            await play.stage.broker.handle(wanted)
            assert (await play.step(f"d{paused}", "deliver")).get("type") == kind


@pytest.mark.covers("QS-035")
async def test_other_bytes_under_an_id_in_use_are_a_conflict():
    async with playing() as play:
        await play.step("1", "assured", publishes("a"))
        assert condition(await play.step("2", "assured", publishes("b"))) == "conflict"
        await play.step("d", "deliver")
        assert item_of(await play.next()).get("id") == "a"


@pytest.mark.covers("QS-012", "QS-016")
async def test_no_resource_reaches_the_message_of_another():
    async with playing() as play:
        await play.step("1", "assured", publishes("a"))
        for by in ("ann@localhost/other", BEE, EVE):
            answer = await play.step("d", "deliver", by=by)
            details = [child.tag for child in answer.find("{*}error")]
            assert details[0].endswith("}item-not-found")
            assert details[1] == "{urn:x-pubqueue:0}unknown-message"


MESSAGE = "<message xmlns='jabber:client'/>"
MALFORMED = {
    "type get": ("get", f"<assured xmlns='{QOS}' msgId='m'>{MESSAGE}</assured>"),
    "an unknown element": ("set", f"<received xmlns='{QOS}' msgId='m'/>"),
    "no message": ("set", f"<assured xmlns='{QOS}' msgId='m'/>"),
    "two messages": ("set", f"<assured xmlns='{QOS}' msgId='m'>{MESSAGE}{MESSAGE}</assured>"),
    "another element": ("set", f"<acknowledged xmlns='{QOS}'><presence xmlns='jabber:client'/></acknowledged>"),
    "another element beside it": ("set", f"<acknowledged xmlns='{QOS}'>{MESSAGE}<x xmlns='y'/></acknowledged>"),
    "text beside it": ("set", f"<assured xmlns='{QOS}' msgId='m'>text{MESSAGE}</assured>"),
    "no msgId": ("set", f"<assured xmlns='{QOS}'>{MESSAGE}</assured>"),
    "an empty msgId": ("set", f"<assured xmlns='{QOS}' msgId=''>{MESSAGE}</assured>"),
    "a long msgId": ("set", f"<assured xmlns='{QOS}' msgId='{'é' * 512}'>{MESSAGE}</assured>"),
    "deliver without an id": ("set", f"<deliver xmlns='{QOS}'/>"),
    "deliver with children": ("set", f"<deliver xmlns='{QOS}' msgId='m'><x xmlns='y'/></deliver>"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MALFORMED)
@pytest.mark.covers("QS-017", "QS-018", "QS-019")
async def test_what_is_malformed_is_refused_and_nothing_is_kept(kind):
    iq_type, inner = MALFORMED[kind]
    async with playing(worker=False) as play:
        await play.ask("q", inner, kind=iq_type)
        answer = await play.next()
        assert condition(answer) == "bad-request"
        assert answer.find("{*}error").get("type") == "modify"
        assert condition(await play.step("d", "deliver")) == "item-not-found"


@pytest.mark.parametrize("form", [
    "<a:assured xmlns:a='{qos}' msgId='m' odd='1'><a:message>{inner}</a:message></a:assured>",
    "<assured xmlns='{qos}' msgId='m'><message>{inner}</message></assured>",
    "<assured xmlns='{qos}' msgId='m'><message xmlns='jabber:server'>{inner}</message></assured>",
    "<a:assured xmlns:a='{qos}' msgId='m'> <message>{inner}</message> </a:assured>",
])  # fmt: skip
@pytest.mark.covers("QS-028")
async def test_a_message_is_understood_in_each_namespace(form):
    inner = f"<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='jobs'>{ITEM.format('a', 'a')}</publish></pubsub>"
    async with playing() as play:
        await play.ask("q", form.format(qos=QOS, inner=inner))
        assert (await play.next()).get("type") == "result"
        assert (await play.step("d", "deliver")).get("type") == "result"
        assert item_of(await play.next()).get("id") == "a"


@pytest.mark.parametrize("step", ["acknowledged", "assured"])
@pytest.mark.covers("QS-026")
async def test_a_payload_comes_to_the_byte_with_all_that_stands_beside_it(step):
    odd = "&lt;é\u2028 &amp; ' \" <b xmlns='urn:b' c='&#10;'>x</b><!-- c -->"
    beside = (
        "<meta xmlns='urn:x-pubqueue:0' priority='7'/>"
        "<headers xmlns='http://jabber.org/protocol/shim'><header name='k'>v</header></headers>"
    )
    message = publishes("a", text=odd, beside=beside)
    async with playing() as play:
        await play.step("1", step, message)
        if step == "assured":
            await play.step("d", "deliver")
        delivery = await play.stage.server.receive()
        assert f"<work xmlns='urn:example:work'>{odd}</work>" in delivery.raw
        assert delivery.tree.find("{http://jabber.org/protocol/shim}headers/{*}header").text == "v"


@pytest.mark.covers("QS-040")
async def test_a_publish_within_a_transaction_waits_for_its_commit():
    txn = "<txn xmlns='urn:x-pubqueue:0' app='etl' version='1' part='0' attempt='0'/>"
    async with playing() as play:
        answer = await play.step("1", "acknowledged", publishes("a", beside=txn))
        assert answer.get("type") == "result"
        await play.nothing()


@pytest.mark.covers("QS-001")
async def test_without_the_service_it_is_not_there():
    async with playing() as play:
        query = "<query xmlns='http://jabber.org/protocol/disco#info'/>"
        for enabled in (True, False):
            play.set_terms(enabled=enabled)
            await play.ask("i", query, kind="get")
            features = {one.get("var") for one in (await play.stage.answer("i")).iter("{*}feature")}
            assert (QOS in features) is enabled
        assert condition(await play.step("1", "assured", publishes("a"))) == "service-unavailable"


@pytest.mark.covers("QS-030")
async def test_no_other_address_takes_messages():
    async with playing() as play:
        play_to = f"<iq type='set' id='q' from='{ANN}' to='x@{SERVICE}'><acknowledged xmlns='{QOS}'>{publishes('a')}</acknowledged></iq>"
        await play.stage.server.send(play_to)
        assert condition(await play.next()) == "service-unavailable"


@pytest.mark.covers("QS-023", "QS-033")
async def test_a_flood_of_refusals_is_few_events_without_payloads():
    async with playing(worker=False) as play:
        play.set_terms(events_to=(Jid("root@localhost"),), events_every=3600.0, events_per_minute=3)
        for number in range(20):
            await play.ask(
                f"q{number}",
                f"<assured xmlns='{QOS}' msgId='m'>{publishes('secret')}</assured>",
                by=EVE,
            )
        for account in range(5):
            by = f"eve{account}@elsewhere/y"
            await play.ask(
                "r", f"<assured xmlns='{QOS}' msgId='m'>{publishes('secret')}</assured>", by=by
            )
        found = await play.events()
        events = [one for one in found if one.find("{urn:xmpp:eventlog}log") is not None]
        assert len(events) == 3
        assert {one.get("to") for one in events} == {"root@localhost"}
        refused = [one for one in found if one.get("type") == "error"]
        assert {condition(one) for one in refused} == {"not-allowed"}
        assert not any(b"secret" in ascii(one.find("{*}log").attrib).encode() for one in events)


@pytest.mark.covers("QS-023")
async def test_an_event_has_the_number_of_those_that_it_stands_for():
    async with playing(worker=False) as play:
        play.set_terms(events_to=(Jid("root@localhost"),), events_every=0.2)
        for number in range(9):
            await play.ask(f"q{number}", f"<assured xmlns='{QOS}' msgId='m'/>")
        counts = []
        while sum(counts) < 9:
            log = (await play.next()).find("{urn:xmpp:eventlog}log")
            if log is not None:
                assert log.get("id") == "Malformed"
                counts.append(int(log.findall("{*}tag")[-1].get("value")))
        assert sum(counts) == 9


def test_the_last_messages_are_here_and_bounded():
    recent = receiver.Recent()
    for number in range(receiver.MAX_RECENT + 1):
        recent.add(str(number), SMALL, b"d")
    assert (recent.find("0"), recent.find("1")) == (None, (SMALL, b"d"))
    recent.add("large", replace(SMALL, message=b"x" * receiver.MAX_RECENT_BYTES), b"d")
    assert recent.find("1") is None
    assert recent.find("large") is not None
    recent.forget("large")
    assert recent.byte_count == 0


async def test_steps_and_refusals_are_counted():
    async with playing() as play:
        await play.step("1", "acknowledged", publishes("a"))
        await play.step("2", "assured", publishes("b"))
        await play.step("d", "deliver")
        await play.step("3", "assured", "")
        traffic = play.stage.face.traffic
        found = {metric.name: metric for metric in of_messages([traffic])}
        taken = {one.labels["step"]: one.value for one in found["pubqueue_qos_taken"].samples}
        assert taken == {"acknowledged": 1, "assured": 1, "deliver": 1}
        refused = {one.labels["id"]: one.value for one in found["pubqueue_qos_refused"].samples}
        assert refused == {"Malformed": 1}


async def test_what_is_held_is_a_gauge():
    async with playing() as play:
        await play.step("1", "assured", publishes("b"))
        boss = Principal(Jid("boss@localhost"), admin=True)
        held, held_bytes = await of_kept_messages(play.stage.broker.handle, boss)
        assert held.samples[0].value == 1
        assert held_bytes.samples[0].value > 0
        with pytest.raises(SilentStoreError):
            await of_kept_messages(play.stage.broker.handle, Principal(Jid("eve@localhost")))


@pytest.mark.covers("QS-023", "QS-034")
async def test_what_is_held_too_long_ends_and_is_reported(monkeypatch):
    monkeypatch.setattr(reaper, "MESSAGES_PERIOD", 0.01)
    async with playing() as play:
        await play.step("1", "assured", publishes("secret"))
        play.set_terms(events_to=(Jid("root@localhost"),))
        play.stage.now = Millis(1_000_000 + 86_400_000)
        watching = asyncio.create_task(play.stage.face.watch_messages(play.stage.store))
        event = await play.next()
        log = event.find("{urn:xmpp:eventlog}log")
        assert (event.get("to"), log.get("id"), log.get("object")) == (
            "root@localhost",
            "Expired",
            ANN,
        )
        assert condition(await play.step("d", "deliver")) == "item-not-found"
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.covers("QS-002")
async def test_a_message_of_an_account_that_has_too_much_under_way_is_not_dropped_without_an_answer(
    monkeypatch,
):
    async with playing() as play:
        beyond = ["too much", ""]  # as the head is read, and when the message is taken
        monkeypatch.setattr(play.stage.waiting, "beyond", lambda _by: beyond.pop(0))
        addressed = f"from='{ANN}' to='{SERVICE}' id='m1'"
        text = publishes("a", attributes=addressed).replace("xmlns='jabber:client' ", "")
        await play.stage.server.send(text)
        refused = await play.next()
        assert (refused.get("id"), condition(refused)) == ("m1", "resource-constraint")
