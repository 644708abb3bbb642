"""Definitions of nodes: as text and back, and from one service to another."""

import asyncio
import sys
import tomllib
from collections import Counter

import msgspec
import pytest
from harness.batches.facts import BOSS, NOW, who
from harness.documents.documented import blocks
from harness.operators.over_http import HttpOperator, HttpService
from harness.servers.users import RIGHT

from pubqueue import Admin, BlockingAdmin, ConfigurationError, OperationRefused
from pubqueue.admin import definitions
from pubqueue.admin.definitions import (
    HEAD,
    LEAF,
    NodeTable,
    as_json,
    as_text,
    field_of,
    read,
    table_of,
)
from pubqueue.admin.session import About, Link, Page
from pubqueue.config.settings import NodeSettings
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.faces.xmpp.xml.fields import FIELDS, FIXED
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.operations.model import Given, Readers, fit
from pubqueue.operations.nodes import MEMBERS
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.definitions import EACH, KIND, MOST, Definition
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create
from pubqueue.stores.sqlite.in_memory import MemoryStore


def test_the_words_are_those_of_the_configuration():
    ours, its = (
        {field.name: field.type for field in msgspec.structs.fields(kind)}
        for kind in (NodeTable, NodeSettings)
    )
    assert ours == its
    assert {field.setting: field.var for field in FIELDS} == {
        field.setting: field_of(field.setting) for field in FIELDS
    }
    assert set(FIXED) == {LEAF}


ODD = Definition(
    NodeName(' a "b" \\ ü\u0085'.rstrip("\u0085")),
    {
        KIND: "1",
        "title": 'x\n"y"\t\x7f',
        "labels": "a=1\nb=2",
        "rate": "0.5",
        "max_items": "7",
        "event_log": "1",
    },
    {
        Jid("z@x"): Affiliation.OWNER,
        Jid("a@x"): Affiliation.OWNER,
        Jid("s@x"): Affiliation.PUBLISH_ONLY,
    },
)
PLAIN = Definition(NodeName("news"), {KIND: "0", "item_expire": "60"}, {})


def test_what_is_written_is_read():
    tables = [table_of(one) for one in (ODD, PLAIN)]
    assert read(as_text(tables), "f") == [ODD, PLAIN]
    assert read("\n".join(map(as_json, tables)), "f") == [ODD, PLAIN]
    assert read(HEAD, "f") == []
    (first, second) = tomllib.loads(as_text(tables))["node"]
    assert first["owners"] == ["a@x", "z@x"]
    assert first["options"]["x-queueing#rate"] == 0.5
    assert first["options"]["x-queueing#event_log"] is True
    assert second == {"name": "news", "options": {"pubsub#item_expire": 60}}
    assert [msgspec.convert(one, NodeSettings).name for one in (first, second)] == [
        ODD.node,
        "news",
    ]


