"""What is told to many is told in slices, between which others have their turn, the store's thread too."""

from types import SimpleNamespace

from pubqueue.faces.xmpp.stream.to_many import EACH, SLICE, ToMany
from pubqueue.model.entities import Jid, NodeName
from pubqueue.model.notices import NOBODY, Purged, ToEach

TOOK = 0.25
"""Seconds that each slice takes, by the clock of this loop."""


class Loop:
    """Keeps what is to be called later, and goes on by so much each time that it is asked for the time."""

    def __init__(self):
        self.now = 0.0
        self.later = []

    def time(self):
        self.now += TOOK
        return self.now

    def call_later(self, seconds, call):
        self.later.append((seconds, call))


def test_between_two_slices_it_rests_for_as_long_as_a_slice_takes():
    loop, written = Loop(), []
    component = SimpleNamespace(
        ready=True, loop=loop, write=lambda text, white: written.append((text, white))
    )
    pace = SimpleNamespace(has_room=True, wrote=lambda _byte_count: None)
    outbox = SimpleNamespace(set_behind=lambda *_facts: None)
    many = ToMany("queue.x", component, pace, outbox)
    crowd = tuple(Jid(f"bot{number}@x/1") for number in range(1000))
    many.notify(ToEach(crowd, Purged(NOBODY, NodeName("news"))))
    assert 0 < len(written) <= SLICE // EACH + 1
    rests = 0
    while loop.later:
        ((seconds, call),) = loop.later
        assert seconds == TOOK
        loop.later.clear()
        call()
        rests += 1
    assert rests > 2
    assert len(written) == len(crowd)
