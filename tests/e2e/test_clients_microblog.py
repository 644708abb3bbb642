"""Libervia's command line, unmodified: a microblog (XEP-0277) in a node of ours, behind both servers."""

import pytest
from harness.clients.libervia import libervia
from harness.clients.session import PUBSUB, SERVICE, session
from harness.machines.packaged import needs
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component

from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, needs("libervia-cli", "dbus-daemon")]
BLOG = ("-p", "me", "-s", SERVICE, "-n", "blog")
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.mark.parametrize("kind", [Prosody, Ejabberd])
async def test_a_post_is_written_read_notified_and_deleted(kind, tmp_path):
    async with kind() as server, component(server, tmp_path, ""):
        ann = await server.account("ann", "secret")
        await server.account("bob", "secret")
        async with (
            session(server, "bob@localhost/desk") as bob,
            libervia(server, ann, tmp_path / "home") as me,
        ):
            await posts(me, bob)


async def posts(me, bob):
    await me.says("pubsub", "node", "create", *BLOG, "-f", "title", "Work")
    assert "title: Work" in await me.says("pubsub", "node", "info", *BLOG)
    subscribe = f"<subscribe node='blog' jid='{bob.jid}'/>"
    answer = await bob.ask("set", f"<pubsub xmlns='{PUBSUB}'>{subscribe}</pubsub>")
    assert answer.get("type") == "result"

    said = await me.says("blog", "set", *BLOG, "-T", "A title", "-t", "news", typed="Hello")
    assert "Item published with ID " in said
    name = said.split()[-1]
    event = await bob.next_message()
    item = event.find(".//{*}item")
    assert item.get("id") == name
    assert item.findtext(f"{ATOM}entry/{ATOM}title") == "A title"

    shown = await me.says("blog", "get", *BLOG)
    assert "A title" in shown
    assert "Hello" in shown
    assert name in await me.says("pubsub", "get", *BLOG)
    assert "blog: owner" in await me.says("pubsub", "affiliations", "-p", "me", "-s", SERVICE)

    # it asks the account's own server to subscribe (XEP-0376), and neither of them can
    assert "can't subscribe" in await me.says("pubsub", "subscribe", *BLOG)

    await me.says("pubsub", "delete", *BLOG, "-f", "-i", name)
    event = await bob.next_message()
    assert event.find(".//{*}retract").get("id") == name
    await me.says("pubsub", "node", "delete", *BLOG, "-f")
    event = await bob.next_message()
    assert event.find(".//{*}delete").get("node") == "blog"
