"""Several subscriptions of one JID to one node: their combination, and how each is found (XEP-0060 6.1.6)."""

import pytest
from harness.batches.facts import ANN, BOB, JOBS, after, window
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model import changes as s
from pubqueue.model.after import subscription_after
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import SubscriptionState, Terms
from pubqueue.model.several_subscriptions import (
    apart,
    counted,
    find,
    listed,
    name_of,
    named,
    read_name,
    subids_of,
    terms_of,
    together,
)

ONE = window(ANN)
FIRST = terms_of(ONE)[0]
DEAF = Terms("deaf", deliver=False)
SHORT = Terms("short", expire=after(9), remind=after(8))
LONG = Terms("long", expire=after(20), temporary=True)
MOMENTS = st.none() | st.integers(1, 99).map(after)
SOME = st.builds(Terms, st.just(""), st.booleans(), MOMENTS, st.none(), st.booleans())


def several(*terms, **known):
    return replace(together(ONE, terms), **known)


def test_together_they_are_what_holds_of_all():
    row = several(DEAF, SHORT, LONG)
    assert (row.subid, row.several) == ("deaf", (DEAF, SHORT, LONG))
    assert row.deliver
    assert row.available
    assert row.ends_next == after(8)
    assert row.temporary
    assert (row.node, row.jid, row.queue_requests) == (JOBS, ANN, ONE.queue_requests)


def test_a_subscriber_with_notifications_makes_no_row_without():
    deaf = several(DEAF, replace(DEAF, subid="other"))
    assert not deaf.listens
    assert not deaf.available
    assert together(deaf, (*deaf.several, SHORT)).available


def test_one_is_a_row_like_any_other():
    assert together(several(FIRST, DEAF), (FIRST,)) == ONE
    assert apart(ONE) == (ONE,)
    assert named(ONE) is None
    assert find(ONE, None) == find(ONE, ONE.subid) == ONE
    assert find(ONE, "no such") is Refusal.INVALID_SUBID
    assert name_of(ONE, "here") == "here"


def test_each_by_itself_has_its_own_options_and_knows_that_there_are_others():
    row = several(FIRST, DEAF, SHORT)
    _, deaf, short = apart(row)
    assert (deaf.subid, deaf.deliver, deaf.ends_next) == ("deaf", False, None)
    assert (short.expire, short.remind, named(short)) == (after(9), after(8), "short")
    assert find(row, "short") == short
    assert find(row, None) is Refusal.SUBID_REQUIRED
    assert find(row, "no such") is Refusal.INVALID_SUBID


@given(st.lists(SOME, min_size=1, max_size=5))
def test_combined_subscriptions_can_be_separated(some):
    each = tuple(replace(terms, subid=str(number)) for number, terms in enumerate(some))
    row = together(ONE, each)
    assert terms_of(row) == each
    assert counted([row]) == len(each)
    assert row.listens == any(terms.deliver for terms in each)
    moments = [terms.ends_next for terms in each if terms.ends_next is not None]
    assert row.ends_next == min(moments, default=None)


def test_only_subscriptions_with_deliver_are_named():
    row, other = several(FIRST, DEAF, SHORT), window(BOB)
    assert subids_of([row, other]) == {ANN: (FIRST.subid, "short")}
    assert subids_of([several(DEAF, replace(DEAF, subid="other"))]) == {}
    assert subids_of([replace(row, state=SubscriptionState.PENDING)]) == {}
    assert subids_of([other]) == {}


def test_the_name_of_an_entry_has_its_place_in_a_list():
    entries = listed(several(SHORT, DEAF, LONG))
    assert [one.subid for one in entries] == ["deaf", "long", "short"]
    assert [one.subid for one in listed(several(SHORT, DEAF), backward=True)] == ["short", "deaf"]
    assert read_name(name_of(entries[0], "ann@x/a b")) == ("deaf", "ann@x/a b")
    assert read_name("ann@x/a b") == (None, "ann@x/a b")
    assert read_name(None) == (None, None)


class TestChanges:
    def test_one_more_is_added_behind(self):
        row = subscription_after(s.AddAnother(JOBS, ANN, SHORT), ONE)
        assert row == several(FIRST, SHORT)
        assert subscription_after(s.AddAnother(JOBS, ANN, SHORT), None) is None

    def test_options_are_of_the_one_that_is_named(self):
        terms = False, after(30), None, True
        row = subscription_after(s.SetTerms(JOBS, ANN, *terms, "short"), several(FIRST, SHORT))
        assert terms_of(row) == (FIRST, Terms("short", *terms))

    @pytest.mark.parametrize(
        ("subid", "left"),
        [("short", (FIRST, DEAF)), (FIRST.subid, (DEAF, SHORT)), ("no such", (FIRST, DEAF, SHORT))],
    )
    def test_the_one_that_is_named_ends(self, subid, left):
        row = several(FIRST, DEAF, SHORT)
        assert subscription_after(s.EndSubscription(JOBS, ANN, subid), row) == several(*left)

    def test_the_last_leaves_nothing_and_all_end_where_none_is_named(self):
        assert subscription_after(s.EndSubscription(JOBS, ANN, FIRST.subid), ONE) is None
        assert subscription_after(s.EndSubscription(JOBS, ANN), several(FIRST, DEAF)) is None

    def test_an_unchanged_subscription_is_the_same_row(self):
        row = subscription_after(s.EndSubscription(JOBS, ANN, FIRST.subid), several(FIRST, SHORT))
        assert (row.subid, row.several, row.expire, row.remind) == ("short", (), after(9), after(8))
