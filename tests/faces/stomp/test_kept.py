"""What the service keeps of clients of STOMP counts in the budget of the process, and is gone when they are."""

import socket
from functools import partial
from unittest.mock import Mock

import pytest
from faces.contract import stored
from faces.stomp import clients
from faces.stomp.clients import Connection
from faces.stomp.serving import BOSS, INDIVIDUAL, ended, put, serving
from harness.batches.facts import JOBS
from harness.batches.queue_requests import a_queue
from harness.patience import until
from harness.servers.users import SERVICE

from pubqueue.faces.listener.budget import KEPT, SHARES, SMALL, STRANGERS
from pubqueue.faces.stomp.client import OVERHEAD, Answers, Wire, size_of
from pubqueue.faces.stomp.codec import COMMANDS, V12, Fault, Frame, FrameReader, Side, write
from pubqueue.faces.stomp.protocol import MAX_BYTES_BEFORE_LOGIN
from pubqueue.model.entities import ItemId, Jid, NodeName, State
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.settle import Settle, Verb

ETL, BEE = f"etl@{SERVICE}", f"bee@{SERVICE}"
BODY = b"x" * 200_000
LARGE = {"publish_model": "open", "max_payload_size": 300_000}
CLIENTS = [name for name, row in COMMANDS.items() if row.side is Side.CLIENT]


@pytest.fixture
async def served():
    """Have a queue and a topic that take large bodies."""
    async with serving() as it:
        await it.broker.handle(a_queue(NodeName("large"), **LARGE))
        topic = Settings({"access_model": "open", **LARGE})
        await it.broker.handle(Declare(BOSS, NodeName("flash"), topic, (Jid("boss@x"),)))
        yield it


def frame_of(command, size, **more):
    """Return a frame of the client with a header of about so many bytes on each of two lines."""
    needs = dict.fromkeys(COMMANDS[command].needs[-1], "/queue/jobs")
    return Frame(command, {**needs, "one": "1" * size, "two": "2" * size} | more)


async def unfinished(connection, frame):
    """Send all of a frame but its NUL."""
    connection.write(write(frame, V12)[:-2])


async def begun(served, name="etl", body=BODY):
    """Log in and send all of a SEND but its last byte; return once it is counted."""
    one = await served.log_in(name)
    before = KEPT.of(f"{name}@{SERVICE}")
    more = {"destination": "/queue/large", "receipt": "r"}
    await unfinished(one, Frame("SEND", more, body))
    await until(lambda: KEPT.of(f"{name}@{SERVICE}") >= before + len(body))
    return one


def slow(served, connection):
    """Have the socket take little, and the client read nothing."""
    connection.writer.transport.pause_reading()
    inner = connection.writer.get_extra_info("socket")
    inner.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    port = inner.getsockname()[1]
    (found,) = [
        one.connection
        for one in served.face.protocols
        if one.connection.socket.getpeername()[1] == port
    ]
    found.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)


@pytest.fixture(autouse=True)
def nothing_is_left():
    assert KEPT.size == 0
    yield
    assert KEPT.size == 0


# --- frames that are not whole -------------------------------------------------------------------


@pytest.mark.parametrize("command", CLIENTS)
async def test_of_a_stranger_all_but_the_last_byte_of_each_frame_is_counted(served, command):
    stranger = await Connection.to(served.face)
    frame = frame_of(command, 2_000)
    await unfinished(stranger, frame)
    await until(lambda: KEPT.of(STRANGERS) > 4_000)
    stranger.writer.transport.abort()
    await until(lambda: KEPT.size == 0)


@pytest.mark.parametrize("command", CLIENTS)
async def test_of_a_client_all_but_the_last_byte_of_each_frame_is_counted(served, command):  # N28
    etl = await served.log_in()
    await unfinished(etl, frame_of(command, 8_000))
    await until(lambda: KEPT.of(ETL) > 16_000)
    etl.writer.transport.abort()
    await until(lambda: KEPT.size == 0)


async def test_half_a_head_is_counted_too(served):
    etl = await served.log_in()
    etl.write(write(frame_of("BEGIN", 8_000), V12)[:16_000])
    await until(lambda: KEPT.of(ETL) >= 16_000)
    etl.writer.transport.abort()
    await until(lambda: KEPT.size == 0)


async def test_a_frame_that_is_whole_is_not_kept(served):
    etl = await begun(served)
    etl.write(b"\0")
    assert (await etl.answer()).command == "RECEIPT"
    await until(lambda: KEPT.size == 0)


async def test_what_was_read_needs_no_memory():
    reader = FrameReader()
    reader.agree(V12)
    reader.receive(write(Frame("SEND", {"destination": "a"}, BODY), V12) + b"SEND\n")
    assert reader.next_event().body == BODY
    assert reader.kept == len(b"SEND\n"), "the line end behind the frame is read with it"


