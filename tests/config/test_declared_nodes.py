"""The nodes of the configuration file, start after start: brought to what it says, or told."""

import pytest
from harness.batches.queue_requests import publishes
from structlog.testing import capture_logs

from pubqueue.config.nodes import Comparison, bring_nodes
from pubqueue.config.settings import NodeSettings, Settings
from pubqueue.engine.batch import Committer
from pubqueue.engine.listings import AffiliationsOf, Nodes
from pubqueue.faces.checks import ConfigError
from pubqueue.model.entities import AccessModel, Affiliation, Jid, NodeName, Principal
from pubqueue.rules.declare import OPEN_TO_ALL
from pubqueue.rules.nodeconfig import Settings as Wanted
from pubqueue.rules.nodes import Configure, Create
from pubqueue.stores import store_at
from pubqueue.wiring.serving import queue

JOBS = NodeName("jobs")
SERVICE = Principal(Jid("queue.example.org"), admin=True)


def settings(folder, *nodes):
    store = f"sqlite:///{folder}/queue.db"
    return Settings(jid="queue.example.org", secret="s", store=store, node=nodes)


def jobs(*, queueing=True, **said):
    options = {f"x-queueing#{name}": value for name, value in said.pop("set", {}).items()}
    return NodeSettings("jobs", queueing=queueing, options=options | said.pop("form", {}), **said)


async def look(asked, job):
    store = store_at(asked.store)
    await store.open()
    try:
        return await store.read(job)
    finally:
        await store.close()


async def started(asked, *requests):
    """Start and stop with these settings; return what was logged of nodes, and the nodes by name."""
    with capture_logs() as logged:
        async with queue(asked) as broker:
            for request in requests:
                await broker.handle(request)
    nodes = await look(asked, lambda tx: tx.page(Nodes(), None, 100))
    reported = [line for line in logged if line["event"].startswith("node.")]
    return reported, {node.name: node.config for node in nodes}


async def compared(asked):
    return (await look(asked, Comparison(asked.node, SERVICE).lines))[1]


async def test_a_fault_while_they_are_brought_ends_the_start(tmp_path, monkeypatch):
    def breaks(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Committer, "work_in", breaks)
    with pytest.raises(ConfigError, match="internal_fault"):
        await started(settings(tmp_path, jobs()))
    monkeypatch.undo()
    assert await started(settings(tmp_path, jobs()))


async def test_another_lock_timeout_is_adopted_and_reported(tmp_path):
    reported, _ = await started(settings(tmp_path, jobs(set={"lock_timeout": 60})))
    assert [line["event"] for line in reported] == ["node.made"]
    after = settings(tmp_path, jobs(set={"lock_timeout": 120}))
    assert await compared(after) == ["node 'jobs': x-queueing#lock_timeout is 60, will be 120"]
    reported, nodes = await started(after)
    assert nodes["jobs"].lock_timeout == 120
    words = {"node": "jobs", "what": "x-queueing#lock_timeout", "stored": "60", "declared": "120"}
    assert reported == [{"event": "node.changed", "log_level": "info"} | words]
    assert await started(after) == ([], nodes)
    assert await compared(after) == []


async def test_members_and_outcasts_are_what_the_file_says(tmp_path):
    await started(settings(tmp_path, jobs(members=("bot@x", "old@x"))))
    after = settings(tmp_path, jobs(members=("bot@x", "new@x"), outcasts=("old@x",)))
    assert await compared(after) == [
        "node 'jobs': old@x is member, will be outcast",
        "node 'jobs': new@x is none, will be member",
    ]
    await started(after)
    rows = await look(after, lambda tx: tx.page(AffiliationsOf(JOBS), None, 100))
    assert {row.account: row.affiliation for row in rows} == {
        "bot@x": Affiliation.MEMBER,
        "new@x": Affiliation.MEMBER,
        "old@x": Affiliation.OUTCAST,
    }


async def test_an_account_that_the_file_leaves_out_keeps_its_rights_and_is_reported(tmp_path):
    await started(settings(tmp_path, jobs(members=("bot@x", "old@x"))))
    after = settings(tmp_path, jobs(members=("bot@x",)))
    assert await compared(after) == [
        "node 'jobs': 1 accounts that the file does not name keep their rights"
    ]
    reported, _ = await started(after)
    assert [(line["event"], line["accounts"], line["first"]) for line in reported] == [
        ("node.others", 1, "old@x")
    ]


async def test_what_an_owner_has_configured_and_the_file_does_not_name_stays(tmp_path):
    asked = settings(tmp_path, jobs(set={"lock_timeout": 60}))
    await started(asked, Configure(SERVICE, JOBS, Wanted({"max_failures": 3})))
    reported, nodes = await started(asked)
    assert (reported, nodes["jobs"].max_failures) == ([], 3)


