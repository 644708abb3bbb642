"""What workers count for Prometheus, of the real service in this process."""

import asyncio
import subprocess
import sys
from urllib.request import urlopen

import pytest
from harness.batches.inside import cut, has_noticed_the_cut, held_items, session_of
from harness.patience import TIMEOUT
from prometheus_client import CollectorRegistry, generate_latest

from pubqueue import ConfigurationError, Failed, Handlers, Reject, Release, Worker
from pubqueue.loopback import free_ports
from pubqueue.testing import Service
from pubqueue_xeps.metrics import Metrics


@pytest.fixture(scope="module")
def running():
    with Service() as service:
        yield service


@pytest.fixture
def service(running):
    running.clear()
    running.create("jobs", max_failures=2, backoff_min=0)
    return running


@pytest.fixture
def registry():
    return CollectorRegistry()


AT = {"service": "queue.localhost"}


def value(registry, name, **labels):
    return registry.get_sample_value(f"pubqueue_worker_{name}", labels)


async def test_items_are_counted_by_node_handler_and_outcome(service, registry):
    app = Handlers()

    @app.handler("job")
    async def job(item):
        match item.id:
            case "failed":
                raise Failed("no") if item.failures else OSError("a passenger's name")
            case "rejected":
                raise Reject("no")
            case "released" if item.attempt == 1:
                raise Release

    @app.handler()
    async def rest(item): ...

    for name in ("done", "failed", "rejected", "released"):
        service.publish("jobs", {"type": "job"}, id=name)
    service.publish("jobs", {"to": "a passenger"}, id="other", headers={"kind": "secret"})
    bot = Worker(**service.account(), node="jobs", signals=(), metrics=Metrics(registry))
    await service.run(bot, app, node="jobs")
    outcomes = ("done", "failed", "rejected", "released", "lost")
    of_jobs = [
        value(registry, "items_total", **AT, node="jobs", handler="job", outcome=each)
        for each in outcomes
    ]
    assert of_jobs == [2, 2, 1, 1, None]
    assert value(registry, "items_total", **AT, node="jobs", handler="rest", outcome="done") == 1
    assert value(registry, "item_seconds_count", **AT, node="jobs", handler="job") == 6
    text = generate_latest(registry).decode()
    assert not [word for word in ("passenger", "secret", "other") if word in text]


async def test_what_is_here_is_shown_by_node(service, registry):
    service.create("mails")
    for number in range(3):
        service.publish("jobs", number)
    bot = Worker(
        **service.account(),
        node=["jobs", "mails"],
        requests=5,
        signals=(),
        metrics=Metrics(registry),
    )
    async with bot:
        item = await anext(bot)
        while len(held_items(bot).locked()) < 3:
            await session_of(bot).ask_time()
        shown = {
            name: [value(registry, name, **AT, node=node) for node in ("jobs", "mails")]
            for name in ("in_flight", "waiting", "window")
        }
        assert shown == {"in_flight": [1, 0], "waiting": [2, 0], "window": [5, 5]}
        assert value(registry, "connected", service=service.address) == 1
        await item.unlock()
    assert value(registry, "in_flight", **AT, node="jobs") is None
    assert value(registry, "connected", service=service.address) == 0


async def test_a_connection_that_is_lost_and_back_is_counted(service, registry):
    metrics = Metrics(registry)
    async with Worker(**service.account(), node="jobs", signals=(), metrics=metrics) as bot:
        session = session_of(bot)
        assert value(registry, "reconnects_total", service=service.address) == 0
        cut(session)
        await has_noticed_the_cut(session)
        assert value(registry, "connected", service=service.address) == 0
        async with asyncio.timeout(TIMEOUT):
            await session.ready()
        assert value(registry, "connected", service=service.address) == 1
    async with Worker(**service.account(), node="jobs", signals=(), metrics=metrics):
        assert value(registry, "reconnects_total", service=service.address) == 1


def fetched(port):
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT) as answer:
        return answer.read().decode()


async def test_a_port_of_the_loopback_address_serves_them(service):
    (port,) = free_ports(1)
    first = Worker(**service.account(), node="jobs", signals=(), metrics=port)
    async with first:
        text = await asyncio.to_thread(fetched, port)
        assert 'pubqueue_worker_window{node="jobs",service="queue.localhost"} 10.0' in text
        second = Worker(**service.account("two"), node="jobs", signals=(), metrics=port)
        with pytest.raises(ConfigurationError, match=f"cannot be served at 127.0.0.1:{port}: Addr"):
            await second.__aenter__()
    async with Worker(**service.account(), node="jobs", signals=(), metrics=port):
        """It is free again."""


@pytest.mark.parametrize("wrong", [0, 65536, True, "9101"])
def test_another_port_is_refused(service, wrong):
    with pytest.raises(ConfigurationError, match="it takes a port from 1 to 65535, or Metrics"):
        Worker(**service.account(), node="jobs", metrics=wrong)


def test_without_the_library_it_says_what_to_install():
    asked = "import sys; sys.modules['prometheus_client'] = None\ntry: import pubqueue_xeps.metrics\nexcept ImportError as e: print(e)"
    done = subprocess.run(
        [sys.executable, "-Ic", asked], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Metrics of workers need pip install 'pubqueue[metrics]'.\n"
