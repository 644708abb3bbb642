"""The schedules of the configuration file: what they mean, what cannot be meant, what `check` says, and what a reload does."""

import asyncio
import os
import signal
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from harness.patience import LOOK, until
from harness.processes.program import Program, write_config
from harness.processes.ticking import ticks
from harness.servers.stub_server import StubServer
from harness.starts import warm_start

from pubqueue import cli
from pubqueue.config.loading import load
from pubqueue.config.nodes import Preview, read_all, read_schedule
from pubqueue.config.settings import ScheduleSettings
from pubqueue.engine.listings import Schedules
from pubqueue.faces.checks import ConfigError
from pubqueue.model.entities import Millis, seconds
from pubqueue.model.schedules import Definition, Missed
from pubqueue.stores.sqlite.in_memory import MemoryStore

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


def settings(text):
    found = tomllib.loads(text)
    return [ScheduleSettings(**one) for one in found["schedule"]]


def test_the_schedules_of_the_page_mean_this():
    assert read_all(settings(documented())) == (
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
    return await store.read(Preview(settings(text), declared, SUNDAY).lines)


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
