"""XMPP, STOMP and HTTP at one queue, behind a real server: what one sends the others work, and they answer each other."""

import asyncio
import re
from urllib.parse import quote

import pytest
from faces.rest.clients import follow, links
from faces.rest.served.service import client_at
from faces.stomp.clients import Connection, closed
from harness.patience import TIMEOUT
from harness.servers.live import component
from harness.servers.users import table

from pubqueue import Publisher, Worker
from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e
PLACES = re.compile(r"event=(rest|stomp)\.listening.*?host=(\S+) port=(\d+)")
ANSWERS = "replies/etl@queue.localhost"
ANSWERS_PATH = f"/queues/{quote(ANSWERS, safe='')}"
CONFIG = f"""
[stomp]
listen = "127.0.0.1:0"
heart_beat = 600

[rest]
listen = "127.0.0.1:0"

{table("etl")}{table("bee", faces=["stomp"])}
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost", "bot@localhost", "etl@queue.localhost", "bee@queue.localhost"]
[node.options]
"x-queueing#backoff_min" = 0

[[node]]
name = "{ANSWERS}"
queueing = true
publishers = ["bot@localhost", "bee@queue.localhost"]
"""
BODY = bytes(range(256))


@pytest.fixture(autouse=True)
async def _all_closed():
    yield
    await closed()


async def test_bytes_headers_priorities_groups_attempts_and_replies_arrive(
    tmp_path, monkeypatch
):  # W04
    async with Prosody() as server, asyncio.timeout(TIMEOUT):
        for name in ("etl", "bot"):
            await server.account(name, "secret")
        at = f"?host={server.host}&port={server.c2s_port}&tls=off"
        monkeypatch.setenv("PUBQUEUE_URL", f"xmpp://etl@localhost/queue.localhost{at}")
        monkeypatch.setenv("PUBQUEUE_PASSWORD", "secret")
        async with component(server, tmp_path, CONFIG) as program, Publisher() as xmpp:
            found = {word: (host, int(port)) for word, host, port in PLACES.findall(program.log)}
            host, port = found["rest"]
            bee = Connection(*await asyncio.open_connection(*found["stomp"]))
            assert (await bee.connect("bee")).command == "CONNECTED"
            async with client_at(f"http://{host}:{port}/rest") as http:
                await from_xmpp_to_http(xmpp, http)
                await from_http_to_stomp(http, bee)
                await from_stomp_to_http(bee, http)
                await from_http_to_xmpp(http, Worker("bot@localhost", node="jobs", signals=()))


async def taken(http, path="/queues/jobs"):
    """Take the next message over HTTP."""
    message = await http.post(await follow(http, path, "consumer"), headers={"Accept-Wait": "30"})
    assert message.status_code == 200
    return message


async def acknowledge(http, message, verdict="true"):
    where = links(message)["acknowledgement"]
    assert (await http.post(where, data={"acknowledge": verdict})).status_code == 204


async def from_xmpp_to_http(xmpp, http):
    """What XMPP publishes comes with all that was said of it, and again after a failure."""
    await xmpp.publish("jobs", {"n": 1}, id="x", priority=3, group="g", headers={"kind": "k"})
    first = await taken(http)
    where = links(first)["acknowledgement"]
    failed = await http.post(where, data={"acknowledge": "false", "outcome": "failed"})
    assert failed.status_code == 204
    message = await taken(http)
    assert (message.headers["Content-Type"], message.json()) == ("application/json", {"n": 1})
    shown = [
        message.headers[f"Message-{name}"] for name in ("Id", "Priority", "Group", "Header-Kind")
    ]
    assert shown == ["x", "3", "g", "k"]
    assert [message.headers[f"Message-{name}"] for name in ("Attempt", "Failed")] == ["2", "1"]
    assert message.headers["Message-Publisher"] == "etl@localhost"
    await acknowledge(http, message)


async def from_http_to_stomp(http, bee):
    """What HTTP posts comes byte for byte, and the worker of STOMP replies to where the poster asks it to."""
    back = await follow(http, ANSWERS_PATH, "consumer")
    reply_to = back.replace("/consumer", "/messages")
    to = await follow(http, "/queues/jobs", "post-message")
    more = {"Content-Type": "image/png", "Message-Id": "h", "Message-Header-kind": "k"}
    asked = {"Link": f'<{reply_to}>; rel="reply-to"', "Correlation-Id": "c"}
    assert (await http.post(to, content=BODY, headers={**more, **asked})).status_code == 201
    await bee.do("SUBSCRIBE", destination="/queue/jobs", id="s", ack="client-individual")
    frame = await bee.hear()
    shown = frame.headers
    assert (frame.body, shown["content-type"], shown["item-id"]) == (BODY, "image/png", "h")
    assert (shown["kind"], shown["reply-to"], shown["correlation-id"]) == ("k", ANSWERS, "c")
    await bee.do(
        "SEND",
        b"reply",
        destination=f"/queue/{shown['reply-to']}",
        correlation_id=shown["correlation-id"],
        content_type="text/plain",
    )
    await bee.do("ACK", id=shown["ack"])
    await bee.do("UNSUBSCRIBE", id="s")
    answer = await taken(http, ANSWERS_PATH)
    assert (answer.content, answer.headers["Correlation-Id"]) == (b"reply", "c")
    await acknowledge(http, answer)


async def from_stomp_to_http(bee, http):
    """What STOMP sends comes byte for byte."""
    await bee.do("SEND", BODY, destination="/queue/jobs", item_id="s", priority=2, kind="k")
    message = await taken(http)
    assert (message.content, message.headers["Message-Id"]) == (BODY, "s")
    assert (message.headers["Message-Priority"], message.headers["Message-Header-kind"]) == (
        "2",
        "k",
    )
    await acknowledge(http, message)


async def from_http_to_xmpp(http, bot):
    """The worker of XMPP works what HTTP posts, fails once, and replies to where the poster asks it to."""
    seen = []

    async def work(item):
        seen.append((item.id, item.publisher, item.headers.get("Kind"), item.failures))
        if not item.failures:
            raise ValueError("once")
        return {"total": item.data["n"] * 3}

    to = await follow(http, "/queues/jobs", "post-message")
    reply_to = (await follow(http, ANSWERS_PATH, "post-message")).encode()
    named = {"Content-Type": "application/json", "Message-Id": "w", "Message-Header-Kind": "k"}
    asked = {"Link": b'<%b>; rel="reply-to"' % reply_to, "Correlation-Id": "c"}
    async with bot, asyncio.TaskGroup() as group:
        running = group.create_task(bot.run(work))
        posted = await http.post(to, content=b'{"n":14}', headers={**named, **asked})
        assert posted.status_code == 201
        answer = await taken(http, ANSWERS_PATH)
        bot.stop()
        await running
    assert answer.json() == {"total": 42}
    await acknowledge(http, answer)
    user = "etl@queue.localhost"
    assert seen == [("w", user, "k", 0), ("w", user, "k", 1)]
