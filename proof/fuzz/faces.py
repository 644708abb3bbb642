"""`.venv/bin/python -m proof.fuzz.faces`: 100,000 inputs for each face, in this process, beside an honest client.

An input is a connection with its bytes, or a call of gRPC. After all of them nothing may be counted or kept any more. No input may
meet a fault, and the honest client gets each of its items as it was, and an answer to all that it asks.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections import Counter, deque
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import click
import grpc
import uvloop
from faces.stomp.clients import closed
from google.protobuf.json_format import MessageToJson
from harness.patience import turns, until

from proof.fuzz import inputs
from proof.fuzz.__main__ import resident
from proof.fuzz.calls import FAULTS, OWN_FAULT, Caller
from proof.fuzz.house import (
    BOUNDS,
    STRANGERS,
    AtCurb,
    Fed,
    Honest,
    House,
    OverGrpc,
    OverRest,
    OverStomp,
    connect,
    listening,
    served,
    token_of,
)
from proof.fuzz.outcome import FaultError
from proof.fuzz.requests import UNABLE
from proof.fuzz.rig import LostError
from pubqueue.curb.journal import Journal
from pubqueue.curb.server import Server
from pubqueue.faces.grpc import wire
from pubqueue.faces.grpc.transcoding import ROWS, VERSION
from pubqueue.faces.listener import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from proof.fuzz.house import Complaints

    Input = Any
    Feed = Callable[[Any], Awaitable[str]]

STEP: Final = 1_000
"""Inputs between two looks at what is left over, after which the nodes are made anew."""
AT_ONCE: Final = 16
"""Inputs that are sent side by side."""
WARM: Final = 0.5
"""The part of a run after which caches are full, and memory has to stay as it is."""
GROWTH: Final = 32.0
"""MiB; what fragmentation, and memory that libraries in C keep, may take from there to the end of a run."""
QUIET: Final = 12
"""Turns of the loop in which a client that has sent all waits for what comes."""
ANSWERED: Final = 0.025
"""Seconds for an answer to a login, or to the request for a WebSocket."""
SETTLING: Final = 10.0
"""Seconds after which nothing is under way any more."""
TIMEOUT: Final = 0.25
"""Seconds for an answer: requests that are not whole get none."""
ANSWER: Final = b"HTTP/1.1 "
LINK: Final = re.compile(rb"<https?://[^/>]+(/[!-=?-~]*)>")
LOCK: Final = re.compile(rb'"ackId":\s*"([^"]+)"')


class Fuzz:
    """A face with what is fed to it: `inputs` without end, and `feed`, which returns a word for what came of one."""

    def __init__(self, made: Iterator[Input], feed: Feed, honest: Honest) -> None:
        self.inputs, self.feed, self.honest = made, feed, honest


# What comes of an input, for each face.


def _streams(random: Random, make: Callable[[Random], tuple[Any, ...]]) -> Iterator[Any]:
    while True:
        yield (inputs.peer(random), *make(random), random.random())


async def _stomp(house: House, random: Random, _ends: AsyncExitStack) -> Fuzz:
    def make(random: Random) -> tuple[Any, ...]:
        return inputs.login(random), inputs.cut(random, inputs.frames(random))

    async def feed(given: Any) -> str:
        peer, login, pieces, way = given
        fed = connect(house.faces.stomp.listener, peer)
        fed.feed(login)
        await _until(lambda: fed.said or fed.is_closing())
        await _say(house, fed, pieces, way)
        return _word(bytes(fed.said))

    return Fuzz(_streams(random, make), feed, Honest(await OverStomp.to(house)))


async def _web_socket(house: House, random: Random, _ends: AsyncExitStack) -> Fuzz:
    def make(random: Random) -> tuple[Any, ...]:
        login = inputs.messages(random, inputs.login(random))
        more = inputs.messages(random, inputs.frames(random))
        return inputs.upgrade(random), login, inputs.cut(random, more)

    async def feed(given: Any) -> str:
        peer, upgrade, login, pieces, way = given
        fed = connect(house.http.listener, peer)
        fed.feed(upgrade)
        await _until(lambda: fed.said or fed.is_closing(), 4)
        at = len(fed.said)
        fed.feed(login)
        await _until(lambda: len(fed.said) > at or fed.is_closing(), 2)
        await _say(house, fed, pieces, way)
        if len(fed.said) == at or not fed.said.startswith(b"HTTP/1.1 101"):
            return _status(bytes(fed.said))
        return _word(bytes(fed.said[at:]))

    return Fuzz(_streams(random, make), feed, Honest(await OverStomp.to(house)))


async def _say(house: House, fed: Fed, pieces: list[bytes], way: float) -> None:
    """Say all pieces, wait until all is quiet, and end the connection in some way."""
    for piece in pieces:
        await _feed_piece(fed, piece)
    if way < 0.8:
        await turns(QUIET)
        await house.broker.settled()
        await turns(2)
    fed.hang_up()
    await fed.is_over.wait()


async def _feed_piece(fed: Fed, piece: bytes) -> None:
    if inputs.ACK_NEWEST in piece:
        named = fed.said.rpartition(b"\nack:")[2].partition(b"\n")[0]
        piece = piece.replace(inputs.ACK_NEWEST, bytes(named[:200]))
    fed.feed(piece)
    await turns()


async def _until(reached: Callable[[], object], most: int = 1) -> None:
    """Wait until it is reached, or for so many times `ANSWERED`: what is not whole gets no answer."""
    with suppress(TimeoutError):
        await until(reached, every=0.002, within=most * ANSWERED)


def _word(said: bytes) -> str:
    """Return what a client of STOMP has heard: the message of the ERROR, or the last frame."""
    if (at := said.rfind(b"ERROR\n")) >= 0:
        message = said[at:].partition(b"message:")[2].partition(b"\n")[0]
        return f"ERROR {message[:40].decode(errors='replace')}"
    found = [word for word in (b"RECEIPT", b"MESSAGE", b"CONNECTED") if b"%s\n" % word in said]
    return found[0].decode() if found else "nothing"


def _status(said: bytes) -> str:
    """Return the status of an answer.

    Raises:
        FaultError: it reports a fault.

    """
    if not said:
        return "nothing"
    status = int(said[len(ANSWER) : len(ANSWER) + 3])
    if status >= 500 and status not in UNABLE:
        raise FaultError(f"the answer is {said[:300]!r}")
    return f"{status}"


def _over_http(*parts: str) -> Callable[[House, Random, AsyncExitStack], Awaitable[Fuzz]]:
    async def make(house: House, random: Random, ends: AsyncExitStack) -> Fuzz:
        known: deque[bytes] = deque(maxlen=inputs.KNOWN)
        caller = Caller(None, random)
        rows = [(path, row.kind) for (method, path), row in ROWS.items() if method == "POST"]

        def each() -> Iterator[Any]:
            for request in inputs.http(random, parts, known):
                made = request
                if parts == ("json",) and random.random() < 0.6:
                    path, kind = random.choice(rows)
                    body = MessageToJson(caller.message(kind), indent=None)
                    made = inputs.rpc_in_json(random, f"/{VERSION}/{path}", body)
                yield inputs.peer(random), inputs.cut(random, made)

        async def feed(given: Any) -> str:
            peer, pieces = given
            fed = connect(house.http.listener, peer)
            for piece in pieces:
                fed.feed(piece)
                await turns()
            try:
                async with asyncio.timeout(TIMEOUT):
                    await fed.is_over.wait()
            except TimeoutError:
                fed.hang_up()
                await fed.is_over.wait()
            return _status(bytes(fed.said))

        return Fuzz(each(), feed, Honest(await OverRest.to(house, ends)))

    return make


async def _grpc(house: House, random: Random, ends: AsyncExitStack) -> Fuzz:
    ((_, port),) = house.faces.grpc.addresses
    channel = await ends.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
    caller = Caller(channel, random)

    def made() -> Iterator[Any]:
        while True:
            rpc = caller.rpc()
            said = [caller.request(rpc).SerializePartialToString() for _ in range(2)]
            if random.random() < 0.2:
                said = [inputs.changed(random, one) for one in said]
            token = token_of(random.choice(STRANGERS))
            field = f"Bearer {token}" if random.random() < 0.97 else random.choice(ODD_LOGINS)
            yield rpc.full_name, said, (("authorization", field),)

    async def feed(given: Any) -> str:
        name, said, metadata = given
        rpc = wire.POOL.FindMethodByName(name)
        kind = channel.stream_stream if rpc.server_streaming else channel.unary_unary
        call = kind(f"/{rpc.containing_service.full_name}/{rpc.name}")
        try:
            if rpc.server_streaming:
                stream = call(_each(said), metadata=metadata, timeout=TIMEOUT)
                async for one in stream:
                    caller.remember_raw(rpc, one)
            else:
                timeout = TIMEOUT if rpc.name.startswith("Pull") else None
                one = await call(said[0], metadata=metadata, timeout=timeout)
                caller.remember_raw(rpc, one)
        except grpc.aio.AioRpcError as problem:
            code = problem.code()
            if code in FAULTS and not (problem.details() or "").startswith(OWN_FAULT):
                raise FaultError(f"{name} failed: {problem!r}") from None
            return code.name
        return "OK"

    return Fuzz(made(), feed, Honest(OverGrpc(channel)))


async def _each(said: list[bytes]) -> Any:
    for one in said:
        yield one


ODD_LOGINS: Final = ("", "Bearer", "Basic ====", "Basic YQ==", "Basic gDp4", "Digest a=b")
"""Those that no user can have: behind a wrong one all calls of the address would have to wait."""


class Curb:
    """A journal and its server, as a house: nobody is admitted, and its budget of bytes is its own."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def renew(self) -> None:
        """Keep the queue: it is all there is."""

    async def quiet(self) -> None:
        """Let the server have a turn for each thing that it puts off."""
        await turns(4)

    def left_over(self) -> list[str]:
        """Return what is kept for clients that have gone."""
        found = self.server.listener.counts.open - 1  # without the honest client
        return [f"{found} connections are left"] if found else []


