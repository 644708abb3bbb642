"""Reasons of deaths: variable parts are left out, and the rest matches the original items."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.rules.dead_letters import MAX_SHAPE_LENGTH, matches, shape


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("no such flight", "no such flight"),
        ("timed out after 31.5 s, item 42", "timed out after * s, item *"),
        ("no row 3f2a9c1e-00aa-4bcd-8123-0123456789ab", "no row *"),
        ("at 0x7f12ab of deadbeef01", "at * of *"),
        ("decade 2026-11-22", "decade *-*-*"),
        ("first\nsecond 7", "first*"),
        ("", "*"),
        ("a" * 500, "a" * MAX_SHAPE_LENGTH + "*"),
        ("**", "*"),
    ],
)
def test_variable_parts_are_left_out(reason, shown):
    assert shape(reason) == shown


@given(st.text() | st.text("ab 01.*\n", max_size=400))
def test_a_shape_matches_what_it_was_made_of(reason):
    assert matches(shape(reason), reason)
    assert shape(shape(reason)) == shape(reason)


@pytest.mark.parametrize(
    ("pattern", "reason", "does"),
    [
        ("", "anything", True),
        ("*", "", True),
        ("abc", "abc", True),
        ("abc", "abcd", False),
        ("a*c", "abc", True),
        ("a*c", "ac", True),
        ("a*a", "a", False),
        ("*b*", "abc", True),
        ("a*b*c", "acb", False),
        ("a*bc*c", "abc", False),
        ("a*bc*c", "abcc", True),
        ("a?c", "abc", False),
        ("[a]", "a", False),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_does(pattern, reason, does):
    assert matches(pattern, reason) is does
