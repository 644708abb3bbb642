"""Deliveries in requests on the wire: who gets them, what each answer does at either of two instances, and what silence costs."""

import random

import pytest
from harness.batches.facts import ANN, BOB, NOW
from harness.stanzas.leveled_service import QOS, leveled
from harness.stanzas.leveled_words import (
    ANT,
    BEE,
    HOW,
    PAYLOAD,
    changes,
    comes,
    deliveries,
    error,
    iq,
    locked,
    published,
    queue,
    received,
    result,
    shape,
    subscribes,
    worker,
)
from harness.stanzas.schema import validate_own
from harness.stanzas.wire import SERVICE

from pubqueue.engine.admission import Admission
from pubqueue.engine.ports import Instance
from pubqueue.faces.xmpp import deliveries as deliveries_module
from pubqueue.faces.xmpp.deliveries import Sent, UnansweredDeliveries
from pubqueue.model.entities import Level
from pubqueue.rules.deliveries import Step

EVE = "eve@localhost/x"
DISCO = "http://jabber.org/protocol/disco#info"


@pytest.fixture
async def service(tmp_path):
    async with leveled(tmp_path, HOW) as made:
        yield made


@pytest.mark.covers("QS-029")
async def test_an_unacknowledged_delivery_is_one_message(service):
    await worker(service, "unacknowledged")
    assert deliveries(await service.say(*published("a"))) == [(BEE, "a", "message")]
    assert await service.wait(1000) == []


@pytest.mark.covers("QS-029")
async def test_an_acknowledged_delivery_is_two_stanzas_and_its_answer_writes_nothing(service):
    await worker(service, "acknowledged")
    said = await service.say(*published("a"))
    assert deliveries(said) == [(BEE, "a", "acknowledged")]
    asked = said[-1]
    validate_own(asked)
    message = asked[0][0]
    assert (asked.get("from"), asked.get("type"), asked.get("to")) == (SERVICE, "set", BEE)
    assert message.tag == "{jabber:client}message"
    assert message.attrib == {"id": asked.get("id")}
    assert [child.tag.rpartition("}")[2] for child in message] == ["event", "lock"]
    assert PAYLOAD.replace("'", '"').encode() in service.raw[-1].replace(b"'", b'"')
    lock = message.find("{*}lock").get("token")
    assert asked.get("id").split("-")[2] == lock
    before = await changes(service)
    assert await service.say(result(asked)) == []
    assert await changes(service) == before
    assert await service.wait(1000) == []
    assert await locked(service) == {"a": BEE}


SPELLED = {
    "in its namespace": f"<received xmlns='{QOS}' msgId='{{name}}'/>",
    "as the draft prints it": "<received msgId='{name}'/>",
    "as a client": "<received xmlns='jabber:client' msgId='{name}'/>",
    "without its msgId": f"<received xmlns='{QOS}'/>",
}


@pytest.mark.covers("QS-027", "QS-029")
@pytest.mark.parametrize("inner", SPELLED.values(), ids=SPELLED)
async def test_an_assured_delivery_is_four_stanzas(service, inner):
    await worker(service, "assured")
    said = await service.say(*published("a"))
    assert deliveries(said) == [(BEE, "a", "assured")]
    asked = said[-1]
    name = asked.get("id")
    assert asked[0].get("msgId") == name
    (then,) = await service.say(result(asked, inner.format(name=name)))
    validate_own(then)
    assert (shape(then), then.get("id"), then[0].get("msgId")) == (
        "deliver",
        f"{name}-deliver",
        name,
    )
    before = await changes(service)
    assert await service.say(result(then)) == []
    assert await changes(service) == before
    assert await service.wait(1000) == []
    assert await locked(service) == {"a": BEE}


@pytest.mark.covers("QS-007")
async def test_a_silent_step_is_repeated_to_the_byte_with_pauses_that_double(service):
    await worker(service, "assured")
    (*_, asked) = await service.say(*published("a"))
    first = service.raw[-1]
    assert await service.wait(4.9) == []
    assert deliveries(await service.wait(0.2)) == [(BEE, "a", "assured")]
    assert service.raw == [first]
    assert await service.wait(9.8) == []
    assert len(await service.wait(0.3)) == 1
    assert service.raw == [first]
    (then,) = await service.say(received(asked))
    assert await service.wait(4.9) == []
    (again,) = await service.wait(0.2)
    assert (again.get("id"), shape(again)) == (then.get("id"), "deliver")
    assert await service.say(result(again)) == []
    assert await service.wait(1000) == []


