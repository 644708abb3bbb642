"""What comes in is read in slices, between which everybody else has a turn of the loop."""

import asyncio

import pytest
from harness.patience import TIMEOUT

from pubqueue.faces.xmpp.stream import component
from pubqueue.faces.xmpp.stream.component import SLICE, Slices


class Loop:
    """A loop whose clock goes on by what is read, and which remembers what shall come later."""

    def __init__(self):
        self.now, self.planned = 0.0, []

    def time(self):
        return self.now

    def call_later(self, rest, call):
        self.planned.append((rest, call))
        return Timer()


class Timer:
    def cancel(self):
        """Do nothing: the loop calls nobody by itself."""


class Reader:
    """Notes what it is given to read, each of which takes so long; it goes on unless it is held."""

    def __init__(self, takes):
        self.loop, self.pieces, self.held = Loop(), [], False
        self._takes = takes
        self.slices = Slices(self.loop, self._read)

    def _read(self, data):
        self.pieces.append(data)
        self.loop.now += self._takes
        return not self.held


@pytest.fixture
def slow():
    return Reader(component.TURN * 2)


def test_a_slice_that_took_long_is_followed_by_as_long_a_rest(slow):
    slow.slices.take(b"x" * SLICE * 3)
    assert slow.pieces == [b"x" * SLICE]
    ((rest, read_on),) = slow.loop.planned
    assert rest == pytest.approx(component.TURN * 2)
    read_on()
    assert slow.pieces == [b"x" * SLICE] * 2
    assert len(slow.loop.planned) == 2
    slow.loop.planned[-1][1]()
    assert len(slow.pieces) == 3
    assert not slow.slices
    assert len(slow.loop.planned) == 2


def test_what_is_read_fast_is_read_at_once():
    fast = Reader(component.TURN / 1000)
    fast.slices.take(b"x" * SLICE * 9)
    assert len(fast.pieces) == 9
    assert not fast.loop.planned


def test_a_slice_ends_where_a_request_does(slow):
    one = b"<iq>" + b"x" * 1000 + b"</iq>"
    slow.slices.take(one * 30)
    (piece,) = slow.pieces
    assert piece == one * (SLICE // len(one))


def test_a_long_request_about_one_item_is_one_slice_if_all_of_it_is_there(slow):
    one = b"<iq><item>" + b"x" * SLICE + b"</item></iq>"
    slow.slices.take(one + one[:-1])
    slow.loop.planned[-1][1]()
    assert slow.pieces == [one, one[:SLICE]]


def test_a_long_request_about_many_items_is_several_slices(slow):
    many = b"<iq>" + b"<item/>" * SLICE + b"</iq>"
    slow.slices.take(many)
    while slow.slices:
        slow.loop.planned[-1][1]()
    assert b"".join(slow.pieces) == many
    assert {len(piece) for piece in slow.pieces[:-1]} == {SLICE}


def test_what_comes_meanwhile_is_read_behind_it(slow):
    slow.slices.take(b"x" * (SLICE + 1))
    slow.slices.take(b"y")
    assert slow.pieces == [b"x" * SLICE]
    slow.loop.planned[-1][1]()
    assert slow.pieces[1:] == [b"xy"]


def test_nothing_is_read_while_it_is_held_and_then_once(slow):
    slow.held = True
    slow.slices.take(b"x" * SLICE * 2)
    assert not slow.loop.planned
    slow.held = False
    slow.slices.go_on()
    slow.slices.go_on()
    ((rest, read_on),) = slow.loop.planned
    assert rest == 0
    read_on()
    assert slow.pieces == [b"x" * SLICE] * 2


def test_what_is_not_read_at_the_end_of_a_stream_is_taken_out_and_not_read_later(slow):
    slow.slices.take(b"x" * SLICE + b"y")
    assert slow.slices.take_out() == b"y"
    assert not slow.slices
    assert slow.slices._turn is None


async def test_others_have_turns_meanwhile(monkeypatch):
    monkeypatch.setattr(component, "TURN", 0)
    order, done = [], asyncio.Event()

    def read(data):
        order.append(data[:1])
        asyncio.get_running_loop().call_soon(order.append, "another")
        if len(order) > 4:
            done.set()
        return True

    Slices(asyncio.get_running_loop(), read).take(b"x" * SLICE * 3)
    async with asyncio.timeout(TIMEOUT):
        await done.wait()
    assert order[:5] == [b"x", "another", b"x", "another", b"x"]
