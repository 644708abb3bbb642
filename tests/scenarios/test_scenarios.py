"""Plays every scenario of this folder against the real program, each on a fresh store of every kind that lasts."""

import asyncio
from pathlib import Path

import pytest
from harness.processes.program import write_config
from harness.processes.warm import WarmProgram
from harness.scenarios.network import Stub
from harness.scenarios.scenario import read
from harness.scenarios.scenario_player import ScenarioPlayer
from harness.servers.stub_server import StubServer
from harness.stanzas.schema import validate

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.fixture
def stores(request):
    """The stores on which a scenario is played: None is SQLite's own place, a file beside the configuration."""
    found = {"sqlite": None}
    if not request.config.getoption("--sqlite"):
        found["postgresql"] = request.getfixturevalue("postgres").address
    return found


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
async def test_scenario(path, tmp_path, stores):
    scenario = read(path.read_text())
    async with asyncio.TaskGroup() as together:  # most of the time is waiting
        for name, store in stores.items():
            together.create_task(play(scenario, tmp_path / name, store))


async def play(scenario, folder, store):
    folder.mkdir()
    async with StubServer(scenario.service, "a secret") as server:
        config = write_config(folder, server, scenario.config, store=store)
        async with WarmProgram(config) as program:
            try:
                await ScenarioPlayer(scenario, Stub(scenario, server), program, validate).play()
            except AssertionError as failure:
                failure.add_note(f"on {folder.name}")
                raise
        assert "level=error" not in program.log, program.log