@pytest.mark.covers("QS-008", "QS-041")
async def test_an_unanswered_delivery_is_free_with_all_others_without_a_failure(service):
    await worker(service, "acknowledged", window=100)
    names = [f"i{n:03}" for n in range(100)]
    said = await service.say(*published(*names))
    assert len(deliveries(said)) == 100
    repeated = await service.wait(5 + 10)
    assert deliveries(repeated) == [(BEE, "i000", "acknowledged")] * (HOW.attempts - 1)
    assert deliveries(await service.say(*published("new"))) == []
    assert await locked(service) == dict.fromkeys(names, BEE)
    await service.wait(20)
    assert await locked(service) == {}
    assert await service.wait(10_000) == []
    traffic = service.face.traffic
    assert (traffic.repeated, traffic.given_up) == (HOW.attempts - 1, 100)
    said = await service.say(subscribes(ANT, 1000))
    assert {(to, how) for to, _, how in deliveries(said)} == {(ANT, "message")}
    assert {name for _, name, _ in deliveries(said)} == {*names, "new"}
    assert not [one for stanza in said for one in stanza.iter("{*}lock") if one.get("failed")]


@pytest.mark.covers("QS-041")
async def test_a_worker_that_repeats_costs_others_nothing(service):
    await worker(service, "acknowledged", window=1)
    await service.say(subscribes(ANT, 1000), comes(ANT))
    said = await service.say(*published("a", "b"))
    assert {to for to, *_ in deliveries(said)} == {BEE, ANT}
    said = await service.wait(5)
    assert {to for to, *_ in deliveries(said)} == {BEE}
    said = await service.say(*published(*"cdefg"))
    assert {to for to, *_ in deliveries(said)} == {ANT}


async def test_while_the_oldest_is_repeated_nothing_new_is_handed_out(service):
    await worker(service, "acknowledged")
    (*_, asked) = await service.say(*published("a"))
    assert deliveries(await service.say(*published("b"))) == [(BEE, "b", "acknowledged")]
    assert deliveries(await service.wait(5)) == [(BEE, "a", "acknowledged")]
    assert deliveries(await service.say(*published("c"))) == []
    said = await service.say(result(asked))
    assert deliveries(said) == [(BEE, "c", "acknowledged")]
    assert deliveries(await service.wait(1)) == [(BEE, "b", "acknowledged")]


@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_what_the_holder_does_with_the_item_is_an_answer_too(service, level):
    await worker(service, level)
    await service.say(*published("a", "b", "c"))
    await service.say(
        iq("r", BEE, "<retract node='jobs'><item id='a'/></retract>"),
        iq("t", BEE, "<touch xmlns='urn:x-pubqueue:0' node='jobs'><item id='b'/></touch>", "q"),
    )
    said = await service.wait(6)
    assert ("a" in {name for _, name, _ in deliveries(said)}) is False


ERRORS = [
    ("cancel service-unavailable", "ends"),
    ("cancel item-not-found", "ends"),
    ("cancel gone", "ends"),
    ("modify gone", "ends"),
    ("wait resource-constraint", "passed over"),
    ("wait remote-server-timeout", "passed over"),
    ("cancel remote-server-not-found", "passed over"),
    ("cancel not-allowed", "message"),
    ("cancel feature-not-implemented", "message"),
]


@pytest.mark.covers("QS-041")
@pytest.mark.parametrize("level", ["acknowledged", "assured"])
@pytest.mark.parametrize(("words", "then"), ERRORS)
async def test_each_error_of_an_answer(service, level, words, then):
    await worker(service, level)
    (*_, asked) = await service.say(*published("a"))
    said = await service.say(error(asked, *words.split()))
    if then == "message":
        assert deliveries(said) == [(BEE, "a", "message")]
        token = said[0].find("{*}lock").get("token")
        assert token == asked.find(".//{*}lock").get("token")
        assert deliveries(await service.say(*published("b"))) == [(BEE, "b", "message")]
        assert deliveries(await service.say(comes(), *published("c"))) == [(BEE, "c", level)]
        return
    ended = [one for stanza in said for one in stanza.iter("{*}subscription")]
    assert [one.get("subscription") for one in ended] == ["none"] * (then == "ends")
    assert await locked(service) == {}
    said = await service.say(subscribes(ANT), comes(ANT))
    assert deliveries(said) == [(ANT, "a", "message")]
    assert said[-1].find("{*}lock").get("failed") is None


