"""A queue is run from a terminal, over XMPP, beside the service: each command behind Prosody and behind ejabberd."""

import asyncio
import json
import shlex
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio
from harness.clients.session import PUBSUB, condition, session
from harness.documents.documented import BLOCK, ROOT
from harness.operators.at_a_terminal import Operator
from harness.operators.terminal import terminal
from harness.patience import TIMEOUT
from harness.processes.program import PUBQUEUE, Program, write_config
from harness.servers.behind import behind_both
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component, listener
from harness.servers.tls import secure
from harness.starts import warm_start

from pubqueue.model.limits import Whose
from pubqueue.operations.dead import DEAD, REASONS
from pubqueue.operations.items import EVENTS, HISTORY, ITEMS, PEEK
from pubqueue.operations.nodes import MEMBERS, QUEUES
from pubqueue.operations.schedules import SCHEDULES, SHOW
from pubqueue.operations.service import OVERVIEW, SERVICE, WORKERS
from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

OURS = "urn:x-pubqueue:0"
JOB = "<job xmlns='urn:example:job'>one</job>"
CONFIG = """
admins = ["root@localhost"]

[[node]]
name = "jobs"
queueing = true
owners = ["boss@localhost"]
members = ["bee@localhost"]
options = { "x-queueing#event_log" = true, "x-queueing#backoff_min" = 0 }

[[node]]
name = "news"
owners = ["boss@localhost"]
"""
WINDOW = f"""
<pubsub xmlns='{PUBSUB}'><subscribe node='jobs' jid='bee@localhost/x'/>
<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'><value>1</value></field></x></options>
</pubsub>"""


def unlock(item, outcome, reason):
    return f"""
<pubsub xmlns='{PUBSUB}'><unlock xmlns='urn:xmpp:pubsub:queueing:0' node='jobs'><item id='{item}'/></unlock>
<outcome xmlns='{OURS}' type='{outcome}' reason='{reason}'/></pubsub>"""


server = behind_both("root", "boss", "bee", "eve")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prosody():
    async with Prosody() as running:
        for name in ("root", "boss", "bee"):
            await running.account(name, "secret")
        yield running


@asynccontextmanager
async def work(server, folder):
    """Serve a queue in which one item is dead, and a worker holds one that has failed."""
    async with AsyncExitStack() as stack:
        program = await stack.enter_async_context(component(server, folder, CONFIG))
        boss = await stack.enter_async_context(session(server, "boss@localhost/desk"))
        bee = await stack.enter_async_context(session(server, "bee@localhost/x"))
        assert condition(await boss.publish(a1=JOB, a2=JOB)) == "result"
        assert condition(await bee.ask("set", WINDOW)) == "result"
        for item, outcome, reason in (("a1", "reject", "no flight"), ("a2", "failed", "no seat")):
            await bee.next_message()  # the item
            assert condition(await bee.ask("set", unlock(item, outcome, reason))) == "result"
            await bee.next_message()  # that it is unlocked
        await bee.next_message()  # a2 once more
        yield program, boss, bee


def columns(operation):
    return [column.name for column in operation.columns]


