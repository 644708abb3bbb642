"""What comes back for a delivery, and what it says of its addressee (XEP-0060 12.4, RFC 6120 8.3); and pings of workers (XEP-0199), with what each answer means."""

import re
from itertools import product

import pytest
from harness.batches.facts import ANN, JOBS, held

from pubqueue.engine.silent_workers import SilentWorkers
from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.bounces import Meaning, Pings, meaning
from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.xml.stanza import Element
from pubqueue.model.entities import Jid, mark_of
from pubqueue.model.notices import Deliver
from pubqueue.rules.presence import Bounce
from pubqueue_xeps.wire import ns

CONDITIONS = (
    "bad-request",
    "conflict",
    "feature-not-implemented",
    "forbidden",
    "gone",
    "internal-server-error",
    "item-not-found",
    "jid-malformed",
    "not-acceptable",
    "not-allowed",
    "not-authorized",
    "payment-required",
    "policy-violation",
    "recipient-unavailable",
    "redirect",
    "registration-required",
    "remote-server-not-found",
    "remote-server-timeout",
    "resource-constraint",
    "service-unavailable",
    "subscription-required",
    "undefined-condition",
    "unexpected-request",
)
ENDS = {
    *(("gone", kind) for kind in ("auth", "cancel", "continue", "modify", "wait")),
    *(("item-not-found", "cancel"), ("recipient-unavailable", "cancel")),
    ("service-unavailable", "cancel"),
}


def element(tag, children=(), **attributes):
    made = Element(tag, attributes, 0)
    made.children = list(children)
    return made


def error(condition, kind="cancel", *, space=ns.COMPONENT, text=False):
    children = [element(ns.tag(ns.STANZAS, condition))]
    if text:
        children.insert(0, element(ns.tag(ns.STANZAS, "text")))
    return element(ns.tag(space, "error"), children, type=kind)


def message(name, inner, sender=ANN):
    return element(
        ns.tag(ns.COMPONENT, "message"), [inner], id=name, type="error", **{"from": sender}
    )


@pytest.mark.covers("N-004", "N-005")
def test_only_an_answer_that_the_client_is_gone_is_the_end():
    cells = product(CONDITIONS, bounces.TYPES)
    assert {cell for cell in cells if bounces.is_gone(error(*cell))} == ENDS


def test_the_table_is_total():
    assert {condition for condition, _ in bounces.GONE} == set(CONDITIONS)
    assert len(bounces.GONE) == len(CONDITIONS) * len(bounces.TYPES)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        element(ns.tag(ns.COMPONENT, "error")),
        error("unheard-of"),
        error("service-unavailable", "odd"),
        element(
            ns.tag(ns.COMPONENT, "error"),
            [element("urn:example service-unavailable")],
            type="cancel",
        ),
    ],
)
def test_an_unknown_field_passes(odd):
    assert not bounces.is_gone(odd)


@pytest.mark.parametrize("space", [ns.COMPONENT, ns.CLIENT])
def test_the_bounce_of_a_delivery_names_its_lock_and_its_subscription(space):
    name = notices.delivery_id(Deliver(ANN, held(), b"", subid="mine"))
    inner = error("service-unavailable", space=space, text=True)
    expected = Bounce(ANN, 1, 7, gone=True, bounced=True, mark=mark_of("mine"))
    assert bounces.bounce(message(name, inner)) == expected
    assert bounces.bounce(message(f"{name}-again-1", inner)) == expected


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        *(("pq-1-7", ""), ("pq-1-7-" + "0" * 32 + "-1", "")),
        *(("pq-1-7-0123abcd", "0123abcd"), ("pq-1-7-0123abcd-x", "0123abcd")),
    ],
)
def test_ids_of_earlier_versions_name_no_subscription(name, mark):
    assert bounces.bounce(message(name, error("gone"))).mark == mark


@pytest.mark.parametrize("name", ["", "x", "pq-1", "pq-x-7-0123abcd", "pq-" + "1" * 19 + "-7"])
def test_what_is_no_delivery_is_no_bounce(name):
    assert bounces.bounce(message(name, error("gone"))) is None


