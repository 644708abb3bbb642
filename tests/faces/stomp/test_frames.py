"""Destinations, headers and bodies of STOMP: what each means, as tables that are restated here."""

import pytest
from harness.batches.facts import NOW
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from pubqueue.faces.stomp import frames
from pubqueue.faces.stomp.codec import V10, V11, V12, VERSIONS, Frame, FrameReader, Side, write
from pubqueue.faces.stomp.frames import (
    MAX_WINDOW,
    ROWS,
    DestinationKind,
    Mode,
    copied_from,
    destination_of,
    key_for,
    key_of,
    sent,
    settle_of,
    shown,
    wanted,
    window_of,
)
from pubqueue.faces.stomp.refusals import Message, Problem
from pubqueue.model.entities import Draft, Item, ItemId, Jid, Millis, NodeName, State
from pubqueue.model.notices import Announce, Deliver
from pubqueue.rules.settle import Outcome, Verb
from pubqueue_xeps.wire.payloads.wrapper import wrap

JOBS = NodeName("jobs")


# --- destinations (N07) --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "node", "kind"),
    [
        ("/queue/jobs", "jobs", DestinationKind.QUEUE),
        ("/amq/queue/jobs", "jobs", DestinationKind.QUEUE),
        ("./jobs", "jobs", DestinationKind.QUEUE),
        ("/topic/news", "news", DestinationKind.TOPIC),
        ("jobs", "jobs", DestinationKind.EITHER),
        ("/queue/a/b%2F*", "a/b%2F*", DestinationKind.QUEUE),
        ("/topic/#", "#", DestinationKind.TOPIC),
        (".jobs", ".jobs", DestinationKind.EITHER),
    ],
)
def test_a_destination_names_a_node_and_its_kind(text, node, kind):  # N07
    found = destination_of(text)
    assert (found.node, found.kind, found.text) == (node, kind, text)


@pytest.mark.parametrize(
    "text",
    [
        *("/temp-queue/a", "/reply-queue/a", "/exchange/a", "/dsub/a", "/temp-topic/a"),
        *("", "/", "/queue/", "/topic/", "./", "/queue", "/amq/queue/"),
    ],
)
def test_there_are_no_other_kinds(text):
    assert destination_of(text).message == Message.NO_SUCH_KIND


def test_a_destination_is_written_by_its_kind():
    assert [shown(JOBS, is_queue=one) for one in (True, False)] == ["/queue/jobs", "/topic/jobs"]


# --- SEND ----------------------------------------------------------------------------------------


def a_send(body=b"text", /, **headers):
    named = {name.replace("_", "-"): f"{value}" for name, value in headers.items()}
    return sending({"destination": "/queue/jobs", **named}, body)


def sending(headers, body=b"text"):
    return sent(Frame("SEND", headers, body), lambda: "new", NOW)


def test_a_send_is_an_item_with_a_new_id():
    found = a_send()
    wrapped = wrap(b"text", None, is_text=True)
    assert found.draft == Draft(ItemId("new"), wrapped.xml, type=wrapped.space)
    assert (found.node, found.kind) == ("jobs", DestinationKind.QUEUE)


@pytest.mark.parametrize(
    ("headers", "field", "value", "kept"),
    [
        ({"item-id": "a"}, "id", "a", ()),
        ({"_AMQ_DUPL_ID": "a"}, "id", "a", (("_AMQ_DUPL_ID", "a"),)),
        ({"_AMQ_DUPL_ID": "b", "item-id": "a"}, "id", "a", (("_AMQ_DUPL_ID", "b"),)),
        ({"priority": "-7"}, "priority", -7, ()),
        ({"delay": "1.5"}, "delay", 1500, ()),
        ({"x-delay": "20"}, "delay", 20, ()),
        ({"AMQ_SCHEDULED_DELAY": "20"}, "delay", 20, ()),
        ({"AMQ_SCHEDULED_TIME": f"{NOW + 20}"}, "delay", 20, ()),
        ({"_AMQ_SCHED_DELIVERY": f"{NOW + 20}"}, "delay", 20, ()),
        ({"_AMQ_SCHED_DELIVERY": f"{NOW - 20}"}, "delay", 0, ()),
        ({"_AMQ_SCHED_DELIVERY": "0"}, "delay", 0, ()),
        ({"_AMQ_GROUP_ID": "g"}, "group", "g", (("_AMQ_GROUP_ID", "g"),)),
        ({"message_group": "g"}, "group", "g", (("message_group", "g"),)),
        ({"ttl": "60"}, "ttl", 60_000, ()),
        ({"expiration": "60"}, "ttl", 60, ()),
        ({"expires": f"{NOW + 60}"}, "ttl", 60, ()),
        ({"expires": f"{NOW - 60}"}, "ttl", 0, ()),
        ({"expires": "0"}, "ttl", None, ()),
        ({"group": "g"}, "group", "g", ()),
        ({"JMSXGroupID": "g"}, "group", "g", (("JMSXGroupID", "g"),)),
    ],
)
def test_headers_that_mean_something_here(headers, field, value, kept):  # S25
    draft = sending({"destination": "/queue/jobs"} | headers).draft
    assert (getattr(draft, field), draft.headers) == (value, kept)


