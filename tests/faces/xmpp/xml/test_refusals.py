"""Every way to say no has its words, and they are the words of the schemas."""

import pytest
from harness.servers.stub_server import parse
from harness.stanzas.schema import SCHEMAS, validate
from lxml import etree

from pubqueue.faces.xmpp.xml import refusals
from pubqueue.faces.xmpp.xml.refusals import WORDS, StanzaError, words
from pubqueue.model.decision import Refusal, Refused
from pubqueue_xeps.wire import ns

OTHERS = [value for value in vars(refusals).values() if isinstance(value, StanzaError)]
ERRORS = "http://jabber.org/protocol/pubsub#errors"
TEXT = "{urn:ietf:params:xml:ns:xmpp-stanzas}text"


def error_in(error):
    """Return the error in the answer that carries it, having checked the answer."""
    iq = parse(f"<iq type='error' id='1' from='queue.localhost' to='b@c'>{error.render()}</iq>")
    validate(iq)
    return iq[0]


def test_the_table_is_total():
    assert WORDS.keys() == set(Refusal)


def test_each_error_is_valid_and_its_words_are_known():
    errors = [*WORDS.values(), *OTHERS]
    assert [one for one in errors if not error_in(one)[0].tag.endswith(f"}}{one.condition}")] == []
    queueing, pubsub = (
        {"", *etree.parse(SCHEMAS / name).xpath("//@name")}
        for name in ("x-pubqueue.xsd", "pubsub-errors.xsd")
    )
    known = {one: queueing if one.namespace == ns.PUBQUEUE else pubsub for one in errors}
    assert [one for one in errors if one.detail not in known[one]] == []
    assert [one for one in errors if bool(one.feature) != (one.detail == "unsupported")] == []


def test_a_full_disk_is_worth_another_try_and_a_fault_of_ours_is_not():
    errors = [words(Refused(one)) for one in (Refusal.STORE_FAILED, Refusal.INTERNAL_FAULT)]
    assert errors == [
        StanzaError("wait", "internal-server-error"),
        StanzaError("cancel", "internal-server-error"),
    ]


def test_a_request_for_a_node_that_has_moved_gets_its_new_address():
    """RFC 6120 8.3.3.5: the URI is the text of the condition."""
    error = error_in(words(Refused(Refusal.MOVED, "xmpp:a@b?;node=c&d")))
    assert (error.get("type"), error[0].text) == ("modify", "xmpp:a@b?;node=c&d")


@pytest.mark.parametrize("setting", ["signal", "id", "count", "wait", "no-such-value"])
def test_a_value_that_no_form_has_keeps_its_name(setting):
    """A refused signal, for one, is no field of any form."""
    said = f"{setting}: no such name"
    assert words(Refused(Refusal.BAD_REQUEST, said, setting=setting)).text == said


def test_a_reason_is_escaped():
    def reasons(refusal):
        feature = "collections" if refusal is Refusal.UNSUPPORTED else ""
        said = (Refused(refusal, text, setting=feature) for text in ("a < b & 'c' \r\n", ""))
        return tuple(error_in(words(no)).findtext(TEXT) for no in said)

    others = set(Refusal) - {Refusal.MOVED}
    assert {refusal: reasons(refusal) for refusal in others} == dict.fromkeys(
        others, ("a < b & 'c' \r\n", None)
    )


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (Refusal.NODE_FULL, "the maximum number of items in this node is 7"),
        (Refusal.PAYLOAD_TOO_BIG, "the maximum size of a payload in bytes is 7"),
        (Refusal.CONFIGURATION_REQUIRED, None),
    ],
)
def test_a_bound_is_stated_where_it_helps(refusal, text):
    assert error_in(words(Refused(refusal, limit=7))).findtext(TEXT) == text
