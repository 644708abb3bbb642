"""Publishers and workers with several services on one server, each a process with a store of its own."""

import asyncio
from collections import Counter, defaultdict
from contextlib import asynccontextmanager

import pytest
from harness.batches.inside import held_items, session_of
from harness.patience import TIMEOUT, until
from harness.servers.several import SERVICES, for_several, one_of, several
from prometheus_client import CollectorRegistry

from pubqueue import (
    FollowUp,
    Handlers,
    Hold,
    NewItem,
    NoSuchNode,
    NotAllPublished,
    NotConfirmed,
    Publisher,
    Refused,
    ServiceUnavailable,
    Then,
    Timings,
    Worker,
)
from pubqueue_xeps.metrics import Metrics
from pubqueue_xeps.wire.services import read_services
from pubqueue_xeps.worker.schedules import Schedules

pytestmark = pytest.mark.e2e
QUICK = Timings(answer=1, refresh=2, backoff_min=0.05, backoff_max=0.5)
A, B, C, D = SERVICES
NODES = """
admins = ["bot@localhost"]

[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost", "bot@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#backoff_min" = 0
"x-queueing#dedup_window" = 600
"""

server = for_several("etl", "bot")


@pytest.fixture
async def programs(server, tmp_path):
    async with several(server, tmp_path, NODES) as started:
        yield started


@pytest.fixture
def at(server):
    return {"host": server.host, "port": server.c2s_port, "tls": "off", "timings": QUICK}


def publisher(at, services=(A, B), **settings):
    settings = {"services": services, "timeout": TIMEOUT, **at} | settings
    return Publisher("etl@localhost", "secret", **settings)


def worker(at, services=(A, B), **settings):
    settings = {"services": services, "node": "jobs", "signals": (), **at} | settings
    return Worker("bot@localhost/one", "secret", **settings)


class Done:
    """A handler that notes what it has done, and where it came from."""

    def __init__(self):
        self.times, self.services = Counter(), defaultdict(set)
        self.order, self.news = [], asyncio.Event()

    async def __call__(self, item):
        self.times[item.id] += 1
        self.services[item.service].add(item.id)
        self.order.append(item.id)
        self.news.set()

    async def all_of(self, ids):
        wanted = set(ids)
        async with asyncio.timeout(TIMEOUT):
            while not self.times.keys() >= wanted:
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def working(at, handler, services=(A, B), **settings):
    bot = worker(at, services, **settings)
    async with bot, asyncio.TaskGroup() as group:
        group.create_task(bot.run(handler))
        yield bot
        await bot.drain()


def names(count, prefix="i"):
    return [f"{prefix}{number}" for number in range(count)]


def shares(ids, *services):
    """Return the ids of each service, as the rule places them."""
    found = {one: set() for one in services}
    for one in ids:
        found[read_services(services).place(one)].add(one)
    return found


async def test_each_of_four_services_has_its_share_and_one_worker_takes_from_all(
    server, tmp_path, at
):
    ids = names(200)
    done = Done()
    async with several(server, tmp_path, NODES, SERVICES), publisher(at, SERVICES) as etl:
        results = await etl.publish_many("jobs", [NewItem(payload=1, id=one) for one in ids])
        again = await etl.publish("jobs", 1, id="i0")
        async with working(at, done, SERVICES):
            await done.all_of(ids)
    assert [one.id for one in results] == ids
    assert again.duplicate
    assert again.service == results[0].service
    assert done.times == dict.fromkeys(ids, 1)
    assert done.services == shares(ids, *SERVICES)
    assert {one.service: one.id in done.services[one.service] for one in results} == dict.fromkeys(
        SERVICES, True
    )


async def test_a_group_is_at_one_service_and_keeps_its_order(programs, at):
    items = [NewItem(payload=n, id=f"{g}-{n}", group=g) for n in range(15) for g in "stuvw"]
    done = Done()
    async with publisher(at) as etl:
        for item in items:
            await etl.publish("jobs", item.payload, id=item.id, group=item.group)
        async with working(at, done, requests=4):
            await done.all_of(item.id for item in items)
    for group in "stuvw":
        assert [one for one in done.order if one[0] == group] == names(15, f"{group}-")
        places = [place for place, ids in done.services.items() if f"{group}-0" in ids]
        assert places == [read_services([A, B]).place(group)]
        assert set(names(15, f"{group}-")) <= done.services[places[0]]