async def test_a_client_that_refused_a_level_is_asked_again_when_others_need_its_place(
    service, monkeypatch
):
    monkeypatch.setattr("pubqueue.faces.xmpp.deliveries.REMEMBERED", 0)
    await worker(service, "assured")
    (*_, asked) = await service.say(*published("a"))
    await service.say(error(asked, "cancel", "not-allowed"))
    assert deliveries(await service.say(*published("b"))) == [(BEE, "b", "assured")]


async def test_a_client_that_has_lost_the_bytes_gets_the_item_again(service):
    await worker(service, "assured")
    (*_, asked) = await service.say(*published("a"))
    (then,) = await service.say(received(asked))
    unknown = "<unknown-message xmlns='urn:x-pubqueue:0'/>"
    said = await service.say(error(then, "cancel", "item-not-found", unknown))
    assert [one for stanza in said for one in stanza.iter("{*}subscription")] == []
    assert await locked(service) == {}


@pytest.mark.covers("QS-030", "QS-042")
async def test_what_is_no_answer_changes_nothing(service):
    await worker(service, "assured")
    (*_, asked) = await service.say(*published("a"))
    name = asked.get("id")
    old = f"pq-{name.split('-')[1]}-0"
    assert (
        await service.say(
            received(asked, sender=ANT),
            received(asked, sender="bee@localhost/other"),
            received(asked, sender="bee@localhost"),
            error(asked, "cancel", "gone", sender=ANT),
            received(asked, name="another"),
            result(asked),
            result(old, f"<received xmlns='{QOS}' msgId='{old}'/>"),
            result(f"{name}-deliver"),
            result(f"pq-{'9' * 30}-1"),
        )
        == []
    )
    assert await locked(service) == {"a": BEE}
    assert deliveries(await service.wait(5)) == [(BEE, "a", "assured")]
    (then,) = await service.say(received(asked))
    assert await service.say(received(asked)) == []
    assert await service.say(result(then), result(then)) == []


@pytest.mark.covers("QS-030")
async def test_a_bare_jid_is_sent_messages(service):
    await service.say(queue(**{"x-queueing#qos": "acknowledged"}))
    await service.say(subscribes("bee@localhost"), comes("bee@localhost"))
    assert deliveries(await service.say(*published("a"))) == [("bee@localhost", "a", "message")]


@pytest.mark.covers("QS-032")
async def test_for_the_setting_of_a_queue_the_client_is_asked_once_it_comes(service):
    await service.say(queue(**{"x-queueing#qos": "acknowledged"}))
    said = await service.say(subscribes())
    (question,) = [one for one in said if one.get("type") == "get"]
    assert (question.get("to"), question[0].tag) == (BEE, f"{{{DISCO}}}query")
    validate_own(question)
    assert deliveries(await service.say(*published("a"))) == [(BEE, "a", "message")]
    able = f"<query xmlns='{DISCO}'><identity category='client' type='bot'/><feature var='x'/><feature var='{QOS}'/></query>"
    assert await service.say(result(question, able)) == []
    assert deliveries(await service.say(*published("b"))) == [(BEE, "b", "acknowledged")]
    (question,) = await service.say(comes())
    unable = f"<query xmlns='{DISCO}'><feature var='x'/></query>"
    await service.say(result(question, unable))
    assert deliveries(await service.say(*published("c"))) == [(BEE, "c", "message")]


@pytest.mark.covers("QS-032")
async def test_no_client_is_asked_where_no_owner_and_no_worker_has_asked(service):
    await service.say(queue())
    said = await service.say(subscribes(), comes())
    assert [one.get("type") for one in said] == ["result"]
    await service.say(queue("levels", **{"x-queueing#qos": "assured"}))
    said = await service.say(
        subscribes(node="levels", **{"x-queueing#qos": "acknowledged"}), comes()
    )
    assert [one.get("type") for one in said] == ["result"]


