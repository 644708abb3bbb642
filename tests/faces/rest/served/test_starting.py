"""While the service makes its declared nodes it says that it is not at work, and does nothing."""

import asyncio
import os
import sys
from pathlib import Path

from faces.rest.served.service import LISTENING, RestService
from harness.patience import TIMEOUT, until
from harness.processes import late_nodes


async def test_requests_are_503_until_it_is_at_work(tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    service = RestService(tmp_path, command=(sys.executable, "-I", Path(late_nodes.__file__), go))
    async with asyncio.timeout(TIMEOUT):
        starting = asyncio.create_task(service.start())
        await until(lambda: LISTENING.search(service.log))
        async with service.client("etl") as client:

            async def posted():
                return (await client.post("/queues/jobs/messages", content=b"x")).status_code

            assert await posted() == 503
            await asyncio.to_thread(go.write_bytes, b"go")
            await starting
            assert await posted() == 201
        await service.stop()
