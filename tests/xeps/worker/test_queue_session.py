"""What the worker does about connections, refusals and its own end, on a real Prosody."""

import asyncio
import gc
import logging
import os
import signal
import tracemalloc
from itertools import pairwise

import pytest
from harness.batches import inside
from harness.batches.inside import has_noticed_the_cut, session_of
from harness.patience import TIMEOUT
from harness.servers.queue_service import (
    OPTIONS,
    PUBSUB,
    QueueService,
    answer,
    in_turn,
    refuse,
    result,
    subscription,
    verb_of,
)

from pubqueue.loopback import free_ports
from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.errors import (
    GoneUnconfirmed,
    LockLost,
    LoginFailed,
    NoSuchNode,
    NotAQueue,
    Refused,
    Replaced,
)

pytestmark = pytest.mark.e2e

SUBSCRIBE_REFUSALS = [
    (["item-not-found"], NoSuchNode, r"queue\.localhost has no node 'jobs'\."),
    (["feature-not-implemented", "unsupported"], NotAQueue, "is not a work queue"),
    (["bad-request", "invalid-options"], NotAQueue, "is not a work queue"),
    (["forbidden"], Refused, r"refused the request about 'jobs': forbidden\."),
    (["not-allowed", "closed-node"], Refused, "not-allowed, closed-node"),
]


def cut(worker):
    """Lose the connection, as by a broken cable."""
    inside.cut(session_of(worker))


async def test_a_wrong_password_ends_the_entry(service, worker_of):
    with pytest.raises(LoginFailed, match="refused bot@localhost: wrong name or password"):
        await worker_of(password="wrong").__aenter__()


@pytest.mark.parametrize(("refusal", "error", "sentence"), SUBSCRIBE_REFUSALS)
async def test_a_refused_subscription_ends_the_entry(service, worker_of, refusal, error, sentence):
    service.script["subscribe"] = lambda iq: [refuse(iq, *refusal)]
    with pytest.raises(error, match=sentence):
        await worker_of().__aenter__()


@pytest.fixture
def warned():
    """Return the warnings as they come."""
    reported = asyncio.Queue()

    class Handler(logging.Handler):
        def emit(self, record):
            reported.put_nowait(record.getMessage())

    handler = Handler(logging.WARNING)
    logging.getLogger("pubqueue_xeps").addHandler(handler)
    yield reported
    logging.getLogger("pubqueue_xeps").removeHandler(handler)


async def test_a_service_that_is_not_there_is_waited_for(prosody, worker_of, warned):
    entering = asyncio.create_task(worker_of().__aenter__())
    assert "queue.localhost does not answer now" in await warned.get()
    async with QueueService(prosody.component_port, prosody.secret) as service:
        jid = await service.subscriber()
        worker = await entering
        assert worker.jid == jid
        await worker.__aexit__(None, None, None)


async def test_a_server_that_is_not_there_is_waited_for(worker_of, warned):
    async with Prosody() as server:
        await server.account("bot", "secret")
        await server.stop()
        entering = asyncio.create_task(worker_of(port=server.c2s_port).__aenter__())
        said = await warned.get()
        assert "worker.waiting" in said
        assert f"localhost at {server.host}:{server.c2s_port} cannot be reached" in said
        await server.start()
        async with QueueService(server.component_port, server.secret) as service:
            await service.subscriber()
            worker = await entering
            await worker.__aexit__(None, None, None)


