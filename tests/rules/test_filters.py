"""Filters: what each form matches, the message and place of each fault, and that no other error is raised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.rules.filters import (
    MAX_DEPTH,
    MAX_LENGTH,
    FilterError,
    admits,
    agrees,
    indexed,
    parsed,
)

ORDER = (("kind", "order"),)
URGENT = (("kind", "order"), ("urgent", ""))
BOTH = (("kind", "order"), ("kind", "invoice"))
SPACED = (("two words", 'a "b" \\'),)

# filter, and the headers of which it is true, of these
ITEMS = {"none": (), "order": ORDER, "urgent": URGENT, "both": BOTH, "spaced": SPACED}
TRUE_OF = {
    "": "none order urgent both spaced",
    "headers:kind": "order urgent both",
    "attributes:kind": "order urgent both",
    "NOT headers:kind": "none spaced",
    "-headers:kind": "none spaced",
    "NOT NOT headers:kind": "order urgent both",
    'headers.kind = "order"': "order urgent both",
    'headers.kind="order"': "order urgent both",
    'headers.kind = "invoice"': "both",
    'headers.kind = "Order"': "",
    'headers.kind != "order"': "none spaced",
    'headers.kind IN ("invoice", "letter")': "both",
    'hasPrefix(headers.kind, "inv")': "both",
    'hasPrefix(attributes.kind, "")': "order urgent both",
    'headers:kind AND headers.urgent = ""': "urgent",
    "headers:kind AND headers:urgent AND headers:other": "",
    "headers:urgent OR headers:other OR NOT headers:kind": "none urgent spaced",
    'headers:kind AND (headers:urgent OR headers.kind = "invoice")': "urgent both",
    "(headers:kind)": "order urgent both",
    'headers:"two words"': "spaced",
    'headers."two words" = "a \\"b\\" \\\\"': "spaced",
    "headers:Kind": "",
    "  headers : kind  ": "order urgent both",
}


def test_items_that_a_filter_matches():
    def found(text):
        return " ".join(name for name, headers in ITEMS.items() if admits(text, indexed(headers)))

    assert {text: found(text) for text in TRUE_OF} == TRUE_OF


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        (" ", 2, "headers, hasPrefix, NOT or a bracket is expected"),
        ("kind", 1, "headers, hasPrefix, NOT or a bracket is expected"),
        ("headers", 8, 'a "." or ":" is expected'),
        ("headers.", 9, "the name of a header is expected"),
        ("headers.kind", 13, "=, != or IN is expected"),
        ("headers.kind = order", 16, "a text in double quotes is expected"),
        ("headers.kind = 'order'", 16, "this character does not belong into a filter"),
        ('headers.kind = "order', 16, "this character does not belong into a filter"),
        ('headers.kind = "a\\n"', 16, "this character does not belong into a filter"),
        ('headers.kind IN "a"', 17, '"(" is expected'),
        ("headers.kind IN ()", 18, "a text in double quotes is expected"),
        ('headers.kind IN ("a" "b")', 22, '")" is expected'),
        ('hasPrefix(headers:kind, "a")', 18, '"." is expected'),
        ("headers:kind headers:urgent", 14, "AND, OR or the end is expected"),
        ("headers:kind and headers:urgent", 14, "AND, OR or the end is expected"),
        ("(headers:kind", 14, '")" is expected'),
        ("headers:kind)", 13, "AND, OR or the end is expected"),
        ("headers:a AND headers:b OR headers:c", 25, "brackets are needed where AND meets OR"),
        ("headers:a AND", 14, "headers, hasPrefix, NOT or a bracket is expected"),
        ("headers:9", 9, "this character does not belong into a filter"),
        ("NOT", 4, "headers, hasPrefix, NOT or a bracket is expected"),
        ("NOT " * 21 + "headers:a", 85, "brackets and NOTs are at most 20 within each other"),
        ("(" * 21 + "headers:a", 22, "brackets and NOTs are at most 20 within each other"),
    ],
)
def test_a_fault_names_its_place_and_what_is_expected(text, at, expected):
    with pytest.raises(FilterError) as caught:
        parsed(text)
    assert (caught.value.at, str(caught.value)) == (at, f"at character {at}: {expected}")


def test_a_filter_may_be_so_long_and_so_deep():
    parsed("NOT " * MAX_DEPTH + "headers:a")
    longest = "headers:" + "a" * (MAX_LENGTH - 8)
    parsed(longest)
    with pytest.raises(FilterError, match=f"at character {MAX_LENGTH + 1}: .*at most {MAX_LENGTH}"):
        parsed(longest + "a")


NAMES = st.sampled_from(["kind", "urgent", "two words"])
VALUES = st.sampled_from(["", "order", "a\\b", 'a"b'])


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def leaves():
    """Return texts of single terms, each with the function that it stands for."""
    has = NAMES.map(lambda k: (f"headers:{quoted(k)}", lambda h: k in h))
    equal = st.tuples(NAMES, VALUES).map(
        lambda kv: (
            f"headers.{quoted(kv[0])} = {quoted(kv[1])}",
            lambda h: kv[1] in h.get(kv[0], ()),
        )
    )
    return has | equal


def joined(each):
    def of(word, combine):
        return st.lists(each, min_size=2, max_size=3).map(
            lambda terms: (
                f" {word} ".join(f"({text})" for text, _ in terms),
                lambda h: combine(true(h) for _, true in terms),
            )
        )

    negated = each.map(lambda term: (f"NOT ({term[0]})", lambda h: not term[1](h)))
    return of("AND", all) | of("OR", any) | negated


@given(
    st.recursive(leaves(), joined, max_leaves=8),
    st.lists(st.tuples(NAMES, VALUES), max_size=4).map(tuple),
)
def test_a_filter_means_what_it_says(term, headers):
    text, true = term
    if len(text) <= MAX_LENGTH:
        index = indexed(headers)
        assert agrees(parsed(text), index) is true(index)


@given(st.text(alphabet='headers.:-=!()", ANDORNTIPfix\\k\n\x00é9', max_size=60))
def test_any_other_text_is_a_filter_or_a_fault_within_it(text):
    problem = fault_of(text)
    assert problem is None or 1 <= problem.at <= len(text) + 1


def fault_of(text):
    try:
        parsed(text)
    except FilterError as problem:
        return problem
    return None
