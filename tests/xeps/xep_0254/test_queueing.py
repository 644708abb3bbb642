"""The plugin on a client of slixmpp's own, against a scripted service behind a real Prosody."""

import asyncio
from datetime import UTC, datetime, timedelta
from xml.etree.ElementTree import Element, fromstring

import pytest
from harness.servers.queue_service import item, refuse, result
from slixmpp import Message
from slixmpp.exceptions import IqError
from slixmpp.plugins.xep_0060.stanza import EventItems

from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import ItemDead, NoSuchNode, Refused, ServiceUnavailable
from pubqueue_xeps.wire.refusals import Outcome
from pubqueue_xeps.xep_0254 import QueueSubscription, queueing
from pubqueue_xeps.xep_0254.queueing import (
    Deleted,
    Delivered,
    Lock,
    Purged,
    Retracted,
    Unlocked,
    read_event,
)

pytestmark = pytest.mark.e2e
QUEUE = ("queue.localhost", "jobs")


@pytest.fixture
async def client(prosody):
    made = make_client(
        "bot@localhost/one", "secret", host=prosody.host, port=prosody.c2s_port, tls="off"
    )
    made.register_plugin("xep_0254", module="pubqueue_xeps.xep_0254")
    await login(made)
    yield made
    await logout(made)


def events_of(client):
    queue = asyncio.Queue()
    for name in ("queue_item", "queue_retract", "queue_unlock"):
        client.add_event_handler(name, queue.put_nowait)
    return queue


async def test_a_subscription_is_as_it_was_granted(service, client):
    subscription = await queueing(client).subscribe_queue(*QUEUE, 5)
    assert subscription == QueueSubscription(*QUEUE, "bot@localhost/one", "s1", 5)


async def test_the_events_of_a_subscribed_queue_are_notified(service, client):
    events = events_of(client)
    await queueing(client).subscribe_queue(*QUEUE, 5)
    service.deliver("bot@localhost/one", "i1")
    delivered = await events.get()
    assert isinstance(delivered, Delivered)
    assert (delivered.id, delivered.payload.tag, delivered.lock.token) == ("i1", "{x}job", 1)
    await queueing(client).retract(*QUEUE, "i1")
    assert await events.get() == Retracted(*QUEUE, "i1")
    await queueing(client).unlock(*QUEUE, "i2")
    assert await events.get() == Unlocked(*QUEUE, "i2")


async def test_an_item_right_after_the_subscription_is_notified(service, client):
    jid = "bot@localhost/one"
    service.script["subscribe"] = lambda iq: [
        *service.subscribed(iq),
        service.event(jid, "<item id='i1'/>"),
    ]
    events = events_of(client)
    await queueing(client).subscribe_queue(*QUEUE, 5)
    assert (await events.get()).id == "i1"


async def test_events_of_other_nodes_are_not_passed_on(service, client):
    events = events_of(client)
    service.deliver("bot@localhost/one", "i1")
    await service.heard("bot@localhost/one")
    assert events.empty()


async def test_after_unsubscribing_nothing_is_sent(service, client):
    events = events_of(client)
    await queueing(client).subscribe_queue(*QUEUE, 5)
    await queueing(client).unsubscribe_queue(*QUEUE)
    assert (await service.next("unsubscribe"))[0][0].get("jid") == "bot@localhost/one"
    service.deliver("bot@localhost/one", "i1")
    await service.heard("bot@localhost/one")
    assert events.empty()


async def test_a_refused_unlock_is_slixmpps_error(service, client):
    service.script["unlock"] = lambda iq: [refuse(iq, "conflict")]
    with pytest.raises(IqError) as caught:
        await queueing(client).unlock(*QUEUE, "i1")
    assert caught.value.condition == "conflict"


async def test_an_unlock_has_an_outcome_if_the_service_supports_outcomes(service, client):
    outcome = Outcome("failed", delay=2.5, reason="no seat")
    for _ in range(2):
        await queueing(client).unlock(*QUEUE, "i1", outcome=outcome)
    await service.next("query")
    for _ in range(2):
        said = (await service.next("unlock", "query")).find(".//{urn:x-pubqueue:0}outcome")
        assert dict(said.attrib) == {"type": "failed", "delay": "2.500", "reason": "no seat"}


async def test_an_unlock_keeps_its_outcome_from_a_service_that_knows_none(service, client):
    service.script["query"] = lambda iq: [refuse(iq, "service-unavailable")]
    await queueing(client).unlock(*QUEUE, "i1", outcome=Outcome("reject"))
    assert len((await service.next("unlock"))[0]) == 1


async def test_a_touch_returns_the_new_deadline(service, client):
    began = datetime.now(UTC) - timedelta(milliseconds=1)  # in which deadlines are written
    deadline = await queueing(client).touch(*QUEUE, "i1", seconds=60)
    touch = (await service.next("touch"))[0]
    assert (touch.get("node"), touch.get("seconds"), touch[0].get("id")) == ("jobs", "60.000", "i1")
    lock = timedelta(seconds=service.lock_timeout)
    assert began + lock <= deadline <= datetime.now(UTC) + lock


