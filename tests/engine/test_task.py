"""A background task: how it is started, stopped and restarted."""

import asyncio

import pytest
from harness.patience import turns
from structlog.testing import capture_logs

from pubqueue.engine.task import Again, Task, stop_all

SOON = 10


class Work:
    """Raises the given faults, one each time, and then works until it is stopped."""

    def __init__(self, *faults):
        self._faults = list(faults)
        self.times = 0
        self.at_work = asyncio.Event()
        self.ended = 0

    async def run(self):
        self.times += 1
        if self._faults:
            raise self._faults.pop(0)
        self.at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1

    async def begun(self):
        async with asyncio.timeout(SOON):
            await self.at_work.wait()
        self.at_work.clear()


async def test_a_task_runs_from_start_to_stop_and_both_may_be_repeated():
    work = Work()
    task = Task("work", work.run)
    await task.stop()
    assert not task.is_started
    task.start()
    running = task.running
    task.start()
    assert task.running is running
    assert running.get_name() == "work"
    await work.begun()
    await task.stop()
    assert (work.times, work.ended, running.cancelled(), task.is_started) == (1, 1, True, False)
    await task.stop()


async def test_a_stopped_task_can_be_started_again():
    work = Work()
    task = Task("work", work.run)
    for _ in range(2):
        task.start()
        await work.begun()
        await task.stop()
    assert (work.times, work.ended) == (2, 2)


async def test_a_task_that_was_not_started_is_named():
    with pytest.raises(AssertionError, match="work has not been started"):
        Task("work", Work().run).running  # noqa: B018  # it raises


async def test_a_fault_ends_the_work_and_stop_raises_it():
    task = Task("work", Work(OSError("full")).run)
    task.start()
    await asyncio.wait([task.running])
    with pytest.raises(OSError, match="full"):
        await task.stop()
    await task.stop()


async def test_where_it_is_wanted_the_work_begins_again_after_a_fault_which_is_logged():
    work, heard = Work(ValueError("a"), KeyError("b")), []
    again = Again("work.failed", pause=0, then=lambda: heard.append(work.times))
    task = Task("work", work.run, again)
    with capture_logs() as logs:
        task.start()
        await work.begun()
    await task.stop()
    assert (work.times, work.ended, heard) == (3, 1, [1, 2])
    assert [line["event"] for line in logs] == ["work.failed"] * 2


async def test_between_a_fault_and_the_next_attempt_there_is_a_pause():
    work, failed = Work(ValueError()), asyncio.Event()
    task = Task("work", work.run, Again("work.failed", pause=3600, then=failed.set))
    task.start()
    async with asyncio.timeout(SOON):
        await failed.wait()
    await turns()
    assert not task.running.done()
    await task.stop()
    assert work.times == 1


async def test_some_faults_end_it_all_the_same():
    work = Work(ValueError(), LookupError("gone"))
    task = Task("work", work.run, Again("work.failed", pause=0, but=(LookupError,)))
    task.start()
    await asyncio.wait([task.running])
    assert work.times == 2
    with pytest.raises(LookupError):
        await task.stop()


async def test_work_that_comes_to_its_end_does_not_begin_again():
    times = []

    async def once():
        times.append(1)

    task = Task("once", once, Again("once.failed", pause=0))
    task.start()
    await asyncio.wait([task.running])
    await task.stop()
    assert times == [1]


async def test_a_fault_of_one_keeps_none_of_the_others_from_stopping():
    work = Work()
    tasks = [Task("bad", Work(OSError("full")).run), Task("good", work.run)]
    for task in tasks:
        task.start()
    await work.begun()
    with pytest.raises(OSError, match="full"):
        await stop_all(tasks)
    assert (work.ended, [task.is_started for task in tasks]) == (1, [False, False])
