"""Access models that an owner's roster decides, behind an ejabberd that lets the service ask for it (XEP-0356)."""

import asyncio

import pytest
from harness.clients.client import Client
from harness.patience import TIMEOUT, until
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component
from harness.servers.stub_server import parse

pytestmark = [pytest.mark.e2e]

PUBSUB = "http://jabber.org/protocol/pubsub"
PEOPLE = ("boss", "juliet", "nurse", "romeo")
NODES = {"presence": (), "roster": ("Friends", "Servants")}


class Person:
    """A client that asks and is answered."""

    def __init__(self, client, heard):
        self.jid = client.jid
        self._client = client
        self._heard = heard
        self._count = 0

    async def ask(self, kind, child):
        self._count += 1
        name = f"ask{self._count}"
        await self._client.send(f"<iq type='{kind}' id='{name}' to='queue.localhost'>{child}</iq>")
        async with asyncio.timeout(TIMEOUT):
            while (answer := parse(await self._heard.get())).get("id") != name:
                pass
        return answer

    async def create(self, node, model, groups=()):
        values = "".join(f"<value>{group}</value>" for group in groups)
        form = (
            f"<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{PUBSUB}#node_config</value></field>"
            f"<field var='pubsub#access_model'><value>{model}</value></field>"
            f"<field var='pubsub#roster_groups_allowed'>{values}</field></x>"
        )
        create = f"<create node='{node}'/><configure>{form}</configure>"
        return await self.ask("set", f"<pubsub xmlns='{PUBSUB}'>{create}</pubsub>")

    async def subscribe(self, node):
        subscribe = f"<subscribe node='{node}' jid='{self.jid}'/>"
        return outcome(await self.ask("set", f"<pubsub xmlns='{PUBSUB}'>{subscribe}</pubsub>"))

    async def items(self, node):
        items = f"<items node='{node}'/>"
        return outcome(await self.ask("get", f"<pubsub xmlns='{PUBSUB}'>{items}</pubsub>"))

    async def features(self):
        info = await self.ask("get", "<query xmlns='http://jabber.org/protocol/disco#info'/>")
        return {one.get("var") for one in info.iter("{*}feature")}

    async def sees_models_of_rosters(self):
        """Whether the server has told the service yet that it may read rosters, which follows the start."""
        models = {f"{PUBSUB}#access-presence", f"{PUBSUB}#access-roster"}
        return models <= await self.features()


def outcome(answer):
    """Return how a request ended: as a result, or with which type, condition and condition of pubsub."""
    if answer.get("type") == "result":
        return "result"
    (error,) = answer.iter("{*}error")
    return " ".join([error.get("type"), *(child.tag.rpartition("}")[2] for child in error)])


async def logged_in(server, name):
    await server.account(name, "secret")
    heard = asyncio.Queue()
    client = Client(f"{name}@localhost/x", heard.put_nowait)
    await client.log_in(server.host, server.c2s_port, "secret")
    return Person(client, heard), client


@pytest.mark.covers("S-005", "S-006", "I-008", on=["ejabberd"])
async def test_contacts_of_an_owner_subscribe_and_retrieve_and_strangers_do_not(tmp_path):
    async with Ejabberd(lets_read_rosters=True) as server:
        people = [await logged_in(server, name) for name in PEOPLE]
        boss, juliet, nurse, romeo = (person for person, _ in people)
        await server.contact("boss@localhost", "juliet@localhost", "Friends", "from")
        await server.contact("boss@localhost", "nurse@localhost", "Enemies", "both")
        await server.contact("boss@localhost", "romeo@localhost", "Servants", "to")
        async with component(server, tmp_path, ""):
            await until(boss.sees_models_of_rosters)
            for model, groups in NODES.items():
                assert outcome(await boss.create(model, model, groups)) == "result"
            stranger = "auth not-authorized presence-subscription-required"
            outsider = "auth not-authorized not-in-roster-group"
            expected = {
                juliet: {"presence": "result", "roster": "result"},
                nurse: {"presence": "result", "roster": outsider},
                romeo: {"presence": stranger, "roster": "result"},
            }
            for person, outcomes in expected.items():
                for node, ends in outcomes.items():
                    assert await person.items(node) == ends
                    assert await person.subscribe(node) == ends
                    assert await person.items(node) == ends
            assert await boss.subscribe("presence") == "result"
        for _, client in people:
            await client.log_out()


async def test_where_the_server_refuses_rosters_the_models_are_refused_by_name(tmp_path):
    async with Ejabberd() as server:
        boss, client = await logged_in(server, "boss")
        async with component(server, tmp_path, ""):
            assert f"{PUBSUB}#access-presence" not in await boss.features()
            for model in NODES:
                refused = outcome(await boss.create(model, model))
                assert refused == "modify not-acceptable text unsupported-access-model"
        await client.log_out()
