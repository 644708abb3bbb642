"""Plays every scenario of this folder on real servers: clients of theirs, and the real program attached."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from harness.processes.program import write_config
from harness.processes.warm import WarmProgram
from harness.scenarios.real_network import PASSWORD, Real
from harness.scenarios.scenario import Upset, read
from harness.scenarios.scenario_player import ScenarioPlayer
from harness.scenarios.stub_only import STUB_ONLY
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import Listener
from harness.servers.relay import Relay
from harness.stanzas.schema import validate

from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SCENARIOS = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.txt"))}
# Prosody's mod_offline keeps messages for who has left although they say no-store (XEP-0334), and hands
# them out at the next login: into another story.
KINDS = {"prosody": partial(Prosody, without=("offline",)), "ejabberd": Ejabberd}
HOSTS = {
    "component": "queue.localhost",
    "more_domains": ("shakespeare.lit", "elsewhere.example", "denmark.lit"),
    "more_components": ("workflows.shakespeare.lit", "pubsub.shakespeare.lit"),
}


class Servers:
    """One server of each kind for all scenarios, started when first asked for."""

    def __init__(self, stack):
        self._stack = stack
        self._running = {}
        self._accounts = set()

    async def of(self, kind, cast):
        """Return the server of that kind, with an account for everyone of the cast."""
        if kind not in self._running:
            self._running[kind] = await self._stack.enter_async_context(KINDS[kind](**HOSTS))
        for account in {jid.partition("/")[0] for jid in cast.values()}:
            if (kind, account) not in self._accounts:
                name, _, domain = account.partition("@")
                await self._running[kind].account(name, PASSWORD, domain)
                self._accounts.add((kind, account))
        return self._running[kind]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers():
    async with AsyncExitStack() as stack:
        yield Servers(stack)


@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - STUB_ONLY.keys()))
async def test_scenario(name, servers, tmp_path):
    async with asyncio.TaskGroup() as together:  # half of the time is waiting
        for kind in KINDS:
            together.create_task(play(name, kind, servers, tmp_path / kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STUB_ONLY)
async def test_what_is_left_to_the_stub_cannot_be_played(name, kind, servers, tmp_path):
    """So the list stays exact: no dead names, and none that would play."""
    with pytest.raises(AssertionError, match=STUB_ONLY[name].sign):
        await play(name, kind, servers, tmp_path / kind)


async def play(name, kind, servers, folder):
    folder.mkdir()
    scenario = read(SCENARIOS[name].read_text())
    server = await servers.of(kind, scenario.cast)
    async with AsyncExitStack() as stack:
        port, cut = server.component_port, None
        if any(isinstance(step, Upset) and step.what == "cut" for step in scenario.steps):
            relay = await stack.enter_async_context(Relay(server.host, port))
            port, cut = relay.port, relay.cut
        listener = Listener(scenario.service, server.secret, server.host, port)
        config = write_config(folder, listener, scenario.config)
        program = await stack.enter_async_context(WarmProgram(config))
        network = await stack.enter_async_context(Real(scenario, server, cut))
        try:
            await ScenarioPlayer(scenario, network, program, validate).play()
        except AssertionError as failure:
            failure.add_note(f"on {kind}")
            raise
        await program.stop()  # before the cast leaves: who has left is sent nothing
        assert "level=error" not in program.log, program.log
