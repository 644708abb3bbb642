"""The plugin on a client of slixmpp's own, against a scripted service behind a real Prosody."""

import asyncio
from datetime import UTC, datetime, timedelta
from xml.etree.ElementTree import Element

import pytest
from harness.servers.queue_service import item, refuse, result
from slixmpp.exceptions import IqError

from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import ItemDead, NoSuchNode, Refused, ServiceUnavailable
from pubqueue_xeps.wire.refusals import Outcome
from pubqueue_xeps.xep_0254 import QueueSubscription, queueing
from pubqueue_xeps.xep_0254.event import Delivered, Retracted, Unlocked

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
    with pytest.raises(ValueError, match="The item id has the character"):
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
