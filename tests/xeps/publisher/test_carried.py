"""Publishes by message at each level, behind a real Prosody, and the file that they outlive the process in."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from harness.batches.inside import connection_keeper, cut
from harness.patience import until
from harness.servers.qos_service import QosService, silent_at_first
from harness.servers.queue_service import refuse

from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import (
    ConfigurationError,
    DeliveryUnknown,
    NoSuchNode,
    NotAllPublished,
    NotConfirmed,
    PendingFailed,
    Refused,
)
from pubqueue_xeps.publisher.publisher import BlockingPublisher, Publisher
from pubqueue_xeps.wire.publication import NewItem, Published
from pubqueue_xeps.xep_qos.pending_file import PendingFile

pytestmark = pytest.mark.e2e
QUICK = Timings(answer=0.3, backoff_min=0.01, backoff_max=0.1, parting=2)
LEVELS = ["unacknowledged", "acknowledged", "assured"]


@pytest.fixture
async def service(prosody):
    async with QosService(prosody.component_port, prosody.secret) as scripted:
        yield scripted


@pytest.fixture
def settings(prosody):
    return {
        "jid": "bot@localhost",
        "password": "secret",
        "service": "queue.localhost",
        "host": prosody.host,
        "port": prosody.c2s_port,
        "tls": "off",
        "timings": QUICK,
        "timeout": 10,
    }


def silent(_iq):
    return []


async def given_up_at_deliver(service, publisher, name):
    """Publish, and give that up when the service has the message and is asked to deliver it."""
    publishing = asyncio.ensure_future(publisher.publish("jobs", {"n": 1}, id=name))
    await service.next("deliver")
    publishing.cancel()
    await asyncio.wait({publishing})


@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_a_publish_is_carried_and_confirmed(service, settings, level):
    async with Publisher(**settings, level=level) as publisher:
        assert await publisher.publish("jobs", {"n": 1}, id="i1") == Published("jobs", "i1")
        assert publisher.pending() == []
    iq = await service.next(level)
    message = iq[0][0]
    publish = message[0][0]
    assert (publish.get("node"), publish[0].get("id")) == ("jobs", "i1")
    assert (message.get("from"), message.get("to")) == (None, None)
    assert service.queue == ["i1"]


async def test_an_unacknowledged_publish_is_a_plain_message(service, settings):
    async with Publisher(**settings) as publisher:
        await publisher.publish("jobs", {"n": 1}, id="i1", level="unacknowledged")
        message = await service.next("other")
    assert message.find(".//{*}item").get("id") == "i1"


async def test_what_goes_with_a_publish_is_carried_too(service, settings):
    async with Publisher(**settings, level="assured") as publisher:
        await publisher.publish("jobs", {}, priority=7, delay=5, headers={"a": "b"}, group="g")
    message = (await service.next("assured"))[0][0]
    assert dict(message.find(".//{*}meta").attrib) == {"priority": "7", "delay": "5", "group": "g"}
    assert message.findtext(".//{*}header") == "b"


async def test_a_publish_without_a_level_of_its_own_has_the_publishers(service, settings):
    async with Publisher(**settings, level="assured") as publisher:
        published = await publisher.publish_many(
            "jobs", [NewItem(payload=n, id=str(n)) for n in range(30)]
        )
        await publisher.publish("jobs", {}, id="x", level="acknowledged")
    assert [one.id for one in published] == [str(n) for n in range(30)]
    assert sorted(service.queue) == sorted([*map(str, range(30)), "x"])


async def test_a_refused_delivery_is_the_publishes_own_error(service, settings):
    service.script["deliver"] = lambda iq: [refuse(iq, "item-not-found")]
    async with Publisher(**settings, level="assured") as publisher:
        with pytest.raises(NoSuchNode) as caught:
            await publisher.publish("jobs", {}, id="i1")
        assert (caught.value.node, caught.value.id) == ("jobs", "i1")
        with pytest.raises(NotAllPublished):
            await publisher.publish_many("jobs", [1, 2])


async def test_a_refusal_of_an_acknowledged_publish_is_logged_with_its_item(
    service, settings, caplog
):
    def refusal(iq, by, why):
        return (
            f"<message type='error' id='{iq[0][0].get('id')}' from='{by}' to='{iq.get('from')}'>"
            f"<error type='cancel'><{why} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )

    def refused(iq):
        return [
            *service.acknowledged(iq),
            refusal(iq, "stranger@queue.localhost", "item-not-found"),
            refusal(iq, "queue.localhost", "forbidden"),
        ]

    service.script["acknowledged"] = refused
    async with Publisher(**settings, level="acknowledged") as publisher:
        await publisher.publish("jobs", {}, id="i1")
        await until(lambda: "why=forbidden" in caplog.text)
    assert "event=publisher.refused node=jobs id=i1 why=forbidden" in caplog.text
    assert "item-not-found" not in caplog.text, "a stranger refuses nothing"


async def test_a_service_without_the_feature_refuses_at_once(service, settings):
    service.script["query"] = lambda iq: [refuse(iq, "forbidden")]
    async with Publisher(**settings, level="assured") as publisher:
        with pytest.raises(
            Refused, match=r"queue\.localhost does not offer urn:xmpp:qos"
        ) as caught:
            await publisher.publish("jobs", {}, id="i1")
    assert caught.value.condition == "feature-not-implemented"
    assert (caught.value.node, caught.value.id) == ("jobs", "i1")


async def test_silence_is_repeated_and_a_cut_stream_too(service, settings):
    usual = service.deliver_held
    service.script["deliver"] = silent_at_first(2, usual)
    async with Publisher(**settings, level="assured") as publisher:
        await publisher.publish("jobs", {}, id="i1")
        service.script["deliver"] = silent_at_first(1, usual)
        publishing = asyncio.ensure_future(publisher.publish("jobs", {}, id="i2"))
        (first,) = service.ended
        while (await service.next("deliver"))[0].get("msgId") == first[1]:
            pass
        cut(connection_keeper(publisher))
        await publishing
    assert service.queue == ["i1", "i2"]


async def test_a_publish_that_is_given_up_stays_in_the_file_and_goes_on_with_the_next_publisher(
    service, settings, tmp_path
):
    lasting = settings | {"level": "assured", "pending": tmp_path / "pending.db"}
    service.script["deliver"] = silent
    async with Publisher(**lasting) as publisher:
        jid = publisher.jid
        await given_up_at_deliver(service, publisher, "i1")
        assert [(one.to, one.step) for one in publisher.pending()] == [
            ("queue.localhost", "received")
        ]
        with pytest.raises(PendingFailed, match="another process has it"):
            await Publisher(**lasting).open()
    service.script["deliver"] = service.deliver_held
    async with Publisher(**lasting) as again:
        assert again.jid == jid
        await until(lambda: not again.pending())
    assert service.queue == ["i1"]


async def test_the_same_publish_again_is_the_message_that_is_pending(service, settings, tmp_path):
    service.script["deliver"] = silent_at_first(3, service.deliver_held)
    async with Publisher(**settings, level="assured", pending=tmp_path / "p.db") as publisher:
        while True:
            try:
                await publisher.publish("jobs", {"n": 1}, id="i1", timeout=0.4)
            except NotConfirmed:
                continue
            break
        await publisher.publish("jobs", {"n": 2}, id="i2")
    assert service.queue == ["i1", "i2"]


async def test_a_message_that_the_service_no_longer_knows_is_reported_and_not_sent_again(
    service, settings, tmp_path, caplog
):
    lasting = settings | {"level": "assured", "pending": tmp_path / "pending.db"}
    service.script["deliver"] = silent
    async with Publisher(**lasting) as publisher:
        await given_up_at_deliver(service, publisher, "i1")
    service.script["deliver"] = service.deliver_held
    service.held.clear()
    async with Publisher(**lasting) as publisher:
        await until(lambda: "event=publisher.refused node=jobs id=i1" in caplog.text)
        assert not publisher.pending()
        service.script["assured"] = lambda iq: [service.assured(iq)[0], service.held.clear() or ""]
        with pytest.raises(DeliveryUnknown) as caught:
            await publisher.publish("jobs", {"n": 1}, id="i2")
        assert caught.value.id == "i2"
    assert service.queue == []


async def test_a_publish_that_is_not_confirmed_in_its_time_is_named(service, settings):
    service.script["assured"] = silent
    async with Publisher(**settings, level="assured") as publisher:
        with pytest.raises(NotConfirmed, match=r"within 0\.5 seconds") as caught:
            await publisher.publish("jobs", {}, id="i1", timeout=0.5)
        assert (caught.value.node, caught.value.id) == ("jobs", "i1")
        assert publisher.pending() == []


async def test_a_file_without_a_level_and_a_level_that_is_none_are_refused(settings, tmp_path):
    with pytest.raises(ConfigurationError, match="needs level="):
        Publisher(**settings, pending=tmp_path / "pending.db")
    with pytest.raises(
        ConfigurationError, match="takes one of unacknowledged, acknowledged, assured"
    ):
        Publisher(**settings, level="certain")
    for directory in (tmp_path, tmp_path / "not" / "there"):
        with pytest.raises(PendingFailed, match="cannot be used"):
            await Publisher(**settings, level="assured", pending=directory).open()


async def test_a_file_with_a_level_that_nobody_writes_is_refused_with_its_message(tmp_path):
    path = tmp_path / "pending.db"
    PendingFile(path).close()
    row = (7, "a@x/1", "b@x", "m", "i", "d", "certain", "sent", 0.0, "<message/>")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"INSERT INTO outgoing VALUES ({', '.join('?' * len(row))})", row)
    for _ in range(2):  # and it is closed again
        with pytest.raises(PendingFailed, match="message 7 has no level or step of this version"):
            PendingFile(path)


async def test_the_blocking_twin_does_the_same(service, settings, tmp_path):
    def publish():
        with BlockingPublisher(
            **settings, level="assured", pending=tmp_path / "pending.db"
        ) as publisher:
            publisher.publish("jobs", {}, id="i1")
            publisher.publish_many("jobs", [NewItem(payload=1, id="i2")], level="acknowledged")
            return publisher.pending()

    assert await asyncio.to_thread(publish) == []
    assert service.queue == ["i1", "i2"]


async def test_a_publisher_that_is_closed_gives_up_what_is_not_confirmed(
    service, settings, tmp_path
):
    service.script["deliver"] = silent
    publisher = Publisher(**settings, level="assured", pending=tmp_path / "pending.db")
    await publisher.open()
    publishing = asyncio.ensure_future(publisher.publish("jobs", {}, id="i1"))
    await service.next("deliver")
    await publisher.close()
    with pytest.raises(NotConfirmed, match="was given up") as caught:
        await publishing
    assert caught.value.id == "i1"
