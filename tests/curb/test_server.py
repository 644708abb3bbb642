"""What ends a connection, or the program: silence, half a connection, a full disk, a disk that fails."""

import asyncio
import errno
import os
import resource
import socket
from contextlib import asynccontextmanager

import pytest
from curb.curbs import CONNECT, Curb, RawClient
from curb.cut_disk import CutDisk
from harness.patience import TIMEOUT
from structlog.testing import capture_logs

from pubqueue.curb import connection
from pubqueue.curb.journal import Journal
from pubqueue.curb.server import BOUNDS, Server
from pubqueue.faces.listener import Bounds, Place
from pubqueue.faces.stomp.codec import HeartBeats

PROMISED = b"CONNECT\naccept-version:1.2\nheart-beat:10,0\n\n\0"
WANTED = b"CONNECT\naccept-version:1.2\nheart-beat:0,10\n\n\0"


@asynccontextmanager
async def serving(path, bounds=BOUNDS):
    """Serve a journal in this process; yield the port, and the task that serves."""
    journal = Journal(path, 1 << 20)
    server, found = Server(journal, bounds), asyncio.Future()
    task = asyncio.create_task(server.serve(Place("127.0.0.1", 0), found.set_result))
    async with asyncio.timeout(TIMEOUT):
        ((_, port),) = await found
        try:
            yield port, task
        finally:
            server.stopped.set()
            await asyncio.gather(task, return_exceptions=True)
            journal.close()


async def greeted(port, connect):
    line = await RawClient.to(port, connect=False)
    line.say(connect)
    assert (await line.hear()).command == "CONNECTED"
    return line


async def test_a_client_that_misses_promised_heart_beats_releases_its_items_and_one_without_them_stays(
    tmp_path, monkeypatch
):  # S04
    monkeypatch.setattr(connection, "BEATS", HeartBeats(10, 10))
    async with serving(tmp_path / "j") as (port, _):
        other = await greeted(port, CONNECT)
        await other.receipt("SEND", b"hello", destination=".")
        silent = await RawClient.to(port, connect=False)
        silent.say(PROMISED)
        silent.subscribe()  # at once: from now on its silence counts
        assert (await silent.hear()).command == "CONNECTED"
        assert (await silent.hear()).body == b"hello"
        other.subscribe()
        found = await silent.hear()
        assert (found.command, found.headers["message"]) == ("ERROR", "no heart-beat")
        assert await silent.is_over()
        assert (await other.hear()).body == b"hello"


async def test_heart_beats_come_for_clients_that_want_them(tmp_path, monkeypatch):  # S04
    monkeypatch.setattr(connection, "BEATS", HeartBeats(10, 10))
    async with serving(tmp_path / "j") as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WANTED)
        await reader.readuntil(b"\0")
        assert await reader.readexactly(3) == b"\n\n\n"
        writer.transport.abort()


@pytest.mark.parametrize("said", [b"", b"\n\n", CONNECT[:20]])
async def test_a_client_that_sends_no_connect_gets_an_error_and_is_closed(tmp_path, said):
    async with serving(tmp_path / "j", Bounds(login=0.2)) as (port, _):
        late = await RawClient.to(port, connect=False)
        late.say(said)
        found = await late.hear()
        assert (found.command, found.headers["message"]) == ("ERROR", "login timeout")
        assert await late.is_over()


async def test_a_client_that_closes_one_direction_is_answered_and_releases_its_items(
    tmp_path,
):  # C23
    async with serving(tmp_path / "j") as (port, _):
        half, other = await RawClient.to(port), await RawClient.to(port)
        await other.receipt("SEND", b"one", destination=".")
        half.subscribe()
        assert (await half.hear()).body == b"one"
        half.frame("SEND", b"two", destination=".", receipt="last")
        half.writer.write_eof()
        assert (await half.hear()).headers == {"receipt-id": "last"}
        assert await half.is_over()
        other.subscribe()
        for body in (b"one", b"two"):
            found = await other.hear()
            assert found.body == body
            await other.receipt("ACK", id=found.headers["ack"])


