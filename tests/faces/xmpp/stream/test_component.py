"""The stream itself: kept up, refused, stalled, left; and what comes in is read in slices, between which everybody else has a turn of the loop."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
import uvloop
from harness.patience import TIMEOUT, turns
from harness.servers.stub_server import StubServer
from slixmpp import ComponentXMPP
from structlog.testing import capture_logs

from pubqueue.engine.face import PlaceTakenError
from pubqueue.faces.xmpp.stream import component
from pubqueue.faces.xmpp.stream.component import (
    ENTERING,
    SLICE,
    TRUSTS_NOBODY,
    Component,
    PlainComponent,
    RefusedByServerError,
    Slices,
)

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
ASKED = 10_000
QUESTION = f"<message from='a@b' to='queue.localhost'>{'?' * 100}</message>"
ANSWER = f"<message from='queue.localhost' to='a@b'><body>{'x' * 3000}</body></message>".encode()


class Talker:
    """A component that says much about everything that it hears."""

    def __init__(self, server, secret="secret"):
        self.ups = self.downs = self.heard = 0
        self.up, self.stalled = asyncio.Event(), asyncio.Event()
        address = (server.host, server.port)
        self.stream = Component(
            *(server.domain, secret, address),
            on_stanza=self.hear,
            on_up=self.went_up,
            on_down=self.went_down,
        )

    def hear(self, stanza):
        self.heard += 1
        self.stream.write(ANSWER)

    def went_up(self):
        self.ups += 1
        self.up.set()

    def went_down(self):
        self.downs += 1
        self.up.clear()
        self.stalled.set()

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.stream.run())
        await self.up.wait()
        yield task
        await self.stream.leave()
        await asyncio.wait_for(task, TIMEOUT)


def lines(log):
    return [line["event"] for line in log if line["event"].startswith("stream.")]


@LOOPS
def test_a_component_whose_output_is_not_read_takes_no_more_work_until_it_is(loop):
    async def play():
        async with StubServer() as server:
            talker = Talker(server)
            async with talker.running():
                server.stop_reading()
                asking = asyncio.create_task(server.send(QUESTION * ASKED))
                await talker.stalled.wait()
                before = talker.heard
                kept = talker.stream.transport.get_write_buffer_size()
                # what had been read by then has been answered; nothing more is read
                assert kept < 8_000_000 < ASKED * len(ANSWER)
                await asyncio.wait({asking}, timeout=0.3)
                assert (talker.heard, talker.stream.transport.get_write_buffer_size()) == (
                    before,
                    kept,
                )
                server.read_on()
                await asking
                for _ in range(ASKED):
                    await server.receive()
            assert talker.heard == ASKED
            assert talker.ups == talker.downs > 1

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(play())


@LOOPS
def test_leaving_is_quiet_and_final(loop):
    async def play():
        async with StubServer() as server:
            talker = Talker(server)
            async with talker.running() as task:
                pass
            assert task.result() is None
            assert server.accepted == 1

    with asyncio.Runner(loop_factory=loop) as runner, capture_logs() as log:
        runner.run(play())
    assert lines(log) == ["stream.up"]


async def test_a_server_that_does_not_answer_the_end_is_left_after_a_second():
    async with StubServer() as server:
        talker = Talker(server)
        start = 0.0
        async with talker.running():
            server.stop_reading()
            start = time.monotonic()
        assert time.monotonic() - start > 0.5  # how much later is up to the machine


async def test_a_lost_stream_is_opened_again():
    async with StubServer() as server:
        talker = Talker(server)
        with capture_logs() as log:
            async with talker.running():
                for n in (1, 2):
                    await server.drop()
                    await server.reconnected(n)
                    await talker.up.wait()
                assert (talker.ups, talker.downs) == (3, 2)
        assert lines(log) == ["stream.up", *["stream.down", "stream.retrying", "stream.up"] * 2]
        levels = {line["event"]: line["log_level"] for line in log}
        assert (levels["stream.down"], levels["stream.up"]) == ("warning", "info")


class Pauses:
    """Stands for the log: it tells when so many pauses have been announced."""

    def __init__(self, many):
        self.seconds, self._many, self.all = [], many, asyncio.Event()

    def warning(self, _event, **_facts):
        pass

    def info(self, _event, *, again_in=None, **_facts):
        if again_in is not None:
            self.seconds.append(round(again_in, 3))
            if len(self.seconds) == self._many:
                self.all.set()


async def test_a_missing_server_is_tried_again_ever_more_slowly(monkeypatch):
    monkeypatch.setattr(component, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(component, "MAX_PAUSE", 0.1)
    monkeypatch.setattr(component, "log", log := Pauses(6))
    async with StubServer() as server:
        pass  # its port is closed now
    talker = Talker(server)
    trying = asyncio.create_task(talker.stream.run())
    await asyncio.wait_for(log.all.wait(), TIMEOUT)
    trying.cancel()
    await asyncio.gather(trying, return_exceptions=True)
    assert log.seconds == [0.01, 0.02, 0.04, 0.08, 0.1, 0.1]
    assert talker.ups == 0


async def test_a_wrong_secret_ends_it():
    async with StubServer() as server:
        talker = Talker(server, "wrong")
        with pytest.raises(RefusedByServerError, match="not-authorized"):
            await asyncio.wait_for(talker.stream.run(), TIMEOUT)
        assert server.refused == 1


async def test_a_server_that_accepted_it_once_may_come_back_in_its_own_time():
    async with StubServer() as server:
        talker = Talker(server)
        async with talker.running():
            server.secret = "another"
            await server.drop()
            await server.has_refused(2)
            server.secret = "secret"
            await server.reconnected(1)


@asynccontextmanager
async def a_server_that_has_another():
    """A server that has another component of the name, until it is given its secret."""
    async with StubServer(secret="another") as server:
        server.condition = "conflict"
        yield server


async def test_a_component_that_finds_its_place_taken_logs_it_once_and_waits(monkeypatch):
    monkeypatch.setattr(component, "RETRY_INTERVAL", 0.01)
    said = []
    async with a_server_that_has_another() as server:
        hearer = Hearer(server)
        with capture_logs() as log:
            entering = asyncio.create_task(hearer.stream.enter(lambda: said.append("waiting")))
            await server.has_refused(3)
            assert not entering.done()
            server.secret = "secret"
            await asyncio.wait_for(entering, TIMEOUT)
        assert (said, lines(log)) == (["waiting"], ["stream.place_taken", "stream.up"])
        await server.send(iq("0"))
        await turns(20)
        assert hearer.ids == []
        hearer.stream.resume_reading(ENTERING)
        await hearer.has_heard("0")
        await hearer.stream.leave()


async def test_a_component_whose_place_is_taken_later_gets_an_error():
    async with a_server_that_has_another() as server:
        server.secret = "secret"
        talker = Talker(server)
        task = asyncio.create_task(talker.stream.run())
        await talker.up.wait()
        server.secret = "another"
        await server.drop()
        with pytest.raises(PlaceTakenError):
            await asyncio.wait_for(task, TIMEOUT)


async def test_what_is_sent_without_a_stream_is_not_kept():
    async with StubServer() as server:
        talker = Talker(server)
        assert not talker.stream.write(ANSWER)
        async with talker.running():
            assert talker.stream.write(ANSWER.replace(b"a@b", b"first@b"))
            assert (await server.receive()).tree.get("to") == "first@b"
            await server.drop()
            await talker.stalled.wait()
            assert not talker.stream.write(ANSWER)
            await talker.up.wait()
            assert talker.stream.write(ANSWER.replace(b"a@b", b"last@b"))
            assert (await server.receive()).tree.get("to") == "last@b"


def iq(number):
    return f"<iq type='get' id='{number}' from='a@b' to='queue.localhost'><x xmlns='x'/></iq>"


class Hearer(Talker):
    """A component that keeps what it hears, and pauses when it is told to."""

    def __init__(self, server):
        super().__init__(server)
        self.ids, self.pausing_at = [], None
        self.news = asyncio.Event()

    def hear(self, stanza):
        self.ids.append(stanza.top.get("id"))
        self.news.set()
        if self.ids[-1] == self.pausing_at:
            self.stream.pause_reading()

    async def has_heard(self, name):
        while name not in self.ids:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), TIMEOUT)


@LOOPS
def test_a_paused_component_handles_nothing_until_it_goes_on(loop):
    async def play():
        async with StubServer() as server:
            hearer = Hearer(server)
            hearer.pausing_at = "3"
            async with hearer.running():
                await server.send("".join(map(iq, range(10))))
                await hearer.has_heard("3")
                await turns(20)
                assert hearer.ids == ["0", "1", "2", "3"]
                hearer.stream.pause_reading("another reason")
                hearer.stream.resume_reading()
                await turns()
                assert len(hearer.ids) == 4
                hearer.stream.resume_reading("another reason")
                await server.send(iq("last"))
                await hearer.has_heard("last")
                assert hearer.ids == [*map(str, range(10)), "last"]
                assert hearer.downs == 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(play())


@pytest.mark.parametrize("between", ["", " " * 3 * SLICE], ids=["read", "not read yet"])
@LOOPS
def test_of_what_was_not_taken_when_the_stream_ends_presence_and_bounces_are(loop, between):
    async def play():
        async with StubServer() as server:
            hearer = Hearer(server)
            hearer.pausing_at = "0"
            async with hearer.running():
                gone = "<presence type='unavailable' id='gone' from='a@b/c' to='queue.localhost'/>"
                back = "<message type='error' id='back' from='a@b/c' to='queue.localhost'/>"
                await server.send(iq("0") + iq("1") + between + gone + iq("2") + back)
                await hearer.has_heard("0")
                assert hearer.ids == ["0"]
                hearer.stream.abort()
                await hearer.has_heard("back")
                assert hearer.ids == ["0", "gone", "back"]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(play())


@LOOPS
def test_a_paused_component_reconnects_and_handles_nothing_until_it_goes_on(loop):
    async def play():
        async with StubServer() as server:
            hearer = Hearer(server)
            async with hearer.running():
                await server.drop()
                await hearer.stalled.wait()
                hearer.stream.pause_reading()
                await server.reconnected(1)
                await hearer.up.wait()
                await server.send(iq("0"))
                await turns(20)
                assert hearer.ids == []
                hearer.stream.resume_reading()
                await hearer.has_heard("0")

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(play())


ARGUMENTS = ("queue.example.org", "secret")
SERVER = ("127.0.0.1", 5347)
COMPARED = (str, bytes, int, float, bool, dict, list, set, type(None))


def plain_values(stream):
    """Return the attributes whose values can be compared; handlers and filters are objects of the stream's own."""
    return {
        name: value
        for name, value in vars(stream).items()
        if isinstance(value, COMPARED) and not name.endswith(("handlers", "__filters"))
    }


