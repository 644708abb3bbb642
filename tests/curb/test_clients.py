"""Clients that nobody has changed for our sake: stomp.py at 1.2, and stompman."""

import asyncio
import os
import queue
import sys

os.environ["STOMP_SKIP_HOSTNAME_SCAN"] = "1"

import stomp
import stompman
from curb.curbs import Curb
from harness.documents.documented import blocks
from harness.patience import TIMEOUT, until

from pubqueue.curb.journal import Journal


class Heard(stomp.ConnectionListener):
    """Puts what comes into a queue."""

    def __init__(self):
        self.frames = queue.Queue()

    def on_message(self, frame):
        self.frames.put(("MESSAGE", frame.headers, frame.body))

    def on_receipt(self, frame):
        self.frames.put(("RECEIPT", frame.headers["receipt-id"]))

    def on_error(self, frame):
        self.frames.put(("ERROR", frame.headers["message"]))


def with_stomp_py(port):
    """Send with a receipt, receive, refuse, receive again, acknowledge, disconnect."""
    heard = Heard()
    connection = stomp.Connection12([("127.0.0.1", port)], heartbeats=(4000, 4000))
    connection.set_listener("", heard)
    connection.connect("user", "passcode", wait=True)
    connection.send(".", "hello: wörld\n", receipt="1")
    assert heard.frames.get(timeout=TIMEOUT) == ("RECEIPT", "1")
    connection.subscribe(".", "0", ack="client-individual")
    for settle in (connection.nack, connection.ack):
        kind, headers, body = heard.frames.get(timeout=TIMEOUT)
        assert (kind, headers["subscription"], body) == ("MESSAGE", "0", "hello: wörld\n")
        assert headers["ack"] == headers["message-id"] == "00000001"
        settle(headers["ack"], receipt="2")
        assert heard.frames.get(timeout=TIMEOUT) == ("RECEIPT", "2")
    connection.disconnect(receipt="77")
    assert heard.frames.get(timeout=TIMEOUT) == ("RECEIPT", "77")


def with_stomp_py_at_1_1(port):
    """Is refused, for there is only 1.2."""
    heard = Heard()
    connection = stomp.Connection11([("127.0.0.1", port)], reconnect_attempts_max=1)
    connection.set_listener("", heard)
    connection.connect("user", "passcode", wait=False)
    assert heard.frames.get(timeout=TIMEOUT) == ("ERROR", "unsupported version")


async def test_stomp_py(tmp_path):
    async with Curb(tmp_path / "j") as curb:
        await asyncio.to_thread(with_stomp_py, curb.port)
        assert curb.journal.read_bytes() == "001 ack hello: wörld\\n\n".encode()
        await asyncio.to_thread(with_stomp_py_at_1_1, curb.port)


async def test_stompman(tmp_path):
    async with Curb(tmp_path / "j") as curb:
        server = stompman.ConnectionParameters("127.0.0.1", curb.port, "user", "passcode")
        got = asyncio.Queue()
        async with stompman.Client([server]) as client:
            await client.send(b"one", ".")
            subscription = await client.subscribe_with_manual_ack(
                ".", got.put, ack="client-individual"
            )
            for settle in ("nack", "ack"):
                frame = await asyncio.wait_for(got.get(), TIMEOUT)
                assert frame.body == b"one"
                await getattr(frame, settle)()
            await client.send(b"two", ".")
            assert (await asyncio.wait_for(got.get(), TIMEOUT)).body == b"two"
            await subscription.unsubscribe()
        assert curb.journal.read_bytes().startswith(b"001 ack one\n002 ")


def page(language):
    (block,) = [one.text for one in blocks(language) if one.page == "docs/how-to/curb.md"]
    return block


async def test_the_program_of_the_page(tmp_path):
    async with Curb(tmp_path / "j") as curb:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-c", page("python").replace("61613", str(curb.port))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        lines = [await asyncio.wait_for(program.stdout.readline(), TIMEOUT) for _ in range(2)]
        assert sorted(lines) == [b"Enter ends it\n", b"got hello\n"]
        await until(lambda: curb.journal.read_bytes() == b"001 ack hello\n", every=0.01)
        await program.communicate(b"\n")


def test_the_journal_of_the_page(tmp_path):
    (tmp_path / "j").write_text(page("text"))
    journal = Journal(tmp_path / "j", 1000)
    assert [journal.next_behind(number) for number in (0, 3, 4, 5)] == [3, 4, 5, None]
    assert (journal.count, journal.body(5)) == (3, b"forth")
    journal.close()
