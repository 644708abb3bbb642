"""The front of gRPC: frames in any pieces, what is kept of calls, connections that are too many or too long without an account."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import count
from os import F_OK, access, listdir, stat
from time import monotonic
from unittest.mock import MagicMock

import grpc
import pytest
from faces.grpc import clients
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub, code_of
from faces.grpc.test_callers import basic
from grpc import StatusCode
from harness.patience import TIMEOUT, until
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.engine.connections import Reason
from pubqueue.faces.grpc import front as module
from pubqueue.faces.grpc import wire
from pubqueue.faces.grpc.front import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENTRY,
    GOAWAY,
    HEAD,
    HEADERS,
    MAX_FRAME,
    MAX_MESSAGE,
    NUMBER,
    PADDED,
    PREFACE,
    PREFIX,
    RST_STREAM,
    Front,
    Relay,
    Stream,
    frame,
)
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.faces.listener.budget import STRANGERS, Budget

TOPIC = "projects/shop/topics/orders"
PUBLISH, PULL = f"/{PUBLISHER}/Publish", f"/{SUBSCRIBER}/StreamingPull"
CHECK = "/grpc.health.v1.Health/Check"
SETTINGS, PING, WINDOW_UPDATE = 4, 6, 8
CALM = 11


def message(size, flag=0):
    return bytes([flag]) + size.to_bytes(4) + bytes(size)


# --- what is kept of a call


def a_stream(most=1 << 20):
    front = Front("grpc", budget=Budget(most))
    relay = Relay(front, MagicMock(is_open=True, is_full=False, peer="192.0.2.1"))
    relay.streams[1] = Stream(relay, 1)
    return relay.streams[1], front.budget


@given(st.lists(st.integers(0, 9_000), max_size=6), st.lists(st.integers(1, 9_000), min_size=1))
def test_messages_are_counted_in_any_pieces(sizes, pieces):
    stream, budget = a_stream()
    data = b"".join(map(message, sizes)) + message(8_000)[:-1]
    at, turn = 0, count()
    while at < len(data):
        some = pieces[next(turn) % len(pieces)]
        stream.came(data, at, min(len(data), at + some))
        at += some
    assert budget.of(STRANGERS) == len(data) + ENTRY * len(sizes)
    for _ in sizes:
        stream.read(0)
    assert budget.of(STRANGERS) == PREFIX + 7_999
    stream.answers(100)
    stream.belongs("etl")
    assert (budget.of(STRANGERS), budget.of("etl")) == (0, PREFIX + 8_099)


def test_padding_does_not_count():
    stream, budget = a_stream()
    data = message(9_000)[:-1]
    stream.relay.server_made(MagicMock())
    stream.relay.data_received(
        frame(DATA, b"\x05" + data[:3] + bytes(5), stream=1, flags=PADDED)
        + frame(DATA, b"\xff" + data[3:] + bytes(255), stream=1, flags=PADDED)
        + frame(DATA, b"", stream=1, flags=PADDED)
    )
    assert budget.of(STRANGERS) == len(data)


async def test_what_comes_next_is_known_from_its_head():
    stream, _ = a_stream()
    stream.came(message(9), 0, PREFIX - 1)
    coming = asyncio.create_task(stream.coming())
    stream.came(message(9), PREFIX - 1, PREFIX)
    assert await coming == 9
    stream.came(bytes(9) + message(50, flag=1) + message(1 << 20, flag=1)[:PREFIX], 0, 9 + 55 + 5)
    stream.read(9)
    assert await stream.coming() == 50 * 1_032, "a compressed one may become larger"
    stream.read(50)
    assert await stream.coming() == MAX_MESSAGE
    stream.read(0)
    stream.over()
    assert await stream.coming() == 0


def passed_on(pieces, answers):
    """Return what the server and the client get, if they send in these pieces."""
    relay = Relay(Front("grpc", Budget()), MagicMock(is_open=True, is_full=False, peer="192.0.2.1"))
    server = MagicMock()
    relay.server_made(server)
    for one in pieces:
        relay.data_received(one)
    for one in answers:
        relay.sent(one)
    assert [*relay.streams] == [3]
    to_server = b"".join(call.args[0] for call in server.write.call_args_list)
    return to_server, b"".join(call.args[0] for call in relay.connection.write.call_args_list)


def test_frames_are_passed_on_whichever_way_they_are_cut():
    data = frame(HEADERS, b"abc", stream=1, flags=END_HEADERS) + frame(HEADERS, b"d", stream=3)
    data += frame(CONTINUATION, b"ef", stream=3, flags=END_HEADERS) + frame(
        DATA, message(9), stream=1
    )
    reply = frame(HEADERS, b"x", stream=1) + frame(CONTINUATION, b"yz", stream=1, flags=END_HEADERS)
    reply += frame(DATA, b"data", stream=1) + frame(HEADERS, b"t", stream=1, flags=END_STREAM | 4)
    whole = passed_on([data], [reply])
    assert whole[1] == reply
    assert whole[0].startswith(PREFACE + frame(HEADERS, b"abc", stream=1) + bytes(2))
    assert whole[0].endswith(frame(DATA, message(9), stream=1))
    for at in range(1, len(data)):
        assert passed_on([data[:at], data[at:]], [reply]) == whole
    for at in range(1, len(reply)):
        assert passed_on([data], [reply[:at], reply[at:]]) == whole


def test_frames_of_ours_stand_between_frames_of_the_server():
    reply = frame(HEADERS, b"x", stream=3) + frame(CONTINUATION, b"yz", stream=3, flags=END_HEADERS)
    reply += frame(DATA, b"data", stream=3)
    ours = frame(RST_STREAM, CALM.to_bytes(4), stream=1)
    first, last = len(reply) - len(frame(DATA, b"data")), len(reply)
    places = dict.fromkeys(range(HEAD), 0) | dict.fromkeys(range(HEAD, first + HEAD), first)
    for at in range(1, len(reply)):
        stream, _ = a_stream()
        relay = stream.relay
        relay.server_made(MagicMock())
        relay.sent(reply[:at])
        stream.give_up()
        relay.sent(reply[at:])
        found = b"".join(call.args[0] for call in relay.connection.write.call_args_list)
        place = places.get(at, last)
        assert found == reply[:place] + ours + reply[place:]


# --- on the wire: a client that says every frame itself


class Raw:
    """Speaks HTTP/2 without a library."""

    def __init__(self, reader, writer):
        self.reader, self.writer, self.numbers = reader, writer, count(1, 2)
        self.frames = []
        self.writer.write(PREFACE + frame(SETTINGS))

    def open(self, path, *fields, ends=0):
        """Begin a call, and return its number."""
        number = next(self.numbers)
        self.writer.write(frame(HEADERS, headers(path, *fields), stream=number, flags=4 | ends))
        return number

    def data(self, number, data, flags=0):
        self.writer.write(frame(DATA, data, stream=number, flags=flags))

    async def until(self, kind, number):
        """Return the body of the next frame of the kind on the stream."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                head = await self.reader.readexactly(HEAD)
                body = await self.reader.readexactly(int.from_bytes(head[:3]))
                self.frames.append((head[3], int.from_bytes(head[5:])))
                if head[3] == SETTINGS and not head[4]:
                    self.writer.write(frame(SETTINGS, flags=1))
                if self.frames[-1] == (kind, number):
                    return body

    async def is_read(self):
        """Return when all that was said has been read: bytes that are not would reset the connection at its end."""
        await self.until(SETTINGS, 0)
        self.writer.write(frame(PING, b"all read"))
        while await self.until(PING, 0) != b"all read":
            pass

    async def end(self):
        """Read to the end of the connection."""
        async with asyncio.timeout(TIMEOUT):
            return await self.reader.read()