async def test_a_service_that_is_killed_takes_only_its_share_and_nothing_is_lost(programs, at):
    ids = names(300)
    share = shares(ids, A, B)
    done = Done()
    async with publisher(at) as etl, working(at, done, requests=8):
        first = [NewItem(payload=1, id=one) for one in ids[:100]]
        publishing = asyncio.create_task(etl.publish_many("jobs", first))
        await done.all_of(ids[:10])
        await programs[B].kill()
        rest = [NewItem(payload=1, id=one) for one in ids[100:]]
        more = asyncio.create_task(etl.publish_many("jobs", rest, in_flight=10))
        await done.all_of(share[A])
        assert not more.done()
        assert not share[B] & set(ids[100:]) & done.times.keys()
        await programs[B].start()
        results = [*await publishing, *await more]
        await done.all_of(ids)
    assert [one.id for one in results] == ids
    assert {one.id for one in results if one.service == B} == share[B]
    # what B had delivered when it was killed may come again, and nothing else
    assert {one for one, times in done.times.items() if times > 1} <= share[B] & set(ids[:100])
    assert dict(done.services) == share


async def test_what_waits_for_a_service_that_stays_away_ends_by_itself(programs, at):
    await programs[B].kill()
    ids = names(40)
    share = shares(ids, A, B)
    async with publisher(at) as etl:
        with pytest.raises(NotAllPublished) as raised:
            await etl.publish_many(
                "jobs", [NewItem(payload=1, id=one) for one in ids], timeout=1, in_flight=4
            )
    found = dict(zip(ids, raised.value.results, strict=True))
    errors = {one for one, result in found.items() if isinstance(result, Exception)}
    assert errors >= share[B]
    assert all(isinstance(found[one], ServiceUnavailable | NotConfirmed) for one in errors)
    # and nothing of it is elsewhere
    await programs[B].start()
    done = Done()
    async with working(at, done):
        await done.all_of(set(ids) - errors)
    assert done.services[A] <= share[A]


async def test_a_worker_begins_without_a_service_that_is_away_and_takes_it_up(programs, at):
    ids = names(20)
    share = shares(ids, A, B)
    done, registry = Done(), CollectorRegistry()
    async with publisher(at) as etl:
        await etl.publish_many("jobs", [NewItem(payload=1, id=one) for one in ids])
    await programs[A].kill()
    async with working(at, done, metrics=Metrics(registry)):
        await done.all_of(share[B])
        connected = [
            registry.get_sample_value("pubqueue_worker_connected", {"service": one})
            for one in (A, B)
        ]
        assert connected == [0, 1]
        # the window of the queue is over both
        windows = [
            registry.get_sample_value("pubqueue_worker_window", {"service": one, "node": "jobs"})
            for one in (A, B)
        ]
        assert windows == [5, 5]
        assert not share[A] & done.times.keys()
        await programs[A].start()
        await done.all_of(ids)
        counted = {
            one: registry.get_sample_value(
                "pubqueue_worker_items_total",
                {"service": one, "node": "jobs", "handler": "handler", "outcome": "done"},
            )
            for one in (A, B)
        }
    assert done.times == dict.fromkeys(ids, 1)
    assert sum(value or 0 for value in counted.values()) <= 20


