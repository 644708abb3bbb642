"""Lines of the journal: plain text as it is, and any body comes out as it went in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.curb.journal import Written, body_of, escaped, highest, is_torn, read, written


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"third", b"003 rdy third\n"),
        (b"", b"003 rdy \n"),
        (b" two  words ", b"003 rdy  two  words \n"),
        ("ä🐝 \u2028".encode(), "003 rdy ä🐝 \u2028\n".encode()),
        (b"a\nb\r\0\\", b"003 rdy a\\nb\\r\\0\\\\\n"),
        (b"\t\x1b\x7f", b"003 rdy \\x09\\x1b\\x7f\n"),
        ("\x85".encode(), b"003 rdy \\xc2\\x85\n"),
        (b"\xff\xc3", b"003 rdy \\xff\\xc3\n"),
        (b"\xed\xa0\x80", b"003 rdy \\xed\\xa0\\x80\n"),
        (b"\\n", b"003 rdy \\\\n\n"),
    ],
)
def test_a_body_is_readable_in_its_line(body, line):
    assert written(3, body) == line
    assert body_of(line) == body


@given(st.binary() | st.text().map(str.encode))
def test_any_body_comes_out_as_it_went_in(body):  # C04
    line = written(7, body)
    assert (line.count(b"\n"), b"\0" in line) == (1, False)
    assert not set(line[:-1]) & {*range(0x20), 0x7F}
    line.decode()
    assert body_of(line) == body
    assert len(escaped(body)) <= 4 * len(body)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"002 ack second\n", Written(2, is_done=True, is_ready=False)),
        (b"003 rdy third\n", Written(3, is_done=False, is_ready=True)),
        (b"004 wip forth\n", Written(4, is_done=False, is_ready=False)),
        (b"1234567 rdy \n", Written(1234567, is_done=False, is_ready=True)),
        (b"005 ack\n", Written(5, is_done=True, is_ready=False)),
        *[
            (b"006 %b six\n" % state, Written(6, is_done=False, is_ready=False))
            for state in (b"ady", b"acy", b"aip", b"acp", b"wdy", b"wiy", b"rip", b"rdp")
        ],
        *[
            (line, None)
            for line in (
                *(
                    b"",
                    b"\n",
                    b"01 rdy x\n",
                    b"001 rdy x",
                    b"001 rdy\n",
                    b"001 wip\n",
                    b"001 new x\n",
                    b"001 rdy a\0b\n",
                    b"001 ack \0\n",
                ),
                *(b"001  rdy x\n", b"001 rdyx\n", b" 001 rdy x\n", b"abc rdy x\n", b"-01 rdy x\n"),
            )
        ],
    ],
)
def test_a_line_is_a_number_a_state_and_a_body(line, found):
    assert read(line) == found


def test_the_highest_number_is_kept_in_a_line_that_is_done():
    assert highest(7) == b"007 ack\n"
    assert read(highest(12_345)) == Written(12_345, is_done=True, is_ready=False)


@pytest.mark.parametrize(
    ("rest", "number", "torn"),
    [
        *[(written(12, b"abc")[:at], 12, True) for at in range(12)],
        (b"012 wip abc", 12, True),
        (b"012 new abc", 12, False),
        (b"012 rd\0\0\0\0\0", 12, True),
        (b"\0\0\0\n013 rdy later\n", 12, True),
        (b"\0\0\0", 1, True),
        (b"\0\0\0\n", 1, False),
        (b"0", 1, True),
        (b"001 \0\0abc\n", 1, True),
        (b"0\x000\x001\0", 1, False),
        (b"013 rdy a", 12, False),
        (b"\x89PNG\r\n", 1, False),
        (b"GIF89a\0\0", 1, False),
        (b"\0GIF", 1, False),
        (b"text\n", 2, False),
    ],
)
def test_the_rest_of_a_line_after_a_crash_is_distinguished_from_another_file(rest, number, torn):
    assert is_torn(rest, number) is torn
