"""One connection of STOMP, from CONNECT to its end. The names in comments are rows of the checklist."""

import asyncio

import pytest
from faces.contract import stored
from faces.stomp import clients
from faces.stomp.clients import Connection
from faces.stomp.serving import ended, put, serving
from harness.patience import turns

from pubqueue.faces.stomp.codec import COMMANDS, Frame, Side
from pubqueue.faces.stomp.protocol import ACTS, UNDER_WAY, Act, Stage, connected, greeting
from pubqueue.faces.stomp.refusals import Message
from pubqueue.faces.stomp.settings import StompSettings
from pubqueue.model.entities import State

# --- CONNECT, and what is done with each frame ---------------------------------------------------


@pytest.mark.parametrize(
    ("accepted", "version"),
    [
        ("1.2", "1.2"),
        ("1.0,1.1,1.2", "1.2"),
        ("1.1,1.0", "1.1"),
        ("1.0", "1.0"),
        (None, "1.0"),
        ("2.0,1.1", "1.1"),
    ],
)
def test_the_highest_common_version_is_used(accepted, version):
    headers = {} if accepted is None else {"accept-version": accepted}
    found = greeting(Frame("CONNECT", headers), StompSettings())
    assert found.version.name == version
    assert connected(found, StompSettings(), "s").headers["version"] == version


def test_without_a_common_version_ours_are_named():
    no = greeting(
        Frame("CONNECT", {"accept-version": "2.0"}), StompSettings(versions=("1.1", "1.2"))
    )
    assert (no.message, no.headers) == (Message.UNSUPPORTED_VERSION, (("version", "1.1,1.2"),))


@pytest.mark.parametrize(
    ("said", "silence", "pause"),
    [(None, 0, 0), ("0,0", 0, 0), ("1000,0", 21, 0), ("0,20000", 0, 16), ("30000,1", 61, 8)],
)
def test_beats_are_the_larger_of_both(said, silence, pause):
    headers = {"accept-version": "1.2"} | ({} if said is None else {"heart-beat": said})
    found = greeting(Frame("CONNECT", headers), StompSettings())
    assert (found.silence, found.pause) == (silence, pause)
    assert connected(found, StompSettings(), "s").headers["heart-beat"] == "10000,10000"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"heart-beat": "often"}, Message.BAD_HEART_BEAT),
        ({"host": "elsewhere"}, Message.UNKNOWN_HOST),
        ({"host": "here"}, None),
        ({}, None),
    ],
)
def test_what_a_connect_cannot_have(headers, message):
    found = greeting(
        Frame("CONNECT", {"accept-version": "1.2"} | headers), StompSettings(hosts=("here",))
    )
    assert getattr(found, "message", None) == message


def test_a_request_id_is_returned():
    for given, returned in (({"request-id": "7"}, "7"), ({}, None)):
        found = greeting(Frame("CONNECT", {"accept-version": "1.1"} | given), StompSettings())
        assert connected(found, StompSettings(), "s").headers.get("response-id") == returned


def test_a_greeting_does_not_show_the_passcode():
    given = {"accept-version": "1.2", "login": "etl", "passcode": "hidden"}
    assert "hidden" not in f"{greeting(Frame('CONNECT', given), StompSettings())!r}"


def test_what_is_done_with_each_frame_in_each_stage():
    clients = {name for name, row in COMMANDS.items() if row.side is Side.CLIENT}
    openers = {"CONNECT", "STOMP"}
    assert {
        Stage.NEW: {n: Act.CONNECT if n in openers else Act.NOT_CONNECTED for n in clients},
        Stage.PROVING: dict.fromkeys(clients, Act.NOTHING),
        Stage.OPEN: {n: Act.ALREADY_CONNECTED if n in openers else Act.DO for n in clients},
        Stage.ENDING: dict.fromkeys(clients, Act.NOTHING),
    } == ACTS


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