async def test_a_wait_for_a_server_can_be_cancelled(worker_of):
    (port,) = free_ports(1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await worker_of(port=port).__aenter__()


async def test_a_node_that_grants_no_window_is_no_queue(service, worker_of):
    service.script["subscribe"] = lambda iq: [result(iq, subscription(iq))]
    with pytest.raises(NotAQueue, match=r"'jobs' at queue\.localhost is not a work queue"):
        await worker_of().__aenter__()
    await service.next("unsubscribe")


async def test_a_pending_subscription_is_not_waited_for(service, worker_of):
    form = OPTIONS % ("result", "<value>1</value>")
    service.script["subscribe"] = lambda iq: [result(iq, subscription(iq, "pending") + form)]
    with pytest.raises(Refused, match="left the subscription to 'jobs' pending"):
        await worker_of().__aenter__()


async def test_another_form_is_filled_in(service, worker_of):
    """XEP-0254 section 2.1: the service may answer a subscription with a form of its own."""
    form = f"""<options><x xmlns='jabber:x:data' type='form'>
        <field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#subscribe_options</value></field>
        <field var='pubsub#deliver' type='boolean'><value>1</value></field>
        <field var='queue_requests' type='text-single'><required/></field></x></options>"""
    asked = []

    def negotiate(iq):
        asked.append(
            {f.get("var"): f.findtext("{*}value") for f in iq.iter("{jabber:x:data}field")}
        )
        if len(asked) == 1:
            return [refuse(iq, "not-acceptable", "configuration-required", form)]
        granted = OPTIONS.replace("pubsub#queue", "queue") % ("result", "<value>4</value>")
        return [result(iq, subscription(iq) + granted)]

    service.script["subscribe"] = negotiate
    async with worker_of(requests=4):
        pass
    name = f"{PUBSUB}#subscribe_options"
    assert asked == [
        {"FORM_TYPE": name, "pubsub#queue_requests": "4"},
        {"FORM_TYPE": name, "pubsub#deliver": "1", "queue_requests": "4"},
    ]


async def test_a_lost_connection_is_made_again_and_subscribed_again(service, worker_of):
    async with worker_of(requests=2) as worker:
        first = await service.subscriber()
        service.deliver(first, "begun")
        item = await anext(worker)
        cut(worker)
        assert (await service.next("unavailable")).get("from") == first
        assert await service.subscriber() == first
        await item.retract()
        assert (await service.next("retract")).get("from") == first


async def test_a_retract_that_the_connection_took_along_is_not_known_to_have_deleted_the_item(
    service, worker_of, caplog
):
    """The service frees what we had; another worker may have had it since, and done it."""
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        service.script["retract"] = lambda iq: cut(worker) or []
        left = asyncio.create_task(item.retract())
        await service.next("retract")
        service.script["retract"] = lambda iq: [refuse(iq, "item-not-found")]
        for asked in (left, item.retract()):
            with pytest.raises(GoneUnconfirmed, match="'i1' is gone; whether this worker's"):
                await asked
        assert item.state == "gone"
    assert "item.gone" in caplog.text


async def test_leaving_the_block_of_such_an_item_is_not_fatal(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            service.script["retract"] = in_turn(
                lambda iq: cut(worker) or [], lambda iq: [refuse(iq, "item-not-found")]
            )
        assert item.state == "gone"


def free(iq):
    return [refuse(iq, "unexpected-request")]


async def test_an_item_that_is_free_after_a_cut_may_be_on_its_way_back(service, worker_of):
    """The service has freed it, and delivers it again to the only worker a moment after that has asked for its old lock."""

    def relock(iq):
        service.deliver(worker.jid, "i1", token=2, attempt=2)
        return [refuse(iq, "conflict")]

    def done(iq):
        return [result(iq), service.retracted(iq)]

    service.script["retract"] = in_turn(free, relock, done)
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", token=1)
        async with await anext(worker) as item:
            cut(worker)
        assert item.state == "retracted"


async def test_an_item_that_stays_free_after_a_cut_is_lost(service, worker_of):
    service.script["retract"] = in_turn(free, free)
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", token=1)
        item = await anext(worker)
        cut(worker)
        with pytest.raises(LockLost):
            await item.retract()


async def test_the_lock_of_an_item_in_hand_may_be_lost_with_the_connection(service, worker_of):
    async with worker_of() as worker:
        service.deliver(await service.subscriber(), "i1")
        item = await anext(worker)
        cut(worker)
        await service.subscriber()
        service.script["retract"] = lambda iq: [refuse(iq, "conflict")]
        with pytest.raises(LockLost):
            await item.retract()


async def test_what_was_waiting_is_given_back_before_the_next_subscription(service, worker_of):
    async with worker_of(requests=2) as worker:
        jid = await service.subscriber()
        for name in ("begun", "waiting"):
            service.deliver(jid, name)
        await anext(worker)
        await service.heard(jid)
        cut(worker)
        assert (await service.next("unavailable")).get("from") == jid
        given_back = await service.next("unlock", "unavailable", "subscribe")
        assert given_back.find(".//{*}item").get("id") == "waiting"
        await service.subscriber()
        service.deliver(jid, "waiting")
        assert (await anext(worker)).id == "waiting"


def subscribed(iq):
    """Say that the bot is subscribed, whatever it has said of itself."""
    inner = "<subscription jid='bot@localhost/one' subscription='subscribed'/>"
    return [answer(iq, f"<pubsub xmlns='{PUBSUB}'><subscriptions>{inner}</subscriptions></pubsub>")]


def nobody(iq):
    return [answer(iq, f"<pubsub xmlns='{PUBSUB}'><subscriptions/></pubsub>")]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        pytest.param([nobody], [], id="there was none"),
        pytest.param([subscribed, nobody], [], id="its server has told"),
        pytest.param([subscribed, subscribed, nobody], ["unavailable"], id="nobody has told"),
        pytest.param([subscribed] * 3, ["unavailable"], id="the node keeps subscriptions"),
        pytest.param(
            [lambda iq: [refuse(iq, "service-unavailable")]], ["unavailable"], id="not known"
        ),
        pytest.param(
            [lambda iq: [refuse(iq, "resource-constraint")], nobody], [], id="cannot say now"
        ),
    ],
)
async def test_an_earlier_session_is_at_its_end_before_the_subscription(
    service, worker_of, answers, said
):
    """It may have left locks that nobody knows of; its end must not be taken for the end of the new one."""
    service.script["subscriptions"] = in_turn(*answers)
    async with worker_of(timings={"backoff_min": 0.01}):
        words = ("unavailable", "subscribe", "available")
        heard = [verb_of(await service.next(*words)) for _ in range(len(said) + 2)]
        assert heard == [*said, "subscribe", "available"]