async def test_the_head_of_a_body_that_is_awaited_counts_as_much_memory_as_it_needs():
    reader = FrameReader()
    reader.agree(V12)
    head = frame_of("SEND", 8_000, three="\N{GRINNING FACE}" + "3" * 7_000)
    reader.receive(write(head, V12)[:-2])
    assert reader.next_event() is None
    assert reader.kept >= 16_000 + 4 * 7_000, "four bytes a letter"
    reader.receive(b"wrong")
    assert isinstance(reader.next_event(), Fault)
    assert reader.kept == 0


async def test_little_may_come_behind_a_connect(served):
    connect = Frame("CONNECT", {"accept-version": "1.2", "login": "etl", "passcode": clients.RIGHT})
    patient, hasty = [await Connection.to(served.face) for _ in "ab"]
    behind = write(Frame("SEND", {"destination": "/queue/jobs", "receipt": "r"}, b"x" * 4_000), V12)
    patient.write(write(connect, V12) + behind)
    assert [(await patient.hear()).command for _ in "ab"] == ["CONNECTED", "RECEIPT"]
    hasty.write(write(connect, V12) + b"\n" * MAX_BYTES_BEFORE_LOGIN + b"x" * 100_000)
    await ended(hasty, "not connected")


async def test_a_connection_that_ends_keeps_nothing(served):
    etl = await begun(served)
    (protocol,) = served.face.protocols
    protocol.connection.dismiss()
    assert KEPT.size == 0, "although the client has not closed"
    await ended(etl, "connection ended")


async def test_of_the_account_with_most_the_oldest_is_given_up_and_others_go_on(
    served, monkeypatch
):  # N28
    ann = await begun(served, "ann", b"x" * 150_000)
    etl, other = [await begun(served) for _ in "ab"]
    monkeypatch.setattr(KEPT, "most", 600_000)
    bee = await begun(served, "bee", b"x" * 100_000)
    await ended(etl, "too much kept")
    for one in (ann, other, bee):
        one.write(b"\0")
        assert (await one.answer()).command == "RECEIPT"
    await until(lambda: KEPT.size == 0)


async def test_what_a_client_held_that_was_given_up_is_with_another(served, monkeypatch):
    bee, etl = await served.works(**INDIVIDUAL), await served.log_in()
    await put(etl, "a")
    await bee.hear()
    monkeypatch.setattr(KEPT, "most", 100_000)
    await unfinished(bee, Frame("SEND", {"destination": "/queue/jobs"}, BODY))
    await ended(bee, "too much kept")
    ann = await served.works("ann", **INDIVIDUAL)
    assert (await ann.hear()).headers["item-id"] == "a"


# --- frames that are kept, and what they leave -----------------------------------------------------


async def test_transactions_count_with_their_headers_until_they_end(served):  # N28
    etl = await served.log_in()
    for name in "ab":
        await etl.do("BEGIN", transaction=name)
        for _ in range(3):
            etl.say_frame(frame_of("SEND", 8_000, transaction=name))
    await etl.do("BEGIN", transaction="c")
    await until(lambda: KEPT.of(ETL) >= 6 * 16_000)
    await etl.do("COMMIT", transaction="a")
    await until(lambda: 3 * 16_000 <= KEPT.of(ETL) < 4 * 16_000)
    await etl.do("ABORT", transaction="b")
    await until(lambda: KEPT.size == 0)


async def test_the_headers_of_a_transaction_are_bounded(served):
    etl = await served.log_in()
    await etl.do("BEGIN", transaction="t")
    for _ in range(300):
        etl.say_frame(frame_of("SEND", 8_000, transaction="t"))
    await ended(etl, "transaction too large")


async def test_acknowledgements_in_a_transaction_count(served):
    bee, etl = await served.works(ack="client"), await served.log_in()
    await put(etl, *map(str, range(20)))
    acks = [(await bee.hear()).headers["ack"] for _ in range(20)]
    await bee.do("BEGIN", transaction="t")
    await bee.do("ACK", id=acks[-1], transaction="t")
    await until(lambda: KEPT.of(BEE) >= 20 * OVERHEAD)
    await bee.do("COMMIT", transaction="t")
    await until(lambda: KEPT.size == 0)


def test_a_frame_costs_its_headers_until_it_is_answered():
    frame = frame_of("SEND", 8_000, receipt="r" * 8_000)
    assert size_of(frame) > 24_000
    assert size_of(Frame("SEND", {}, BODY)) >= OVERHEAD + len(BODY)