async def test_one_service_more_joins_with_items_in_flight_and_no_group_moves(
    server, programs, tmp_path, at
):
    ids = names(60)
    joining = (A, B, f"{C}=joining")
    done = Done()
    async with publisher(at) as old:
        await old.publish_many("jobs", [NewItem(payload=1, id=one) for one in ids])
        async with one_of(server, tmp_path, NODES, C), publisher(at, joining) as new:
            # publishers with the list before and with this one agree about each id and each group
            again = await new.publish_many("jobs", [NewItem(payload=1, id=one) for one in ids])
            assert all(one.duplicate for one in again)
            grouped = await new.publish_many("jobs", [NewItem(payload=1, group=g) for g in ids])
            before = await old.publish_many("jobs", [NewItem(payload=1, group=g) for g in ids])
            assert [one.service for one in grouped] == [one.service for one in before]
            free = await new.publish_many("jobs", [1] * 60)
            assert {one.service for one in free} == {A, B, C}
            # then all of it: only the share of C goes elsewhere than before
            async with publisher(at, (A, B, C)) as newest:
                latest = await newest.publish_many(
                    "jobs", [NewItem(payload=2, group=g) for g in ids]
                )
                moved = [
                    one.service
                    for one, was in zip(latest, before, strict=True)
                    if one.service != was.service
                ]
                assert set(moved) == {C}
            published = [*again, *grouped, *before, *free, *latest]
            async with working(at, done, (A, B, C)):
                await done.all_of(one.id for one in published)
    assert set(done.times.values()) == {1}


async def test_a_service_that_drains_gets_nothing_new_and_is_emptied(programs, at):
    ids = names(40)
    draining = (A, f"{B}=draining")
    done = Done()
    async with publisher(at) as before:
        await before.publish_many("jobs", [NewItem(payload=1, id=one) for one in ids])
    async with publisher(at, draining) as etl, working(at, done, draining) as bot:
        news = await etl.publish_many("jobs", [NewItem(payload=1, id=f"new{n}") for n in range(40)])
        assert {one.service for one in news} == {A}
        await done.all_of([*ids, *names(40, "new")])
        assert done.services[B] == shares(ids, A, B)[B]
        # it is empty, and may go: the worker works on
        await until(lambda: not held_items(bot, 1).in_hand)
        await programs[B].kill()
        await etl.publish("jobs", 1, id="last")
        await done.all_of(["last"])
    await programs[B].start()


async def test_a_draining_service_that_no_longer_has_the_queue_ends_no_worker(
    server, programs, tmp_path, at
):
    done = Done()
    async with one_of(server, tmp_path, "", C), publisher(at) as etl:
        async with working(at, done, (A, B, f"{C}=draining")):
            await etl.publish("jobs", 1, id="i1")
            await done.all_of(["i1"])
        with pytest.raises(NoSuchNode):
            await worker(at, (A, B, C)).run(done)


async def test_an_item_is_found_at_whichever_service_it_is(programs, at):
    done = Done()
    async with publisher(at) as etl:
        for group in "stuvw":
            await etl.publish("jobs", 1, id=f"of-{group}", group=group)
        cancelled = [await etl.retract("jobs", f"of-{group}") for group in "stuvw"]
        assert all(one.there for one in cancelled)
        assert (await etl.retract("jobs", "of-s")).there is False
        with pytest.raises(NoSuchNode):
            await etl.retract("none", "of-s")
        with pytest.raises(Refused):
            await etl.signal("jobs", "of-s", "paid")

        async def wait(item):
            return await done(item) if item.signals else Hold("paid")

        ids = names(6)
        await etl.publish_many("jobs", [NewItem(payload=1, id=one, group=one) for one in ids])
        async with working(at, wait):
            for one in ids:
                await etl.signal("jobs", one, "paid")
            await done.all_of(ids)


async def test_questions_are_answered_where_they_were_asked_and_follow_ups_have_their_place(
    programs, at
):
    places = {}

    async def handle(item):
        places[item.id] = item.service
        if item.wants_reply:
            again = [await item.publish("jobs", 1, id=f"{item.id}-{n}") for n in range(4)]
            return {"from": item.service, "follow-ups": [one.service for one in again]}
        return None

    async with publisher(at) as etl, working(at, handle):
        for name in names(6, "q"):
            reply = await etl.ask("jobs", 1, id=name, timeout=TIMEOUT)
            rule = read_services([A, B])
            ours = [rule.place(f"{name}-{n}") for n in range(4)]
            assert reply.data == {"from": rule.place(name), "follow-ups": ours}
            # asked again, it is the same question
            assert (await etl.ask("jobs", 1, id=name, timeout=TIMEOUT)).data == reply.data
        assert (await etl.ask("jobs", 1, timeout=TIMEOUT)).data["from"] in {A, B}
    assert set(places.values()) == {A, B}