def test_other_headers_are_the_items_in_their_order():  # S18
    others = {"reply-to": "r", "persistent": "true", "timestamp": "1", "a": ""}
    assert a_send(**others).draft.headers == tuple(others.items())


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.read is None])
def test_headers_of_the_frame_and_of_the_server_are_no_items(name):
    value = "ANYCAST" if name == "destination-type" else "1"
    headers = {"destination": "/queue/jobs"} | ({} if name == "destination" else {name: value})
    assert dict(sending(headers).draft.headers).get(name) in (
        None,
        "1" if name == "content-type" else None,
    )


@pytest.mark.parametrize("text", ["./jobs", "jobs", "/amq/queue/jobs"])
def test_a_destination_that_is_written_otherwise_is_kept(text):
    assert sending({"destination": text}).draft.headers == (("destination", text),)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"priority": "high"}, Message.BAD_HEADER),
        ({"delay": "-1"}, Message.BAD_HEADER),
        ({"ttl": "1e9"}, Message.BAD_HEADER),
        ({"expires": "never"}, Message.BAD_HEADER),
        ({"expiration": "-1"}, Message.BAD_HEADER),
        ({"a": "\x01"}, Message.BAD_HEADER),
        ({"\x01": "a"}, Message.BAD_HEADER),
        ({"content-type": "a\x01"}, Message.BAD_HEADER),
        ({"_AMQ_SCHED_DELIVERY": "tomorrow"}, Message.BAD_HEADER),
        ({"AMQ_SCHEDULED_TIME": "-1"}, Message.BAD_HEADER),
        ({"destination": "/topic/news", "AMQ_SCHEDULED_TIME": f"{NOW + 1}"}, Message.NOT_SUPPORTED),
        ({"destination": "/topic/news", "priority": "1"}, Message.NOT_SUPPORTED),
        ({"destination": "/topic/news", "delay": "1"}, Message.NOT_SUPPORTED),
        ({"destination": "/topic/news", "group": "g"}, Message.NOT_SUPPORTED),
        ({"destination": "/exchange/a"}, Message.NO_SUCH_KIND),
    ],
)
def test_what_a_send_cannot_have(headers, message):
    assert sending({"destination": "/queue/jobs"} | headers).message == message


@pytest.mark.parametrize(
    ("text", "named", "kind"),
    [
        ("jobs", "ANYCAST", DestinationKind.QUEUE),
        ("jobs", "multicast", DestinationKind.TOPIC),
        ("/queue/jobs", "ANYCAST", DestinationKind.QUEUE),
        ("/topic/jobs", "MULTICAST", DestinationKind.TOPIC),
    ],
)
def test_the_kind_of_a_node_may_be_named_as_artemis_has_it(text, named, kind):
    assert sending({"destination": text, "destination-type": named}).kind is kind
    subscribed = wanted({"destination": text, "id": "1", "subscription-type": named}, V12)
    assert subscribed.destination.kind is kind


@pytest.mark.parametrize(
    ("text", "named"),
    [("/queue/jobs", "MULTICAST"), ("/topic/jobs", "ANYCAST"), ("jobs", "any"), ("jobs", "")],
)
def test_a_kind_that_contradicts_the_destination_is_refused(text, named):
    assert sending({"destination": text, "destination-type": named}).message == Message.BAD_HEADER
    subscribed = wanted({"destination": text, "id": "1", "subscription-type": named}, V12)
    assert subscribed.message == Message.BAD_HEADER


# --- MESSAGE -------------------------------------------------------------------------------------


def a_delivery(payload=b"<a xmlns='urn:x'/>", **facts):
    fields = {
        "publisher": Jid("etl@x/1"),
        "published": Millis(5),
        "token": 7,
        "acquired": 1,
    } | facts
    item = Item(1, JOBS, ItemId("i"), State.LOCKED, **fields)
    return Deliver(Jid("bee@x/1"), item, payload)