async def test_long_names_of_subscriptions_count(served):
    etl = await served.log_in()
    for number in "12":
        answer = await etl.do("SUBSCRIBE", destination="/queue/jobs", id=number * 8_000)
        assert answer.command == "RECEIPT"
    await until(lambda: KEPT.of(ETL) >= 16_000)
    for number in "12":
        await etl.do("UNSUBSCRIBE", id=number * 8_000)
    await until(lambda: KEPT.size == 0)


async def test_messages_whose_locks_are_over_count_until_they_are_acknowledged(served):
    bee, etl = await served.works(ack="client-individual", prefetch_count=40), await served.log_in()
    names = [f"{number}" for number in range(40)]
    await put(etl, *names)
    acks = [(await bee.hear()).headers["ack"] for _ in names]
    await served.broker.handle(Settle(BOSS, JOBS, tuple(map(ItemId, names)), Verb.RETRACT))
    bee.write(b"\n")
    await until(lambda: KEPT.of(BEE) > 40 * 200)
    for ack in acks:
        assert (await bee.do("ACK", id=ack)).headers["outcome"] == "lost"
    await until(lambda: KEPT.size == 0)


# --- messages that wait for clients that do not read -------------------------------------------------


async def test_an_account_with_much_unread_gets_no_more_and_everything_in_the_end(
    served, monkeypatch
):  # N28
    monkeypatch.setattr(KEPT, "most", SHARES * 500_000)
    etl = await served.log_in()
    names = [f"{number}" for number in range(6)]
    for name in names:
        await etl.do("SEND", BODY, destination="/queue/large", item_id=name)
    bees = [await served.log_in("bee") for _ in names]
    for bee in bees:
        slow(served, bee)
        bee.say("SUBSCRIBE", destination="/queue/large", id="s", **INDIVIDUAL)
    await until(lambda: KEPT.of(BEE) > 300_000)
    await served.broker.settled()
    assert KEPT.of(BEE) <= 500_000
    held = [(await stored(served.side, name, "large")).state for name in names]
    assert held.count(State.LOCKED) == 2, "and the others are for somebody else"
    for bee in bees:
        bee.writer.transport.resume_reading()
    heard = {(await bee.hear()).headers["item-id"] for bee in bees}
    assert heard == set(names), "each has got one, and none was lost"
    assert len(served.face.protocols) == 7
    await until(lambda: KEPT.of(BEE) == 0)


async def test_what_has_no_room_at_one_account_goes_to_another(served, monkeypatch):  # N28
    monkeypatch.setattr(KEPT, "most", SHARES * 300_000)
    etl = await served.log_in()
    bees = [await served.log_in("bee") for _ in range(3)]
    for bee in bees:
        slow(served, bee)
        bee.say("SUBSCRIBE", destination="/queue/large", id="s", **INDIVIDUAL)
    for number in range(3):
        await etl.do("SEND", BODY, destination="/queue/large", item_id=f"{number}")
    await until(lambda: KEPT.of(BEE) > 100_000)
    await served.broker.settled()
    items = [await stored(served.side, f"{number}", "large") for number in range(3)]
    assert [one.state for one in items].count(State.LOCKED) == 1
    assert max(one.released for one in items) <= 2, "each client without room is asked once"
    ann = await served.works("ann", destination="/queue/large", prefetch_count=3, **INDIVIDUAL)
    heard = {(await ann.hear()).headers["item-id"] for _ in range(2)}
    assert len(heard) == 2


async def test_small_messages_go_on_while_others_of_the_account_read_nothing(served, monkeypatch):
    etl, lazy, bee = await served.log_in(), await served.log_in("bee"), await served.log_in("bee")
    slow(served, lazy)
    lazy.say("SUBSCRIBE", destination="/queue/large", id="s", **INDIVIDUAL)
    await etl.do("SEND", BODY, destination="/queue/large")
    await until(lambda: KEPT.of(BEE) > 100_000)
    monkeypatch.setattr(KEPT, "most", SHARES * 100_000)
    await bee.do("SUBSCRIBE", destination="/queue/large", id="s", **INDIVIDUAL)
    await etl.do("SEND", b"small", destination="/queue/large")
    assert (await bee.hear()).body == b"small"


async def test_what_waits_for_the_receipt_of_subscribe_and_has_no_room_then_goes_back(
    served, monkeypatch
):
    etl, bee = await served.log_in(), await served.log_in("bee")
    (protocol,) = [one for one in served.face.protocols if one.address.startswith("bee@")]
    made, add = [], Answers.add
    monkeypatch.setattr(Answers, "add", lambda *given: made.append(given[0]) or add(*given))
    await bee.do("BEGIN", transaction="t")
    answers = made[0]
    first = answers.add("first", 0)
    bee.say("SUBSCRIBE", destination="/queue/large", id="s", receipt="r", **INDIVIDUAL)
    await until(lambda: protocol.session.subscriptions.named)
    await etl.do("SEND", BODY, destination="/queue/large", item_id="a")
    await served.broker.settled()
    assert (await stored(served.side, "a", "large")).state is State.LOCKED
    monkeypatch.setattr(KEPT, "most", SHARES * 300_000)
    other = Mock()
    KEPT.note(other, protocol.connection.user, 299_000)
    answers.done(first)
    await served.broker.settled()
    assert (await stored(served.side, "a", "large")).state is State.QUEUED
    KEPT.forget(other)
    assert [(await bee.hear()).command for _ in "abc"] == ["RECEIPT", "RECEIPT", "MESSAGE"]


