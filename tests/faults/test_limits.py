"""What an account may send is refused or served, and the component's stream stays up.

A server ends the stream of a component that breaks the stream's rules, and with it everybody's work.
"""

from contextlib import suppress

import pytest
import pytest_asyncio
from harness.clients.session import PUBSUB, SERVICE, condition, session
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component

from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]
NODES = """
[[node]]
name = "jobs"
queueing = true
owners = ["etl@localhost"]
publishers = ["etl@localhost"]
members = ["bee@localhost"]
options = { "x-queueing#backoff_min" = 0 }

[[node]]
name = "plain"
owners = ["etl@localhost"]
options = { "pubsub#access_model" = "open" }
"""
DEEP = {Prosody: 5000, Ejabberd: 1500}
"""Levels that the server itself survives: ejabberd 23.01, all of it, dies of 5,000."""
PING = "<ping xmlns='urn:xmpp:ping'/>"
ITEMS = "<query xmlns='http://jabber.org/protocol/disco#items' node='plain'/>"
WINDOW = """<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'>
<value>10</value></field></x></options>"""


def behind(name):
    """Return what asks for the names behind this one (XEP-0059)."""
    place = f"<set xmlns='http://jabber.org/protocol/rsm'><after>{name}</after></set>"
    return ITEMS.replace("/>", f">{place}</query>")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[Prosody, Ejabberd])
async def place(request, tmp_path_factory):
    """The server and the component behind it, for all tests."""
    async with request.param() as server:
        for name in ("etl", "bee", "mallory"):
            await server.account(name, "secret")
        async with component(server, tmp_path_factory.mktemp("place"), NODES) as program:
            yield server, program


@pytest_asyncio.fixture(loop_scope="module")
async def etl(place):
    """One who publishes; whatever happens in a test, the component's stream has stayed up."""
    server, program = place
    before = program.log
    async with session(server, "etl@localhost/x") as made:
        yield made
        assert condition(await made.ask("get", PING)) == "result"
    news = program.log[len(before) :]
    assert "stream." not in news
    assert "Traceback" not in news


@pytest.mark.parametrize("deep", [False, True])
async def test_a_payload_that_nests_too_deeply(place, etl, deep):
    levels = DEEP[type(place[0])] if deep else 101
    answer = await etl.publish("<a xmlns='urn:x'>" + "<a>" * levels + "</a>" * levels + "</a>")
    assert condition(answer) == "modify bad-request"
    assert answer.find("{*}error/{*}invalid-payload") is not None


async def test_a_payload_over_the_node_s_bound(etl):
    answer = await etl.publish(f"<a xmlns='urn:x'>{'x' * 70_000}</a>")
    assert condition(answer) == "modify not-acceptable"
    assert answer.findtext("{*}error/{*}text") == "the maximum size of a payload in bytes is 65536"


@pytest.mark.parametrize("char", ['"', "'", ">", "x"])
async def test_an_id_that_grows_when_it_is_written(etl, char):
    """Prosody ends the stream of a component that says more than 512 KiB at once."""
    name = char * 200_000
    for child in (PING, "<x xmlns='urn:x'/>", "<query xmlns='jabber:iq:version'/>", ITEMS):
        answer = await etl.ask("get", child, name=name)
        assert answer.get("id") == name


async def test_more_names_than_one_answer_can_hold(etl):
    names = [f"{n:03}" + '"' * 1000 for n in range(120)]
    for at in range(0, 120, 40):
        items = "".join(f"<item id='{name}'><a xmlns='x'/></item>" for name in names[at:][:40])
        inner = f"<pubsub xmlns='{PUBSUB}'><publish node='plain'>{items}</publish></pubsub>"
        assert condition(await etl.ask("set", inner)) == "result"
    seen, last = [], None
    while len(seen) < len(names):
        answer = await etl.ask("get", ITEMS if last is None else behind(last))
        part = [item.get("name") for item in answer.iter("{*}item")]
        assert 0 < len(part) < len(names)
        seen += part
        last = answer.findtext(".//{*}set/{*}last")
        assert last == part[-1]
    assert seen == names
    gone = "".join(f"<item id='{name}'/>" for name in names)
    inner = f"<pubsub xmlns='{PUBSUB}'><retract node='plain'>{gone}</retract></pubsub>"
    assert condition(await etl.ask("set", inner)) == "result"
    assert condition(await etl.ask("get", ITEMS)) == "result"


