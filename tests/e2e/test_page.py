"""Behind real servers, three in the morning: a queue grows because its worker fails; found out, steered and mended on the page alone."""

from contextlib import AsyncExitStack, nullcontext

import pytest
from harness.clients.session import PUBSUB, SERVICE, condition, session
from harness.databases.postgres import Postgres
from harness.machines.packaged import needs
from harness.operators.browser import CHANGE, LOOK, USERS, chromium, log_in, shows, visit
from harness.processes.program import Program, write_config
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import listener

from pubqueue.loopback import free_ports
from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, needs("chromium")]

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost"]
options = { "x-queueing#max_failures" = 1, "x-queueing#backoff_min" = 0, "x-queueing#backoff_max" = 0 }
"""
BEE = "bee@localhost/x"
WINDOW = """<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'>
<value>1</value></field></x></options>"""
SUBSCRIBE = f"<pubsub xmlns='{PUBSUB}'><subscribe node='jobs' jid='{BEE}'/>{WINDOW}</pubsub>"
UNLOCK = (
    f"<pubsub xmlns='{PUBSUB}'><unlock xmlns='urn:xmpp:pubsub:queueing:0' node='jobs'><item id='{{}}'/></unlock>"
    "<outcome xmlns='urn:x-pubqueue:0' type='failed' reason='no seat'/></pubsub>"
)
RETRACT = f"<pubsub xmlns='{PUBSUB}'><retract node='jobs'><item id='{{}}'/></retract></pubsub>"


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    with Postgres() if request.param == "postgres" else nullcontext() as server:
        yield server.address if server else tmp_path / "pubqueue.db"


def settings(folder, server, port, store):
    """Write the settings of an instance with a page at this port; return their path."""
    folder.mkdir(exist_ok=True)
    return write_config(folder, listener(server), f'http = "{port}"\n{USERS}{NODE}', store=store)


async def given(bee):
    """Return the id of the item that is delivered next."""
    while True:
        message = await bee.next_message()
        if message.find("{urn:x-pubqueue:0}lock") is not None:
            return message.find(".//{http://jabber.org/protocol/pubsub#event}item").get("id")


async def action(page, name):
    """Do what a button says, after its question."""
    await page.click(name)
    await page.click("#yes")
    return await page.inner_text(".note")


@pytest.mark.parametrize("kind", [Prosody, Ejabberd])
async def test_a_queue_that_grows_is_found_steered_and_repaired(kind, store, tmp_path):
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(kind())
        for name in ("etl", "bee"):
            await server.account(name, "secret")
        (port,) = free_ports(1)
        config = settings(tmp_path / "one", server, port, store)
        program = await stack.enter_async_context(Program(config))
        etl = await stack.enter_async_context(session(server, "etl@localhost/x"))
        bee = await stack.enter_async_context(session(server, BEE))
        await bee.client.send(f"<presence to='{SERVICE}'/>")
        assert condition(await bee.ask("set", SUBSCRIBE)) == "result"
        jobs = {name: f"<job xmlns='x'>{name}</job>" for name in "abc"}
        assert condition(await etl.publish(**jobs)) == "result"
        assert await given(bee) == "a"
        assert condition(await bee.ask("set", UNLOCK.format("a"))) == "result"
        assert await given(bee) == "b"

        browser = await stack.enter_async_context(chromium())
        page = await stack.enter_async_context(visit(browser))
        place = f"http://127.0.0.1:{port}"
        await log_in(page, place, CHANGE)
        await page.click("text=jobs")
        counts = [await page.inner_text(f"#of-{one}") for one in ("queued", "locked", "dead")]
        assert counts == ["1", "1", "1"]
        await page.wait_for_selector(f"#workers:has-text('{BEE}')")
        assert await action(page, "#action-pause") == "jobs is paused."
        await page.click("#of-dead")
        await shows(page, "#items")
        assert "no seat" in await page.inner_text("#items")
        await page.click("#row1")
        await page.wait_for_selector("#payload")
        assert await page.inner_text("#payload") == "<job xmlns='x'>a</job>"
        await page.goto(f"{place}/ui/items?node=jobs&state=locked")
        await page.check("#item1")
        assert await action(page, "#choose") == "1 lock of jobs ended; the items wait again."
        await page.goto(f"{place}/ui/queue?node=jobs")
        assert await action(page, "#action-redrive") == "1 dead item of jobs requeued."
        assert await action(page, "#action-resume") == "jobs is resumed."
        done = []
        while len(done) < 3:  # what was taken from it the worker gets last
            done.append(await given(bee))
            assert condition(await bee.ask("set", RETRACT.format(done[-1]))) == "result"
        assert sorted(done) == ["a", "b", "c"]
        await page.goto(f"{place}/ui/queue?node=jobs")
        counts = [await page.inner_text(f"#of-{one}") for one in ("queued", "locked", "dead")]
        assert counts == ["0", "0", "0"]
        logged = [line for line in program.log.splitlines() if "operation=" in line]
    for name, line in zip(("pause", "release", "redrive", "resume"), logged, strict=True):
        assert f"operation={name}" in line
        assert "by=changer@queue.localhost/page" in line
        assert "node=jobs" in line
    assert CHANGE not in program.log
    assert "<job" not in program.log


async def test_each_of_two_instances_shows_and_steers_the_same_queues(tmp_path):
    with Postgres() as postgres:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(Ejabberd())
            await server.account("etl", "secret")
            places = []
            for name, port in zip(("one", "other"), free_ports(2), strict=True):
                config = settings(tmp_path / name, server, port, postgres.address)
                await stack.enter_async_context(Program(config))
                places.append(f"http://127.0.0.1:{port}")
            etl = await stack.enter_async_context(session(server, "etl@localhost/x"))
            assert condition(await etl.publish(a="<job xmlns='x'/>")) == "result"
            browser = await stack.enter_async_context(chromium())
            page = await stack.enter_async_context(visit(browser))
            await log_in(page, places[0], CHANGE)
            await page.click("text=jobs")
            assert await action(page, "#action-pause") == "jobs is paused."
            # the cookie is for the host, and holds wherever the users are the same
            await page.goto(f"{places[1]}/ui/queue?node=jobs")
            assert await page.inner_text(".facts .tag") == "paused"
            assert await page.inner_text("#of-queued") == "1"
            assert await action(page, "#action-purge") == "1 item of jobs deleted."
            await page.goto(f"{places[0]}/ui/queue?node=jobs")
            assert await page.inner_text("#of-queued") == "0"


async def test_one_that_waits_for_its_place_reports_it(tmp_path):
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Prosody())
        ports, programs = free_ports(2), []
        for name, port in zip(("one", "other"), ports, strict=True):
            config = settings(tmp_path / name, server, port, tmp_path / "pubqueue.db")
            programs.append(Program(config))
            stack.push_async_callback(programs[-1].kill)
        await programs[0].start()
        await programs[1].start("waiting: another instance is queue.localhost on ")
        browser = await stack.enter_async_context(chromium())
        page = await stack.enter_async_context(visit(browser))
        await log_in(page, f"http://127.0.0.1:{ports[0]}", LOOK)
        await page.goto(f"http://127.0.0.1:{ports[1]}/ui/")
        assert "does not serve at present" in await page.inner_text("main")
        await programs[0].kill()
        await programs[1].says("ready")
        await page.reload()
        await page.wait_for_selector("text=jobs")
        await programs[1].stop()
