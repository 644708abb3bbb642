"""The contract, of the toy face; and how soon it holds, on virtual time."""

import asyncio
from base64 import b64decode, b64encode
from functools import partial
from urllib.parse import quote, unquote

import pytest
from faces.contract import SEPARATORS, TakeContract, collect, make_store, sides
from faces.sides import two_sides
from harness import virtual_time
from harness.batches.queue_requests import a_queue
from harness.batches.toy_face import WORD, LineFace
from harness.batches.toy_words import refusal
from harness.depth import examples
from harness.servers.users import SERVICE, accounts_of, users_for

from pubqueue.rules.presence import Departure
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

__all__ = ["make_store", "sides"]


def body_of(words):
    """Return content type and body as a line is told them."""
    if words.startswith("<"):
        return "application/xml", words.encode()
    kind, _, body = words.partition(" ")
    return None if kind == "-" else unquote(kind), b64decode(body)


class LineClient:
    """A client of lines."""

    def __init__(self, face, line):
        self._face, self._line = face, line
        self.bodies = {}
        self._delivered = asyncio.Queue()
        self._answers = asyncio.Queue()
        self._line.on_words = self._take
        self.address = self._line.address

    def _take(self, words):
        verb, *rest = words.split(" ")
        if verb in {"ITEM", "BODY"}:
            self.bodies[rest[1]] = body_of(" ".join(rest[2:]))
        if verb == "ITEM":
            self._delivered.put_nowait(rest[1])
        elif verb in {"OK", "NO"}:
            self._answers.put_nowait("" if verb == "OK" else " ".join(rest))
            self._taken = rest if verb == "OK" else []

    async def _ask(self, words):
        self._line.say(words)
        return await self._answers.get()

    async def publish(self, node, item):
        return await self._ask(f"PUT {node} {item} text")

    async def send(self, node, item, body, kind):
        kind = "-" if kind is None else quote(kind, safe="/;=+")
        return await self._ask(f"SEND {node} {item} {kind} {b64encode(body).decode()}")

    async def subscribe(self, node, window):
        return await self._ask(f"TAKE {node} {window}")

    async def take(self, node, count, wait):
        said = await self._ask(f"NEXT {node} {count} {wait}")
        return self._taken, said

    async def retract(self, node, item):
        return await self._ask(f"DONE {node} {item}")

    async def item(self):
        return await self._delivered.get()

    def items(self):
        return [self._delivered.get_nowait() for _ in range(self._delivered.qsize())]

    async def leave(self):
        self._face.hang_up(self._line)

    async def breaks(self):
        self._face.hang_up(self._line, Departure.LOST)

    def stop_reading(self):
        self._face.fill(self._line, full=True)

    def read_on(self):
        self._face.fill(self._line, full=False)


def a_face(broker):
    accounts = accounts_of(users_for(WORD))
    return LineFace(broker, service=SERVICE, accounts=accounts)


async def connect(side, name):
    return LineClient(side.face, side.face.connect(name))


async def log_in(side, name, password, peer="192.0.2.9"):
    line = await side.face.log_in(name, password, peer)
    return line if isinstance(line, str) else LineClient(side.face, line)


class TestLines(TakeContract):
    # a line of the toy has no words for it
    test_an_item_that_was_held_and_is_woken_tells_its_next_worker_what_came = None

    separators = tuple(by for by in SEPARATORS if by != " ")  # it ends a word of a line

    @pytest.fixture
    def words_for(self):
        return refusal

    @pytest.fixture
    def logs_in(self):
        return log_in

    @pytest.fixture
    def face_of(self):
        return a_face

    @pytest.fixture
    def connected(self):
        return connect


def on_two_sides(main):
    """Run it with two instances on a memory, on virtual time."""

    async def all_of_it():
        async with two_sides(partial(MemoryStore, Memory()), a_face) as (one, other):
            await one.broker.handle(a_queue(publish_model="open"))
            return await main(one, other)

    return virtual_time.run(all_of_it())


def test_a_publish_is_with_a_client_of_the_other_instance_within_a_second():
    async def main(one, other):
        loop = asyncio.get_running_loop()
        etl, bee = await connect(one, "etl"), await connect(other, "bee")
        await bee.subscribe("jobs", 1)
        took = []
        for number in range(examples(100)):
            await asyncio.sleep(0.013)
            began = loop.time()
            assert await etl.publish("jobs", f"{number}") == ""
            assert await collect(bee, 1) == [f"{number}"]
            took.append(loop.time() - began)
        return max(took)

    assert 0 < on_two_sides(main) < 1


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.6, 0.9])
def test_what_a_dead_instance_held_is_with_another_client_within_five_seconds(moment):
    async def main(one, other):
        loop = asyncio.get_running_loop()
        etl, bee, ann = [
            await connect(*who) for who in ((one, "etl"), (other, "bee"), (one, "ann"))
        ]
        await bee.subscribe("jobs", 1)
        await asyncio.sleep(10 + moment)
        await etl.publish("jobs", "a")
        assert await bee.item() == "a"
        await ann.subscribe("jobs", 1)
        began = loop.time()
        await other.kill()
        assert await ann.item() == "a"
        return loop.time() - began

    assert on_two_sides(main) < 5