@pytest.mark.parametrize(
    "stanza",
    [
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns='urn:x'>{'x' * 300_000}</a></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><p:a xmlns='urn:x'/></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns='urn:x' p:b='1'/></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns='urn:x'>&#1;</a></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns='urn:x'>&lol;</a></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns='urn:x'>\x00</a></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns='urn:x' b='1' b='2'/></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns:p='q' xmlns:r='q' p:b='1' r:b='2'/></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns='urn:x'>\ufffe\uffff</a></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns:xml='urn:x' xmlns:xmlns='urn:y'/></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><a xmlns:p=''/></iq>",
        f"<iq type='set' id='1' to='{SERVICE}'><:a/><a:/><a:b:c/></iq>",
        f"<p:iq xmlns:p='urn:x' type='set' id='1' to='{SERVICE}'/>",
        f"<message type='error' to='{SERVICE}' id='pq-1-999999999999999999'><error/></message>",
        f"<presence type='error' to='{SERVICE}'/>",
        f"<presence type='{'x' * 1000}' to='{SERVICE}'/>",
        f"<message to='{SERVICE}'>{'<a>' * 1500}{'</a>' * 1500}</message>",
        f"<iq type='odd' id='1' to='{SERVICE}'><a/></iq>",
        f"<iq type='get' to='{SERVICE}'><a/></iq>",
        f"<iq type='result' id='1' to='{SERVICE}'><ping xmlns='urn:xmpp:ping'/></iq>",
    ],
    ids=lambda text: text[-40:-5],
)
async def test_what_only_the_hostile_send(place, etl, stanza):
    """The sender's own stream may end by it; whatever gets through, everybody else is served."""
    server, _ = place
    async with session(server, "mallory@localhost/x") as mallory:
        with suppress(ConnectionError):
            await mallory.client.send(stanza)
            await mallory.ask("get", PING)
    assert condition(await etl.ask("get", PING)) == "result"


@pytest.mark.parametrize(
    "payload",
    [
        "<stream:a/>",
        "<stream:a xmlns='urn:x' stream:b='1'><b/></stream:a>",
        "<a xmlns='jobs'/>",
        "<p:a xmlns:p='urn:x' p:b='&quot;&lt;&#10;'>&#13;]]&gt;<p:c/></p:a>",
        f"<{'n' * 40_000} xmlns='urn:x'/>",
        "<a xmlns='urn:x' xml:lang='de' xml:space='preserve'> é😀 </a>",
    ],
    ids=range(6),
)
async def test_whatever_names_a_payload_has_it_arrives_and_is_known_again(place, etl, payload):
    server, _ = place
    async with session(server, "bee@localhost/x") as bee:
        inner = f"<subscribe node='jobs' jid='bee@localhost/x'/>{WINDOW}"
        assert (
            condition(await bee.ask("set", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"))
            == "result"
        )
        assert condition(await etl.publish(i1=payload)) == "result"
        delivered = await bee.next_message()
        (item,) = delivered.iter("{*}item")
        assert item[0].tag.rpartition("}")[2] == payload.split()[0].strip("</>").rpartition(":")[2]
        assert condition(await etl.publish(i1=payload)) == "result"
        assert condition(await etl.publish(i1="<other xmlns='urn:x'/>")) == "cancel conflict"
        gone = "<retract node='jobs'><item id='i1'/></retract>"
        assert (
            condition(await bee.ask("set", f"<pubsub xmlns='{PUBSUB}'>{gone}</pubsub>")) == "result"
        )