def test_each_subscription_has_a_mark_of_its_own():
    assert mark_of("") == ""
    assert len({mark_of(f"id-{n}") for n in range(1000)}) == 1000
    assert JOBS not in mark_of("jobs")


BEE, SERVICE = Jid("bee@x/1"), "queue.x"


class Noted(SilentWorkers):
    """Notes what it is told."""

    def __init__(self):
        super().__init__(30)
        self.notes, self.doubted = [], set()

    def doubts(self, jid):
        return jid in self.doubted

    def answered(self, jid):
        self.notes.append(("answered", jid))

    def is_gone(self, jid):
        self.notes.append(("gone", jid))

    def answered_elsewhere(self, jid):
        self.notes.append(("elsewhere", jid))


class Wire:
    """The pings of one instance, and what was written."""

    def __init__(self, instance=3):
        self.workers, self.sent = Noted(), []
        self.pings = Pings(SERVICE, self._write, self.workers, lambda: instance)

    def _write(self, stanza):
        self.sent.append(stanza.decode())
        return True

    def id(self):
        return re.search('id="([^"]+)"', self.sent[-1])[1]


def iq(name, condition=None, *, sender=BEE, to=SERVICE):
    kind = "result" if condition is None else "error"
    made = Element(f"{ns.COMPONENT} iq", {"id": name, "from": sender, "to": to, "type": kind}, 0)
    if condition:
        error = Element(ns.tag(ns.COMPONENT, "error"), {"type": "cancel"}, 0)
        error.children = [Element(ns.tag(ns.STANZAS, condition), {}, 0)]
        made.children = [error]
    return made


def test_a_ping_names_the_instance_that_sent_it():
    wire = Wire()
    assert wire.pings.ping(Jid("a&b@x/'1'"))
    assert wire.sent == [
        '<iq type="get" id="pq-ping-3-1" from="queue.x" to="a&amp;b@x/\'1\'"><ping xmlns="urn:xmpp:ping"/></iq>'
    ]


@pytest.mark.parametrize(
    ("condition", "means"),
    [
        (None, Meaning.HERE),
        ("feature-not-implemented", Meaning.HERE),
        ("forbidden", Meaning.HERE),
        ("gone", Meaning.GONE),
        ("item-not-found", Meaning.GONE),
        ("recipient-unavailable", Meaning.GONE),
        ("service-unavailable", Meaning.UNCLEAR),
        ("remote-server-not-found", Meaning.NOTHING),
        ("remote-server-timeout", Meaning.NOTHING),
        ("internal-server-error", Meaning.NOTHING),
        ("resource-constraint", Meaning.NOTHING),
        ("", Meaning.NOTHING),
    ],
)
def test_what_an_answer_means(condition, means):
    assert meaning(iq("x", condition)) is means


@pytest.mark.parametrize(
    ("condition", "notes"),
    [
        (None, [("answered", BEE)]),
        ("item-not-found", [("gone", BEE)]),
        ("remote-server-timeout", []),
    ],
)
def test_an_answer_is_noted_once(condition, notes):
    wire = Wire()
    wire.pings.ping(BEE)
    assert wire.pings.take_answer(iq(wire.id(), condition))
    assert wire.pings.take_answer(iq(wire.id(), condition))
    assert wire.workers.notes == notes


def test_a_client_without_pings_is_asked_for_its_features():
    wire = Wire()
    wire.pings.ping(BEE)
    wire.pings.take_answer(iq(wire.id(), "service-unavailable"))
    assert ns.DISCO_INFO in wire.sent[-1]
    wire.pings.take_answer(iq(wire.id()))
    assert wire.workers.notes == [("answered", BEE)]
    wire.pings.ping(BEE)
    assert ns.DISCO_INFO in wire.sent[-1], "it is remembered"


def test_a_server_that_refuses_both_means_that_the_client_is_gone():
    wire = Wire()
    wire.pings.ping(BEE)
    for _ in range(2):
        wire.pings.take_answer(iq(wire.id(), "service-unavailable"))
    assert wire.workers.notes == [("gone", BEE)]


