"""Google's own client for Node, unmodified, against the service as its operator runs it."""

from __future__ import annotations

import asyncio
import json
import os

from faces.grpc.service import GrpcService
from harness.documents.conformance import ROOT
from harness.patience import TIMEOUT

PROGRAM = ROOT / "tests" / "node" / "pubsub.js"


async def test_messages_are_streamed_nacked_and_ordered(tmp_path):  # G19, G33, G50
    async with GrpcService(tmp_path) as service:
        process = await asyncio.create_subprocess_exec(
            "node",
            PROGRAM,
            env={**os.environ, "PUBSUB_EMULATOR_HOST": service.address},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, problems = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 0, problems.decode()
    found = json.loads(out)
    assert len(set(found["ids"])) == 60
    assert found["seen"] == {f"{n}": 2 if n % 10 == 0 else 1 for n in range(60)}
    assert found["keys"] == {f"k{n}": list(range(n, 60, 3)) for n in range(3)}
    assert found["topics"] == ["projects/shop/topics/orders"]
