"""Names that are made of several names."""

from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.wire.names import joined

NAMES = st.text(st.sampled_from("a/%25F."), max_size=6)
SEVERAL = st.lists(NAMES, min_size=2, max_size=3).map(tuple)


@given(SEVERAL, SEVERAL)
def test_no_two_lists_of_names_have_one_name(one, other):
    if len(one) == len(other):
        assert (joined(*one) == joined(*other)) is (one == other)


@given(NAMES, NAMES)
def test_the_names_can_be_told_from_the_whole(node, item):
    before, _, last = joined(node, item).partition("/")
    assert before.replace("%2F", "/").replace("%25", "%") == node
    assert last == item


def test_names_without_a_slash_stay_as_they_are():
    assert joined("jobs", "a/b%") == "jobs/a/b%"
    assert joined("jobs/eu", "1") == "jobs%2Feu/1"