def headers(path, *fields):
    own = ((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"))
    more = (("te", "trailers"), ("content-type", "application/grpc"), *fields)
    return b"".join(b"\0" + text(name) + text(value) for name, value in (*own, *more))


def text(word):
    """Return a text as HPACK has it, of up to 253 bytes."""
    head = bytes([len(word)]) if len(word) < 127 else bytes([127, len(word) - 127])
    return head + word.encode()


@pytest.fixture
def make_face():
    return lambda broker: clients.a_face(broker, GrpcSettings())


@pytest.fixture
async def stub(side, channel):
    await Stub(channel, PUBLISHER, basic("etl")).CreateTopic(name=TOPIC)
    return Stub(channel, PUBLISHER, basic("etl"))


@asynccontextmanager
async def raw(side):
    reader, writer = await asyncio.open_connection(*side.face.addresses[0])
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


@pytest.fixture
async def client(side, stub):
    async with raw(side) as one:
        yield one


def published(size=10):
    request = m.PublishRequest(topic=TOPIC, messages=[m.PubsubMessage(data=bytes(size))])
    data = request.SerializeToString()
    return b"\0" + len(data).to_bytes(4) + data


async def answer_of(client, number):
    """Return the answer of the call."""
    body = await client.until(DATA, number)
    return m.PublishResponse.FromString(body[PREFIX:])


async def test_a_call_in_single_bytes_is_answered(client):
    request = frame(HEADERS, headers(PUBLISH, *basic("etl")), stream=1, flags=END_HEADERS)
    data = published()
    request += frame(DATA, data[:7], stream=1) + frame(DATA, data[7:], stream=1, flags=END_STREAM)
    for byte in request:
        client.writer.write(bytes([byte]))
        await client.writer.drain()
    assert (await answer_of(client, 1)).message_ids


async def test_headers_in_two_frames_are_understood(side, client):
    block = headers(PUBLISH, *basic("etl"))
    client.writer.write(frame(HEADERS, block[:40], stream=1))
    client.writer.write(frame(CONTINUATION, block[40:], stream=1, flags=END_HEADERS))
    data = published(9_000)
    client.data(1, data[:-1])
    await until(lambda: side.face.front.budget.of(f"etl@{side.broker.service}") == len(data) - 1)
    client.data(1, data[-1:], flags=END_STREAM)
    assert (await answer_of(client, 1)).message_ids
    assert not side.face.front.budget.size


async def test_a_number_that_a_client_makes_up_does_not_count(client):
    number = client.open(PUBLISH, *basic("etl"), (NUMBER, "7"))
    client.data(number, published(), flags=END_STREAM)
    assert (await answer_of(client, number)).message_ids


async def test_nobody_calls_past_the_front(side):
    for peer in ("unix:/tmp/other/77", "ipv4:127.0.0.1:1", ""):
        with pytest.raises(CallError):
            side.face.front.stream_of(peer, ((NUMBER, "1"),))


# --- bytes that are not whole


@pytest.fixture
def small(side, monkeypatch):
    """Have the budget of the face be small; it is that of the process."""
    budget = side.face.front.budget
    monkeypatch.setattr(budget, "most", 30_000)
    return budget


async def test_a_call_is_given_up_alone(side, client, small):
    first, second = client.open(PUBLISH, *basic("etl")), client.open(PUBLISH, *basic("etl"))
    data = published(21_000)
    for number in (first, second):
        for at in range(0, 20_000, 10_000):
            client.data(number, data[at : at + 10_000])
    body = await client.until(RST_STREAM, first)
    assert int.from_bytes(body) == CALM
    assert (RST_STREAM, second) not in client.frames
    assert small.size <= small.most
    client.data(first, data[20_000:], flags=END_STREAM)  # it has not heard of the end yet
    client.data(second, data[20_000:], flags=END_STREAM)
    assert (await answer_of(client, second)).message_ids
    assert side.face.front.listener.counts.ended[Reason.MEMORY] == 1


@pytest.mark.parametrize("path", [PUBLISH, PULL, CHECK])
@pytest.mark.parametrize("metadata", [basic("bee"), ()])
async def test_messages_that_are_not_whole_stay_within_the_budget(
    side, stub, small, path, metadata
):
    highest = 0
    for _ in range(3):
        async with raw(side) as flood:
            numbers = [flood.open(path, *metadata) for _ in range(8)]
            for at in range(3):
                for number in numbers:
                    flood.data(number, bytes(2_500) if at else message(60_000)[:2_500])
            await flood.writer.drain()
            for _ in range(3):
                assert (
                    await stub.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=b"x")])
                ).message_ids
                highest = max(highest, small.size)
    assert highest <= small.most
    await until(lambda: not small.size)


