"""The publisher against a scripted service behind a real Prosody: answers that are lost, late, or no."""

import asyncio
import logging
import os
import signal
from contextlib import asynccontextmanager
from xml.etree.ElementTree import Element

import pytest
from harness.batches.inside import connection_keeper, cut, has_noticed_the_cut
from harness.patience import TIMEOUT
from harness.servers.queue_service import QueueService, in_turn, refuse, result

from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import (
    LoginRefused,
    NoReplyWanted,
    NotConfirmed,
    QuestionDied,
    Refused,
    Replaced,
    ServerUnreachable,
)
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.wire.publication import NewItem, Published, Retracted, new_id

pytestmark = pytest.mark.e2e
PATIENT = Timings(answer=TIMEOUT, backoff_min=0.01, backoff_max=0.1, parting=2)
"""Nothing is repeated, however slow the machine is."""
QUICK = Timings(answer=0.3, backoff_min=0.01, backoff_max=0.1, parting=2)
"""For tests in which something is repeated: as often as the machine is slow."""
PUBSUB = "http://jabber.org/protocol/pubsub"
DEAD = (
    "<dead xmlns='urn:x-pubqueue:0' item='i1' published='2026-11-22T12:00:00.000Z'"
    " at='2026-11-22T12:00:00.000Z' reason='no'/>"
)


def usual(iq, beside=""):
    """Answer as a service does that knows no short answers, and tells what stands beside."""
    name = iq.find(".//{*}item").get("id")
    return [result(iq, f"<publish node='jobs'><item id='{name}'/></publish>{beside}")]


@pytest.fixture
def publisher_of(prosody):
    def make(**settings):
        return Publisher(
            settings.pop("jid", "bot@localhost"),
            settings.pop("password", "secret"),
            **{
                "service": "queue.localhost",
                "host": prosody.host,
                "port": prosody.c2s_port,
                "tls": "off",
                "timings": PATIENT,
                "timeout": 10,
            }
            | settings,
        )

    return make


@pytest.fixture
async def publisher(service, publisher_of):
    service.script["publish"] = lambda iq: [result(iq)]
    async with publisher_of() as made:
        yield made


@pytest.fixture
async def quick(service, publisher_of):
    service.script["publish"] = lambda iq: [result(iq)]
    async with publisher_of(timings=QUICK) as made:
        yield made


def published_ids(service):
    return [
        stanza.find(".//{*}item").get("id") for verb, stanza in service.seen if verb == "publish"
    ]


KNOWN = "<known xmlns='urn:x-pubqueue:0' item='i1'/>"


@pytest.mark.parametrize(
    ("beside", "reported"),
    [
        (None, Published("jobs", "i1", duplicate=False)),
        ("", Published("jobs", "i1", duplicate=None)),
        (KNOWN, Published("jobs", "i1", duplicate=True)),
        (KNOWN + DEAD, Published("jobs", "i1", duplicate=True, dead="no")),
        (DEAD, Published("jobs", "i1", duplicate=True, dead="no")),
    ],
    ids=["new", "a service that does not tell", "known", "dead", "dead, of an older service"],
)
async def test_the_answer_of_the_service_is_the_result(service, publisher, beside, reported):
    service.script["publish"] = lambda iq: [result(iq)] if beside is None else usual(iq, beside)
    assert await publisher.publish("jobs", 1, id="i1") == reported


async def test_a_lost_answer_is_asked_for_under_the_same_id(service, quick):
    service.script["publish"] = in_turn(lambda iq: [], lambda iq: usual(iq, KNOWN))
    service.seen.clear()
    done = await quick.publish("jobs", {"a": 1})
    first, *again = published_ids(service)
    assert (first, set(again)) == (done.id, {done.id})
    assert done.duplicate is None  # the first may have been ours


async def test_a_connection_that_breaks_meanwhile_is_made_again(service, publisher):
    def breaks(iq):
        cut(connection_keeper(publisher))
        return []

    service.script["publish"] = in_turn(breaks, lambda iq: [result(iq)])
    assert (await publisher.publish("jobs", 1, id="i1")).id == "i1"


@pytest.mark.parametrize("condition", ["service-unavailable", "resource-constraint"])
async def test_a_service_that_is_away_is_asked_again(service, publisher, condition):
    service.script["publish"] = in_turn(lambda iq: [refuse(iq, condition)], lambda iq: [result(iq)])
    assert (await publisher.publish("jobs", 1, id="i1")).duplicate is False


