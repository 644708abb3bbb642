from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubqueue_xeps.wire.xml_text import xml_text

names = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"]) | st.sampled_from("\t\n\r<&\"'")
)
spaces = st.sampled_from(["", "{urn:a}", "{urn:b}", "{http://www.w3.org/XML/1998/namespace}"])


@st.composite
def elements(draw, depth=3):
    element = ET.Element(draw(spaces.filter(lambda it: "XML" not in it)) + draw(names))
    for space, name in draw(st.lists(st.tuples(spaces, names), max_size=3)):
        element.set(space + name, draw(texts))
    element.text = draw(texts)
    for _ in range(draw(st.integers(0, depth))):
        child = draw(elements(depth=depth - 1))
        child.tail = draw(texts)
        element.append(child)
    return element


def same(one, other):
    return (
        (one.tag, one.attrib, one.text or "") == (other.tag, other.attrib, other.text or "")
        and len(one) == len(other)
        and all(
            same(a, b) and (a.tail or "") == (b.tail or "") for a, b in zip(one, other, strict=True)
        )
    )


@settings(max_examples=30)
@given(elements())
def test_what_is_written_is_read_as_the_same(element):
    assert same(ET.fromstring(xml_text(element)), element)


@pytest.mark.parametrize(
    "text",
    [
        "<job/>",
        '<job xmlns="urn:a" n="1"><step>x</step>tail</job>',
        '<job xmlns="urn:a"><step xmlns="urn:b"><step/></step><step/></job>',
        '<job xmlns="urn:a"><plain xmlns="">a &lt; b</plain></job>',
        '<job xml:lang="en"/>',
    ],
)
def test_it_is_written_as_people_write_it(text):
    assert xml_text(ET.fromstring(text)) == text


def test_what_follows_an_element_is_not_part_of_it():
    (child,) = ET.fromstring("<a><b/>tail</a>")
    assert xml_text(child) == "<b/>"
