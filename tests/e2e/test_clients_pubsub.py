"""slixmpp's own plugin for XEP-0060, unmodified, through every method it has, behind both servers."""

import asyncio
import inspect
from contextlib import asynccontextmanager
from xml.etree import ElementTree as ET

import pytest
import slixmpp
from harness.patience import TIMEOUT
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import two_people
from slixmpp.exceptions import IqError
from slixmpp.plugins.xep_0060.pubsub import XEP_0060

from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e
SERVICE = "queue.localhost"
PUBSUB = "http://jabber.org/protocol/pubsub"
WORK = "{urn:example:work}work"
EVENTS = ("publish", "retract", "purge", "delete")


class Person:
    """A client of slixmpp's with its plugin, which notes what is called and what has come."""

    def __init__(self, jid):
        self.client = slixmpp.ClientXMPP(jid, "secret")
        self.client.enable_starttls = self.client.enable_direct_tls = False
        mechanisms = self.client.plugin["feature_mechanisms"]
        self.client.enable_plaintext = mechanisms.unencrypted_scram = True
        for plugin in ("xep_0030", "xep_0059", "xep_0060"):
            self.client.register_plugin(plugin)
        self.called = set()
        self.heard = asyncio.Queue()
        for name in [f"{kind}_{event}" for kind in ("pubsub", "news") for event in EVENTS]:
            self.client.add_event_handler(
                name, lambda message, name=name: self.heard.put_nowait((name, message))
            )

    def __getattr__(self, name):
        self.called.add(name)
        return getattr(self.client.plugin["xep_0060"], name)

    async def hears(self):
        """Return the name of the next event, and its message."""
        async with asyncio.timeout(TIMEOUT):
            return await self.heard.get()


@asynccontextmanager
async def person(server, name):
    made = Person(f"{await server.account(name, 'secret')}/desk")
    started = asyncio.get_running_loop().create_future()
    made.client.add_event_handler("session_start", started.set_result)
    made.client.connect(server.host, server.c2s_port)
    async with asyncio.timeout(TIMEOUT):
        await started
    made.client.send_presence()
    yield made
    await made.client.disconnect()


@pytest.fixture(params=[Prosody, Ejabberd])
async def people(request, tmp_path):
    async with two_people(request.param(), tmp_path, person) as both:
        yield both


def form(client, name, **fields):
    made = client.plugin["xep_0004"].make_form(ftype="submit")
    made.add_field(var="FORM_TYPE", ftype="hidden", value=f"{PUBSUB}#{name}")
    for var, value in fields.items():
        made.add_field(var=f"pubsub#{var}", value=value)
    return made


def values(form):
    return {name: field["value"] for name, field in form.get_fields().items()}


async def if_offered(features, feature, answer):
    """Return the answer; None if the service does not say that it can, and so refuses by name."""
    if f"{PUBSUB}#{feature}" in features:
        return await answer
    with pytest.raises(IqError) as refused:
        await answer
    assert refused.value.condition == "feature-not-implemented"
    assert refused.value.iq["error"]["pubsub"]["unsupported"] == feature
    return None


def ids(result):
    return [item["id"] for item in result["pubsub"]["items"]]


async def test_slixmpps_plugin_shows_all_that_it_can(people):
    ann, bob = people
    info = await ann.client.plugin["xep_0030"].get_info(SERVICE)
    features = info["disco_info"]["features"]

    await nodes(ann, features)
    await subscriptions(ann, bob, features)
    await items(ann, bob, features)
    await affiliations(ann, bob, features)
    await the_end(ann, bob)

    methods = {name for name, it in vars(XEP_0060).items() if inspect.isfunction(it)}
    methods = {it for it in methods if it[0] != "_" and not it.startswith("plugin_")}
    assert methods <= ann.called | bob.called, "of every method there is a call above"


async def nodes(ann, features):
    """Make, find and configure nodes."""
    made = await ann.create_node(SERVICE, None)
    nameless = made["pubsub"]["create"]["node"]
    wish = form(ann.client, "node_config", title="News", max_items="10")
    await ann.create_node(SERVICE, "news", config=wish)
    listed = await ann.get_nodes(SERVICE)
    assert {("news", "News"), (nameless, None)} <= {
        (node, name) for _, node, name in listed["disco_items"]["items"]
    }
    await ann.delete_node(SERVICE, nameless)

    change = form(ann.client, "node_config", description="what is new")
    await ann.set_node_config(SERVICE, "news", change)
    shown = values(
        (await ann.get_node_config(SERVICE, "news"))["pubsub_owner"]["configure"]["form"]
    )
    assert (shown["pubsub#title"], shown["pubsub#description"]) == ("News", "what is new")
    asked = ann.get_node_config(SERVICE)
    if default := await if_offered(features, "retrieve-default", asked):
        assert "pubsub#access_model" in values(default["pubsub_owner"]["default"]["form"])


