"""The nodes and schedules of the configuration file, start after start: brought to what it says, or told."""

import asyncio
import os
import signal
import tomllib
from pathlib import Path

import pytest
from bench.pause_loads_reading import lay_many_nodes
from click.testing import CliRunner
from harness.batches.queue_requests import publishes
from harness.patience import LOOK, until
from harness.processes.program import Program, write_config
from harness.processes.ticking import ticks
from harness.servers.stub_server import StubServer
from harness.starts import warm_start
from structlog.testing import capture_logs

from pubqueue import cli
from pubqueue.config.loading import load
from pubqueue.config.nodes import Comparison, Preview, bring_nodes, read_all, read_schedule
from pubqueue.config.settings import NodeSettings, ScheduleSettings, Settings
from pubqueue.engine.batch import Committer
from pubqueue.engine.context import now
from pubqueue.engine.listings import AffiliationsOf, Nodes, Schedules
from pubqueue.engine.ports import UnreachableStoreError
from pubqueue.faces.checks import ConfigError
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Jid,
    Millis,
    NodeName,
    Principal,
    seconds,
)
from pubqueue.model.schedules import Definition, Missed
from pubqueue.rules.declare import OPEN_TO_ALL
from pubqueue.rules.nodeconfig import Settings as Wanted
from pubqueue.rules.nodes import Configure, Create
from pubqueue.stores import store_at
from pubqueue.stores.sql import columns
from pubqueue.stores.sqlite.in_memory import MemoryStore
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


async def test_a_fault_while_they_are_brought_is_no_error_of_the_file(tmp_path, monkeypatch):
    def breaks(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Committer, "work_in", breaks)
    with pytest.raises(UnreachableStoreError, match="could not be stored"):
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


async def test_check_looks_in_pages_for_nodes_without_their_dead_letter_node(tmp_path, monkeypatch):
    lost = Wanted({"queueing": True, "dead_letter_node": "graves"})
    creator = Principal(Jid("boss@x"), admin=True)
    names = [NodeName(f"n{number}") for number in range(5)]
    reported, _ = await started(
        settings(tmp_path), *(Create(creator, name, lost) for name in names)
    )
    assert reported == [], "the log of a start is about the nodes of the file"
    monkeypatch.setattr("pubqueue.config.nodes.PAGE", 2)
    asked = settings(tmp_path, jobs(set={"dead_letter_node": "n3"}))
    many, lines = await look(asked, Comparison(asked.node, SERVICE).lines)
    missing = "its dead-letter node 'graves' does not exist; dead items stay where they are"
    assert (many, lines) == (
        5,
        ["node 'jobs': will be created", *(f"node {name!r}: {missing}" for name in names)],
    )
    both = settings(tmp_path, NodeSettings("graves", queueing=True))
    assert await compared(both) == ["node 'graves': will be created"]


async def test_a_start_reads_no_more_nodes_because_of_all_others(tmp_path, monkeypatch):
    asked = settings(tmp_path, jobs(set={"dead_letter_node": "n000001"}))
    store = asked.make_store()
    await store.open()
    await lay_many_nodes(store, 1_000, now())
    await store.close()
    made, unpack = [], columns.unpacked_config

    def counting(text):
        made.append(text)
        return unpack(text)

    monkeypatch.setattr(columns, "unpacked_config", counting)
    await look(asked, Comparison(asked.node, SERVICE).of_declared)
    assert len(made) <= 2, "of the file, and the one that it names"
    async with queue(asked):
        # from now on the reaper looks after the items of all nodes, slice by slice beside what is served
        at_once = len(made)
    assert at_once <= 12, "and nothing else is read before it serves"


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


PAGE = Path(__file__).parents[2] / "docs/how-to/schedules.md"
SUNDAY = Millis(1_795_348_800_000)
"""2026-11-22T12:00:00Z."""
NIGHTLY = """
[[schedule]]
name = "nightly"
cron = "0 3 * * *"
node = "jobs"
json = 1
"""


def documented():
    return PAGE.read_text().split("```toml\n")[1].partition("```")[0]


def schedules(text):
    found = tomllib.loads(text)
    return [ScheduleSettings(**one) for one in found["schedule"]]


def test_the_schedules_of_the_page_mean_this():
    assert read_all(schedules(documented())) == (
        Definition(
            name="nightly",
            cron="0 3 * * *",
            zone="Europe/Berlin",
            node="jobs",
            payload=b'<job xmlns="urn:example:job">cleanup</job>',
            type="urn:example:job",
        ),
        Definition(
            name="weekly",
            cron="30 7 * * MON",
            zone="UTC",
            node="jobs",
            payload=b'<json xmlns="urn:xmpp:json:0">{"report":"week","to":["sales","stock"]}</json>',
            type="urn:xmpp:json:0",
            priority=5,
            ttl=seconds(86_400),
            headers=(("kind", "report"),),
            missed=Missed.SKIP,
            group="reports",
        ),
    )


async def lines(text, declared=()):
    store = MemoryStore()
    await store.open()
    return await store.read(Preview(schedules(text), declared, SUNDAY).lines)


async def test_check_prints_the_next_three_times_as_the_page_does():
    said = PAGE.read_text().split("```\n")[2].partition("```")[0]
    assert said.startswith("schedule 'nightly'")
    assert (await lines(documented(), {"jobs"}))[:1] == said.splitlines()


