"""Who only looks costs no more because there is more: SQLite's instructions and the rows that are made are counted.

Each request is sent to a small store and to one many times as large. Reads beside the batches are counted on the
reading connection, and the writer's is idle meanwhile.
"""

import asyncio

import pytest
from bench.pause_loads_reading import LONG, READING_LOADS, lay_long_queue, lay_many_nodes
from harness.batches.facts import ANN, BOSS, EVE, NOW, who
from harness.batches.queue_requests import joins
from harness.batches.witness import WatchedFace

from pubqueue.engine import dispatch
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.table import RULES
from pubqueue.model.decision import Read, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid, NodeName, State
from pubqueue.model.notices import Deliver
from pubqueue.model.replies import Page
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.alerts import ReadAlerts
from pubqueue.rules.audience import ListUnnotified, NextSubscribers
from pubqueue.rules.dead_letters import ReadDeaths, ReadReasons
from pubqueue.rules.definitions import ReadDefinitions
from pubqueue.rules.deliveries import AskUnanswered
from pubqueue.rules.discovery import (
    Describe,
    ListItems,
    ListMyAffiliations,
    ListMySubscriptions,
    ListNodes,
    Types,
)
from pubqueue.rules.inspect import (
    AskPowers,
    AskService,
    Peek,
    ReadConnections,
    ReadHistory,
    ReadWorkers,
)
from pubqueue.rules.messages import ListMessages, ReadMessage
from pubqueue.rules.nodeconfig import PUSHED, Settings
from pubqueue.rules.nodes import Configure, Create, GetAffiliations, SetAffiliations
from pubqueue.rules.publish_keys import ReadUsedKey
from pubqueue.rules.read import ReadEvents, ReadItems, ReadNodes
from pubqueue.rules.registrations import ListPushed, ListRegistrations
from pubqueue.rules.retrieve import AskNewest, ReadNewer, Retrieve
from pubqueue.rules.schedules import ListSchedules
from pubqueue.rules.search import Search
from pubqueue.rules.settle import ReadHeld
from pubqueue.rules.staging import ListTransactions
from pubqueue.rules.subscribe import GetDefaultOptions
from pubqueue.rules.subscribers import GetSubscriptions, ReadPending
from pubqueue.rules.survey import ReadSamples, ReadSurvey
from pubqueue.stores.sql import columns, pages
from pubqueue.stores.sqlite import SqliteStore

SMALL, LARGE = 300, 6_000
A_BIT = 600
"""Instructions that a deeper index and a longer number may cost."""
OWNER, STRANGER, ADMIN = who(BOSS), who(EVE), who(EVE, admin=True)
FEW = Page(None, 10)


class CountedService:
    """A broker on a store; `steps` and `rows` count what was done since they were set to nothing."""

    def __init__(self, store, broker, said):
        self.store = store
        self.broker = broker
        self.said = said
        self.steps = {"batches": 0, "reads": 0}
        self.deepest = 0
        """Instructions of the largest batch."""

    async def do(self, request):
        return await self.broker.handle(request)

    async def watch(self):
        """Count from now on."""
        await self.do(
            ListNodes(STRANGER, FEW)
        )  # the connection that reads is opened when it is needed
        self._count(self.store.connection.raw, "batches")
        self._count(self.store.reader.raw, "reads")

    def _count(self, connection, kind):
        def step():
            self.steps[kind] += 1
            return 0

        connection.set_progress_handler(step, 1)

    async def cost(self, request):
        """Return the cost of a request, in the batches and beside them."""
        self.steps.update(batches=0, reads=0)
        reply = await self.do(request)
        await self.broker.settled()
        return reply, dict(self.steps)


@pytest.fixture
async def laid(tmp_path):
    """Return a function that opens a service on a prepared store."""
    running = []

    async def start(lay, size):
        store = SqliteStore(tmp_path / f"{lay.__name__}-{size}.db")
        await store.open()
        await lay(store, size, NOW)
        anyone = CreationPolicy.ANYONE
        broker = Broker(store, Terms(anyone), clock=lambda: NOW)
        said = []
        service = CountedService(store, broker, said)
        running.append(service)
        service.face = WatchedFace(broker, said)
        broker.start()
        service.face.up()
        await broker.settled()
        await service.watch()
        return service

    yield start
    for service in running:
        await service.broker.stop()
        await service.store.close()


@pytest.fixture
def made(monkeypatch):
    """Count the nodes that are made of rows."""
    count = [0]

    def counting(text):
        count[0] += 1
        return unpack(text)

    unpack = columns.unpacked_config
    monkeypatch.setattr(columns, "unpacked_config", counting)
    return count


