"""A worker stops reading: its server keeps what is for it, everybody else is served, and then it may go on."""

import pytest
from harness.clients.ledger import Ledger
from harness.clients.session import PUBSUB, SERVICE, condition, session
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component
from harness.stores.recount import recount

from pubqueue_demo.prosody import Prosody

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["stuck@localhost", "bee@localhost"]
[node.options]
"x-queueing#lock_timeout" = 2
"x-queueing#backoff_min" = 0
"""
STUCK, BEE = "stuck@localhost/x", "bee@localhost/x"
JOB = f"<job xmlns='x'>{'x' * 30_000}</job>"
ITEMS = [f"i{number}" for number in range(100)]
WINDOWS = {STUCK: 50, BEE: 10}


@pytest.mark.e2e
@pytest.mark.covers("Q-045", "Q-046", on=["prosody", "ejabberd"])
@pytest.mark.parametrize("kind", [Prosody, Ejabberd])
async def test_a_worker_that_does_not_read(kind, tmp_path):
    ledger = Ledger()
    async with kind() as server:
        for name in ("etl", "stuck", "bee"):
            await server.account(name, "secret")
        async with (
            component(server, tmp_path, NODE) as program,
            session(server, "etl@localhost/x") as etl,
            session(server, STUCK) as stuck,
            session(server, BEE) as bee,
        ):
            await join(stuck, STUCK)
            stuck.client.stop_reading()
            await join(bee, BEE)
            for jid, window in WINDOWS.items():
                ledger.joined(jid, window)
            for item in ITEMS:
                assert condition(await etl.publish(**{item: JOB})) == "result"
                ledger.confirmed.add(item)
            await work(bee, BEE, ledger)
            stuck.client.read_on()
            # what came meanwhile is long done: it is told so, and may go on
            for item in await what_came(stuck):
                assert await retract(stuck, item) == "cancel item-not-found"
            await stuck.client.send(f"<presence to='{SERVICE}'/>")
            await bee.client.send(f"<presence type='unavailable' to='{SERVICE}'/>")
            assert condition(await etl.publish(last=JOB)) == "result"
            ledger.confirmed.add("last")
            await work(stuck, STUCK, ledger)
            await program.stop()
    ledger.compare(recount(tmp_path / "pubqueue.db"))


async def join(worker, jid):
    form = f"""<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'>
<value>{WINDOWS[jid]}</value></field></x></options>"""
    inner = f"<subscribe node='jobs' jid='{jid}'/>{form}"
    answer = await worker.ask("set", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")
    assert condition(answer) == "result"


async def retract(worker, item):
    inner = f"<retract node='jobs'><item id='{item}'/></retract>"
    return condition(await worker.ask("set", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"))


async def work(worker, jid, ledger):
    """Do what comes until nothing is left to do."""
    while ledger.confirmed - ledger.committed:
        message = await worker.next_message()
        for event in message.iterfind(f"{{{PUBSUB}#event}}event/{{*}}items/{{*}}*"):
            kind, item = event.tag.partition("}")[2], event.get("id")
            if kind == "unlock":
                ledger.freed(jid, item)
            elif kind == "item":
                ledger.delivered(
                    jid, item, int(message.find("{urn:x-pubqueue:0}lock").get("token"))
                )
                if await retract(worker, item) == "result":
                    ledger.retracted(jid, item)


async def what_came(worker):
    """Return the items that have come, when all that was on its way is here."""
    await worker.ask("get", "<ping xmlns='urn:xmpp:ping'/>")
    messages = [worker.messages.get_nowait() for _ in range(worker.messages.qsize())]
    items = {item.get("id") for message in messages for item in message.iter("{*}item")}
    assert items
    return items
