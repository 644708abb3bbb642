"""SIGTERM while clients are connected: whatever they are at, the service ends, and what it has confirmed is there."""

import asyncio
import sqlite3
import sys
from base64 import b64encode
from contextlib import asynccontextmanager, closing
from pathlib import Path

from harness.clients.slow_reader import connect_slowly
from harness.patience import TIMEOUT
from harness.processes.toy_service import HOST, NAME
from harness.servers.users import RIGHT

LARGE = b64encode(b"\0" * 40_000).decode()
TESTS = Path(__file__).parents[1]
PROGRAM = "harness.processes.toy_service"


class Client:
    """A client; where it is to be slow it has little room for what it does not read."""

    async def connect(self, port, *, slow=False):
        connected = connect_slowly(port) if slow else asyncio.open_connection(HOST, port)
        self.reader, self.writer = await connected
        return self

    async def logged_in(self, port, *, slow=False):
        await self.connect(port, slow=slow)
        assert await self.ask(f"LOGIN {NAME} {RIGHT}") == "OK"
        return self

    async def hear(self):
        return (await self.reader.readline()).decode().rstrip("\n")

    async def ask(self, words):
        self.writer.write(f"{words}\n".encode())
        return await self.hear()

    async def rest(self):
        """Return the lines until the end."""
        try:
            return (await self.reader.read()).decode().split("\n")
        except ConnectionError:
            return []


@asynccontextmanager
async def serving(store):
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", PROGRAM, f"sqlite:///{store}", "100"), stdout=-1, cwd=TESTS
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            yield program, int(await program.stdout.readline())
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


def items(store):
    with closing(sqlite3.connect(store)) as file:
        return {name for (name,) in file.execute("SELECT id FROM item")}


async def test_clients_of_every_kind_do_not_hold_up_the_end_and_what_was_confirmed_is_there(
    tmp_path,
):
    store = tmp_path / "queue.db"
    async with serving(store) as (program, port):
        silent = await Client().connect(port)
        idle = await Client().logged_in(port)
        half = await Client().logged_in(port)
        half.writer.write(b"PUT jobs never te")
        slow = await Client().logged_in(port, slow=True)
        slow.writer.transport.pause_reading()
        slow.writer.write(b"TAKE jobs 1000\n")
        flood = await Client().logged_in(port)
        for number in range(250):
            assert await flood.ask(f"SEND jobs large{number} image/png {LARGE}") == "OK"
        waits = await Client().logged_in(port)
        waits.writer.write(f"NEXT nothing 1 {TIMEOUT}\n".encode())
        flood.writer.write(b"".join(b"PUT jobs i%d text\n" % number for number in range(3_000)))
        assert await flood.hear() == "OK"
        program.terminate()
        answers = [word for word in await flood.rest() if word]
        for other in (silent, idle, half, waits):
            await other.rest()
        assert await program.wait() == 0
        assert set(answers) <= {"OK"}
        slow.writer.transport.abort()
        for client in (silent, idle, half, waits, flood):
            client.writer.close()
    found = items(store)
    assert found >= {f"i{number}" for number in range(len(answers) + 1)}
    assert "never" not in found
