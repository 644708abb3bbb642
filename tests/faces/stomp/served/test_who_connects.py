"""Who connects to a service that listens: by TLS or not, with whatever name and login, in crowds, and with rubbish."""

import asyncio
import os
import signal
import ssl

import pytest
from faces.stomp.clients import Connection
from faces.stomp.served.service import SERVED, StompService
from harness.patience import LOOK, TIMEOUT, until
from harness.servers.tls import certify
from harness.servers.users import RIGHT

STRANGERS = 500
AT_ONCE = 50
RUBBISH = (
    b"",
    b"\n" * 3000,
    b"\0" * 100,
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    b"CONNECT\naccept-version:1.2\n",
    b"SEND\ndestination:/queue/jobs\n\nx\0",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    b"CONNECT\naccept-version:1.2\nx:" + b"y" * 5000,
    b"CONNECT\naccept-version:9\n\n\0",
    b"STOMP\naccept-version:1.2\nlogin\n\n\0",
)
"""Of these each stranger says one, and goes; all cut it somewhere else."""


def descriptors(service):
    """Return how many files and sockets the process has open."""
    return len(os.listdir(f"/proc/{service.pid}/fd"))


async def stranger(service, number, *, waits):
    """Say a part of some rubbish, and go, some of them at once; others read what is said."""
    connection = await service.connected()
    data = RUBBISH[number % len(RUBBISH)]
    connection.write(data[: 1 + number * 37 % (len(data) or 1)] if number % 3 else data)
    if waits:
        connection.writer.write_eof()
        await connection.reader.read()
        connection.close()
    else:
        connection.writer.transport.abort()


async def test_strangers_that_come_and_go_leave_nothing(tmp_path):  # N06
    async with StompService(tmp_path) as service, asyncio.timeout(TIMEOUT):
        etl, bee = await service.log_in("etl"), await service.log_in("bee")
        await bee.do("SUBSCRIBE", destination="/queue/jobs", id="s", ack="client-individual")
        before = descriptors(service)
        for first in range(0, STRANGERS, AT_ONCE):
            group = range(first, first + AT_ONCE)
            await asyncio.gather(*(stranger(service, n, waits=n % 2) for n in group))
            answer = await etl.do("SEND", b"x", destination="/queue/jobs", item_id=f"{first}")
            assert answer.command == "RECEIPT"
            message = await bee.hear()
            assert message.headers["item-id"] == f"{first}"
            assert (await bee.do("ACK", id=message.headers["ack"])).command == "RECEIPT"
        await until(lambda: descriptors(service) == before, every=LOOK)
        assert "connection.failed" not in service.log
        assert "Traceback" not in service.log


async def said_to(service, **headers):
    """Return what a CONNECT is answered."""
    connection = await service.connected()
    answer = await connection.connect(**headers)
    if answer.command == "ERROR":
        assert await connection.hear() is None
    return answer


async def test_a_wrong_login_learns_nothing_and_harms_no_other(tmp_path):  # N03
    async with StompService(tmp_path) as service, asyncio.timeout(TIMEOUT):
        etl = await service.log_in()
        wrong = [
            await said_to(service, name=name, passcode=passcode)
            for name, passcode in (("etl", "a guess"), ("nobody", RIGHT), ("", ""))
        ]
        assert wrong[0] == wrong[1] == wrong[2]
        assert wrong[0].headers["message"] == "login refused"
        assert (await etl.do("BEGIN", transaction="t")).command == "RECEIPT"
        assert "a guess" not in service.log


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("queue.localhost", "CONNECTED"),
        (None, "CONNECTED"),
        ("/", "ERROR"),
        ("QUEUE.localhost", "ERROR"),
    ],
)
async def test_a_host_that_is_not_ours_is_refused(tmp_path, host, said):
    more = {} if host is None else {"host": host}
    stomp = f'{SERVED}\nhosts = ["queue.localhost"]'
    async with StompService(tmp_path, stomp) as service, asyncio.timeout(TIMEOUT):
        answer = await said_to(service, **more)
        assert answer.command == said
        assert answer.headers.get("message", "unknown host") == "unknown host"


async def test_a_login_has_a_bounded_number_of_connections_and_each_of_subscriptions(tmp_path):
    stomp = f"{SERVED}\nconnections_per_login = 2\nsubscriptions_per_connection = 2"
    async with StompService(tmp_path, stomp) as service, asyncio.timeout(TIMEOUT):
        first, second = await service.log_in(), await service.log_in()
        assert (await said_to(service)).headers["message"] == "too many connections"
        bee = await service.log_in("bee")
        assert (await second.do("DISCONNECT")).command == "RECEIPT"
        second.close()
        await second.writer.wait_closed()
        again = await until(lambda: admitted(service), every=LOOK)
        for number in range(2):
            answer = await first.do("SUBSCRIBE", destination="/queue/jobs", id=number)
            assert answer.command == "RECEIPT"
        answer = await first.do("SUBSCRIBE", destination="/queue/jobs", id="3")
        assert answer.headers["message"] == "too many subscriptions"
        for one in (again, bee):
            assert (await one.do("BEGIN", transaction="t")).command == "RECEIPT"


async def admitted(service):
    """Return a connection that has logged in, or None."""
    connection = await service.connected()
    answer = await connection.connect()
    return connection if answer.command == "CONNECTED" else None


async def test_the_port_of_tls_has_the_certificate_and_no_plain_text(tmp_path):
    key, certificate = await certify(tmp_path, "queue.localhost")
    stomp = (
        'listen_tls = "127.0.0.1:0"\nheart_beat = 600\n'
        f'tls_certificate = "{certificate}"\ntls_key = "{key}"'
    )
    trusted = ssl.create_default_context(cafile=certificate)
    async with StompService(tmp_path, stomp) as service, asyncio.timeout(TIMEOUT):
        more = {"ssl": trusted, "server_hostname": "queue.localhost"}
        etl = Connection(*await asyncio.open_connection(*service.address, **more))
        assert (await etl.connect()).command == "CONNECTED"
        answer = await etl.do("SEND", b"x", destination="/queue/jobs")
        assert answer.command == "RECEIPT"
        answer = await etl.do("ACK", id="none")
        assert answer.headers["message"] == "no such message"
        assert await etl.hear() is None
        plain = await service.connected()
        plain.say("CONNECT", accept_version="1.2", login="etl", passcode=RIGHT)
        assert b"CONNECTED" not in await read_all(plain)


async def read_all(connection):
    """Return all that still comes, even if the connection is cut."""
    try:
        return await connection.reader.read()
    except ConnectionError:
        return b""


async def test_a_reload_ends_nothing(tmp_path):
    async with StompService(tmp_path) as service:
        etl = await service.log_in()
        os.kill(service.pid, signal.SIGHUP)
        await until(lambda: "event=config.read" in service.log)
        assert (await etl.do("SEND", b"x", destination="/queue/jobs")).command == "RECEIPT"
        assert (await (await service.log_in("bee")).do("DISCONNECT")).command == "RECEIPT"