async def test_an_answer_that_never_comes_is_not_confirmed(service, publisher):
    service.script["publish"] = lambda iq: []
    with pytest.raises(NotConfirmed, match="publish it again under its id") as caught:
        await publisher.publish("jobs", 1, id="i1", timeout=0.2)
    assert (caught.value.id, caught.value.node) == ("i1", "jobs")


async def test_a_refusal_is_raised_at_once_with_its_facts(service, publisher):
    service.script["publish"] = lambda iq: [refuse(iq, "not-acceptable", "payload-too-big")]
    with pytest.raises(Refused) as caught:
        await publisher.publish("jobs", 1, id="i1")
    error = caught.value
    assert (error.condition, error.node, error.id) == ("payload-too-big", "jobs", "i1")


async def test_what_servers_take_for_an_attack_is_not_sent(service, publisher):
    with pytest.raises(ValueError, match="Put what is large elsewhere"):
        await publisher.publish("jobs", "x" * 300_000)
    sizes = r"has 28\d{4} bytes as it is sent, with a payload of 210000;"
    with pytest.raises(ValueError, match=sizes):
        await publisher.publish("jobs", bytes(210_000), type="image/png")


@pytest.mark.parametrize(
    ("node", "beside", "said"),
    [
        ("jobs", {"id": "\x00"}, "id .* has the character U[+]0000"),
        ("\x00", {}, "The node's name has the character U[+]0000"),
        ("jobs", {"group": "\x00"}, "group .* has the character U[+]0000"),
        ("jobs", {"headers": {"a": "\x00"}}, "header 'a' has the character U[+]0000"),
        ("jobs", {"delay": -1}, "delay is -1"),
    ],
)
async def test_what_would_end_the_stream_is_not_sent(publisher, node, beside, said):
    with pytest.raises(ValueError, match=said):
        await publisher.publish(node, 1, **beside)


async def test_headers_beside_an_item_are_sent(service, publisher):
    service.seen.clear()
    job = Element("{urn:example}job")
    await publisher.publish("jobs", job, priority=5, delay=60, ttl=0.5, headers={"a": "b"})
    sent = await service.next("publish")
    assert dict(sent.find(".//{urn:x-pubqueue:0}meta").attrib) == {
        "priority": "5",
        "delay": "60",
        "ttl": "0.5",
    }
    assert sent.find(".//{*}header").text == "b"
    assert sent.find(".//{urn:example}job") is not None


async def test_no_more_are_under_way_than_may(service, publisher):
    held = []
    service.script["publish"] = lambda iq: held.append(iq) or []
    service.seen.clear()
    running = asyncio.create_task(publisher.publish_many("jobs", range(9), in_flight=3, timeout=60))
    for n in range(9):
        if n < 3:
            await service.next("publish")
        assert len(held) - n <= 3
        service.send(result(held[n]))
        if n + 3 < 9:
            await service.next("publish")
    assert [type(one) for one in await running] == [Published] * 9


async def test_what_the_iterable_raises_comes_out_when_the_others_are_published(service, publisher):
    def items():
        yield NewItem(payload=1, id="i1")
        raise ZeroDivisionError

    service.seen.clear()
    with pytest.raises(ZeroDivisionError):
        await publisher.publish_many("jobs", items(), in_flight=1)
    assert published_ids(service) == ["i1"]
    with pytest.raises(ValueError, match="in_flight is at least 1, not 0"):
        await publisher.publish_many("jobs", [], in_flight=0)


async def test_a_publisher_that_is_replaced_gets_an_error(service, publisher_of):
    first = publisher_of(jid="bot@localhost/same")
    async with first, publisher_of(jid="bot@localhost/same"):
        with pytest.raises(Replaced):
            await first.publish("jobs", 1)


async def test_nothing_is_published_before_entering_nor_afterwards(service, publisher_of):
    made = publisher_of()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="enter it with `async with`"):
            await made.publish("jobs", 1)
        async with made:
            with pytest.raises(RuntimeError, match="open already"):
                await made.open()
        await made.close()


async def test_a_publish_under_way_when_it_closes_is_given_up(service, publisher):
    service.script["publish"] = lambda iq: []
    service.seen.clear()
    under_way = asyncio.create_task(publisher.publish("jobs", 1))
    await service.next("publish")
    await publisher.close()
    with pytest.raises(Exception, match="The publisher is closed"):
        await under_way


async def test_a_wrong_password_is_refused_at_once(prosody, publisher_of):
    with pytest.raises(LoginRefused, match="wrong name or password"):
        await publisher_of(password="wrong").open()