async def test_a_join_waits_for_members_at_its_own_service(programs, at):
    done, woken = Done(), {}

    async def handle(item):
        woken[item.id] = (item.woken, item.service)
        return await done(item)

    rule = read_services([A, B])
    async with publisher(at) as etl, working(at, handle):
        for number in range(6):
            parts = [NewItem(payload=1, id=f"p{number}-{n}") for n in range(5)]
            join = f"all{number}"
            published = await etl.publish_many("jobs", parts, then=NewItem(payload=1, id=join))
            assert {one.service for one in published} == {rule.place(join)}
            await done.all_of([join])
            assert woken[join] == ("count", rule.place(join))


async def test_a_follow_up_is_at_the_service_of_its_item_or_refused(programs, at):
    done, refused = Done(), {}

    async def handle(item):
        if not item.id.startswith("f"):
            try:
                await item.retract(Then(FollowUp("jobs", 1, id=f"f-{item.id}")))
            except ValueError as problem:
                refused[item.id] = str(problem)
        return await done(item)

    rule = read_services([A, B])
    ids = names(12)
    ours = {one for one in ids if rule.place(one) == rule.place(f"f-{one}")}
    assert 0 < len(ours) < len(ids)
    async with publisher(at) as etl, working(at, handle):
        await etl.publish_many("jobs", [NewItem(payload=1, id=one) for one in ids])
        await done.all_of([*ids, *(f"f-{one}" for one in ours)])
    assert refused.keys() == set(ids) - ours
    assert all(rule.place(f"f-{one}") in why for one, why in refused.items())


async def test_a_file_of_pending_publishes_waits_for_each_service_by_itself(programs, tmp_path, at):
    ids = names(20)
    share = shares(ids, A, B)
    file, done = tmp_path / "pending", Done()
    await programs[B].kill()
    settings = {"level": "assured", "pending": file}
    async with publisher(at, **settings) as etl:
        publishing = [asyncio.create_task(etl.publish("jobs", 1, id=one)) for one in ids]
        await asyncio.wait(
            [task for task, one in zip(publishing, ids, strict=True) if one in share[A]]
        )
        assert {one.to for one in etl.pending()} == {B}
    await asyncio.gather(*publishing, return_exceptions=True)
    await programs[B].start()
    async with publisher(at, **settings) as etl, working(at, done):
        await until(lambda: not etl.pending())
        await done.all_of(ids)
    assert done.times == dict.fromkeys(ids, 1)


async def test_a_schedule_is_at_one_service_and_moves_with_the_list(server, programs, tmp_path, at):
    app = Handlers()
    for name in names(4, "nightly"):
        app.periodic("@daily", node="jobs", id=name)(_nothing)

    async def ensured(services):
        """Return which service has which schedule, once a worker with this list has ensured them."""
        rule = read_services(services)
        wanted = {(rule.place(name), name) for name in names(4, "nightly")}
        async with worker(at, services, handlers=app) as bot:
            running = asyncio.create_task(bot.run())
            found = await until(lambda: _schedules(bot, services, wanted))
            bot.stop()
            await running
        return found

    first = await ensured((A, B))
    assert {place for place, _ in first} == {A, B}
    async with one_of(server, tmp_path, NODES, C):
        second = await ensured((A, B, C))
        assert len(second) == 4
        assert second != first
        assert await ensured((A, B, f"{C}=draining")) == first


async def _schedules(bot, services, wanted):
    found = set()
    for at, service in enumerate(read_services(services).names):
        there = Schedules(session_of(bot, at), service, Timings())
        for name in names(4, "nightly"):
            if await there.stored(name) is not None:
                found.add((service, name))
    return found if found == wanted else None


async def _nothing(item): ...
