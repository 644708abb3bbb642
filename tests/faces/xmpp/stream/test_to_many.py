"""What is told to many is told in slices, between which others have their turn; and how far the server is."""

from types import SimpleNamespace

from pubqueue.faces.xmpp.stream.to_many import AHEAD, EACH, EVERY, SLICE, FlowProbe, ToMany
from pubqueue.model.entities import Jid, NodeName
from pubqueue.model.notices import NOBODY, Purged, ToEach


def test_a_server_that_sends_nothing_back_is_not_waited_for():
    echo = FlowProbe()
    for _ in range(100):
        echo.wrote(AHEAD)
    assert not echo.is_awaited


def test_an_echo_is_sent_now_and_then_and_shows_how_far_it_is():
    echo = FlowProbe()
    assert echo.wrote(EVERY - 1) is None
    assert echo.wrote(1) == f"told-{EVERY}"
    assert echo.wrote(EVERY - 1) is None
    assert echo.wrote(2) == f"told-{2 * EVERY + 1}"


def test_after_one_echo_the_next_is_awaited_before_much_is_sent():
    echo = FlowProbe()
    echo.came_back(echo.wrote(EVERY))
    assert not echo.is_awaited
    later = echo.wrote(AHEAD + 1)
    assert echo.is_awaited
    echo.came_back("told-0")
    echo.came_back("told-999999999999")
    echo.came_back("something else")
    assert echo.is_awaited
    echo.came_back(later)
    assert not echo.is_awaited


def test_an_echo_that_does_not_come_is_given_up():
    echo = FlowProbe()
    echo.came_back(echo.wrote(EVERY))
    echo.wrote(2 * AHEAD)
    echo.give_up()
    assert not echo.is_awaited


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