async def test_a_client_that_ends_within_a_frame_leaves_nothing_of_it(tmp_path):
    async with serving(tmp_path / "j") as (port, _):
        half, other = await RawClient.to(port), await RawClient.to(port)
        half.say(b"SEND\ndestination:.\ncontent-length:100000\n\n" + b"x" * 50_000)
        half.writer.write_eof()
        assert await half.is_over()
        await other.receipt("SEND", b"hello", destination=".")
        other.subscribe()
        assert (await other.hear()).body == b"hello"


async def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path):  # C06
    async with Curb(tmp_path / "j") as curb:
        line = await RawClient.to(curb.port)
        await line.receipt("SEND", b"one", destination=".")
        size = curb.journal.stat().st_size
        allow(curb, size + 10)
        sender = await RawClient.to(curb.port)
        sender.frame("SEND", b"x" * 100, destination=".", receipt="r")
        found = await sender.hear()
        assert (found.command, found.headers["message"]) == ("ERROR", "queue full")
        assert found.headers["receipt-id"] == "r"
        assert curb.journal.stat().st_size == size
        line.subscribe()
        message = await line.hear()
        await line.receipt("ACK", id=message.headers["ack"])
        allow(curb, resource.RLIM_INFINITY)
        await line.receipt("SEND", b"x" * 100, destination=".")
        assert (await line.hear()).body == b"x" * 100


def allow(curb, size):
    """Let the program's files grow to so many bytes: a limit that stands for the end of the disk."""
    resource.prlimit(curb.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class FailingDisk(CutDisk):
    """A disk that fails to sync from some moment on."""

    is_failing = False

    def fdatasync(self, file):
        if self.is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().fdatasync(file)


async def test_a_sync_that_fails_confirms_nothing_and_ends_the_program(tmp_path):  # C36
    with FailingDisk(1 << 20) as disk:
        async with serving(tmp_path / "j") as (port, task):
            line = await RawClient.to(port)
            await line.receipt("SEND", b"one", destination=".")
            disk.is_failing = True
            line.frame("SEND", b"two", destination=".", receipt="r")
            assert await line.is_over()
            with pytest.raises(OSError, match="Input/output error"):
                await task
    journal = Journal(tmp_path / "j", 1 << 20)
    assert journal.body(1) == b"one"
    journal.close()


WRONG = {
    "DISCONNECT": CONNECT + b"DISCONNECT\nreceipt:bye\n\n\0",
    "a wrong first frame": b"SEND\ndestination:.\n\nx\0",
    "a health check of HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("said", WRONG)
async def test_nobody_notices_a_thousand_clients_that_end_without_reading(tmp_path, said):
    async with serving(tmp_path / "j") as (port, task):
        line = await RawClient.to(port)
        line.subscribe()
        with capture_logs() as logs:
            for number in range(1_000):
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(WRONG[said])
                if number % 50 == 0:  # fewer than may be connected at a time
                    body = b"%d" % number
                    await line.receipt("SEND", body, destination=".")
                    message = await line.hear()
                    assert message.body == body
                    await line.receipt("ACK", id=message.headers["ack"])
        assert not task.done()
        assert logs == []


async def test_a_fault_of_one_client_is_none_of_the_others(tmp_path, monkeypatch):
    async with serving(tmp_path / "j") as (port, task):
        one, other = await RawClient.to(port), await RawClient.to(port)
        send = connection.Client.send
        broken = []

        def fails(client):
            if not broken:
                broken.append(client)
                raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
            send(client)

        monkeypatch.setattr(connection.Client, "send", fails)
        with capture_logs() as logs:
            one.frame("SEND", b"x", destination=".", receipt="r")
            assert await one.is_over()
        assert [line["event"] for line in logs] == ["connection.failed", "connection.cut"]
        await other.receipt("SEND", b"hello", destination=".")
        assert not task.done()
