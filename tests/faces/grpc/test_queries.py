"""The query language of tech.pubsub, and the queries of its lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.tech import Listed, filter_of, listed, query_of
from pubqueue.rules.filters import admits, indexed

LABELS = indexed((("a", "1"), ("foo.com/key1", "two words"), ("n", "-7")))

TRUE = [
    "",
    "a = 1",
    'a = "1"',
    "a != 2",
    "a in (1, 2)",
    "a in (2) OR n = -7",
    "NOT a in (2, 3)",
    'foo.com/key1 = "two words"',
    'foo.com/key1 in ("two words", x) AND a = 1',
    "(a = 2 OR a = 1) AND n = -7",
    "b != 1",
]
FALSE = ["a = 2", "a != 1", "b = 1", "NOT (a = 1)", "a = 1 AND b = 1", 'a in ("")']


@pytest.mark.parametrize(
    ("query", "wanted"), [*((q, True) for q in TRUE), *((q, False) for q in FALSE)]
)
def test_queries_select_by_labels(query, wanted):  # G14
    text = filter_of(query)
    assert admits(text, LABELS) is wanted
    assert filter_of(query_of(text)) == filter_of(query_of(filter_of(query_of(text))))
    assert admits(filter_of(query_of(text)), LABELS) is wanted


@pytest.mark.parametrize(
    "query",
    [
        "a",
        "a =",
        "= 1",
        "a = 1 AND",
        "a = 1 b = 2",
        "(a = 1",
        "a in 1",
        "a in ()",
        "a = 1 AND b = 2 OR c = 3",
        '"',
        "a ! b",
    ],
)
def test_what_is_no_query_is_refused(query):  # G14
    with pytest.raises(CallError):
        filter_of(query)


@given(st.text(max_size=60))
def test_any_text_is_a_query_or_refused(query):
    try:
        text = filter_of(query)
    except CallError:
        return
    admits(text, LABELS)


def test_a_filter_of_v1_that_no_query_expresses_is_shown_as_it_is():
    assert query_of('hasPrefix(attributes.a, "b")') == 'hasPrefix(attributes.a, "b")'


def test_lists_have_a_project_and_a_topic():  # G3
    assert listed("") == Listed()
    assert listed("cloud.googleapis.com/project in (/projects/shop)") == Listed("shop")
    both = "pubsub.googleapis.com/topic in (/topics/shop/orders) AND cloud.googleapis.com/project in (shop)"
    assert listed(both) == Listed("shop", "projects/shop/topics/orders")


@pytest.mark.parametrize(
    "query",
    [
        "a = 1",
        "cloud.googleapis.com/project in (/projects/S!)",
        "cloud.googleapis.com/project in (a, b)",
        "x AND y",
    ],
)
def test_other_queries_of_lists_are_refused(query):  # G3
    with pytest.raises(CallError):
        listed(query)
