"""Hours of virtual time pass in no time."""

import asyncio

import pytest
from harness.virtual_time import StandstillError, run


def test_time_leaps_to_the_next_timer_and_stands_still_for_good_without_one():
    async def hours():
        await asyncio.gather(asyncio.sleep(7200), asyncio.sleep(3600))
        return asyncio.get_running_loop().time()

    assert run(hours()) == 7200
    with pytest.raises(StandstillError):
        run(forever())


async def forever():
    await asyncio.Event().wait()
