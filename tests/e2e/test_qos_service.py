"""Publishers at each level on the real component, behind Prosody and behind ejabberd, killed in the middle; and at another server."""

import asyncio
from collections import Counter

import pytest
from harness.patience import TIMEOUT, until
from harness.servers.behind import behind_both
from harness.servers.federation import federation
from harness.servers.live import component
from harness.stores.recount import recount

from pubqueue import Publisher, Refused, Timings

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]
QUICK = Timings(answer=2, backoff_min=0.05, backoff_max=0.5)
NODES = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost", "bot@prosody.example", "bot@ejabberd.example"]
[node.options]
"x-queueing#event_log" = true
"""
LEVELS = ["acknowledged", "assured"]


server = behind_both("etl", "eve")


def publisher_at(server, service, jid, **settings):
    address = {"host": server.host, "port": server.c2s_port, "tls": "off"}
    return Publisher(
        jid, "secret", service=service, timings=QUICK, timeout=TIMEOUT, **address, **settings
    )


def published(folder):
    """Return how often each payload is in the queue."""
    return Counter(recount(folder / "pubqueue.db").of("jobs"))


@pytest.mark.covers("QS-003", "QS-013", "QS-024")
@pytest.mark.parametrize("level", LEVELS)
async def test_a_publisher_has_each_item_once_over_kills_of_the_service(server, level, tmp_path):
    lasting = {"level": level, "pending": tmp_path / "pending.db"}
    async with component(server, tmp_path, NODES) as program, asyncio.timeout(TIMEOUT):
        async with publisher_at(server, server.component, "etl@localhost", **lasting) as publisher:
            for first in (0, 20):
                publishing = asyncio.create_task(
                    publisher.publish_many("jobs", range(first, first + 20))
                )
                await until(lambda: publisher.pending() or publishing.done())  # noqa: B023  # awaited here
                await program.kill()
                await program.start()
                await publishing
            assert publisher.pending() == []
        await program.kill()
        assert len(published(tmp_path)) == 40
        await program.start()


@pytest.mark.covers("QS-020")
async def test_a_stranger_at_another_server_is_refused_until_it_has_an_affiliation(tmp_path):
    async with federation() as (home, far):
        await far.account("bot", "secret")
        jid = f"bot@{far.domain}"
        nodes = NODES.replace(f'"{jid}"', '"nobody@localhost"')
        async with (
            component(home, tmp_path, nodes),
            asyncio.timeout(TIMEOUT),
            publisher_at(far, home.component, jid, level="assured") as publisher,
        ):
            with pytest.raises(Refused, match="not-allowed"):
                await publisher.publish("jobs", {})
        async with component(home, tmp_path, NODES) as program, asyncio.timeout(TIMEOUT):
            async with publisher_at(far, home.component, jid, level="assured") as publisher:
                await publisher.publish_many("jobs", range(10))
            await program.stop()
            assert len(published(tmp_path)) == 10
