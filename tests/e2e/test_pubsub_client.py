"""A plain node used by a client of today as it is: slixmpp's own plugins of XEP-0060, XEP-0059 and XEP-0004."""

import asyncio
from contextlib import asynccontextmanager
from xml.etree.ElementTree import Element

import pytest
import slixmpp
from harness.patience import TIMEOUT
from harness.servers.behind import SERVICE, behind_both, serving
from slixmpp.exceptions import IqError

pytestmark = pytest.mark.e2e
ATOM = "http://www.w3.org/2005/Atom"
BLOG = "urn:xmpp:microblog:0"
OPTIONS = "http://jabber.org/protocol/pubsub#publish-options"


server = behind_both("romeo", "juliet")
program = serving("")


@asynccontextmanager
async def client_of(server, name):
    client = slixmpp.ClientXMPP(f"{name}@localhost/x", "secret")
    client.enable_starttls = client.enable_direct_tls = False
    client.enable_plaintext = client.plugin["feature_mechanisms"].unencrypted_scram = True
    for plugin in ("xep_0004", "xep_0030", "xep_0059", "xep_0060"):
        client.register_plugin(plugin)
    started = asyncio.get_running_loop().create_future()
    client.add_event_handler("session_start", started.set_result)
    client.connect(server.host, server.c2s_port)
    async with asyncio.timeout(TIMEOUT):
        await started
        client.send_presence()
    yield client
    await client.disconnect()


def entry(title):
    post = Element(f"{{{ATOM}}}entry")
    words = Element(f"{{{ATOM}}}title")
    words.text = title
    post.append(words)
    return post


def options(client, **fields):
    form = client.plugin["xep_0004"].make_form(ftype="submit")
    form.add_field(var="FORM_TYPE", ftype="hidden", value=OPTIONS)
    for name, value in fields.items():
        form.add_field(var=f"pubsub#{name}", value=value)
    return form


def titles(iq):
    items = iq["pubsub"]["items"]["substanzas"]
    return [(item["id"], item["payload"][0].text) for item in items]


async def test_a_blog_is_made_followed_paged_configured_and_deleted(server, program):
    async with client_of(server, "romeo") as romeo, client_of(server, "juliet") as juliet:
        writer, reader = romeo.plugin["xep_0060"], juliet.plugin["xep_0060"]
        heard = asyncio.Queue()
        for event in ("publish", "retract", "delete"):
            juliet.add_event_handler(
                f"pubsub_{event}", lambda message, event=event: heard.put_nowait((event, message))
            )
        wanted = options(romeo, persist_items="true", max_items="2", access_model="open")
        posts = dict(zip("abc", ("Hello", "Good night", "Good morrow"), strict=True))
        await writer.publish(SERVICE, BLOG, id="a", payload=entry(posts["a"]), options=wanted)
        await reader.subscribe(SERVICE, BLOG)
        for name in "bc":
            await writer.publish(SERVICE, BLOG, id=name, payload=entry(posts[name]))
        async with asyncio.timeout(TIMEOUT):
            events = [await heard.get() for _ in range(3)]
        assert [kind for kind, _ in events] == ["publish", "publish", "retract"]
        assert {message["type"] for _, message in events} == {"headline"}
        newest = await reader.get_items(SERVICE, BLOG, max_items=1)
        assert titles(newest) == [("c", posts["c"])]
        found = await reader.get_items(SERVICE, BLOG)
        assert titles(found) == [(name, posts[name]) for name in "bc"]

        with pytest.raises(IqError) as unmet:
            await writer.publish(
                SERVICE,
                BLOG,
                id="d",
                payload=entry("?"),
                options=options(romeo, access_model="whitelist"),
            )
        assert unmet.value.condition == "conflict"

        iq = await writer.get_node_config(SERVICE, BLOG)
        form = iq["pubsub_owner"]["configure"]["form"]
        assert form.get_values()["pubsub#max_items"] == "2"
        shorter = romeo.plugin["xep_0004"].make_form(ftype="submit")
        shorter.add_field(var="pubsub#max_items", value="1")
        await writer.set_node_config(SERVICE, BLOG, shorter)
        async with asyncio.timeout(TIMEOUT):
            kind, message = await heard.get()
        assert (kind, message["pubsub_event"]["items"]["retract"]["id"]) == ("retract", "b")
        info = await juliet.plugin["xep_0030"].get_info(SERVICE, BLOG)
        assert ("pubsub", "leaf", None, None) in info["disco_info"]["identities"]

        await writer.delete_node(SERVICE, BLOG)
        async with asyncio.timeout(TIMEOUT):
            kind, _ = await heard.get()
        assert kind == "delete"
        with pytest.raises(IqError) as gone:
            await reader.get_items(SERVICE, BLOG)
        assert gone.value.condition == "item-not-found"
