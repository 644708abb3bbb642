"""Plays every scenario of this folder against the real program, each on a fresh store."""

from pathlib import Path

import pytest
from harness.network import Stub
from harness.program import write_config
from harness.scenario import read
from harness.scenario_player import ScenarioPlayer
from harness.schema import validate
from harness.server import StubServer
from harness.warm import WarmProgram

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
async def test_scenario(path, tmp_path):
    scenario = read(path.read_text())
    async with StubServer(scenario.service, "a secret") as server:
        config = write_config(tmp_path, server, scenario.config)
        async with WarmProgram(config) as program:
            await ScenarioPlayer(scenario, Stub(scenario, server), program, validate).play()
        assert "level=error" not in program.log, program.log
