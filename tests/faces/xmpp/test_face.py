"""Every request is answered exactly once, in valid XMPP, and a refusal has changed nothing."""

import asyncio
import gc
import itertools
import sqlite3
from contextlib import asynccontextmanager, closing
from xml.sax.saxutils import quoteattr

import pytest
from harness.depth import examples
from harness.patience import until
from harness.servers.stub_server import ACCEPT, StubServer
from harness.stanzas.random_requests import request
from harness.stanzas.schema import validate_own
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pubqueue.accounts.credentials import Principals
from pubqueue.config.loading import load
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import ServerPlace
from pubqueue.faces.xmpp.xml import stanza
from pubqueue.faces.xmpp.xml.stanza import MAX_ANSWER_BYTES
from pubqueue.model.entities import Jid
from pubqueue.wiring.serving import queue
from pubqueue_xeps.wire.ns import PUBSUB

IQ, MESSAGE = f"{{{ACCEPT}}}iq", f"{{{ACCEPT}}}message"
FILE = """
[[node]]
name = "jobs"
queueing = true
owners = ["boss@localhost"]
publishers = ["bee@localhost"]
[node.options]
"x-queueing#event_log" = true

[[node]]
name = "plain"
owners = ["boss@localhost"]
"""


WORK = """
<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='jobs'><item id='i1'><job xmlns='jobs'/></item>
<item id='i2'><job xmlns='jobs'/></item><item id='i3'><job xmlns='jobs'/></item></publish></pubsub>"""
WORKER = """
<pubsub xmlns='http://jabber.org/protocol/pubsub'><subscribe node='jobs' jid='bee@localhost/one'/>
<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'><value>2</value></field>
</x></options></pubsub>"""


class Asking:
    """A server, the face behind it, and the file where everything is kept."""

    def __init__(self, server, store, broker):
        self.server, self.broker = server, broker
        self._store = store
        self._ids = itertools.count(1)
        self.messages = {}

    async def ask(self, kind, sender, body, name=None):
        """Ask, and return the one answer; whatever messages come are looked at.

        A refusal writes nothing. The clock may have, in between: so what is refused is asked again.
        """
        for _ in range(3):
            before = self._version()
            answer = await self._once(kind, sender, body, name or f"ask'\"&{next(self._ids)}")
            if answer.get("type") != "error" or self._version() == before:
                return answer
        raise AssertionError("a refused request has written to the store")

    async def _once(self, kind, sender, body, name):
        await self.server.send(
            f"<iq type='{kind}' id={quoteattr(name)} from='{sender}' to='queue.localhost'>{body}</iq>"
        )
        return await self.answer_to(name, sender)

    async def answer_to(self, name, sender):
        while True:
            self.last = await self.server.receive()
            stanza = self.last.tree
            validate_own(stanza)
            if stanza.get("id", "").startswith("told-"):
                continue  # an echo, which the service sends itself
            if stanza.tag == IQ:
                assert (stanza.get("id"), stanza.get("to")) == (name, sender)
                assert stanza.get("type") in {"result", "error"}
                return stanza
            assert stanza.get("id") not in self.messages
            self.messages[stanza.get("id")] = stanza

    async def deliveries(self, count):
        """Return the tokens of so many deliveries that come next, or have come with an answer, by item."""
        while len(self.messages) < count:
            stanza = (await self.server.receive()).tree
            if stanza.tag == MESSAGE:
                self.messages[stanza.get("id")] = stanza
        found, self.messages = self.messages.values(), {}
        return {one.find(".//{*}item").get("id"): one.find("{*}lock").get("token") for one in found}

    def _version(self):
        return self._store.execute("PRAGMA data_version").fetchone()


