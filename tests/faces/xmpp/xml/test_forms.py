"""Data forms: what was submitted is read to the letter, what is offered is a valid form; and lists are cut where an answer would grow too large."""

import pytest
from harness.batches.facts import queue
from lxml import etree

from pubqueue.faces.xmpp.xml.forms import Form, FormError, cut, meta_data, node_config, read
from pubqueue.faces.xmpp.xml.stanza import ROOM
from pubqueue.model.entities import NodeConfig
from pubqueue.model.replies import Described, Part


def form(*fields, kind="submit"):
    return f"<x xmlns='jabber:x:data' type='{kind}'>{''.join(fields)}</x>".encode()


def field(var, *values):
    return f"<field var='{var}'>{''.join(f'<value>{value}</value>' for value in values)}</field>"


def test_a_form_is_its_type_its_form_type_and_its_values():
    document = form(field("FORM_TYPE", "urn:f"), field("a", "1", "2"), field("b"), field("c", ""))
    assert read(document) == Form("submit", "urn:f", {"a": ["1", "2"], "b": [], "c": [""]})


def test_a_field_that_comes_twice_has_the_values_of_both():
    assert read(form(field("a", "1"), field("a", "2"))).fields == {"a": ["1", "2"]}


def test_what_is_no_field_of_the_form_is_not_read():
    inside = (
        "<reported><field var='a'/></reported><item/><title>t</title><field xmlns='y' var='b'/>"
    )
    assert read(form(inside, field("c", "&lt;"))).fields == {"c": ["<"]}


def test_a_form_without_type_or_form_type():
    assert read(b"<x xmlns='jabber:x:data'/>") == Form("", None, {})


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (form("<field><value>1</value></field>"), "has no name"),
        (form("<a>" * 300 + "</a>" * 300), "depth"),
        (form("<a xmlns:p='\"'/>"), "not a valid URI"),
        (form(f"<{'n' * 60_000}/>"), "too long"),
    ],
)
def test_what_cannot_be_read_is_explained_in_a_sentence(document, reason):
    with pytest.raises(FormError, match=reason) as refused:
        read(document)
    assert len(str(refused.value)) < 300


def test_every_field_of_the_settings_and_every_choice_has_a_name_for_people():
    offered = etree.fromstring(node_config(NodeConfig()))
    fields = [field for field in offered if field.get("type") != "hidden"]
    assert all(field.get("label") for field in fields), offered
    assert all(option.get("label") for option in offered.iter("{*}option"))


def test_every_field_that_describes_a_node_has_a_name_for_people():
    described = Described(queue(title="t", description="d", type="y"), (), depth=7)
    fields = etree.fromstring(meta_data(described))[1:]
    assert all(field.get("label") for field in fields)


NAMES = ["a", "b", "c"]
WIDE = [b"x" * (ROOM // 2)] * 3
SMALL = [b"x"] * 3


def shown(entries, part):
    which, reported = cut(entries, NAMES, part)
    return NAMES[which], reported.removeprefix('<set xmlns="http://jabber.org/protocol/rsm">')


def test_an_unpaged_list_that_fits_has_no_set():
    assert shown(SMALL, Part(total=3)) == (NAMES, "")


def test_a_list_that_does_not_fit_names_where_it_continues():
    reported = '<first index="0">a</first><last>b</last><count>3</count></set>'
    assert shown(WIDE, Part(total=3)) == (["a", "b"], reported)


def test_what_is_read_from_its_end_loses_its_beginning():
    reported = "<first>b</first><last>c</last><count>3</count></set>"
    assert shown(WIDE, Part(total=3, backward=True)) == (["b", "c"], reported)


def test_an_answer_in_parts_states_which_part_it_is():
    reported = "<first>a</first><last>c</last></set>"
    assert shown(SMALL, Part(begins=False, asked=True)) == (NAMES, reported)


def test_one_entry_is_shown_however_large_it_is():
    assert shown([b"x" * (2 * ROOM)] * 3, Part())[0] == ["a"]
