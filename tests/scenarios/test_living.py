"""Plays scenarios in a drawn order against one service that lives on: one store, and accounts that come and go.

What a story leaves behind is what the next one meets: sessions that ended without a word, numbers, marks, and what was noted of
the accounts. Only its nodes are deleted, because the next story makes nodes of the same names.
"""

import random
from pathlib import Path

import pytest
from harness.processes.program import write_config
from harness.processes.warm import WarmProgram
from harness.scenarios.lasting import OWN_STORE, Lasting
from harness.scenarios.scenario import read
from harness.scenarios.scenario_player import ScenarioPlayer
from harness.servers.stub_server import StubServer
from harness.stanzas.schema import validate

SCENARIOS = {path.stem: read(path.read_text()) for path in Path(__file__).parent.glob("*.txt")}
OF_XEP_0254 = [name for name in SCENARIOS if name.startswith("xep0254")]
AT_HOME = [
    name
    for name, one in SCENARIOS.items()
    if one.service == "queue.localhost" and not one.config and name not in OWN_STORE
]


async def live(names, tmp_path):
    """Play these, one after the other, on one service."""
    service = SCENARIOS[names[0]].service
    async with StubServer(service, "a secret") as server:
        config = write_config(tmp_path, server, Lasting.CONFIG)
        async with WarmProgram(config) as program:
            for at, name in enumerate(names):
                network = Lasting(SCENARIOS[name], server)
                try:
                    await ScenarioPlayer(SCENARIOS[name], network, program, validate).play()
                    await network.end()
                except AssertionError as failure:
                    failure.add_note(f"in {name}, after {names[:at]}\n{program.log[-4_000:]}")
                    raise
        assert "level=error" not in program.log, program.log


async def test_the_examples_of_xep_0254_pass_in_any_order_twice(tmp_path):
    names = OF_XEP_0254 * 2
    random.shuffle(names)
    await live(names, tmp_path)


@pytest.mark.parametrize("part", range(4))
async def test_scenarios_pass_in_any_order(tmp_path, part):
    names = sorted(AT_HOME)
    random.Random(random.random()).shuffle(names)
    await live(names[part::4], tmp_path)
