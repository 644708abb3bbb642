"""A fault of the reader of STOMP is noticed."""

from collections import deque
from random import Random

import pytest

from proof.fuzz import frames
from pubqueue.faces.stomp.codec import FrameReader

consume = deque(maxlen=0).extend


def test_a_reader_that_depends_on_the_pieces_is_noticed(monkeypatch):
    receive = FrameReader.receive

    def drops_beats(self, data):
        receive(self, data if data != b"\n" else b"")

    monkeypatch.setattr(FrameReader, "receive", drops_beats)
    random = Random(7)
    with pytest.raises(frames.StreamError):
        consume(frames.check(*one, random) for one in frames.streams(random))