async def test_everything_is_seen(server, tmp_path):
    root = Operator(server)
    async with work(server, tmp_path):
        jobs, news = await root.rows("queues")
        assert list(jobs) == columns(QUEUES)
        counts = {name: jobs[name] for name in ("node", "state", "depth", "in_flight", "dead")}
        assert counts == {
            "node": "jobs",
            "state": "running",
            "depth": 0,
            "in_flight": 1,
            "dead": 1,
        }
        assert (news["node"], news["state"]) == ("news", "no queue")

        (first,) = await root.rows("overview")
        assert list(first) == columns(OVERVIEW)
        assert (first["node"], first["dead"]) == ("jobs", 1)
        assert "dead items" in first["problems"]
        (plain,) = await root.rows("overview", "--plain", "--sort", "name")
        assert plain["node"] == "news"

        dead, held = await root.rows("items", "jobs")
        assert list(dead) == columns(ITEMS)
        assert (dead["id"], dead["state"], dead["error"]) == ("a1", "dead", "no flight")
        assert (held["id"], held["state"], held["error"]) == ("a2", "locked", "no seat")
        assert (held["failed"], held["holder"]) == (1, "bee@localhost/x")
        assert await root.rows("items", "jobs", "--state", "queued") == []

        (letter,) = await root.rows("dead", "jobs")
        assert list(letter) == columns(DEAD)
        assert (letter["id"], letter["error"]) == ("a1", "no flight")
        assert letter["last_holder"] == "bee@localhost/x"

        (worker,) = await root.rows("workers", "jobs")
        assert list(worker) == columns(WORKERS)
        assert (worker["jid"], worker["window"], worker["items"]) == ("bee@localhost/x", 1, ["a2"])

        (item,) = await root.rows("peek", "jobs", "a2")
        assert list(item) == columns(PEEK)
        assert (item["error"], item["payload"].count("one")) == ("no seat", 1)

        (about,) = await root.rows("service")
        assert list(about) == columns(SERVICE)
        assert (about["nodes"], about["clock_ahead"]) == (2, None)
        mine, *others = about["limits"]
        assert mine.startswith("an account: 2,048 requests in progress, 3 MiB in progress, ")
        assert len(others) == 2

        assert await root.rows("connections") == []
        gone = await root.does("end-connection", "--yes", "bee@queue.localhost/stomp.0.1")
        assert gone == "This instance has no connection bee@queue.localhost/stomp.0.1.\n"

        assert await root.rows("registration", "list") == []

        happened = await root.rows("events", "jobs", "--after", "0")
        assert list(happened[0]) == columns(EVENTS)
        assert [event["type"] for event in happened if event["item"] == "a1"] == [
            "published",
            "delivered",
            "unlocked",
            "dead",
        ]
        assert await root.rows("events", "--after", "0", "--max", "2") == happened[:2]

        (busiest,) = await root.rows("top")
        assert busiest["node"] == "jobs"
        assert busiest["in_flight"] == 1


async def test_the_history_of_an_item_is_that_of_the_event_log(server, tmp_path):
    root = Operator(server)
    async with work(server, tmp_path):
        happened = await root.rows("events", "jobs", "--after", "0")
        of_item = await root.rows("events", "--item", "a1")
        assert of_item == [event for event in happened if event["item"] == "a1"]
        steps = await root.rows("item", "jobs", "a1")
        assert list(steps[0]) == columns(HISTORY)
        assert [step["seq"] for step in steps] == [event["seq"] for event in of_item]


async def test_people_read_tables(server, tmp_path):
    root = Operator(server)
    async with work(server, tmp_path):
        lines = (await root.does("queues")).splitlines()
        assert lines[0].split()[:3] == ["Node", "State", "Waiting"]
        assert lines[1].split()[:6] == ["jobs", "running", "0", "0", "1", "1"]
        head, *lines = (await root.does("overview")).splitlines()
        assert head.startswith("1 queue, 1 with problems (")
        assert lines[1].split()[0] == "jobs"
        assert "no seat" in await root.does("items", "jobs")
        assert "no flight" in await root.does("dead", "jobs")
        assert (await root.does("dead")).startswith("1 dead item in 1 node.\n")
        peeked = await root.does("peek", "jobs", "a1")
        assert "Last error" in peeked
        assert "no flight" in peeked
        told = (await root.does("item", "jobs", "a1")).splitlines()
        assert (
            told[0] == "a1 in jobs is dead, delivered 1 time, failed 1 time; last error: no flight"
        )
        assert [line.split()[1] for line in told[2:]] == [
            "published",
            "delivered",
            "unlocked",
            "dead",
        ]
        assert "a2" in await root.does("workers", "jobs")
        assert "a1  dead" in await root.does("events")
        assert "1 queue, 0 waiting, 0 delayed, 1 in flight, 1 dead" in await root.does("top")
        said = await root.says("items", "jobs", "--max", "1")
        assert (said.code, said.out.count("a1"), said.out.count("a2")) == (0, 1, 0)
        (hint,) = said.err.splitlines()
        *_, place = hint.split()
        assert "a2" in await root.does("items", "jobs", "--after", place)