# fmt: off
OF_A_QUEUE = {
    "a stranger, the newest":   Retrieve(STRANGER, LONG, newest=1),
    "the owner, the newest":    Retrieve(OWNER, LONG, newest=1),
    "the owner, a page":        Retrieve(OWNER, LONG, page=Page("i150", 10)),
    "the owner, backward":      Retrieve(OWNER, LONG, page=Page(None, 10, "i150")),
    "the owner, by name":       Retrieve(OWNER, LONG, ("i7", "i9")),
    "ids, a page":              ListItems(OWNER, LONG, Page("i150", 10)),
    "ids, backward":            ListItems(OWNER, LONG, Page(None, 10, "i150")),
    "ids, to a stranger":       ListItems(STRANGER, LONG),
    "items with their history": ReadItems(OWNER, LONG, after=150, max=10),
    "what the node is":         Describe(STRANGER, LONG, manage=False),
    "one item":                 Peek(OWNER, LONG, ItemId("i150")),
    "what happened to it":      ReadHistory(OWNER, LONG, ItemId("i150")),
    "who works on it":          ReadWorkers(OWNER, LONG),
    "what one may run":         AskPowers(OWNER),
}
# fmt: on


@pytest.mark.parametrize("name", OF_A_QUEUE)
async def test_a_part_of_a_queue_costs_the_same_however_long_it_is(laid, name):
    costs = []
    for size in (SMALL, LARGE):
        service = await laid(lay_long_queue, size)
        reply, cost = await service.cost(OF_A_QUEUE[name])
        assert not isinstance(reply, Refused)
        assert cost["batches"] == 0, "it waits for nobody, and nobody for it"
        costs.append(cost["reads"])
    assert costs[1] <= costs[0] + A_BIT, costs


async def test_a_queue_is_read_to_its_end_in_parts_that_cost_the_same(laid):
    service = await laid(lay_long_queue, LARGE)
    seen, costs, page = [], [], Page(None, 500)
    while True:
        reply, cost = await service.cost(Retrieve(OWNER, LONG, page=page))
        seen += [item.id for item, _ in reply.items]
        if not reply.part.more:
            break
        costs.append(cost["reads"])
        page = Page(seen[-1], 500)
    assert seen == [f"i{number}" for number in range(LARGE)]
    assert max(costs) <= min(costs) + A_BIT


async def test_a_queue_is_read_to_its_beginning_in_parts(laid):
    service = await laid(lay_long_queue, SMALL)
    seen, page = [], Page(None, 70, "")
    while True:
        reply = await service.do(Retrieve(OWNER, LONG, page=page))
        seen = [item.id for item, _ in reply.items] + seen
        assert reply.part.total == SMALL
        if reply.part.begins:
            break
        page = Page(None, 70, seen[0])
    assert seen == [f"i{number}" for number in range(SMALL)]


