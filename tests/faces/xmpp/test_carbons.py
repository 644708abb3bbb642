"""Real servers copy no notice to a user's other resources (XEP-0280), though it carries no hint against that."""

import json

import pytest
from bench.wire import log_in
from harness.servers.ejabberd import Ejabberd

from pubqueue.faces.xmpp.render.notices import notice
from pubqueue.faces.xmpp.stream.component import Component
from pubqueue.model.entities import Item, State
from pubqueue.model.notices import Deliver, Retracted, Unlocked
from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e

SERVICE = "queue.localhost"
ENABLE = b"<iq type='set' id='carbons'><enable xmlns='urn:xmpp:carbons:2'/></iq>"
ITEM = Item(1, "jobs", "i1", State.LOCKED, "boss@localhost", 0, acquired=2, deadline=1, token=2)
JOB = b"<job xmlns='urn:work'><body>text</body></job>"


class CopyingEjabberd(Ejabberd):
    """With mod_carboncopy."""

    def _configure(self):
        super()._configure()
        path = self.folder / "ejabberd.yml"
        settings = json.loads(path.read_text())
        settings["modules"]["mod_carboncopy"] = {}
        path.write_text(json.dumps(settings))


SERVERS = {"prosody": lambda: Prosody(modules=("carbons",)), "ejabberd": CopyingEjabberd}


async def reader(server, jid):
    """Log in, ask for copies, and say that the resource is there."""
    stream = await log_in(server.host, server.c2s_port, jid, "secret")
    await stream.ask("carbons", ENABLE)
    stream.write(b"<presence/>")
    while (await stream.next("presence", "presence")).attributes.get("from") != jid:
        pass  # until its own is back
    return stream


@pytest.mark.parametrize("kind", SERVERS)
async def test_only_what_has_a_body_is_copied(kind):
    async with SERVERS[kind]() as server:
        account = await server.account("bee", "secret")
        jid = f"{account}/one"
        one, two = [await reader(server, f"{account}/{name}") for name in ("one", "two")]
        component = Component(
            *(SERVICE, server.secret, (server.host, server.component_port)),
            on_stanza=lambda _stanza: None,
            on_up=lambda: None,
            on_down=lambda: None,
        )
        assert await component.attempt()
        said = (
            Deliver(jid, ITEM, JOB),
            Retracted(jid, "jobs", ("i1",)),
            Unlocked(jid, "jobs", ("i1",)),
        )
        for number, what in enumerate(said):
            assert component.write(notice(what, SERVICE, lambda number=number: f"n{number}"))
        body = f"<message from='{SERVICE}' to='{jid}' id='last'><body>text</body></message>"
        assert component.write(body.encode())
        came = [await one.next("a notice", "message") for _ in (*said, body)]
        assert [stanza.attributes["id"] for stanza in came] == ["pq-1-2-", "n1", "n2", "last"]
        copy = await two.next("the copy", "message")
        assert copy.names == ["received", "forwarded", "message", "body"]
        one.close()
        two.close()
        await component.leave()