def test_names_of_accounts_and_values_are_as_the_service_writes_them():
    text = '[[node]]\nname = "n"\nqueueing = true\nowners = ["Anna@X", "anna@x"]\n'
    text += 'options = { "x-queueing#rate" = "5.0", "pubsub#access_model" = "whitelist", "x-queueing#paused" = false, "pubsub#node_type" = "leaf" }'
    (found,) = read(text, "f")
    assert found.affiliations == {"anna@x": Affiliation.OWNER}
    assert found.settings == {KIND: "1", "rate": "5", "paused": "0"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[node]", "f: not valid TOML: "),
        ('{"name": "n"}\n{"name"', "f: not lines of JSON: "),
        ("jid = 'x'", "f: jid: only tables [[node]] are applied"),
        ("node = 3", "f: node: write [[node]]"),
        ("[[node]]\nqueueing = true", "f: node 'number 1': Object missing required field `name`"),
        ("[[node]]\nname = 'n'\nowner = []", "f: node 'n': Object contains unknown field `owner`"),
        (
            "[[node]]\nname = 'n'\nowners = 'a@b'",
            "f: node 'n': Expected `array`, got `str` - at `owners`",
        ),
        (
            "[[node]]\nname = 'n'\nowners = ['a@b/c']",
            "f: node 'n': owners: 'a@b/c' is not a bare JID, such as admin@example.org",
        ),
        (
            "[[node]]\nname = 'n'\nmembers = ['@']",
            "f: node 'n': members: '@' is not a bare JID, such as admin@example.org",
        ),
        (
            "[[node]]\nname = 'n'\nmembers = ['a@b']\noutcasts = ['A@b']",
            "f: node 'n': outcasts: 'A@b' has another affiliation already",
        ),
        (
            "[[node]]\nname = 'n'\n[[node]]\nname = 'm'\n[[node]]\nname = 'n'",
            "f: node 'n': it is defined twice",
        ),
        (
            "[[node]]\nname = 'n'\noptions = { 'x-queueing#lock_timout' = 3 }",
            "f: node 'n': x-queueing#lock_timout: there is no such option; did you mean x-queueing#lock_timeout?",
        ),
        (
            "[[node]]\nname = 'n'\noptions = { 'x-queueing#lock_timeout' = 0 }",
            "f: node 'n': x-queueing#lock_timeout: a whole number from 1 to 31622400 is required",
        ),
        (
            "[[node]]\nname = 'n'\noptions = { 'pubsub#node_type' = 'collection' }",
            "f: node 'n': pubsub#node_type: there is no such option",
        ),
        (
            "[[node]]\nname = 'n'\noptions = { 'pubsub#access_model' = 'all' }",
            "f: node 'n': pubsub#access_model: open, presence, roster, authorize, whitelist",
        ),
    ],
)
def test_an_error_names_the_file_the_node_and_the_field(text, why):
    with pytest.raises(ConfigurationError) as wrong:
        read(text, "f")
    assert str(wrong.value).startswith(why)


# With a service.


@pytest.fixture
async def service(tmp_path):
    async with HttpService(tmp_path) as running:
        yield running


FILE = """
[[node]]
name = "mail"
queueing = true
owners = ["anna@queue.localhost"]
members = ["etl@queue.localhost"]

[node.options]
"pubsub#description" = "line\\nline"
"x-pubsub#labels" = "a=1\\nb=2"
"x-queueing#dead_letter_node" = "graves"
"x-queueing#source" = "topic"

[[node]]
name = "graves"
queueing = true
owners = ["anna@queue.localhost"]

[[node]]
name = "topic"
owners = ["anna@queue.localhost"]
publish_only = ["vic@queue.localhost"]

[node.options]
"pubsub#access_model" = "open"
"""


async def test_a_program_brings_definitions_from_one_service_to_another(service, tmp_path):
    (tmp_path / "other").mkdir()
    async with HttpService(tmp_path / "other") as other:
        async with Admin(service.url("root"), password=RIGHT) as admin:
            assert await admin.node_apply(FILE) == ("topic", "graves", "mail")
            assert await admin.node_apply(FILE) == ()
            exported = await admin.node_export()
            jobs, *found = sorted(read(exported, "exported"), key=lambda one: one.node != "jobs")
            assert jobs.affiliations == {"etl@queue.localhost": Affiliation.PUBLISHER}
            assert [one.node for one in found] == ["graves", "topic", "mail"], (
                "what feeds comes first"
            )
            assert {one.node: one for one in found} == {one.node: one for one in read(FILE, "f")}
        with BlockingAdmin(other.url("root"), password=RIGHT) as twin:
            assert set(twin.node_apply(exported, dry_run=True)) == {"graves", "topic", "mail"}
            assert set(twin.node_apply(exported)) == {"graves", "topic", "mail"}
            assert twin.node_export() == exported
            assert twin.node_apply(exported) == ()
            assert twin.node_apply(twin.node_export(match="GRAVES"), match="graves") == ()
            assert twin.node_apply(twin.node_export(match="graves"), match="a", prune=True) == (
                "mail",
            )