async def subscriptions(ann, bob, features):
    """Subscribe as one's account and as a resource, and look at it from both sides."""
    for bare in (True, False):
        made = await bob.subscribe(SERVICE, "news", bare=bare)
        assert made["pubsub"]["subscription"]["subscription"] == "subscribed"
    mine = await bob.get_subscriptions(SERVICE, "news")
    jids = {str(one["jid"]) for one in mine["pubsub"]["subscriptions"]}
    assert jids == {"bob@localhost", "bob@localhost/desk"}
    await bob.unsubscribe(SERVICE, "news", bare=True)

    mine = await bob.get_subscription_options(SERVICE, "news", user_jid=bob.client.boundjid)
    assert mine["pubsub"]["options"]["node"] == "news"
    asked = bob.get_subscription_options(SERVICE, "news")
    await if_offered(features, "retrieve-default-sub", asked)
    # it sends a get, which can change nothing, and is told so: XEP-0060 6.3.5 has a set
    wish = form(bob.client, "subscribe_options", deliver="0")
    with pytest.raises(IqError) as refused:
        await bob.set_subscription_options(SERVICE, "news", bob.client.boundjid, wish)
    assert refused.value.text == "options contains x only in an IQ of type set"

    asked = ann.get_node_subscriptions(SERVICE, "news")
    if theirs := await if_offered(features, "manage-subscriptions", asked):
        (one,) = theirs["pubsub_owner"]["subscriptions"]
        assert str(one["jid"]) == "bob@localhost/desk"
    joined = [("cat@localhost/desk", "subscribed")]
    asked = ann.modify_subscriptions(SERVICE, "news", joined)
    await if_offered(features, "manage-subscriptions", asked)


async def items(ann, bob, features):
    """Publish, hear of it, retrieve in every way, retract, purge."""
    bob.map_node_event("news", "news")
    for name in ("a", "b", "c"):
        done = await ann.publish(SERVICE, "news", id=name, payload=ET.Element(WORK))
        assert done["pubsub"]["publish"]["item"]["id"] == name
        for event in ("pubsub_publish", "news_publish"):
            heard, message = await bob.hears()
            item = message["pubsub_event"]["items"]["item"]
            assert (heard, item["id"], item["payload"].tag) == (event, name, WORK)
    wish = form(ann.client, "publish-options", title="Olds")
    if f"{PUBSUB}#publish-options" in features:
        with pytest.raises(IqError) as refused:
            await ann.publish(SERVICE, "news", payload=ET.Element(WORK), options=wish)
        assert refused.value.condition == "conflict"

    assert ids(await bob.get_item(SERVICE, "news", "a")) == ["a"]
    assert ids(await bob.get_items(SERVICE, "news", max_items=1)) == ["c"]
    assert ids(await bob.get_items(SERVICE, "news", item_ids=["a", "c"])) == ["a", "c"]
    with pytest.raises(TypeError):  # it has no place for XEP-0059 in what it asks
        await anext(bob.get_items(SERVICE, "news", iterator=True))
    named = await bob.get_item_ids(SERVICE, "news")
    assert {name for _, _, name in named["disco_items"]["items"]} == {"a", "b", "c"}
    pages = await bob.get_item_ids(SERVICE, "news", iterator=True)
    found = [page["disco_items"]["items"] async for page in pages]
    assert sorted(name for page in found for _, _, name in page) == ["a", "b", "c"]

    await ann.retract(SERVICE, "news", "a", notify="1")
    assert [(await bob.hears())[0] for _ in range(2)] == ["pubsub_retract", "news_retract"]
    await ann.purge(SERVICE, "news")
    assert [(await bob.hears())[0] for _ in range(2)] == ["pubsub_purge", "news_purge"]
    assert ids(await bob.get_items(SERVICE, "news")) == []


async def affiliations(ann, bob, features):
    """Say who is what, and see it from both sides."""
    await ann.modify_affiliations(SERVICE, "news", [("bob@localhost", "publisher")])
    theirs = await ann.get_node_affiliations(SERVICE, "news")
    found = {
        (str(one["jid"]), one["affiliation"]) for one in theirs["pubsub_owner"]["affiliations"]
    }
    assert found == {("ann@localhost", "owner"), ("bob@localhost", "publisher")}
    mine = await bob.get_affiliations(SERVICE)
    assert [(one["node"], one["affiliation"]) for one in mine["pubsub"]["affiliations"]] == [
        ("news", "publisher")
    ]
    await bob.publish(SERVICE, "news", id="d", payload=ET.Element(WORK))
    await bob.hears()
    await bob.hears()


async def the_end(ann, bob):
    """Delete the node; who subscribes hears of it."""
    await ann.delete_node(SERVICE, "news")
    assert [(await bob.hears())[0] for _ in range(2)] == ["pubsub_delete", "news_delete"]
    with pytest.raises(IqError) as refused:
        await bob.unsubscribe(SERVICE, "news", bare=False)
    assert refused.value.condition == "item-not-found"
