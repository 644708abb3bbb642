"""What is known of others is found: NATS, as it comes, loses what it has confirmed and not synced."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress

import pytest
from bench.stomp.brokers import running

from proof.control.nats import Nats
from proof.disk.mounting import ForgetfulDisk
from proof.faults_run.job import digest_of, job
from proof.judge.history import History, judged
from pubqueue.loopback import free_ports


@pytest.mark.e2e
async def test_what_nats_is_known_to_lose_is_found(tmp_path):
    """Its default is to sync every two minutes, and to confirm before."""
    history = History(tmp_path / "client.jsonl", "client")
    server = shutil.which("nats-server")
    assert server, "nats-server is not installed; `make setup` does that"
    (port,) = free_ports(1)
    with ForgetfulDisk(tmp_path) as disk:

        def served():
            words = [server, "-js", "-sd", disk.path, "-a", "127.0.0.1", "-p", str(port)]
            return running("nats", words, tmp_path, port)

        async with served(), Nats(port) as client:
            await client.make_stream()
        disk.shut_down()
        disk.start()
        async with served() as pid, Nats(port) as client:
            for number in range(100):
                value = job(f"i-{number}")
                publish = history.begin("publish", "jobs", value["id"], digest=digest_of(value))
                with suppress(OSError, TimeoutError):
                    if await client.publish(json.dumps(value).encode()):
                        publish.end("ok")
            os.kill(pid, signal.SIGKILL)
            disk.kill()
        disk.start()
        async with served(), Nats(port) as client:
            left = [json.loads(body) for body in await client.left()]
        history.read("jobs", [(value["id"], digest_of(value), "waiting") for value in left])
    judgement = judged([tmp_path / "client.jsonl"])
    assert (judgement.is_right, "lost" in judgement.summary) == (False, True), judgement.lines
