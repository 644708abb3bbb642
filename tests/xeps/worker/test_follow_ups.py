"""A worker before a service that does with follow-ups what a test has set: refuses one, does not answer, or does not know them."""

import pytest
from harness.servers.queue_service import QUERY, answer, refuse, result

from pubqueue_xeps.errors import FollowUpRefused, NotConfirmed, Refused
from pubqueue_xeps.wire.then import FollowUp, Then
from pubqueue_xeps.wire.waits import Hold

pytestmark = pytest.mark.e2e

KNOWS = QUERY.replace("</query>", "<feature var='urn:x-pubqueue:0#then'/></query>")
THEN = Then(FollowUp("bills", {"to": "ann"}, id="b1"), FollowUp("mails", 1, id="m1"))


@pytest.fixture
def knowing(service):
    service.script["query"] = lambda iq: [answer(iq, KNOWS)]
    return service


def denied(iq, condition, kind, number=2):
    """Refuse a follow-up."""
    words = refuse(iq, condition)
    error = words.index("<error")
    inner = f"<{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
    said = f"<follow-up xmlns='urn:x-pubqueue:0' n='{number}'/>"
    return f"{words[:error]}<error type='{kind}'>{inner}{said}</error></iq>"


def follow_ups(iq):
    """Return what a request is to publish, by node and id."""
    found = iq.iterfind(".//{urn:x-pubqueue:0}then")
    return [(one.get("node"), one[0].get("id")) for one in found]


BOTH = [("bills", "b1"), ("mails", "m1")]


async def test_the_end_and_what_follows_are_one_request(knowing, worker_of):
    async with worker_of() as worker:
        knowing.deliver(worker.jid, "i1", token=7)
        async with await anext(worker) as item:
            await item.respond(THEN)
        assert item.state == "retracted"
        asked = await knowing.next("retract")
    assert follow_ups(asked) == BOTH
    assert asked.find(".//{urn:x-pubqueue:0}lock").get("token") == "7"
    headers = asked.iterfind(".//{http://jabber.org/protocol/shim}header")
    assert [(one.get("name"), one.text) for one in headers] == [("parent", "jobs/i1")] * 2


@pytest.mark.parametrize("hold", [None, Hold("go")])
async def test_a_service_that_does_not_know_follow_ups_is_not_sent_any(service, worker_of, hold):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        with pytest.raises(Refused, match="it does not know urn:x-pubqueue:0#then") as raised:
            async with await anext(worker) as item:
                await item.respond(Then(FollowUp("bills", 1), hold=hold))
        assert raised.value.condition == "feature-not-implemented"
        unlock = await service.next("unlock", "retract")
    assert unlock.find(".//{urn:x-pubqueue:0}outcome").get("type") == "failed"


async def test_a_node_that_does_not_exist_is_not_an_item_that_is_gone(knowing, worker_of):
    knowing.script["retract"] = lambda iq: [denied(iq, "item-not-found", "cancel")]
    async with worker_of() as worker:
        knowing.deliver(worker.jid, "i1")
        item = await anext(worker)
        with pytest.raises(FollowUpRefused, match="Follow-up 2 of 'i1', 'm1' to 'mails'") as raised:
            await item.retract(THEN)
        assert (raised.value.number, raised.value.node, raised.value.id) == (2, "mails", "m1")
        assert (raised.value.condition, item.state) == ("item-not-found", "in hand")
        await item.unlock()


async def test_a_queue_that_is_paused_is_waited_for(knowing, worker_of):
    answers = [denied, denied, None]

    def retract(iq):
        if answers.pop(0) is not None:
            return [denied(iq, "service-unavailable", "wait")]
        return [result(iq), knowing.retracted(iq)]

    knowing.script["retract"] = retract
    async with worker_of() as worker:
        knowing.deliver(worker.jid, "i1")
        item = await anext(worker)
        await item.retract(THEN)
        assert item.state == "retracted"
        for _ in range(3):
            assert follow_ups(await knowing.next("retract")) == BOTH


async def test_when_patience_ends_it_is_known_that_nothing_was_done(knowing, worker_of):
    knowing.script["retract"] = lambda iq: [denied(iq, "service-unavailable", "wait")]
    async with worker_of(timings={"patience": 0.5, "backoff_max": 10, "backoff_min": 10}) as worker:
        knowing.deliver(worker.jid, "i1")
        item = await anext(worker)
        with pytest.raises(FollowUpRefused, match="service-unavailable"):
            await item.retract(THEN)
        assert item.state == "in hand"
        await item.unlock()
        await knowing.next("unlock")


async def test_what_had_no_answer_is_repeated_with_its_follow_ups(knowing, worker_of):
    knowing.script["retract"] = lambda iq: []
    async with worker_of(timings={"patience": 0.2}) as worker:
        knowing.deliver(worker.jid, "i1", token=17)
        item = await anext(worker)
        with pytest.raises(NotConfirmed):
            await item.retract(THEN)
        with pytest.raises(NotConfirmed, match="may be done"):
            await item.unlock()
        knowing.deliver(worker.jid, "i1", token=17)  # a copy, as after a crash of the service
        for _ in range(3):
            assert follow_ups(await knowing.next("retract")) == BOTH


async def test_a_refusal_after_silence_says_that_nothing_was_done(knowing, worker_of):
    """The lock is judged before any follow-up, so the item has not ended by the request that had no answer."""
    knowing.script["retract"] = lambda iq: []
    async with worker_of(timings={"patience": 0.2}) as worker:
        knowing.deliver(worker.jid, "i1")
        item = await anext(worker)
        with pytest.raises(NotConfirmed):
            await item.retract(THEN)
        knowing.script["retract"] = lambda iq: [denied(iq, "forbidden", "auth")]
        with pytest.raises(FollowUpRefused):
            await item.retract()
        await item.unlock()
        assert item.state == "unlocked"