@asynccontextmanager
async def _at_curb(folder: Path, random: Random) -> AsyncIterator[tuple[Curb, Fuzz]]:
    with closing(Journal(folder / "journal", 64 << 20)) as journal:
        server = Server(journal, BOUNDS)
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            server.serve(Place("127.0.0.1", 0), lambda places: ready.set_result(places[0][1]))
        )
        honest = await AtCurb.to(await ready)

        async def feed(given: Any) -> str:
            peer, pieces, way = given
            fed = connect(server.listener, peer)
            for piece in pieces:
                await _feed_piece(fed, piece)
            if way < 0.8:
                await turns(4)
            fed.hang_up()
            await fed.is_over.wait()
            honest.taken(bytes(fed.said))
            return _word(bytes(fed.said))

        def make(random: Random) -> tuple[Any, ...]:
            return (inputs.cut(random, inputs.curb_frames(random)),)

        yield Curb(server), Fuzz(_streams(random, make), feed, honest)
        await honest.finish()
        server.stopped.set()
        await serving


FACES: Final = {
    "stomp": _stomp,
    "web-socket": _web_socket,
    "rest": _over_http("rest"),
    "hornetq": _over_http("hornetq"),
    "json": _over_http("json"),
    "operations": _over_http("operations", "page", "others"),
    "grpc": _grpc,
}
CURB: Final = "curb"