def test_a_message_has_the_servers_headers_in_their_order():  # S19
    found = frames.of_delivery(a_delivery(deadline=Millis(9)), "s", "7")
    assert found == Frame(
        "MESSAGE",
        {
            "subscription": "s",
            "message-id": "jobs/i",
            "destination": "/queue/jobs",
            "ack": "7",
            "content-type": "application/xml",
            "item-id": "i",
            "publisher": "etl@x",
            "published": "5",
            "deadline": "9",
        },
        b"<a xmlns='urn:x'/>",
    )


def test_a_message_that_comes_again_is_marked():
    again = a_delivery(acquired=3, failed=2, priority=4, group="g")
    headers = frames.of_delivery(again, "s", None).headers
    assert "ack" not in headers
    said = {
        name: headers[name]
        for name in ("redelivered", "delivery-attempt", "failed", "priority", "group")
    }
    assert list(said.values()) == ["true", "3", "2", "4", "g"]


def test_a_header_of_the_server_cannot_be_forged():  # S19
    given = (*tuple((name, "feigned") for name in (*frames.SERVERS, "a", "a")), ("a", "b"))
    headers = frames.of_delivery(a_delivery(headers=given), "s", "7").headers
    assert [name for name, value in headers.items() if value == "feigned"] == ["destination", "a"]


def test_a_message_of_a_topic():
    draft = Draft(ItemId("i"), wrap(b"text", None, is_text=True).xml, headers=(("a", "b"),))
    news = Announce(Jid("bee@x/1"), JOBS, draft, Jid("etl@x/1"), Millis(5))
    assert frames.of_news(news, "s", "n1", 1) == Frame(
        "MESSAGE",
        {
            "subscription": "s",
            "message-id": "jobs/i",
            "destination": "/topic/jobs",
            "ack": "n1",
            "item-id": "i",
            "publisher": "etl@x",
            "published": "5",
            "a": "b",
        },
        b"text",
    )
    nothing = Announce(Jid("bee@x/1"), JOBS, None, None)
    assert frames.of_news(nothing, "s", None, 4).headers["message-id"] == "4"


# --- SUBSCRIBE, ACK and NACK ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "window"),
    [
        ({}, {Mode.AUTO: 100, Mode.CLIENT: 100, Mode.INDIVIDUAL: 1}),
        ({"prefetch-count": "7"}, dict.fromkeys(Mode, 7)),
        ({"activemq.prefetchSize": "7"}, dict.fromkeys(Mode, 7)),
        ({"credit": "7"}, dict.fromkeys(Mode, 7)),
        ({"prefetch-count": "0"}, dict.fromkeys(Mode, MAX_WINDOW)),
        ({"prefetch-count": "99999999999"}, dict.fromkeys(Mode, MAX_WINDOW)),
        ({"consumer-window-size": "0"}, dict.fromkeys(Mode, 1)),
    ],
)
def test_credit(headers, window):  # S25
    assert {mode: window_of(headers, mode) for mode in Mode} == window


@pytest.mark.parametrize(
    ("headers", "version", "message"),
    [
        ({"selector": "a = 1"}, V12, Message.NOT_SUPPORTED),
        ({"ack": "mine"}, V12, Message.BAD_HEADER),
        ({"prefetch-count": "-1"}, V12, Message.BAD_HEADER),
        ({"credit": "5,1024"}, V12, Message.BAD_HEADER),
        ({"consumer-window-size": "1024"}, V12, Message.NOT_SUPPORTED),
        ({"destination": "/dsub/a"}, V12, Message.NO_SUCH_KIND),
    ],
)
def test_what_a_subscribe_cannot_have(headers, version, message):
    given = {"destination": "/queue/jobs", "id": "1"} | headers
    assert wanted(given, version).message == message


def test_each_mode_is_there_in_each_version():
    given = {"destination": "/queue/jobs", "id": "1"}
    assert {wanted(given, version).mode for version in VERSIONS.values()} == {Mode.AUTO}
    for mode in ("auto", "client", "client-individual"):
        found = [wanted(given | {"ack": mode}, version).mode for version in VERSIONS.values()]
        assert found == [Mode(mode)] * 3


def test_in_1_0_the_destination_is_the_id_if_there_is_none():
    assert wanted({"destination": "/queue/jobs"}, V10).id == "/queue/jobs"
    assert wanted({"destination": "/queue/jobs", "id": "1"}, V10).id == "1"


def test_a_message_is_named_as_the_version_has_it():
    headers = {"id": "7", "subscription": "s", "message-id": "jobs/i"}
    for version, key in ((V12, ("", "7")), (V11, ("s", "jobs/i")), (V10, ("", "jobs/i"))):
        assert key_of(headers, version) == key_for("s", "jobs/i", "7", version) == key


