"""A fault of ours in reading or answering a stanza, or in rendering a notice, is that stanza's, and nobody else's."""

import pytest
from harness.servers.stage import BOSS, staged
from structlog.testing import capture_logs

from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.requests import PUBLISH, VERBS, Handler
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.model.notices import Deliver
from pubqueue_xeps.wire import ns

SECRET = "a payload that no log may have"
EVE = "eve@localhost/x"


@pytest.fixture
async def stage():
    async with staged() as stage:
        with capture_logs() as log:
            stage.log = log
            yield stage


def broken(*_facts, **_more):
    raise ValueError(SECRET)


async def all_goes_on(stage, *, failed):
    """The stream stands, others are served, and the log has kind and place of the fault, and no word of the stanza."""
    assert await stage.ask("after", "", kind="get", by="other@localhost/x") == "result"
    assert stage.server.accepted == 1
    assert not stage.broker.task.done()
    said = [one for one in stage.log if one["event"].endswith(".failed")]
    assert [(one["event"], one["kind"]) for one in said] == [(failed, "ValueError")]
    assert said[0]["at"].startswith("test_boundaries.py:")
    assert SECRET not in str(stage.log)


@pytest.mark.parametrize("payload", ["<x xmlns='x'/>", "<x/>"], ids=["at once", "the ordinary way"])
async def test_a_request_that_cannot_be_read_is_answered(stage, monkeypatch, payload):
    stage.broker.outbox.set_behind("test", ())  # only then is it asked
    monkeypatch.setattr(stage.broker.outbox, "is_behind", broken)
    item = f"<publish node='news'><item id='i'>{payload}</item></publish>"
    await stage.server.send(stage.iq("bad", item, by=EVE))
    answer = await stage.answer("bad")
    assert answer.get("type") == "error"
    assert answer.find("{*}error/{*}internal-server-error") is not None
    await all_goes_on(stage, failed="stanza.failed")


@pytest.mark.parametrize("kind", ["presence", "message", "iq"])
async def test_what_asks_for_no_answer_gets_none(stage, monkeypatch, kind):
    tag = f"{ns.COMPONENT} {kind}"
    kinds = stage.face.kinds
    known = kinds[tag]

    def take(stanza):
        (broken if stanza.top.get("id") == "bad" else known)(stanza)

    monkeypatch.setitem(kinds, tag, take)
    words = " type='result'" if kind == "iq" else ""
    await stage.server.send(f"<{kind}{words} id='bad' from='{EVE}' to='queue.localhost'/>")
    await all_goes_on(stage, failed="stanza.failed")


async def test_an_answer_that_cannot_be_written_is_a_fault_of_ours(stage, monkeypatch):
    key = ("set", f"{ns.PUBSUB} pubsub", f"{ns.PUBSUB} publish")
    monkeypatch.setattr(
        "pubqueue.faces.xmpp.requests.VERBS", {**VERBS, key: Handler(PUBLISH.read, broken)}
    )
    await stage.server.send(
        stage.iq("bad", "<publish node='news'><item id='i'><x/></item></publish>")
        + stage.publish("good", "other", 1)
    )
    answer = await stage.answer("bad")
    assert answer.find("{*}error/{*}internal-server-error") is not None
    assert (await stage.answer("good")).get("type") == "result"
    assert stage.waiting.count == 0
    await all_goes_on(stage, failed="answer.failed")


async def test_a_notice_that_cannot_be_rendered_leaves_the_others(stage, monkeypatch):
    for by in (EVE, BOSS):
        inner = f"<subscribe node='news' jid='{by}'/>"
        assert await stage.ask("join", inner, by=by) == "result"
    render = notices.head
    monkeypatch.setattr(
        notices, "head", lambda me, to, name: broken() if to == EVE else render(me, to, name)
    )
    await stage.server.send(stage.publish("i1", "news", 1))
    reported = []
    while len(reported) < 2:
        stanza = (await stage.server.receive()).tree
        reported.append((stanza.tag.rpartition("}")[2], stanza.get("to")))
    assert sorted(reported) == [("iq", BOSS), ("message", BOSS)]
    await all_goes_on(stage, failed="notice.failed")


async def test_a_delivery_that_cannot_be_rendered_is_as_one_that_was_lost(stage, monkeypatch):
    render = notices.notice

    def notice(what, *rest):
        return (
            broken() if isinstance(what, Deliver) and what.item.id == "i1" else render(what, *rest)
        )

    monkeypatch.setattr(notices, "notice", notice)
    assert await stage.ask("queue", "<create node='jobs'/><configure>" + QUEUE) == "result"
    join = f"<subscribe node='jobs' jid='{BOSS}'/><options>{WINDOW}</options>"
    assert await stage.ask("join", join) == "result"
    await stage.server.send(stage.publish("i1", "jobs", 1) + stage.publish("i2", "jobs", 1))
    while True:
        stanza = (await stage.server.receive()).tree
        if (item := stanza.find(".//{*}event//{*}item")) is not None:
            break
    assert item.get("id") == "i2"
    await all_goes_on(stage, failed="notice.failed")


WINDOW = (
    "<x xmlns='jabber:x:data' type='submit'>"
    "<field var='pubsub#queue_requests'><value>2</value></field></x>"
)
QUEUE = (
    "<x xmlns='jabber:x:data' type='submit'><field var='x-queueing#enabled'><value>1</value></field>"
    "<field var='pubsub#access_model'><value>open</value></field>"
    "<field var='x-queueing#lock_timeout'><value>60</value></field></x></configure>"
)


async def test_a_parser_that_fails_costs_the_connection_and_not_the_service(stage, monkeypatch):
    feed, faults = StreamParser.feed, [broken]

    def broken_once(parser, data):
        return faults.pop()() if faults else feed(parser, data)

    monkeypatch.setattr(StreamParser, "feed", broken_once)
    await stage.server.send(stage.iq("lost", "", kind="get"))
    await stage.server.reconnected(1)
    assert await stage.ask("after", "", kind="get") == "result"
    assert [one["event"] for one in stage.log if one["event"].endswith(".failed")] == [
        "stream.failed"
    ]
    assert SECRET not in str(stage.log)
