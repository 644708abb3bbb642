"""Faces of one process: a face that waits for its place, or loses it, does not delay the others."""

import asyncio

import pytest
from harness.batches.toy_face import LineFace
from harness.patience import TIMEOUT, until
from structlog.testing import capture_logs

from pubqueue.config.settings import Settings
from pubqueue.engine import face as module
from pubqueue.engine.face import PlaceTakenError, RunningFaces, kept_secret
from pubqueue.faces.table import Row
from pubqueue.model.decision import Refusal, Refused, SecretKept
from pubqueue.wiring.serving import serve


class Place:
    """A face whose place the test controls; `done` records its actions."""

    def __init__(self):
        self.free, self.taken = asyncio.Event(), asyncio.Event()
        self.done = asyncio.Queue()

    async def enter(self, on_waiting):
        if not self.free.is_set():
            on_waiting()
        await self.free.wait()
        self.done.put_nowait("entered")

    async def run(self):
        self.done.put_nowait("serves")
        await self.taken.wait()
        self.taken.clear()
        raise PlaceTakenError

    async def stop(self):
        self.done.put_nowait("stopped")


class Waiting(list):
    def __call__(self):
        self.append("waits")


@pytest.fixture
def waiting():
    return Waiting()


async def test_one_that_waits_holds_up_no_other(waiting):
    ready, late = Place(), Place()
    running = RunningFaces([late, ready], waiting)
    ready.free.set()
    await running.entered()
    serving = [asyncio.create_task(running.serve(face)) for face in running.faces]
    assert [await ready.done.get() for _ in range(2)] == ["entered", "serves"]
    assert (late.done.empty(), waiting) == (True, []), "the process as a whole serves"
    late.free.set()
    assert [await late.done.get() for _ in range(2)] == ["entered", "serves"]
    await running.stop()
    assert (await late.done.get(), await ready.done.get()) == ("stopped", "stopped")
    for task in serving:
        task.cancel()


async def test_one_that_loses_its_place_waits_for_it_again_while_the_other_serves(waiting):
    steady, loses = Place(), Place()
    running = RunningFaces([steady, loses], waiting)
    for face in running.faces:
        face.free.set()
    await running.entered()
    serving = [asyncio.create_task(running.serve(face)) for face in running.faces]
    assert [await loses.done.get() for _ in range(2)] == ["entered", "serves"]
    with capture_logs() as said:
        loses.taken.set()
        assert [await loses.done.get() for _ in range(2)] == ["entered", "serves"]
    assert [one["event"] for one in said] == ["face.place_lost"]
    assert not serving[0].done()
    for task in serving:
        task.cancel()


async def test_the_only_instance_logs_that_it_waits_and_that_it_lost_its_place(waiting):
    face = Place()
    running = RunningFaces([face], waiting)
    entering = asyncio.create_task(running.entered())
    serving = asyncio.create_task(_serve(running, face, entering))
    await until(lambda: waiting)
    face.free.set()
    face.taken.set()
    with pytest.raises(PlaceTakenError):
        await serving


async def _serve(running, face, entering):
    await entering
    await running.serve(face)


async def test_an_end_while_it_waits_leaves_nothing_behind(waiting):
    face = Place()
    running = RunningFaces([face], waiting)
    entering = asyncio.create_task(running.entered())
    await until(lambda: waiting)
    entering.cancel()
    await running.stop()
    assert await face.done.get() == "stopped"
    assert [task for task in asyncio.all_tasks() if task.get_name() == "entering"] == []


async def test_errors_on_entering_are_raised(waiting):
    class Refused(Place):
        async def enter(self, _on_waiting):
            raise ValueError("not with this secret")

    with pytest.raises(ValueError, match="secret"):
        await RunningFaces([Refused(), Place()], waiting).entered()


async def test_a_secret_is_asked_for_until_the_store_keeps_one(monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0)
    replies, asked = [Refused(Refusal.STORE_FAILED), SecretKept(b"of the first instance")], []

    async def handle(request):
        asked.append(request.proposed)
        return replies.pop(0)

    secret = await kept_secret(handle, None, "links")
    assert (secret, replies) == (b"of the first instance", [])
    assert [(one.name, len(one.value)) for one in asked] == [("links", module.SECRET_BYTES)] * 2


async def test_a_service_is_ready_with_the_last_face_that_waits_for_no_server(monkeypatch):
    """One more that came later would answer those who connect at the line of the first with errors."""
    made, notified, stop = [], [], asyncio.Event()
    goes, is_ready = asyncio.Event(), asyncio.Event()

    class Slow(LineFace):
        async def run(self):
            await goes.wait()
            await super().run()

    def row(kind):
        def make(broker, _settings, _accounts, on_ready):
            def ready():
                notified.append(kind)
                on_ready()

            made.append(kind(broker, ready))
            return made[-1]

        return Row(make=make)

    faces = {"line": row(LineFace), "slow": row(Slow)}
    monkeypatch.setattr("pubqueue.wiring.faces.FACES", faces)
    settings = Settings(jid="queue.example.org", secret="s", store="memory:")
    async with asyncio.timeout(TIMEOUT):
        serving = asyncio.create_task(serve(settings, stop=stop, on_ready=is_ready.set))
        await until(lambda: notified)
        assert (notified, is_ready.is_set()) == ([LineFace], False)
        goes.set()
        await is_ready.wait()
        stop.set()
        await serving
    assert notified == [LineFace, Slow]