async def test_looking_for_a_rare_state_looks_at_so_many_items_and_goes_on(laid, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.facts.reading.SCANNED", 1000)
    service = await laid(lay_long_queue, LARGE)
    after, pages = 0, []
    while True:
        page, cost = await service.cost(ReadItems(OWNER, LONG, after, state=State.LOCKED))
        pages.append(page)
        assert cost["reads"] < 40 * 1000
        if not page.more:
            break
        assert page.through > after
        after = page.through
    assert [page.entries for page in pages] == [()] * len(pages)
    assert len(pages) == LARGE // 1000


async def test_a_long_queue_is_counted_in_parts_and_others_read_in_between(laid, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.facts.reading.COUNTED", 1000)
    monkeypatch.setattr("pubqueue.engine.facts.reading.SCANNED", 500)
    service = await laid(lay_long_queue, LARGE)
    read, costs = service.store.read, []

    async def counted(job):
        service.steps["reads"] = 0
        done = await read(job)
        costs.append(service.steps["reads"])
        return done

    monkeypatch.setattr(service.store, "read", counted)
    answered = []
    asked = [
        asyncio.create_task(service.do(request))
        for request in (ReadNodes(OWNER), Describe(OWNER, LONG, manage=False), ListNodes(STRANGER))
    ]
    for at, task in enumerate(asked):
        task.add_done_callback(lambda _task, at=at: answered.append(at))
    page, *_ = await asyncio.gather(*asked)
    (entry,) = page.entries
    assert (entry.queued, entry.locked, entry.delayed, entry.dead) == (LARGE, 0, 0, 0)
    assert (page.more, answered) == (False, [2, 0, 1])
    assert len(costs) >= LARGE // 500
    assert max(costs) < 40 * 500


async def test_a_page_of_nodes_ends_before_there_is_too_much_to_count(laid, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.facts.reading.COUNTED", 3)
    service = await laid(lay_many_nodes, 10)
    names, after, pages = [], None, 0
    while True:
        page = await service.do(ReadNodes(OWNER, after))
        names += [entry.node.name for entry in page.entries]
        assert all(entry.queued == 1 for entry in page.entries)
        pages, after = pages + 1, names[-1]
        if not page.more:
            break
    assert (names, pages) == ([f"n{number:06}" for number in range(10)], 4)


async def test_nodes_that_are_pushed_cost_no_more_because_of_all_others(laid):
    costs = []
    for size in (SMALL, LARGE):
        service = await laid(lay_many_nodes, size)
        refused = await service.do(ListPushed(OWNER))
        assert refused.refusal is Refusal.FORBIDDEN
        for name in ("n000001", "n000003", "n000005"):
            settings = Settings({"labels": f"{PUSHED}=there"})
            await service.do(Configure(ADMIN, NodeName(name), settings))
        found, cost = await service.cost(ListPushed(ADMIN, most=2))
        assert ([node.name for node in found.nodes], found.more) == (["n000001", "n000003"], True)
        found = await service.do(ListPushed(ADMIN, NodeName("n000003"), 2))
        assert ([node.name for node in found.nodes], found.more) == (["n000005"], False)
        assert cost["batches"] == 0
        costs.append(cost["reads"])
    assert costs[1] <= costs[0] + A_BIT


@pytest.mark.parametrize("by", [OWNER, STRANGER, ADMIN])
async def test_nodes_of_a_prefix_cost_no_more_because_of_all_others(laid, by):
    costs = []
    for size in (SMALL, LARGE):
        service = await laid(lay_many_nodes, size)
        found, cost = await service.cost(ListNodes(by, Page(None, 100), prefix="n00000"))
        assert [name for name, _ in found.entries] == [f"n00000{number}" for number in range(10)]
        assert cost["batches"] == 0
        costs.append(cost["reads"])
    assert costs[1] <= costs[0] + A_BIT


OF_ALL_NODES = {
    "a stranger": ListNodes(STRANGER, FEW),
    "a stranger, backward": ListNodes(STRANGER, Page(None, 10, "")),
    "a stranger, of a type": ListNodes(STRANGER, FEW, Types(("",))),
    "an administrator, but a type": ListNodes(ADMIN, FEW, Types(excluded=("urn:none",))),
    "the owner, of a type, backward": ListNodes(OWNER, Page(None, 10, ""), Types(("", "urn:x"))),
    "the owner": ListMyAffiliations(OWNER, None, FEW),
    "the owner, backward": ListMyAffiliations(OWNER, None, Page(None, 10, "n002000")),
    "an administrator": ListMyAffiliations(ADMIN, None, FEW),
    "their counts": ReadNodes(ADMIN, max=10),
    "their definitions": ReadDefinitions(OWNER, max=10),
    "their events": ReadEvents(OWNER),
}


@pytest.mark.parametrize("name", OF_ALL_NODES)
async def test_no_more_nodes_are_loaded_than_are_shown(laid, made, name):
    service = await laid(lay_many_nodes, LARGE)
    made[0] = 0
    reply, cost = await service.cost(OF_ALL_NODES[name])
    assert not isinstance(reply, Refused)
    assert cost["batches"] == 0
    assert made[0] <= 24


async def test_a_list_of_all_nodes_comes_in_parts_to_the_end(laid):
    service = await laid(lay_many_nodes, 2_500)
    first = await service.do(ListNodes(STRANGER))
    assert len(first.entries) == 1000
    assert (first.part.more, first.part.total, first.part.asked) == (True, 2_500, False)
    names = [name for name, _ in first.entries]
    while len(names) < 2_500:
        reply = await service.do(ListNodes(STRANGER, Page(names[-1], None)))
        names += [name for name, _ in reply.entries]
    assert names == [f"n{number:06}" for number in range(2_500)]
    assert (await service.do(ListNodes(STRANGER, Page(names[-1], None)))).entries == ()


async def test_nodes_after_many_hidden_ones_are_still_listed(laid):
    """Nodes that exclude the requester do not make an empty page."""
    service = await laid(lay_many_nodes, 25)
    outcast = ((Jid("eve@x"), Affiliation.OUTCAST),)
    for number in range(20):
        await service.do(SetAffiliations(OWNER, NodeName(f"n{number:06}"), outcast))
    reply = await service.do(ListNodes(STRANGER, Page(None, 3)))
    assert [name for name, _ in reply.entries] == ["n000020", "n000021", "n000022"]
    assert reply.part.more


@pytest.mark.parametrize("make", [lambda n: Create(OWNER, NodeName(f"new{n}"), Settings({}))])
async def test_making_a_node_costs_the_same_however_many_there_are(laid, make):
    costs = []
    for size in (SMALL, LARGE):
        service = await laid(lay_many_nodes, size)
        await service.do(make(0))
        _, cost = await service.cost(make(1))
        costs.append(cost["batches"])
    assert costs[1] <= costs[0] + A_BIT, costs


async def test_without_workers_a_look_around_costs_the_same(laid):
    costs = []
    for size in (SMALL, LARGE):
        service = await laid(lay_many_nodes, size)
        service.steps["batches"] = 0
        service.broker.look_around()
        await service.broker.settled()
        costs.append(service.steps["batches"])
    assert costs[1] <= costs[0] + A_BIT, costs


async def test_a_look_around_is_made_in_parts_and_requests_come_in_between(laid, monkeypatch):
    monkeypatch.setattr(dispatch, "LOOKED_AT", 16)
    service = await laid(lay_many_nodes, 200)
    service.face.down()
    await service.broker.settled()
    names = [NodeName(f"n{number:06}") for number in range(200)]
    for name in names:
        await service.do(joins(ANN, 1, node=name))
    assert not [one for one in service.said if isinstance(one, Deliver)]
    batches = []
    monkeypatch.setattr(service.store, "batch", counting_batches(service.store.batch, batches))
    service.face.up()
    await service.broker.settled()
    handed = [one.item.node for one in service.said if isinstance(one, Deliver)]
    assert sorted(handed) == names
    assert len(batches) >= 200 // 16


def counting_batches(batch, batches):
    async def counted(job):
        batches.append(job)
        return await batch(job)

    return counted


async def test_rights_are_judged_before_anything_is_loaded(laid, monkeypatch):
    """Of 500 accounts of a node none is loaded for a stranger, and two for a change of one of them."""
    loaded = []
    row = pages.affiliation_of
    monkeypatch.setattr(pages, "affiliation_of", lambda *facts: loaded.append(facts) or row(*facts))
    service = await laid(lay_long_queue, 10)
    people = tuple((Jid(f"p{number}@x"), Affiliation.MEMBER) for number in range(500))
    await service.do(SetAffiliations(OWNER, LONG, people))
    counts = {}
    for name, request in {
        "a stranger's": GetAffiliations(STRANGER, LONG),
        "a description": Describe(STRANGER, LONG, manage=False),
        "a change": SetAffiliations(OWNER, LONG, (people[7],)),
        "a number": GetAffiliations(OWNER, LONG, Page(None, 0)),
        "all": GetAffiliations(OWNER, LONG),
    }.items():
        loaded.clear()
        reply = await service.do(request)
        counts[name] = len(loaded)
    assert counts == {
        "a stranger's": 0,
        "a description": 1,
        "a change": 1,
        "a number": 0,
        "all": 501,
    }
    assert len(reply.entries) == reply.part.total == 501


def test_all_that_changes_nothing_is_read_beside_the_batches():
    assert {
        *(Describe, GetAffiliations, ListNodes, ListItems, ListMyAffiliations),
        *(ListMySubscriptions, Retrieve, ReadEvents, ReadItems, ReadNodes, ListTransactions),
        *(ReadReasons, ReadDeaths, ReadSurvey, ReadNewer, AskNewest, ReadAlerts, ReadDefinitions),
        *(NextSubscribers, ListUnnotified),
        *(AskPowers, ReadWorkers, Search, Peek, ReadHistory, AskService, ReadConnections),
        *(GetDefaultOptions, GetSubscriptions, ReadPending),
        *(ListSchedules, ReadSamples, ReadUsedKey, ListRegistrations, ListPushed, ReadHeld),
        *(ReadMessage, ListMessages, AskUnanswered),
    } == {request for request in RULES if issubclass(request, Read)}


@pytest.mark.parametrize("name", READING_LOADS)
async def test_the_loads_of_the_bench_run_to_their_end(laid, name):
    _, lay, read = READING_LOADS[name]
    service = await laid(lay, 1_200)
    await read(service, 1_200)
