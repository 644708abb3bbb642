"""Each command over XMPP and over HTTP: the same output, the same sentences, the same exit codes, for every operation of the table."""

import re

import pytest
import pytest_asyncio
from harness.operators.at_a_terminal import Operator
from harness.servers.live import component
from harness.servers.users import RIGHT, table

from pubqueue import Admin, OperationRefused
from pubqueue.operations.table import OPERATIONS
from pubqueue_demo.prosody import Prosody, free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CONFIG = """
admins = ["root@localhost"]
"""

PREPARED = (
    ("node create {}", "create"),
    ("node create {}-plain --plain", ""),
    ("node set {} max_failures=3 event_log=1", "configure"),
    ("node settings {}", "settings"),
    ("node members {} --set bee@localhost=member", "affiliate"),
    ("node members {}", "members"),
    ("pause {}", "pause"),
    ("pause {}", ""),
    ("resume {}", "resume"),
    ("pause-publishing {}", "pause-publishing"),
    ("resume-publishing {}", "resume-publishing"),
    ("publish {} 1 --id a --priority 3", ""),
    ("publish {} 1 --id a --priority 3", ""),
    ("publish {} 2 --id b --delay 3600 --header kind:x --group g", ""),
    ("publish {} 2 --id b --delay 3600 --header kind:x --group g --json", ""),
    ("publish {} 3 --id c --ttl 0", ""),
    ("publish {} some-text --id t --type text/plain", ""),
    ("publish {} <job/> --id x", ""),
    ("publish {}-gone 1 --id a", ""),
    ("publish {} nothing", ""),
)
"""Commands, each with the operation that it performs, empty for a command that is another's again. {} is a name of the carrier."""

COMMANDS = (
    ("overview", "overview"),
    ("overview --json", ""),
    ("overview --sort name --max 1", ""),
    ("overview --sort upside-down", ""),
    ("queues", "queues"),
    ("queues --json", ""),
    ("queues --max 1", ""),
    ("top", ""),
    ("items {}", "items"),
    ("items {} --json", ""),
    ("items {} --max 1", ""),
    ("items {} --max 1 --json", ""),
    ("items {} --after x", ""),
    ("items {}-gone", ""),
    ("peek {} a", "peek"),
    ("peek {} b --json", ""),
    ("peek {} gone", ""),
    ("item {} a", "item"),
    ("item {} a --json", ""),
    ("item {} gone", ""),
    ("events {}", "events"),
    ("events {} --after 0 --max 3 --json", ""),
    ("dead {}", "dead"),
    ("dead {} --json", ""),
    ("dead {} --reasons", "reasons"),
    ("dead --match {}", "deaths"),
    ("dead --match {} --json", ""),
    ("redrive {} --yes", "redrive"),
    ("redrive {}", ""),
    ("discard {} gone --yes", "discard"),
    ("discard {} --json --yes", ""),
    ("release {} a", "release"),
    ("cancel {} a gone", "cancel"),
    ("cancel {} b gone --json", ""),
    ("workers {}", "workers"),
    ("end-subscription {} bee@localhost/x", "end-subscription"),
    ("end-subscription {} @", ""),
    ("schedule add {} --cron @daily --node {} --payload 7", "schedule-add"),
    ("schedule add {} --cron never --node {} --payload 7", ""),
    ("schedule list", "schedules"),
    ("schedule show {}", "schedule-show"),
    ("schedule show {} --json", ""),
    ("schedule change {} --zone Europe/Berlin", "schedule-change"),
    ("schedule change {} --zone Mars", ""),
    ("schedule pause {}", "schedule-pause"),
    ("schedule resume {}", "schedule-resume"),
    ("schedule fire {}", "schedule-fire"),
    ("schedule remove {}", "schedule-remove"),
    ("schedule remove {}", ""),
    ("registration list", "registrations"),
    ("registration disable {} gone", "registration-disable"),
    ("registration enable {} gone", "registration-enable"),
    ("registration end {} gone", "registration-end"),
    ("connections", "connections"),
    ("end-connection bee@queue.localhost/stomp.0.1", "end-connection"),
    ("messages list", "kept-messages"),
    ("messages drop bee@localhost", "drop-kept-messages"),
    ("alerts", "alerts"),
    ("alerts --json", ""),
    ("service --json", "service"),
    ("purge {}", ""),
    ("purge {} --yes", "purge"),
    ("node set {} no_such=1", ""),
    ("node delete {} --yes", "delete"),
    ("node delete {} --yes", ""),
)

