"""PostgreSQL is cut off between any two messages of a batch. Whoever is answered is answered rightly, nothing is half there,
what was delivered is locked, and it goes on by itself."""

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, NOW, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.transactions import MORE, aborts, commits, in_slices, stages
from harness.batches.witness import WatchedFace
from harness.databases.postgres_cuts import CutWire
from harness.patience import TIMEOUT
from harness.stores.replay import Replay, there
from harness.stores.store_contents import ALL, contents, recount, subscribers

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.listings import Events
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import State
from pubqueue.model.notices import Deliver
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.expire import Expire
from pubqueue.rules.moving import ResumeMoves
from pubqueue.rules.nodes import Purge
from pubqueue.rules.subscribe import Unsubscribe
from pubqueue.stores.postgres.store import PostgresStore

NODES = JOBS, MORE


class Service:
    """A broker on a store behind a wire, and what it says to everybody."""

    def __init__(self, wire, address):
        self.wire = wire
        self.now = NOW
        self.said = []
        self._log = Replay()
        self.store = PostgresStore(wire.address(address))
        self.broker = Broker(
            self.store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: self.now,
        )
        self.face = WatchedFace(self.broker, self.said)

    async def __aenter__(self):
        await self.store.open()
        self.broker.start()
        self.face.up()
        return self

    async def __aexit__(self, *_):
        await self.broker.stop()
        await self.store.close()

    async def do(self, *requests):
        """Have them done, one after the other; none may be refused."""
        for request in requests:
            reply = await self.broker.handle(request)
            assert not isinstance(reply, Refused), (request, reply)
        await self.broker.settled()

    def delivered(self):
        return [notice for notice in self.said if isinstance(notice, Deliver)]

    async def seen(self):
        """Return what is there and who has it, however often it has been there before.

        All counts have to be right, and the log has to tell the same without a gap.
        """
        return await self.store.batch(self._seen)

    def _seen(self, tx):
        assert recount(tx) == []
        log = tx.page(Events(None, ALL), self._log.seq, ALL)
        assert [entry.seq for entry in log] == [self._log.seq + 1 + n for n in range(len(log))]
        assert self._log.follow(log).items == there(tx)
        items = [
            (node, item.id, item.state, item.holder, item.failed, payload)
            for node in NODES
            for item, payload in contents(tx, node)
        ]
        windows = [
            (one.node, one.jid, one.in_flight) for node in NODES for one in subscribers(tx, node)
        ]
        return sorted(items), sorted(windows)


@dataclass
class Story:
    """What is asked while the wire is cut, so many seconds after what was done in peace."""

    before: list
    asked: object
    later: float = 0


def committing(number):
    """Return how six items of two nodes are staged, and the commit; an application is as young as the number."""
    named = {"app": f"app{number}"}
    names = [f"i{count}" for count in range(3)]
    staging = [stages(*names, node=node, part=part, **named) for part, node in enumerate(NODES)]
    return staging, commits((0, 0, 3), (1, 0, 3), **named)


def committed(number):
    staging, commit = committing(number)
    return Story([joins(ANN, 2), *staging], commit)


ONE, TWO, THREE = publishes("i1"), publishes("i1", "i2"), publishes("i1", "i2", "i3")

STORIES = {
    "publish": lambda _: Story([], TWO),
    "publish and hand out": lambda _: Story([joins(ANN, 2)], THREE),
    "hand out": lambda _: Story([TWO], joins(ANN, 1)),
    "retract": lambda _: Story([joins(ANN, 2), THREE], retracts(ANN, "i1", "i2")),
    "unlock": lambda _: Story([joins(ANN), ONE, joins(BOB)], unlocks(ANN, "i1")),
    "leave": lambda _: Story([joins(ANN, 2), TWO, joins(BOB)], Unsubscribe(who(ANN), JOBS, ANN)),
    "expire": lambda _: Story([joins(ANN), joins(BOB), TWO], Expire(), later=301),
    "stage": lambda number: Story([], committing(number)[0][0]),
    "commit": committed,
    "abort": lambda number: Story(committing(number)[0], aborts(app=f"app{number}")),
    "purge": lambda _: Story([joins(ANN), TWO], Purge(who(BOSS), JOBS)),
}


@pytest.fixture
def at_the_cut():
    """What happens at a cut besides."""

    async def nothing():
        pass

    return nothing