async def test_items_are_cancelled_and_dead_ones_handled_by_their_reasons(server, tmp_path):
    root = Operator(server)
    async with work(server, tmp_path) as (_, boss, bee):
        assert condition(await boss.publish(a3=JOB, a4=JOB)) == "result"
        (why,) = await root.rows("dead", "jobs", "--reasons")
        assert list(why) == columns(REASONS)
        assert (why["reason"], why["count"]) == ("no flight", 1)
        assert "no flight" in await root.does("dead", "jobs", "--reasons")
        assert await root.rows("dead", "jobs", "--reason", "no seat") == []
        assert [row["id"] for row in await root.rows("dead", "jobs", "--reason", "no *")] == ["a1"]

        said = await root.says("cancel", "--yes", "jobs", "a2", "a3", "gone", "--json")
        done = json.loads(said.out)
        assert (said.code, done["count"], done["in_flight"]) == (1, 2, 1)
        assert done["missing"] == ["gone"]
        assert (await bee.next_message()).find(f".//{{{PUBSUB}#event}}retract").get("id") == "a2"
        own = await Operator(server, "boss").says("cancel", "--yes", "jobs", "a4")
        assert (own.code, own.out.startswith("1 item of jobs cancelled.")) == (0, True)
        refused = await Operator(server, "bee").says("cancel", "--yes", "jobs", "a1")
        assert (refused.code, refused.out) == (1, "")

        (revived,) = await root.rows("redrive", "jobs", "--reason", "no bed*", "--yes")
        assert revived["count"] == 0
        refused = await root.says("discard", "jobs", "--reason", "no *")
        assert refused.code == 2
        assert "Pass --yes to confirm" in refused.err
        (gone,) = await root.rows("discard", "jobs", "--reason", "no *", "--yes")
        assert (gone["done"], gone["count"], gone["missing"]) == ("discard", 1, [])
        missed = await root.says("discard", "jobs", "a1", "--yes")
        assert (missed.code, "Not among the dead: a1." in missed.out) == (1, True)
        assert [row["id"] for row in await root.rows("items", "jobs")] == []


async def test_operations_on_a_queue_are_logged_with_their_user(server, tmp_path):
    root = Operator(server)
    async with work(server, tmp_path) as (program, boss, bee):
        assert await root.does("pause", "jobs") == "jobs is paused.\n"
        assert (await root.rows("queues"))[0]["state"] == "paused"
        assert (await root.rows("release", "--yes", "jobs", "a2"))[0]["count"] == 1
        await bee.next_message()  # that it is unlocked
        (done,) = await root.rows("redrive", "jobs", "--yes")
        assert (done["done"], done["count"]) == ("redrive", 1)
        assert [item["state"] for item in await root.rows("items", "jobs")] == ["queued", "queued"]

        await root.does("pause-publishing", "jobs")
        assert condition(await boss.publish(a3=JOB)) == "wait service-unavailable"
        await root.does("resume-publishing", "jobs")
        assert condition(await boss.publish(a3=JOB)) == "result"

        assert "has ended" in await root.does(
            "end-subscription", "--yes", "jobs", "bee@localhost/x"
        )
        assert await root.rows("workers", "jobs") == []
        await root.does("resume", "jobs")

        refused = await root.says("purge", "jobs")
        assert refused.code == 2
        assert "Pass --yes to confirm" in refused.err
        assert len(await root.rows("items", "jobs")) == 3
        assert await root.does("purge", "jobs", "--yes") == "3 items of jobs deleted.\n"
        (again,) = await root.rows("purge", "jobs", "--yes")
        assert (again["done"], again["count"]) == ("purge", 0)
        assert await root.rows("items", "jobs") == []
    lines = [line for line in program.log.splitlines() if "event=operation.performed " in line]
    said = [dict(word.split("=", 1) for word in shlex.split(line)) for line in lines]
    assert [(one["operation"], one["node"]) for one in said] == [
        (name, "jobs")
        for name in (
            *("pause", "release", "redrive", "pause-publishing", "resume-publishing"),
            *("end-subscription", "resume", "purge", "purge"),
        )
    ]
    assert {one["by"].partition("/")[0] for one in said} == {"root@localhost"}
    assert "urn:example:job" not in program.log