async def test_a_publish_returns_the_id_and_sends_its_metadata(service, client):
    service.script["publish"] = lambda iq: [
        result(iq, f"<publish node='jobs'><item id='{item(iq)}'/></publish>")
    ]
    job = Element("{x}job")
    said = {"trace": "1", "kind": "a&b"}
    assert (
        await queueing(client).publish(*QUEUE, job, id="i1", delay=2.5, ttl=60, headers=said)
        == "i1"
    )
    publish, meta, headers = (await service.next("publish"))[0]
    assert headers.tag == "{http://jabber.org/protocol/shim}headers"
    assert {header.get("name"): header.text for header in headers} == said
    assert (publish.get("node"), publish[0].get("id"), publish[0][0].tag) == ("jobs", "i1", job.tag)
    assert dict(meta.attrib) == {"delay": "2.5", "ttl": "60"}
    assert await queueing(client).publish(*QUEUE, job) != await queueing(client).publish(
        *QUEUE, job
    )


async def test_a_publish_asks_for_a_short_answer_under_an_id_of_its_own(service, client):
    service.script["publish"] = lambda iq: [result(iq)]
    names = [await queueing(client).publish(*QUEUE, Element("{x}job")) for _ in range(2)]
    asked = [(await service.next("publish"))[0][0] for _ in names]
    assert [publish[0].get("id") for publish in asked] == names
    assert len(set(names)) == 2
    assert {publish.get("{urn:x-pubqueue:0}answer") for publish in asked} == {"short"}


async def test_a_payload_without_a_namespace_is_sent_without_one(service, client):
    service.script["publish"] = lambda iq: [result(iq)]
    job = Element("job", {"{urn:x}a": "<&>"})
    job.append(Element("{urn:x}b"))
    await queueing(client).publish(*QUEUE, job)
    sent = (await service.next("publish")).find(".//{*}item")[0]
    assert (sent.tag, dict(sent.attrib), sent[0].tag) == ("job", {"{urn:x}a": "<&>"}, "{urn:x}b")


async def test_a_refused_publish_is_one_sentence(service, client):
    service.script["publish"] = lambda iq: [refuse(iq, "item-not-found")]
    with pytest.raises(NoSuchNode, match=r"^queue\.localhost has no node 'jobs'\.$"):
        await queueing(client).publish(*QUEUE, Element("{x}job"))


async def test_a_refusal_carries_the_words_of_the_service(service, client):
    words = "publishing to this node is paused."
    service.script["publish"] = lambda iq: [refuse(iq, "not-allowed", text=words)]
    with pytest.raises(
        Refused, match=r"'jobs': not-allowed \(publishing to this node is paused\)\.$"
    ):
        await queueing(client).publish(*QUEUE, Element("{x}job"))


async def test_a_publish_of_what_is_dead_is_no_success(service, client):
    dead = (
        "<dead xmlns='urn:x-pubqueue:0' item='i1' published='2026-01-01T00:00:00Z'"
        " at='2026-01-01T00:00:00Z' reason='no such flight'/>"
    )
    answer = f"<publish node='jobs'><item id='i1'/></publish>{dead}"
    service.script["publish"] = lambda iq: [result(iq, answer)]
    with pytest.raises(
        ItemDead, match=r"^The item 'i1' is in 'jobs' already, and dead: no such flight\."
    ):
        await queueing(client).publish(*QUEUE, Element("{x}job"), id="i1")


def number():
    job = Element("{x}job")
    job.text = 7
    return job


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (object(), "The payload of 'i1' has no form in JSON: Encoding objects of type object"),
        (number(), "The payload of 'i1' has a name, text or attribute that is not a str"),
    ],
)
async def test_a_payload_of_the_wrong_type_is_named(client, payload, sentence):
    with pytest.raises(TypeError, match=sentence):
        await queueing(client).publish(*QUEUE, payload, id="i1")


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"priority": "high"}, "priority is 'high'; it takes a whole number"),
        ({"priority": 1.5}, "priority is 1.5; it takes a whole number"),
        ({"priority": True}, "priority is True; it takes a whole number"),
        ({"delay": "60"}, "delay is '60'; it takes seconds, 0 or more"),
        ({"ttl": -1}, "ttl is -1; it takes seconds, 0 or more"),
        ({"ttl": float("nan")}, "ttl is nan; it takes seconds, 0 or more"),
    ],
)
async def test_a_wish_that_is_no_number_is_not_sent(client, wish, sentence):
    with pytest.raises(ValueError, match=sentence):
        await queueing(client).publish(*QUEUE, Element("{x}job"), **wish)