def test_an_answer_to_another_instance_is_passed_on_but_an_error_about_somebody_else_is_not():
    wire = Wire(instance=4)
    wire.pings.take_answer(iq("pq-ping-3-1"))
    wire.pings.take_answer(iq("pq-ping-3-1", "item-not-found"))
    wire.pings.take_answer(iq("pq-ping-3-1", "service-unavailable"))
    assert (wire.workers.notes, wire.sent) == ([("elsewhere", BEE)], [])


def test_an_error_to_another_instance_counts_for_whoever_is_doubted_here_too():
    wire = Wire(instance=4)
    wire.workers.doubted.add(BEE)
    for _ in range(2):
        wire.pings.take_answer(iq("pq-ping-3-1", "service-unavailable"))
    assert wire.workers.notes == [], "it may have no XEP-0199"
    assert [ns.DISCO_INFO in sent for sent in wire.sent] == [True, True]
    wire.pings.take_answer(iq("pq-disco-3-2", "service-unavailable"))
    assert wire.workers.notes == [("gone", BEE)]


@pytest.mark.parametrize("lives", [True, False], ids=["alive", "gone"])
@pytest.mark.parametrize("routed", ["home", "crosswise", "to one"])
def test_two_instances_agree_on_a_client_without_pings_wherever_its_answers_come(routed, lives):
    """What one has learnt of the client decides nothing about the answer to what another has asked."""
    both = {instance: Wire(instance) for instance in (3, 4)}
    read = dict.fromkeys(both, 0)

    def answer(instance):
        """Answer the next stanza of an instance, at one of the two."""
        sent = both[instance].sent[read[instance]]
        read[instance] += 1
        condition = None if lives and ns.DISCO_INFO in sent else "service-unavailable"
        to = {"home": instance, "crosswise": 7 - instance, "to one": 3}[routed]
        name = re.search('id="([^"]+)"', sent)[1]
        assert both[to].pings.take_answer(iq(name, condition))

    for wire in both.values():
        wire.workers.doubted.add(BEE)
    for _ in range(3):  # each looks again after a while
        for wire in both.values():
            wire.pings.ping(BEE)
            while any(read[one] < len(both[one].sent) for one in both):
                answer(next(one for one in both if read[one] < len(both[one].sent)))
            assert sum(read.values()) < 30
    seen = {note for wire in both.values() for note, _ in wire.workers.notes}
    assert seen <= ({"answered", "elsewhere"} if lives else {"gone"})
    assert seen


@pytest.mark.parametrize(
    "forged",
    [
        iq("pq-ping-3-1", sender=Jid("eve@x/1")),
        iq("pq-ping-3-2"),
        iq("pq-ping-3-1", to="queue.x/other"),
        iq("other"),
    ],
)
def test_what_answers_no_ping_of_that_jid_is_ignored(forged):
    wire = Wire()
    wire.pings.ping(BEE)
    wire.pings.take_answer(forged)
    assert wire.workers.notes == []


def test_nothing_is_awaited_on_a_stream_that_is_lost(monkeypatch):
    wire = Wire()
    wire.pings.ping(BEE)
    wire.pings.forget()
    wire.pings.take_answer(iq(wire.id()))
    assert wire.workers.notes == []


def test_the_pings_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr("pubqueue.faces.xmpp.bounces.MAX_OPEN", 2)
    wire = Wire()
    for number in range(3):
        wire.pings.ping(Jid(f"bee@x/{number}"))
    wire.pings.take_answer(iq("pq-ping-3-1", sender=Jid("bee@x/0")))
    wire.pings.take_answer(iq("pq-ping-3-2", sender=Jid("bee@x/1")))
    assert wire.workers.notes == [("answered", Jid("bee@x/1"))]


def test_who_has_no_pings_is_remembered_while_there_is_room(monkeypatch):
    monkeypatch.setattr("pubqueue.faces.xmpp.bounces.MAX_WITHOUT", 1)
    wire, jids = Wire(), [Jid(f"bee@x/{number}") for number in range(2)]
    for jid in jids:
        wire.pings.ping(jid)
        wire.pings.take_answer(iq(wire.id(), "service-unavailable", sender=jid))
    kinds = []
    for jid in jids:
        wire.pings.ping(jid)
        kinds.append(ns.PING in wire.sent[-1])
    assert kinds == [True, False], "the oldest has made room"
