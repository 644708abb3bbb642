"""One worker for several queues: one connection, a window of each, and the queues in turn."""

import asyncio
from collections import Counter

import pytest
from harness.batches.inside import cut, held_items, session_of
from harness.patience import TIMEOUT
from harness.servers.queue_service import result

from pubqueue import ConfigurationError, Handlers, NoSuchNode, Worker
from pubqueue.testing import Service


@pytest.fixture(scope="module")
def running():
    with Service() as service:
        yield service


@pytest.fixture
def service(running):
    running.clear()
    for node in ("mails", "orders"):
        running.create(node)
    return running


def worker(service, **settings):
    return Worker(**service.account(), **{"node": ["mails", "orders"], "signals": ()} | settings)


async def test_the_same_id_is_another_item_in_another_queue(service):
    for node in ("mails", "orders"):
        service.publish(node, {"of": node}, id="a")
    seen = []

    async def handle(item):
        seen.append((item.node, item.id, item.data["of"]))

    await service.work(handle, node=("mails", "orders"))
    assert sorted(seen) == [("mails", "a", "mails"), ("orders", "a", "orders")]
    assert service.done("mails") == service.done("orders") == ["a"]


async def test_a_long_queue_keeps_no_item_of_a_short_one_waiting(service):
    for number in range(6):
        service.publish("mails", number, id=f"m{number}")
    for number in range(2):
        service.publish("orders", number, id=f"o{number}")
    taken = []
    async with worker(service) as bot:
        while len(held_items(bot).locked()) < 8:  # all are here, before the first is begun
            await session_of(bot).ask_time()
        async for item in bot:
            async with item:
                taken.append(item.id)
            if len(taken) == 8:
                bot.stop()
    assert taken[:4] in (["m0", "o0", "m1", "o1"], ["o0", "m0", "o1", "m1"])
    assert taken[4:] == ["m2", "m3", "m4", "m5"]


async def test_queues_share_the_turns_and_the_windows_by_their_weights(service):
    for number in range(8):
        service.publish("mails", number, id=f"m{number}")
        service.publish("orders", number, id=f"o{number}")
    taken = []
    async with worker(service, weights={"mails": 3}, requests=4) as bot:
        while len(held_items(bot).locked()) < 8:
            await session_of(bot).ask_time()
        held = Counter(item.node for item in held_items(bot).locked())
        async for item in bot:
            taken.append(item)
            if len(taken) == 8:
                bot.stop()
                for one in taken:
                    await one.unlock()
    assert held == {"mails": 6, "orders": 2}
    nodes = "".join(item.node[0] for item in taken)
    assert sorted(nodes[:4]) == sorted(nodes[4:]) == ["m", "m", "m", "o"]


async def test_the_nodes_are_those_that_the_handlers_name(service):
    app = Handlers()

    @app.handler(node="mails")
    async def mail(item): ...

    @app.handler(node="orders")
    async def order(item): ...

    service.publish("mails", 1, id="m")
    service.publish("orders", 1, id="o")
    bot = Worker(**service.account(), handlers=app, signals=())
    running = asyncio.create_task(bot.run())
    await service.settled(["mails", "orders"])
    bot.stop()
    await running
    assert (service.done("mails"), service.done("orders")) == (["m"], ["o"])


def test_a_node_that_is_given_outranks_those_of_the_handlers(service):
    app = Handlers()
    app.handler(node=["mails", "orders"])(print_nothing)
    with pytest.raises(ConfigurationError, match="No handler takes items of the node 'mail'"):
        Worker(**service.account(), handlers=app, node="mail")
    Worker(**service.account(), handlers=app, node="mails", weights={"mails": 2})
    with pytest.raises(ValueError, match="'orders', which is no node of this worker"):
        Worker(**service.account(), handlers=app, node="mails", weights={"orders": 2})


async def test_a_worker_has_its_handlers_once(service):
    app = Handlers()
    app.handler(node="mails")(print_nothing)
    with pytest.raises(TypeError, match="was made with handlers"):
        await Worker(**service.account(), handlers=app).run(Handlers())
    with pytest.raises(TypeError, match="handlers is 7; it takes Handlers"):
        Worker(**service.account(), handlers=7)
    with pytest.raises(TypeError, match="The handler is None"):
        await worker(service).run()
    with pytest.raises(ConfigurationError, match="of the node 'orders'"):
        await worker(service).run(app)


async def print_nothing(item):
    """Do nothing."""


async def test_each_queue_has_a_window_of_its_own_and_each_item_a_handler(service):
    for node in ("mails", "orders"):
        for number in range(5):
            service.publish(node, number)
    all_of_them, begun = asyncio.Event(), []

    async def handle(item):
        begun.append(item.node)
        if len(begun) == 4:
            all_of_them.set()
        await all_of_them.wait()

    bot = worker(service, requests=2)
    running = asyncio.create_task(service.run(bot, handle, node=["mails", "orders"]))
    async with asyncio.timeout(TIMEOUT):
        await all_of_them.wait()
        assert sorted(begun[:4]) == ["mails", "mails", "orders", "orders"]
        await running


async def test_one_that_is_deleted_ends_the_worker_by_name(service):
    async with worker(service) as bot, asyncio.timeout(TIMEOUT):
        service.clear()  # which cuts it off as well
        with pytest.raises(NoSuchNode, match="'mails'"):
            await anext(bot)


async def test_one_that_is_not_there_is_named_at_once(service):
    with pytest.raises(NoSuchNode, match="no node 'nowhere'"):
        async with worker(service, node=["mails", "nowhere"]):
            pass


async def test_handlers_with_their_limits_take_from_all_queues(service):
    app = Handlers()

    @app.handler("mail", concurrency=1)
    async def mail(item): ...

    @app.handler("order")
    async def order(item): ...

    for number in range(3):
        service.publish("mails", {"type": "mail"}, id=f"m{number}")
        service.publish("orders", {"type": "order"}, id=f"o{number}")
    await service.run(worker(service), app, node=["mails", "orders"])
    assert sorted(service.done("mails")) == ["m0", "m1", "m2"]
    assert sorted(service.done("orders")) == ["o0", "o1", "o2"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ([], "A worker needs the name of a node"),
        (["a", ""], "A worker needs the name of a node"),
        (["a", 7], "A worker needs the name of a node"),
        (["a", "b", "a"], "The node 'a' is given more than once"),
    ],
)
def test_names_that_are_none_are_refused(service, wrong, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        worker(service, node=wrong)


@pytest.mark.e2e
async def test_all_are_subscribed_again_and_all_are_left(service_script, worker_of):
    service = service_script
    async with worker_of(node=["jobs", "more"], requests=3) as bot:
        asked = [await service.next("subscribe") for _ in range(2)]
        assert [iq[0][0].get("node") for iq in asked] == ["jobs", "more"]
        cut(session_of(bot))
        asked = [await service.next("subscribe") for _ in range(2)]
        assert [iq[0][0].get("node") for iq in asked] == ["jobs", "more"]
        await session_of(bot).ready()
    left = [await service.next("unsubscribe") for _ in range(2)]
    assert [iq[0][0].get("node") for iq in left] == ["jobs", "more"]


@pytest.fixture
async def service_script(prosody):
    from harness.servers.queue_service import QueueService  # noqa: PLC0415 - named as the one in this process

    async with QueueService(prosody.component_port, prosody.secret) as scripted:
        scripted.script["unsubscribe"] = lambda iq: [result(iq)]
        yield scripted