@pytest.mark.parametrize(
    ("command", "headers", "said"),
    [
        ("ACK", {}, (Verb.RETRACT, Outcome.RELEASE, None, "")),
        ("NACK", {}, (Verb.UNLOCK, Outcome.FAILED, None, "")),
        ("NACK", {"requeue": "false"}, (Verb.UNLOCK, Outcome.REJECT, None, "")),
        ("NACK", {"requeue": "true"}, (Verb.UNLOCK, Outcome.FAILED, None, "")),
        ("NACK", {"outcome": "reject"}, (Verb.UNLOCK, Outcome.REJECT, None, "")),
        ("NACK", {"outcome": "release"}, (Verb.UNLOCK, Outcome.RELEASE, None, "")),
        ("NACK", {"delay": "2", "reason": "why"}, (Verb.UNLOCK, Outcome.FAILED, 2000, "why")),
    ],
)
def test_what_an_ack_or_a_nack_asks_for(command, headers, said):
    found = settle_of(Frame(command, headers), None, JOBS)
    assert (found.verb, found.outcome, found.delay, found.reason) == said


def test_a_nack_that_has_all_headers_of_its_message_says_nothing_by_those_of_the_publisher():
    given = (("outcome", "reject"), ("requeue", "false"), ("reason", "mine"), ("delay", "x"))
    copied = copied_from((*given, ("tenant", "north"), *[("reason", "x" * 9_000)] * 9))
    assert len(copied) == len(given), "long values, and repeated ones, are not kept"
    found = settle_of(Frame("NACK", dict(given)), None, JOBS, copied)
    assert (found.outcome, found.delay, found.reason) == (Outcome.FAILED, None, "")
    found = settle_of(Frame("NACK", {**dict(given), "outcome": "release"}), None, JOBS, copied)
    assert found.outcome is Outcome.RELEASE, "the worker's own word counts"
    assert copied_from(()) == copied_from((("tenant", "north"),)) == ()


def test_headers_of_a_publisher_that_a_message_cannot_have_are_named():
    given = (("ack", "7"), ("receipt", "r"), ("transaction", "t"), ("a", "b"), ("item-id", "i"))
    item = Item(*(1, JOBS, ItemId("i"), State.LOCKED, Jid("etl@x"), NOW), headers=given)
    headers = frames.of_delivery(Deliver(Jid("bee@x/1"), item, b""), "0", "1").headers
    assert headers["not-carried"] == "ack,receipt,transaction"
    assert (headers["ack"], headers["a"], headers["item-id"]) == ("1", "b", "i")
    assert not {"receipt", "transaction"} & headers.keys()


@pytest.mark.parametrize("headers", [{"delay": "soon"}, {"outcome": "fine"}, {"reason": "\x01"}])
def test_what_a_nack_cannot_have(headers):
    assert settle_of(Frame("NACK", headers), None, JOBS).message == Message.BAD_HEADER


TYPES = (
    *("application/json", "application/xml", "text/xml", "image/svg+xml", "text/plain"),
    *("text/plain; charset=utf-8", "text/plain; charset=latin-1", "application/octet-stream"),
    *("application/problem+json", "a/b; x=1", "", "nonsense"),
)
WORDS = (b"<a xmlns='x'/>", b"{}", b"\xef\xbb\xbf", b"]]>", b"\r\n", b" ", b"\0", b"&amp;", b"<!--")
BODIES = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(str.encode),
    st.lists(st.sampled_from(WORDS), max_size=5).map(b"".join),
)


@given(BODIES, st.none() | st.sampled_from(TYPES))
@example(bytes(range(256)), None)
@example(b"<json xmlns='urn:xmpp:json:0'>{}</json>", "application/xml")
@example(b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'>AA==</data>", "application/xml")
def test_what_is_sent_is_what_comes(body, kind):  # N21
    headers = {"destination": "/queue/jobs"} | ({} if kind is None else {"content-type": kind})
    made = sending(headers, body)
    if isinstance(made, Problem):
        assert made.message == "bad header"
        assert kind not in {None, *TYPES[:9]}
        return
    assert etree.fromstring(made.draft.payload).tag.startswith("{")  # one element, in a namespace
    notice = a_delivery(made.draft.payload, headers=made.draft.headers)
    reader = FrameReader(Side.SERVER)
    reader.agree(V12)
    reader.receive(write(frames.of_delivery(notice, "s", "7"), V12))
    found = reader.next_event()
    assert isinstance(found, Frame)
    assert found.body == body
    if kind:
        assert found.headers["content-type"] == kind
