"""docs/operations/rehearsal.md is followed, with a real Prometheus: a worker fails, is found out, mended, and the queue drains.

Prometheus has the configuration of docs/operations/monitoring.md and the alert rules of this repository (`harness.prometheus`).
"""

import os
import sys
import tomllib
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from harness.documented import DOCUMENTED_AT, DOMAIN, ROOT, blocks
from harness.ejabberd import Ejabberd
from harness.followed import Terminals, steps
from harness.live import listener
from harness.packaged import needs
from harness.program import Program, write_config
from harness.prometheus import prometheus

from pubqueue_demo.prosody import Prosody, free_ports

pytestmark = [pytest.mark.e2e, needs("prometheus", "promtool")]

PAGE = "docs/operations/rehearsal.md"
SERVICE = f"queue.{DOMAIN}"
ACCOUNTS = ("admin", "bot", "shop")
PROMETHEUS = "127.0.0.1:9090"
SERVERS = [pytest.param(kind, id=kind.__name__) for kind in (Prosody, Ejabberd)]


def environment(server, account):
    """Return that of a terminal: who types, and where the programs of this installation are."""
    kept = {name: value for name, value in os.environ.items() if "PUBQUEUE" not in name}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PUBQUEUE_URL": f"xmpp://{account}@{DOMAIN}/{SERVICE}?host={server.host}&port={server.c2s_port}&tls=off",
        "PUBQUEUE_PASSWORD": "secret",
    }


def settings(port):
    """Return what the page has in the configuration, with a port that is free."""
    (text,) = (block.text for block in blocks("toml") if block.page == PAGE)
    assert tomllib.loads(text)["http"] == DOCUMENTED_AT
    return text.replace(DOCUMENTED_AT, f"127.0.0.1:{port}")


@asynccontextmanager
async def scene(kind, folder, store, instances):
    """Serve behind such a server, with a Prometheus that watches; yields the instances and the terminals."""
    async with AsyncExitStack() as stack:
        server = kind(component=SERVICE, more_domains=(DOMAIN,))
        await stack.enter_async_context(server)
        for name in ACCOUNTS:
            await server.account(name, "secret", DOMAIN)
        ports, programs = free_ports(instances), []
        for number, port in enumerate(ports):
            place = folder / f"instance{number}"
            place.mkdir()
            config = write_config(place, listener(server), settings(port), store=store)
            programs.append(await stack.enter_async_context(Program(config)))
        asked = await stack.enter_async_context(prometheus(folder / "prometheus", ports))

        def adapted(typed):
            typed = typed.replace(DOCUMENTED_AT, f"127.0.0.1:{ports[0]}")
            return typed.replace(PROMETHEUS, f"127.0.0.1:{asked}")

        home = folder / "home"
        home.mkdir()
        environments = {name: environment(server, name) for name in ACCOUNTS}
        yield programs, await stack.enter_async_context(Terminals(home, environments, adapted))


async def rehearse(kind, folder, store, instances=1):
    done = list(steps((ROOT / PAGE).read_text()))
    assert len(done) > 20
    async with scene(kind, folder, store, instances) as (programs, terminals):
        for step in done:
            await terminals.follow(step)
        logs = "".join(program.log for program in programs)
    for deed in ("pause", "redrive", "resume"):
        assert f"operation={deed} by=admin@{DOMAIN}/" in logs


@pytest.mark.parametrize("kind", SERVERS)
async def test_the_rehearsal_goes_as_the_page_says(kind, tmp_path):
    await rehearse(kind, tmp_path, None)


async def test_it_goes_so_with_two_instances_on_postgresql(tmp_path, postgres):
    await rehearse(Ejabberd, tmp_path, postgres.address, instances=2)
