"""Which handler an item is for; the rule is restated here as a list of what wins over what."""

from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.worker.handling.handler import (
    ANY,
    HOLDS,
    Criterion,
    CriterionKind,
    Work,
    choose,
    work_of,
)

JSON = "{urn:xmpp:json:0}json"


def json(text):
    payload = Element(JSON)
    payload.text = text
    return payload


HEADER = Criterion(CriterionKind.HEADER, "kind", "mail")
FIELD = Criterion(CriterionKind.JSON, "urgent", value=True)
TAGGED = Criterion(CriterionKind.ELEMENT, "{urn:example}job")
NAMED = Criterion(CriterionKind.NAME, "job")
REST = Criterion(CriterionKind.REST)
EVERY = [REST, NAMED, TAGGED, FIELD, HEADER]


@pytest.mark.parametrize(
    ("payload", "headers", "chosen"),
    [
        (fromstring("<job xmlns='urn:example'/>"), {"kind": "mail"}, HEADER),
        (fromstring("<job xmlns='urn:example'/>"), {"kind": "post"}, TAGGED),
        (fromstring("<job xmlns='urn:other'/>"), {}, NAMED),
        (fromstring("<job/>"), {}, NAMED),
        (fromstring("<work/>"), {}, REST),
        (json('{"type": "job", "urgent": true}'), {"kind": "mail"}, HEADER),
        (json('{"type": "job", "urgent": true}'), {}, FIELD),
        (json('{"type": "job", "urgent": 1}'), {}, NAMED),
        (json('{"type": "job"}'), {}, NAMED),
        (json('{"type": 7}'), {}, REST),
        (json('["job"]'), {}, REST),
        (json("{no json"), {}, REST),
        (json(None), {}, REST),
        (json(100_000 * "["), {}, REST),
        (None, {"kind": "mail"}, HEADER),
        (None, {}, REST),
    ],
)
def test_the_more_deliberate_mark_wins(payload, headers, chosen):
    assert choose(EVERY, work_of(payload, headers)) == chosen


def test_a_row_without_marks_belongs_to_none():
    assert choose([HEADER, FIELD, TAGGED, NAMED], work_of(fromstring("<work/>"), {})) is None


def test_json_is_named_by_its_type_and_not_by_its_element():
    assert choose([Criterion(CriterionKind.NAME, "json")], work_of(json("{}"), {})) is None
    assert choose([Criterion(CriterionKind.ELEMENT, JSON)], work_of(json("{}"), {})) is not None


def test_of_two_marks_of_a_kind_the_first_wins():
    first, second = Criterion(CriterionKind.HEADER, "a"), Criterion(CriterionKind.HEADER, "b", "x")
    work = Work(None, {"a": "1", "b": "x"})
    assert choose([first, second], work) == first
    assert choose([second, first], work) == second


def test_a_value_that_is_null_is_a_value():
    assert (
        choose([Criterion(CriterionKind.JSON, "to", None)], work_of(json('{"to": null}'), {}))
        is not None
    )
    assert choose([Criterion(CriterionKind.JSON, "to", None)], work_of(json("{}"), {})) is None


NAMES = st.sampled_from(["a", "b", "type"])
VALUES = st.sampled_from(["a", "b", True, False, 0, 1, None])
MARKS = st.one_of(
    st.builds(Criterion, st.just(CriterionKind.HEADER), NAMES, st.sampled_from([ANY, "a", "b"])),
    st.builds(Criterion, st.just(CriterionKind.JSON), NAMES, st.one_of(st.just(ANY), VALUES)),
    st.builds(
        Criterion, st.just(CriterionKind.ELEMENT), st.sampled_from(["a", "{x}a", "{y}b", JSON])
    ),
    st.builds(Criterion, st.just(CriterionKind.NAME), NAMES),
    st.just(REST),
)
HEADERS = st.dictionaries(NAMES, st.sampled_from(["a", "b"]))
WORKS = st.one_of(
    st.builds(Work, st.sampled_from([None, "a", "{x}a", "{y}b"]), HEADERS),
    st.builds(Work, st.just(JSON), HEADERS, st.one_of(st.none(), st.dictionaries(NAMES, VALUES))),
)


def restated(criterion, work):
    """Return whether the work has the criterion, said the other way round: all that the work is known by."""
    known = {("REST", "", None), ("REST", "", ANY)}
    for name, value in work.headers.items():
        known |= {("HEADER", name, ANY), ("HEADER", name, repr(value))}
    for name, value in (work.fields or {}).items():
        known |= {("JSON", name, ANY), ("JSON", name, repr(value))}
        if name == "type" and isinstance(value, str):
            known.add(("NAME", value, ANY))
    if work.tag is not None:
        known.add(("ELEMENT", work.tag, ANY))
        if work.tag != JSON:
            known.add(("NAME", work.tag.split("}")[-1], ANY))
    value = criterion.value if criterion.value is ANY else repr(criterion.value)
    return (criterion.kind.name, criterion.key, value) in known


@given(st.lists(MARKS, max_size=6), WORKS)
def test_the_choice_is_the_first_of_the_best_that_hold(criteria, work):
    for criterion in criteria:
        assert HOLDS[criterion.kind](criterion, work) == restated(criterion, work)
    order = ["HEADER", "JSON", "ELEMENT", "NAME", "REST"]
    held = [criterion for criterion in criteria if restated(criterion, work)]
    best = [criterion for name in order for criterion in held if criterion.kind.name == name]
    assert choose(criteria, work) is (best[0] if best else None)


def test_each_kind_has_its_rule():
    assert set(HOLDS) == set(CriterionKind)