async def test_nodes_are_made_changed_and_deleted(server, tmp_path):
    root = Operator(server)
    async with component(server, tmp_path, CONFIG):
        made = await root.does("node", "create", "mail", "lock_timeout=60", "max_failures=3")
        assert made == "mail was created; you own it.\n"
        (settings,) = await root.rows("node", "settings", "mail")
        expected = {
            "queueing": True,
            "lock_timeout": 60,
            "max_failures": 3,
            "rate": None,
            "dead_letter_node": None,
            "access_model": "whitelist",
        }
        assert {name: settings[name] for name in expected} == expected
        said = await root.does("events", "mail")
        assert said == (
            "mail keeps no event log. Turn it on with: pubqueue node set mail event_log=1\n"
        )
        assert await root.rows("events", "mail") == []
        wrong = await root.says("node", "set", "mail", "lock_timeot=60")
        assert (wrong.code, "did you mean lock_timeout?" in wrong.err) == (2, True)
        await root.does("node", "set", "mail", "lock_timeout=90", "title=Out it goes")
        assert "90" in await root.does("node", "settings", "mail")
        assert "Out it goes" in await root.does("node", "settings", "mail")

        await root.does(
            *("node", "members", "mail", "--set", "bee@localhost=member"),
            *("--set", "boss@localhost=owner"),
        )
        rows = await root.rows("node", "members", "mail")
        assert list(rows[0]) == columns(MEMBERS)
        assert sorted((row["jid"], row["affiliation"]) for row in rows) == [
            ("bee@localhost", "member"),
            ("boss@localhost", "owner"),
            ("root@localhost", "owner"),
        ]
        for words in (
            ["node", "set", "mail", "lock_timeout"],
            ["node", "members", "mail", "--set", "bee@localhost=king"],
            ["node", "members", "mail", "--set", "b@d@f=member"],
            ["node", "delete", "mail"],
        ):
            assert (await root.says(*words)).code == 2, words
        wrong = await root.says("node", "set", "mail", "lock_timeout=soon")
        assert wrong.code == 2
        assert "lock_timeout" in wrong.err
        await root.does("node", "delete", "mail", "--yes")
        assert [row["node"] for row in await root.rows("queues")] == ["jobs", "news"]


NIGHTLY = """
[[schedule]]
name = "nightly"
cron = "0 3 * * *"
node = "jobs"
json = { task = "cleanup" }
"""
WEEKLY = (
    *("weekly", "--cron", "30 7 * * MON", "--node", "jobs", "--payload", '{"report": "week"}'),
    *("--header", "kind: report", "--ttl", "90.5", "--group", "reports", "--priority", "-2"),
)


async def test_schedules_are_made_changed_fired_and_removed(server, tmp_path):
    root = Operator(server)
    async with component(server, tmp_path, CONFIG + NIGHTLY) as program:
        assert await root.does("schedule", "add", *WEEKLY) == "The schedule weekly was created.\n"
        nightly, weekly = await root.rows("schedule", "list")
        assert list(weekly) == columns(SCHEDULES)
        assert [nightly["source"], weekly["source"]] == ["the configuration file", "a command"]
        made = {
            "cron": "30 7 * * MON",
            "zone": "UTC",
            "missed": "once",
            "priority": -2,
            "ttl": 90.5,
            "headers": ["kind: report"],
            "group": "reports",
        }
        assert {key: weekly[key] for key in made} == made
        assert await root.rows("schedule", "list", "--max", "1") == [nightly]
        assert await root.rows("schedule", "list", "--after", "nightly") == [weekly]

        given = ("--zone", "Europe/Berlin", "--ttl", "", "--header", "")
        await root.does("schedule", "change", "weekly", *given)
        (shown,) = await root.rows("schedule", "show", "weekly")
        assert list(shown) == columns(SHOW)
        assert {key: shown[key] for key in made} == made | {
            "zone": "Europe/Berlin",
            "ttl": None,
            "headers": [],
        }
        assert shown["payload"] == '<json xmlns="urn:xmpp:json:0">{"report":"week"}</json>'
        assert shown["by"].startswith("root@localhost")

        await root.does("schedule", "pause", "nightly")
        assert "paused" in await root.does("schedule", "list")
        await root.does("schedule", "resume", "nightly")
        fired = [(await root.rows("schedule", "fire", "weekly"))[0]["id"] for _ in range(2)]
        assert [row["id"] for row in await root.rows("items", "jobs")] == fired
        (item,) = await root.rows("peek", "jobs", fired[0])
        assert item["publisher"] == "queue.localhost"
        await root.does("schedule", "remove", "weekly", "--yes")
        assert [row["schedule"] for row in await root.rows("schedule", "list")] == ["nightly"]
    lines = [line for line in program.log.splitlines() if "event=operation.performed " in line]
    said = [dict(word.split("=", 1) for word in shlex.split(line)) for line in lines]
    assert [(one["operation"], one.get("schedule") or one["name"]) for one in said] == [
        ("schedule-add", "weekly"),
        ("schedule-change", "weekly"),
        ("schedule-pause", "nightly"),
        ("schedule-resume", "nightly"),
        ("schedule-fire", "weekly"),
        ("schedule-fire", "weekly"),
        ("schedule-remove", "weekly"),
    ]