# The run.


def grown(sizes: Sequence[float]) -> tuple[float, float]:
    """Return the memory once it was warm, and by how much it has grown since then, in MiB."""
    warm = sizes[int((len(sizes) - 1) * WARM)]
    return warm, sizes[-1] - warm


class Run:
    """Sends inputs side by side, and judges. `words` says how often each answer came."""

    def __init__(self, house: House | Curb, fuzz: Fuzz, complaints: Complaints) -> None:
        self._house, self._fuzz, self._complaints = house, fuzz, complaints
        self.words: Counter[str] = Counter()
        self._last: dict[int, Any] = {}
        self._number = 0

    async def feed(self, count: int) -> None:
        """Feed so many inputs, with the honest client at work beside them; then see that nothing is left over.

        Raises:
            FaultError: an input has met a fault, something is left over, or the honest client has lost something.

        """
        end = self._number + count
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(self._client(end))
                group.create_task(self._honest(end))
        except* (FaultError, LostError) as problems:
            self._stop(str(problems.exceptions[0]))
        await self._is_quiet()
        if wrong := [*self._complaints.all(), *self._house.left_over()]:
            self._stop("\n".join(wrong))
        await self._house.renew()

    async def _client(self, end: int) -> None:
        while self._number < end:
            self._number += 1
            number, given = self._number, next(self._fuzz.inputs)
            self._last[number] = given
            self.words[await self._fuzz.feed(given)] += 1
            if wrong := self._complaints.all():
                raise FaultError("\n".join(wrong))
            del self._last[number]

    async def _honest(self, end: int) -> None:
        while True:
            await self._fuzz.honest.work()
            if self._number >= end:
                return
            await asyncio.sleep(0.02)

    async def _is_quiet(self) -> None:
        """Wait until what clients have left behind is done, or for `SETTLING` seconds."""

        async def is_quiet() -> bool:
            await self._house.quiet()
            return not self._house.left_over()

        with suppress(TimeoutError):
            await until(is_quiet, every=0.01, within=SETTLING)

    def _stop(self, why: str) -> None:
        shown = [f"{number}: {given!r}" for number, given in self._last.items()]
        wrong = self._complaints.all()
        raise FaultError("\n".join((why, *wrong, "under way were", *shown)))