async def test_the_program_of_the_page_brings_the_nodes_with_a_text_in_their_names(
    service, tmp_path
):
    (program,) = (
        one.text for one in blocks("python") if one.page == "docs/operations/definitions.md"
    )
    (tmp_path / "other").mkdir()
    async with HttpService(tmp_path / "other") as other:
        for url, at in (("test", service), ("queue", other)):
            documented = f"https://anna@{url}.example.org:9254/"
            assert documented in program
            program = program.replace(documented, at.url("root"))
        async with Admin(service.url("root"), password=RIGHT) as admin:
            await admin.node_create("orders-eu")
        line = [sys.executable, "-c", program.replace("correct horse", RIGHT)]
        process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        assert (process.returncode, said) == (0, b"('orders-eu',)\n")
        async with Admin(other.url("root"), password=RIGHT) as admin:
            assert [one.node for one in read(await admin.node_export(match="eu"), "f")] == [
                "orders-eu"
            ]


async def test_what_was_exported_starts_a_service(service, tmp_path):
    async with Admin(service.url("root"), password=RIGHT) as admin:
        await admin.node_apply(FILE)
        exported = await admin.node_export()
    (tmp_path / "third").mkdir()
    third = HttpService(tmp_path / "third")
    text = third.path.read_text().partition("[[node]]")[0]
    third.path.write_text(text + exported)
    async with third, Admin(third.url("root"), password=RIGHT) as admin:
        assert await admin.node_apply(exported) == ()
        assert await admin.node_export() == exported


async def test_a_refusal_names_the_node_and_a_repetition_completes_it(service):
    async with Admin(service.url("root"), password=RIGHT) as admin:
        await admin.node_create("topic")
        await admin.perform("schedule-add", name="s", cron="@daily", node="topic", payload=1)
        await admin.schedule_fire("s")
        with pytest.raises(OperationRefused) as refused:
            await admin.node_apply(FILE)
        assert str(refused.value).startswith("node 'topic': ")
        assert "queueing can change only while the node has no items" in str(refused.value).replace(
            "x-queueing#enabled", "queueing"
        )
        assert refused.value.node == "topic"
        assert await admin.node_apply(FILE, dry_run=True) == ("topic", "mail"), (
            "what was begun beside it is done"
        )
        await admin.purge("topic")
        assert await admin.node_apply(FILE) == ("topic", "mail")
        assert await admin.node_apply(FILE) == ()


async def test_a_node_that_is_deleted_while_its_affiliations_are_read_is_left_out(
    service, monkeypatch
):
    async with Admin(service.url("root"), password=RIGHT) as admin:
        await admin.node_create("gone")
        crowd = tuple((Jid(f"a{n:03}@x"), Affiliation.MEMBER) for n in range(EACH))
        for jid, role in crowd:
            await admin.perform("affiliate", node="gone", jid=jid, affiliation=role.value)
        pages = admin.link.pages

        def deleting(operation, words, most=None):
            async def each():
                if operation is MEMBERS:
                    await admin.node_delete("gone")
                async for page in pages(operation, words, most):
                    yield page

            return each()

        (gone, _) = read(await admin.node_export(), "f")
        assert gone.affiliations == {Jid("root@queue.localhost"): Affiliation.OWNER, **dict(crowd)}
        monkeypatch.setattr(admin.link, "pages", deleting)
        assert [one.node for one in read(await admin.node_export(), "f")] == ["jobs"]