async def test_a_missing_server_is_awaited_for_the_given_time(publisher_of, caplog):
    caplog.set_level(logging.CRITICAL, "pubqueue_xeps")
    with pytest.raises(
        ServerUnreachable,
        match=r"bot@localhost could not log in within 0\.2 seconds\.",
    ):
        await publisher_of(port=1, timeout=0.2).open()


async def test_a_server_that_is_mute_is_left_and_the_publish_confirmed_on_another_stream(
    publisher_of,
):
    """A half-open connection is never reported; here the server stands still."""
    async with Prosody() as server, QueueService(server.component_port, server.secret) as service:
        service.script["publish"] = lambda iq: [result(iq)]
        await server.account("bot", "secret")
        async with publisher_of(port=server.c2s_port, timeout=60, timings=QUICK) as publisher:
            os.kill(server.pid, signal.SIGSTOP)
            waiting = asyncio.create_task(publisher.publish("jobs", 1, id="i1"))
            await has_noticed_the_cut(connection_keeper(publisher))
            os.kill(server.pid, signal.SIGCONT)
            assert (await waiting).id == "i1"


async def test_a_server_that_restarts_is_waited_for(publisher_of):
    async with Prosody() as server:
        await server.account("bot", "secret")
        async with publisher_of(port=server.c2s_port, timeout=60) as publisher:
            await server.restart()
            waiting = asyncio.create_task(publisher.publish("jobs", 1, id="i1"))
            async with QueueService(server.component_port, server.secret) as service:
                service.script["publish"] = lambda iq: [result(iq)]
                assert (await waiting).duplicate is False


async def test_a_worker_publishes_on_its_own_stream(service, worker_of):
    service.script["publish"] = in_turn(lambda iq: [], lambda iq: [result(iq)])
    async with worker_of(timings={"answer": 0.3}) as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            done = await item.publish("more", {"a": 1})
        assert done == Published("more", "jobs/i1/946684800000/1", duplicate=False)
        sent = await service.next("publish")
        assert sent.get("from") == worker.jid


async def test_follow_ups_are_named_by_their_number(service, worker_of):
    service.script["publish"] = lambda iq: [result(iq)]
    async with worker_of() as worker:
        service.deliver(worker.jid, "x" * 1023)
        async with await anext(worker) as item:
            ids = [(await item.publish("more", n)).id for n in range(2)]
            assert (await item.publish("more", 1, id="mine")).id == "mine"
    assert len(set(ids)) == 2
    assert {len(name) for name in ids} == {64}  # too long to be written out


@asynccontextmanager
async def delivered(service, worker_of, headers):
    async with worker_of() as worker:
        written = "".join(f"<header name='{n}'>{v}</header>" for n, v in headers.items())
        event = service.event(
            worker.jid,
            "<item id='i1'><job xmlns='x'/></item>",
            f"<headers xmlns='http://jabber.org/protocol/shim'>{written}</headers>",
        )
        service.send(event)
        async with await anext(worker) as item:
            yield item


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"reply-to": "replies/etl@localhost"},
        {"reply-to": "wages", "correlation-id": "i1"},  # a node of no asker's
    ],
)
async def test_only_askers_get_replies(service, worker_of, headers):
    async with delivered(service, worker_of, headers) as item:
        with pytest.raises(NoReplyWanted) as caught:
            await item.reply("done")
        assert (caught.value.node, caught.value.id) == ("jobs", "i1")


async def test_a_reply_is_published_under_the_askers_id(service, worker_of):
    service.script["publish"] = lambda iq: [result(iq)]
    asked = {"reply-to": "replies/etl@localhost", "correlation-id": "jobs/i1"}
    async with delivered(service, worker_of, asked) as item:
        assert await item.reply("done") == Published(
            "replies/etl@localhost", "jobs/i1", duplicate=False
        )


async def test_an_asker_whose_node_cannot_be_created_gets_an_error(service, publisher):
    service.script["create"] = lambda iq: [refuse(iq, "forbidden")]
    service.script["configure"] = lambda iq: [refuse(iq, "item-not-found")]
    with pytest.raises(Refused, match="'replies/bot@localhost'") as caught:
        await publisher.ask("jobs", 1)
    assert str(caught.value).endswith(
        "An operator of queue.localhost may declare it, with bot@localhost as its owner."
    )
    assert caught.value.condition == "forbidden"


