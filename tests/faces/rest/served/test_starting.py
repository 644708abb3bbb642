"""While the service makes its declared nodes it says that it is not at work, and does nothing."""

import asyncio

from faces.rest.served.service import DOMAIN, LISTENING, RestService
from harness.patience import TIMEOUT, until

NODES = 800  # the first request comes long before the last of them is made
DECLARED = "".join(
    f"""
[[node]]
name = "jobs{number}"
queueing = true
publishers = ["etl@{DOMAIN}"]
"""
    for number in range(NODES)
)


async def test_requests_are_503_until_it_is_at_work(tmp_path):
    service = RestService(tmp_path, nodes=DECLARED)
    statuses = []
    async with asyncio.timeout(TIMEOUT):
        starting = asyncio.create_task(service.start())
        await until(lambda: LISTENING.search(service.log))
        async with service.client("etl") as client:
            while not statuses or statuses[-1] == 503:
                answer = await client.post(f"/queues/jobs{NODES - 1}/messages", content=b"x")
                statuses.append(answer.status_code)
        await starting
        await service.stop()
    assert set(statuses) == {503, 201}
