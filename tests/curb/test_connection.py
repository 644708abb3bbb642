"""The seed's behaviours on the wire, each with its number in the note on STOMP (C01 to C27)."""

import asyncio

import pytest
from curb.curbs import CONNECT, Curb, RawClient
from harness.patience import until

from pubqueue.faces.stomp.codec import Frame

SEND = {"destination": "."}


@pytest.fixture
async def curb(tmp_path):
    async with Curb(tmp_path / "curb.journal") as program:
        yield program


@pytest.fixture
async def line(curb):
    return await RawClient.to(curb.port)


def message(number, body, subscription="0"):
    shown = f"{number:08}"
    headers = {"subscription": subscription, "message-id": shown, "ack": shown, "destination": "."}
    return Frame("MESSAGE", {**headers, "content-length": str(len(body))}, body)


async def refused(line, message):
    """The next frame is an ERROR with these words, and the last."""
    found = await line.hear()
    assert (found.command, found.headers["message"]) == ("ERROR", message), found
    assert await line.is_over()
    return found


@pytest.mark.parametrize("command", [b"CONNECT", b"STOMP"])
@pytest.mark.parametrize("host", [b"host:whatever\n", b"host:a:b\n", b""])
async def test_c09_the_server_header_is_that_of_the_seed(curb, command, host):
    line = await RawClient.to(curb.port, connect=False)
    line.say(command + b"\naccept-version:1.1,1.2\nlogin:a\npasscode:b\n" + host + b"\n\0")
    assert (await line.hear()).headers == {
        "version": "1.2",
        "server": "curb/idea.1.0 STOMP 1.2 subset",
        "heart-beat": "10000,10000",
    }


@pytest.mark.parametrize("versions", [b"accept-version:1.0,1.1\n", b""])
async def test_c10_other_versions_are_refused(curb, versions):
    line = await RawClient.to(curb.port, connect=False)
    line.say(b"CONNECT\n" + versions + b"\n\0")
    found = await refused(line, "unsupported version")
    assert found.headers["version"] == "1.2"


async def test_c02_c14_c15_c18_a_message_is_sent_delivered_and_done(curb, line):  # C11, C13, C16
    await line.receipt("SEND", b"hello", destination="a", colour="red")
    assert curb.journal.read_bytes() == b"001 rdy hello\n"
    line.subscribe()
    assert await line.hear() == message(1, b"hello")
    assert curb.journal.read_bytes() == b"001 wip hello\n"
    await line.receipt("ACK", id="00000001")
    assert curb.journal.read_bytes() == b"001 ack hello\n"
    line.frame("ACK", id="00000001", receipt="9")
    found = await refused(line, "no such message")
    assert found.headers["receipt-id"] == "9"


async def test_c17_what_is_nacked_comes_again_with_the_same_id(line):
    await line.receipt("SEND", b"a", **SEND)
    line.subscribe()
    for _ in range(20):
        assert await line.hear() == message(1, b"a")
        line.frame("NACK", id="00000001")


async def test_one_message_at_a_time_for_each_subscriber_and_each_to_one(curb, line):
    for body in (b"a", b"b", b"c"):
        await line.receipt("SEND", body, **SEND)
    other = await RawClient.to(curb.port)
    line.subscribe()
    assert await line.hear() == message(1, b"a")
    other.subscribe("x")
    assert await other.hear() == message(2, b"b", "x")
    await line.receipt("UNSUBSCRIBE", id="0")  # RECEIPT, and no third message
    await other.receipt("ACK", id="00000002")
    assert await other.hear() == message(3, b"c", "x")


@pytest.mark.parametrize("mode", [{}, {"ack": "auto"}, {"ack": "client"}, {"ack": "none"}])
async def test_c12_one_mode_is_supported(line, mode):
    line.frame("SUBSCRIBE", id="0", destination=".", **mode)
    await refused(line, "bad header")


