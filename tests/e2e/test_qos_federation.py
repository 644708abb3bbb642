"""Messages of every level between a Prosody and an ejabberd that federate, and over the end of a server."""

import asyncio

import pytest
import pytest_asyncio
from harness.patience import TIMEOUT, until
from harness.servers.federation import federation
from harness.servers.qos_service import QosService

from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import NotConfirmed
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.xep_qos import Level, Retry, qos

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]
QUICK = Timings(answer=2, backoff_min=0.05, backoff_max=0.5)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers():
    async with federation() as both:
        for server in both:
            await server.account("bot", "secret")
        yield both


@pytest.fixture(params=[0, 1], ids=["behind Prosody", "behind ejabberd"])
def pair(request, servers):
    return servers[request.param], servers[1 - request.param]


def publisher_at(server, service, **settings):
    address = {"host": server.host, "port": server.c2s_port, "tls": "off"}
    jid = f"bot@{server.domain}"
    return Publisher(jid, "secret", service=service, timings=QUICK, **address, **settings)


def service_behind(server):
    return QosService(server.component_port, server.secret, domain=server.component)


@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_publishes_reach_the_service_of_another_server(pair, level):
    home, far = pair
    async with service_behind(home) as service:
        async with publisher_at(far, home.component, level=level, timeout=TIMEOUT) as publisher:
            await publisher.publish_many("jobs", range(20))
        assert len(service.queue) == 20


async def test_a_publish_outlives_its_server_and_its_process_and_is_there_once(pair, tmp_path):
    home, far = pair
    lasting = {"level": "assured", "pending": tmp_path / "pending.db", "timeout": TIMEOUT}
    async with service_behind(home) as service:
        service.script["deliver"] = lambda _iq: []
        async with publisher_at(far, home.component, **lasting) as publisher:
            publishing = asyncio.ensure_future(publisher.publish("jobs", {}, id="i1"))
            await service.next("deliver")
            await far.kill()
            publishing.cancel()
            await asyncio.wait({publishing})
        await far.restart()
        await far.account(
            "bot", "secret"
        )  # which a server that was just started may not have on disk
        service.script["deliver"] = service.deliver_held
        async with publisher_at(far, home.component, **lasting) as publisher:
            await publisher.publish("jobs", {}, id="i2")
            await until(lambda: not publisher.pending())
        assert sorted(service.queue) == ["i1", "i2"]


@pytest.mark.parametrize("level", list(Level))
async def test_clients_of_two_servers_reach_each_other(pair, level):
    clients = []
    for server in pair:
        jid = f"bot@{server.domain}/qos"
        client = make_client(jid, "secret", host=server.host, port=server.c2s_port, tls="off")
        known = {"services": [f"bot@{other.domain}" for other in pair], "retry": Retry(first=2)}
        client.register_plugin("xep_qos", known, module="pubqueue_xeps.xep_qos")
        await login(client)
        clients.append(client)
    home, far = clients
    arrived = asyncio.Queue()
    far.add_event_handler("message", arrived.put_nowait)
    to = far.boundjid.full
    sent = await qos(home).send(to, home.make_message(to, f"hello {level}"), level)
    assert sent.level == level
    async with asyncio.timeout(TIMEOUT):
        assert (await arrived.get())["body"] == f"hello {level}"
    await logout(far)
    brief = Retry(first=0.5, attempts=2)
    home.plugin.disable("xep_qos")
    home.register_plugin(
        "xep_qos", {"retry": brief, "check": False}, module="pubqueue_xeps.xep_qos"
    )
    if level is not Level.UNACKNOWLEDGED:  # one that is away is answered for by its server
        with pytest.raises(NotConfirmed):
            await qos(home).send(to, home.make_message(to, "hello"), level)
    await logout(home)
