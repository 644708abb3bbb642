"""Random streams, as `make fuzz` reads many more of them; and a fault of the reader is noticed."""

from collections import Counter, deque
from random import Random

import pytest
from proof.fuzz import frames

from pubqueue.faces.stomp.codec import COMMANDS, Cause, Frame, FrameReader

STREAMS = 5000
consume = deque(maxlen=0).extend


def test_random_streams_are_read_in_one_way_and_meet_every_cause():  # N24
    random = Random(7)
    events = Counter()
    for _, (stream, version) in zip(range(STREAMS), frames.streams(random), strict=False):
        found = frames.check(stream, version, random)
        events.update(one.command if isinstance(one, Frame) else one.cause for one in found)
    assert set(Cause) <= set(events)
    assert {"SEND", "SUBSCRIBE", "ACK", "TOUCH", "DISCONNECT"} <= set(events) <= {*Cause, *COMMANDS}


def test_a_reader_that_depends_on_the_pieces_is_noticed(monkeypatch):
    receive = FrameReader.receive

    def drops_beats(self, data):
        receive(self, data if data != b"\n" else b"")

    monkeypatch.setattr(FrameReader, "receive", drops_beats)
    random = Random(7)
    with pytest.raises(frames.StreamError):
        consume(frames.check(*one, random) for one in frames.streams(random))
