"""Clients that connect while the service still makes its declared nodes are served when it is at work, and get all that is theirs."""

import asyncio

from faces.stomp.served.service import DOMAIN, LISTENING, StompService
from harness.patience import TIMEOUT, until

NODES = 176
CLIENTS = 12
DECLARED = "".join(
    f"""
[[node]]
name = "jobs{number}"
queueing = true
publishers = ["etl@{DOMAIN}", "bee@{DOMAIN}"]
"""
    for number in range(NODES)
)


async def work(service, number):
    """Subscribe as soon as anything listens, and return the connection and its first message."""
    bee = await service.log_in("bee")
    where = {
        "destination": f"/queue/jobs{number}",
        "id": "s",
        "ack": "client-individual",
        "prefetch_count": 10,
    }
    subscribed = await bee.do("SUBSCRIBE", **where)
    assert subscribed.command == "RECEIPT"
    return bee, await bee.hear()


async def starts_with_clients(service, life):
    """Start, let clients in as soon as it listens, and return what they get and who they are."""
    known = len(LISTENING.findall(service.log))
    starting = asyncio.create_task(service.start())
    await until(lambda: len(LISTENING.findall(service.log)) > known)
    working = [asyncio.create_task(work(service, number)) for number in range(CLIENTS)]
    etl = await service.log_in()
    for number in range(CLIENTS):
        sent = await etl.do("SEND", f"{life}".encode(), destination=f"/queue/jobs{number}")
        assert sent.command == "RECEIPT", sent
    found = await asyncio.gather(*working)
    await starting
    return [message.body for _, message in found], [bee for bee, _ in found], etl


async def test_who_comes_while_it_starts_gets_the_messages_that_follow(tmp_path):
    service = StompService(tmp_path, nodes=DECLARED)
    async with asyncio.timeout(TIMEOUT):
        for life in range(2):
            # the second time there are subscriptions of the clients of a process that was killed
            bodies, bees, etl = await starts_with_clients(service, life)
            assert bodies[:1] * CLIENTS == bodies, "each has one"
            assert len(bodies) == CLIENTS
            if life:
                for number, bee in enumerate(bees):
                    sent = await etl.do("SEND", b"more", destination=f"/queue/jobs{number}")
                    assert sent.command == "RECEIPT"
                    while (await bee.hear()).body != b"more":
                        pass
            for one in (*bees, etl):
                one.close()
            await service.kill()
