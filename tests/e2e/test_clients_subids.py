"""Several subscriptions of one JID by slixmpp's own plugin for XEP-0060, and what the how-to prints, behind both servers."""

import pytest
from e2e.test_clients_pubsub import PUBSUB, SERVICE, WORK, ids, person
from harness.documents.documented import blocks
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import two_people
from slixmpp.exceptions import IqError
from slixmpp.xmlstream import ET

from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e
HOW_TO = "docs/how-to/several-subscriptions.md"


def printed():
    """Return what the page defines."""
    (block,) = [block for block in blocks("python") if block.page == HOW_TO]
    names = {}
    exec(block.text, names)
    return names


@pytest.fixture(params=[Prosody, Ejabberd])
async def people(request, tmp_path):
    async with two_people(request.param(), tmp_path, person) as both:
        yield both


async def refused(asked):
    with pytest.raises(IqError) as no:
        await asked
    return no.value.condition, no.value.iq["error"]["pubsub"]["condition"]


def node_config(client):
    form = client.plugin["xep_0004"].make_form(ftype="submit")
    form.add_field(var="FORM_TYPE", ftype="hidden", value=f"{PUBSUB}#node_config")
    form.add_field(var="x-pubsub#multi_subscribe", value="1")
    return form


async def test_slixmpp_has_two_subscriptions_of_one_jid(people):
    ann, bob = people
    page = printed()
    subscribe_quietly, subids = page["subscribe_quietly"], page["subids"]
    await ann.create_node(SERVICE, "news", config=node_config(ann.client))
    info = await ann.client.plugin["xep_0030"].get_info(SERVICE, "news")
    assert f"{PUBSUB}#multi-subscribe" in info["disco_info"]["features"]

    made = await bob.subscribe(SERVICE, "news")
    first = made["pubsub"]["subscription"]["subid"]
    second = await subscribe_quietly(bob.client, SERVICE, "news")
    mine = await bob.get_subscriptions(SERVICE, "news")
    assert [one["subid"] for one in mine["pubsub"]["subscriptions"]] == sorted((first, second))
    theirs = await ann.get_node_subscriptions(SERVICE, "news")
    listed = [one.xml.get("subid") for one in theirs["pubsub_owner"]["subscriptions"]]
    assert listed == sorted((first, second))

    await ann.publish(SERVICE, "news", id="a", payload=ET.Element(WORK))
    _, message = await bob.hears()
    assert subids(message) == [first]
    await bob.client.plugin["xep_0060"].subscribe(SERVICE, "news")
    await ann.publish(SERVICE, "news", id="b", payload=ET.Element(WORK))
    _, message = await bob.hears()
    assert len(subids(message)) == 2
    assert second not in subids(message)

    assert await refused(bob.unsubscribe(SERVICE, "news")) == ("bad-request", "subid-required")
    asked = bob.get_items(SERVICE, "news")  # its plugin has no place for an id in what it asks
    assert await refused(asked) == ("bad-request", "subid-required")
    asked = bob.unsubscribe(SERVICE, "news", subid="no such")
    assert await refused(asked) == ("not-acceptable", "invalid-subid")
    for subid in subids(message):
        await bob.unsubscribe(SERVICE, "news", subid=subid)
    await ann.publish(SERVICE, "news", id="c", payload=ET.Element(WORK))
    assert ids(await bob.get_items(SERVICE, "news")) == ["a", "b", "c"]
    await bob.unsubscribe(SERVICE, "news")
    assert (await refused(bob.unsubscribe(SERVICE, "news")))[1] == "not-subscribed"
    assert bob.heard.qsize() == 0  # the answers came behind whatever was told before