async def test_it_subscribes_again_after_a_long_silence(service, worker_of):
    async with worker_of(timings={"refresh": 0.05}):
        await service.subscriber()
        await service.subscriber()


async def test_it_waits_for_a_service_that_goes_away(service, worker_of):
    async with worker_of(timings={"refresh": 0.05}) as worker:
        await service.subscriber()
        service.script["subscribe"] = lambda iq: [refuse(iq, "remote-server-timeout")]
        await service.next("subscribe")
        await service.next("subscribe")
        service.script["subscribe"] = service.subscribed
        await service.subscriber()
        service.deliver(worker.jid, "i1")
        await anext(worker)


async def test_it_comes_back_after_the_server_was_restarted(worker_of):
    async with Prosody() as server:
        await server.account("bot", "secret")
        worker = worker_of(port=server.c2s_port)
        async with QueueService(server.component_port, server.secret) as before:
            await worker.__aenter__()
            await before.subscriber()
        await server.restart()
        async with QueueService(server.component_port, server.secret) as after:
            after.deliver(await after.subscriber(), "i1")
            async with await anext(worker) as item:
                pass
            assert item.state == "retracted"
            await worker.__aexit__(None, None, None)


async def test_a_server_that_is_mute_is_left_and_found_again(worker_of):
    """A half-open connection is never reported; here the server stands still."""
    timings = {"refresh": 0.05, "answer": 0.5, "login": 2}
    async with Prosody() as server, QueueService(server.component_port, server.secret) as service:
        await server.account("bot", "secret")
        async with worker_of(port=server.c2s_port, timings=timings) as worker:
            await service.subscriber()
            os.kill(server.pid, signal.SIGSTOP)
            await has_noticed_the_cut(session_of(worker))
            os.kill(server.pid, signal.SIGCONT)
            await service.next("unavailable")
            service.deliver(await service.subscriber(), "i1")
            await anext(worker)


async def test_a_second_login_under_the_same_full_jid_ends_the_first(service, worker_of):
    async with worker_of() as first, worker_of():
        with pytest.raises(Replaced, match="Another client has logged in as bot@localhost/one"):
            await anext(first)


async def test_a_deleted_node_ends_the_iteration(service, worker_of):
    async with worker_of() as worker:
        deleted = service.event(worker.jid, "").replace("items", "delete")
        service.send(deleted)
        with pytest.raises(NoSuchNode, match=r"The node 'jobs' at queue\.localhost was deleted"):
            await anext(worker)


