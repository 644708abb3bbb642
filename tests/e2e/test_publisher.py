"""Publishing, follow-ups and replies on the real component, behind Prosody and behind ejabberd, killed in the middle."""

import asyncio
import os
import signal
import sys
import threading
from collections import Counter
from contextlib import asynccontextmanager

import msgspec
import pytest
from harness.batches.inside import close_pipes, connection_keeper, cut, session_of
from harness.patience import LOOK, TIMEOUT, until
from harness.servers.behind import behind_both, serving
from harness.stores.recount import recount

from pubqueue import (
    BlockingPublisher,
    ConfigurationError,
    ItemDead,
    LockLost,
    NewItem,
    NoReply,
    NoSuchNode,
    NotAllPublished,
    Published,
    Publisher,
    QuestionDied,
    Refused,
    Reject,
    Retracted,
    Timings,
    Worker,
)
from pubqueue_xeps.wire.ns import PUBSUB
from pubqueue_xeps.wire.requests import IqRequest

pytestmark = pytest.mark.e2e
QUICK = Timings(answer=1, refresh=2, backoff_min=0.05, backoff_max=0.5)
ONCE = Timings(answer=TIMEOUT)
"""No request is repeated: of one that was, nobody knows which of the two did it."""
NODES = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost", "bot@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#backoff_min" = 0