async def test_a_late_answer_shows_that_the_worker_is_there(service):
    await worker(service, "acknowledged")
    (*_, asked) = await service.say(*published("a"))
    await service.wait(100)
    assert await locked(service) == {}
    assert deliveries(await service.say(*published("b"))) == []
    said = await service.say(result(asked))
    assert deliveries(said) == [(BEE, "b", "acknowledged")]


async def test_answers_are_read_from_an_account_that_sends_too_much(service, monkeypatch):
    await worker(service, "assured")
    (*_, asked) = await service.say(*published("a"))
    monkeypatch.setattr(Admission, "beyond", lambda _self, _by: "it has sent too much")
    (then,) = await service.say(received(asked))
    assert shape(then) == "deliver"


async def test_a_worker_that_comes_again_waits_for_nothing_that_it_left_unanswered(service):
    await worker(service, "acknowledged")
    await service.say(*published("a", "b"))
    assert len(await service.wait(5)) == 1
    await service.say(f"<presence type='unavailable' from='{BEE}' to='{SERVICE}'/>")
    await service.say(subscribes(**{"x-queueing#qos": "acknowledged"}), comes())
    assert deliveries(await service.say(*published("c"))) == [(BEE, "c", "acknowledged")]
    assert deliveries(await service.wait(1)) == []


async def test_answers_to_nothing_are_ignored_from_an_account_beyond_its_budget(
    service, monkeypatch
):
    await worker(service, "acknowledged")
    (asked,) = [one for one in await service.say(*published("a")) if shape(one) == "acknowledged"]
    requests, submit = [], service.broker.submit
    service.broker.submit = lambda *request: (requests.append(request[0]), submit(*request))
    monkeypatch.setattr(Admission, "beyond", lambda *_: "too much")
    await service.say(result("pq-77-77", sender=EVE), error(asked, "cancel", "gone", sender=EVE))
    assert requests == []
    await service.say(result(asked))
    assert await service.wait(1000) == []  # it was heard: nothing is repeated


@pytest.fixture
async def both(tmp_path):
    async with (
        leveled(tmp_path, HOW, instance=Instance(1)) as one,
        leveled(tmp_path, HOW, instance=Instance(2)) as other,
    ):
        await one.say(queue())
        yield one, other


async def delivered(one, level):
    """Return the request of a delivery."""
    await one.say(subscribes(**{"x-queueing#qos": level}), comes())
    return (await one.say(*published("a")))[-1]


async def answers(service):
    return await service.store.connection.run(
        lambda c: c.execute("SELECT arrived FROM answered").fetchall()
    )


@pytest.mark.covers("QS-043")
async def test_a_worker_that_answered_another_instance_gets_no_repetition_and_loses_nothing(both):
    one, other = both
    asked = await delivered(one, "acknowledged")
    assert await other.say(result(asked), result(asked)) == []
    assert await answers(one) == [(1,)]
    assert await one.wait(1000) == await other.wait(1000) == []
    assert await locked(one) == {"a": BEE}


@pytest.mark.covers("QS-043")
async def test_an_answer_to_the_last_attempt_may_reach_another_instance(both):
    one, other = both
    asked = await delivered(one, "acknowledged")
    assert len(await one.wait(15)) == HOW.attempts - 1
    assert await other.say(result(asked)) == []
    assert await one.wait(1000) == []
    assert await locked(one) == {"a": BEE}


@pytest.mark.covers("QS-043")
async def test_after_received_the_service_sends_deliver_and_awaits_its_answer(both):
    one, other = both
    asked = await delivered(one, "assured")
    (then,) = await other.say(received(asked))
    assert (shape(then), then.get("id")) == ("deliver", f"{asked.get('id')}-deliver")
    assert await answers(one) == [(0,)]
    assert await one.wait(1000) == []
    (again,) = await other.wait(5)
    assert again.get("id") == then.get("id")
    assert await one.say(result(then)) == []
    assert await answers(one) == [(1,)]
    assert await other.wait(1000) == []
    assert await locked(one) == {"a": BEE}