async def test_the_subscription_refused_after_a_reconnect_ends_the_iteration(service, worker_of):
    async with worker_of() as worker:
        await service.subscriber()
        service.script["subscribe"] = lambda iq: [refuse(iq, "item-not-found")]
        cut(worker)
        with pytest.raises(NoSuchNode):
            await anext(worker)


async def test_stopping_unsubscribes_then_unlocks_what_was_not_begun(service, worker_of):
    async with worker_of(requests=3) as worker:
        for name in ("begun", "waiting", "waiting too"):
            service.deliver(worker.jid, name)
        item = await anext(worker)
        await service.heard(worker.jid)
        worker.stop()
        await service.next("unsubscribe")
        for name in ("waiting", "waiting too"):
            assert (await service.next("unlock")).find(".//{*}item").get("id") == name
        service.deliver(worker.jid, "late")
        assert (await service.next("unlock")).find(".//{*}item").get("id") == "late"
        with pytest.raises(StopAsyncIteration):
            await anext(worker)
        await item.retract()
    assert (await service.next("unavailable")).get("from") == "bot@localhost/one"


async def test_a_worker_that_drains_does_not_subscribe_after_a_reconnect(service, worker_of):
    async with worker_of(timings={"refresh": 0.05}) as worker:
        service.deliver(await service.subscriber(), "i1")
        item = await anext(worker)
        worker.stop()
        await service.next("unsubscribe")
        cut(worker)
        await service.next("unavailable")
        await item.retract()
        asked = await service.next("subscribe", "retract")
        assert asked.find(".//{*}item").get("id") == "i1"
    assert (await service.next("subscribe", "unavailable")).get("type") == "unavailable"


async def test_the_answer_of_a_server_without_the_service_says_nothing_of_its_features(
    service, worker_of
):
    """A server that was restarted has the worker back before the service."""
    answers = [lambda iq: [refuse(iq, "remote-server-timeout")], service.script["query"]]

    def answer_in_turn(iq):
        return answers.pop(0)(iq)

    service.script["query"] = answer_in_turn
    async with worker_of() as worker:
        assert session_of(worker).extended
    assert answers == []


async def test_a_worker_of_no_items_is_not_subscribed_until_it_takes_some_again(service, worker_of):
    async with worker_of(requests=2) as worker:
        jid = await service.subscriber()
        service.deliver(jid, "a")
        item = await anext(worker)
        await worker.resize(0)
        await service.next("unsubscribe")
        cut(worker)
        await has_noticed_the_cut(session_of(worker))
        await session_of(worker).ready()
        assert not [verb for verb, _ in service.seen if verb == "subscribe"]
        await worker.resize(3)
        again = await service.next("subscribe")
        assert again.findtext(".//{*}field[@var='pubsub#queue_requests']/{*}value") == "3"
        await worker.resize(3)
        assert not [verb for verb, _ in service.seen if verb == "subscribe"]
        assert item.state == "in hand"
        await item.unlock()
    with pytest.raises(ValueError, match="requests is -1; it takes a whole number, 0 or more"):
        await worker.resize(-1)


