"""Workers of XMPP and of STOMP at one queue, behind a real server: each gets what the other sends, and they answer each other."""

import asyncio
import json

import pytest
from faces.stomp.clients import Connection
from faces.stomp.served.service import LISTENING, SERVED
from harness.patience import TIMEOUT
from harness.servers.live import component
from harness.servers.users import RIGHT, table

from pubqueue import Publisher, Worker
from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e
REPLIES = "replies/bee@queue.localhost"
CONFIG = f"""
[stomp]
{SERVED}

{table("bee")}
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost", "bot@localhost", "bee@queue.localhost"]
[node.options]
"x-queueing#backoff_min" = 0

[[node]]
name = "{REPLIES}"
publishers = ["bot@localhost"]
members = ["bee@queue.localhost"]
"""


async def bee_of(program):
    ((host, port),) = LISTENING.findall(program.log)
    bee = Connection(*await asyncio.open_connection(host, int(port)))
    assert (await bee.connect("bee", RIGHT)).command == "CONNECTED"
    return bee


async def test_each_works_what_the_other_sends_and_they_answer_each_other(
    tmp_path, monkeypatch
):  # N22
    async with Prosody() as server, asyncio.timeout(TIMEOUT):
        for name in ("etl", "bot"):
            await server.account(name, "secret")
        at = f"?host={server.host}&port={server.c2s_port}&tls=off"
        monkeypatch.setenv("PUBQUEUE_URL", f"xmpp://etl@localhost/queue.localhost{at}")
        monkeypatch.setenv("PUBQUEUE_PASSWORD", "secret")
        async with (
            component(server, tmp_path, CONFIG) as program,
            Publisher() as etl,
        ):
            bee = await bee_of(program)
            await from_xmpp_to_stomp(etl, bee)
            await bee.do("UNSUBSCRIBE", id="s")
            await from_stomp_to_xmpp(bee, Worker("bot@localhost", node="jobs", signals=()))


async def from_xmpp_to_stomp(etl, bee):
    """The worker of STOMP gets all that was said of the item, fails once, and replies."""
    asking = asyncio.create_task(
        etl.ask("jobs", {"pieces": 14}, id="q", priority=3, group="g", headers={"kind": "x"})
    )
    await bee.do("SUBSCRIBE", destination="/queue/jobs", id="s", ack="client-individual")
    first = await bee.hear()
    await bee.do("NACK", id=first.headers["ack"])
    again = await bee.hear()
    shown = again.headers
    said = [shown[name] for name in ("item-id", "priority", "group", "kind", "failed")]
    assert said == ["q", "3", "g", "x", "1"]
    assert (shown["delivery-attempt"], shown["publisher"]) == ("2", "etl@localhost")
    assert (shown["content-type"], json.loads(again.body)) == ("application/json", {"pieces": 14})
    await bee.do(
        "SEND",
        b'{"total":42}',
        destination=f"/topic/{shown['reply-to']}",
        item_id=shown["correlation-id"],
        content_type="application/json",
    )
    await bee.do("ACK", id=shown["ack"])
    assert (await asking).data == {"total": 42}


async def from_stomp_to_xmpp(bee, bot):
    """The worker of XMPP gets all that was said of the message, fails once, and replies."""
    seen = []

    async def work(item):
        seen.append((item.id, item.publisher, item.headers.get("kind"), item.failures))
        if not item.failures:
            raise ValueError("once")
        return {"total": item.data["pieces"] * 3}

    await bee.do("SUBSCRIBE", destination=f"/topic/{REPLIES}", id="replies")
    async with bot, asyncio.TaskGroup() as group:
        running = group.create_task(bot.run(work))
        answer = await bee.do(
            "SEND",
            b'{"pieces":14}',
            destination="/queue/jobs",
            item_id="p",
            priority=3,
            group="g",
            delay="0.1",
            content_type="application/json",
            kind="x",
            reply_to=REPLIES,
            correlation_id="answer",
        )
        assert answer.command == "RECEIPT"
        reply = await bee.hear()
        bot.stop()
        await running
    assert (reply.headers["item-id"], json.loads(reply.body)) == ("answer", {"total": 42})
    assert seen == [("p", "bee@queue.localhost", "x", 0), ("p", "bee@queue.localhost", "x", 1)]
