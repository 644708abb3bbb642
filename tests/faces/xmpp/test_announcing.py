"""Texts to people and rooms: what is sent, and what the answers of rooms mean."""

import asyncio

import pytest
from harness.patience import until
from lxml import etree

from pubqueue.faces.xmpp import announcing
from pubqueue.faces.xmpp.announcing import MUC_USER, NO_ROOM, NO_STREAM, Announcer
from pubqueue.faces.xmpp.xml.stanza import Element
from pubqueue_xeps.wire import ns

SERVICE, ME, ROOM = "queue.x", "queue.x/alerts", "ops@rooms.x"
INSIDE = f"{ROOM}/bot"


def element(name, *children, **words):
    made = Element(ns.tag(ns.COMPONENT, name), words, 0)
    made.children = list(children)
    return made


def child(space, name, *children, **words):
    made = Element(ns.tag(space, name), words, 0)
    made.children = list(children)
    return made


def error(condition):
    return child(ns.COMPONENT, "error", child(ns.STANZAS, condition), type="auth")


def status(code):
    return child(
        MUC_USER, "x", child(MUC_USER, "status", code="110"), child(MUC_USER, "status", code=code)
    )


class Network:
    """What is sent, and what comes back."""

    def __init__(self):
        self.sent, self.is_up, self.outcomes = [], True, []
        self.announcer = Announcer(SERVICE, self.write, lambda: 3)
        self.announcer.is_on, self.announcer.rooms = True, frozenset({ROOM})
        self.announcer.on_outcome = lambda target, why: self.outcomes.append((target, why))

    def write(self, data):
        if self.is_up:
            self.sent += etree.fromstring(b"<s>" + data + b"</s>")
        return self.is_up

    async def in_room(self, *answers):
        """Say something in the room; return the outcome after these answers to the message's id."""
        said = asyncio.create_task(self.announcer.send_to_room(ROOM, "bot", "hello <all>"))
        await until(lambda: bool(self.sent))
        for answer in answers:
            assert self.announcer.take(answer(self.sent[1].get("id")))
        return await said


@pytest.fixture
def network():
    return Network()


async def test_a_room_is_entered_for_one_message_without_its_history(network):
    assert await network.in_room(heard) == ""
    enter, message, leave = network.sent
    assert [one.get("to") for one in network.sent] == [INSIDE, ROOM, INSIDE]
    assert {one.get("from") for one in network.sent} == {ME}
    assert enter.find(".//{*}history").get("maxstanzas") == "0"
    assert (message.get("type"), message.findtext("body")) == ("groupchat", "hello <all>")
    assert leave.get("type") == "unavailable"


def refused(_mark):
    return element("presence", error("forbidden"), type="error", to=ME, **{"from": INSIDE})


def unheard(mark):
    words = {"from": ROOM, "id": mark}
    return element("message", error("not-acceptable"), type="error", to=ME, **words)


def created(_mark):
    return element("presence", status("201"), to=ME, **{"from": INSIDE})


def entered(_mark):
    return element("presence", status("100"), to=ME, **{"from": INSIDE})


def spoken(_mark):
    return element("message", type="groupchat", id="other", to=ME, **{"from": f"{ROOM}/ann"})


def heard(mark):
    return element("message", type="groupchat", id=mark, to=ME, **{"from": INSIDE})


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ((entered, spoken, heard), ""),
        ((refused, unheard), "the room refuses: forbidden"),
        ((unheard,), "the room refuses: not-acceptable"),
        ((created, heard), NO_ROOM),
    ],
)
async def test_the_first_answer_that_says_something_is_the_outcome(network, answers, outcome):
    assert await network.in_room(*answers) == outcome


async def test_without_an_answer_the_outcome_is_unknown(network, monkeypatch):
    monkeypatch.setattr(announcing, "PATIENCE", 0.0)
    assert await network.in_room() is None


async def test_without_a_stream_nothing_is_sent(network):
    network.is_up = False
    assert await network.announcer.send_to_room(ROOM, "bot", "x") == NO_STREAM
    assert network.announcer.send("ann@x", "x") == NO_STREAM


def test_a_person_gets_a_chat_message_and_a_bounce_is_noted(network):
    assert network.announcer.send("ann@x/phone", "a & b") == ""
    (message,) = network.sent
    assert (message.get("type"), message.get("from"), message.get("to")) == (
        "chat",
        SERVICE,
        "ann@x/phone",
    )
    assert message.findtext("body") == "a & b"
    words = {"from": "ann@x/phone", "to": SERVICE, "id": message.get("id")}
    assert network.announcer.take(
        element("message", error("service-unavailable"), type="error", **words)
    )
    assert network.outcomes == [("ann@x", "service-unavailable")]


@pytest.mark.parametrize(
    ("answer", "outcomes"),
    [
        (unheard("pq-alert-4-1"), [(ROOM, "the room refuses: not-acceptable")]),
        (heard("pq-alert-4-1"), [(ROOM, "")]),
        (heard("pq-alert-3-1"), []),  # it waits for it no more
        (created(""), []),
    ],
)
def test_an_answer_to_another_instance_is_noted(network, answer, outcomes):
    assert network.announcer.take(answer)
    assert network.outcomes == outcomes


@pytest.mark.parametrize(
    "stanza",
    [
        element("message", type="groupchat", to=ME, **{"from": "mallory@rooms.x/x"}),
        element("presence", to=ME, **{"from": "mallory@x/x"}),
        element("message", to=SERVICE, **{"from": INSIDE}),
        element("message", error("gone"), type="error", to=SERVICE, id="pq-1-1", **{"from": "a@x"}),
        element("message", to=SERVICE, id="pq-alert-3-1", **{"from": "a@x"}),
    ],
)
def test_all_else_is_handled_as_any_stanza(network, stanza):
    assert not network.announcer.awaits(stanza)
    assert not network.announcer.take(stanza)
    assert network.outcomes == []


def test_when_nobody_is_told_anything_no_room_is_listened_to(network):
    network.announcer.is_on = False
    assert not network.announcer.awaits(entered(""))