@pytest.mark.covers("QS-043")
async def test_the_answer_to_deliver_may_reach_another_instance(both):
    one, other = both
    asked = await delivered(one, "assured")
    (then,) = await one.say(received(asked))
    assert await other.say(result(then)) == []
    assert await one.wait(1000) == await other.wait(1000) == []
    assert await locked(one) == {"a": BEE}


@pytest.mark.covers("QS-043")
async def test_an_error_may_reach_another_instance(both):
    one, other = both
    asked = await delivered(one, "acknowledged")
    said = await other.say(error(asked, "cancel", "service-unavailable"))
    ended = [each.get("subscription") for stanza in said for each in stanza.iter("{*}subscription")]
    assert ended == ["none"]
    assert await locked(one) == {}
    assert await one.wait(1000) == []


async def test_one_instance_alone_writes_nothing_for_an_answer(both):
    one, _ = both
    asked = await delivered(one, "acknowledged")
    assert len(await one.wait(5)) == 1
    before = await changes(one)
    assert await one.say(result(asked), result(asked)) == []
    assert await changes(one) == before


@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_a_delivery_that_may_be_lost_is_repeated_at_its_level(tmp_path, level):
    async with leveled(tmp_path, HOW) as first:
        await first.say(queue())
        asked = await delivered(first, level)
        before = first.raw[-1]
    async with leveled(tmp_path, HOW, instance=Instance(0)) as second:
        assert second.greeted == [before]
        said = await second.say(received(asked) if level == "assured" else result(asked))
        assert [shape(one) for one in said] == ["deliver"] * (level == "assured")
        if said:
            assert await second.say(result(said[0])) == []
        assert await second.wait(1000) == []
        assert await locked(second) == {"a": BEE}


async def test_what_is_not_repeated_waits_for_its_lock_timeout(both):
    one, other = both
    await delivered(one, "acknowledged")
    assert await other.wait(1000) == []
    assert await locked(one) == {"a": BEE}
    assert deliveries(await one.wait(5)) == [(BEE, "a", "acknowledged")]


def sent(seq, to=ANN, due=5.0, token=7):
    return Sent(to, seq, token, Level.ACKNOWLEDGED, Step.ACKNOWLEDGED, NOW, "", due)


@pytest.fixture
def waiting():
    return UnansweredDeliveries()


def test_of_each_holder_only_the_oldest_has_its_time(waiting):
    first, second, other = sent(1), sent(2, due=6), sent(3, BOB, due=7)
    for one in (first, second, other):
        waiting.add(one)
    assert waiting.next() == 5
    assert list(waiting.over(10)) == [first, other]
    assert list(waiting.over(10)) == []
    assert waiting.next() is None
    waiting.drop(first)
    assert list(waiting.over(10)) == [second]
    waiting.put_off(second, 20)
    assert waiting.next() == 20


def test_an_item_that_is_delivered_again_is_watched_once(waiting):
    waiting.add(sent(1))
    again = sent(1, token=8)
    waiting.add(again)
    assert (len(waiting), waiting.find(ANN, 1, 7), waiting.find(ANN, 1, 8)) == (1, None, again)
    assert waiting.find(BOB, 1, 8) is None


def test_a_holder_is_stalled_while_its_oldest_was_repeated(waiting):
    first, second = sent(1), sent(2)
    waiting.add(first)
    waiting.add(second)
    first.sendings = 2
    waiting.put_off(first, 9)
    assert waiting.stalled == {ANN}
    waiting.drop(second)
    assert waiting.stalled == {ANN}
    waiting.drop(first)
    assert (waiting.stalled, len(waiting)) == (set(), 0)


def test_it_is_bounded_and_keeps_nothing_of_those_that_are_answered(waiting, monkeypatch):
    monkeypatch.setattr(deliveries_module, "MAX", 100)
    every = [sent(seq, to=f"bot{seq % 7}@x/r", due=seq) for seq in range(200)]
    for one in every:
        waiting.add(one)
    assert len(waiting) == 100
    random.shuffle(every)
    for one in every:
        waiting.drop(one)
    assert (len(waiting), waiting.next(), list(waiting.over(1000))) == (0, None, [])
    assert waiting.of("bot1@x/r") == []