async def run(face: str, count: int, seed: int) -> None:
    """Feed a face so many inputs, and print what came of them.

    Raises:
        FaultError: an input has met a fault, something is left over, or the honest client has lost something.

    """
    random = Random(f"{face} {seed}")
    begun = time.monotonic()
    async with AsyncExitStack() as ends:
        folder = ends.enter_context(tempfile.TemporaryDirectory(prefix="pubqueue-fuzz-"))
        complaints = await ends.enter_async_context(listening())
        ends.push_async_callback(closed)
        house: House | Curb
        if face == CURB:
            house, fuzz = await ends.enter_async_context(_at_curb(Path(folder), random))
        else:
            house = await ends.enter_async_context(served(Path(folder)))
            fuzz = await FACES[face](house, random, ends)
        going = Run(house, fuzz, complaints)
        sizes = []
        for done in range(0, count, STEP):
            await going.feed(min(STEP, count - done))
            sizes.append(resident())
    warm, growth = grown(sizes)
    waits = sorted(fuzz.honest.waits)
    seconds = time.monotonic() - begun
    click.echo(f"{face}, seed {seed}: {count:,} inputs without a fault, in {seconds:.0f} s")
    click.echo(
        f"the honest client worked {len(waits):,} times: {median(waits) * 1000:.0f} ms, at most "
        f"{waits[-1] * 1000:.0f} ms; memory {sizes[0]:.0f}, then {warm:.0f}, then {sizes[-1]:.0f} MiB"
    )
    for word, times in going.words.most_common():
        click.echo(f"{times:>10,} {word}")
    if growth > GROWTH:
        raise FaultError(f"memory has grown by {growth:.0f} MiB after warming up")


@click.command(context_settings={"show_default": True})
@click.option(
    "--face", "faces", multiple=True, type=click.Choice([*FACES, CURB]), help="[default: all]"
)
@click.option("--inputs", "count", default=100_000, type=click.IntRange(1), help="For each face.")
@click.option("--seed", default=1, help="The inputs follow from it.")
def main(*, faces: tuple[str, ...], count: int, seed: int) -> None:
    """Feed the faces; stop at the first input that one does not bear."""
    for face in faces or (*FACES, CURB):
        try:
            uvloop.run(run(face, count, seed))
        except FaultError as error:
            click.echo(f"{face}, seed {seed}: {error}")
            sys.exit(1)


if __name__ == "__main__":
    main()
