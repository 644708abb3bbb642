"""Each command over XMPP and over HTTP: the same output, the same sentences, the same exit codes, for every operation of the table."""

import re

import pytest
import pytest_asyncio
from harness.operators.at_a_terminal import Operator
from harness.servers.live import component
from harness.servers.users import RIGHT, table

from pubqueue import Admin, OperationRefused
from pubqueue.loopback import free_ports
from pubqueue.operations.table import OPERATIONS
from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CONFIG = """
admins = ["root@localhost"]
"""

PREPARED = (
    ("node create {}", "create"),
    ("node create {}-plain --plain", ""),
    ("node set {} max_failures=3 event_log=1", "configure"),
    ("node create {}-warned dead_letter_node={}-nowhere", ""),
    ("node create {}-warned-too dead_letter_node={}-nowhere --json", ""),
    ("node set {}-warned dead_letter_node={}-nowhere", ""),
    ("node set {}-warned dead_letter_node={}-nowhere --json", ""),
    ("node set {}-warned dead_letter_node={}", ""),
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
    ("queues --match {} --state running --sort items", ""),
    ("queues --state plain --sort rate --max 1", ""),
    ("overview --state closed --json", ""),
    ("top", ""),
    ("items {}", "items"),
    ("items {} --json", ""),
    ("items {} --max 1", ""),
    ("items {} --max 1 --json", ""),
    ("items {} --after x", ""),
    ("items {} --match root --sort priority", ""),
    ("items {} --match root --max 1", ""),
    ("items {} --sort size --max 1 --json", ""),
    ("items {} --sort size --after 1", ""),
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
    ("dead {} --reasons --match never --sort last", ""),
    ("dead {} --match c --sort size --json", ""),
    ("dead {} --sort worker", ""),
    ("dead --sort size", ""),
    ("dead --match {}", "deaths"),
    ("dead --match {} --json", ""),
    ("redrive {} --yes", "redrive"),
    ("redrive {}", ""),
    ("discard {} gone --yes", "discard"),
    ("discard {} --json --yes", ""),
    ("release {} a", ""),
    ("cancel {} a gone", ""),
    ("schedule remove {}", ""),
    ("signal {} b go 7 --id s1", "signal"),
    ("signal {} b go --id s1 --json", ""),
    ("signal {} b go nope", ""),
    ("signal {} gone go", ""),
    ("signal-link {} b go", "signal-link"),
    ("signal-link {} b go --within 60 --at https://queue.example/ --json", ""),
    ("signal-link {} gone go", ""),
    ("signal-link {} b go --at ftp://x", ""),
    ("signal-link {} b go --within 9999999", ""),
    ("close-join {} a", "close-join"),
    ("close-join {} gone", ""),
    ("release {} a --yes", "release"),
    ("cancel {} a gone --yes", "cancel"),
    ("cancel {} b gone --json --yes", ""),
    ("workers {}", "workers"),
    ("workers {} --match bee --state quiet --sort holds", ""),
    ("schedule list --match {} --state running --sort next", ""),
    ("schedule list --reason *full* --json", ""),
    ("registration list --match {} --state failing --sort failures", ""),
    ("connections --match bee --state busy --sort connected --json", ""),
    ("node members {} --match root --affiliation owner", ""),
    ("node members {} --sort affiliation --json", ""),
    ("alerts --match {} --state raised --sort since", ""),
    ("alerts --after x --sort since", ""),
    ("quiet-worker {} bee@localhost/x", "quiet-worker"),
    ("resume-worker {} bee@localhost/x", "resume-worker"),
    ("end-subscription {} bee@localhost/x", ""),
    ("end-subscription {} bee@localhost/x --yes", "end-subscription"),
    ("end-subscription {} @ --yes", ""),
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
    ("schedule remove {} --yes", "schedule-remove"),
    ("schedule remove {} --yes", ""),
    ("registration list", "registrations"),
    ("registration disable {} gone", "registration-disable"),
    ("registration enable {} gone", "registration-enable"),
    ("registration end {} gone", ""),
    ("registration end {} gone --yes", "registration-end"),
    ("connections", "connections"),
    ("end-connection bee@queue.localhost/stomp.0.1", ""),
    ("end-connection bee@queue.localhost/stomp.0.1 --yes", "end-connection"),
    ("messages list", "kept-messages"),
    ("messages list --match bee --sort until", ""),
    ("messages drop bee@localhost", ""),
    ("messages drop bee@localhost --yes", "drop-kept-messages"),
    ("alerts", "alerts"),
    ("alerts --json", ""),
    ("service --json", "service"),
    ("node export --match {}", "definitions"),
    ("node export --match {} --json", ""),
    ("node export --match no-such", ""),
    ("purge {}", ""),
    ("purge {} --yes", "purge"),
    ("node set {} no_such=1", ""),
    ("node delete --match {}-plain --state running --yes", ""),
    ("node delete --match {}-plain --state plain --yes --json", ""),
    ("node delete {} --state plain --yes", ""),
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
    shown = re.sub(r"/answer/[\w-]+", "LINK", shown)
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


DEFINED = """
[[node]]
name = "{}-defined"
queueing = true
owners = ["root@localhost"]
members = ["bee@localhost"]

[node.options]
"x-pubsub#labels" = "a=1\\nb=2"
"x-queueing#dead_letter_node" = "{}-defined-graves"
"x-queueing#lock_timeout" = 60
"x-queueing#source" = "{}-defined-topic"

[[node]]
name = "{}-defined-topic"
owners = ["root@localhost"]
publish_only = ["eve@localhost"]
"""
SOURCE = '"x-queueing#source" = "{}-defined-topic"\n'
ORPHANED = (
    DEFINED.partition('[[node]]\nname = "{}-defined-topic"')[0]
    .replace("= 60", "= 90")
    .replace("bee", "eve")
)
CHANGED = ORPHANED.replace(SOURCE, "")
REFUSED = f"""
[[node]]
name = "{{}}-defined-first"
queueing = true
{DEFINED.replace("queueing = true", "").replace('"x-queueing#source" = "{}-defined-topic"', "")}
[[node]]
name = "{{}}-defined-zlast"
queueing = true
"""


async def test_definitions_are_applied_over_both(carriers, tmp_path):
    for name, text in (
        ("file", DEFINED),
        ("changed", CHANGED),
        ("orphaned", ORPHANED),
        ("refused", REFUSED),
    ):
        for carrier in carriers["root"]:
            (tmp_path / f"{carrier}-{name}").write_text(text.replace("{}", carrier))
    (tmp_path / "wrong").write_text(
        '[[node]]\nname = "n"\noptions = { "x-queueing#lock_timeout" = 0 }'
    )
    apply = f"node apply {tmp_path}/{{}}-file --match {{}}-defined"
    changed = f"node apply {tmp_path}/{{}}-changed --match {{}}-defined"
    refused = f"node apply {tmp_path}/{{}}-refused --match {{}}-defined"
    found = []
    for line in (
        f"{apply} --dry-run",
        f"{apply} --dry-run --json",
        apply,
        f"{apply} --yes --json",
        f"{apply} --yes",
        "node export --match {}-defined",
        f"{changed} --dry-run --prune --json",
        f"{changed} --prune",
        f"node apply {tmp_path}/{{}}-orphaned --match {{}}-defined --prune --yes",
        "publish {}-defined 1 --id a",
        f"{refused} --yes",
        f"{refused} --yes --json",
        "purge {}-defined --yes",
        f"{refused} --yes",
        f"{apply} --yes",
        f"{changed} --prune --yes",
        f"{changed} --yes",
        f"node apply {tmp_path}/wrong",
        f"node apply {tmp_path}/none",
    ):
        over_xmpp, over_http = await run(carriers["root"], line)
        assert over_xmpp == over_http, line
        found.append(over_xmpp)
    said = [f"{code} {shown}" for code, shown in found]
    assert [one[0] for one in said] == list("0020000220220000022"), said
    assert "create queue QUEUE-defined\n" in said[0]
    assert " x-queueing#lock_timeout: 60\n" in said[0]
    assert " grant member to bee@localhost\n" in said[0]
    warning = "QUEUE-defined: its dead-letter node QUEUE-defined-graves does not exist; dead items stay in QUEUE-defined"
    assert f"warning: {warning}\n" in said[0]
    assert warning in said[1]
    assert said[0].endswith(f"N to create; 0 nodes are as {tmp_path}/QUEUE-file has them.\n\n---\n")
    assert "2 nodes will be created. Pass --yes to confirm." in said[2]
    assert "Nothing to change: 2 nodes are as" in said[4]
    assert 'members = ["bee@localhost"]' in said[5]
    assert '"x-queueing#lock_timeout" = 60\n' in said[5]
    assert (
        '"options": {"x-queueing#lock_timeout": ["60", "90"], "x-queueing#source": ["QUEUE-defined-topic", ""]}'
        in said[6]
    )
    assert (
        '"affiliations": {"bee@localhost": ["member", "none"], "eve": ["none", "member"]}'
        in said[6]
    )
    assert '"action": "delete", "items": 0' in said[6]
    assert (
        "1 node will be changed, 1 node with 0 items will be deleted: QUEUE-defined-topic. This cannot be undone. Pass --yes"
        in said[7]
    )
    assert (
        "node 'QUEUE-defined': x-queueing#source: 'QUEUE-defined-topic' is not defined, and would be deleted"
        in said[8]
    )
    assert "QUEUE-defined-first: created\n" in said[10], "what is done is said"
    assert (
        "2 of 3 nodes are done; run it again to complete the others. node 'QUEUE-defined': "
        in said[10]
    )
    assert "0 of 1 node is done" in said[11]
    assert said[13].count(": created") + said[13].count(": changed") == 1
    assert "QUEUE-defined-first: deleted" in said[15]
    assert "Nothing to change: 1 node is as" in said[16]
    assert "wrong: node 'n': x-queueing#lock_timeout: a whole number from 1 to" in said[17]
    assert "none cannot be read: No such file or directory" in said[18]


async def test_a_dead_letter_node_that_does_not_exist_is_a_warning_at_once(carriers):
    for carrier, operator in carriers["root"].items():
        node = f"{carrier}-early"
        warning = (
            f"Its dead-letter node graves does not exist; until it does, dead items stay in {node}."
        )
        made = await operator.does("node", "create", node, "dead_letter_node=graves")
        assert made == f"{node} was created; you own it. {warning}\n"
        for _ in range(2):
            (done,) = await operator.rows("node", "set", node, "dead_letter_node=graves")
            note = f"{node} was updated. {warning}"
            assert done == {"done": "configure", "note": note, "warns": True}
        (done,) = await operator.rows("node", "set", node, f"dead_letter_node={carrier}-closed-too")
        assert done["warns"]
        await operator.does("node", "create", f"{carrier}-closed-too")
        (done,) = await operator.rows("node", "set", node, f"dead_letter_node={carrier}-closed-too")
        assert done == {"done": "configure", "note": f"{node} was updated."}


async def test_an_export_takes_the_place_of_a_file_once_it_is_whole(carriers, tmp_path):
    for carrier, operator in carriers["root"].items():
        await operator.does("node", "create", f"{carrier}-filed")
        file = tmp_path / carrier
        file.write_text("former")
        said = await operator.says("node", "export", "--match", f"{carrier}-filed", str(file))
        assert (said.code, said.out, said.err) == (0, "", f"1 node written to {file}.\n")
        assert f'name = "{carrier}-filed"' in file.read_text()
        said = await operator.says("node", "export", str(file), PUBQUEUE_PASSWORD="wrong")
        assert said.code == 1
        assert f'name = "{carrier}-filed"' in file.read_text(), "as it was"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["http", "xmpp"]


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
