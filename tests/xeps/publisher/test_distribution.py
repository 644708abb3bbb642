"""One call for several services: a lane for each, and one that is away fills its own and no other."""

import asyncio

import pytest
from harness.patience import until

from pubqueue_xeps.errors import ServiceUnavailable
from pubqueue_xeps.publisher.distribution import WAITING, Lanes
from pubqueue_xeps.wire.publication import NewItem, Published

AT_ONCE = 3


class Place:
    """Services that answer when they are there; an item is of the service that its id begins with."""

    def __init__(self, *, seconds=60.0):
        self.there = {"a": asyncio.Event(), "b": asyncio.Event()}
        self.read = []
        self.begun, self.most = dict.fromkeys("ab", 0), dict.fromkeys("ab", 0)
        self.left = []
        self.lanes = Lanes("ab", self.place, self.publish, seconds, AT_ONCE)

    def place(self, payload):
        if payload == "bad":
            raise TypeError("it cannot be sent")
        return payload[0], NewItem(payload=payload, id=payload)

    async def publish(self, service, new, left):
        self.left.append(left)
        self.begun[service] += 1
        self.most[service] = max(self.most[service], self.begun[service])
        try:
            async with asyncio.timeout(left):
                await self.there[service].wait()
        except TimeoutError:
            raise ServiceUnavailable(service) from None
        finally:
            self.begun[service] -= 1
        return Published("jobs", new.id, service=service)

    def items(self, *names):
        for name in names:
            self.read.append(name)
            yield name


async def test_results_are_in_the_order_of_the_items_and_an_error_is_that_of_its_item():
    place = Place()
    for one in place.there.values():
        one.set()
    results = await place.lanes.run(place.items("b1", "a1", "bad", "b2"))
    assert [getattr(one, "id", type(one)) for one in results] == ["b1", "a1", TypeError, "b2"]


async def test_a_service_that_is_away_holds_up_no_other_and_its_lane_is_bounded():
    place = Place()
    place.there["a"].set()
    of_b = [f"b{number}" for number in range(WAITING + 50)]
    running = asyncio.create_task(place.lanes.run(place.items("a1", *of_b, "a2")))
    # it is read no further than to the first that has no room, which is in the reader's hand
    await until(lambda: len(place.read) == 1 + WAITING + AT_ONCE + 1)
    await until(lambda: place.begun["b"] == AT_ONCE)
    place.there["b"].set()
    results = await running
    assert [one.id for one in results] == ["a1", *of_b, "a2"]
    assert place.most == {"a": 1, "b": AT_ONCE}


async def test_what_waits_in_a_lane_ends_with_its_service():
    place = Place(seconds=0.01)
    results = await place.lanes.run(place.items(*(f"b{number}" for number in range(50))))
    assert [type(one) for one in results] == [ServiceUnavailable] * 50
    assert max(place.left[AT_ONCE:]) < 0.01, "the time of each began when it was read"


async def test_an_exception_of_the_iterable_is_raised():
    place = Place()
    place.there["a"].set()

    def broken():
        yield "a1"
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        await place.lanes.run(broken())