async def test_a_payload_may_come_from_standard_input(prosody, tmp_path):
    root = Operator(prosody)
    async with component(prosody, tmp_path, CONFIG):
        process = await warm_start.pubqueue(
            *(
                "schedule",
                "add",
                "long",
                "--cron=0 3 * * *",
                "--node=jobs",
                "--payload=-",
            ),
            stdin=asyncio.subprocess.PIPE,
            env=root.environment,
        )
        async with asyncio.timeout(TIMEOUT):
            await process.communicate(b"<job xmlns='urn:example:job'>\n a &lt; b\n</job>\n")
        assert process.returncode == 0
        (shown,) = await root.rows("schedule", "show", "long")
    assert shown["payload"] == '<job xmlns="urn:example:job">\n a &lt; b\n</job>'


@pytest.mark.parametrize(
    ("asked", "code", "sentence"),
    [
        (({"password": "guess"}, ["queues"]), 1, "wrong name or password"),
        (({"account": "eve"}, ["queues"]), 1, "is not an administrator of queue.localhost"),
        (({"account": "eve"}, ["pause", "jobs"]), 1, "does not own jobs"),
        (({"account": "boss"}, ["service"]), 1, "boss@localhost is not an administrator"),
        (({"service": "nobody.localhost"}, ["queues"]), 1, "nobody.localhost"),
        (({}, ["items", "gone"]), 1, "has no node gone"),
        (({}, ["redrive", "jobs", "zz"]), 1, "jobs has no item zz."),
        (({}, ["release", "jobs", "zz", "--yes"]), 1, "jobs has no item zz."),
        (({}, ["peek", "jobs", "zz"]), 1, "there is no item zz in jobs"),
        (
            ({"account": "boss"}, ["schedule", "list"]),
            1,
            "boss@localhost is not an administrator of",
        ),
        (({}, ["schedule", "show", "gone"]), 1, "there is no schedule 'gone'"),
        (({}, ["schedule", "change", "gone", "--zone=UTC"]), 1, "there is no schedule 'gone'"),
        (({}, ["schedule", "add", *WEEKLY, "--node=gone"]), 1, "there is no node 'gone'"),
        (({}, ["schedule", "add", *WEEKLY, "--cron=61 * * * *"]), 2, "bad minute"),
        (({}, ["schedule", "add", *WEEKLY, "--zone=Mars"]), 2, "is not a known time zone"),
        (({}, ["schedule", "add", *WEEKLY, "--payload=odd"]), 2, "neither an XML element nor JSON"),
        (({}, ["schedule", "add", *WEEKLY, "--ttl=soon"]), 2, "ttl: a number"),
        (({}, ["schedule", "add", "weekly", "--cron=0 3 * * *"]), 2, "Missing option '--node'"),
        (({}, ["items", "jobs", "--state", "odd"]), 2, "--state"),
        (({}, ["items", "jobs", "--after", "odd"]), 2, "after: a whole number"),
        (({}, ["queues", "--url", "ftp://root@localhost"]), 2, "is not of the form"),
        (({}, ["queues", "--url", "xmpp://root:pw@localhost/q"]), 2, "has a password in it"),
    ],
)
async def test_what_does_not_work_is_one_sentence(prosody, tmp_path, asked, code, sentence):
    who, words = asked
    await prosody.account("eve", "secret")
    async with component(prosody, tmp_path, CONFIG):
        said = await Operator(prosody, **who).says(*words)
    assert (said.code, said.out) == (code, "")
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1 or "Usage" in said.err


async def test_a_command_without_a_place_explains_how_to_name_one(prosody):
    said = await Operator(prosody).says("queues", PUBQUEUE_URL="")
    assert said.code == 2
    assert "PUBQUEUE_URL" in said.err


async def test_an_owner_runs_its_own_nodes(server, tmp_path):
    boss = Operator(server, "boss")
    async with work(server, tmp_path):
        assert [row["node"] for row in await boss.rows("queues")] == ["jobs", "news"]
        assert (await boss.rows("redrive", "jobs", "a1"))[0]["count"] == 1


MANY = 10_000


async def test_ten_thousand_items_are_read_in_pages(prosody, tmp_path):
    root = Operator(prosody)
    async with component(prosody, tmp_path, CONFIG), session(prosody, "boss@localhost/d") as boss:
        for first in range(0, MANY, 500):
            ids = {f"i{number}": JOB for number in range(first, first + 500)}
            assert condition(await boss.publish(**ids)) == "result"
        rows = await root.rows("items", "jobs")
        assert [row["id"] for row in rows] == [f"i{number}" for number in range(MANY)]
        (jobs, _) = await root.rows("queues")
        assert jobs["depth"] == MANY
        some = await root.rows("items", "jobs", "--max", "700", "--after", str(rows[99]["seq"]))
        assert some == rows[100:800]
        assert len((await root.does("items", "jobs")).splitlines()) == 101


