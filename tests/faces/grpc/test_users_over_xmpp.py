"""Users of the service in XMPP: an owner there says by its affiliations what they may do over gRPC, and nobody there can be them."""

from __future__ import annotations

from base64 import b64encode

import grpc
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub, code_of
from faces.grpc.service import LISTENING
from grpc import StatusCode
from harness.clients.session import PUBSUB
from harness.patience import TIMEOUT, until
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer
from harness.servers.users import RIGHT, table

from pubqueue.faces.grpc.wire import v1 as m

CONFIG = f"""
[grpc]
listen = "127.0.0.1:0"
{table("etl")}"""
BOSS, ETL, SERVICE = "boss@localhost/x", "etl@queue.localhost", "queue.localhost"
JOBS = {"topic": "projects/xmpp/topics/jobs", "messages": [m.PubsubMessage(data=b"{}")]}
PULLED = {"subscription": "projects/xmpp/subscriptions/jobs", "max_messages": 1}
MAKE = (
    "<create node='jobs'/><configure><x xmlns='jabber:x:data' type='submit'>"
    "<field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#node_config</value></field>"
    "<field var='x-queueing#enabled'><value>1</value></field></x></configure>"
)


class Network:
    """The XMPP network: it asks the service in anybody's name."""

    def __init__(self, server: StubServer, program: Program) -> None:
        self.server, self.program = server, program
        self._asked = 0

    async def ask(self, by: str, inner: str, part: str = "") -> str:
        """Return the type of the answer, or the condition of the refusal."""
        self._asked += 1
        name = f"n{self._asked}"
        body = f"<pubsub xmlns='{PUBSUB}{part}'>{inner}</pubsub>"
        await self.server.send(f"<iq type='set' id='{name}' from='{by}' to='{SERVICE}'>{body}</iq>")
        while (answer := (await self.server.receive()).tree).get("id") != name:
            pass
        error = answer.find("{*}error")
        return "result" if error is None else error[0].tag.partition("}")[2]

    async def grant(self, affiliation: str, by: str = BOSS) -> str:
        """Have `by` set the affiliation of the user with the queue."""
        given = f"<affiliation jid='{ETL}' affiliation='{affiliation}'/>"
        return await self.ask(by, f"<affiliations node='jobs'>{given}</affiliations>", "#owner")


@pytest.fixture
async def network(tmp_path):
    async with StubServer() as server, Program(write_config(tmp_path, server, CONFIG)) as program:
        await server.connected()
        await until(lambda: LISTENING.search(program.log))
        network = Network(server, program)
        assert await network.ask(BOSS, MAKE) == "result"
        yield network


@pytest.fixture
async def etl(network):
    """What the user calls: topics and subscriptions."""
    ((host, port),) = LISTENING.findall(network.program.log)
    pair = b64encode(f"etl:{RIGHT}".encode()).decode()
    login = (("authorization", f"Basic {pair}"),)
    async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
        yield Stub(channel, PUBLISHER, login), Stub(channel, SUBSCRIBER, login)


async def test_an_owner_over_xmpp_sets_the_rights_of_a_user(network, etl):  # G43
    publisher, subscriber = etl
    assert await code_of(publisher.Publish(**JOBS)) == StatusCode.NOT_FOUND
    assert await network.grant("publish-only") == "result"
    assert await code_of(publisher.Publish(**JOBS)) == StatusCode.OK
    assert await code_of(subscriber.Pull(**PULLED)) == StatusCode.PERMISSION_DENIED
    assert await network.grant("member") == "result"
    assert await code_of(publisher.Publish(**JOBS)) == StatusCode.PERMISSION_DENIED
    assert len((await subscriber.Pull(**PULLED, timeout=TIMEOUT)).received_messages) == 1
    assert await network.grant("outcast") == "result"
    assert await code_of(subscriber.Pull(**PULLED)) == StatusCode.NOT_FOUND


@pytest.mark.parametrize("sender", [ETL, f"{ETL}/x", f"{ETL}/grpc.1.1"])
async def test_no_account_in_xmpp_sends_as_the_user(network, sender):  # G43
    assert await network.grant("owner") == "result"
    for inner, part in (
        ("<create node='forged'/>", ""),
        ("<publish node='jobs'><item id='f'><job xmlns='jobs'/></item></publish>", ""),
        ("<delete node='jobs'/>", "#owner"),
    ):
        assert await network.ask(sender, inner, part) == "forbidden"
    assert await network.grant("owner", by=sender) == "forbidden"
    assert f"stanza.forged sender={sender} " in network.program.log
