"""How a question ended, as it is written and read, and the id of a reply."""

from xml.etree.ElementTree import fromstring

import pytest

from pubqueue_xeps.publisher.replies import death_in
from pubqueue_xeps.wire.asking import MAX_ID_BYTES, Death, bounded, correlation


@pytest.mark.parametrize(
    "text", ["", "no such flight", "<a b='c'>&\"\t\r\n]]>", "\u00e4\U0001f600", " "]
)
def test_what_is_written_is_read(text):
    death = Death(text, f"i{text}", text, 3, 0)
    assert death_in(fromstring(death.written())) == death


def test_what_xml_cannot_carry_is_replaced_in_the_reason():
    read = death_in(fromstring(Death("jobs", "i1", "a\0b\ud800", 0, 0).written()))
    assert (read.reason, read.node) == ("a\ufffdb\ufffd", "jobs")


@pytest.mark.parametrize(
    "payload",
    [
        "<died xmlns='urn:x-pubqueue:0'/>",
        "<died xmlns='urn:x-pubqueue:0' attempts='1' failures='-1'/>",
        "<died xmlns='urn:x-pubqueue:1' attempts='1' failures='1'/>",
        "<dead xmlns='urn:x-pubqueue:0' attempts='1' failures='1'/>",
    ],
)
def test_anything_else_is_a_reply(payload):
    assert death_in(fromstring(payload)) is None
    assert death_in(None) is None


def test_an_id_that_is_too_long_is_a_digest_of_it():
    assert correlation("a/b", "c") == "a%2Fb/c"
    longest = "x" * MAX_ID_BYTES
    assert bounded(longest) == longest
    assert len(bounded(f"{longest}x")) == 64