async def test_an_owner_hands_a_node_over(service):
    root = HttpOperator(service.url("root"))
    await root.does("node", "create", "mine")
    await root.does("node", "members", "mine", "--set", "etl@queue.localhost=owner")
    await root.does("node", "members", "mine", "--set", "root@queue.localhost=none")
    text = '[[node]]\nname = "mine"\nqueueing = true\nowners = ["anna@queue.localhost", "vic@queue.localhost"]\nmembers = ["etl@queue.localhost"]'
    async with Admin(service.url("etl"), password=RIGHT) as admin:
        assert await admin.node_apply(text) == ("mine",)
    async with Admin(service.url("anna"), password=RIGHT) as admin:
        assert await admin.node_apply(text) == ()


# With ten thousand nodes: what is asked is counted.

MANY = 10_000


class Inside(Link):
    """A session with a broker of this process, which notes what it performs and how many nodes an answer has."""

    tls = None

    def __init__(self, broker, by):
        self.about = About(by.account, "queue.localhost")
        self.broker, self.by = broker, by
        self.performed, self.largest = [], 0

    async def perform(self, operation, words):
        self.performed.append(operation.name)
        given = fit(operation, Given(words), Readers(str, lambda text: (text.encode(), "")))
        reply = await self.broker.handle(operation.ask(self.by, given))
        if isinstance(reply, Refused):
            lacks = reply.refusal is Refusal.NODE_NOT_FOUND
            condition = "item-not-found" if lacks else "forbidden"
            raise OperationRefused(str(reply), operation.name, condition=condition)
        answer = operation.answer(reply, given)
        self.largest = max(self.largest, len(answer.rows))
        names = [column.name for column in operation.columns]
        rows = tuple(dict(zip(names, row, strict=True)) for row in answer.rows)
        return Page(answer.note, rows, answer.through, answer.more)


@pytest.fixture
async def inside(request):
    store, owner = MemoryStore(), who(BOSS)
    await store.open()
    broker = Broker(store, Terms(CreationPolicy.ANYONE), clock=lambda: NOW)
    broker.start()
    settings = Settings({"queueing": "1", "max_failures": "3"})
    many = getattr(request, "param", MANY)
    for at in range(0, many, 500):
        names = [NodeName(f"queue {n:05}") for n in range(at, min(at + 500, many))]
        await asyncio.gather(*(broker.handle(Create(owner, name, settings)) for name in names))
    yield Inside(broker, owner)
    await broker.stop()
    await store.close()


async def test_ten_thousand_nodes_cost_a_hundred_requests_and_those_that_differ(inside):
    found = [table async for table in definitions.exported(inside)]
    assert (len(found), inside.largest) == (MANY, MOST)
    pages = MANY // MOST
    assert Counter(inside.performed) == {"definitions": pages}
    wanted = read("\n".join(map(as_json, found)), "f")
    inside.performed.clear()
    plan = await definitions.planned(inside, wanted, prune=True)
    assert (plan.same, bool(plan)) == (MANY, False)
    assert Counter(inside.performed) == {"definitions": pages}

    changed = {1: {"title": "x"}, 777: {"title": "y"}, 9_999: {"max_failures": "2"}}
    for at, more in changed.items():
        one = wanted[at]
        wanted[at] = Definition(one.node, {**one.settings, **more}, one.affiliations)
    del wanted[5_000]
    inside.performed.clear()
    plan = await definitions.planned(inside, wanted, prune=True)
    done = [node async for node in definitions.applied(inside, plan)]
    assert done == ["queue 00001", "queue 00777", "queue 09999", "queue 05000"]
    assert Counter(inside.performed) == {"definitions": pages, "configure": 3, "delete": 1}


@pytest.mark.parametrize("inside", [20], indirect=True)
async def test_a_dead_letter_node_of_others_is_asked_for_once(inside):
    lost = [
        Definition(NodeName(f"queue {at:05}"), {KIND: "1", "dead_letter_node": "graves"}, {})
        for at in range(20)
    ]
    plan = await definitions.planned(inside, lost)
    assert [node for node, _ in plan.unplaced] == [one.node for one in lost]
    assert inside.performed == ["definitions"] * 2