class Unread:
    """A connection whose client reads nothing."""

    unsent, is_full, is_open, is_expected = 0, False, True, False

    def may_keep(self, _size):
        return True

    def write(self, data):
        self.unsent += len(data)

    def expect_reading(self):
        self.is_expected = True


async def test_what_the_socket_has_not_taken_is_not_done():
    connection, done = Unread(), []
    wire = Wire(connection, lambda: None, lambda: None)
    for name in "abc":
        assert wire.offer(BODY, partial(done.append, name))
    assert wire.waiting == 3 * len(BODY)
    wire.drain(partial(done.append, "end"))
    assert (done, connection.is_expected) == ([], True), "what is sent before the end is waited for"
    connection.unsent = 1
    wire.note_taken()
    assert done == [], "one byte of the only one that was sent is missing"
    connection.unsent, connection.is_open = 0, False
    wire.drop()
    assert done == [], "a transport that has ended has dropped what waited"


async def test_the_end_comes_after_the_messages_that_were_sent_and_without_those_that_wait():
    connection, done = Unread(), []
    wire = Wire(connection, lambda: None, lambda: None)
    for name in "abc":
        assert wire.offer(BODY, partial(done.append, name))
    wire.drain(partial(done.append, "end"))
    connection.unsent = 0
    wire.note_taken()
    assert done == ["a", "end"]
    wire.release()
    assert (wire.waiting, done) == (0, ["a", "end"])


async def test_in_mode_auto_all_before_the_receipt_of_disconnect_is_done_and_nothing_else(served):
    etl, names = await served.log_in(), "abc"
    bee = await served.works("bee", destination="/queue/large", ack="auto")
    slow(served, bee)
    for name in names:
        answer = await etl.do("SEND", BODY, destination="/queue/large", item_id=name)
        assert answer.command == "RECEIPT"
    bee.say("DISCONNECT", receipt="last")
    bee.writer.transport.resume_reading()
    heard = [(await bee.hear()).headers]
    while "item-id" in heard[-1]:
        heard.append((await bee.hear()).headers)
    got = [one["item-id"] for one in heard[:-1]]
    assert heard[-1] == {"receipt-id": "last"}
    left = {name: await stored(served.side, name, "large") for name in names}
    assert [name for name, item in left.items() if item is None] == got
    released = [item for item in left.values() if item is not None]
    assert {(item.state, item.failed) for item in released} <= {(State.QUEUED, 0)}


async def test_in_mode_auto_what_waits_here_when_the_connection_breaks_comes_again(served):
    etl = await served.log_in()
    bee = await served.works("bee", destination="/queue/large", ack="auto")
    slow(served, bee)
    answer = await etl.do("SEND", BODY, destination="/queue/large", item_id="a")
    assert answer.command == "RECEIPT"
    await until(lambda: any(one.connection.unsent for one in served.face.protocols))
    bee.writer.transport.abort()
    await until(lambda: len(served.face.protocols) == 1)
    await served.broker.settled()
    item = await stored(served.side, "a", "large")
    assert (item.state, item.failed) == (State.QUEUED, 1)


async def test_much_is_counted_before_it_is_sent():
    noted = []
    wire = Wire(Unread(), lambda: None, lambda: noted.append(wire.waiting))
    for _ in "abc":
        assert wire.offer(BODY, may_wait=False)
    assert noted == [len(BODY), 2 * len(BODY), 3 * len(BODY)]
    wire.forget()
    assert wire.waiting == 0


async def test_news_that_nobody_reads_are_bounded_too(served, monkeypatch):
    etl = await served.log_in()
    bees = [await served.works("bee", destination="/topic/flash", ack="auto") for _ in range(4)]
    for bee in bees:
        slow(served, bee)
    monkeypatch.setattr(KEPT, "most", 500_000)
    await etl.do("SEND", BODY, destination="/topic/flash", item_id="a")
    await until(lambda: len(served.face.protocols) == 3)
    assert SMALL < KEPT.of(BEE) <= 500_000
    for bee in bees[2:]:
        bee.writer.transport.resume_reading()
        assert (await bee.hear()).headers["item-id"] == "a"
