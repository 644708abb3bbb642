"""aioxmpp's own pubsub client, unmodified, through every method it has, behind both servers."""

import asyncio
import inspect
from contextlib import asynccontextmanager, suppress

import aioxmpp
import aioxmpp.connector
import aioxmpp.forms.xso as forms
import aioxmpp.pubsub.xso as pubsub
import pytest
from aioxmpp.errors import ErroneousStanza, XMPPCancelError
from harness.patience import TIMEOUT
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import two_people

from pubqueue_demo.prosody import Prosody

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # its last release is of 2023
]
SERVICE = aioxmpp.JID.fromstr("queue.localhost")
SIGNALS = ("item_published", "item_retracted", "node_deleted")
NODE_CONFIG = "http://jabber.org/protocol/pubsub#node_config"
DEFAULT_OPTIONS = "http://jabber.org/protocol/pubsub#retrieve-default-sub"  # not in its list
SUBSCRIBE = "http://jabber.org/protocol/pubsub#subscribe_options"


@pubsub.as_payload_class
class Work(aioxmpp.xso.XSO):
    """A payload; aioxmpp asks for a class of each."""

    TAG = ("urn:example:work", "work")


class Person:
    """A client of aioxmpp's, which notes what is called and what has come."""

    def __init__(self, server, account):
        self.jid = aioxmpp.JID.fromstr(f"{account}/desk")
        security = aioxmpp.make_security_layer("secret", no_verify=True)
        plain = aioxmpp.connector.STARTTLSConnector()
        self.client = aioxmpp.PresenceManagedClient(
            self.jid,
            security._replace(tls_required=False),
            override_peer=[(server.host, server.c2s_port, plain)],
        )
        self.pubsub = self.client.summon(aioxmpp.PubSubClient)
        self.called = set()
        self.heard = asyncio.Queue()
        for signal in SIGNALS:
            getattr(self.pubsub, f"on_{signal}").connect(
                lambda _jid, node, what=None, signal=signal, **_: self.heard.put_nowait(
                    (signal, node, getattr(what, "id_", what))
                )
            )

    def __getattr__(self, name):
        self.called.add(name)
        return getattr(self.pubsub, name)

    async def hears(self):
        """Return the next event: its kind, its node, its item."""
        async with asyncio.timeout(TIMEOUT):
            return await self.heard.get()


@asynccontextmanager
async def person(server, name):
    made = Person(server, await server.account(name, "secret"))
    async with made.client.connected():
        yield made


@pytest.fixture(params=[Prosody, Ejabberd])
async def people(request, tmp_path):
    async with two_people(request.param(), tmp_path, person) as both:
        yield both


def filled(form_type, **values):
    form = forms.Data(type_=aioxmpp.forms.DataType.SUBMIT)
    named = {"FORM_TYPE": form_type} | {f"pubsub#{it}": value for it, value in values.items()}
    form.fields += [forms.Field(var=var, values=[value]) for var, value in named.items()]
    return form


def values(form):
    return {field.var: field.values for field in form.fields}


async def if_offered(offered, answer, *, error=XMPPCancelError):
    """Return the answer; None if the service does not say that it can, and so refuses by name."""
    if offered:
        return await answer
    with pytest.raises(error) as refused:
        await answer
    if error is XMPPCancelError:
        assert refused.value.condition == aioxmpp.ErrorCondition.FEATURE_NOT_IMPLEMENTED
    return None


def ids(request):
    return [item.id_ for item in request.payload.items]


async def test_aioxmpps_client_shows_all_that_it_can(people):
    ann, bob = people
    features = await ann.get_features(SERVICE)
    disco = ann.client.summon(aioxmpp.DiscoClient)
    defaults = DEFAULT_OPTIONS in (await disco.query_info(SERVICE)).features

    await nodes(ann)
    await subscriptions(ann, bob, features, defaults=defaults)
    await items(ann, bob, features)
    await affiliations(ann, bob)
    await the_end(ann, bob)

    methods = {it for it, _ in inspect.getmembers(type(ann.pubsub), inspect.iscoroutinefunction)}
    methods = {it for it in methods if it[0] != "_"} - {"shutdown"}
    assert methods <= ann.called | bob.called, "of every method there is a call above"


