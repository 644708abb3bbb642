"""A worker whose deliveries are carried in IQs, against a scripted service behind a real Prosody."""

import pytest
from harness.servers.qos_service import FEATURES, QosService
from harness.servers.queue_service import answer

from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import ConfigurationError, Refused
from pubqueue_xeps.xep_qos import qos

pytestmark = pytest.mark.e2e
JID = "bot@localhost/one"


@pytest.fixture
async def service(prosody):
    async with QosService(prosody.component_port, prosody.secret) as scripted:
        yield scripted


def carried(service, name, inner, sender="queue.localhost"):
    service.send(f"<iq type='set' id='{name}' from='{sender}' to='{JID}'>{inner}</iq>")


def delivery(name):
    """Return a delivery as it is carried: a client's message without addresses."""
    item = f"<item id='{name}'><job xmlns='x'/></item>"
    lock = (
        "<lock xmlns='urn:x-pubqueue:0' token='1' deadline='2100-01-01T00:00:00.000Z' attempt='1'/>"
    )
    event = "http://jabber.org/protocol/pubsub#event"
    return (
        f"<message xmlns='jabber:client' id='m-{name}'>"
        f"<event xmlns='{event}'><items node='jobs'>{item}</items></event>{lock}</message>"
    )


async def answered(service, name):
    while (iq := await service.next("other")).get("id") != name:
        pass
    return iq


async def test_an_acknowledged_delivery_is_answered_and_is_an_item(service, worker_of):
    async with worker_of(level="acknowledged") as worker:
        subscribe = await service.next("subscribe")
        level = subscribe.findtext(".//{*}field[@var='x-queueing#qos']/{*}value")
        assert level == "acknowledged"
        inner = f"<acknowledged xmlns='urn:xmpp:qos'>{delivery('i1')}</acknowledged>"
        carried(service, "d1", inner)
        assert (await answered(service, "d1")).get("type") == "result"
        async with await anext(worker) as item:
            assert (item.id, item.payload.tag) == ("i1", "{x}job")
        await service.next("retract")
        carried(service, "d1", inner)  # sent again, for the answer was lost
        assert (await answered(service, "d1")).get("type") == "result"


async def test_an_assured_delivery_is_an_item_when_it_is_asked_for_and_once(service, worker_of):
    async with worker_of(level="assured") as worker:
        await service.subscriber()
        inner = f"<assured xmlns='urn:xmpp:qos' msgId='pq-1'>{delivery('i1')}</assured>"
        carried(service, "a1", inner)
        received = (await answered(service, "a1"))[0]
        assert (received.tag, received.get("msgId")) == ("{urn:xmpp:qos}received", "pq-1")
        for _ in range(2):
            carried(service, "d1", "<deliver xmlns='urn:xmpp:qos' msgId='pq-1'/>")
            assert (await answered(service, "d1")).get("type") == "result"
        async with await anext(worker) as item:
            assert item.id == "i1"
        await service.next("retract")
        await service.heard(JID)
        assert all(verb != "retract" for verb, _ in service.seen)


async def test_messages_of_others_are_not_kept_by_a_worker(service, prosody, worker_of):
    async with worker_of(level="assured"):
        await service.subscriber()
        other = make_client(
            "bot@localhost/two", "secret", host=prosody.host, port=prosody.c2s_port, tls="off"
        )
        await login(other)
        with pytest.raises(Refused) as caught:
            await qos(other).send(JID, other.make_message(JID, "hello"))
        await logout(other)
    assert caught.value.condition == "not-allowed"


async def test_a_worker_offers_the_feature(service, worker_of):
    async with worker_of(level="unacknowledged"):
        await service.subscriber()
        query = "<query xmlns='http://jabber.org/protocol/disco#info'/>"
        service.send(f"<iq type='get' id='q' from='queue.localhost' to='{JID}'>{query}</iq>")
        found = await answered(service, "q")
    assert found.find(".//{*}feature[@var='urn:xmpp:qos']") is not None


async def test_a_service_without_the_feature_is_refused_in_one_sentence(service, worker_of):
    service.script["query"] = lambda iq: [answer(iq, FEATURES.replace("urn:xmpp:qos", "x"))]
    with pytest.raises(Refused, match=r"queue\.localhost does not offer urn:xmpp:qos"):
        async with worker_of(level="acknowledged"):
            pass


def test_a_level_that_is_none_is_refused(worker_of):
    with pytest.raises(ConfigurationError, match="level is 'twice'"):
        worker_of(level="twice")