@pytest.fixture
async def service(postgres, at_the_cut):
    async with (
        CutWire(postgres.port, at_the_cut) as wire,
        Service(wire, postgres.address) as service,
    ):
        for node in NODES:
            await service.do(a_queue(node, event_log=1, backoff_min=0))
        yield service


async def begin(service, story):
    """Bring it to where the story is cut; return what is there."""
    for node in NODES:
        await service.do(Purge(who(BOSS), node))
        for jid in (ANN, BOB):
            await service.broker.handle(Unsubscribe(who(jid), node, jid))
    await service.do(*story.before)
    service.said.clear()
    before = await service.seen()
    service.now += story.later * 1000
    return before


async def cut_everywhere(service, make, *, answers, then=lambda: None):
    """Yield for each place where it can be cut: the answer, and what was there before; and for none, at the end."""
    for number in itertools.count(1):
        story = make(number)
        before = await begin(service, story)
        service.wire.arm(number, answers=answers)
        asked = asyncio.create_task(service.broker.handle(story.asked))
        cut = asyncio.create_task(service.wire.was_cut.wait())
        await asyncio.wait({asked, cut}, return_when=asyncio.FIRST_COMPLETED)
        was_cut = service.wire.disarm()
        if was_cut:
            then()
        cut.cancel()
        yield await asked, before
        if not was_cut:
            return


async def in_peace(service, make):
    """Return what is there after a story that nobody cuts, and how much is delivered."""
    await begin(service, make(0))
    await service.do(make(0).asked)
    return await found(service)


async def found(service):
    await service.broker.settled()
    return await service.seen(), len(service.delivered())


async def true_answers(service, make, **how):
    """Cut it everywhere; return of each place whether the request was refused."""
    after = await in_peace(service, make)
    refused = []
    async for reply, before in cut_everywhere(service, make, **how):
        refused.append(isinstance(reply, Refused))
        assert await found(service) == ((before, 0) if refused[-1] else after)
        assert not refused[-1] or reply.refusal is Refusal.STORE_FAILED
    return refused


@pytest.mark.parametrize("answers", [False, True], ids=["steps", "answers"])
@pytest.mark.parametrize("name", STORIES)
async def test_cut_there_an_answer_is_true_and_nothing_is_half_there(service, name, answers):
    refused = await true_answers(service, STORIES[name], answers=answers)
    # lost before anything was asked, lost when it was committed, and not at all
    assert refused[0] is refused[-2] is refused[-1] is False
    assert answers or sum(refused) > 3


async def test_a_commit_in_slices_goes_on_wherever_it_was_cut(service, monkeypatch):
    """Whoever is refused knows nothing; who is answered has all. The reaper resumes what is begun."""
    in_slices(monkeypatch, 3)
    after = await in_peace(service, committed)
    ends = Counter()
    async for reply, before in cut_everywhere(service, committed, answers=True):
        await service.do(ResumeMoves())
        end = await found(service)
        ends[isinstance(reply, Refused), end == after] += 1
        assert end in ((before, 0), after)
    assert ends.keys() == {(True, False), (True, True), (False, True)}


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_an_unrequested_read_is_repeated_by_itself(service, number):
    """To hand out is nobody's request: a look around that met the cut is taken again."""
    service.face.down()
    await service.do(joins(ANN), ONE)
    service.said.clear()
    service.wire.arm(number, answers=True)
    service.face.up()
    async with asyncio.timeout(TIMEOUT):
        await service.broker.settled()
    assert service.wire.disarm()
    (delivery,) = service.delivered()
    assert (delivery.to, await service.seen()) == (
        ANN,
        ([(JOBS, "i1", State.LOCKED, ANN, 0, b"<job/>")], [(JOBS, ANN, 1)]),
    )


class TestKilled:
    """The server is killed where it is cut, and started again while the store tries to find out."""

    @pytest.fixture
    def at_the_cut(self, postgres):
        return lambda: asyncio.to_thread(postgres.kill)

    @pytest.mark.parametrize("name", ["publish and hand out", "retract"])
    async def test_killed_there_an_answer_is_true(self, service, postgres, name):
        """Whether anything is refused depends on whether the server is back when the store asks again; true it is always."""
        places = await true_answers(service, STORIES[name], answers=True, then=postgres.start)
        assert len(places) > 3