async def nodes(ann):
    """Make, find and configure nodes."""
    nameless = await ann.create(SERVICE)
    assert await ann.create(SERVICE, "news") == "news"
    await ann.set_node_config(SERVICE, filled(NODE_CONFIG, title="News", max_items="10"), "news")
    listed = await ann.get_nodes(SERVICE)
    assert {("news", "News"), (nameless, None)} <= set(listed)
    await ann.delete(SERVICE, nameless)
    shown = values(await ann.get_node_config(SERVICE, "news"))
    assert shown["pubsub#title"] == ["News"]


async def subscriptions(ann, bob, features, *, defaults):
    """Subscribe, look at it from both sides, leave, come back."""
    made = await bob.subscribe(SERVICE, "news")
    assert made.payload.subscription == "subscribed"
    await bob.unsubscribe(SERVICE, "news")
    await bob.subscribe(SERVICE, "news", subscription_jid=bob.jid)
    mine = await bob.get_subscriptions(SERVICE, "news")
    assert [one.jid for one in mine.subscriptions] == [bob.jid]

    await bob.get_subscription_config(SERVICE, "news", subscription_jid=bob.jid)
    wish = filled(SUBSCRIBE, deliver="1")
    with suppress(aioxmpp.XMPPModifyError):  # no such option, unless the service has some for all
        await bob.set_subscription_config(SERVICE, wish, "news", subscription_jid=bob.jid)
    # a feature that is not in its list is an error that it cannot read
    asked = bob.get_default_config(SERVICE, "news")
    await if_offered(defaults, asked, error=ErroneousStanza)

    manage = pubsub.Feature.MANAGE_SUBSCRIPTIONS in features
    asked = ann.get_node_subscriptions(SERVICE, "news")
    if theirs := await if_offered(manage, asked):
        assert [one.jid for one in theirs.payload.subscriptions] == [bob.jid]
    joined = [(aioxmpp.JID.fromstr("cat@localhost/desk"), "subscribed")]
    asked = ann.change_node_subscriptions(SERVICE, "news", joined)
    await if_offered(manage, asked)


async def items(ann, bob, features):
    """Publish, hear of it, retrieve in every way, retract, purge."""
    for name in ("a", "b", "c"):
        assert await ann.publish(SERVICE, "news", Work(), id_=name) == name
        assert await bob.hears() == ("item_published", "news", name)
    with pytest.raises(aioxmpp.XMPPModifyError):
        await ann.notify(SERVICE, "news")  # without an item: the node keeps items (7.1.3.7)
    wish = filled("http://jabber.org/protocol/pubsub#publish-options", title="Olds")
    refusal = XMPPCancelError if pubsub.Feature.PUBLISH_OPTIONS in features else RuntimeError
    with pytest.raises(refusal):
        await ann.publish(SERVICE, "news", Work(), publish_options=wish)

    everything = await bob.get_items(SERVICE, "news")
    assert sorted(ids(everything)) == ["a", "b", "c"]
    assert all(isinstance(item.registered_payload, Work) for item in everything.payload.items)
    assert ids(await bob.get_items(SERVICE, "news", max_items=1)) == ["c"]
    assert ids(await bob.get_items_by_id(SERVICE, "news", ["a", "c"])) == ["a", "c"]

    await ann.retract(SERVICE, "news", "a", notify=True)
    assert await bob.hears() == ("item_retracted", "news", "a")
    await ann.purge(SERVICE, "news")  # it has no signal for the event
    assert ids(await bob.get_items(SERVICE, "news")) == []


async def affiliations(ann, bob):
    """Say who is what, and see it."""
    account = bob.jid.bare()
    await ann.change_node_affiliations(SERVICE, "news", [(account, "publisher")])
    theirs = await ann.get_node_affiliations(SERVICE, "news")
    found = {(one.jid, one.affiliation) for one in theirs.payload.affiliations}
    assert found == {(ann.jid.bare(), "owner"), (account, "publisher")}
    await bob.publish(SERVICE, "news", Work(), id_="d")
    assert await bob.hears() == ("item_published", "news", "d")


async def the_end(ann, bob):
    """Delete the node; who subscribes hears of it."""
    await ann.delete(SERVICE, "news")
    assert await bob.hears() == ("node_deleted", "news", None)
    with pytest.raises(XMPPCancelError) as refused:
        await bob.unsubscribe(SERVICE, "news", subscription_jid=bob.jid)
    assert refused.value.condition == aioxmpp.ErrorCondition.ITEM_NOT_FOUND