async def test_check_reports_that_a_node_is_not_there_and_what_is_not_enabled():
    assert await lines(NIGHTLY + "enabled = false") == [
        "schedule 'nightly': not enabled",
        "schedule 'nightly': its node 'jobs' does not exist; the schedule waits until it does",
    ]


UNFIT = [
    ({"cron": "0 3 * *"}, "cron '0 3 * *' must have five fields"),
    ({"cron": "0 25 * * *"}, "cron '0 25 * * *': bad hour"),
    ({"zone": "Mars/Olympus"}, "zone 'Mars/Olympus' is not a known time zone"),
    ({"json": None}, "set either payload or json, not both"),
    ({"payload": "<job xmlns='urn:x'/>"}, "set either payload or json, not both"),
    ({"json": None, "payload": "<job>"}, "the payload is not an XML element"),
    ({"json": None, "payload": "<job/>"}, "the payload's element needs a namespace"),
    (
        {"json": None, "payload": "<!DOCTYPE a><a xmlns='urn:x'/>"},
        "the payload has a document type",
    ),
    (
        {"json": None, "payload": "<a xmlns='urn:x'>" * 101 + "</a>" * 101},
        "the payload's elements nest deeper than 100",
    ),
    ({"json": "\ufffe"}, "the payload cannot be JSON in XML"),
    ({"name": "a\nb"}, "name has to be 1 to 255 bytes"),
    ({"node": "a\nb"}, "node is not a valid NodeID"),
    ({"group": "a\nb"}, "group has to be 1 to 255 bytes"),
    ({"priority": 9_999_999}, "priority goes from"),
    ({"ttl": 1e12}, "ttl must be a number of seconds, up to a hundred years"),
    ({"headers": {"a": "x" * 20_000}}, "the headers of an item have at most"),
]


@pytest.mark.parametrize(("changes", "sentence"), UNFIT)
def test_what_cannot_be_meant_is_one_sentence(changes, sentence):
    known = {"name": "nightly", "cron": "0 3 * * *", "node": "jobs", "json": 1}
    with pytest.raises(ConfigError) as refused:
        read_schedule(ScheduleSettings(**(known | changes)))
    reported = str(refused.value)
    name = changes.get("name", "nightly")
    assert reported.startswith(f"schedule {name!r}: {sentence}")


@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (NIGHTLY * 2, "schedule 'nightly' is declared twice"),
        (NIGHTLY + "cronn = 1", "Object contains unknown field `cronn`"),
        (NIGHTLY + 'missed = "never"', "Invalid enum value 'never'"),
        (NIGHTLY + "ttl = 1e308", "Expected `float` <= 3162240000.0"),
        (NIGHTLY + "ttl = inf", "Expected `float` <= 3162240000.0"),
        (NIGHTLY + "ttl = nan", "Expected `float` >= 0"),
        (NIGHTLY + 'zone = "Mars"', "zone 'Mars' is not a known time zone"),
        (NIGHTLY.replace("0 3", "61 3"), "cron '61 3 * * *': bad minute"),
    ],
)
def test_serve_and_check_refuse_it_with_one_sentence_and_exit_with_2(
    tmp_path, command, text, sentence
):
    config = tmp_path / "pubqueue.toml"
    store = f"sqlite:///{tmp_path}/queue.db"
    config.write_text(f'jid = "queue.example.org"\nsecret = "s"\nstore = "{store}"\n{text}')
    result = CliRunner().invoke(cli.main, [command, "--config", str(config)])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("pubqueue: ")
    assert sentence in line


def test_too_many_are_refused():
    many = [ScheduleSettings(f"s{n}", "0 3 * * *", "jobs", json=1) for n in range(1_001)]
    with pytest.raises(ConfigError, match="there are 1001 schedules; up to 1000 are allowed"):
        read_all(many)


def test_the_page_s_file_is_good(tmp_path):
    (tmp_path / "secret").write_text("geheim")
    config = tmp_path / "pubqueue.toml"
    config.write_text(documented().replace("/etc/pubqueue", str(tmp_path)))
    assert [one.name for one in load(config, {}, {}).schedule] == ["nightly", "weekly"]


async def test_a_reload_follows_the_file(tmp_path):
    async with StubServer(secret="a secret") as server:
        config = write_config(tmp_path, server, NIGHTLY)
        async with Program(config) as program, ticks(f"sqlite:///{tmp_path}/pubqueue.db") as seen:
            await seen.miss("by-command", 0)
            assert (await seen.schedule("nightly")).definition.cron == "0 3 * * *"
            changed = NIGHTLY.replace("0 3", "0 4") + NIGHTLY.replace("nightly", "other")
            for text, event, names in (
                (changed, "schedule.changed", ["by-command", "nightly", "other"]),
                ("", "schedule.ended schedule=other", ["by-command"]),
            ):
                write_config(tmp_path, server, text)
                os.kill(program.pid, signal.SIGHUP)
                await reported(program, event)
                rows = await seen.read(lambda tx: tx.page(Schedules(), None, 9))
                assert [one.name for one in rows] == names


async def reported(program, words):
    await until(lambda: words in program.log, every=LOOK)


async def test_check_lists_each_schedule(tmp_path):
    async with StubServer(secret="a secret") as server:
        config = write_config(tmp_path, server, NIGHTLY)
        process = await warm_start.pubqueue(
            *("check", "--config", config), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    reported = [line for line in out.decode().splitlines() if line.startswith("schedule")]
    assert reported[0].count("T03:00:00Z") == 3
    assert reported[1:] == [
        "schedule 'nightly': its node 'jobs' does not exist; the schedule waits until it does"
    ]
