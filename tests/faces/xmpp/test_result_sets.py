"""Lists are cut where an answer would grow too large, at the end that is not wanted."""

from pubqueue.faces.xmpp.xml.forms import cut
from pubqueue.faces.xmpp.xml.stanza import ROOM
from pubqueue.model.replies import Part

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
