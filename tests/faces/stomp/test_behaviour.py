"""What clients of STOMP may rely on, frame by frame, over sockets. The names in comments are rows of the checklist."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from faces.contract import stored
from faces.sides import RIGHT, SERVICE, Side
from faces.stomp import clients
from faces.stomp.clients import Connection, a_face
from harness.batches.facts import JOBS
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.patience import TIMEOUT, turns, until
from structlog.testing import capture_logs

from pubqueue.faces.stomp.codec import Frame
from pubqueue.faces.stomp.protocol import UNDER_WAY
from pubqueue.faces.stomp.settings import StompSettings
from pubqueue.model.entities import ItemId, Jid, NodeName, Principal, State
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Delete
from pubqueue.rules.settle import Settle, Verb
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

NEWS, OTHER = NodeName("news"), NodeName("other")
BOSS = Principal(Jid("boss@x"), admin=True)
INDIVIDUAL = {"ack": "client-individual"}


class Served:
    """An instance, and what connects to it."""

    def __init__(self, side):
        self.side, self.face, self.broker = side, side.face, side.broker

    async def log_in(self, name="etl", version="1.2", **headers):
        connection = await Connection.to(self.face, version)
        assert (await connection.connect(name, **headers)).command == "CONNECTED"
        return connection

    async def works(self, name="bee", version="1.2", destination="/queue/jobs", **headers):
        connection = await self.log_in(name, version)
        answer = await connection.do(
            "SUBSCRIBE", destination=destination, id="s", **({"ack": "client"} | headers)
        )
        assert answer.command == "RECEIPT", answer
        return connection


@asynccontextmanager
async def serving(**given):
    side = Side(MemoryStore(Memory()), lambda broker: a_face(broker, **given))
    async with asyncio.timeout(TIMEOUT):
        await side.begin()
        await side.face.enter(lambda: None)
        for name in (JOBS, OTHER):
            await side.broker.handle(a_queue(name, publish_model="open"))
        plain = Settings({"access_model": "open", "publish_model": "open", "persist_items": True})
        await side.broker.handle(Declare(BOSS, NEWS, plain, (Jid("boss@x"),)))
        yield Served(side)
        if not side.broker.task.done():
            await side.end()
        await clients.closed()


@pytest.fixture
async def served():
    async with serving() as it:
        yield it


async def ended(connection, message):
    """See that an ERROR comes, with this message, and then the end."""
    frame = await connection.answer()
    assert (frame.command, frame.headers["message"]) == ("ERROR", message)
    assert await connection.hear() is None
    return frame


async def put(connection, *names, destination="/queue/jobs", **headers):
    for name in names:
        answer = await connection.do(
            "SEND", b"text", destination=destination, item_id=name, **headers
        )
        assert answer.command == "RECEIPT"


# --- connecting ----------------------------------------------------------------------------------


async def test_stomp_is_connect(served):  # S01
    connection = await Connection.to(served.face)
    connection.say("STOMP", accept_version="1.2", login="etl", passcode=clients.RIGHT)
    answer = await connection.hear()
    assert (answer.command, answer.headers["version"]) == ("CONNECTED", "1.2")
    assert answer.headers["heart-beat"] == "600000,600000"


async def test_without_a_common_version_there_is_none(served):  # S02
    connection = await Connection.to(served.face)
    connection.say("CONNECT", accept_version="9.9", login="etl", passcode=clients.RIGHT)
    assert (await ended(connection, "unsupported version")).headers["version"] == "1.0,1.1,1.2"


async def test_connect_is_not_unescaped(served):  # S03, N02
    connection = await Connection.to(served.face)
    connection.write(
        f"CONNECT\naccept-version:1.2\nhost:a:b\\c\nlogin:etl\npasscode:{clients.RIGHT}\n\n\0".encode()
    )
    assert (await connection.hear()).command == "CONNECTED"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"login": "etl"},
        {"login": "etl", "passcode": "wrong"},
        {"login": "x", "passcode": "wrong"},
    ],
)
async def test_each_failed_login_gets_the_same_answer(served, given):  # N03
    connection = await Connection.to(served.face)
    connection.say("CONNECT", accept_version="1.2", **given)
    await ended(connection, "login refused")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"SEND\ndestination:/queue/jobs\n\na\0", "not connected"),
        (b"GET / HTTP/1.1\r\n\r\n", "unknown command"),
        (b"CONNECT\naccept-version:1.2\nlogin:\xff\n\n\0", "malformed frame"),
        (b"CONNECT\n" + b"a" * 4096, "header too long"),
        (b"CONNECT\nheart-beat:often\naccept-version:1.2\n\n\0", "bad heart-beat"),
    ],
)
async def test_what_a_stranger_sends_is_refused_and_closed(served, data, message):  # N04, S11, S22
    connection = await Connection.to(served.face)
    connection.write(data)
    await ended(connection, message)


async def test_a_second_connect_is_refused(served):  # N04
    etl = await served.log_in()
    etl.say("CONNECT", accept_version="1.2")
    await ended(etl, "already connected")


async def test_a_silent_client_is_closed():
    async with serving(login=0.05) as served:
        connection = await Connection.to(served.face)
        await ended(connection, "login timeout")


# --- heart-beats ---------------------------------------------------------------------------------


async def test_heart_beats_are_sent_and_a_client_that_misses_its_own_is_closed():  # S04, N18
    async with serving(stomp=StompSettings(heart_beat=0.05)) as served:
        quiet = await served.log_in(heart_beat="0,50")
        assert await quiet.reader.readexactly(3) == b"\n\n\n"
        silent = await served.works("bee")
        again = await served.log_in("bee", heart_beat="50,0")
        answer = await again.do("SUBSCRIBE", destination="/queue/jobs", id="s", ack="client")
        assert answer.command == "RECEIPT"
        await ended(again, "no heart-beat")
        assert (await silent.do("UNSUBSCRIBE", id="s")).command == "RECEIPT", "it has promised none"


# --- sending and receiving -----------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_a_message_is_sent_received_and_acknowledged(served, version):  # N01, S19
    etl, bee = await served.log_in("etl", version), await served.works("bee", version)
    assert (await etl.do("SEND", b"text", destination="/queue/jobs", kind="x")).headers[
        "receipt-id"
    ] == "r1"
    message = await bee.hear()
    assert (message.command, message.body) == ("MESSAGE", b"text")
    assert (message.headers["subscription"], message.headers["destination"]) == ("s", "/queue/jobs")
    assert (message.headers["kind"], message.headers["publisher"]) == ("x", f"etl@{SERVICE}")
    names = {
        "1.2": {"id": "ack"},
        "1.1": {"message-id": "message-id"},
        "1.0": {"message-id": "message-id"},
    }
    headers = {name: message.headers[of] for name, of in names[version].items()}
    if version == "1.1":
        headers["subscription"] = "s"
    bee.say_frame(Frame("ACK", {**headers, "receipt": "done"}))
    assert (await bee.answer()).headers == {"receipt-id": "done"}
    assert await stored(served.side, message.headers["item-id"]) is None


async def test_receipts_come_in_the_order_of_the_frames(served):  # S12
    etl = await served.log_in()
    etl.say("SEND", b"1", destination="/queue/jobs", receipt="1")
    etl.say("SUBSCRIBE", destination="jobs", id="s", ack="client", receipt="2")
    etl.say("SEND", b"2", destination="/queue/jobs", receipt="3")
    etl.say("BEGIN", transaction="t", receipt="4")
    heard = [await etl.hear() for _ in range(6)]
    assert [f.headers["receipt-id"] for f in heard if f.command == "RECEIPT"] == [
        "1",
        "2",
        "3",
        "4",
    ]
    first = next(at for at, frame in enumerate(heard) if frame.command == "MESSAGE")
    assert heard[1].headers.get("receipt-id") == "2", "before the first message"
    assert first > 1


async def test_an_id_that_is_known_is_a_duplicate_and_another_body_under_it_is_refused(served):
    etl = await served.log_in()
    await put(etl, "a")
    again = await etl.do("SEND", b"text", destination="/queue/jobs", item_id="a")
    assert again.headers["duplicate"] == "true"


async def test_a_send_that_fails_closes_after_what_came_before_is_answered(served):  # S20, S21
    etl = await served.log_in()
    etl.say("SEND", b"1", destination="/queue/jobs", receipt="1")
    etl.say("SEND", b"2", destination="/queue/nowhere", receipt="2")
    etl.say("SEND", b"3", destination="/queue/jobs", receipt="3")
    assert (await etl.hear()).headers["receipt-id"] == "1"
    assert (await ended(etl, "not found")).headers["receipt-id"] == "2"


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("/queue/nowhere", "not found"),
        ("/queue/news", "not found"),
        ("/topic/jobs", "not found"),
        ("/temp-queue/a", "no such kind of destination"),
    ],
)
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
async def test_destinations_that_do_not_fit(served, command, destination, message):  # N07
    etl = await served.log_in()
    etl.say(command, destination=destination, id="s", receipt="r")
    await ended(etl, message)


@pytest.mark.parametrize("destination", ["jobs", "./jobs", "/amq/queue/jobs", "/queue/jobs"])
async def test_a_queue_has_several_names(served, destination):  # N07, C28
    bee = await served.works(destination=destination)
    etl = await served.log_in()
    await put(etl, "a", destination=destination)
    assert (await bee.hear()).headers["destination"] == destination


async def test_a_topic_notifies_all_subscribers(served):  # N08
    etl = await served.log_in()
    await put(etl, "before", destination="/topic/news")
    some = [await served.works(destination=to, ack="auto") for to in ("/topic/news", "news")]
    await put(etl, "a", destination="/topic/news")
    for one in some:
        message = await one.hear()
        assert (message.headers["item-id"], message.headers["destination"]) == ("a", "/topic/news")
        assert "ack" not in message.headers


async def test_a_presence_based_topic_notifies_connected_subscribers(served):
    settings = Settings({"presence_based_delivery": True})
    await served.broker.handle(Declare(BOSS, NEWS, settings, (Jid("boss@x"),)))
    etl, bee = await served.log_in(), await served.works(destination="/topic/news", ack="auto")
    await put(etl, "a", destination="/topic/news")
    assert (await bee.hear()).headers["item-id"] == "a"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_nothing_is_to_be_settled_of_a_topic(served, version):
    bee, etl = await served.works("bee", version, destination="/topic/news"), await served.log_in()
    await put(etl, "a", destination="/topic/news")
    found = (await bee.hear()).headers
    bee.say_frame(
        Frame(
            "ACK",
            {
                "id": found["ack"],
                "subscription": "s",
                "message-id": found["message-id"],
                "receipt": "r",
            },
        )
    )
    assert (await bee.answer()).command == "RECEIPT"


# --- acknowledging -------------------------------------------------------------------------------


async def test_in_mode_client_an_ack_is_for_all_up_to_that_message(served):  # S14
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a", "b", "c")
    acks = [(await bee.hear()).headers["ack"] for _ in range(3)]
    assert (await bee.do("ACK", id=acks[1])).command == "RECEIPT"
    assert [await stored(served.side, name) is None for name in "abc"] == [True, True, False]


async def test_in_mode_client_a_nack_is_for_all_up_to_that_message(served):  # S16
    bee, etl = await served.works(prefetch_count="2"), await served.log_in()
    await put(etl, "a", "b")
    acks = [(await bee.hear()).headers["ack"] for _ in range(2)]
    assert (await bee.do("NACK", id=acks[1], reason="why")).command == "RECEIPT"
    again = [(await bee.hear()).headers for _ in range(2)]
    assert [(one["item-id"], one["redelivered"], one["failed"]) for one in again] == [
        ("a", "true", "1"),
        ("b", "true", "1"),
    ]


@pytest.mark.parametrize(
    ("headers", "failed", "state"),
    [
        ({}, 1, State.QUEUED),
        ({"outcome": "release"}, 0, State.QUEUED),
        ({"requeue": "false"}, 1, State.DEAD),
    ],
)
async def test_a_nack_has_the_outcome_of_the_attempt(served, headers, failed, state):  # S25
    bee, etl = await served.works(**INDIVIDUAL), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    bee.say("UNSUBSCRIBE", id="s")
    assert (await bee.do("NACK", id=ack, **headers)).command == "RECEIPT"
    item = await stored(served.side, "a")
    assert (item.failed, item.state) == (failed, state)


async def test_in_mode_auto_a_message_is_done_when_it_has_left(served):  # S14
    bee, etl = await served.works(ack="auto"), await served.log_in()
    await put(etl, *"abc")
    assert ["ack" in (await bee.hear()).headers for _ in range(3)] == [False] * 3
    while any([await stored(served.side, name) for name in "abc"]):  # awaited
        await turns(1)


async def test_an_ack_of_what_is_not_held_is_refused(served):  # S15
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    assert (await bee.do("ACK", id=ack)).command == "RECEIPT"
    bee.say("ACK", id=ack)
    await ended(bee, "no such message")


async def test_a_late_ack_does_nothing_and_reports_it(served):  # N13
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    await served.broker.handle(_retract())
    assert (await bee.do("ACK", id=ack)).headers == {"receipt-id": "r2", "outcome": "lost"}
    assert (await bee.do("UNSUBSCRIBE", id="s")).command == "RECEIPT", "and the connection stays"


def _retract():
    return Settle(BOSS, JOBS, (ItemId("a"),), Verb.RETRACT)


async def test_a_late_ack_may_be_an_error():
    async with serving(stomp=StompSettings(heart_beat=clients.BEATS, late_ack="error")) as served:
        bee, etl = await served.works(), await served.log_in()
        await put(etl, "a")
        ack = (await bee.hear()).headers["ack"]
        await served.broker.handle(_retract())
        bee.say("ACK", id=ack)
        await ended(bee, "no such message")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_a_touch_extends_a_lock_and_its_receipt_has_the_deadline(served, version):
    bee, etl = await served.works(version=version, ack="client"), await served.log_in()
    await put(etl, "a", "b")
    first, _ = [(await bee.hear()).headers for _ in "ab"]
    before = {name: (await stored(served.side, name)).deadline for name in "ab"}
    names = {
        "1.0": {"message_id": "jobs/a"},
        "1.1": {"message_id": "jobs/a", "subscription": "s"},
        "1.2": {"id": first.get("ack")},
    }
    answer = await bee.do("TOUCH", **names[version])
    after = {name: (await stored(served.side, name)).deadline for name in "ab"}
    assert answer.headers["deadline"] == f"{after['a']}"
    assert after["a"] >= before["a"]
    assert after["b"] == before["b"], "only the message that is named"
    near = await bee.do("TOUCH", seconds="0.001", **names[version])
    assert near.headers["deadline"] == f"{after['a']}", "a deadline does not come nearer"


async def test_a_touch_of_what_is_not_held(served):
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    await served.broker.handle(_retract())
    for _ in "twice":
        assert (await bee.do("TOUCH", id=ack)).headers["outcome"] == "lost"
    assert (await bee.do("ACK", id=ack)).headers["outcome"] == "lost"
    bee.say("TOUCH", id=ack)
    await ended(bee, "no such message")


@pytest.mark.parametrize(
    ("headers", "message"),
    [({"seconds": "soon"}, "bad header"), ({"transaction": "t"}, "not supported")],
)
async def test_what_a_touch_cannot_have(served, headers, message):
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    bee.say("TOUCH", id=(await bee.hear()).headers["ack"], **headers)
    await ended(bee, message)


async def test_of_a_topic_there_is_nothing_to_touch(served):
    bee, etl = await served.works(destination="/topic/news"), await served.log_in()
    await put(etl, "a", destination="/topic/news")
    ack = (await bee.hear()).headers["ack"]
    assert (await bee.do("TOUCH", id=ack)).headers == {"receipt-id": "r2"}


async def test_an_ack_after_unsubscribe_counts(served):  # N12, C19
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    assert (await bee.do("UNSUBSCRIBE", id="s")).command == "RECEIPT"
    assert (await stored(served.side, "a")).state is State.LOCKED
    assert (await bee.do("ACK", id=ack)).command == "RECEIPT"
    assert await stored(served.side, "a") is None


async def test_two_subscriptions_of_a_connection_are_two_workers(served):  # N10, N11
    bee, etl = await served.works(**INDIVIDUAL), await served.log_in()
    answer = await bee.do("SUBSCRIBE", destination="/queue/jobs", id="t", **INDIVIDUAL)
    assert answer.command == "RECEIPT"
    await put(etl, *"abc")
    heard = [(await bee.hear()).headers["subscription"] for _ in range(2)]
    assert sorted(heard) == ["s", "t"]
    await served.broker.settled()
    assert (await stored(served.side, "c")).state is State.QUEUED


@pytest.mark.parametrize(
    ("command", "headers", "message"),
    [
        ("SUBSCRIBE", {"destination": "/queue/jobs", "id": "s"}, "already subscribed"),
        ("SUBSCRIBE", {"destination": "/queue/jobs"}, "header missing"),
        ("SUBSCRIBE", {"id": "t"}, "header missing"),
        ("SUBSCRIBE", {"destination": "/queue/jobs", "id": "t", "ack": "mine"}, "bad header"),
        (
            "SUBSCRIBE",
            {"destination": "/queue/jobs", "id": "t", "selector": "a = 1"},
            "not supported",
        ),
        ("UNSUBSCRIBE", {"id": "t"}, "no such subscription"),
        ("ACK", {"id": "t"}, "no such message"),
        ("NACK", {"id": "n1"}, "no such message"),
        ("COMMIT", {"transaction": "t"}, "no such transaction"),
        ("ABORT", {"transaction": "t"}, "no such transaction"),
        ("SEND", {"destination": "/queue/jobs", "transaction": "t"}, "no such transaction"),
        ("SEND", {"destination": "/queue/jobs", "priority": "high"}, "bad header"),
        ("BEGIN", {"transaction": ""}, "header missing"),
    ],
)
async def test_what_is_refused(served, command, headers, message):  # S13, S17, N15
    bee = await served.works()
    bee.say_frame(Frame(command, {**headers, "receipt": "r"}))
    assert (await ended(bee, message)).headers["receipt-id"] == "r"


# --- transactions --------------------------------------------------------------------------------


async def test_a_transaction_is_done_by_its_commit(served):  # N16, S17
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    assert (await bee.do("BEGIN", transaction="t")).command == "RECEIPT"
    await put(bee, "b", destination="/queue/other", transaction="t")
    assert (await bee.do("ACK", id=ack, transaction="t")).command == "RECEIPT"
    assert await stored(served.side, "b", OTHER) is None
    assert (await stored(served.side, "a")).state is State.LOCKED
    assert (await bee.do("COMMIT", transaction="t")).command == "RECEIPT"
    assert await stored(served.side, "b", OTHER) is not None
    assert await stored(served.side, "a") is None


async def test_of_a_transaction_all_or_nothing_is_done(served):  # N16
    etl = await served.log_in()
    await etl.do("BEGIN", transaction="t")
    await put(etl, "a", transaction="t")
    await put(etl, "b", destination="/queue/nowhere", transaction="t")
    etl.say("COMMIT", transaction="t", receipt="r")
    error = await ended(etl, "not found")
    assert "message 2" in error.body.decode()
    assert await stored(served.side, "a") is None


@pytest.mark.parametrize("how", ["abort", "disconnect", "break"])
async def test_what_is_aborted_has_not_happened(served, how):  # N17
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    await bee.do("BEGIN", transaction="t")
    await put(bee, "b", transaction="t")
    await bee.do("ACK", id=ack, transaction="t")
    if how == "abort":
        await bee.do("ABORT", transaction="t")
        assert (await stored(served.side, "a")).state is State.LOCKED
        assert (await bee.do("ACK", id=ack)).command == "RECEIPT", "it can still be acknowledged"
    elif how == "disconnect":
        await bee.do("DISCONNECT")
        assert (await stored(served.side, "a")).state is State.QUEUED
    else:
        bee.writer.transport.abort()
        await until(lambda: len(served.face.protocols) == 1)
        await served.broker.settled()
        assert (await stored(served.side, "a")).failed == 1
    assert await stored(served.side, "b") is None


async def test_transactions_are_bounded(served):
    etl = await served.log_in()
    for number in range(16):
        await etl.do("BEGIN", transaction=f"{number}")
    etl.say("BEGIN", transaction="more", receipt="r")
    await ended(etl, "transaction too large")


async def test_the_bytes_of_all_open_transactions_are_bounded_together(served):
    etl = await served.log_in()
    body = b"x" * (60 << 10)
    for number in range(14):
        await etl.do("BEGIN", transaction=f"{number}")
        for _ in range(4):
            await etl.do("SEND", body, destination="/queue/jobs", transaction=f"{number}")
    await etl.do("BEGIN", transaction="15")
    for _ in range(20):
        etl.say("SEND", body, destination="/queue/jobs", transaction="15")
    await ended(etl, "transaction too large")


# --- ending --------------------------------------------------------------------------------------


async def test_nothing_is_done_after_disconnect(served):  # S24, C22
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    await bee.hear()
    bee.say("DISCONNECT", receipt="bye")
    bee.say("SEND", b"late", destination="/queue/jobs", item_id="late")
    assert (await bee.answer()).headers["receipt-id"] == "bye"
    assert await bee.hear() is None
    back = await stored(served.side, "a")
    assert (back.state, back.failed) == (State.QUEUED, 0)
    assert await stored(served.side, "late") is None


async def test_a_node_that_is_deleted_ends_its_subscribers(served):  # N23
    bee = await served.works()
    await served.broker.handle(Delete(BOSS, JOBS))
    await ended(bee, "subscription ended")


async def test_a_queue_is_shared_with_workers_of_xmpp(served):  # N22
    await served.broker.handle(joins(Jid("ann@x/1")))
    etl = await served.log_in()
    await put(etl, "a", priority="3", group="g")
    item = await stored(served.side, "a")
    assert (item.priority, item.group) == (3, "g")
    await served.broker.handle(publishes("b", payload=b"<work xmlns='urn:x'/>"))
    bee = await served.works()
    heard = {(await bee.hear()).headers["item-id"]}
    assert heard <= {"a", "b"}


async def test_a_flood_waits_with_the_client(served):  # L08
    flood, bee = await served.log_in(), await served.log_in("bee")
    most = 0

    async def look():
        nonlocal most
        while True:
            most = max(most, served.broker.waiting.requests)
            await turns(1)

    looking = asyncio.create_task(look())
    count = 4 * UNDER_WAY
    for number in range(count):
        flood.say("SEND", b"x", destination="/queue/jobs", receipt=f"{number}")
    assert (await bee.do("BEGIN", transaction="t")).command == "RECEIPT"
    assert [(await flood.hear()).headers["receipt-id"] for _ in range(count)] == [
        f"{number}" for number in range(count)
    ]
    looking.cancel()
    assert most <= UNDER_WAY + 1


async def test_a_hundred_thousand_ends_of_lines_are_nothing(served):  # N06
    etl = await served.log_in()
    etl.write(b"\n" * 100_000)
    await put(etl, "a")


async def test_a_client_that_does_not_read_gets_a_bounded_amount_and_others_get_the_rest(
    served,
):  # L06, N06
    slow = await served.works(prefetch_count="0", **INDIVIDUAL)
    slow.writer.transport.pause_reading()
    etl = await served.log_in()
    body = b"x" * 60_000
    (protocol,) = [one for one in served.face.protocols if one.address.startswith("bee@")]
    count = 0
    while not protocol.connection.is_full:
        count += 1
        await etl.do("SEND", body, destination="/queue/jobs", item_id=f"{count}")
    await served.broker.settled()
    assert protocol.connection.unsent < 1 << 20
    bee = await served.works("ann", **INDIVIDUAL)
    await etl.do("SEND", body, destination="/queue/jobs", item_id="more")
    assert (await bee.hear()).headers["item-id"] == "more"
    slow.writer.transport.resume_reading()
    heard = [(await slow.hear()).headers["item-id"] for _ in range(count)]
    assert heard == [f"{number + 1}" for number in range(count)]


async def test_a_service_that_stops_answers_what_was_read_and_asks_to_retry_later(served):  # N20
    etl = await served.log_in()
    for number in range(10):
        etl.say("SEND", b"x", destination="/queue/jobs", receipt=f"{number}")
    assert (await etl.hear()).command == "RECEIPT"
    await served.face.stop()
    heard = []
    while (frame := await etl.hear()) is not None:
        heard.append(frame.headers.get("receipt-id") or frame.headers["message"])
    assert heard == [*map(str, range(1, len(heard))), "try again later"]


@pytest.mark.parametrize("auto_creates", [True, False])
async def test_a_queue_is_created_for_accounts_that_may(auto_creates):
    async with serving(auto_creates=auto_creates) as served:
        etl = await served.log_in()
        answer = await etl.do("SUBSCRIBE", destination="/queue/new", id="s")
        assert answer.command == ("RECEIPT" if auto_creates else "ERROR")


# --- which message an ACK names ------------------------------------------------------------------


EUROPE = NodeName("jobs/eu")


def naming(version, headers, **more):
    """Return an ACK of the message with these headers, as the version has it."""
    named = {
        "id": headers["ack"],
        "message-id": headers["message-id"],
        "subscription": headers["subscription"],
    }
    wanted = {"1.0": ("message-id",), "1.1": ("message-id", "subscription"), "1.2": ("id",)}
    return Frame("ACK", {**{name: named[name] for name in wanted[version]}, **more})


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_each_message_of_a_connection_has_a_name_of_its_own(served, version):
    await served.broker.handle(a_queue(EUROPE, publish_model="open"))
    etl, bee = await served.log_in(), await served.log_in("bee", version)
    await put(etl, "eu/1")
    await put(etl, "1", destination="/queue/jobs/eu")
    found = []
    for node in (JOBS, EUROPE):  # under one id, which is used again after UNSUBSCRIBE
        subscribed = await bee.do(
            "SUBSCRIBE",
            destination=f"/queue/{node}",
            id="s",
            ack="client-individual" if version != "1.0" else "client",
        )
        assert subscribed.command == "RECEIPT"
        found.append((await bee.hear()).headers)
        assert (await bee.do("UNSUBSCRIBE", id="s")).command == "RECEIPT"
    assert len({one["message-id"] for one in found}) == 2
    bee.say_frame(naming(version, found[0], receipt="r"))
    assert (await bee.answer()).command == "RECEIPT"
    assert await stored(served.side, "eu/1", JOBS) is None, "the work that was done"
    assert (await stored(served.side, "1", EUROPE)).state is State.LOCKED
    bee.say_frame(naming(version, found[1], receipt="r"))
    assert (await bee.answer()).command == "RECEIPT"
    assert await stored(served.side, "1", EUROPE) is None


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_in_a_transaction_a_message_of_a_queue_is_none_of_a_topic(served, version):
    name = NodeName("news/eu")
    await served.broker.handle(a_queue(name, publish_model="open"))
    etl = await served.log_in()
    bee = await served.works(version=version, destination="/queue/news/eu")
    await put(etl, "1", destination="/queue/news/eu")
    found = (await bee.hear()).headers
    await bee.do("UNSUBSCRIBE", id="s")
    await bee.do("SUBSCRIBE", destination="/topic/news", id="s")
    await bee.do("BEGIN", transaction="t")
    bee.say_frame(naming(version, found, receipt="r", transaction="t"))
    assert (await bee.answer()).command == "RECEIPT"
    assert (await bee.do("COMMIT", transaction="t")).command == "RECEIPT"
    assert await stored(served.side, "1", name) is None


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_message_that_comes_again_under_another_subscription_can_be_acknowledged(
    served, version
):
    etl, bee = await served.log_in(), await served.works(version=version)
    await put(etl, "a")
    first = (await bee.hear()).headers
    await bee.do("UNSUBSCRIBE", id="s")
    bee.say_frame(
        Frame("NACK", {**naming(version, first, receipt="r").headers, "outcome": "release"})
        if version == "1.1"
        else naming(version, first, receipt="r")
    )
    assert (await bee.answer()).command == "RECEIPT"
    if version == "1.0":
        await put(etl, "a")
    await bee.do("SUBSCRIBE", destination="/queue/jobs", id="s", ack="client")
    again = (await bee.hear()).headers
    assert again["message-id"] == first["message-id"], "the same item"
    bee.say_frame(naming(version, again, receipt="r"))
    assert (await bee.answer()).command == "RECEIPT"
    assert await stored(served.side, "a") is None


@pytest.mark.parametrize(
    "said",
    [
        b"CONNECT\naccept-version:1.2\nhost:x\nlogin:bee\npasscode:%b\n\n\0DISCONNECT\nreceipt:r\n\n\0",
        b"SEND\ndestination:/queue/jobs\n\nx\0",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["DISCONNECT", "a wrong first frame", "a health check of HTTP"],
)
async def test_nobody_notices_clients_that_end_without_reading(served, said):
    etl = await served.works("etl")
    address = served.face.listener.addresses[0]
    said = said.replace(b"%b", RIGHT.encode())
    with capture_logs() as logs:
        for number in range(300):
            with socket.create_connection(address) as client:
                client.sendall(said)
            if number % 50 == 0:
                await put(etl, f"{number}")
                assert (await etl.hear()).headers["item-id"] == f"{number}"
    assert {line["event"] for line in logs} <= {"worker.subscribed", "worker.arrived"}
