"""The programs of the page about Quality of Service do what it says."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import pytest
from harness.batches.inside import close_pipes
from harness.documents.documented import blocks
from harness.patience import TIMEOUT
from harness.servers.qos_service import QosService

from pubqueue_xeps.client.xmpp_client import login, logout, make_client

pytestmark = pytest.mark.e2e
PAGE = "docs/how-to/qos.md"
PUBLISHER, WORKER, COUNTER = (one.text for one in blocks("python") if one.page == PAGE)


@pytest.fixture
async def service(prosody):
    async with QosService(prosody.component_port, prosody.secret) as scripted:
        yield scripted


@asynccontextmanager
async def program(prosody, folder, text):
    at = f"?host={prosody.host}&port={prosody.c2s_port}&tls=off"
    url = f"xmpp://bot@localhost/queue.localhost{at}"
    (folder / "program.py").write_text(text)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-Iu", folder / "program.py"),
        env=os.environ | {"PUBQUEUE_URL": url, "PUBQUEUE_PASSWORD": "secret"},
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        close_pipes(process)


async def test_the_publisher_publishes_once_though_it_is_killed(service, prosody, tmp_path):
    service.script["deliver"] = lambda _iq: []
    async with program(prosody, tmp_path, PUBLISHER) as process:
        await service.next("deliver")
        process.kill()
    service.script["deliver"] = service.deliver_held
    async with program(prosody, tmp_path, PUBLISHER) as process, asyncio.timeout(TIMEOUT):
        assert await process.wait() == 0
    assert len(service.queue) == 2  # that of the first program, and that of the second
    assert not service.held


async def test_the_worker_answers_its_deliveries(service, prosody, tmp_path):
    async with program(prosody, tmp_path, WORKER) as process, asyncio.timeout(TIMEOUT):
        subscribe = await service.next("subscribe")
        level = subscribe.findtext(".//{*}field[@var='x-queueing#qos']/{*}value")
        assert level == "acknowledged"
        event = "http://jabber.org/protocol/pubsub#event"
        inner = f"<event xmlns='{event}'><items node='jobs'><item id='i1'><x xmlns='y'/></item></items></event>"
        message = f"<message xmlns='jabber:client'>{inner}</message>"
        address = f"id='d1' from='queue.localhost' to='{subscribe.get('from')}'"
        carried = f"<acknowledged xmlns='urn:xmpp:qos'>{message}</acknowledged>"
        service.send(f"<iq type='set' {address}>{carried}</iq>")
        assert await process.stdout.readline() == b"done i1\n"
        await service.next("retract")


async def test_the_client_counts_with_any_other_client(prosody, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    text = COUNTER.replace("entrance@example.org/door", "bot@localhost/door")
    text = text.replace("counter@example.org/hall", "bot@localhost/hall")
    exec(text.replace('"password"', '"secret"'), names)
    address = prosody.host, prosody.c2s_port
    hall = make_client("bot@localhost/hall", "secret", host=address[0], port=address[1], tls="off")
    hall.register_plugin("xep_qos", module="pubqueue_xeps.xep_qos")
    counted = asyncio.Queue()
    hall.add_event_handler("message", counted.put_nowait)
    await login(hall)
    door = names["Counter"]()
    door.enable_starttls = door.enable_direct_tls = False
    door.enable_plaintext = True
    door.plugin["feature_mechanisms"].unencrypted_scram = True
    door.plugin["feature_mechanisms"].unencrypted_plain = True
    door.custom_address = address
    await login(door)
    async with asyncio.timeout(TIMEOUT):
        assert (await counted.get())["body"] == "entered"
    for client in (door, hall):
        await logout(client)
        client.plugin.disable("xep_qos")
