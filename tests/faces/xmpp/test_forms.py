"""Data forms: what was submitted is read to the letter, what is offered is a valid form."""

import pytest
from harness.batches.facts import queue
from lxml import etree

from pubqueue.faces.xmpp.xml.forms import Form, FormError, meta_data, node_config, read
from pubqueue.model.entities import NodeConfig
from pubqueue.model.replies import Described


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
