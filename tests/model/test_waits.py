"""What an item waits for, and what has come for it: one column, bounded, and damage in it is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.faces.xmpp.xml.stanza import escape, quoted
from pubqueue.model import waits
from pubqueue.model.waits import MAX_KEPT, MAX_SIGNALS, AtDeadline, Came, Wait, Woken
from pubqueue.stores.sql.columns import packed_wait, unpacked_wait

ONE = Came("s1", "approved", '{"by": "ann"}', "ann@x", 5)
OTHER = replace(ONE, id="s2", name="paid")
WAIT = Wait(("approved",), 3, AtDeadline.DEAD, '{"step": 2}', (ONE,), 1, ("00",), Woken.SIGNAL)


def test_a_column_returns_what_was_written():
    assert unpacked_wait(packed_wait(WAIT)) == WAIT
    assert packed_wait(None) is None
    assert unpacked_wait(None) is None


@given(place=st.integers(0, len(packed_wait(WAIT)) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_and_stays_found(place, bit):
    column = bytearray(packed_wait(WAIT))
    column[place] ^= 1 << bit
    found = unpacked_wait(bytes(column))
    assert found == waits.DAMAGED
    assert unpacked_wait(packed_wait(found)) == waits.DAMAGED


def test_what_woke_it_is_over_and_counts_once_all_the_same():
    before = Wait(("approved",), 3, carry="1", came=(ONE, OTHER), seen=1, woken=Woken.SIGNAL)
    after = before.over()
    assert after == Wait(carry="1", came=(OTHER,), known=(waits.mark_of("s1"),))
    assert after.has("s1")
    assert after.has("s2")
    assert not after.has("s3")
    assert before.shown().seen == 2


def test_only_the_newest_marks_are_kept():
    wait = Wait()
    for number in range(MAX_SIGNALS + 1):
        wait = wait.with_signal(replace(ONE, id=f"{number}")).shown()
        wait = replace(wait, signals=("approved",), woken=Woken.SIGNAL).over()
    assert len(wait.known) == MAX_SIGNALS
    assert not wait.has("0")
    assert wait.has("1")


@pytest.mark.parametrize(
    ("count", "size", "has_room"),
    [(63, 4, True), (64, 4, False), (3, 16_384, True), (4, 16_384, False)],
)
def test_signals_are_bounded_in_number_and_bytes(count, size, has_room):
    came = tuple(Came(f"{number:02}", "a", "x" * (size - 4), "b", 0) for number in range(count))
    wait = Wait(came=came)
    assert wait.has_room(Came("99", "a", "x" * (size - 4), "b", 0)) is has_room
    assert wait.size == count * size <= MAX_KEPT


@given(text=st.text('a&<>"\u00e4\U0001f600', max_size=50))
def test_bytes_are_those_of_a_delivery(text):
    assert waits.bytes_of(text) == len(escape(text).encode())
    one = replace(ONE, id=text, data="")
    rest = len("approved") + len("ann@x")
    assert one.size - rest == len(quoted(text).encode()) + 3 * text.count(">")
