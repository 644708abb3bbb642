"""The program of the page about STOMP, and programs of others, against a served process that is killed and comes back."""

import asyncio
import os
import sys

import pytest
from faces.stomp.served.service import SERVED, StompService
from faces.stomp.test_stock_clients import OfStompPy
from harness.documents.documented import ROOT, blocks
from harness.patience import TIMEOUT, until
from harness.servers.users import RIGHT
from harness.stores.recount import recount

from pubqueue.loopback import free_ports


def program():
    (block,) = (one.text for one in blocks("python") if one.page == "docs/how-to/stomp.md")
    return block


def test_the_program_has_ten_lines():
    assert len([line for line in program().splitlines() if line]) <= 10


async def test_the_program_of_the_page_works_a_queue(tmp_path):
    async with StompService(tmp_path) as service, asyncio.timeout(TIMEOUT):
        text = program().replace("its password", RIGHT)
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-c", text.replace("61613", f"{service.address[1]}")),
            env=os.environ | {"STOMP_SKIP_HOSTNAME_SCAN": "1"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert await worker.stdout.readline() == b"Enter ends it\n"
        etl = await service.log_in("etl")
        for name in ("one", "two"):
            await etl.do("SEND", name.encode(), destination="/queue/jobs", item_id=name)
            assert await worker.stdout.readline() == f"got {name}\n".encode()
        await worker.communicate(b"\n")
        assert worker.returncode == 0
    assert "one" not in recount(tmp_path / "pubqueue.db").of("jobs")


def program_in(language):
    (block,) = (one.text for one in blocks(language) if one.page == "docs/how-to/stomp.md")
    return block.replace("its password", RIGHT)


RUNNERS = {
    "javascript": ("node", "--input-type=module", "--eval"),
    "ruby": ("ruby", "-e"),
    "perl": ("perl", "-e"),
    "php": ("php", "-r"),
}


@pytest.mark.parametrize("language", RUNNERS)
async def test_programs_in_other_languages_work_a_queue(tmp_path, language):  # N25
    web_socket = SERVED + '\nweb_socket = "/stomp"'
    async with (
        StompService(tmp_path, web_socket, more='http = "127.0.0.1:0"') as service,
        asyncio.timeout(TIMEOUT),
    ):
        text = program_in(language).replace("127.0.0.1:8080", service.http)
        if language == "ruby":
            text = "$stdout.sync = true\n" + text
        worker = await asyncio.create_subprocess_exec(
            *(*RUNNERS[language], text.replace("61613", f"{service.address[1]}")),
            cwd=ROOT / "tests" / "node",
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            etl = await service.log_in("etl")
            for name in ("one", "two"):
                await etl.do("SEND", name.encode(), destination="/queue/jobs", item_id=name)
                assert await worker.stdout.readline() == f"got {name}\n".encode()
            # its ACK of the first message has no receipt
            await until(lambda: "one" not in recount(tmp_path / "pubqueue.db").of("jobs"))
        finally:
            worker.kill()
            await worker.wait()


async def test_what_a_publisher_says_is_no_word_of_a_worker_that_copies_it(tmp_path):  # N25
    """That of PHP copies all headers of a MESSAGE into its NACK."""
    async with StompService(tmp_path) as service, asyncio.timeout(TIMEOUT):
        etl = await service.log_in("etl")
        said = {"outcome": "reject", "requeue": "false", "reason": "mine"}
        await etl.do("SEND", b"one", destination="/queue/jobs", item_id="one", **said)
        program = f"""
            $worker = new Stomp("tcp://127.0.0.1:{service.address[1]}", "etl", "{RIGHT}",
                array("accept-version" => "1.1", "host" => "x"));
            $worker->subscribe("/queue/jobs", array("id" => "1"));
            $worker->nack($worker->readFrame());
            $again = $worker->readFrame();
            echo $again->headers["failed"], " ", $again->headers["reason"];
            $worker->ack($again, array("receipt" => "done"));
            $worker->readFrame();"""
        client = await asyncio.create_subprocess_exec(
            *("php", "-r", program), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await client.communicate()
    assert (client.returncode, out) == (0, b"1 mine")
    assert recount(tmp_path / "pubqueue.db").of("jobs") == {}


async def test_stompit_sends_receives_and_settles(tmp_path):  # N25
    async with StompService(tmp_path) as service, asyncio.timeout(TIMEOUT):
        client = await asyncio.create_subprocess_exec(
            *("node", ROOT / "tests" / "node" / "stompit.js", f"{service.address[1]}", RIGHT),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await client.communicate()
    assert client.returncode == 0
    lines = out.decode().splitlines()
    lines.remove("committed")  # the receipt of the transaction and its message: either may be first
    assert lines == ["sent", "got one, nack", "got one, ack", "got two, ack", "disconnected"]
    assert recount(tmp_path / "pubqueue.db").of("jobs") == {}


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_stomp_py_works_before_and_after_the_service_was_killed(tmp_path, version):  # N25
    (port,) = free_ports(1)
    listen = SERVED.replace("127.0.0.1:0", f"127.0.0.1:{port}")
    async with StompService(tmp_path, listen) as service:
        client = OfStompPy(version, service.address)
        for _ in range(2):
            assert await asyncio.to_thread(client.work) == "two"
            await service.kill()
            await service.start()
    assert recount(tmp_path / "pubqueue.db").of("jobs") == {}