@asynccontextmanager
async def asking(folder):
    async with StubServer() as server:
        file = folder / "config.toml"
        file.write_text(FILE)
        flags = {
            "jid": "queue.localhost",
            "secret": server.secret,
            "server": f"{server.host}:{server.port}",
            "store": f"sqlite:///{folder.absolute()}/store.db",
        }
        reported = load(file, flags, {})
        async with queue(reported) as broker:
            face = XmppFace(
                broker,
                ServerPlace.of(reported),
                Principals(admins=[Jid("boss@localhost")], home="localhost"),
            )
            serving = asyncio.create_task(face.run())
            await server.connected()
            with closing(sqlite3.connect(reported.make_store().path)) as store:
                yield Asking(server, store, broker)
            await face.stop()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """One service for all examples: what one leaves behind is what the next one meets."""
    with asyncio.Runner() as runner, capture_logs() as log:
        service = asking(tmp_path_factory.mktemp("face"))
        asked = runner.run(service.__aenter__())
        yield runner, asked, log
        runner.run(service.__aexit__(None, None, None))


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(request(), min_size=8, max_size=8))
def test_every_request_has_one_answer_and_a_refusal_changes_nothing(live, requests):
    runner, asked, log = live
    log.clear()
    runner.run(asked.ask("set", "boss@localhost/desk", WORK))
    runner.run(asked.ask("set", "bee@localhost/one", WORKER))
    for kind, sender, body in requests:
        answer = runner.run(asked.ask(kind, sender, body))
        condition = answer.find(f"{{{ACCEPT}}}error/*")
        assert condition is None or not condition.tag.endswith("internal-server-error"), body
    assert not [line for line in log if line["log_level"] in {"error", "warning"}]


async def test_what_went_into_a_stream_that_broke_comes_with_the_next(tmp_path):
    async with asking(tmp_path) as asked:
        await asked.ask("set", "bee@localhost/one", WORKER)
        await asked.ask("set", "boss@localhost/desk", WORK)
        lost = await asked.deliveries(2)
        accepted = asked.server.accepted
        await asked.server.drop()
        await asked.server.reconnected(accepted)
        assert await asked.deliveries(2) == lost


async def test_presence_of_newcomers_ends_with_the_stream(tmp_path):
    async with asking(tmp_path) as asked:
        newcomers = asked.broker.newcomers
        await asked.server.send("<presence from='new@localhost/one' to='queue.localhost'/>")
        await until(lambda: newcomers.of(Jid("new@localhost")))
        accepted = asked.server.accepted
        await asked.server.drop()
        await asked.server.reconnected(accepted)
        assert newcomers.of(Jid("new@localhost")) == ()


@pytest.mark.parametrize("char", ["x", '"', "'", ">", "&", "é"])
def test_the_answer_to_a_request_with_a_huge_id_is_no_longer_than_the_request(live, char):
    runner, asked, _ = live
    name = char * 60_000
    answer = runner.run(asked.ask("get", "bee@localhost/x", "<x xmlns='y'/>", name))
    assert len(asked.last.raw) < len(quoteattr(name)) + 1000
    assert answer.get("id") == name


def test_what_is_kept_of_names_is_bounded(live):
    """A cache of names would keep whatever anybody says."""
    runner, asked, _ = live
    for cached in (stanza.attribute, stanza._jid_of):
        cached.cache_clear()  # of what other tests of this process have asked for
    for n in range(20):
        long = f"{n}" * 50_000
        body = f"<pubsub xmlns='{PUBSUB}'><subscribe node='{long}' jid='{long}'/></pubsub>"
        runner.run(asked.ask("set", "bee@localhost/x", body, long))
        runner.run(asked.ask("get", "bee@localhost/x", f"<x xmlns='{long}'/>", long))
    assert largest(stanza.attribute) < 5000
    assert largest(stanza._jid_of) < 5000


def largest(cached):
    """Return the length of the longest text that the cache keeps."""
    keys = [key for held in gc.get_referents(cached) if isinstance(held, dict) for key in held]
    assert keys
    return max(len(key) for key in keys if isinstance(key, str))