async def test_events_are_followed_as_they_happen(server, tmp_path):
    root = Operator(server)
    async with (
        work(server, tmp_path) as (_, boss, _bee),
        root.running("events", "--follow", "--after", "0") as following,
    ):
        await root.shown(following, "a2  delivered")
        assert condition(await boss.publish(later=JOB)) == "result"
        await root.shown(following, "later  published")
        following.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(following.wait(), TIMEOUT) == 0
        assert await following.stderr.read() == b""


async def test_top_is_a_screen_that_a_key_ends(prosody, tmp_path, monkeypatch):
    root = Operator(prosody)
    for name in ("PUBQUEUE_URL", "PUBQUEUE_PASSWORD"):
        monkeypatch.setenv(name, root.environment[name])

    def watch(publish):
        with terminal(f"{PUBQUEUE} top --every 0.2", tmp_path) as screen:
            screen.until("1 queue, 0 waiting", "jobs", "press q to quit")
            publish()
            screen.until("1 queue, 1 waiting")
            screen.press("q")
            assert screen.ended() == 0

    loop = asyncio.get_running_loop()
    async with component(prosody, tmp_path, CONFIG), session(prosody, "boss@localhost/d") as boss:

        def publish():
            asyncio.run_coroutine_threadsafe(boss.publish(a1=JOB), loop).result(TIMEOUT)

        await asyncio.to_thread(watch, publish)


# --- doctor ----------------------------------------------------------------------------------------


async def test_a_doctor_finds_what_is_wrong(server, tmp_path):
    root = Operator(server)
    async with work(server, tmp_path):
        rows = await root.rows("doctor")
        limits = [row["says"] for row in rows if row["about"] == "limits"]
        assert [says.partition(":")[0] for says in limits] == [whose.value for whose in Whose]
        assert "2,048 requests in progress, 3 MiB in progress, 8,192 items in progress" in limits[0]
        found = {row["about"]: row for row in rows}
        assert list(found["login"]) == ["level", "about", "says"]
        assert found["dead items"]["level"] == "look"
        assert "jobs (1)" in found["dead items"]["says"]
        for fine in (
            "login",
            "service",
            "clients",
            "queues",
            "workers",
            "event log",
            "service clock",
            "store clock",
        ):
            assert found[fine]["level"] == "good", found[fine]
        assert {"TLS", "rate", "server clock"} <= found.keys()
        await root.does("node", "set", "jobs", "dead_letter_node=graves")
        assert found["quotas"]["says"].startswith(
            "an account may have 10000 nodes, 4000000 items, "
        )
        said = await root.says("doctor")
        assert said.code == 1
        assert "bad           dead-letter nodes: missing: graves of jobs" in said.out.splitlines()
        await root.does("node", "create", "graves")
        assert (await root.says("doctor")).code == 0


def published(item, beside):
    made = f"<publish node='jobs'><item id='{item}'>{JOB}</item></publish>"
    return f"<pubsub xmlns='{PUBSUB}'>{made}{beside}</pubsub>"


def retract(item):
    return f"<pubsub xmlns='{PUBSUB}'><retract node='jobs'><item id='{item}'/></retract></pubsub>"


async def test_a_join_that_waits_for_a_dead_item_is_seen_and_goes_on(server, tmp_path):
    root = Operator(server)
    async with work(server, tmp_path) as (_, boss, bee):
        join = f"<hold xmlns='{OURS}'><signal name='now'/><join/></hold>"
        member = f"<joins xmlns='{OURS}' node='jobs' item='r1'/>"
        assert condition(await boss.ask("set", published("r1", join))) == "result"
        assert condition(await boss.ask("set", published("m1", member))) == "result"
        assert condition(await bee.ask("set", retract("a2"))) == "result"
        await bee.next_message()  # that a2 is retracted
        await bee.next_message()  # m1
        assert condition(await bee.ask("set", unlock("m1", "reject", "no ink"))) == "result"
        await bee.next_message()  # that it is unlocked

        (row,) = await root.rows("items", "jobs", "--state", "held")
        assert (row["id"], row["members"], row["dead_members"], row["open"]) == ("r1", 1, 1, True)
        assert row["waits_for"] == ["now", "1 member, 1 dead and those to be added"]
        assert "1 member, 1 dead" in await root.does("items", "jobs", "--state", "held")
        (finding,) = [row for row in await root.rows("doctor") if row["about"] == "joins"]
        assert finding["level"] == "look"
        assert finding["says"] == "these items wait for dead ones: r1 of jobs (1)"

        assert "r1 gets no more members" in await root.does("close-join", "jobs", "r1")
        await root.does("redrive", "jobs", "m1", "--yes")
        await bee.next_message()  # m1 once more
        assert condition(await bee.ask("set", retract("m1"))) == "result"
        wait = None
        while wait is None:
            wait = (await bee.next_message()).find(f".//{{{OURS}}}wait")
        assert wait.get("woken") == "count"


