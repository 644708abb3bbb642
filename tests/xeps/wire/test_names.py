"""Which texts are names, and names that are made of several names."""

import pickle
import sys
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.wire.names import BadCharacterError, checked, is_clean, joined, listed, parted

NAMES = st.text(st.sampled_from("a/%25F."), max_size=6)
SEVERAL = st.lists(NAMES, min_size=2, max_size=3).map(tuple)


@given(SEVERAL, SEVERAL)
def test_no_two_lists_of_names_have_one_name(one, other):
    if len(one) == len(other):
        assert (joined(*one) == joined(*other)) is (one == other)


@given(NAMES, NAMES)
def test_the_names_can_be_told_from_the_whole(node, item):
    assert parted(joined(node, item)) == ((node, item) if node and item else None)


@pytest.mark.parametrize("text", ["", "o1", "/o1", "orders/"])
def test_what_is_no_place_is_none(text):
    assert parted(text) is None


def test_names_without_a_slash_stay_as_they_are():
    assert joined("jobs", "a/b%") == "jobs/a/b%"
    assert joined("jobs/eu", "1") == "jobs%2Feu/1"


@given(st.lists(st.text(st.sampled_from("a,% :\\\n2C"), min_size=1, max_size=4), max_size=3))
def test_each_name_of_a_list_can_be_told(names):
    found = listed(names)
    assert [unquote(one) for one in found.split(",") if one] == names
    assert not set(found) & set(" :\\\n")


def test_names_in_a_list_mostly_stay_as_they_are():
    assert listed(["ack", "x-größe", "a,b", "50%"]) == "ack,x-größe,a%2Cb,50%25"


# every character, by code point: the rule of the standard library depends on its version of Unicode
REFUSED = {
    *range(0x20),
    *range(0x7F, 0xA0),
    0x2028,
    0x2029,
    *range(0xD800, 0xE000),
    *range(0xFDD0, 0xFDF0),
    *(plane << 16 | last for plane in range(17) for last in (0xFFFE, 0xFFFF)),
}


def test_names_have_every_character_but_these():
    assert {code for code in range(sys.maxunicode + 1) if not is_clean(chr(code))} == REFUSED


@pytest.mark.parametrize(
    "name",
    [
        "\u0645\u06cc\u200c\u062e\u0648",
        "\u0915\u094d\u200d\u0937",
        "\u6771\u3000\u4eac",
        "a\u00a0b",
        "\U0001fae8",
        " a ",
    ],
)
def test_a_name_in_any_language_is_one(name):
    assert checked(name, "id") == name


def test_what_is_wrong_with_a_text_is_told_in_facts_also_in_another_process():
    with pytest.raises(BadCharacterError) as caught:
        checked("order-17\r", "id 'x'")
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.what, error.character, error.position) == ("id 'x'", "\r", 8)
        assert str(error) == "id 'x' has the character U+000D at position 8, which no name has"