def test_an_answer_that_servers_would_not_relay_is_cut_and_a_notice_is_split(live):
    runner, asked, _ = live
    names = [f"{n:04}" + '"' * 1000 for n in range(120)]
    for part in range(0, 120, 40):
        items = "".join(f"<item id='{n}'><job xmlns='jobs'/></item>" for n in names[part:][:40])
        publish = f"<publish node='plain'>{items}</publish>"
        assert runner.run(asked.ask("set", *pubsub(publish))).get("type") == "result"
    query = "<query xmlns='http://jabber.org/protocol/disco#items' node='plain'/>"
    answer = runner.run(asked.ask("get", "boss@localhost/desk", query))
    shown = [item.get("name") for item in answer.iter("{*}item")]
    assert names[0] in shown
    assert names[-1] not in shown
    assert answer.findtext(".//{*}set/{*}last") == shown[-1]
    assert len(asked.last.raw) <= MAX_ANSWER_BYTES
    subscribe = "<subscribe node='plain' jid='boss@localhost/desk'/>"
    runner.run(asked.ask("set", *pubsub(subscribe)))
    asked.messages.clear()
    gone = "".join(f"<item id='{name}'/>" for name in names)
    runner.run(asked.ask("set", *pubsub(f"<retract node='plain' notify='1'>{gone}</retract>")))
    runner.run(asked.ask("get", "boss@localhost/desk", query))
    reported = [m for m in asked.messages.values() if m.get("to") == "boss@localhost/desk"]
    assert [e.get("id") for m in reported for e in m.iter("{*}retract")] == names
    assert len(reported) == 2


def test_a_huge_id_counts_as_a_part_of_the_answer(live):
    runner, asked, _ = live
    query = "<query xmlns='http://jabber.org/protocol/disco#info'/>"
    answer = runner.run(asked.ask("get", "bee@localhost/x", query, "x" * (MAX_ANSWER_BYTES - 1000)))
    assert answer.find("{*}error/{*}resource-constraint") is not None


def pubsub(inner):
    return "boss@localhost/desk", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"


@pytest.mark.parametrize(
    "written",
    [
        "<p:pubsub xmlns:p='{ns}'><p:subscribe node='jobs' jid='{jid}'/></p:pubsub>",
        "<pubsub xmlns='{ns}'><subscribe node='jobs' jid='{jid}'/></pubsub >",
        "<pubsub xmlns='{ns}'><subscribe node='jobs' jid='{jid}'><![CDATA[</pubsub>]]></subscribe></pubsub>",
        "<pubsub xmlns='{ns}'>" + " " * 5000 + "<subscribe node='jobs' jid='{jid}'/></pubsub>",
    ],
)
def test_options_are_offered_once_however_the_request_is_written(live, written):
    runner, asked, _ = live
    jid = "boss@localhost/no-window-yet"
    body = written.format(ns=PUBSUB, jid=jid)
    answer = runner.run(asked.ask("set", jid, body))
    assert answer.find("{*}error/{*}configuration-required") is not None
    assert len(answer.findall(f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}options/{{*}}x")) == 1


def test_an_error_in_a_request_is_not_taken_for_ours(live):
    runner, asked, _ = live
    answer = runner.run(asked.ask("get", "bee@localhost/x", "<error type='cancel'/>"))
    (error,) = answer
    assert error.find("{*}service-unavailable") is not None


FORGERS = ["etl@queue.localhost/x", "etl@queue.localhost", "queue.localhost/x", "queue.localhost"]


@pytest.mark.parametrize("forger", FORGERS)
def test_no_stanza_is_taken_in_the_name_of_an_account_of_the_service(live, forger):  # G43
    runner, asked, log = live
    for kind, body in (
        ("set", f"<pubsub xmlns='{PUBSUB}'><create node='forged'/></pubsub>"),
        (  # of a single item, which is read in a shorter way
            "set",
            f"<pubsub xmlns='{PUBSUB}'><publish node='jobs'><item id='f'><job xmlns='jobs'/></item></publish></pubsub>",
        ),
        ("get", "<ping xmlns='urn:xmpp:ping'/>"),
    ):
        answer = runner.run(asked.ask(kind, forger, body))
        assert answer.find("{*}error/{*}forbidden") is not None
    for kind in ("presence", "message"):
        runner.run(asked.server.send(f"<{kind} from='{forger}' to='queue.localhost'/>"))
    runner.run(asked.ask("get", "bee@localhost/x", "<ping xmlns='urn:xmpp:ping'/>"))
    assert [line["sender"] for line in log if line["event"] == "stanza.forged"][-1] == forger