async def test_a_queue_in_use_that_is_declared_plain_stays_one_and_is_a_warning(tmp_path):
    await started(settings(tmp_path, jobs(publishers=("etl@x",))), publishes("i1"))
    after = settings(tmp_path, jobs(queueing=False, publishers=("etl@x",)))
    why = "can change only while the node has no items and no subscribers"
    assert await compared(after) == [
        f"node 'jobs': x-queueing#enabled stays 1, 0 is declared: {why}"
    ]
    reported, nodes = await started(after)
    assert nodes["jobs"].queueing
    words = {"node": "jobs", "what": "x-queueing#enabled", "stored": "1", "declared": "0"}
    assert reported == [{"event": "node.differs", "log_level": "warning", "why": why} | words]


async def test_a_plain_node_in_use_that_is_declared_a_queue_is_an_error_of_check_start_and_reload(
    tmp_path,
):
    plain = settings(tmp_path, jobs(queueing=False, publishers=("etl@x",)))
    await started(plain, publishes("i1"))
    after = settings(tmp_path, jobs(publishers=("etl@x",)))
    why = (
        "node 'jobs': x-queueing#enabled can change only while the node has no items and no"
        " subscribers: it is a plain node that queue.example.org has made"
    )
    with pytest.raises(ConfigError, match=why):
        await compared(after)
    with pytest.raises(ConfigError, match=why):
        await started(after)
    store = after.make_store()
    async with queue(plain) as broker:
        await store.open()
        with pytest.raises(ConfigError, match=why):  # as a reload has it, which tells the error
            await bring_nodes(broker, store, after.node, SERVICE)
        await store.close()


async def test_the_first_creator_of_a_declared_node_is_no_longer_its_owner(tmp_path):
    made = Create(Principal(Jid("eve@x"), admin=True), JOBS, Wanted({"queueing": True}))
    await started(settings(tmp_path), made)
    after = settings(tmp_path, jobs(owners=("boss@x",)))
    assert await compared(after) == [
        "node 'jobs': eve@x is owner, will be none",
        "node 'jobs': boss@x is none, will be owner",
    ]
    reported, _ = await started(after)
    assert [line["event"] for line in reported] == ["node.changed", "node.changed"]
    rows = await look(after, lambda tx: tx.page(AffiliationsOf(JOBS), None, 100))
    assert {row.account: row.affiliation for row in rows} == {"boss@x": Affiliation.OWNER}
    (node,) = await look(after, lambda tx: tx.page(Nodes(), None, 100))
    assert node.creator == "queue.example.org"
    assert (await started(after))[0] == []


async def test_a_queue_that_is_open_without_the_file_saying_so_is_a_warning(tmp_path):
    opened = settings(tmp_path, jobs(form={"pubsub#access_model": "open"}))
    reported, _ = await started(opened)
    assert await started(opened) == ([], _)
    after = settings(tmp_path, jobs())
    assert await compared(after) == [f"node 'jobs': pubsub#access_model stays open: {OPEN_TO_ALL}"]
    reported, nodes = await started(after)
    assert [(line["event"], line["log_level"]) for line in reported] == [
        ("node.differs", "warning")
    ]
    assert nodes["jobs"].access_model is AccessModel.OPEN


async def test_a_missing_dead_letter_node_is_reported_and_can_be_declared(tmp_path):
    lonely = settings(tmp_path, jobs(set={"dead_letter_node": "graves"}))
    assert await compared(lonely) == [
        "node 'jobs': will be created",
        "node 'jobs': its dead-letter node 'graves' does not exist; dead items stay where they are",
    ]
    reported, _ = await started(lonely)
    assert reported[1:] == [
        {
            "event": "node.dead_letter_node_missing",
            "log_level": "warning",
            "node": "jobs",
            "dead_letter_node": "graves",
        }
    ]
    both = settings(tmp_path, *lonely.node, NodeSettings("graves", queueing=True))
    assert await compared(both) == ["node 'graves': will be created"]
    reported, nodes = await started(both)
    assert [(line["event"], line["node"]) for line in reported] == [("node.made", "graves")]
    assert set(nodes) == {"jobs", "graves"}


async def test_what_does_not_fit_is_one_sentence_of_check_and_serve(tmp_path):
    wrong = settings(tmp_path, jobs(set={"lock_timeout": 0}))
    sentence = "node 'jobs': x-queueing#lock_timeout: a whole number from 1 to 31622400 is required"
    with pytest.raises(ConfigError, match=sentence):
        await compared(wrong)
    with pytest.raises(ConfigError, match=sentence):
        await started(wrong)


async def test_a_queue_is_fed_by_a_plain_node_that_stands_above_it(tmp_path):
    news = NodeSettings("news", queueing=False)
    fed = jobs(set={"source": "news"})
    with pytest.raises(
        ConfigError, match="node 'jobs': x-queueing#source: there is no node 'news'"
    ):
        await compared(settings(tmp_path, fed, news))
    both = settings(tmp_path, news, fed)
    assert await compared(both) == ["node 'news': will be created", "node 'jobs': will be created"]
    _, nodes = await started(both)
    assert nodes["jobs"].source == "news"
    assert [feed.queue for feed in nodes["news"].feeds] == ["jobs"]
    assert await compared(both) == []
    assert (await started(both))[0] == []
    assert await compared(settings(tmp_path, news, jobs(set={"source": ""}))) == [
        "node 'jobs': x-queueing#source is news, will be empty"
    ]