async def test_c19_c20_unsubscribe_pauses_and_what_is_held_can_be_acknowledged(curb, line):
    await line.receipt("SEND", b"a", **SEND)
    await line.receipt("SEND", b"b", **SEND)
    line.subscribe()
    assert await line.hear() == message(1, b"a")
    await line.receipt("UNSUBSCRIBE", id="0")
    await line.receipt("ACK", id="00000001")
    await line.receipt("SEND", b"c", **SEND)
    assert curb.journal.read_bytes() == b"001 ack a\n002 rdy b\n003 rdy c\n"
    line.subscribe("1")
    assert await line.hear() == message(2, b"b", "1")


async def test_c21_a_second_subscription_is_refused_whatever_its_id(curb, line):
    line.subscribe()
    line.subscribe("1")
    await refused(line, "already subscribed")
    other = await RawClient.to(curb.port)
    other.frame("UNSUBSCRIBE", id="0")
    await refused(other, "no such subscription")


async def test_c22_c23_a_client_that_leaves_releases_its_items(curb, line):
    await line.receipt("SEND", b"a", **SEND)
    line.subscribe()
    await line.hear()
    line.frame("DISCONNECT", receipt="77")
    assert await line.hear() == Frame("RECEIPT", {"receipt-id": "77"})
    assert await line.is_over()
    assert curb.journal.read_bytes() == b"001 rdy a\n"
    lost = await RawClient.to(curb.port)
    lost.subscribe()
    assert await lost.hear() == message(1, b"a")
    lost.writer.transport.abort()
    await until(lambda: curb.journal.read_bytes() == b"001 rdy a\n", every=0.01)


async def test_c24_receipts_leave_in_the_order_of_the_frames(line):
    for number in range(2000):
        line.frame("SEND", b"x", destination=".", receipt=str(number))
    for number in range(2000):
        assert await line.hear() == Frame("RECEIPT", {"receipt-id": str(number)})


@pytest.mark.parametrize(
    "frame",
    [
        Frame("BEGIN", {"transaction": "t"}),
        Frame("COMMIT", {"transaction": "t"}),
        Frame("ABORT", {"transaction": "t"}),
        Frame("TOUCH", {"id": "00000001"}),
        Frame("SEND", {"destination": ".", "transaction": "t"}),
    ],
)
async def test_c25_there_are_no_transactions(curb, line, frame):
    line.frame(frame.command, receipt="3", **frame.headers)
    found = await refused(line, "not supported")
    assert found.headers["receipt-id"] == "3"
    assert curb.journal.read_bytes() == b""


async def test_c06_c07_a_full_journal_refuses_and_an_ack_makes_room(tmp_path):
    async with Curb(tmp_path / "j", cap="40") as curb:
        line = await RawClient.to(curb.port)
        await line.receipt("SEND", b"0123456789" * 2, **SEND)
        line.frame("SEND", b"next", destination=".", receipt="1")
        line.frame("SEND", b"x", destination=".")  # behind an ERROR nothing is looked at
        found = await refused(line, "queue full")
        assert found.headers["receipt-id"] == "1"
        assert curb.journal.read_bytes() == b"001 rdy 01234567890123456789\n"
        other = await RawClient.to(curb.port)
        other.subscribe()
        await other.hear()
        await other.receipt("ACK", id="00000001")
        await other.receipt("SEND", b"next", **SEND)
        assert (await other.hear()).body == b"next"
        assert curb.journal.read_bytes() == b"001 ack\n002 wip next\n"


async def test_a_body_that_never_has_room_is_too_large(tmp_path):
    async with Curb(tmp_path / "j", cap="40") as curb:
        line = await RawClient.to(curb.port)
        line.frame("SEND", b"x" * 40, destination=".")
        await refused(line, "body too large")


async def test_c04_any_body_comes_back_byte_for_byte(line):
    line.subscribe()
    for number, body in enumerate([bytes(range(256)), b"\0", b"", b"\\n\n", b"x" * 200_000], 1):
        line.frame("SEND", body, destination=".")
        assert await line.hear() == message(number, body)
        line.frame("ACK", id=f"{number:08}")


