"""Schedules fire once: whoever is killed at whichever step, and however many instances see their times come."""

from __future__ import annotations

import random

import pytest
from harness.processes.killed_lives import killed_lives
from harness.processes.program import Program, write_config
from harness.processes.ticking import NODE, ticks
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component
from harness.servers.stub_server import StubServer

MISSED = 12
POINTS = ("begun", "decided", "applied", "dispatched", "written", "committed", "answering")
ROUNDS = [f"s{number}" for number in range(6)]


@pytest.mark.parametrize("point", POINTS)
async def test_killed_there_each_time_is_published_once(point, tmp_path, kept):
    async with StubServer(secret="a secret") as server:
        service = Program(write_config(tmp_path, server, NODE, store=kept.address))
        async with service:
            await server.reconnected(0)
        async with ticks(kept.address) as seen:
            behind = await seen.miss("tick", MISSED)
            lives = [(f"{point}@FireSchedule", passage) for passage in (2, 3)]
            async for _ in killed_lives(service, lives, lambda: seen.release("tick")):
                await seen.hold(["tick"])
                assert await seen.published() == await seen.expected("tick", behind)
            async with service:
                await seen.release("tick")
                await seen.until_published("tick", MISSED)
            published = await seen.published()
            assert published == await seen.expected("tick", behind)
            assert set(published.values()) == {1}


@pytest.mark.e2e
async def test_of_two_instances_one_fires_whichever_is_killed(tmp_path, kept):
    """Behind ejabberd, which admits both; while one is killed, or comes back, the other goes on."""
    draw = random.Random(7)
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    async with (
        Ejabberd() as server,
        component(server, folders[0], NODE, store=kept.address) as one,
        component(server, folders[1], NODE, store=kept.address) as other,
        ticks(kept.address) as seen,
    ):
        behind = {name: await seen.miss(name, 2 * MISSED) for name in ROUNDS}
        for number, name in enumerate(ROUNDS):
            victim = (one, other)[number % 2]
            await seen.release(name)
            await seen.until_published(name, draw.randrange(2 * MISSED))
            await victim.kill()
            await seen.until_published(name, draw.randrange(MISSED, 2 * MISSED))
            await victim.start()
        for name in ROUNDS:
            await seen.until_published(name, 2 * MISSED)
        await one.stop()
        await other.stop()
        for name in ROUNDS:
            published = await seen.published(name)
            assert published == await seen.expected(name, behind[name])
            assert set(published.values()) == {1}
    assert "Traceback" not in one.log + other.log
