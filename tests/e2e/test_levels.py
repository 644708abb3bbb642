"""`pubqueue publish --level` and `pubqueue worker --level`, against a scripted service behind a real Prosody."""

import asyncio

import pytest
import pytest_asyncio
from harness.operators.at_a_terminal import Operator, Said
from harness.patience import TIMEOUT
from harness.servers.qos_service import QosService
from harness.servers.queue_service import answer, refuse

from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]
PUBLISH = ("publish", "jobs", "{}", "--level")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server():
    async with Prosody() as one:
        await one.account("root", "secret")
        yield one


@pytest.fixture
def operator(server):
    return Operator(server)


@pytest_asyncio.fixture(loop_scope="module")
async def service(server):
    async with QosService(server.component_port, server.secret) as scripted:
        yield scripted


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("unacknowledged", "i1 was sent to jobs.\n"),
        ("acknowledged", "i1 was received for jobs.\n"),
        ("assured", "i1 is in jobs.\n"),
    ],
)
async def test_an_item_is_published_at_its_level(operator, service, level, said):
    assert await operator.does("publish", "jobs", "{}", "--id", "i1", "--level", level) == said
    if level == "unacknowledged":
        assert (await service.next("other")).find(".//{*}item").get("id") == "i1"
    else:
        assert service.queue == ["i1"]


async def test_lines_are_published_at_a_level(operator, service, tmp_path):
    (tmp_path / "lines").write_text("1\n2\n3\n")
    words = ("--lines", "--id-prefix", "n", "--level", "assured")
    said = await operator.does("publish", "jobs", f"@{tmp_path}/lines", *words)
    assert said == "3 items of jobs confirmed.\n"
    assert sorted(service.queue) == ["n1", "n2", "n3"]


async def test_what_is_refused_is_one_sentence(operator, service):
    wrong = "pubqueue: level is 'twice'; it takes one of unacknowledged, acknowledged, assured.\n"
    assert await operator.says(*PUBLISH, "twice") == Said(2, "", wrong)
    service.script["deliver"] = lambda iq: [refuse(iq, "item-not-found")]
    missing = "pubqueue: queue.localhost has no node 'jobs'.\n"
    assert await operator.says(*PUBLISH, "assured") == Said(1, "", missing)
    service.script["query"] = lambda iq: [answer(iq, "")]
    said = await operator.says(*PUBLISH, "assured")
    assert (said.code, "queue.localhost does not offer urn:xmpp:qos" in said.err) == (1, True)


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_each_process_of_a_worker_asks_for_the_level(operator, service, tmp_path, processes):
    (tmp_path / "app.py").write_text("async def handle(item):\n    pass\n")
    words = ("--node", "jobs", "--level", "acknowledged", "--processes", processes)
    async with operator.running("worker", "app:handle", *words, PYTHONPATH=str(tmp_path)) as worker:
        present = 0
        while present < int(processes):  # presence follows the answer to the subscription
            stanza = await service.next("subscribe", "available")
            level = stanza.findtext(".//{*}field[@var='x-queueing#qos']/{*}value")
            assert level == (None if stanza.tag.endswith("presence") else "acknowledged")
            present += stanza.tag.endswith("presence")
        worker.terminate()
        async with asyncio.timeout(TIMEOUT):
            assert await worker.wait() == 0


async def test_a_worker_with_a_level_that_is_none_is_one_sentence(operator, tmp_path):
    said = await operator.says("worker", "app:handle", "--node", "jobs", "--level", "twice")
    assert (said.code, said.out) == (2, "")
    assert "level is 'twice'; it takes one of unacknowledged, acknowledged, assured" in said.err