FORBIDDEN = ("items {}", "pause {}", "service", "schedule list", "publish {} 1 --id no")
"""Commands of somebody who has no rights."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def carriers(tmp_path_factory):
    """Return the operators over both carriers, by the names of their queues, and of accounts without rights."""
    (port,) = free_ports(1)
    users = table("root", roles=["admin"]) + table("eve")
    config = f'{CONFIG}http = "127.0.0.1:{port}"\n{users}'
    async with Prosody() as prosody:
        for name in ("root", "eve"):
            await prosody.account(name, "secret")
        async with component(prosody, tmp_path_factory.mktemp("service"), config):
            found = {}
            for name in ("root", "eve"):
                over_http = Operator(prosody, name, password=RIGHT)
                over_http.environment["PUBQUEUE_URL"] = f"http://{name}@127.0.0.1:{port}/"
                found[name] = {"xmpp": Operator(prosody, name), "http": over_http}
            yield found


def alike(said):
    """Return what was said without what has to differ: names of the carrier, times, new ids, how long something took."""
    shown = f"{said.out}\n---\n{said.err}"
    shown = re.sub(r"127\.0\.0\.1:\d+", "SERVICE", shown).replace("queue.localhost", "SERVICE")
    shown = re.sub(r"\b(root|eve)@(localhost|SERVICE)(/[\w.-]+)?", r"\1", shown)
    shown = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", shown)
    shown = re.sub(r'("(?:seq|death|age_ms|held_ms|longest_round)": )[\d.]+', r"\1N", shown)
    shown = re.sub(r"(--after|^)( ?)\d+\b", r"\1\2N", shown, flags=re.MULTILINE)
    shown = re.sub(r"\d+ (s|min)( \d+ s)?\b", "SPAN", shown)
    shown = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", shown)
    shown = re.sub(r"[ ─━]+", " ", shown)
    return said.code, re.sub(r"\b(xmpp|http)\b", "QUEUE", shown)


async def run(operators, line):
    """Run a command over both carriers; return what it says without what has to differ."""
    found = {}
    for carrier, operator in operators.items():
        said = await operator.says(*line.replace("{}", carrier).split())
        found[carrier] = alike(said)
    return found["xmpp"], found["http"]


async def test_every_command_says_the_same_over_both(carriers):
    ran, differ = set(), []
    for line, operation in PREPARED + COMMANDS:
        over_xmpp, over_http = await run(carriers["root"], line)
        if over_xmpp != over_http:
            differ.append((line, over_xmpp, over_http))
        if operation:
            ran.add(operation)
            assert over_xmpp[0] in {0, 1}, (line, over_xmpp)
    assert differ == []
    assert ran == OPERATIONS.keys(), "each operation is compared: add a line for a new one"


async def test_who_has_no_rights_is_told_the_same_over_both(carriers):
    for carrier, operator in carriers["root"].items():
        await operator.does("node", "create", f"{carrier}-closed")
    for line in FORBIDDEN:
        over_xmpp, over_http = await run(carriers["eve"], line.replace("{}", "{}-closed"))
        assert over_xmpp[0] == 1, over_xmpp
        assert over_xmpp == over_http
    for carrier, operator in carriers["root"].items():
        assert await operator.rows("items", f"{carrier}-closed") == []


async def test_lines_are_published_over_both(carriers, tmp_path):
    file = tmp_path / "lines"
    file.write_text("".join(f'{{"n": {n}}}\n' for n in range(1200)))
    broken = tmp_path / "broken"
    broken.write_text("1\n2\nnothing\n4\n")
    for carrier, operator in carriers["root"].items():
        await operator.does("node", "create", f"{carrier}-lines")
        words = ("publish", f"{carrier}-lines", f"@{file}", "--lines", "--id-prefix", "n-")
        said = await operator.does(*words)
        assert said == f"1200 items of {carrier}-lines confirmed.\n"
        assert "1200 of them already existed" in await operator.does(*words)
        said = await operator.says("publish", f"{carrier}-lines", f"@{broken}", "--lines")
        assert (said.code, said.err.count("line 3 is neither JSON nor an XML element")) == (2, 1)
        assert f"2 items of {carrier}-lines confirmed" in said.err
        (row,) = (row for row in await operator.rows("queues") if row["node"] == f"{carrier}-lines")
        assert row["depth"] == 1202


async def test_a_program_reads_the_same_over_both(carriers):
    found = []
    for operator in carriers["root"].values():
        url, password = (operator.environment[f"PUBQUEUE_{name}"] for name in ("URL", "PASSWORD"))
        async with Admin(url, password=password) as admin:
            rows = [row async for row in admin.queues()]
            about = await admin.service()
            with pytest.raises(OperationRefused) as refused:
                await admin.peek("gone", "a")
            found.append((rows, about.version, about.started, refused.value.condition))
    assert found[0] == found[1]