[[node]]
name = "more"
queueing = true
publishers = ["bot@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#dedup_window" = 600

[[node]]
name = "closed"
queueing = true
"""


server = behind_both("etl", "bot")
program = serving(NODES)


@pytest.fixture
def address(server, monkeypatch):
    """Set the environment, for whoever takes the connection from there."""
    url = f"xmpp://etl@localhost/queue.localhost?host={server.host}&port={server.c2s_port}&tls=off"
    monkeypatch.setenv("PUBQUEUE_URL", url)
    monkeypatch.setenv("PUBQUEUE_PASSWORD", "secret")
    return url


def publisher(**settings):
    return Publisher(**({"timings": QUICK} | settings))


def worker(node="jobs", **settings):
    return Worker("bot@localhost", node=node, **({"signals": (), "timings": QUICK} | settings))


@asynccontextmanager
async def working(handler, **settings):
    bot = worker(**settings)
    async with bot, asyncio.TaskGroup() as group:
        group.create_task(bot.run(handler))
        yield bot
        await bot.drain()


async def test_a_publish_is_confirmed_as_new_or_known(program, address):
    async with publisher(timings=ONCE) as etl:
        assert etl.jid.startswith("etl@localhost/publisher-")
        first = await etl.publish("jobs", {"n": 1}, id="i1")
        assert first == Published("jobs", "i1", duplicate=False)
        again = await etl.publish("jobs", {"n": 1}, id="i1")
        assert again == Published("jobs", "i1", duplicate=True)
        changed = await etl.publish("jobs", {"n": 2}, id="i1")
        assert changed == Published("jobs", "i1", duplicate=False)


async def test_a_dead_item_is_reported(program, address):
    async with publisher(timings=ONCE) as etl, worker() as bot:
        await etl.publish("jobs", 1, id="i1")
        async with await anext(bot):
            raise Reject("there is no such flight")
        reported = await etl.publish("jobs", 1, id="i1")
        assert reported == Published("jobs", "i1", duplicate=True, dead="there is no such flight")
        with pytest.raises(ItemDead, match="there is no such flight"):
            await etl.ask("jobs", 1, id="i1")


async def test_what_is_beside_a_payload_comes_along(program, address):
    async with publisher() as etl:
        await etl.publish("jobs", ["late"], id="late", priority=-1)
        await etl.publish("jobs", ["soon"], id="soon", headers={"trace": "<1>"})
        async with worker() as bot, await anext(bot) as item:
            assert (item.id, item.data, item.headers) == ("soon", ["soon"], {"trace": "<1>"})


async def test_many_are_published_with_one_wait_in_their_order(program, address):
    done = Counter()
    items = [*range(200), NewItem(payload="x", id="mine", headers={"own": "1"})]
    async with publisher(timings=ONCE) as etl:
        results = await etl.publish_many("jobs", items, headers={"for": "all"}, in_flight=50)
        assert [result.duplicate for result in results] == [False] * 201
        assert results[-1].id == "mine"
        assert len({result.id for result in results}) == 201
        ids, order = {result.id: n for n, result in enumerate(results)}, []
        all_done = asyncio.Event()

        async def handle(item):
            done[item.id] += 1
            order.append(ids[item.id])
            assert item.headers == ({"own": "1"} if item.id == "mine" else {"for": "all"})
            if len(done) == 201:
                all_done.set()

        async with working(handle):
            await all_done.wait()
    assert set(done.values()) == {1}
    assert order == sorted(order)


async def test_of_many_the_valid_are_published_and_the_others_reported(program, address):
    async with publisher(timings=ONCE) as etl:
        await etl.publish("jobs", "taken", id="busy")
        async with worker() as bot:
            await anext(bot)
            items = [NewItem(payload=1, id="a"), NewItem(payload=2, id="busy"), object(), 4]
            with pytest.raises(NotAllPublished, match="2 of 4 items were not published") as caught:
                await etl.publish_many("jobs", items)
    good, busy, odd, last = caught.value.results
    assert (good.id, last.duplicate) == ("a", False)
    assert (type(busy), busy.id, busy.node, busy.condition) == (Refused, "busy", "jobs", "conflict")
    assert type(odd) is TypeError


async def test_a_refusal_has_its_facts(program, address):
    async with publisher() as etl:
        with pytest.raises(Refused) as caught:
            await etl.publish("closed", 1, id="i1")
        error = caught.value
        assert (error.condition, error.node, error.id) == ("forbidden", "closed", "i1")
        with pytest.raises(NoSuchNode, match=r"queue\.localhost has no node 'nowhere'") as caught:
            await etl.publish("nowhere", 1)
        assert caught.value.condition == "item-not-found"


async def test_what_is_published_while_the_service_is_killed_is_there_once(program, address):
    """Killed while hundreds are under way; each is confirmed, and each is there once."""
    numbers = range(600)
    got, all_there = Counter(), asyncio.Event()
    half = asyncio.Event()

    async def handle(item):
        got[item.data] += 1
        if len(got) == len(numbers):
            all_there.set()

    def paced():
        for n in numbers:
            if n == 300:
                half.set()
            yield n

    async with publisher() as etl:
        publishing = asyncio.create_task(etl.publish_many("jobs", paced()))
        await half.wait()
        await program.kill()
        await program.start()
        results = await publishing
        assert len(results) == len(numbers)
        async with working(handle, requests=50):
            await all_there.wait()
    assert got == Counter(numbers)


async def test_a_publisher_whose_connection_broke_goes_on(program, address):
    async with publisher() as etl:
        await etl.publish("jobs", 1)
        cut(connection_keeper(etl))
        assert (await etl.publish("jobs", 2)).duplicate is not True


async def test_threads_share_a_blocking_publisher(program, address):
    def work():
        with BlockingPublisher(timings=QUICK) as etl:
            ids = []

            def publish(number):
                ids.append(etl.publish("jobs", number).id)

            threads = [threading.Thread(target=publish, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ids += [one.id for one in etl.publish_many("jobs", range(8, 16))]
            with pytest.raises(NoSuchNode):
                etl.publish("nowhere", 1)
            assert etl.jid.startswith("etl@localhost/")
        etl.close()
        with pytest.raises(RuntimeError, match="not connected"):
            etl.publish("jobs", 1)
        return ids

    ids = await asyncio.to_thread(work)
    assert len(set(ids)) == 16


async def test_a_plain_function_is_a_handler(program, address):
    seen, all_seen = [], threading.Event()
    together = threading.Barrier(2)

    def handle(item):
        together.wait()  # two at a time
        item.publish("more", {"of": item.data})
        item.reply(item.decode(int) + 1)
        assert not item.lock_lost
        assert item.touch() == item.deadline
        seen.append((item.data, item.attempt, item.node))
        if len(seen) == 2:
            all_seen.set()

    bot = worker(requests=2)
    running = asyncio.create_task(asyncio.to_thread(bot.run_blocking, handle))

    def ask(number):
        return blocking.ask("jobs", number).decode(int)

    blocking = BlockingPublisher(timings=QUICK)
    await asyncio.to_thread(blocking.open)
    replies = await asyncio.gather(*(asyncio.to_thread(ask, n) for n in (1, 2)))
    await asyncio.to_thread(all_seen.wait)
    session_of(bot)._client.loop.call_soon_threadsafe(bot.stop)
    await running
    await asyncio.to_thread(blocking.close)
    assert (replies, sorted(seen)) == ([2, 3], [(1, 1, "jobs"), (2, 1, "jobs")])


async def test_a_handler_that_runs_twice_makes_each_follow_up_once(program, address):
    """The second time with another payload for the second of them, which is being worked on."""
    made, over = [], asyncio.Event()
    async with publisher() as etl, worker("more", requests=9) as follower:
        await etl.publish("jobs", 1, id="i1")

        async def handle(item):
            first = await item.publish("more", {"part": 1})
            if item.attempt == 1:
                await (await anext(follower)).retract()  # done before the handler runs again
            second = await item.publish("more", {"part": 2, "attempt": item.attempt})
            if item.attempt == 1:
                held.append(await anext(follower))
            own = await item.publish("more", "by name", id="mine")
            made.append([first, second, own])
            if item.attempt == 1:
                raise ConnectionError
            over.set()

        held = []
        async with working(handle, timings=ONCE):
            await over.wait()
        assert [one.duplicate for one in made[0]] == [False] * 3
        assert [one.duplicate for one in made[1]] == [True] * 3
        assert [one.id for one in made[0]] == [one.id for one in made[1]]
        assert made[0][0].id.startswith("jobs/i1/")
        assert (await anext(follower)).id == "mine"
        assert held[0].data == {"part": 2, "attempt": 1}


async def test_what_is_asked_is_replied(program, address):
    async def handle(item):
        await item.reply({"twice": item.decode(int) * 2})
        await item.reply({"twice": item.decode(int) * 2})

    async with publisher() as etl, working(handle, requests=20):
        replies = await asyncio.gather(*(etl.ask("jobs", n, timeout=30) for n in range(20)))
    assert [reply.data for reply in replies] == [{"twice": 2 * n} for n in range(20)]
    assert {reply.publisher for reply in replies} == {"bot@localhost"}


async def test_no_reply_comes_in_time(program, address):
    async with publisher() as etl:
        with pytest.raises(NoReply, match="ask again with this id") as caught:
            await etl.ask("jobs", 1, id="i1", timeout=0.5)
        assert (caught.value.id, caught.value.node) == ("i1", "jobs")


async def ask_and_go(etl, folder, number, name):
    """Ask, and wait no longer than until the question is in the queue."""
    asking = asyncio.create_task(etl.ask("jobs", number, id=name, timeout=90))
    store = folder / "service" / "pubqueue.db"
    await until(lambda: name in recount(store).of("jobs"), every=LOOK)
    asking.cancel()
    await asyncio.wait([asking])


async def test_a_question_that_dies_is_an_error_at_once_and_after_restarts(
    program, address, tmp_path
):
    async with publisher() as etl, worker() as bot:
        asking = asyncio.create_task(etl.ask("jobs", 1, id="i1", timeout=90))
        async with await anext(bot):
            raise Reject("there is no such flight")
        with pytest.raises(QuestionDied, match="there is no such flight") as caught:
            await asking
        died = caught.value
        assert (died.node, died.id, died.reason) == ("jobs", "i1", "there is no such flight")
        assert (died.attempts, died.failures) == (1, 1)
        await ask_and_go(etl, tmp_path, 2, "i2")
    async with worker() as bot, await anext(bot):
        raise Reject("nor this one")
    await program.kill()
    await program.start()

    def ask_again():
        with BlockingPublisher(timings=QUICK) as blocking:
            for name, reason in (("i1", "there is no such flight"), ("i2", "nor this one")):
                with pytest.raises(QuestionDied, match=reason):
                    blocking.ask("jobs", 3, id=name, timeout=90)

    await asyncio.to_thread(ask_again)


async def test_a_reply_waits_for_an_asker_that_was_away(program, address, tmp_path):
    done, replied = Counter(), asyncio.Event()

    async def handle(item):
        done[item.id] += 1
        await item.reply("done")
        replied.set()

    async with publisher() as etl:
        await ask_and_go(etl, tmp_path, 1, "i1")
    async with working(handle):
        await replied.wait()
        async with publisher() as again:
            for _ in range(2):  # and it is there still, for whoever was killed with it in hand
                assert (await again.ask("jobs", 1, id="i1", timeout=20)).data == "done"
    assert done == {"i1": 1}


async def test_a_reply_node_is_closed_to_others(program, address, server):
    async def handle(item):
        await item.reply("secret")

    async with publisher() as etl, working(handle):
        await etl.ask("jobs", 1, id="i1", timeout=20)
        async with publisher(jid="bot@localhost") as other:
            (replies,) = other._parts().distribution._replies.values()
            replies._node = "replies/etl@localhost"
            with pytest.raises(Refused) as caught:
                await replies._look("jobs/i1")
            assert caught.value.condition in ("closed-node", "forbidden")


ASKED = 60


async def test_killed_in_the_middle_each_question_is_answered_once(program, address, tmp_path):
    """The worker dies by kill -9 behind a reply and before one, the component while a reply is on its way."""
    bot, log, go = tmp_path / "bot.py", tmp_path / "handled", tmp_path / "go"
    bot.write_text(BOT)
    os.mkfifo(go)
    url = address.replace("etl@", "bot@")
    environment = os.environ | {"PUBQUEUE_URL": url, "HANDLED": str(log), "GO": str(go)}

    async def start():
        return await asyncio.create_subprocess_exec(sys.executable, "-I", bot, env=environment)

    def handled():
        return log.read_text().splitlines() if log.exists() else []

    replies = {}

    async def ask(number):
        replies[number] = (await etl.ask("jobs", number, id=f"q{number}", timeout=90)).data

    running = await start()
    try:
        async with publisher() as etl, asyncio.TaskGroup() as asking:
            for number in range(ASKED):
                asking.create_task(ask(number))
            for _ in range(2):
                assert await running.wait() == -signal.SIGKILL
                running = await start()
            await until(lambda: len(handled()) >= 20, every=LOOK)
            await program.kill()
            go.write_text("go")
            await program.start()
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()
        close_pipes(running)
    assert replies == {number: number * number for number in range(ASKED)}
    assert Counter(handled()).most_common(1)[0][1] > 1  # the killed worker's were done again
    async with publisher() as etl:  # each is kept, once
        node = "<items node='replies/etl@localhost'/>"
        kept = await asked(etl, f"<pubsub xmlns='{PUBSUB}'>{node}</pubsub>")
    assert Counter(item.get("id") for item in kept) == Counter(f"jobs/q{n}" for n in range(ASKED))


async def asked(etl, inner):
    line = connection_keeper(etl)
    answer = await line.ask("queue.localhost", IqRequest("get", "the replies", inner), 10)
    return list(answer.iter(f"{{{PUBSUB}}}item"))


BOT = """
import asyncio, os, signal
from pathlib import Path
from pubqueue import Worker, Timings

log, go = Path(os.environ["HANDLED"]), Path(os.environ["GO"])
dying = False  # behind the tenth nothing is done any more, however long its reply takes

async def handle(item):
    global dying
    with log.open("a") as written:
        written.write(f"{item.id}\\n")
    begun = len(log.read_text().splitlines())
    if dying:
        await asyncio.Future()
    dying = begun == 10
    if begun == 15:
        os.kill(os.getpid(), signal.SIGKILL)
    if begun == 20:
        await asyncio.to_thread(go.read_text)  # a pipe: until the test has written
    await item.reply(item.data ** 2)
    if begun == 10:
        os.kill(os.getpid(), signal.SIGKILL)

timings = Timings(answer=1, refresh=2, backoff_min=0.05, backoff_max=0.5)
asyncio.run(Worker(node="jobs", requests=3, timings=timings).run(handle))
"""


async def test_an_asker_that_is_killed_asks_again_and_gets_the_reply_that_waits(
    program, address, tmp_path
):
    requester = tmp_path / "requester.py"
    requester.write_text(REQUESTER)

    async def start():
        return await asyncio.create_subprocess_exec(
            sys.executable, "-I", requester, stdout=asyncio.subprocess.PIPE
        )

    async with worker() as bot:
        killed = await start()
        async with await anext(bot) as item:
            killed.kill()
            await killed.wait()
            close_pipes(killed)
            await item.reply([item.data, item.attempt])
        again = await start()
        said, _ = await asyncio.wait_for(again.communicate(), TIMEOUT)
        assert said == b"[7, 1]\n"
        async with publisher() as etl:
            await etl.publish("jobs", 8, id="last")
        assert (await anext(bot)).id == "last"  # nothing was asked anew


REQUESTER = """
import asyncio
from pubqueue import Publisher

async def main():
    async with Publisher() as publisher:
        print((await publisher.ask("jobs", 7, id="q")).data, flush=True)

asyncio.run(main())
"""


async def test_a_wrong_password_is_one_sentence(program, address, monkeypatch):
    monkeypatch.delenv("PUBQUEUE_PASSWORD")
    with pytest.raises(ConfigurationError, match="There is no password for etl@localhost"):
        publisher()


class Flight(msgspec.Struct):
    number: str
    seats: list[int]


async def test_a_struct_travels(program, address):
    flight = Flight("LH 400", [12, 14])
    async with publisher() as etl, worker() as bot:
        await etl.publish("jobs", flight)
        async with await anext(bot) as item:
            assert item.decode(Flight) == flight
            assert item.data == {"number": "LH 400", "seats": [12, 14]}


async def test_what_waits_is_taken_back_and_is_new_when_it_comes_again(program, address):
    async with publisher(timings=ONCE) as etl:
        await etl.publish("jobs", 1, id="i1", delay=600)
        assert await etl.retract("jobs", "i1") == Retracted("jobs", "i1", there=True, locked=False)
        assert await etl.retract("jobs", "i1") == Retracted("jobs", "i1", there=False, locked=False)
        assert (await etl.publish("jobs", 1, id="i1")).duplicate is False


async def test_a_worker_is_notified_that_its_item_was_retracted(program, address):
    async with publisher(timings=ONCE) as etl, worker() as bot:
        await etl.publish("jobs", 1, id="i1")
        item = await anext(bot)
        assert await etl.retract("jobs", "i1") == Retracted("jobs", "i1", there=True, locked=True)
        async with asyncio.timeout(TIMEOUT):
            await item.lock_lost.wait()
        with pytest.raises(LockLost):
            await item.retract()


async def test_a_refused_retract_has_a_reason(program, address):
    async with publisher() as etl, worker() as bot:
        await etl.publish("jobs", 1, id="i1")
        held = await anext(bot)
        async with publisher(jid="bot@localhost/other") as other:
            with pytest.raises(Refused, match=r"forbidden|conflict") as caught:
                await other.retract("jobs", "i1")
        assert (caught.value.node, caught.value.id) == ("jobs", "i1")
        with pytest.raises(NoSuchNode, match="no node 'nowhere'"):
            await etl.retract("nowhere", "i1")
        await held.retract()


async def test_one_worker_does_the_work_of_several_queues(program, address):
    done = []

    async def handler(item):
        done.append((item.node, item.id))
        if len(done) == 6:
            bot.stop()

    async with (
        publisher() as etl,
        publisher(jid="bot@localhost/etl") as b,
    ):
        for number in range(3):
            await etl.publish("jobs", number, id=f"i{number}")
            await b.publish("more", number, id=f"i{number}")
        bot = worker(node=["jobs", "more"], requests=2)
        async with asyncio.timeout(TIMEOUT):
            await bot.run(handler)
    assert sorted(done) == sorted((node, f"i{n}") for node in ("jobs", "more") for n in range(3))
