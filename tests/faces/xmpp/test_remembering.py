"""What is remembered of words is bounded in bytes, whoever chooses them."""

from pubqueue.faces.xmpp.stream import single
from pubqueue.faces.xmpp.stream.single import COPIES, ENTRY, Remembered, remembered


def test_what_was_read_is_not_read_again():
    read = []

    @remembered(10_000)
    def length(words):
        read.append(words)
        return len(words)

    assert [length(b"ab"), length(b"ab"), length(b"c")] == [2, 2, 1]
    assert read == [b"ab", b"c"]


def test_the_oldest_go_when_it_is_too_many_bytes_and_are_read_again():
    read = []
    known = Remembered(read.append, 3 * (ENTRY + COPIES * 100))
    for number in range(5):
        known(bytes([number]) * 100)
    assert known.byte_count <= 3 * (ENTRY + COPIES * 100)
    known(bytes([4]) * 100)
    known(bytes([0]) * 100)
    assert [words[0] for words in read] == [0, 1, 2, 3, 4, 0]


def test_words_that_are_too_long_are_read_and_not_kept():
    known = Remembered(len, 1_000)
    assert [known(b"x" * 2_000), known(b"x" * 2_000), known.byte_count] == [2_000, 2_000, 0]


def test_senders_of_the_longest_words_stay_within_their_bytes():
    sender = single.sender_of
    sender.forget()
    for number in range(8_000):
        jid = b"%08d" % number + b"a" * 400 + b"@x/1"
        assert sender(b" type='set' from='%b'" % jid, b"") is not None
    assert 0 < sender.byte_count <= single.SENDERS
    sender.forget()
