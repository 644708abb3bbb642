from types import SimpleNamespace

import pytest
import pytest_asyncio
import structlog
from harness.patience import TIMEOUT
from harness.servers.queue_service import QueueService

from pubqueue_demo.prosody import Prosody
from pubqueue_xeps import sentences
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.worker.worker import Worker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prosody():
    async with Prosody() as server:
        await server.account("bot", "secret")
        yield server


@pytest.fixture
async def service(prosody):
    async with QueueService(prosody.component_port, prosody.secret) as scripted:
        yield scripted


@pytest.fixture
def worker_of(prosody):
    """Make workers of the scripted service's node, which repeat nothing: a test of their patience says how long it is."""

    def make(**settings):
        timings = {
            "answer": TIMEOUT,
            "patience": TIMEOUT,
            "backoff_min": 0.01,
            "backoff_max": 0.1,
            "parting": 2,
        }
        timings |= settings.pop("timings", {})
        settings = {
            "jid": "bot@localhost/one",
            "password": "secret",
            "service": "queue.localhost",
            "node": "jobs",
            "requests": 1,
            "host": prosody.host,
            "port": prosody.c2s_port,
            "tls": "off",
            "signals": (),
            "timings": Timings(**timings),
        } | settings
        return Worker(settings.pop("jid"), settings.pop("password"), **settings)

    return make


@pytest.fixture
def unset(monkeypatch):
    """Have logging be as in a program that has set up none."""
    # pytest has handlers at the real one
    monkeypatch.setattr(sentences, "ROOT", SimpleNamespace(handlers=[]))
    monkeypatch.delenv("PUBQUEUE_QUIET", raising=False)
    structlog.reset_defaults()  # of what another test has set up
    yield
    structlog.reset_defaults()