async def test_a_doctor_on_the_host_looks_at_the_store(prosody, tmp_path):
    root = Operator(prosody)
    async with component(prosody, tmp_path, CONFIG):
        config = tmp_path / "pubqueue.toml"
        rows = await root.rows("doctor", "--config", str(config))
        found = {row["about"]: row for row in rows}
        for fine in ("configuration", "component port", "store"):
            assert found[fine]["level"] == "good", found[fine]
        assert found["disk"]["says"].endswith(str(tmp_path / "pubqueue.db"))
        config.write_text("nonsense = 1\n")
        said = await root.says("doctor", "--config", str(config))
        assert said.code == 1
        assert said.out.startswith("bad           configuration: ")


async def test_a_doctor_sees_a_damaged_store_and_a_service_that_is_not_there(prosody, tmp_path):
    root = Operator(prosody)
    config = write_config(tmp_path, listener(prosody), CONFIG)
    (tmp_path / "pubqueue.db").write_bytes(b"SQLite format 3\0" + b"\1" * 8192)
    said = await root.says("doctor", "--config", str(config))
    assert said.code == 1
    assert "bad           store: " in said.out
    assert "bad           queues: queue.localhost is unavailable" in said.out


async def test_a_doctor_repeats_the_doubts_about_a_database(prosody, tmp_path, postgres):
    root = Operator(prosody)
    async with component(prosody, tmp_path, CONFIG, store=postgres.address):
        rows = await root.rows("doctor", "--config", str(tmp_path / "pubqueue.toml"))
        says = [row["says"] for row in rows if row["about"] == "store"]
        assert "the server has fsync off: a loss of power may destroy everything" in says
        (clock,) = [row for row in rows if row["about"] == "store clock"]
        assert (
            clock["level"],
            "the clocks of service and store differ by up to" in clock["says"],
        ) == ("good", True)


async def test_doctor_reports_tls_and_a_server_that_limits_an_account(tmp_path):
    async with Prosody(modules=("tls", "limits")) as prosody:
        await prosody.account("root", "secret")
        authority = await secure(prosody, 'limits = { c2s = { rate = "10kb/s" } }\n')
        root = Operator(prosody)
        url = root.url.replace("tls=off", f"ca_file={authority}")
        async with component(prosody, tmp_path, CONFIG):
            rows = (await root.says("doctor", "--json", "--url", url)).rows
    found = {row["about"]: row for row in rows}
    assert found["TLS"]["level"] == "good"
    assert found["TLS"]["says"].startswith("TLSv1.")
    assert found["rate"]["level"] == "look"
    assert "rate limits slow this account down" in found["rate"]["says"]
    assert "stanza size" not in found


# --- two instances, and shells ---------------------------------------------------------------------


async def test_two_instances_are_run_as_one(tmp_path, postgres):
    """ejabberd gives each stanza to either of them: an operation is one stanza, so it is the same whom it meets."""
    folders = [tmp_path / name for name in ("one", "two")]
    async with Ejabberd() as ejabberd, AsyncExitStack() as stack:
        await ejabberd.account("root", "secret")
        for folder in folders:
            folder.mkdir()
            config = write_config(folder, listener(ejabberd), CONFIG, store=postgres.address)
            await stack.enter_async_context(Program(config))
        root = Operator(ejabberd)
        for turn in range(4):
            word, state = (("pause", "paused"), ("resume", "running"))[turn % 2]
            await root.does(word, "jobs")
            assert (await root.rows("queues"))[0]["state"] == state


