"""Random streams, as `make fuzz` reads many more of them."""

from collections import Counter
from random import Random

from proof.fuzz import frames

from pubqueue.faces.stomp.codec import COMMANDS, Cause, Frame

STREAMS = 5000


def test_random_streams_are_read_in_one_way_and_meet_every_cause():  # N24
    random = Random(7)
    events = Counter()
    for _, (stream, version) in zip(range(STREAMS), frames.streams(random), strict=False):
        found = frames.check(stream, version, random)
        events.update(one.command if isinstance(one, Frame) else one.cause for one in found)
    assert set(Cause) <= set(events)
    assert {"SEND", "SUBSCRIBE", "ACK", "TOUCH", "DISCONNECT"} <= set(events) <= {*Cause, *COMMANDS}