async def test_draining_waits_for_what_is_in_hand(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        drained = asyncio.create_task(worker.drain())
        await service.next("unsubscribe")
        assert not drained.done()
        await item.retract()
        await drained


async def test_draining_ends_with_the_grace(service, worker_of):
    async with worker_of(grace=0.05) as worker:
        service.deliver(worker.jid, "i1")
        await anext(worker)
        await worker.drain()
    assert (await service.next("unlock")).find(".//{*}item").get("id") == "i1"
    await service.next("unavailable")


async def test_run_retracts_what_returns_and_unlocks_what_raises(service, worker_of):
    async def handler(item):
        if item.id == "bad":
            raise ZeroDivisionError

    worker = worker_of()
    running = asyncio.create_task(worker.run(handler))
    jid = await service.subscriber()
    service.deliver(jid, "bad")
    service.deliver(jid, "good")
    assert (await service.next("unlock")).find(".//{*}item").get("id") == "bad"
    assert (await service.next("retract")).find(".//{*}item").get("id") == "good"
    await worker.drain()
    await running


async def test_run_bounds_the_handlers_at_work(service, worker_of):
    at_work, most, go = 0, 0, asyncio.Event()

    async def handler(item):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await go.wait()
        at_work -= 1

    worker = worker_of(requests=5)
    running = asyncio.create_task(worker.run(handler, concurrency=2))
    jid = await service.subscriber()
    for n in range(5):
        service.deliver(jid, f"i{n}")
    await service.heard(jid)
    go.set()
    for _ in range(5):
        await service.next("retract")
    await worker.drain()
    await running
    assert most == 2


async def test_memory_does_not_grow_with_what_was_done(service, worker_of):
    """The first thousand items pay for all that is made once; the next two thousand are free, at one of three tries.

    Other threads of the process may take memory meanwhile, but not each time.
    """
    kept, done, over = [], 0, asyncio.Event()

    def grows():
        return all(later - before >= 100_000 for before, later in pairwise(kept))

    async def handler(item):
        nonlocal done
        done += 1
        if done in (1000, 3000, 5000, 7000):
            gc.collect()
            kept.append(tracemalloc.get_traced_memory()[0])
            if done == 7000 or not grows():
                over.set()

    def next_one(iq):
        service.seen.clear()
        service.deliver(iq.get("from"), f"again {done}")
        return [result(iq), service.retracted(iq)]

    service.script["retract"] = next_one
    worker = worker_of(requests=20)
    running = asyncio.create_task(worker.run(handler))
    jid = await service.subscriber()
    tracemalloc.start()
    try:
        for n in range(20):
            service.deliver(jid, f"i{n}")
        await over.wait()
    finally:
        tracemalloc.stop()
    await worker.drain()
    await running
    assert not grows()


async def for_ever(item):
    await asyncio.Event().wait()


async def test_run_cancels_and_unlocks_what_outlasts_the_grace(service, worker_of):
    worker = worker_of(grace=0.05)
    running = asyncio.create_task(worker.run(for_ever))
    service.deliver(await service.subscriber(), "i1")
    await service.heard(worker.jid)
    worker.stop()
    assert (await service.next("unlock")).find(".//{*}item").get("id") == "i1"
    await running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_is_left_as_it_was_found(service, worker_of, number):
    before = signal.getsignal(number)
    done = []
    worker = worker_of(signals=(number,), requests=2)

    async def handler(item):
        os.kill(os.getpid(), number)
        await service.next("unsubscribe")
        done.append(item.id)

    running = asyncio.create_task(worker.run(handler, concurrency=1))
    jid = await service.subscriber()
    service.deliver(jid, "i1")
    service.deliver(jid, "i2")
    await running
    assert done == ["i1"]
    assert (await service.next("unlock")).find(".//{*}item").get("id") == "i2"
    assert signal.getsignal(number) in (before, signal.SIG_DFL, signal.default_int_handler)


async def test_a_signal_is_heeded_as_soon_as_the_subscription_stands(service, worker_of):
    class AtOnce(logging.Handler):
        def emit(self, record):
            if "worker.subscribed" in record.getMessage():
                os.kill(os.getpid(), signal.SIGTERM)

    logger, handler = logging.getLogger("pubqueue_xeps"), AtOnce(logging.INFO)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        async with asyncio.timeout(TIMEOUT):
            await worker_of(signals=(signal.SIGTERM,)).run(never)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    await service.next("unsubscribe")


async def never(_item):
    raise AssertionError("nothing was published")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"requests": 0}, "requests is 0; it takes a whole number, 1 or more"),
        ({"requests": "10"}, "requests is '10'; it takes a whole number"),
        ({"grace": float("nan")}, "grace is nan; it takes seconds"),
        ({"touch_for": -1}, "touch_for is -1; it takes seconds"),
        ({"timings": {"answer": "5"}}, "answer is '5'; it takes seconds"),
        ({"node": ""}, "needs the name of a node"),
        ({"service": "@"}, "'@' is not a JID"),
        ({"jid": "@"}, "'@' is not a JID"),
    ],
)
async def test_wrong_settings_are_refused_with_a_sentence(worker_of, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        worker_of(**settings)


async def test_a_worker_that_was_not_entered_raises_an_error(worker_of):
    with pytest.raises(RuntimeError, match="enter it with `async with`"):
        await anext(worker_of())
