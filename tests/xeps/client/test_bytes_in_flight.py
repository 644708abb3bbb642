"""A publisher has so many bytes under way, whatever its tasks do."""

import asyncio

import pytest
from harness.patience import turns

from pubqueue_xeps.client.pace import BytesInFlight


class Crowd:
    """Tasks that keep their room until they are let go; `inside` are those that have it, in their order."""

    def __init__(self, most):
        self.room, self.inside, self.ends = BytesInFlight(most), [], {}

    def enter(self, name, byte_count):
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._stay(name, byte_count))

    async def _stay(self, name, byte_count):
        async with self.room.of(byte_count, None):
            self.inside.append(name)
            await self.ends[name].wait()
            self.inside.remove(name)


async def test_room_is_given_in_order_up_to_its_bytes():
    crowd = Crowd(100)
    tasks = [
        crowd.enter(name, byte_count) for name, byte_count in (("a", 60), ("b", 60), ("c", 40))
    ]
    await turns(5)
    assert crowd.inside == ["a"], "nobody goes past who came before"
    crowd.ends["a"].set()
    await turns(5)
    assert crowd.inside == ["b", "c"]
    for end in crowd.ends.values():
        end.set()
    await asyncio.gather(*tasks)


async def test_what_is_larger_than_all_of_it_goes_alone():
    crowd = Crowd(100)
    tasks = [
        crowd.enter(name, byte_count) for name, byte_count in (("a", 10), ("b", 500), ("c", 10))
    ]
    await turns(5)
    assert crowd.inside == ["a"]
    crowd.ends["a"].set()
    await turns(5)
    assert crowd.inside == ["b"]
    crowd.ends["b"].set()
    crowd.ends["c"].set()
    await asyncio.gather(*tasks)


async def test_a_request_that_gives_up_frees_its_place():
    crowd = Crowd(100)
    first, second, third = (crowd.enter(name, 100) for name in "abc")
    await turns(5)
    second.cancel()
    await turns(5)
    crowd.ends["a"].set()
    await turns(5)
    assert crowd.inside == ["c"]
    crowd.ends["c"].set()
    await asyncio.gather(first, third)
    async with crowd.room.of(100, 1):
        with pytest.raises(TimeoutError):
            async with crowd.room.of(1, 0):
                raise AssertionError("there was no room")
    async with crowd.room.of(100, 0):
        pass


async def test_room_that_comes_with_the_cancellation_is_given_back():
    crowd = Crowd(100)
    first, second = crowd.enter("a", 100), crowd.enter("b", 100)
    await turns(5)
    crowd.ends["a"].set()
    await first
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    async with crowd.room.of(100, 0):
        pass