async def test_c26_after_a_restart_all_is_ready_and_numbers_rise(curb):
    line = await RawClient.to(curb.port)
    for body in (b"a", b"b", b"c"):
        await line.receipt("SEND", body, **SEND)
    line.subscribe()
    await line.hear()
    await line.receipt("ACK", id="00000001")
    await line.hear()
    await curb.kill()
    assert curb.journal.read_bytes() == b"001 ack a\n002 wip b\n003 rdy c\n"
    await curb.start()
    assert curb.journal.read_bytes() == b"001 ack a\n002 rdy b\n003 rdy c\n"
    line = await RawClient.to(curb.port)
    await line.receipt("SEND", b"d", **SEND)
    line.subscribe()
    for number, body in ((2, b"b"), (3, b"c"), (4, b"d")):
        assert await line.hear() == message(number, body)
        line.frame("ACK", id=f"{number:08}")


async def test_c27_the_count_comes_at_once_and_after_changes(curb, line):
    await line.receipt("SEND", b"a", **SEND)
    watching = await RawClient.to(curb.port)
    watching.frame("SUBSCRIBE", id="n", destination="./count")
    first = await watching.hear()
    assert (first.body, first.headers["destination"]) == (b"1", "./count")
    assert (first.headers["subscription"], "ack" in first.headers) == ("n", False)
    watching.subscribe("q")  # beside the queue's
    assert await watching.hear() == message(1, b"a", "q")
    await watching.receipt("ACK", id="00000001")
    assert (await watching.hear()).body == b"0"
    await watching.receipt("UNSUBSCRIBE", id="n")


# --- what strangers do --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"SEND\ndestination:.\n\nx\0", "not connected"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "unknown command"),
        (b"CONNECT\n" + b"a:" + b"x" * 5000, "header too long"),
        (b"CONNECT\naccept-version:1.2\nheart-beat:x\n\n\0", "bad heart-beat"),
        (CONNECT + CONNECT, "already connected"),
        (CONNECT + b"SEND\ndestination\n\nx\0", "malformed frame"),
        (CONNECT + b"SEND\n\nx\0", "header missing"),
        (
            CONNECT + b"SUBSCRIBE\nid:0\ndestination:.\nack:client-individual\nbrowser:true\n\n\0",
            "not supported",
        ),
        (CONNECT + b"SEND\ndestination:.\ncontent-length:262145\n\n", "body too large"),
    ],
)
async def test_an_error_is_sent_and_ends_its_connection_only(curb, line, data, words):
    wrong = await RawClient.to(curb.port, connect=False)
    wrong.say(data)
    if data.startswith(CONNECT):
        await wrong.hear()
    await refused(wrong, words)
    await line.receipt("SEND", b"still here", **SEND)


async def test_the_last_frame_can_be_read_although_more_was_sent(curb):  # S23
    for _ in range(20):
        line = await RawClient.to(curb.port)
        line.frame("BEGIN", transaction="t")
        line.say(b"x" * 100_000)
        await refused(line, "not supported")


async def test_a_client_that_does_not_read_is_read_no_further_and_others_go_on(curb, line):
    _, writer = await asyncio.open_connection("127.0.0.1", curb.port, limit=1)
    writer.write(CONNECT)
    flood = b"SEND\ndestination:.\nreceipt:" + b"r" * 8000 + b"\n\n\0"
    for _ in range(2000):
        writer.write(flood)  # 16 MB of receipts would come back
    await until(lambda: writer.transport.get_write_buffer_size() > 1 << 20)
    await line.receipt("SEND", b"hello", **SEND)
    assert memory(curb.process.pid) < 150 << 20
    writer.transport.abort()


async def test_five_hundred_that_come_and_go_leave_nothing(curb, line):  # N06
    for _ in range(5):
        many = [await RawClient.to(curb.port, connect=False) for _ in range(100)]
        for one in many:
            one.say(b"\n" * 1000)
        for one in many:
            await one.close()
    await line.receipt("SEND", b"hello", **SEND)


async def test_more_connections_than_the_bound_are_refused(curb):
    lines = [await RawClient.to(curb.port) for _ in range(500)]
    more = await RawClient.to(curb.port, connect=False)
    await refused(more, "too many connections")
    assert len(lines) == 500


def memory(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096