PATHS = [
    f"/{name}/{rpc}"
    for name in (
        PUBLISHER,
        SUBSCRIBER,
        clients.TECH_PUBLISHER,
        clients.TECH_SUBSCRIBER,
        clients.IAM,
    )
    for rpc in wire.service(name).methods_by_name
]


async def test_all_but_the_last_byte_of_a_request_of_each_rpc_counts_for_its_account(side, client):
    budget = side.face.front.budget
    for path in PATHS:
        number = client.open(path, *basic("bee"))
        client.data(number, message(9_000)[:-1])
        await until(lambda: budget.of(f"bee@{side.broker.service}") == PREFIX + 9_000 - 1)
        client.writer.write(frame(RST_STREAM, CALM.to_bytes(4), stream=number))
        await until(lambda: not budget.size)


async def test_many_small_messages_that_are_not_read_count(side, client):
    number = client.open(PUBLISH, *basic("etl"))
    client.data(number, published() + message(0) * 3_000)
    await until(lambda: side.face.front.budget.of(f"etl@{side.broker.service}") >= 3_000 * ENTRY)


async def test_large_messages_of_an_account_are_read_as_there_is_room(side, client, monkeypatch):
    answering = side.face.answering
    monkeypatch.setattr(answering.reading, "each", MAX_MESSAGE)
    first, second = client.open(PUBLISH, *basic("etl")), client.open(PUBLISH, *basic("etl"))
    client.data(first, message(MAX_MESSAGE)[: MAX_FRAME - 100])
    client.data(second, message(300_000)[: MAX_FRAME - 100])
    third = client.open(PUBLISH, *basic("etl"))
    client.data(third, published(), flags=END_STREAM)
    assert (await answer_of(client, third)).message_ids, "small ones do not wait"
    assert (WINDOW_UPDATE, second) not in client.frames
    client.writer.write(frame(RST_STREAM, CALM.to_bytes(4), stream=first))
    await client.until(WINDOW_UPDATE, second)