def handlers(stream):
    """Return the names of the stanza handlers, and of the events that are handled with how many handlers."""
    (events,) = (value for name, value in vars(stream).items() if name.endswith("event_handlers"))
    named = [value for name, value in vars(stream).items() if name.endswith("__handlers")]
    stanzas = [handler.name for each in named for handler in each]
    return sorted(stanzas), {event: len(found) for event, found in events.items()}


async def test_it_is_slixmpps_component_but_for_the_tls_context():
    theirs = ComponentXMPP(*ARGUMENTS, *SERVER, fix_error_ns=True)
    ours = PlainComponent(*ARGUMENTS, SERVER)
    assert set(vars(ours)) == set(vars(theirs))
    assert plain_values(ours) == plain_values(theirs)
    assert handlers(ours) == handlers(theirs)
    assert "Handshake" in handlers(ours)[0]
    assert ours.ssl_context is TRUSTS_NOBODY


class Loop:
    """A loop whose clock goes on by what is read, and which remembers what shall come later."""

    def __init__(self):
        self.now, self.planned = 0.0, []

    def time(self):
        return self.now

    def call_later(self, rest, call):
        self.planned.append((rest, call))
        return Timer()


class Timer:
    def cancel(self):
        """Do nothing: the loop calls nobody by itself."""