@pytest.mark.parametrize("bad", ["\x00", "\x1b", "\ufffe"])
async def test_what_xml_forbids_is_not_sent(service, client, bad):
    job = Element("{x}job")
    job.text = f"a{bad}"
    with pytest.raises(ValueError, match=rf"payload of 'i1' .* U\+{ord(bad):04X} at"):
        await queueing(client).publish(*QUEUE, job, id="i1")
    with pytest.raises(ValueError, match="header 'trace' has the character"):
        await queueing(client).publish(*QUEUE, Element("{x}job"), headers={"trace": bad})
    with pytest.raises(ValueError, match=r"id .* has the character U\+.* at position 0"):
        await queueing(client).publish(*QUEUE, Element("{x}job"), id=bad)


async def test_a_publish_whose_stream_is_lost_is_not_waited_for(service, client):
    asked = asyncio.Event()
    service.script["publish"] = lambda _iq: asked.set() or []
    publishing = asyncio.create_task(queueing(client).publish(*QUEUE, Element("{x}job")))
    async with asyncio.timeout(10):  # slixmpp alone would wait 30 seconds for the answer
        await asked.wait()
        client.abort()
        with pytest.raises(ServiceUnavailable, match="does not answer"):
            await publishing


HEAD = "<message xmlns='jabber:client' from='q.localhost' to='bot@localhost/one'>"
EVENT = "<event xmlns='http://jabber.org/protocol/pubsub#event'>"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
SOON = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)


def message(inside, beside=""):
    return fromstring(f"{HEAD}{EVENT}{inside}</event>{beside}</message>")


def test_headers_are_read_from_beside_the_event():
    shim = "http://jabber.org/protocol/shim"
    inner = "".join(f"<header name='{n}'>{v}</header>" for n, v in ("a1", "b2", "a3"))
    item = "<items node='jobs'><item id='i1'><job xmlns='x'/></item></items>"
    (reported,) = read_event(message(item, f"<headers xmlns='{shim}'>{inner}</headers>"))
    assert reported.headers == {"a": "3", "b": "2"}
    (reported,) = read_event(message(item))
    assert reported.headers == {}


@pytest.mark.parametrize("namespace", ["urn:xmpp:pubsub:queueing:0", "urn:xmpp:queueing:0"])
def test_an_unlock_event_is_read_in_both_namespaces(namespace):
    xml = message(f"<items node='jobs'><unlock xmlns='{namespace}' id='i1'/></items>")
    assert read_event(xml) == [Unlocked("q.localhost", "jobs", "i1")]


def test_slixmpp_does_not_take_an_unlocked_item_for_a_published_one():
    xml = message("<items node='jobs'><unlock xmlns='urn:xmpp:queueing:0' id='i1'/></items>")
    items = Message(xml=xml)["pubsub_event"]["items"]
    assert (type(items), len(items)) == (EventItems, 0)


@pytest.mark.parametrize(("said", "failed"), [("", 0), (" failed='3'", 3)])
def test_a_lock_has_the_number_of_failures_of_its_item(said, failed):
    lock = (
        "<lock xmlns='urn:x-pubqueue:0' token='17' attempt='5' deadline='2026-01-01T00:05:00.000Z'"
        f"{said}/>"
    )
    (event,) = read_event(message("<items node='jobs'><item id='i1'/></items>", lock))
    assert (event.lock.attempt, event.lock.failed) == (5, failed)


def test_a_delivery_is_read_with_its_payload_and_lock():
    lock = (
        "<lock xmlns='urn:x-pubqueue:0' token='17' attempt='2' deadline='2026-01-01T00:05:00.000Z'"
        " published='2026-01-01T00:00:00.000Z'/>"
    )
    item = "<item id='i1' publisher='etl@localhost'><job xmlns='x'/></item>"
    (event,) = read_event(message(f"<items node='jobs'>{item}</items>", lock))
    assert isinstance(event.payload, Element)
    assert event == Delivered(
        "q.localhost", "jobs", "i1", event.payload, "etl@localhost", Lock(17, SOON, 2, LONG_AGO)
    )


@pytest.mark.parametrize("lock", ["token='x' attempt='1' deadline='2026-01-01'", "token='1'"])
def test_a_lock_that_cannot_be_read_does_not_take_the_item_with_it(lock, caplog):
    beside = f"<lock xmlns='urn:x-pubqueue:0' {lock}/>"
    (event,) = read_event(message("<items node='jobs'><item id='i1'/></items>", beside))
    assert event == Delivered("q.localhost", "jobs", "i1", None, None, None)
    assert "lock.unreadable" in caplog.text


@pytest.mark.parametrize(
    ("inside", "events"),
    [
        ("<items node='jobs'><retract id='i1'/></items>", [Retracted("q.localhost", "jobs", "i1")]),
        ("<purge node='jobs'/>", [Purged("q.localhost", "jobs")]),
        ("<delete node='jobs'/>", [Deleted("q.localhost", "jobs")]),
        ("<configuration node='jobs'/>", []),
        ("", []),
    ],
)
def test_other_events(inside, events):
    assert read_event(message(inside)) == events


def test_a_bounce_is_no_event():
    xml = message("<items node='jobs'><item id='i1'/></items>")
    xml.set("type", "error")
    assert read_event(xml) == []