# --- frames that are too large, and what is no HTTP/2


@pytest.mark.parametrize(
    "data",
    [
        frame(DATA, bytes(MAX_FRAME + 1), stream=1)[:HEAD],
        frame(HEADERS, bytes(MAX_FRAME), stream=1)
        + frame(CONTINUATION, bytes(MAX_FRAME), stream=1) * 5,
    ],
    ids=["frame", "headers"],
)
async def test_too_large_a_frame_ends_the_connection_alone(side, client, stub, data):
    await client.until(SETTINGS, 0)
    client.writer.write(data)
    await client.end()
    assert (await stub.GetTopic(topic=TOPIC)).name == TOPIC


async def test_what_is_no_http_2_ends_without_a_connection_to_the_server(side, stub):
    reader, writer = await asyncio.open_connection(*side.face.addresses[0])
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
    writer.close()


# --- connections


class TestFew:
    @pytest.fixture
    def make_face(self, monkeypatch):
        bounds = module.Bounds(login=3_600, per_peer=2, per_user=1)
        monkeypatch.setattr(module, "BOUNDS", bounds)
        return lambda broker: clients.a_face(broker, GrpcSettings())

    async def test_connections_of_an_address_are_limited(self, side):
        async with raw(side) as one, raw(side), raw(side) as third:
            assert await third.end() == b""
            await one.until(SETTINGS, 0)
        assert side.face.front.listener.counts.ended[Reason.PEER] == 1

    async def test_a_connection_without_an_account_ends_and_others_stay(self, side, channel):
        stub = Stub(channel, PUBLISHER, basic("etl"))
        await stub.CreateTopic(name=TOPIC)
        async with raw(side) as stranger:
            await stranger.is_read()
            for one in tuple(side.face.front.listener.connections):
                one.look(monotonic() + 3_600)
            assert (await stranger.until(GOAWAY, 0))[4:8] == bytes(4)
            assert not await stranger.end()
        assert side.face.front.listener.counts.ended[Reason.LOGIN] == 1
        assert channel.get_state() is grpc.ChannelConnectivity.READY
        assert (await stub.GetTopic(topic=TOPIC)).name == TOPIC

    async def test_a_connection_with_a_call_of_health_stays(self, side):
        async with raw(side) as prober:
            number = prober.open("/grpc.health.v1.Health/Watch")
            prober.data(number, message(0), flags=END_STREAM)
            await prober.until(DATA, number)
            (one,) = side.face.front.listener.connections
            one.look(monotonic() + 7_200)
            assert one.is_open
            (relay,) = side.face.front.relays.values()
            prober.writer.write(frame(RST_STREAM, CALM.to_bytes(4), stream=number))
            await until(lambda: not relay.asked)
            one.look(monotonic() + module.BETWEEN - 1)
            assert one.is_open
            one.look(monotonic() + module.BETWEEN + 1)
            await prober.end()

    async def test_a_user_has_too_many_connections(self, side, channel):
        await Stub(channel, PUBLISHER, basic("etl")).CreateTopic(name=TOPIC)
        host, port = side.face.addresses[0]
        other = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"{host}:{port}", other) as second:
            call = Stub(second, PUBLISHER, basic("etl")).GetTopic(topic=TOPIC)
            assert await code_of(call) is StatusCode.RESOURCE_EXHAUSTED
            call = Stub(second, PUBLISHER, basic("bee")).GetTopic(topic=TOPIC)
            assert await code_of(call) is StatusCode.NOT_FOUND


async def test_many_calls_at_once_wait_in_their_connections_and_all_are_answered(
    side, channel, stub, monkeypatch
):
    monkeypatch.setattr(module, "NOT_BEGUN", 3)
    monkeypatch.setattr(module, "FEW", 1)
    calls = [stub.GetTopic(topic=TOPIC) for _ in range(200)]
    assert {one.name for one in await asyncio.gather(*calls)} == {TOPIC}
    assert not side.face.front.not_begun
    assert not side.face.front.waiting


async def test_a_face_that_stops_with_open_calls_leaves_nothing(side, client):
    number = client.open(PUBLISH, *basic("etl"))
    client.data(number, message(60_000)[:16_000])
    await until(lambda: side.face.front.budget.size)
    folder = side.face.front.folder
    assert stat(folder).st_mode & 0o777 == 0o700
    assert listdir(folder) == ["server"]
    await asyncio.wait_for(side.face.stop(), TIMEOUT)
    await client.end()
    assert not access(folder, F_OK)
    assert not side.face.front.budget.size
