"""Free windows: reachable subscribers, least loaded first; the room of an address is counted once."""

import pytest
from harness.batches.facts import ANN, BOB, window
from msgspec.structs import replace

from pubqueue.engine import windows as windows_of
from pubqueue.engine.windows import CrowdWindows, FreeWindows
from pubqueue.model.entities import Jid
from pubqueue.rules.dispatch import place


class Here(set):
    """The addresses that can be reached."""

    def reaches(self, jid):
        return jid in self


@pytest.fixture
def here():
    return Here({ANN, BOB})


@pytest.fixture(params=["all", "crowd"])
def windows(request, here):
    """ANN with three places, BOB with two."""
    rows = {ANN: window(ANN, 3), BOB: window(BOB, 2)}
    if request.param == "all":
        return FreeWindows(rows, here.reaches), rows
    pages = [list(rows.values()), []]
    return CrowdWindows(lambda _after, _count: pages.pop(0), here.reaches), rows


def end(windows, rows, jid):
    before = rows.pop(jid)
    windows.move(before, None)


def take(windows, rows, jid):
    before = rows[jid]
    rows[jid] = replace(before, in_flight=before.in_flight + 1)
    windows.move(before, rows[jid])


def first(windows):
    return {one.jid for one in windows.first(9)}


def test_an_unreachable_subscriber_has_no_room(windows, here):
    counted, _ = windows
    assert counted.room == 5
    here.discard(ANN)
    counted.recount(ANN)
    assert (counted.room, first(counted)) == (2, {BOB})
    here.add(ANN)
    counted.recount(ANN)
    assert (counted.room, first(counted)) == (5, {ANN, BOB})


def test_an_unreachable_client_leaves_no_room_taken(windows, here):
    counted, rows = windows
    assert counted.room == 5
    here.discard(ANN)
    end(counted, rows, ANN)
    assert counted.room == 2


def test_room_is_that_of_now_after_a_delivery(windows, here):
    counted, rows = windows
    assert counted.room == 5
    take(counted, rows, ANN)
    assert counted.room == 4
    here.discard(BOB)
    take(counted, rows, BOB)
    assert counted.room == 2
    here.add(BOB)
    counted.recount(BOB)
    assert counted.room == 3


def test_an_address_without_subscription_is_not_counted(windows):
    counted, _ = windows
    counted.recount("eve@x/1")
    assert counted.room == 5


def test_the_store_looks_at_a_crowd_few_times_until_all_of_it_had_its_turn(monkeypatch):
    monkeypatch.setattr(windows_of, "PAGE", 10)
    crowd = {jid: window(jid, 1) for jid in (Jid(f"bot{number:03}@x/1") for number in range(100))}
    line, pages = sorted(crowd.values(), key=place), []

    def page(after, count):
        rows = [one for one in line if after is None or place(one) > after][:count]
        pages.append(len(rows))
        return rows

    counted, served = CrowdWindows(page, lambda _jid: True), []
    while found := counted.first(10):
        for one in found:
            take(counted, crowd, one.jid)
        served += [one.jid for one in found]
        if len(served) == 10:
            assert sum(pages) <= 30, "nobody is loaded long before a turn may come"
    assert served == list(crowd)
    assert pages == [10, 20, 40, 30]
