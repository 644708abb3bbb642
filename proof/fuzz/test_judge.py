"""The fuzzer of stanzas notices what it is there to notice."""

import asyncio
from random import Random

import pytest
from lxml import etree
from msgspec.structs import replace

from proof.fuzz.grow import stanza
from proof.fuzz.judge import FaceFaultError, Fuzzer
from proof.fuzz.rig import Rig
from pubqueue.engine import table
from pubqueue.faces.xmpp import signals
from pubqueue.faces.xmpp.link import Answers
from pubqueue.faces.xmpp.xml.refusals import bad_request
from pubqueue.model.decision import Refusal, refuse
from pubqueue.rules.nodes import Purge
from pubqueue.rules.publication import Publish
from pubqueue_xeps.wire.ns import OWNER, PUBSUB

STANZAS = 3000


def asking(who, namespace, inner):
    iq = stanza("iq", who, type="set", id="ask")
    iq.append(etree.fromstring(f"<pubsub xmlns='{namespace}'>{inner}</pubsub>"))
    return iq


async def test_a_refusal_that_writes_is_noticed(tmp_path, monkeypatch):
    row = table.RULES[Purge]

    def half_hearted(request, facts):
        decided = row.decide(request, facts)
        return replace(decided, reply=refuse(Refusal.FORBIDDEN).reply)

    async with Rig(tmp_path, Random(1)) as rig:
        await rig.renew()
        monkeypatch.setitem(table.RULES, Purge, row._replace(decide=half_hearted))
        publish = asking(
            "etl@localhost/spark",
            PUBSUB,
            "<publish node='plain'><item id='i1'><job xmlns='w'/></item></publish>",
        )
        fuzzer = Fuzzer(rig, Random(1))
        await fuzzer.feed([publish])
        with pytest.raises(FaceFaultError, match="a refusal has written to the store"):
            await fuzzer.feed([asking("boss@localhost/desk", OWNER, "<purge node='plain'/>")])


async def test_a_refusal_of_some_entries_may_write_the_others(tmp_path):
    bad, good = "boss@localhost' affiliation='none", "new@localhost' affiliation='member"
    entries = "".join(f"<affiliation jid='{one}'/>" for one in (bad, good))
    inner = f"<affiliations node='plain'>{entries}</affiliations>"
    async with Rig(tmp_path, Random(1)) as rig:
        await rig.renew()
        fuzzer = Fuzzer(rig, Random(1))
        before = rig.version()
        await fuzzer.feed([asking("boss@localhost/desk", OWNER, inner)])
        assert rig.version() != before
    assert fuzzer.counts["error: not-acceptable"] == 1


async def test_a_second_answer_is_noticed(tmp_path, monkeypatch):
    answer, again = Answers.answer, []

    def answer_again(answers, stanza, inner):
        if again and b"protocol/pubsub" in stanza.echo():
            asyncio.get_running_loop().call_soon(answer, answers, stanza, inner)
        return answer(answers, stanza, inner)

    monkeypatch.setattr(Answers, "answer", answer_again)
    async with Rig(tmp_path, Random(1)) as rig:
        fuzzer = Fuzzer(rig, Random(1))
        await rig.renew()
        again.append(True)
        with pytest.raises(FaceFaultError, match="answered for nothing"):
            await fuzzer.feed([fuzzer.grower.next() for _ in range(100)])


async def test_only_a_publish_by_message_is_answered_with_an_error(tmp_path, monkeypatch):
    def message(name, inner):
        made = stanza("message", "etl@localhost/spark", id=name)
        made.append(etree.fromstring(f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"))
        return made

    async with Rig(tmp_path, Random(1)) as rig:
        fuzzer = Fuzzer(rig, Random(1))
        await rig.renew()
        await fuzzer.feed([message("one", "<publish><item/></publish>")])
        assert fuzzer.counts["messages and presence"] == 1
        monkeypatch.setattr(signals, "publish_in", lambda top: top)
        monkeypatch.setattr(signals, "asked", lambda *_: bad_request())
        with pytest.raises(FaceFaultError, match="an error to what was no request"):
            await fuzzer.feed([message("two", "<items/>")])


async def test_an_exception_is_noticed(tmp_path, monkeypatch):
    def broken(context, request):
        raise ZeroDivisionError

    monkeypatch.setitem(table.RULES, Publish, table.RULES[Publish]._replace(facts=broken))
    async with Rig(tmp_path, Random(1)) as rig:
        with pytest.raises(FaceFaultError, match=r"request\.failed"):
            await Fuzzer(rig, Random(1)).run(STANZAS)