def patient(folder):
    """Return `pubqueue` whose completion waits for the service as long as a test does, and not for two seconds."""
    program = folder / "pubqueue"
    lines = (
        f"#!{sys.executable} -I",
        "from pubqueue.cli import main, session",
        f"session.QUICK = {TIMEOUT}",
        'main(prog_name="pubqueue")',
    )
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    return program


async def test_a_shell_completes_names_of_nodes(prosody, tmp_path):
    root = Operator(prosody, program=patient(tmp_path))
    async with component(prosody, tmp_path, CONFIG):
        words = {"COMP_WORDS": "pubqueue pause j", "COMP_CWORD": "2"}
        said = await root.says(_PUBQUEUE_COMPLETE="bash_complete", **words)
        assert said.out.split() == ["plain,jobs"]
        words = {"COMP_WORDS": "pubqueue pause ", "COMP_CWORD": "2"}
        said = await root.says(_PUBQUEUE_COMPLETE="bash_complete", **words)
        assert said.out.split() == ["plain,jobs", "plain,news"]
    words = {"COMP_WORDS": "pubqueue pause j", "COMP_CWORD": "2", "PUBQUEUE_PASSWORD": "guess"}
    said = await root.says(_PUBQUEUE_COMPLETE="bash_complete", **words)
    assert (said.out.split(), said.err) == ([], "")


async def test_what_the_documentation_types_can_be_typed(prosody, tmp_path):
    """Each line of the page that begins with `pubqueue`, in its order."""
    root = Operator(prosody)
    page = (ROOT / "docs" / "operations" / "command-line.md").read_text()
    lines = [
        line for kind, text in BLOCK.findall(page) if kind == "sh" for line in text.split("\n")
    ]
    (tmp_path / "job.xml").write_text("<job xmlns='urn:example:job'/>")
    here = [line.replace("@job.xml", f"@{tmp_path / 'job.xml'}") for line in lines]
    typed = [shlex.split(line)[1:] for line in here if line.startswith("pubqueue ")]
    assert len(typed) > 20
    async with work(prosody, tmp_path) as (_, boss, bee):
        assert condition(await bee.ask("set", unlock("a2", "reject", "no seat"))) == "result"
        assert condition(await boss.publish(i1=JOB, i2=JOB)) == "result"
        await bee.next_message()  # that a2 is unlocked
        await bee.next_message()  # the item
        assert condition(await bee.ask("set", unlock("i1", "reject", "no seat"))) == "result"
        for words in typed:
            await root.does(*words)


async def test_each_question_before_something_is_lost_has_the_numbers(
    prosody, tmp_path, monkeypatch
):
    root = Operator(prosody)
    for name in ("PUBQUEUE_URL", "PUBQUEUE_PASSWORD"):
        monkeypatch.setenv(name, root.environment[name])
    questions = {
        "redrive jobs": "1 dead item of jobs will be requeued.",
        "discard jobs --reason 'no *'": "1 dead item of jobs that died of 'no *' will be deleted.",
        "discard jobs a1": "1 named dead item of jobs will be deleted.",
        "purge jobs": "jobs has 2 items. All items of jobs will be deleted",
        "node delete jobs": "jobs has 2 items. jobs will be deleted with all its items",
        "node delete --match E": "1 node with 0 items will be deleted: news.",
    }

    def answer_no():
        for command, question in questions.items():
            with terminal(f"{PUBQUEUE} {command}", tmp_path) as screen:
                screen.until(question, "Continue?")
                screen.type("n")
                screen.until("not confirmed; nothing was done")

    async with work(prosody, tmp_path):
        await asyncio.to_thread(answer_no)
        assert len(await root.rows("items", "jobs")) == 2


async def test_nodes_are_listed_and_deleted_by_a_part_of_their_names(prosody, tmp_path):
    root = Operator(prosody)
    async with component(prosody, tmp_path, CONFIG):
        assert [row["node"] for row in await root.rows("queues", "--match", "OB")] == ["jobs"]
        assert await root.rows("queues", "--match", "zz") == []
        for words in ([], ["jobs", "--match", "job"]):
            assert (await root.says("node", "delete", "--yes", *words)).code == 2
        assert (await root.says("node", "delete", "--match", "zz", "--yes")).code == 1
        for name in ("job-1", "job-2"):
            await root.does("node", "create", name)
        said = await root.does("node", "delete", "--match", "job-", "--yes")
        assert said == "job-1 is deleted.\njob-2 is deleted.\n"
        assert [row["node"] for row in await root.rows("queues")] == ["jobs", "news"]