class Reader:
    """Notes what it is given to read, each of which takes so long; it goes on unless it is held."""

    def __init__(self, takes):
        self.loop, self.pieces, self.held = Loop(), [], False
        self._takes = takes
        self.slices = Slices(self.loop, self._read)

    def _read(self, data):
        self.pieces.append(data)
        self.loop.now += self._takes
        return not self.held


@pytest.fixture
def slow():
    return Reader(component.TURN * 2)


def test_a_slice_that_took_long_is_followed_by_as_long_a_rest(slow):
    slow.slices.take(b"x" * SLICE * 3)
    assert slow.pieces == [b"x" * SLICE]
    ((rest, read_on),) = slow.loop.planned
    assert rest == pytest.approx(component.TURN * 2)
    read_on()
    assert slow.pieces == [b"x" * SLICE] * 2
    assert len(slow.loop.planned) == 2
    slow.loop.planned[-1][1]()
    assert len(slow.pieces) == 3
    assert not slow.slices
    assert len(slow.loop.planned) == 2


def test_what_is_read_fast_is_read_at_once():
    fast = Reader(component.TURN / 1000)
    fast.slices.take(b"x" * SLICE * 9)
    assert len(fast.pieces) == 9
    assert not fast.loop.planned


def test_a_slice_ends_where_a_request_does(slow):
    one = b"<iq>" + b"x" * 1000 + b"</iq>"
    slow.slices.take(one * 30)
    (piece,) = slow.pieces
    assert piece == one * (SLICE // len(one))


def test_a_long_request_about_one_item_is_one_slice_if_all_of_it_is_there(slow):
    one = b"<iq><item>" + b"x" * SLICE + b"</item></iq>"
    slow.slices.take(one + one[:-1])
    slow.loop.planned[-1][1]()
    assert slow.pieces == [one, one[:SLICE]]


def test_a_long_request_about_many_items_is_several_slices(slow):
    many = b"<iq>" + b"<item/>" * SLICE + b"</iq>"
    slow.slices.take(many)
    while slow.slices:
        slow.loop.planned[-1][1]()
    assert b"".join(slow.pieces) == many
    assert {len(piece) for piece in slow.pieces[:-1]} == {SLICE}


def test_what_comes_meanwhile_is_read_behind_it(slow):
    slow.slices.take(b"x" * (SLICE + 1))
    slow.slices.take(b"y")
    assert slow.pieces == [b"x" * SLICE]
    slow.loop.planned[-1][1]()
    assert slow.pieces[1:] == [b"xy"]


def test_nothing_is_read_while_it_is_held_and_then_once(slow):
    slow.held = True
    slow.slices.take(b"x" * SLICE * 2)
    assert not slow.loop.planned
    slow.held = False
    slow.slices.go_on()
    slow.slices.go_on()
    ((rest, read_on),) = slow.loop.planned
    assert rest == 0
    read_on()
    assert slow.pieces == [b"x" * SLICE] * 2


def test_what_is_not_read_at_the_end_of_a_stream_is_taken_out_and_not_read_later(slow):
    slow.slices.take(b"x" * SLICE + b"y")
    assert slow.slices.take_out() == b"y"
    assert not slow.slices
    assert slow.slices._turn is None


async def test_others_have_turns_meanwhile(monkeypatch):
    monkeypatch.setattr(component, "TURN", 0)
    order, done = [], asyncio.Event()

    def read(data):
        order.append(data[:1])
        asyncio.get_running_loop().call_soon(order.append, "another")
        if len(order) > 4:
            done.set()
        return True

    Slices(asyncio.get_running_loop(), read).take(b"x" * SLICE * 3)
    async with asyncio.timeout(TIMEOUT):
        await done.wait()
    assert order[:5] == [b"x", "another", b"x", "another", b"x"]