def settings(model):
    return (
        "<configure node='replies/bot@localhost'><x xmlns='jabber:x:data' type='form'>"
        f"<field var='pubsub#access_model'><option><value>open</value></option><value>{model}</value></field>"
        "</x></configure>"
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda iq: [refuse(iq, "forbidden")], "is there, and is another account's"),
        (lambda iq: [result(iq, settings("open"))], "its access model is open"),
    ],
    ids=["another's", "open"],
)
async def test_nothing_is_asked_while_others_would_read_the_replies(
    service, publisher, answer, words
):
    service.script["create"] = lambda iq: [refuse(iq, "conflict")]
    service.script["configure"] = answer
    with pytest.raises(Refused, match=words):
        await publisher.ask("jobs", 1)
    assert not {"subscribe", "publish"} & {verb for verb, _ in service.seen}


async def test_a_reply_without_a_notification_is_found(service, quick):
    """The notification was lost; it is looked for now and then."""
    service.script["create"] = lambda iq: [refuse(iq, "conflict")]
    service.script["configure"] = lambda iq: [result(iq, settings("whitelist"))]
    service.script["subscribe"] = lambda iq: [result(iq)]
    reply = "<items node='replies/bot@localhost'><item id='{}'><json xmlns='urn:xmpp:json:0'>7</json></item></items>"
    nothing = "<items node='replies/bot@localhost'/>"
    service.script["items"] = in_turn(
        lambda iq: [result(iq, nothing)],
        lambda iq: [refuse(iq, "item-not-found")],
        lambda iq: [result(iq, reply.format(iq.find(".//{*}item").get("id")))],
    )
    assert (await quick.ask("jobs", 1, id="i1")).data == 7


DIED = "<died xmlns='urn:x-pubqueue:0' node='jobs' id='i1' reason='no' attempts='2' failures='{}'/>"


@pytest.mark.parametrize(
    ("publisher_of_it", "failures", "dies"),
    [
        ("bot@localhost", "1", True),  # the service publishes it in the asker's name
        (None, "1", True),
        ("eve@localhost", "1", False),  # a worker's own reply
        ("bot@localhost", "x", False),
    ],
)
async def test_only_the_service_says_that_a_question_died(
    service, quick, publisher_of_it, failures, dies
):
    service.script["create"] = lambda iq: [result(iq)]
    service.script["subscribe"] = lambda iq: [result(iq)]
    by = f" publisher='{publisher_of_it}'" if publisher_of_it else ""
    item = f"<item id='jobs/i1'{by}>{DIED.format(failures)}</item>"
    found = f"<items node='replies/bot@localhost'>{item}</items>"
    service.script["items"] = lambda iq: [result(iq, found)]
    if not dies:
        assert (await quick.ask("jobs", 1, id="i1")).payload.get("reason") == "no"
        return
    with pytest.raises(QuestionDied, match="after 2 deliveries: no") as caught:
        await quick.ask("jobs", 1, id="i1")
    assert (caught.value.attempts, caught.value.failures) == (2, 1)
    assert "publish" not in {verb for verb, _ in service.seen}


def test_ids_are_uuids_of_version_7_and_rise_with_time(monkeypatch):
    ids = []
    for n in range(1000):
        monkeypatch.setattr("time.time_ns", lambda n=n: (1_700_000_000_000 + n) * 1_000_000)
        ids.append(new_id())
    assert ids == sorted(ids)
    assert {name[14] for name in ids} == {"7"}
    assert {name[19] for name in ids} <= set("89ab")
    monkeypatch.undo()
    assert len({new_id() for _ in range(10_000)}) == 10_000


async def test_a_repeated_retract_does_not_show_what_deleted_the_item(service, publisher_of):
    service.script["retract"] = in_turn(lambda iq: [], lambda iq: [refuse(iq, "item-not-found")])
    async with publisher_of(timings=QUICK) as publisher:
        assert await publisher.retract("jobs", "i1") == Retracted(
            "jobs", "i1", there=None, locked=None
        )


async def test_a_service_that_does_not_report_the_holder(service, publisher_of):
    service.script["retract"] = lambda iq: [result(iq)]
    async with publisher_of() as publisher:
        assert await publisher.retract("jobs", "i1") == Retracted(
            "jobs", "i1", there=True, locked=None
        )


async def test_an_unanswered_retract_is_not_confirmed(service, publisher_of):
    service.script["retract"] = lambda iq: []
    async with publisher_of() as publisher:
        with pytest.raises(
            NotConfirmed, match=r"the retract of 'i1' was not confirmed .* ask again"
        ):
            await publisher.retract("jobs", "i1", timeout=0.5)


@pytest.mark.parametrize("name", ["", None, 7, "\x00"])
async def test_a_retract_of_what_is_no_id_is_not_sent(service, publisher_of, name):
    async with publisher_of() as publisher:
        with pytest.raises(ValueError, match=r"id is|which no name has"):
            await publisher.retract("jobs", name)
