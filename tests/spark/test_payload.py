import pytest

from pubqueue_spark.write.payload import DEEPEST, MAX_STANZA_BYTES, payload


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("<job xmlns='urn:x'/>", "<job xmlns='urn:x'/>"),
        ("<job>é</job>", "<job xmlns=''>é</job>"),
        ("<job\n  a='1'/>", "<job xmlns=''\n  a='1'/>"),
        ("<job xmlns=''><b/></job>", "<job xmlns=''><b/></job>"),
        ("<a:job xmlns:a='urn:x'><b/></a:job>", "<a:job xmlns='' xmlns:a='urn:x'><b/></a:job>"),
        ("<job><b xmlns='urn:x'/></job>", "<job xmlns=''><b xmlns='urn:x'/></job>"),
        ("<?xml version='1.0' encoding='latin-1'?><job>é</job>", "<job xmlns=''>é</job>"),
        ("<!-- <no/> --><a>x<!-- > -->y<?go?>z</a><!-- end --> ", "<a xmlns=''>xyz</a>"),
        ("<a><![CDATA[<!-- kept -->]]></a>", "<a xmlns=''><![CDATA[<!-- kept -->]]></a>"),
        ("<a>&lt;&#233;&quot;</a>", "<a xmlns=''>&lt;&#233;&quot;</a>"),
    ],
)
def test_an_element_is_sent_as_written_and_keeps_its_namespace(text, sent):
    assert payload(text) == sent.encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the payload is empty; it must be one XML element"),
        (" \n", "the payload is empty; it must be one XML element"),
        ("words", "the payload is not one well-formed XML element: syntax error: line 1, column 0"),
        ("<a/><b/>", "not one well-formed XML element: junk after document element"),
        ("<a>", "not one well-formed XML element: no element found"),
        ("<x:a/>", "not one well-formed XML element: unbound prefix"),
        ("<a>&nbsp;</a>", "not one well-formed XML element: undefined entity"),
        ("<a>&#1;</a>", "not one well-formed XML element: reference to invalid character number"),
        (
            "<a>\x01</a>",
            "the payload has the character U+0001 at position 3, which XML cannot carry",
        ),
        ("<a>\ud800</a>", "the payload has the character U+D800 at position 3"),
        ("<a>\ufffe</a>", "the payload has the character U+FFFE at position 3"),
        ("<!DOCTYPE a><a/>", "the payload has a DTD (<!DOCTYPE), which XMPP forbids"),
        (
            "<a>" * (DEEPEST + 1) + "</a>" * (DEEPEST + 1),
            "more than 100 elements within each other",
        ),
        ("x" * (MAX_STANZA_BYTES + 1), f"the payload has {MAX_STANZA_BYTES + 1} characters"),
    ],
)
def test_what_cannot_travel_is_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match="payload") as caught:
        payload(text)
    assert reason in str(caught.value)


def test_a_document_full_of_entities_is_refused_before_one_is_expanded():
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 12))
    with pytest.raises(ValueError, match="DTD"):
        payload(f"<!DOCTYPE a [<!ENTITY l0 'ha'>{laughs}]><a b='&l11;'>&l11;</a>")
