"""Plays every scenario of this folder against the real program, each on a fresh store of every kind that lasts."""

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


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_scenario(request, path, tmp_path, kind):
    scenario = read(path.read_text())
    store = request.getfixturevalue("postgres").address if kind == "postgresql" else None
    async with StubServer(scenario.service, "a secret") as server:
        config = write_config(tmp_path, server, scenario.config, store=store)
        async with WarmProgram(config) as program:
            await ScenarioPlayer(scenario, Stub(scenario, server), program, validate).play()
        assert "level=error" not in program.log, program.log
