"""What comes back for a delivery, and what it says of its addressee (XEP-0060 12.4, RFC 6120 8.3)."""

from itertools import product

import pytest
from harness.batches.facts import ANN, JOBS, held

from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.xml.stanza import Element
from pubqueue.model.entities import mark_of
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
