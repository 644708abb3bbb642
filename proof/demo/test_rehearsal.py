"""docs/operations/rehearsal.md is followed, with a real Prometheus: a worker fails, is found out, mended, and the queue drains.

Prometheus has the configuration of docs/operations/monitoring.md and the alert rules of this repository (`harness.operators.prometheus`).
"""

import os
import re
import sys
import tomllib
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from harness.documents.documented import DOCUMENTED_AT, DOMAIN, ROOT, blocks
from harness.documents.followed import File, Step, Terminals, steps
from harness.machines.packaged import needs
from harness.operators.browser import CHANGE, USERS, chromium, log_in, visit
from harness.operators.prometheus import prometheus
from harness.processes.program import Program, write_config
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import listener

from pubqueue.loopback import free_ports
from pubqueue_demo.prosody import Prosody

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
async def scene(kind, folder, store, instances, keys=""):
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
            config = write_config(place, listener(server), settings(port) + keys, store=store)
            programs.append(await stack.enter_async_context(Program(config)))
        asked = await stack.enter_async_context(prometheus(folder / "prometheus", ports))

        def adapted(typed):
            typed = typed.replace(DOCUMENTED_AT, f"127.0.0.1:{ports[0]}")
            return typed.replace(PROMETHEUS, f"127.0.0.1:{asked}")

        home = folder / "home"
        home.mkdir()
        environments = {name: environment(server, name) for name in ACCOUNTS}
        terminals = await stack.enter_async_context(Terminals(home, environments, adapted))
        yield programs, terminals, f"http://127.0.0.1:{ports[0]}"


async def rehearse(kind, folder, store, instances=1):
    done = list(steps((ROOT / PAGE).read_text()))
    assert len(done) > 20
    async with scene(kind, folder, store, instances) as (programs, terminals, _):
        for step in done:
            await terminals.follow(step)
        logs = "".join(program.log for program in programs)
    for action in ("pause", "redrive", "resume"):
        assert f"operation={action} by=admin@{DOMAIN}/" in logs


@pytest.mark.parametrize("kind", SERVERS)
async def test_the_rehearsal_goes_as_the_page_says(kind, tmp_path):
    await rehearse(kind, tmp_path, None)


async def test_it_goes_so_with_two_instances_on_postgresql(tmp_path, postgres):
    await rehearse(Ejabberd, tmp_path, postgres.address, instances=2)


# --- in the browser -----------------------------------------------------------------------------


def rows():
    """Return what the page of the browser has to show, in the order of the table: its words in code."""
    section = (
        (ROOT / PAGE).read_text().partition("## The same in the browser\n")[2].partition("\n## ")[0]
    )
    cells = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", section, re.MULTILINE)[2:]
    return [re.findall(r"`([^`]+)`", cell) for cell in cells]


async def shows(page, words):
    """Return when the page says all of these, which is brought up to date until it does."""
    for word in words:
        await page.get_by_text(word).first.wait_for()


async def action(page, button):
    """Click on a button, and on yes."""
    await page.click(button)
    await page.click("#yes")


async def counted(page, **counts):
    """Return when the page of the queue has these counts."""
    for state, count in counts.items():
        await page.wait_for_selector(f"#of-{state}:text-is('{count}')")


@needs("chromium")
@pytest.mark.parametrize("kind", SERVERS)
async def test_in_the_browser_it_goes_so_without_a_shell(kind, tmp_path):
    files = [step for step in steps((ROOT / PAGE).read_text()) if isinstance(step, File)]
    broken, orders, mended = files
    says = iter(rows())
    async with AsyncExitStack() as stack:
        made = scene(kind, tmp_path, None, 1, USERS)
        (program,), terminals, place = await stack.enter_async_context(made)
        work = Step("bot", "pubqueue worker app:handle --node jobs", ["..."])
        for step in (broken, orders, work):
            await terminals.follow(step)
        await terminals.follow(
            Step("shop", "python orders.py 1 6", ["orders 1 to 6 are confirmed"])
        )
        browser = await stack.enter_async_context(chromium())
        page = await stack.enter_async_context(visit(browser))
        await log_in(page, place, CHANGE)
        await shows(page, next(says))
        await page.click("text=jobs")
        await counted(page, delayed=4, dead=2)
        await shows(page, next(says))
        queue = page.url
        await action(page, "#action-pause")
        await shows(page, next(says))
        await counted(page, queued=4)
        await page.click("#of-queued")
        await shows(page, next(says))
        await page.click("a:text-is('order-1')")
        await shows(page, next(says))
        await page.goto(queue)
        await page.click("#of-dead")
        await shows(page, next(says))
        for step in (mended, Step("bot", "^C", []), work):
            await terminals.follow(step)
        await page.check("[value=order-3]")
        await action(page, "#choose")
        await shows(page, next(says))
        await action(page, "#action-resume")
        await shows(page, next(says))
        await counted(page, queued=0, dead=1)
        await action(page, "#action-redrive")
        await shows(page, next(says))
        await counted(page, queued=0, locked=0, delayed=0, dead=0)
        assert next(says, None) is None
        log = program.log
    for name in ("pause", "redrive", "resume"):
        assert f"operation={name} by=changer@{SERVICE}/page" in log
